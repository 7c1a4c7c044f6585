//! Where should a pod run? Snapshot in, placement out.
//!
//! A pure engine: no clock, no I/O, no threads. The path of one pod:
//!
//! ```text
//! k8s objects --read--> model --> snapshot (dense columns, change log)
//!                                     |
//!            queue --pop--> cycle ----+--> standing of the pod's class: verdict and score of
//!              ^              |            every node, kept up to date by the change log
//!              |              v
//!              +-- reject <- attempt -> place (assume, reserve, patch)
//! ```
//!
//! Every node is scored for every pod; what makes that cheap is that replicas share a
//! [`Class`](model::Class) and that placing a pod changes one node. [`plugin`] says what a plugin
//! is and how to add one.

pub mod cycle;
pub mod explain;
pub mod framework;
pub mod lap;
pub mod load;
pub mod model;
pub mod numa;
pub mod plugin;
pub mod plugins;
pub mod preempt;
pub mod profile;
pub mod queue;
pub mod read;
pub mod scheduler;
pub mod snapshot;
pub mod standing;
pub mod tie;
pub mod time;
pub mod verdict;

pub use scheduler::Scheduler;
pub use time::Time;
