//! What a pod says about the company of other pods.

use super::labels::Selector;
use super::names::Symbol;

/// Pods that match, within a topology domain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodTerm {
    /// With `matchLabelKeys` and `mismatchLabelKeys` of the pod's own labels merged in.
    pub selector: Selector,
    /// Explicit namespaces; the pod's own when those and the selector are absent.
    pub namespaces: Box<[Symbol]>,
    /// Further namespaces by their labels; an empty selector is all of them.
    pub namespace_selector: Option<Selector>,
    pub topology_key: Symbol,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PreferredPodTerm {
    pub weight: i64,
    pub term: PodTerm,
}

/// `podAffinity` and `podAntiAffinity` of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodAffinity {
    pub required: Box<[PodTerm]>,
    pub preferred: Box<[PreferredPodTerm]>,
    pub anti_required: Box<[PodTerm]>,
    pub anti_preferred: Box<[PreferredPodTerm]>,
}

impl PodAffinity {
    pub fn is_empty(&self) -> bool {
        self.required.is_empty()
            && self.preferred.is_empty()
            && self.anti_required.is_empty()
            && self.anti_preferred.is_empty()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unsatisfiable {
    DoNotSchedule,
    ScheduleAnyway,
}

/// `topologySpreadConstraints` of a pod, one entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpreadConstraint {
    pub max_skew: i64,
    pub topology_key: Symbol,
    pub when: Unsatisfiable,
    /// With `matchLabelKeys` of the pod's own labels merged in.
    pub selector: Selector,
    pub min_domains: i64,
    pub honours_affinity: bool,
    pub honours_taints: bool,
}
