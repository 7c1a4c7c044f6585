//! The collectors on a fake host, v1 and v2, stepped by hand.

mod faults;
mod gates;
mod rig;
mod soak;
mod usage;
