//! The wire: every name and shape that crosses a process boundary.

pub mod finding;
pub mod kind;
pub mod strategy;
