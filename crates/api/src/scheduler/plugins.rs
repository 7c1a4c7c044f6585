//! Which plugins are there, at which points do they act, and how much do they weigh?

use crate::metadata::words;

words! {
    /// Where in a pod's way through the scheduler a plugin acts.
    Point {
        PreEnqueue = "preEnqueue",
        QueueSort = "queueSort",
        PreFilter = "preFilter",
        Filter = "filter",
        PostFilter = "postFilter",
        PreScore = "preScore",
        Score = "score",
        Reserve = "reserve",
        Permit = "permit",
        PreBind = "preBind",
        Bind = "bind",
        PostBind = "postBind",
    }
}

/// One plugin that a configuration may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    pub name: &'static str,
    pub points: &'static [Point],
    /// What its score counts when the configuration does not say.
    pub weight: i64,
    /// Part of every profile that does not disable it.
    pub is_default: bool,
    /// One that is not is accepted and left out.
    pub is_implemented: bool,
}

/// Writes the last word of a pod; part of every profile but not of `multiPoint`.
pub const DEFAULT_PRE_BIND: &str = "DefaultPreBind";

use Point::{
    Bind, Filter, Permit, PostBind, PostFilter, PreBind, PreEnqueue, PreFilter, PreScore,
    QueueSort, Reserve, Score,
};

const fn default(name: &'static str, weight: i64, points: &'static [Point]) -> Known {
    Known { name, points, weight, is_default: true, is_implemented: true }
}

const fn custom(name: &'static str, points: &'static [Point]) -> Known {
    Known { name, points, weight: 1, is_default: false, is_implemented: true }
}

const fn missing(name: &'static str, points: &'static [Point]) -> Known {
    Known { name, points, weight: 1, is_default: false, is_implemented: false }
}

/// Defaults in the order in which they run, then all others.
pub const PLUGINS: &[Known] = &[
    default("SchedulingGates", 0, &[PreEnqueue]),
    default("PrioritySort", 0, &[QueueSort]),
    default("NodeUnschedulable", 0, &[Filter]),
    default("NodeName", 0, &[Filter]),
    default("TaintToleration", 3, &[Filter, PreScore, Score]),
    default("NodeAffinity", 2, &[PreFilter, Filter, PreScore, Score]),
    default("NodePorts", 0, &[PreFilter, Filter]),
    default("NodeResourcesFit", 1, &[PreFilter, Filter, PreScore, Score]),
    default("VolumeRestrictions", 0, &[PreFilter, Filter]),
    default("NodeVolumeLimits", 0, &[PreFilter, Filter]),
    default("VolumeBinding", 0, &[PreFilter, Filter, Reserve, PreBind]),
    default("VolumeZone", 0, &[PreFilter, Filter]),
    default("PodTopologySpread", 2, &[PreFilter, Filter, PreScore, Score]),
    default("InterPodAffinity", 2, &[PreFilter, Filter, PreScore, Score]),
    default("DynamicResources", 0, &[PreFilter, Filter]),
    default("DefaultPreemption", 0, &[PreEnqueue, PostFilter]),
    default("NodeResourcesBalancedAllocation", 1, &[PreScore, Score]),
    default("ImageLocality", 1, &[Score]),
    default("DefaultBinder", 0, &[Bind]),
    custom(DEFAULT_PRE_BIND, &[PreBind]),
    custom("LoadAwareScheduling", &[Filter, Score, Reserve]),
    custom("NodeNUMAResource", &[PreFilter, Filter, PreScore, Score, Reserve, PreBind]),
    custom("NodeResourcesFitPlus", &[PreScore, Score]),
    custom("ScarceResourceAvoidance", &[PreScore, Score]),
    custom("SchedulingHint", &[PreFilter]),
    missing(
        "Reservation",
        &[PreFilter, Filter, PostFilter, PreScore, Score, Reserve, PreBind, Bind],
    ),
    missing("DeviceShare", &[PreFilter, Filter, Score, Reserve, PreBind]),
    missing(
        "Coscheduling",
        &[
            PreEnqueue, QueueSort, PreFilter, PostFilter, PreScore, Score, Reserve, Permit,
            PreBind, PostBind,
        ],
    ),
    missing("ElasticQuota", &[PreFilter, PostFilter, Reserve]),
];

impl Known {
    pub fn named(name: &str) -> Option<&'static Self> {
        PLUGINS.iter().find(|known| known.name == name)
    }

    pub fn acts_at(&self, point: Point) -> bool {
        self.points.contains(&point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_only_scores_weigh() {
        let mut names: Vec<&str> = PLUGINS.iter().map(|known| known.name).collect();
        names.sort_unstable();
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
        for known in PLUGINS.iter().filter(|known| known.is_default) {
            assert_eq!(known.weight > 0, known.acts_at(Point::Score), "{}", known.name);
        }
        assert!(Known::named("NodePorts").is_some() && Known::named("nodePorts").is_none());
    }
}
