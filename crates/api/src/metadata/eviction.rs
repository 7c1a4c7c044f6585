//! Values that say whether, how and in which order pods may be moved away.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta, Time};

use super::{Wire, parse_or, records, words};
use crate::finding::Finding;
use crate::protocol::eviction as key;

/// What moving a pod costs; cheaper ones go first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EvictionCost(pub i32);

impl EvictionCost {
    /// The pod is never moved.
    pub const NEVER: Self = Self(i32::MAX);
}

impl Wire for EvictionCost {
    /// A 32-bit number without plus sign or leading zeros; `-0` is refused too.
    fn parse(text: &str) -> (Option<Self>, Vec<Finding>) {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let is_padded = digits.starts_with('0') && text != "0" || text.starts_with('+');
        let cost = text.parse().ok().filter(|_| !is_padded).map(Self);
        parse_or(text, cost, "a 32-bit number without plus sign or leading zeros", "100")
    }

    fn print(&self) -> String {
        self.0.to_string()
    }
}

words! {
    /// How a pod is taken away.
    #[derive(Default)]
    EvictPolicy {
        #[default]
        Eviction = "Eviction",
        Delete = "Delete",
        /// The pod is only marked; its operator acts.
        SoftEviction = "SoftEviction",
    }
}

records! {
    /// A request to a pod's operator to take it away.
    SoftEviction {
        timestamp: Option<Time>,
        delete_options: Option<DeleteOptions>,
        initiator: String,
        reason: String,
    }

    /// Ours: the agent's word to a pod that it will be evicted, and why.
    EvictionNotice {
        /// The rule, by its gate's name.
        feature: String,
        /// The sum behind it.
        reason: String,
        since: Option<Time>,
        /// Not before this.
        due: Option<Time>,
    }
}

/// May this feature of the agent evict the pod? Without the annotation every
/// feature may; with an unreadable one none may.
pub fn may_evict(pod: &ObjectMeta, feature: &str) -> bool {
    if !key::POLICY.is_present(pod) {
        return true;
    }
    key::POLICY.get(pod).is_some_and(|features| features.iter().any(|allowed| allowed == feature))
}

/// The pod's label counts over the job's, and both over the configuration.
pub fn evict_policy(pod: &ObjectMeta, job: &ObjectMeta, configured: EvictPolicy) -> EvictPolicy {
    key::EVICT_POLICY.get(pod).or_else(|| key::EVICT_POLICY.get(job)).unwrap_or(configured)
}
