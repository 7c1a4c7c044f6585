//! Do the controllers and the API server make a cluster together?

mod conformance;
mod ends;
mod rig;
mod workloads;
