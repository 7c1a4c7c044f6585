//! What turns an API server into a cluster of one machine?
//!
//! Everything here is a plain client of the Kubernetes API: it holds a `kube::Client`, watches,
//! decides and writes, and could run against any other API server as well.
//!
//! | module | does |
//! |---|---|
//! | [`controllers`] | what kube-controller-manager does: replicas, rollouts, jobs, garbage collection, node health |
//! | [`hollow`] | nodes without a machine, thousands of them |
//! | [`node`] | what kubelet does, with processes of this machine as containers |
//! | [`well_known`] | the names that Kubernetes has given a meaning |

pub mod controllers;
pub mod hollow;
pub mod node;
pub mod well_known;
