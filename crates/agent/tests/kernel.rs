//! What is read and measured on a real kernel, against what real processes say they used.
//!
//! The same binary runs on this machine and in the guest of `cargo xtask guest`, so that both cgroup
//! versions are met. Without root there is nothing to try, and the tests say so.

#![expect(clippy::unwrap_used, reason = "a test has to stop at the first surprise")]

#[path = "kernel/acting.rs"]
mod acting;
#[path = "kernel/collectors.rs"]
mod collectors;
#[path = "kernel/groups.rs"]
mod groups;
#[path = "kernel/leaving.rs"]
mod leaving;
#[path = "kernel/node.rs"]
mod node;
#[path = "kernel/sandbox.rs"]
mod sandbox;
#[path = "kernel/whole.rs"]
mod whole;
#[path = "kernel/workload.rs"]
mod workload;

/// Leaves the test when there are no control groups to try.
macro_rules! sandbox_or_skip {
    ($name:literal) => {
        match crate::sandbox::Sandbox::new($name) {
            Ok(sandbox) => sandbox,
            Err(reason) => {
                assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "skipped: {reason}");
                println!("skipped: {reason}");
                return;
            }
        }
    };
}
use sandbox_or_skip;

/// Whether a measured amount is the real one, give or take so many percent.
#[track_caller]
fn assert_within(percent: f64, measured: f64, real: f64) {
    let error = (measured / real - 1.0) * 100.0;
    assert!(error.abs() <= percent, "{measured} instead of {real}: {error:+.2} %");
}
