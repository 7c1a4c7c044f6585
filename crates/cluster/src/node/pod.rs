//! The supervisor of one pod: one task that owns everything known about it.
//!
//! It asks [`plan`](super::plan) what is due, starts each action as a task of its own, and takes in
//! what they report, what the API says and what time it is, in whatever order these come. It makes
//! no decision itself. When it is dropped, containers go on running; the next supervisor of the
//! same pod adopts them.

mod act;
mod adopt;
mod patch;
mod report;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::sync::watch;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use super::context::Context;
use super::dir::PodDir;
use super::event::about_pod;
use super::plan::{Action, Observed, Setup, plan};
use report::Report;

/// The newest word of the API about a pod.
#[derive(Debug, Clone)]
pub(crate) enum Update {
    Current(Box<Pod>),
    /// The object is gone, whatever we think about it.
    Vanished,
}

pub(crate) struct Supervisor {
    context: Arc<Context>,
    dir: PodDir,
    pod: Pod,
    seen: Observed,
    tasks: JoinSet<Report>,
    updates: watch::Receiver<Update>,
    has_vanished: bool,
    is_done: bool,
    writing: Writing,
    refresh_at: Instant,
    /// An event about the image has been written.
    told_about_image: bool,
    /// Containers whose back-off has been told.
    backing_off: BTreeSet<String>,
}

/// Where the status is on its way to the API.
#[derive(Debug, Default)]
struct Writing {
    in_flight: Option<PodStatus>,
    failures: u32,
    retry_at: Option<Timestamp>,
}

/// How often files that come from the API are brought up to date, as kubelet does about once a
/// minute.
const REFRESH_EVERY: Duration = Duration::from_secs(60);

impl Supervisor {
    /// `None` if the pod cannot have a directory.
    pub(crate) fn new(
        context: Arc<Context>,
        pod: Pod,
        updates: watch::Receiver<Update>,
    ) -> Option<Self> {
        let dir = PodDir::new(&context.state_dir, pod.metadata.uid.as_deref()?)?;
        let started_at = pod.status.as_ref().and_then(|status| status.start_time.as_ref());
        let seen = Observed::new(started_at.map_or_else(Timestamp::now, |time| time.0));
        Some(Self {
            context,
            dir,
            pod,
            seen,
            tasks: JoinSet::new(),
            updates,
            has_vanished: false,
            is_done: false,
            writing: Writing::default(),
            refresh_at: Instant::now() + REFRESH_EVERY,
            told_about_image: false,
            backing_off: BTreeSet::new(),
        })
    }

    /// Looks after the pod until it is gone or the node shuts down.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        self.adopt().await;
        loop {
            let wake_at = self.step();
            if self.is_done {
                break;
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                changed = self.updates.changed() => match changed {
                    Ok(()) => self.take_update(),
                    Err(_) => return,
                },
                Some(report) = self.tasks.join_next() => match report {
                    Ok(report) => self.take(report),
                    Err(failed) => {
                        // An action that panicked left us without its report. Start over from disk.
                        error!(pod = %self.name(), error = %failed, "an action of a pod failed");
                        return;
                    }
                },
                () = sleep_until(wake_at) => self.refresh_if_due(),
            }
        }
        let (dir, name) = (self.dir.clone(), self.name());
        if let Ok(Err(error)) = spawn_blocking(move || dir.remove()).await {
            warn!(pod = %name, %error, "cannot remove a pod's directory");
        }
        info!(pod = %name, "pod removed");
    }

    /// Does what is due; when to look again.
    fn step(&mut self) -> Instant {
        /// An action makes the next one due at most this often without news.
        const MAX_ROUNDS: usize = 16;
        let mut wake_at = None;
        for _ in 0..MAX_ROUNDS {
            let now = Timestamp::now();
            let decision = plan(&self.pod, &self.seen, self.context.host, now);
            wake_at = decision.wake_at;
            let (writes, actions): (Vec<Action>, Vec<Action>) =
                decision.actions.into_iter().partition(|action| *action == Action::WriteStatus);
            let is_settled = actions.is_empty();
            for action in actions {
                self.seen.note(&self.pod, &action, now);
                self.act(action);
            }
            if self.has_vanished && !writes.is_empty() {
                // Nobody reads it any more, but it counts as told.
                self.pod.status = Some(decision.status);
                continue;
            }
            if is_settled || self.is_done {
                self.tell_about_backoff(&decision.status);
                match writes.is_empty() {
                    true => self.writing.retry_at = None,
                    false => self.write(decision.status, now),
                }
                break;
            }
        }
        let wake_at = wake_at.into_iter().chain(self.writing.retry_at).min();
        let until = wake_at.map(|at| until(at, Timestamp::now()));
        until.map_or(self.refresh_at, |until| self.refresh_at.min(Instant::now() + until))
    }

    /// Sends the status, one at a time.
    fn write(&mut self, status: PodStatus, now: Timestamp) {
        let is_waiting = self.writing.retry_at.is_some_and(|at| at > now);
        if self.writing.in_flight.is_some() || is_waiting {
            return;
        }
        self.writing.retry_at = None;
        let body = patch::status(&self.pod, &status);
        self.writing.in_flight = Some(status);
        let (context, meta) = (self.context.clone(), self.pod.metadata.clone());
        self.tasks.spawn(async move {
            let name = meta.name.unwrap_or_default();
            let api = context.pods(&meta.namespace.unwrap_or_default());
            let body = kube::api::Patch::Strategic(body);
            let written = api.patch_status(&name, &kube::api::PatchParams::default(), &body).await;
            Report::Written(written.map(Box::new))
        });
    }

    fn take_written(&mut self, written: Result<Box<Pod>, kube::Error>) {
        let sent = self.writing.in_flight.take();
        match written {
            Ok(pod) => {
                self.writing.failures = 0;
                let version = pod.metadata.resource_version.clone();
                self.seen.acknowledged = sent.map(|sent| (version, sent));
                self.take_pod(*pod);
            }
            Err(error) => {
                self.writing.failures = self.writing.failures.saturating_add(1);
                let seconds = 1_i64 << self.writing.failures.min(5);
                self.writing.retry_at = Some(later(seconds));
                debug!(pod = %self.name(), %error, "cannot write a pod's status; will try again");
            }
        }
    }

    fn take_update(&mut self) {
        let update = self.updates.borrow_and_update().clone();
        match update {
            Update::Current(pod) => self.take_pod(*pod),
            Update::Vanished if !self.has_vanished => {
                self.has_vanished = true;
                if self.pod.metadata.deletion_timestamp.is_none() {
                    // Nobody waits for it any more, but its processes still get their grace period.
                    let spec = self.pod.spec.as_ref();
                    let grace = spec.and_then(|spec| spec.termination_grace_period_seconds);
                    let meta = &mut self.pod.metadata;
                    meta.deletion_grace_period_seconds = grace;
                    meta.deletion_timestamp = Some(Time(later(grace.unwrap_or(30))));
                }
            }
            Update::Vanished => {}
        }
    }

    /// The answer to a write may overtake the watch: an older object is not news.
    fn take_pod(&mut self, pod: Pod) {
        let version = |pod: &Pod| pod.metadata.resource_version.as_ref()?.parse::<u64>().ok();
        let is_older = version(&pod).zip(version(&self.pod)).is_some_and(|(new, old)| new < old);
        if !is_older && !self.has_vanished {
            self.pod = pod;
        }
    }

    fn refresh_if_due(&mut self) {
        if Instant::now() < self.refresh_at {
            return;
        }
        self.refresh_at = Instant::now() + REFRESH_EVERY;
        let volumes = self.pod.spec.as_ref().and_then(|spec| spec.volumes.as_ref());
        let is_fed = volumes.into_iter().flatten().any(|volume| {
            volume.config_map.is_some()
                || volume.secret.is_some()
                || volume.projected.is_some()
                || volume.downward_api.is_some()
        });
        if is_fed && self.seen.setup == Setup::Ready && !self.has_vanished {
            self.refresh();
        }
    }

    fn tell_about_backoff(&mut self, status: &PodStatus) {
        let inits = status.init_container_statuses.iter().flatten();
        let all = inits.chain(status.container_statuses.iter().flatten());
        let waiting = all.filter(|own| {
            let waiting = own.state.as_ref().and_then(|state| state.waiting.as_ref());
            waiting.is_some_and(|waiting| waiting.reason.as_deref() == Some("CrashLoopBackOff"))
        });
        let now: BTreeSet<String> = waiting.map(|own| own.name.clone()).collect();
        for name in now.difference(&self.backing_off) {
            let note =
                format!("Back-off restarting failed container {name} in pod {}", self.name());
            self.context.events.warning(&about_pod(&self.pod), "BackOff", note);
        }
        self.backing_off = now;
    }

    /// `namespace/name`, for logs.
    fn name(&self) -> String {
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        format!("{}/{}", part(&self.pod.metadata.namespace), part(&self.pod.metadata.name))
    }
}

impl std::fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Supervisor").field("pod", &self.name()).finish_non_exhaustive()
    }
}

fn until(at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO)
}

fn later(seconds: i64) -> Timestamp {
    let now = Timestamp::now();
    now.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(now)
}
