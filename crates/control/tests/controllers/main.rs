//! The manager's controllers against the embedded API.

mod faults;
mod life;
mod rig;
