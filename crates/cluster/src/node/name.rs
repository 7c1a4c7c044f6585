//! Names this node puts on API objects.

/// Annotation of a Node: which control group interface its pods are in.
pub(crate) const CGROUP: &str = "tidepool.io/cgroup";
/// Annotation of a Node: what it cannot do for its pods.
pub(crate) const MISSING: &str = "tidepool.io/missing";
/// Condition of a Node: are pods held to their requests and limits?
pub const ISOLATION: &str = "tidepool.io/Isolation";
