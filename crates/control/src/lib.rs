//! The processes beside the API server: they watch, plan, write and admit.
//!
//! | module | question |
//! |---|---|
//! | [`leader`] | may this process write? |
//! | [`intake`] | which configuration is in force? |
//! | [`admission`] | may an object be written, and what must be changed first? |
//! | [`caches`] | what does the manager remember of the cluster? |
//! | [`node_metric`] | how is each node measured? |
//! | [`node_slo`] | what is each node's agent told? |
//! | [`node_resource`] | how much of each node is lent out? |

pub mod admission;
pub mod caches;
pub mod instruments;
pub mod intake;
pub mod leader;
pub mod node_metric;
pub mod node_resource;
pub mod node_slo;
mod shared;

pub use shared::{Clock, Shared};
