//! The status of one container.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{
    self, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, Pod, PodSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use units::GoDuration;

use super::super::backoff::Backoff;
use super::super::state::{Container, Ended, Hook, Observed, Run, State};
use super::super::{Outcome, policy};
use super::whole_seconds;
use crate::node::resource::is_sidecar;

pub(super) struct View<'a> {
    pub(super) pod: &'a Pod,
    pub(super) spec: &'a PodSpec,
    pub(super) seen: &'a Observed,
    pub(super) outcome: Outcome,
    pub(super) now: Timestamp,
}

/// Present and previous state, and how many runs there were before the present one.
struct Shown {
    state: ContainerState,
    last: Option<ContainerState>,
    restarts: u32,
    id: Option<String>,
}

impl View<'_> {
    pub(super) fn status(&self, container: &v1::Container, is_init: bool) -> ContainerStatus {
        let none = Container::default();
        let known = self.seen.containers.get(&container.name).unwrap_or(&none);
        let shown = self.shown(container, known);
        let run = match &known.state {
            State::Running(run) => Some(run),
            _ => None,
        };
        let is_plain_init = is_init && !is_sidecar(container);
        let ready = if is_plain_init {
            policy::has_succeeded(&known.state)
        } else {
            run.is_some_and(|run| run.is_ready(container))
        };
        let image = container.image.clone().unwrap_or_default();
        ContainerStatus {
            name: container.name.clone(),
            image_id: String::new(),
            image,
            ready,
            started: Some(run.is_some_and(|run| run.is_started(container))),
            restart_count: i32::try_from(shown.restarts).unwrap_or(i32::MAX),
            container_id: shown.id.map(|id| format!("{}{id}", crate::node::ID_SCHEME)),
            state: Some(shown.state),
            // Written out when empty, as the API does.
            last_state: Some(shown.last.unwrap_or_default()),
            resources: Some(container.resources.clone().unwrap_or_default()),
            ..ContainerStatus::default()
        }
    }

    fn shown(&self, container: &v1::Container, known: &Container) -> Shown {
        let last = known.last.as_ref();
        let shown = |state, last: Option<&Ended>, restarts, id: Option<&str>| Shown {
            state,
            last: last.map(terminated),
            restarts,
            id: id.or(last.map(|last| last.id.as_str())).map(str::to_owned),
        };
        match &known.state {
            State::Absent => {
                let state = match &known.problem {
                    Some(problem) => waiting(&problem.reason, Some(problem.message.clone())),
                    None => self.not_yet(),
                };
                shown(state, last, known.restarts, None)
            }
            // Between two runs the end of the first is still what there is to see.
            State::Starting => match last {
                Some(last) => Shown {
                    state: terminated(last),
                    last: None,
                    restarts: known.restarts.saturating_sub(1),
                    id: Some(last.id.clone()),
                },
                None => shown(self.not_yet(), None, known.restarts, None),
            },
            State::Running(run) => {
                let state = match run.post_start {
                    // Not running before its hook is done, as the API documents it.
                    Hook::Pending | Hook::InFlight => waiting("ContainerCreating", None),
                    _ => running(run),
                };
                shown(state, last, known.restarts, Some(&run.id))
            }
            State::Ended(ended) => match self.waits_because(container, known, ended) {
                Some(state) => shown(state, Some(ended), known.restarts, Some(&ended.id)),
                None => shown(terminated(ended), last, known.restarts, Some(&ended.id)),
            },
        }
    }

    /// A container that has ended and will run again, but not now.
    fn waits_because(
        &self,
        container: &v1::Container,
        known: &Container,
        ended: &Ended,
    ) -> Option<ContainerState> {
        if self.outcome != Outcome::Open || !policy::restarts(self.spec, container, ended) {
            return None;
        }
        if let Some(problem) = &known.problem {
            return Some(waiting(&problem.reason, Some(problem.message.clone())));
        }
        let backoff = known.backoff?;
        if Backoff::due(Some(backoff), ended.finished_at) <= self.now {
            return None;
        }
        let message = format!(
            "back-off {} restarting failed container={} pod={}",
            go_duration(backoff.delay),
            container.name,
            pod_name(self.pod),
        );
        Some(waiting("CrashLoopBackOff", Some(message)))
    }

    fn not_yet(&self) -> ContainerState {
        let has_inits = self.spec.init_containers.as_ref().is_some_and(|inits| !inits.is_empty());
        let is_initialized =
            self.spec.containers.iter().any(|own| *self.seen.state(&own.name) != State::Absent);
        let reason =
            if has_inits && !is_initialized { "PodInitializing" } else { "ContainerCreating" };
        waiting(reason, None)
    }
}

/// `name_namespace(uid)`, as in kubelet's messages.
pub(super) fn pod_name(pod: &Pod) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    let meta = &pod.metadata;
    format!("{}_{}({})", part(&meta.name), part(&meta.namespace), part(&meta.uid))
}

fn go_duration(duration: SignedDuration) -> String {
    let nanos = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
    GoDuration::from_nanos(nanos).to_string()
}

fn waiting(reason: &str, message: Option<String>) -> ContainerState {
    let waiting = ContainerStateWaiting { reason: Some(reason.to_owned()), message };
    ContainerState { waiting: Some(waiting), ..ContainerState::default() }
}

fn running(run: &Run) -> ContainerState {
    let started_at = Some(Time(whole_seconds(run.started_at)));
    let running = ContainerStateRunning { started_at };
    ContainerState { running: Some(running), ..ContainerState::default() }
}

fn terminated(ended: &Ended) -> ContainerState {
    let terminated = ContainerStateTerminated {
        container_id: Some(format!("{}{}", crate::node::ID_SCHEME, ended.id)),
        exit_code: ended.code,
        signal: ended.signal,
        reason: Some(ended.reason.clone()),
        message: ended.message.clone(),
        started_at: ended.started_at.map(|time| Time(whole_seconds(time))),
        finished_at: Some(Time(whole_seconds(ended.finished_at))),
    };
    ContainerState { terminated: Some(terminated), ..ContainerState::default() }
}
