//! How does one process answer like a Kubernetes API server?
//!
//! Objects live in [`store`]: one global revision, a history that watches
//! resume from, and an embedded database that has every acknowledged write.
//! [`schema`] knows what objects look like: it prunes, defaults and validates.

pub mod http;
pub mod schema;
pub mod store;
