//! The scheduler as a process, against a whole API server.

mod binding;
mod extenders;
mod faults;
mod gates;
mod metrics;
mod preemption;
mod replicas;
mod rig;
mod secure;
