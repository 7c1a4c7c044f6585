//! The node daemon: it collects what a machine does, and reports it to the cluster.

pub mod audit;
pub mod health;
pub mod kubelet;
pub mod metrics;
pub mod object;
pub mod pleg;
pub mod server;
