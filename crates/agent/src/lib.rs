//! The node daemon: it collects what a machine does, and reports it to the cluster.

pub mod collect;
pub mod predict;
pub mod report;
pub mod series;
pub mod view;
