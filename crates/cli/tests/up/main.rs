//! One machine, as a person uses it: start, apply, look, crash, start again, stop.

mod hollow;
mod kubectl;
mod pods;
mod restart;
mod rig;
mod state;
mod unprivileged;
