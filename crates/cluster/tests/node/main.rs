//! The node against the embedded API server, with real processes.
//!
//! Everything happens below a temporary state directory and, as root, in control groups of the
//! test's own root. Whatever a test leaves behind is ended when its rig is dropped.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod kernel;
mod lifecycle;
mod making;
mod restart;
mod rig;
mod stopping;
