//! What does a ReplicaSet say about itself?

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus},
    core::v1::Pod,
};

use super::min_ready_seconds;
use crate::controllers::{amount::count, clock::stamp, pod::PodFacts};

/// Why the number of pods could not be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// `FailedCreate` or `FailedDelete`.
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// The status, from what is there and from what just failed.
pub(crate) fn status(
    set: &ReplicaSet,
    active: &[Arc<Pod>],
    leaving: usize,
    failure: Option<&Failure>,
    now: Timestamp,
) -> ReplicaSetStatus {
    let min_ready = min_ready_seconds(set);
    let counted = |test: &dyn Fn(&Pod) -> bool| {
        Some(count(active.iter().filter(|pod| test(pod)).count())).filter(|count| *count > 0)
    };
    ReplicaSetStatus {
        replicas: count(active.len()),
        fully_labeled_replicas: counted(&|pod| has_template_labels(set, pod)),
        ready_replicas: counted(&|pod| pod.is_ready()),
        available_replicas: counted(&|pod| pod.is_available(min_ready, now)),
        terminating_replicas: Some(count(leaving)),
        observed_generation: set.metadata.generation,
        conditions: conditions(set, failure, now),
    }
}

fn has_template_labels(set: &ReplicaSet, pod: &Pod) -> bool {
    let template = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
    let metadata = template.and_then(|template| template.metadata.as_ref());
    let mut wanted = metadata.into_iter().flat_map(|metadata| metadata.labels.iter().flatten());
    let labels = pod.metadata.labels.as_ref();
    wanted.all(|(key, value)| labels.is_some_and(|labels| labels.get(key) == Some(value)))
}

/// `ReplicaFailure` appears with the first failure and goes with the next success.
fn conditions(
    set: &ReplicaSet,
    failure: Option<&Failure>,
    now: Timestamp,
) -> Option<Vec<ReplicaSetCondition>> {
    let mut conditions =
        set.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let is_failure = |condition: &ReplicaSetCondition| condition.type_ == "ReplicaFailure";
    match failure {
        None => conditions.retain(|condition| !is_failure(condition)),
        Some(_) if conditions.iter().any(is_failure) => {}
        Some(failure) => conditions.push(ReplicaSetCondition {
            type_: "ReplicaFailure".into(),
            status: "True".into(),
            reason: Some(failure.reason.into()),
            message: Some(failure.message.clone()),
            last_transition_time: Some(stamp(now)),
        }),
    }
    Some(conditions).filter(|conditions| !conditions.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::fixture::{NOW, ago, pod, replica_set};

    #[test]
    fn pods_are_counted_by_what_they_have_reached() {
        let mut set = replica_set("web", 4);
        set.metadata.generation = Some(7);
        set.spec.get_or_insert_default().min_ready_seconds = Some(10);
        let pods = [
            pod("a").label("app", "web").ready_since(ago(60)).build(),
            pod("b").label("app", "web").ready_since(ago(5)).build(),
            pod("c").label("app", "other").running().build(),
        ]
        .map(Arc::new);
        let status = status(&set, &pods, 1, None, NOW);
        let counts = (
            status.replicas,
            status.fully_labeled_replicas,
            status.ready_replicas,
            status.available_replicas,
            status.terminating_replicas,
            status.observed_generation,
        );
        assert_eq!(counts, (3, Some(2), Some(2), Some(1), Some(1), Some(7)));
        assert_eq!(status.conditions, None);
    }

    #[test]
    fn a_failure_stays_as_first_seen_until_success() {
        let mut set = replica_set("web", 1);
        let failure = |message: &str| Failure { reason: "FailedCreate", message: message.into() };
        let first = status(&set, &[], 0, Some(&failure("quota")), ago(60));
        let condition = first.conditions.clone().unwrap().remove(0);
        assert_eq!(condition.type_, "ReplicaFailure");
        assert_eq!(condition.reason.as_deref(), Some("FailedCreate"));
        set.status = Some(first.clone());
        let second = status(&set, &[], 0, Some(&failure("other")), NOW);
        assert_eq!(second.conditions, first.conditions);
        assert_eq!(status(&set, &[], 0, None, NOW).conditions, None);
    }
}
