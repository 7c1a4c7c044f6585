//! How does one process answer like a Kubernetes API server?
//!
//! Objects live in [`store`]: one global revision, a history that watches
//! resume from, and an embedded database that has every acknowledged write.
//! [`http`] speaks the protocol: what is served, to whom, and in which words.
//! What an object looks like and what a change makes of it is the crate `objects`.

pub mod http;
pub mod store;
