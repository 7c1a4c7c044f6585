//! The processes beside the API server: they watch, plan, write and admit.
//!
//! | module | question |
//! |---|---|
//! | [`manager`] | which parts run in a manager, and in which order? |
//! | [`intake`] | which configuration is in force? |
//! | [`admission`] | may an object be written, and what must be changed first? |
//! | [`webhook`] | how do requests reach admission, and answers the API server? |
//! | [`caches`] | what does the manager remember of the cluster? |
//! | [`node_metric`] | how is each node measured? |
//! | [`node_slo`] | what is each node's agent told? |
//! | [`node_resource`] | how much of each node is lent out? |
//! | [`quota_profile`] | how much is a quota tree made of? |
//! | [`colocation_profile`] | which profiles come late to a waiting pod? |
//! | [`scheduler`] | which node does a pod get, and how is it bound once? |

pub mod admission;
pub mod caches;
pub mod colocation_profile;
mod fingerprint;
pub mod instruments;
pub mod intake;
pub mod manager;
pub mod node_metric;
pub mod node_resource;
pub mod node_slo;
pub mod quota_profile;
pub mod scheduler;
mod shared;
pub mod webhook;

pub use reconcile::clock::Clock;
pub use reconcile::write::PATIENCE;
pub use shared::Shared;
