//! Is a rollout getting anywhere?
//!
//! The `Progressing` condition is what `kubectl rollout status` reads. Its reason goes from
//! `NewReplicaSetCreated` (or `FoundNewReplicaSet`) over `ReplicaSetUpdated`, whenever a count has
//! improved, to `NewReplicaSetAvailable`; or to `ProgressDeadlineExceeded` when nothing has
//! improved for `progressDeadlineSeconds`.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DeploymentCondition, DeploymentStatus};

use super::{
    sets::Rollout,
    status::{condition, find, is_complete, remove_condition, set_condition},
};
use crate::controllers::clock::{plus_seconds, stamp};

const PROGRESSING: &str = "Progressing";
const REPLICA_FAILURE: &str = "ReplicaFailure";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const AVAILABLE: &str = "NewReplicaSetAvailable";

/// Seconds without improvement after which a rollout has failed.
fn deadline(rollout: &Rollout<'_>) -> Option<i32> {
    rollout.spec.progress_deadline_seconds.filter(|seconds| *seconds != i32::MAX)
}

/// The clock of a rollout stands still while it is paused.
pub(super) fn note_pause(rollout: &mut Rollout<'_>) {
    if deadline(rollout).is_none() {
        return;
    }
    let reason = find(&rollout.status, PROGRESSING).and_then(|has| has.reason.clone());
    let (was_paused, is_paused) =
        (reason.as_deref() == Some("DeploymentPaused"), rollout.spec.paused == Some(true));
    if reason.as_deref() == Some(TIMED_OUT) || was_paused == is_paused {
        return;
    }
    let (reason, message) = match is_paused {
        true => ("DeploymentPaused", "Deployment is paused"),
        false => ("DeploymentResumed", "Deployment is resumed"),
    };
    note(rollout, "Unknown", reason, message);
}

pub(super) fn note_found(rollout: &mut Rollout<'_>, set: &str) {
    if deadline(rollout).is_some() && find(&rollout.status, PROGRESSING).is_none() {
        let message = format!("Found new replica set \"{set}\"");
        note(rollout, "True", "FoundNewReplicaSet", &message);
    }
}

pub(super) fn note_created(rollout: &mut Rollout<'_>, set: &str) {
    if deadline(rollout).is_some() {
        let message = format!("Created new replica set \"{set}\"");
        note(rollout, "True", "NewReplicaSetCreated", &message);
    }
}

/// The status after the server has refused the new ReplicaSet.
pub(super) fn refused(rollout: &Rollout<'_>, set: &str, message: &str) -> DeploymentStatus {
    let mut status = super::status::counted(rollout);
    if deadline(rollout).is_some() {
        let message = format!("Failed to create new replica set \"{set}\": {message}");
        let condition = condition(rollout, PROGRESSING, "False", "ReplicaSetCreateError", &message);
        set_condition(&mut status, condition);
    }
    status
}

fn note(rollout: &mut Rollout<'_>, status: &str, reason: &str, message: &str) {
    let condition = condition(rollout, PROGRESSING, status, reason, message);
    set_condition(&mut rollout.status, condition);
}

/// The status with its verdict on the rollout, and when that verdict may change by itself.
pub(super) fn judge(
    rollout: &Rollout<'_>,
    mut status: DeploymentStatus,
) -> (DeploymentStatus, Option<Timestamp>) {
    carry_failure(rollout, &mut status);
    let Some(deadline) = deadline(rollout) else {
        remove_condition(&mut status, PROGRESSING);
        return (status, None);
    };
    let current = find(&status, PROGRESSING).cloned();
    let reason = current.as_ref().and_then(|has| has.reason.as_deref()).unwrap_or_default();
    let is_settled = status.replicas == status.updated_replicas && reason == AVAILABLE;
    if !is_settled {
        pass_verdict(rollout, &mut status, current.as_ref(), deadline);
    }
    let recheck = deadline_of(rollout, &status, deadline);
    (status, recheck)
}

fn pass_verdict(
    rollout: &Rollout<'_>,
    status: &mut DeploymentStatus,
    current: Option<&DeploymentCondition>,
    deadline: i32,
) {
    let subject = match rollout.new_set() {
        Some(set) => format!("ReplicaSet \"{}\"", set.name()),
        None => {
            let name = rollout.deployment.metadata.name.as_deref().unwrap_or_default();
            format!("Deployment \"{name}\"")
        }
    };
    if is_complete(rollout, status) {
        let message = format!("{subject} has successfully progressed.");
        set_condition(status, condition(rollout, PROGRESSING, "True", AVAILABLE, &message));
    } else if has_improved(rollout, status) {
        let message = format!("{subject} is progressing.");
        let mut next = condition(rollout, PROGRESSING, "True", "ReplicaSetUpdated", &message);
        if let Some(current) = current.filter(|current| current.status == "True") {
            next.last_transition_time = current.last_transition_time.clone();
        }
        // Taken out first, so that its update time moves although nothing else may.
        remove_condition(status, PROGRESSING);
        set_condition(status, next);
    } else if is_overdue(current, deadline, rollout.now) {
        let message = format!("{subject} has timed out progressing.");
        set_condition(status, condition(rollout, PROGRESSING, "False", TIMED_OUT, &message));
    }
}

/// Has any count changed for the better since the last status?
fn has_improved(rollout: &Rollout<'_>, after: &DeploymentStatus) -> bool {
    let before = rollout.deployment.status.clone().unwrap_or_default();
    let number = |count: Option<i32>| count.unwrap_or(0);
    let old = |status: &DeploymentStatus| {
        number(status.replicas).saturating_sub(number(status.updated_replicas))
    };
    number(after.updated_replicas) > number(before.updated_replicas)
        || old(after) < old(&before)
        || number(after.ready_replicas) > number(before.ready_replicas)
        || number(after.available_replicas) > number(before.available_replicas)
}

fn is_overdue(current: Option<&DeploymentCondition>, deadline: i32, now: Timestamp) -> bool {
    let Some(current) = current else { return false };
    match current.reason.as_deref() {
        Some(AVAILABLE) => false,
        Some(TIMED_OUT) => true,
        _ => {
            let since = current.last_update_time.as_ref().map_or(now, |time| time.0);
            plus_seconds(since, deadline.into()) < now
        }
    }
}

/// When a rollout that is under way runs out of time; a second late, as times are whole seconds.
fn deadline_of(
    rollout: &Rollout<'_>,
    status: &DeploymentStatus,
    deadline: i32,
) -> Option<Timestamp> {
    let current = find(status, PROGRESSING)?;
    let is_over = matches!(current.reason.as_deref(), Some(AVAILABLE | TIMED_OUT));
    if is_over || is_complete(rollout, status) {
        return None;
    }
    let since = current.last_update_time.clone().unwrap_or_else(|| stamp(rollout.now)).0;
    Some(plus_seconds(since, i64::from(deadline) + 1))
}

/// A ReplicaSet that cannot make its pods is the Deployment's failure too.
fn carry_failure(rollout: &Rollout<'_>, status: &mut DeploymentStatus) {
    let failures = |set: &super::sets::Set| {
        let conditions = set.after.status.as_ref().and_then(|status| status.conditions.clone());
        conditions.into_iter().flatten().find(|condition| condition.type_ == REPLICA_FAILURE)
    };
    let failure =
        rollout.new_set().and_then(failures).or_else(|| rollout.old_sets().find_map(failures));
    match failure {
        None => remove_condition(status, REPLICA_FAILURE),
        Some(failure) => {
            let carried = DeploymentCondition {
                type_: failure.type_,
                status: failure.status,
                reason: failure.reason,
                message: failure.message,
                last_update_time: failure.last_transition_time.clone(),
                last_transition_time: failure.last_transition_time,
            };
            set_condition(status, carried);
        }
    }
}
