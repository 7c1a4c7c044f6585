//! What does the agent tell the cluster about its node?

pub mod node_metric;
