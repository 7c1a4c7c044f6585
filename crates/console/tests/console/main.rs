//! The console over a cluster in this process, and over values.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod http;
mod model;
mod rig;
