//! The agent against an API server in this process, a host made of text, and a kubelet that lies.

mod evictions;
mod gate;
mod host;
mod kernel;
mod kubelet;
mod outages;
mod reports;
mod rig;
mod threads;
