//! What is a Kubernetes object, and what becomes of it when somebody changes it?
//!
//! The API server's half without requests, storage or clock: values in, values out. [`schema`] knows what
//! objects look like: it prunes, defaults and validates. [`patch`] and [`apply`] compute what an object
//! becomes and who owns which of its fields.

pub mod apply;
pub mod patch;
pub mod schema;
