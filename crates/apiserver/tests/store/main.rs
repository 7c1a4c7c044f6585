//! The store from the outside: its rules, its model, its crashes.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod crash;
mod disk;
mod model;
mod random;
mod semantics;
mod start;
mod support;
mod watch;
