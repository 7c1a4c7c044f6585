//! What does a pod's status say, in the words controllers use?

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};

use super::clock::plus_seconds;

/// Facts about a pod that controllers ask for.
pub(crate) trait PodFacts {
    fn phase(&self) -> &str;
    fn condition(&self, kind: &str) -> Option<&PodCondition>;
    /// The node the pod is bound to.
    fn node(&self) -> Option<&str>;
    fn is_terminating(&self) -> bool;

    fn is_finished(&self) -> bool {
        matches!(self.phase(), "Succeeded" | "Failed")
    }

    fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(|condition| condition.status == "True")
    }

    fn ready_since(&self) -> Option<Timestamp> {
        let ready = self.condition("Ready").filter(|condition| condition.status == "True")?;
        ready.last_transition_time.as_ref().map(|time| time.0)
    }

    /// When a ready pod becomes, or became, available; `None` for one that is not ready.
    fn available_from(&self, min_ready_seconds: i32) -> Option<Timestamp> {
        if !self.is_ready() {
            return None;
        }
        if min_ready_seconds == 0 {
            return Some(Timestamp::MIN);
        }
        self.ready_since().map(|since| plus_seconds(since, min_ready_seconds.into()))
    }

    fn is_available(&self, min_ready_seconds: i32, now: Timestamp) -> bool {
        self.available_from(min_ready_seconds).is_some_and(|from| from <= now)
    }
}

impl PodFacts for Pod {
    fn phase(&self) -> &str {
        self.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
    }

    fn condition(&self, kind: &str) -> Option<&PodCondition> {
        let conditions = self.status.as_ref()?.conditions.as_ref()?;
        conditions.iter().find(|condition| condition.type_ == kind)
    }

    fn node(&self) -> Option<&str> {
        self.spec.as_ref()?.node_name.as_deref().filter(|node| !node.is_empty())
    }

    fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

/// Is the pod still meant to run?
pub(crate) fn is_active(pod: &Pod) -> bool {
    !pod.is_finished() && !pod.is_terminating()
}

/// Is the pod on its way out, and not finished yet?
pub(crate) fn is_leaving(pod: &Pod) -> bool {
    !pod.is_finished() && pod.is_terminating()
}

/// When the next of the ready pods becomes available, if one is still waiting for it.
pub(crate) fn next_available<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    min_ready_seconds: i32,
    now: Timestamp,
) -> Option<Timestamp> {
    pods.into_iter()
        .filter_map(|pod| pod.available_from(min_ready_seconds))
        .filter(|from| *from > now)
        .min()
}

/// The pod's conditions with one of them set; its time moves only when its status does.
pub(crate) fn with_condition(pod: &Pod, mut condition: PodCondition) -> Vec<PodCondition> {
    let mut conditions =
        pod.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    match conditions.iter_mut().find(|old| old.type_ == condition.type_) {
        Some(old) => {
            if old.status == condition.status {
                condition.last_transition_time = old.last_transition_time.take();
            }
            *old = condition;
        }
        None => conditions.push(condition),
    }
    conditions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::fixture::{NOW, ago, pod};

    #[test]
    fn available_is_ready_for_long_enough() {
        let cases = [
            ("not ready", pod("a").running(), 0, false),
            ("ready, no wait asked", pod("a").ready_since(NOW), 0, true),
            ("ready, but too short", pod("a").ready_since(ago(9)), 10, false),
            ("ready for exactly as long", pod("a").ready_since(ago(10)), 10, true),
            ("ready for longer", pod("a").ready_since(ago(11)), 10, true),
        ];
        for (name, pod, min_ready, want) in cases {
            assert_eq!(pod.build().is_available(min_ready, NOW), want, "{name}");
        }
    }

    #[test]
    fn the_next_to_become_available_is_the_one_ready_longest() {
        let pods = [20, 4, 7].map(|seconds| pod("a").ready_since(ago(seconds)).build());
        let next = next_available(&pods, 10, NOW);
        assert_eq!(next, Some(plus_seconds(NOW, 3)));
        assert_eq!(next_available(&pods, 0, NOW), None);
    }

    #[test]
    fn a_condition_keeps_its_time_while_its_status_stays() {
        let ready = pod("a").ready_since(ago(50)).build();
        let set = |status: &str| PodCondition {
            type_: "Ready".into(),
            status: status.into(),
            last_transition_time: Some(crate::controllers::clock::stamp(NOW)),
            ..PodCondition::default()
        };
        let time = |conditions: Vec<PodCondition>| {
            assert_eq!(conditions.len(), 1);
            conditions[0].last_transition_time.as_ref().map(|time| time.0)
        };
        assert_eq!(time(with_condition(&ready, set("True"))), Some(ago(50)));
        assert_eq!(time(with_condition(&ready, set("False"))), Some(NOW));
    }
}
