//! One machine, as a person uses it: start, apply, look, crash, start again, stop.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod console;
mod hollow;
mod kubectl;
mod pods;
mod restart;
mod rig;
mod state;
mod unprivileged;
