//! Labels and annotations about moving pods away.

use super::keys;
use crate::metadata::eviction::{EvictPolicy, EvictionCost, EvictionNotice, SoftEviction};

keys! {
    /// `"true"` is needed by the agent's priority-based evictions; the
    /// best-effort ones do not ask.
    label ENABLED: bool = "koordinator.sh/eviction-enabled";
    /// Features that may evict the pod; absent: all, unreadable: none.
    annotation POLICY: Vec<String> = "koordinator.sh/eviction-policy";
    /// Lower first; absent or unreadable: 0.
    annotation PRIORITY: i32 = "koordinator.sh/eviction-priority";
    /// Cheaper first; absent or unreadable: 0.
    annotation COST: EvictionCost = "scheduling.koordinator.sh/eviction-cost";
    annotation SOFT: SoftEviction = "scheduling.koordinator.sh/soft-eviction";
    /// Ours: on a pod that the agent is going to evict, until it leaves or may stay.
    annotation NOTICE: EvictionNotice = "tidepool.io/eviction-notice";
    /// On pods and migration jobs; an unknown value counts as absent.
    label EVICT_POLICY: EvictPolicy = "koordinator.sh/evict-policy";
    /// On migration jobs, as the two below.
    annotation EVICT_REASON: String = "koordinator.sh/evict-reason";
    /// The plugin's name.
    annotation EVICT_TRIGGER: String = "koordinator.sh/evict-trigger";
    /// The descheduler instance's id.
    annotation JOB_CREATED_BY: String = "koordinator.sh/job-created-by";
    /// On migration jobs.
    annotation PASSED_ARBITRATION: bool = "descheduler.koordinator.sh/passed-arbitration";
    /// On pods.
    annotation POD_ARBITRATING: bool = "descheduler.koordinator.sh/pod-arbitrating";
    /// Presence makes a pod evictable.
    annotation FORCE: String = "descheduler.alpha.kubernetes.io/evict";
    /// Kubernetes' own; R: ReplicaSet controller.
    annotation POD_DELETION_COST: i32 = "controller.kubernetes.io/pod-deletion-cost";
    /// The job whose victims belong together.
    label QUESTIONED_OBJECT: String = "scheduling.koordinator.sh/questioned-object-key";
    /// Declared by the reference and read by nobody.
    label TOPOLOGY_KEY_TO_EXPLAIN: String = "scheduling.koordinator.sh/topology-key-to-explain";
}

/// Ours: the condition that goes with [`NOTICE`]; `False` when the pod may stay after all.
pub const NOTICE_CONDITION: &str = "tidepool.io/EvictionNotice";
