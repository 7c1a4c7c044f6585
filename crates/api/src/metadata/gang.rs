//! Which gang does a pod belong to, and what does the gang ask for?

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use units::GoDuration;

use super::{records, words};
use crate::finding::Finding;
use crate::protocol::gang as key;

/// A gang's identity, printed as `namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GangId {
    pub namespace: String,
    pub name: String,
}

impl fmt::Display for GangId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The gang a pod belongs to: the PodGroup label, then the old label, then the annotation.
pub fn gang_of(pod: &ObjectMeta) -> Option<GangId> {
    let names = [key::POD_GROUP.raw(pod), key::OLD_NAME.raw(pod), key::NAME.raw(pod)];
    let name = names.into_iter().flatten().find(|name| !name.is_empty())?;
    Some(GangId { namespace: pod.namespace.clone().unwrap_or_default(), name: name.to_owned() })
}

/// The smallest number of pods that may start, as a pod states it.
/// Unreadable or missing keeps an annotated gang from starting at all.
pub fn min_available(pod: &ObjectMeta) -> (Option<i32>, Vec<Finding>) {
    let (stated, findings) = key::MIN_AVAILABLE.read(pod);
    if stated.is_some() || key::MIN_AVAILABLE.is_present(pod) {
        return (stated, findings);
    }
    key::OLD_MIN_AVAILABLE.read(pod)
}

/// What a gang asks for besides its minimum, with defaults for what is
/// missing or unreadable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GangOptions {
    /// At least the minimum.
    pub total: i32,
    /// `None`: as the scheduler's configuration says, 600 s unless changed.
    pub waiting_time: Option<GoDuration>,
    pub mode: GangMode,
    /// `None`: as the scheduler's configuration says, once-satisfied unless changed.
    pub match_policy: Option<GangMatchPolicy>,
    /// Gangs that start together, as `namespace/name`; empty means this gang alone.
    pub groups: Vec<String>,
}

/// Reads the annotations of a pod or PodGroup whose gang needs `min` pods.
pub fn options(meta: &ObjectMeta, min: i32) -> (GangOptions, Vec<Finding>) {
    let (total, mut findings) = key::TOTAL_NUMBER.read(meta);
    let mut take = |found: Vec<Finding>| findings.extend(found);
    let (waiting_time, found) = key::WAITING_TIME.read(meta);
    take(found);
    let (mode, found) = key::MODE.read(meta);
    take(found);
    let policy = if key::MATCH_POLICY.is_present(meta) {
        key::MATCH_POLICY.read(meta)
    } else {
        key::MATCH_POLICY_ALIAS.read(meta)
    };
    take(policy.1);
    let (groups, found) = key::GROUPS.read(meta);
    take(found);
    let options = GangOptions {
        total: total.unwrap_or(min).max(min),
        waiting_time: waiting_time.filter(|time| !time.is_zero() && !time.is_negative()),
        mode: mode.unwrap_or_default(),
        match_policy: policy.0,
        groups: groups.unwrap_or_default(),
    };
    (options, findings)
}

words! {
    /// What happens to a gang's other pods when one cannot be placed.
    #[derive(Default)]
    GangMode {
        /// All of them are turned away.
        #[default]
        Strict = "Strict",
        /// They keep what they have.
        NonStrict = "NonStrict",
    }
}

words! {
    /// Which pods count towards a gang's minimum.
    #[derive(Default)]
    GangMatchPolicy {
        OnlyWaiting = "only-waiting",
        WaitingAndRunning = "waiting-and-running",
        /// Any, once the minimum was reached.
        #[default]
        OnceSatisfied = "once-satisfied",
    }
}

records! {
    /// How close a gang's pods must be on the network.
    NetworkTopologySpec { gather_strategy: Vec<GatherStrategy> }

    GatherStrategy { layer: String, strategy: Option<Gather>, pod_count_multiple: Option<i32> }
}

words! {
    Gather { Must = "MustGather", Prefer = "PreferGather" }
}
