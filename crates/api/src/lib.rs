//! The wire: every name and shape that crosses a process boundary.

pub mod config;
pub mod document;
pub mod finding;
pub mod json;
pub mod kind;
pub mod shape;
pub mod strategy;
