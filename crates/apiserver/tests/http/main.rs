//! Does the server behave like Kubernetes towards a real client?
//!
//! Each test talks to a server in this process through `kube::Client`, or through plain HTTP where
//! the wire itself is the point.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

mod crash;
mod crud;
mod custom;
mod documents;
mod lifetime;
mod patching;
#[path = "../store/random.rs"]
mod random;
mod rig;
mod shapes;
mod subresources;
mod watching;
mod webhooks;
