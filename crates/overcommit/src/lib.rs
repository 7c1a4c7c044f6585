//! How much of a node can be lent out, and why exactly this much?
//!
//! One function answers it: [`plan`](plan::plan) takes what is known about a node and returns what
//! should be written to it, with every term of every sum. It has no clock and no client; the
//! manager, `tidepool explain` and the simulator call the same one.
//!
//! ```text
//! Node, pods, NodeMetric, topology, Device ──facts──┐
//! slo-controller-config ──────────────── strategy ──┼──> plan ──> what to write, and Why
//! now, last write ──────────────────────────────────┘
//! ```
//!
//! | module | question |
//! |---|---|
//! | [`facts`] | what of an object matters here? |
//! | [`strategy`] | what did the operator ask for? |
//! | [`load`] | what do pods and host applications above batch take? |
//! | [`batch`], [`zone`] | what is left for batch work, on the node and on each NUMA node? |
//! | [`mid`] | what will online pods not need soon? |
//! | [`predict`] | what have online pods needed so far? (the agent trains it, and reports) |
//! | [`normalize`], [`amplify`] | what is a core of this node worth? |
//! | [`device`] | which GPUs and RDMA cards does the node offer? |
//! | [`publish`] | what does the node show, and is a difference worth a write? |
//! | [`mod@plan`] | all of it together |
//! | [`explain`] | the same as lines of a sum |

pub mod amplify;
pub mod batch;
pub mod device;
pub mod explain;
pub mod facts;
pub mod load;
pub mod mid;
pub mod normalize;
pub mod pair;
pub mod plan;
pub mod predict;
pub mod publish;
pub mod strategy;
pub mod zone;

#[cfg(test)]
mod example;
#[cfg(test)]
mod laws;

pub use pair::{Amounts, Pair};
pub use plan::{Inputs, Plan, plan};
pub use strategy::Strategies;
