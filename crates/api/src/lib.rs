//! The wire: every name and shape that crosses a process boundary.

pub mod check;
pub mod config;
pub mod decisions;
pub mod document;
pub mod finding;
pub mod json;
pub mod kind;
pub mod metadata;
pub mod policy;
pub mod priority;
pub mod protocol;
pub mod qos;
pub mod resources;
pub mod scheduler;
pub mod shape;
pub mod strategy;
pub mod why;
