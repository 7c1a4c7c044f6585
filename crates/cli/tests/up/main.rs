//! One machine, as a person uses it: start, apply, look, crash, start again, stop.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod acting;
mod console;
mod evict;
mod hollow;
mod kubectl;
mod pods;
mod restart;
mod rig;
mod scheduling;
mod seen;
mod state;
mod unprivileged;
