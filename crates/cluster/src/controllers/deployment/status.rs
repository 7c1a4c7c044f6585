//! How many pods has a Deployment, and are they enough?

use k8s_openapi::api::apps::v1::{DeploymentCondition, DeploymentStatus, ReplicaSetStatus};

use super::sets::Rollout;
use crate::controllers::clock::stamp;

pub(super) const AVAILABLE: &str = "Available";

/// The status with all counts and the `Available` condition brought up to date.
pub(super) fn counted(rollout: &Rollout<'_>) -> DeploymentStatus {
    let sum = |field: fn(&ReplicaSetStatus) -> i32| -> i32 {
        let statuses = rollout.sets.iter().filter_map(|set| set.after.status.as_ref());
        statuses.map(field).fold(0, i32::saturating_add)
    };
    let available = sum(|status| status.available_replicas.unwrap_or(0));
    let new = rollout.new_set().and_then(|set| set.after.status.as_ref());
    let mut status = DeploymentStatus {
        observed_generation: rollout.deployment.metadata.generation,
        replicas: positive(sum(|status| status.replicas)),
        updated_replicas: positive(new.map_or(0, |status| status.replicas)),
        ready_replicas: positive(sum(|status| status.ready_replicas.unwrap_or(0))),
        available_replicas: positive(available),
        unavailable_replicas: positive(rollout.total().saturating_sub(available)),
        terminating_replicas: Some(sum(|status| status.terminating_replicas.unwrap_or(0))),
        collision_count: rollout.status.collision_count,
        conditions: rollout.status.conditions.clone(),
    };
    let (is_available, reason, message) = match available >= rollout.limits.fewest() {
        true => ("True", "MinimumReplicasAvailable", "Deployment has minimum availability."),
        false => (
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        ),
    };
    set_condition(&mut status, condition(rollout, AVAILABLE, is_available, reason, message));
    status
}

/// Zero is absent on the wire.
fn positive(count: i32) -> Option<i32> {
    Some(count).filter(|count| *count > 0)
}

/// Are all pods new, and available, and no other pods left?
pub(super) fn is_complete(rollout: &Rollout<'_>, status: &DeploymentStatus) -> bool {
    let wanted = rollout.limits.replicas;
    let generation = rollout.deployment.metadata.generation.unwrap_or(0);
    status.updated_replicas.unwrap_or(0) == wanted
        && status.replicas.unwrap_or(0) == wanted
        && status.available_replicas.unwrap_or(0) == wanted
        && status.observed_generation.unwrap_or(0) >= generation
}

pub(super) fn condition(
    rollout: &Rollout<'_>,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
) -> DeploymentCondition {
    DeploymentCondition {
        type_: kind.into(),
        status: status.into(),
        reason: Some(reason.into()),
        message: Some(message.into()),
        last_update_time: Some(stamp(rollout.now)),
        last_transition_time: Some(stamp(rollout.now)),
    }
}

pub(super) fn find<'a>(
    status: &'a DeploymentStatus,
    kind: &str,
) -> Option<&'a DeploymentCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == kind)
}

/// Sets a condition. One with the same status and reason stays as it is, times included.
pub(super) fn set_condition(status: &mut DeploymentStatus, mut condition: DeploymentCondition) {
    if let Some(old) = find(status, &condition.type_) {
        if old.status == condition.status && old.reason == condition.reason {
            return;
        }
        if old.status == condition.status {
            condition.last_transition_time = old.last_transition_time.clone();
        }
    }
    remove_condition(status, &condition.type_);
    status.conditions.get_or_insert_default().push(condition);
}

pub(super) fn remove_condition(status: &mut DeploymentStatus, kind: &str) {
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|condition| condition.type_ != kind);
    }
    status.conditions.take_if(|conditions| conditions.is_empty());
}
