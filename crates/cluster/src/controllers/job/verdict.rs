//! Is the job decided, and is it over?

use k8s_openapi::api::batch::v1::{JobCondition, JobStatus};

use super::{Action, BURST, View, condition, count::Counted};
use crate::controllers::clock::{plus_seconds, stamp};

const SUCCESS: &str = "SuccessCriteriaMet";
const FAILURE: &str = "FailureTarget";

fn find<'a>(status: &'a JobStatus, kind: &str) -> Option<&'a JobCondition> {
    let mut conditions = status.conditions.iter().flatten();
    conditions.find(|condition| condition.type_ == kind && condition.status == "True")
}

/// The condition with which the job has ended.
pub(super) fn ended(status: &JobStatus) -> Option<&JobCondition> {
    find(status, "Complete").or_else(|| find(status, "Failed"))
}

/// Decides, once and for all, and says whether it is decided.
pub(super) fn decide(view: &View<'_>, counted: &mut Counted) -> bool {
    if find(&counted.status, SUCCESS).or_else(|| find(&counted.status, FAILURE)).is_some() {
        return true;
    }
    let decision = if is_beyond_backoff(view, counted) {
        let message = "Job has reached the specified backoff limit";
        Some((FAILURE, "BackoffLimitExceeded", message))
    } else if is_too_late(view, counted) {
        Some((FAILURE, "DeadlineExceeded", "Job was active longer than specified deadline"))
    } else if is_successful(view, counted) {
        Some((SUCCESS, "CompletionsReached", "Reached expected number of succeeded pods"))
    } else {
        None
    };
    let Some((kind, reason, message)) = decision else { return false };
    let condition = condition(kind, reason, message, view.now);
    counted.status.conditions.get_or_insert_default().push(condition);
    true
}

/// Pods that fail count; with `OnFailure`, where containers are restarted in their pods, so do the
/// restarts of those that run.
fn is_beyond_backoff(view: &View<'_>, counted: &Counted) -> bool {
    let limit = view.spec.backoff_limit.unwrap_or(6);
    if counted.failed > limit {
        return true;
    }
    let spec = view.spec.template.spec.as_ref();
    if spec.and_then(|spec| spec.restart_policy.as_deref()) != Some("OnFailure") {
        return false;
    }
    let statuses = view.active.iter().filter_map(|pod| pod.status.as_ref()).flat_map(|status| {
        let own = status.container_statuses.iter().flatten();
        own.chain(status.init_container_statuses.iter().flatten())
    });
    let restarts = statuses.map(|status| status.restart_count).fold(0, i32::saturating_add);
    if limit == 0 { restarts > 0 } else { restarts >= limit }
}

/// The clock runs from the start, or from the last time the job was resumed.
fn is_too_late(view: &View<'_>, counted: &Counted) -> bool {
    deadline(view, counted).is_some_and(|deadline| deadline <= view.now)
}

pub(super) fn deadline(view: &View<'_>, counted: &Counted) -> Option<jiff::Timestamp> {
    if view.is_suspended() {
        return None;
    }
    let start = counted.status.start_time.as_ref()?;
    Some(plus_seconds(start.0, view.spec.active_deadline_seconds?))
}

fn is_successful(view: &View<'_>, counted: &Counted) -> bool {
    let is_enough = match view.spec.completions {
        Some(completions) => counted.succeeded >= completions,
        // Any success says that the work is done; the others only finish.
        None => counted.succeeded > 0,
    };
    is_enough && view.active.is_empty()
}

/// Pods of a failed job are stopped; a successful one has none left.
pub(super) fn stop(view: &View<'_>, counted: &Counted) -> Option<Action> {
    find(&counted.status, FAILURE)?;
    let running: Vec<_> = view.active.iter().take(BURST).map(|pod| (*pod).clone()).collect();
    Some(Action::Stop(running)).filter(|_| !view.active.is_empty() && view.observed.is_current)
}

/// Ends the job when the last pod is gone and counted.
pub(super) fn conclude(view: &View<'_>, counted: &mut Counted) -> bool {
    if !view.active.is_empty() || !view.leaving.is_empty() || counted.uncounted() {
        return false;
    }
    let status = &mut counted.status;
    let (kind, decided) = match (find(status, FAILURE), find(status, SUCCESS)) {
        (Some(failure), _) => ("Failed", failure),
        (None, Some(success)) => ("Complete", success),
        (None, None) => return false,
    };
    let reason = decided.reason.clone().unwrap_or_default();
    let message = decided.message.clone().unwrap_or_default();
    let end = condition(kind, &reason, &message, view.now);
    if kind == "Complete" {
        status.completion_time = Some(stamp(view.now));
    }
    status.conditions.get_or_insert_default().push(end);
    true
}
