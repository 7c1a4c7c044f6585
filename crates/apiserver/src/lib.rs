//! How does one process answer like a Kubernetes API server?
//!
//! Objects live in [`store`]: one global revision, a history that watches
//! resume from, and an embedded database that has every acknowledged write.
//! [`schema`] knows what objects look like: it prunes, defaults and validates.
//! [`patch`] and [`apply`] compute what an object becomes and who owns which of its fields.
//! [`http`] speaks the protocol: what is served, to whom, and in which words.

pub mod apply;
pub mod http;
pub mod patch;
pub mod schema;
pub mod store;
