//! What is known of a cluster, and what do people want to know of it?
//!
//! | file | question |
//! |---|---|
//! | [`facts`] | what of each object is kept? |
//! | [`world`] | all facts together |
//! | [`row`] | how is this node? |
//! | [`overview`] | is the cluster safe, and what is it used for? |
//! | [`node`], [`cpus`] | what happens on this node, and who owns its CPUs? |
//! | [`pod`] | how is this pod treated? |
//! | [`decisions`] | what did agents decide, and why? |
//! | [`replay`] | what held at a moment of the past? |
//! | [`config`] | what is configured, and what is wrong with it? |
//! | [`benefit`] | what did sharing bring? |
//! | [`history`] | how was it before? |
//!
//! Everything here is a function of values; the time is an argument.

pub mod benefit;
pub mod config;
pub mod cpus;
pub mod decisions;
pub mod facts;
pub mod history;
pub mod node;
pub mod overview;
pub mod pod;
pub mod replay;
pub mod row;
pub mod world;

pub use facts::{MetricFacts, NodeFacts, PodFacts, PodKey, Usage};
pub use world::World;
