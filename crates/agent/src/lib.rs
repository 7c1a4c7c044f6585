//! The node daemon: it collects what a machine does, and reports it to the cluster.

pub mod act;
pub mod audit;
pub mod clock;
pub mod collect;
pub mod config;
pub mod device;
pub mod evict;
pub mod exposition;
pub mod health;
pub mod kubelet;
pub mod measured;
pub mod node_state;
pub mod object;
pub mod pleg;
pub mod pods;
pub mod predict;
pub mod report;
mod run;
pub mod series;
pub mod server;
pub mod status;
pub mod topology;
pub mod waits;
mod worker;

use host::durable;

pub use config::Config;
pub use run::{RunError, run};
pub use worker::ThreadEnd;
