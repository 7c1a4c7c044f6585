//! What does a StatefulSet say about itself?

use k8s_openapi::api::apps::v1::StatefulSetStatus;

use super::{View, is_running_and_ready};
use crate::controllers::{amount::count, pod::PodFacts};

pub(super) fn status(view: &View<'_>) -> StatefulSetStatus {
    let observed = view.observed;
    let before = observed.set.status.as_ref();
    let created = || view.pods.values().filter(|pod| !pod.phase().is_empty());
    let of = |revision| {
        count(
            created()
                .filter(|pod| !pod.is_terminating() && view.has_revision(pod, revision))
                .count(),
        )
    };
    let updated = of(observed.update);
    let mut status = StatefulSetStatus {
        replicas: count(created().count()),
        ready_replicas: positive(count(created().filter(|pod| is_running_and_ready(pod)).count())),
        available_replicas: Some(count(created().filter(|pod| view.is_available(pod)).count())),
        current_replicas: positive(of(observed.current)),
        updated_replicas: positive(updated),
        current_revision: observed.current.metadata.name.clone(),
        update_revision: observed.update.metadata.name.clone(),
        observed_generation: observed.set.metadata.generation,
        collision_count: Some(before.and_then(|before| before.collision_count).unwrap_or(0)),
        conditions: before.and_then(|before| before.conditions.clone()),
    };
    let wanted = view.replicas();
    let is_rolled_out = updated == wanted
        && status.ready_replicas.unwrap_or(0) == wanted
        && status.replicas == wanted;
    if view.is_rolling() && is_rolled_out {
        status.current_revision = status.update_revision.clone();
        status.current_replicas = status.updated_replicas;
    }
    status
}

/// Zero is absent on the wire.
fn positive(count: i32) -> Option<i32> {
    Some(count).filter(|count| *count > 0)
}
