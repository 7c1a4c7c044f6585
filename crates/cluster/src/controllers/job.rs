//! Which pods does a job still need, and how did it end?
//!
//! Every call counts first and acts then:
//!
//! 1. **count** (`count`): each pod carries a finalizer until the job has counted it, so no result
//!    is lost however pods disappear. A finished pod's id goes into `uncountedTerminatedPods`,
//!    then its finalizer goes, then its id turns into a number. Every step is one write with a
//!    precondition; repeating one after a crash counts nothing twice.
//! 2. **verdict** (`verdict`): enough successes, too many failures, or too late. The decision is
//!    written down at once (`SuccessCriteriaMet`, `FailureTarget`) and becomes final (`Complete`,
//!    `Failed`) when the last pod is gone and counted.
//! 3. **manage** (`manage`): without a verdict, pods are created or deleted until as many run as
//!    are wanted:
//!
//! ```text
//! wanted = min(parallelism, completions - succeeded)
//! ```
//!
//! After a failure the next pod waits: ten seconds, doubled with every failure in a row, at most
//! ten minutes. A finished job is deleted `ttlSecondsAfterFinished` later. `podFailurePolicy`,
//! `successPolicy` and `backoffLimitPerIndex` are not read.

mod count;
mod indexes;
mod manage;
mod reconcile;
#[cfg(test)]
mod tests;
mod verdict;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    batch::v1::{Job, JobCondition, JobSpec, JobStatus},
    core::v1::Pod,
};

pub(crate) use self::{indexes::Indexes, reconcile::Jobs};
use super::{
    clock::{plus_seconds, stamp},
    key::has_finalizer,
    pod::{is_active, is_leaving},
};
use crate::well_known::{JOB_COMPLETION_INDEX, JOB_TRACKING};

/// How many pods are created, deleted or counted in one go.
const BURST: usize = 500;
const FIRST_PAUSE: SignedDuration = SignedDuration::from_secs(10);
const LAST_PAUSE: SignedDuration = SignedDuration::from_mins(10);

/// What one decision looks at.
#[derive(Debug)]
pub(crate) struct Observed<'a> {
    pub(crate) job: &'a Job,
    /// All pods of the job.
    pub(crate) pods: &'a [Arc<Pod>],
    /// What is remembered of earlier failures.
    pub(crate) streak: Streak,
    /// Has the cache seen everything that was done for this job?
    pub(crate) is_current: bool,
}

/// Failures in a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Streak {
    pub(crate) failures: u32,
    pub(crate) last: Timestamp,
}

impl Streak {
    /// When the next pod may be created.
    fn over_at(&self) -> Timestamp {
        let Some(doublings) = self.failures.checked_sub(1) else { return Timestamp::MIN };
        let pause = FIRST_PAUSE.checked_mul(2i32.saturating_pow(doublings.min(10)));
        let pause = pause.unwrap_or(LAST_PAUSE).min(LAST_PAUSE);
        plus_seconds(self.last, pause.as_secs())
    }
}

/// What happens to pods.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    /// One pod each; with its index if the job is Indexed.
    Create(Vec<Option<i32>>),
    /// Pods that are not wanted any more; they do not count as failed.
    Withdraw(Vec<Arc<Pod>>),
    /// Pods that run although the job has failed; they count as failed.
    Stop(Vec<Arc<Pod>>),
    /// The job's time after its end is over.
    DeleteJob,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    /// Written first: nothing may happen that is not written down.
    pub(crate) status: JobStatus,
    /// Counted pods that may go.
    pub(crate) release: Vec<Arc<Pod>>,
    pub(crate) action: Option<Action>,
    /// What to remember of failures once the status is written.
    pub(crate) streak: Streak,
    /// When to look again although nothing has happened.
    pub(crate) recheck: Option<Timestamp>,
    pub(crate) why: Why,
}

/// The sum behind a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Why {
    pub(crate) wanted: i32,
    pub(crate) active: i32,
    pub(crate) succeeded: i32,
    pub(crate) failed: i32,
    pub(crate) verdict: Verdict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Undecided,
    Suspended,
    /// The last failure is too recent to try again.
    Pausing,
    /// Decided; pods are still to be counted or to go.
    Ending,
    Ended,
    /// The job itself is on its way out.
    Leaving,
}

/// Everything the steps need, worked out once.
struct View<'a> {
    observed: &'a Observed<'a>,
    spec: JobSpec,
    now: Timestamp,
    active: Vec<&'a Arc<Pod>>,
    leaving: Vec<&'a Arc<Pod>>,
}

impl<'a> View<'a> {
    fn new(observed: &'a Observed<'a>, now: Timestamp) -> Self {
        Self {
            observed,
            spec: observed.job.spec.clone().unwrap_or_default(),
            now,
            active: observed.pods.iter().filter(|pod| is_active(pod)).collect(),
            leaving: observed.pods.iter().filter(|pod| is_leaving(pod)).collect(),
        }
    }

    fn is_indexed(&self) -> bool {
        self.spec.completion_mode.as_deref() == Some("Indexed")
    }

    fn is_suspended(&self) -> bool {
        self.spec.suspend == Some(true)
    }

    /// Are pods replaced only once they have failed, not already when they are told to go?
    fn replaces_only_failed(&self) -> bool {
        self.spec.pod_replacement_policy.as_deref() == Some("Failed")
    }

    fn status(&self) -> JobStatus {
        self.observed.job.status.clone().unwrap_or_default()
    }
}

/// The completion index of an Indexed job's pod.
fn index(pod: &Pod) -> Option<i32> {
    let annotations = pod.metadata.annotations.as_ref()?;
    annotations.get(JOB_COMPLETION_INDEX)?.parse().ok().filter(|index| *index >= 0)
}

fn is_tracked(pod: &Pod) -> bool {
    has_finalizer(&pod.metadata, JOB_TRACKING)
}

/// Does this controller have anything to say about the job?
pub(crate) fn is_managed(job: &Job) -> bool {
    let manager = job.spec.as_ref().and_then(|spec| spec.managed_by.as_deref());
    manager.is_none_or(|manager| manager == "kubernetes.io/job-controller")
}

pub(crate) fn plan(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let view = View::new(observed, now);
    let before = view.status();
    let tracked = || observed.pods.iter().filter(|pod| is_tracked(pod)).cloned();
    if let Some(end) = verdict::ended(&before) {
        return after_the_end(&view, before.clone(), end, tracked().collect());
    }
    let mut counted = count::count(&view);
    if observed.job.metadata.deletion_timestamp.is_some() {
        counted.release = tracked().collect();
        return counted.into_plan(&view, Verdict::Leaving, None, None);
    }
    if verdict::decide(&view, &mut counted) {
        let stop = verdict::stop(&view, &counted);
        let is_over = verdict::conclude(&view, &mut counted);
        let verdict = if is_over { Verdict::Ended } else { Verdict::Ending };
        return counted.into_plan(&view, verdict, stop, None);
    }
    manage::manage(&view, counted)
}

fn after_the_end(
    view: &View<'_>,
    status: JobStatus,
    end: &JobCondition,
    release: Vec<Arc<Pod>>,
) -> Plan {
    let ended = end.last_transition_time.as_ref().map_or(view.now, |time| time.0);
    let expiry =
        view.spec.ttl_seconds_after_finished.map(|seconds| plus_seconds(ended, seconds.into()));
    let is_leaving = view.observed.job.metadata.deletion_timestamp.is_some();
    let is_due = expiry.is_some_and(|expiry| expiry <= view.now) && !is_leaving;
    let why = Why {
        wanted: 0,
        active: super::amount::count(view.active.len()),
        succeeded: status.succeeded.unwrap_or(0),
        failed: status.failed.unwrap_or(0),
        verdict: Verdict::Ended,
    };
    Plan {
        status: status.clone(),
        release,
        action: is_due.then_some(Action::DeleteJob),
        streak: Streak::default(),
        recheck: expiry.filter(|_| !is_due && !is_leaving),
        why,
    }
}

fn condition(kind: &str, reason: &str, message: &str, now: Timestamp) -> JobCondition {
    JobCondition {
        type_: kind.into(),
        status: "True".into(),
        reason: Some(reason.into()),
        message: Some(message.into()),
        last_probe_time: Some(stamp(now)),
        last_transition_time: Some(stamp(now)),
    }
}
