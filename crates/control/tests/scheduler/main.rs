//! The scheduler as a process, against a whole API server.

mod binding;
mod faults;
mod preemption;
mod replicas;
mod rig;
