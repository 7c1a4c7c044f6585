//! Who goes first?
//!
//! Lower priority before higher; among equals whoever frees the most. A pod without a sample goes last:
//! nobody knows what its end would free.

use std::cmp::Reverse;

/// A pod that may be sent away, and what that would free.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate<Id> {
    pub id: Id,
    /// The owner's own wish: lower goes first.
    pub eviction_priority: i32,
    pub priority: Option<i32>,
    pub sub_priority: i32,
    /// What its end frees; `None` without a sample.
    pub frees: Option<i64>,
    /// Use in relation to requests, in percent, where that decides among equals.
    pub intensity: Option<i64>,
}

/// Best-effort pods, for their unsatisfied CPU: the one that uses most of its request first. A pod
/// without a priority is nobody's inferior.
pub fn by_intensity<Id: Ord + Clone>(pods: &mut [Candidate<Id>]) {
    pods.sort_by_key(|pod| {
        (pod.priority.unwrap_or(i32::MAX), Reverse(pod.intensity), pod.id.clone())
    });
}

/// Best-effort pods, for memory: the largest first.
pub fn by_size<Id: Ord + Clone>(pods: &mut [Candidate<Id>]) {
    pods.sort_by_key(|pod| {
        (pod.priority.unwrap_or(i32::MAX), pod.frees.is_none(), Reverse(pod.frees), pod.id.clone())
    });
}

/// Pods of any class that agreed to be sent away.
pub fn by_wish<Id: Ord + Clone>(pods: &mut [Candidate<Id>]) {
    pods.sort_by_key(|pod| {
        let priority = pod.priority.unwrap_or_default();
        (pod.eviction_priority, priority, pod.sub_priority, Reverse(pod.frees), pod.id.clone())
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(id: &'static str) -> Candidate<&'static str> {
        Candidate {
            id,
            eviction_priority: 0,
            priority: Some(5_500),
            sub_priority: 0,
            frees: Some(0),
            intensity: None,
        }
    }

    fn ids(pods: &[Candidate<&'static str>]) -> Vec<&'static str> {
        pods.iter().map(|pod| pod.id).collect()
    }

    #[test]
    fn low_priority_then_large() {
        let mut pods = [
            pod("unknown").with(|pod| pod.frees = None),
            pod("small").with(|pod| pod.frees = Some(1)),
            pod("large").with(|pod| pod.frees = Some(9)),
            pod("lowly").with(|pod| pod.priority = Some(5_000)),
        ];
        by_size(&mut pods);
        assert_eq!(ids(&pods), ["lowly", "large", "small", "unknown"]);
    }

    #[test]
    fn low_priority_then_intense() {
        let mut pods = [
            pod("unknown"),
            pod("calm").with(|pod| pod.intensity = Some(10)),
            pod("intense").with(|pod| pod.intensity = Some(90)),
            pod("lowly").with(|pod| pod.priority = Some(5_000)),
            pod("without priority").with(|pod| pod.priority = None),
        ];
        by_intensity(&mut pods);
        assert_eq!(ids(&pods), ["lowly", "intense", "calm", "unknown", "without priority"]);
    }

    #[test]
    fn wishes_come_before_priorities() {
        let mut pods = [
            pod("b").with(|pod| pod.sub_priority = 1),
            pod("a"),
            pod("high").with(|pod| pod.priority = Some(9_000)),
            pod("willing").with(|pod| (pod.eviction_priority, pod.priority) = (-1, Some(9_999))),
            pod("large").with(|pod| pod.frees = Some(7)),
        ];
        by_wish(&mut pods);
        assert_eq!(ids(&pods), ["willing", "large", "a", "b", "high"]);
    }

    impl Candidate<&'static str> {
        fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
            change(&mut self);
            self
        }
    }
}
