//! What do the tests of more than one crate need?
//!
//! [`conformance`] holds the cases that tell a Kubernetes API from something that looks like one,
//! and runs them against any server. [`embedded`] starts our own server on loopback.
//! [`kubectl`] plays sessions of a person with `kubectl`. [`loopback`] serves any service over TLS,
//! for webhooks. [`wait`] waits for what will happen.

pub mod conformance;
pub mod embedded;
pub mod kubectl;
pub mod loopback;
pub mod wait;
