//! Which results are known, and which pods may go?

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::{
    batch::v1::{JobStatus, UncountedTerminatedPods},
    core::v1::Pod,
};

use super::{Action, BURST, Indexes, Plan, Streak, Verdict, View, Why, index, is_tracked};
use crate::controllers::{amount::count as number, clock::stamp, key::uid, pod::PodFacts};

/// The status with all results that are known now.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) status: JobStatus,
    pub(super) release: Vec<Arc<Pod>>,
    pub(super) done: Indexes,
    /// Results, counted and uncounted.
    pub(super) succeeded: i32,
    pub(super) failed: i32,
    pub(super) streak: Streak,
}

/// How a pod ended, as far as the job is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Success,
    Failure,
}

fn end(view: &View<'_>, pod: &Pod) -> Option<End> {
    match pod.phase() {
        "Succeeded" => Some(End::Success),
        "Failed" => Some(End::Failure),
        // Told to go: it will not succeed any more, and it may vanish before it says so.
        _ if pod.is_terminating() && !view.replaces_only_failed() => Some(End::Failure),
        _ => None,
    }
}

pub(super) fn count(view: &View<'_>) -> Counted {
    let mut status = view.status();
    let pending = settle_uncounted(view, &mut status);
    let limit = view.spec.completions.unwrap_or(0);
    let done = status.completed_indexes.as_deref().filter(|_| view.is_indexed());
    let mut done = Indexes::parse(done.unwrap_or_default(), limit);

    let known: BTreeSet<&str> = pending.iter().flatten().map(String::as_str).collect();
    let mut release = Vec::new();
    let mut news: Vec<(&Arc<Pod>, End)> = Vec::new();
    for pod in view.observed.pods.iter().filter(|pod| is_tracked(pod)) {
        if known.contains(uid(&**pod)) {
            release.push(pod.clone());
        } else if let Some(end) = end(view, pod)
            && news.len() + known.len() < BURST
        {
            news.push((pod, end));
        }
    }
    let fresh_indexes = news
        .iter()
        .filter(|(_, end)| *end == End::Success)
        .filter_map(|(pod, _)| index(pod))
        .filter(|index| *index < limit);
    done = done.with(fresh_indexes);

    let [mut succeeded, mut failed] = pending;
    for (pod, end) in &news {
        release.push((*pod).clone());
        match end {
            // An index is either done or not, so there is no number that could count it twice.
            End::Success if view.is_indexed() => {}
            End::Success => succeeded.push(uid(&***pod).to_owned()),
            End::Failure => failed.push(uid(&***pod).to_owned()),
        }
    }
    let streak = streak(view, &news);
    finish(view, status, [succeeded, failed], done, release, streak)
}

/// Turns ids whose pods have lost the finalizer into numbers; returns those that have not.
fn settle_uncounted(view: &View<'_>, status: &mut JobStatus) -> [Vec<String>; 2] {
    let uncounted = status.uncounted_terminated_pods.take().unwrap_or_default();
    let tracked: BTreeSet<&str> =
        view.observed.pods.iter().filter(|pod| is_tracked(pod)).map(|pod| uid(&**pod)).collect();
    let settle = |ids: Option<Vec<String>>, number: &mut Option<i32>| {
        let (pending, gone): (Vec<_>, Vec<_>) =
            ids.unwrap_or_default().into_iter().partition(|id| tracked.contains(id.as_str()));
        *number = Some(number.unwrap_or(0).saturating_add(self::number(gone.len())));
        pending
    };
    let succeeded = settle(uncounted.succeeded, &mut status.succeeded);
    let failed = settle(uncounted.failed, &mut status.failed);
    [succeeded, failed]
}

fn finish(
    view: &View<'_>,
    mut status: JobStatus,
    [succeeded, failed]: [Vec<String>; 2],
    done: Indexes,
    release: Vec<Arc<Pod>>,
    streak: Streak,
) -> Counted {
    if view.is_indexed() {
        status.succeeded = Some(done.len());
        status.completed_indexes = Some(done.to_string()).filter(|text| !text.is_empty());
    }
    let all_succeeded = status.succeeded.unwrap_or(0).saturating_add(number(succeeded.len()));
    let all_failed = status.failed.unwrap_or(0).saturating_add(number(failed.len()));
    let filled = |ids: Vec<String>| Some(ids).filter(|ids| !ids.is_empty());
    status.uncounted_terminated_pods =
        Some(UncountedTerminatedPods { succeeded: filled(succeeded), failed: filled(failed) });
    let ready = view.active.iter().filter(|pod| pod.is_ready()).count();
    status.active = Some(number(view.active.len())).filter(|count| *count > 0);
    status.ready = Some(number(ready));
    status.terminating = Some(number(view.leaving.len()));
    status.succeeded = status.succeeded.filter(|count| *count > 0);
    status.failed = status.failed.filter(|count| *count > 0);
    if status.start_time.is_none() && !view.is_suspended() {
        status.start_time = Some(stamp(view.now));
    }
    Counted { status, release, done, succeeded: all_succeeded, failed: all_failed, streak }
}

/// Failures after the last success, with those just seen.
fn streak(view: &View<'_>, news: &[(&Arc<Pod>, End)]) -> Streak {
    let mut ends: Vec<_> =
        news.iter().map(|(pod, end)| (finished_at(pod, view.now), *end)).collect();
    ends.sort_by_key(|(at, _)| *at);
    let mut streak = view.observed.streak;
    for (at, end) in ends {
        streak = match end {
            End::Success => Streak::default(),
            End::Failure => {
                Streak { failures: streak.failures.saturating_add(1), last: streak.last.max(at) }
            }
        };
    }
    streak
}

/// When the last container ended; failing that, when the pod was told to go, or now.
fn finished_at(pod: &Pod, now: Timestamp) -> Timestamp {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let ends = statuses.filter_map(|container| {
        let state = container.state.as_ref()?.terminated.as_ref()?;
        state.finished_at.as_ref().map(|time| time.0)
    });
    let told = pod.metadata.deletion_timestamp.as_ref().map(|time| time.0);
    ends.max().or(told).unwrap_or(now).min(now)
}

impl Counted {
    pub(super) fn uncounted(&self) -> bool {
        let uncounted = self.status.uncounted_terminated_pods.as_ref();
        uncounted.is_some_and(|ids| ids.succeeded.is_some() || ids.failed.is_some())
    }

    pub(super) fn into_plan(
        self,
        view: &View<'_>,
        verdict: Verdict,
        action: Option<Action>,
        recheck: Option<Timestamp>,
    ) -> Plan {
        let why = Why {
            wanted: 0,
            active: number(view.active.len()),
            succeeded: self.succeeded,
            failed: self.failed,
            verdict,
        };
        let Counted { status, release, streak, .. } = self;
        Plan { status, release, action, streak, recheck, why }
    }
}
