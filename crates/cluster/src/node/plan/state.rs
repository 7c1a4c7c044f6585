//! What is known about a pod on this node.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{self, Pod, PodStatus};

use super::Action;
use super::backoff::Backoff;
use super::health::{ProbeKind, ProbeState};
use super::stop::{Stop, StopWhy};

/// Everything [`plan`](super::plan) may look at besides the API object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Observed {
    /// When this node took the pod.
    pub(crate) started_at: Timestamp,
    pub(crate) setup: Setup,
    pub(crate) containers: BTreeMap<String, Container>,
    pub(crate) is_deleting: bool,
    /// The status the API has last taken from us, and the object's version since.
    pub(crate) acknowledged: Option<(Option<String>, PodStatus)>,
}

/// Control group and volumes of the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Setup {
    Absent,
    InFlight,
    Failed {
        message: String,
        retry_at: Timestamp,
    },
    Ready,
    TearingDown,
    /// Taken down for good.
    Gone,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Container {
    /// The number of the present run, from 0.
    pub(crate) restarts: u32,
    pub(crate) state: State,
    /// How the run before the present one ended.
    pub(crate) last: Option<Ended>,
    pub(crate) backoff: Option<Backoff>,
    /// Why the next run could not even be tried.
    pub(crate) problem: Option<Problem>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum State {
    #[default]
    Absent,
    Starting,
    Running(Run),
    Ended(Ended),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) id: String,
    pub(crate) started_at: Timestamp,
    pub(crate) post_start: Hook,
    pub(crate) stop: Option<Stop>,
    pub(crate) startup: ProbeState,
    pub(crate) readiness: ProbeState,
    pub(crate) liveness: ProbeState,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hook {
    /// The container has none.
    None,
    Pending,
    InFlight,
    Done,
    Failed(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) id: String,
    pub(crate) code: i32,
    pub(crate) signal: Option<i32>,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) finished_at: Timestamp,
    pub(crate) reason: String,
    pub(crate) message: Option<String>,
    /// Why we stopped it, if we did.
    pub(crate) stopped: Option<StopWhy>,
}

/// A container that cannot be made, as its status shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) retry_at: Timestamp,
}

impl Container {
    /// A new run, of which nothing is known yet but that it runs.
    pub(crate) fn set_running(&mut self, id: String, started_at: Timestamp, post_start: Hook) {
        self.problem = None;
        self.state = State::Running(Run {
            id,
            started_at,
            post_start,
            stop: None,
            startup: ProbeState::default(),
            readiness: ProbeState::default(),
            liveness: ProbeState::default(),
        });
    }

    /// The present run is over; why we stopped it, if we did, stays known.
    pub(crate) fn set_ended(&mut self, mut ended: Ended) {
        if let State::Running(run) = &self.state {
            ended.stopped = run.stop.as_ref().map(|stop| stop.why.clone());
        }
        self.problem = None;
        self.state = State::Ended(ended);
    }

    /// The next run could not be tried: what ended before is still the present state.
    pub(crate) fn set_problem(&mut self, problem: Problem) {
        self.problem = Some(problem);
        self.state = match self.last.take() {
            Some(last) => {
                self.restarts = self.restarts.saturating_sub(1);
                State::Ended(last)
            }
            None => State::Absent,
        };
    }

    pub(crate) fn run_mut(&mut self) -> Option<&mut Run> {
        match &mut self.state {
            State::Running(run) => Some(run),
            _ => None,
        }
    }
}

impl State {
    pub(crate) fn ended(&self) -> Option<&Ended> {
        match self {
            Self::Ended(ended) => Some(ended),
            _ => None,
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        matches!(self, Self::Starting | Self::Running(_))
    }
}

impl Run {
    pub(super) fn probe(&self, kind: ProbeKind) -> &ProbeState {
        match kind {
            ProbeKind::Startup => &self.startup,
            ProbeKind::Readiness => &self.readiness,
            ProbeKind::Liveness => &self.liveness,
        }
    }

    fn probe_mut(&mut self, kind: ProbeKind) -> &mut ProbeState {
        match kind {
            ProbeKind::Startup => &mut self.startup,
            ProbeKind::Readiness => &mut self.readiness,
            ProbeKind::Liveness => &mut self.liveness,
        }
    }

    /// Takes an answer of a probe.
    pub(crate) fn answer(&mut self, container: &v1::Container, kind: ProbeKind, is_success: bool) {
        if let Some(probe) = kind.of(container) {
            self.probe_mut(kind).answer(probe, is_success);
        }
    }

    /// Past its hook and its startup probe?
    pub(super) fn is_started(&self, container: &v1::Container) -> bool {
        matches!(self.post_start, Hook::None | Hook::Done)
            && (container.startup_probe.is_none() || self.startup.verdict == Some(true))
    }

    pub(super) fn is_ready(&self, container: &v1::Container) -> bool {
        self.is_started(container)
            && (container.readiness_probe.is_none() || self.readiness.verdict == Some(true))
    }
}

impl Observed {
    /// A pod that this node has not touched yet.
    pub(crate) fn new(started_at: Timestamp) -> Self {
        Self {
            started_at,
            setup: Setup::Absent,
            containers: BTreeMap::new(),
            is_deleting: false,
            acknowledged: None,
        }
    }

    pub(super) fn state(&self, container: &str) -> &State {
        self.containers.get(container).map_or(&State::Absent, |container| &container.state)
    }

    pub(super) fn has_started(&self, container: &v1::Container) -> bool {
        match self.state(&container.name) {
            State::Running(run) => run.is_started(container),
            _ => false,
        }
    }

    pub(crate) fn run_mut(&mut self, container: &str) -> Option<&mut Run> {
        self.containers.get_mut(container).and_then(Container::run_mut)
    }

    /// Remembers that an action has begun, so that it is not asked for again.
    pub(crate) fn note(&mut self, pod: &Pod, action: &Action, now: Timestamp) {
        match action {
            Action::Prepare => self.setup = Setup::InFlight,
            Action::TearDown => self.setup = Setup::TearingDown,
            Action::Delete => self.is_deleting = true,
            Action::WriteStatus => {}
            Action::Start { container, restarts, backoff } => {
                let own = self.containers.entry(container.clone()).or_default();
                own.restarts = *restarts;
                own.backoff = backoff.or(own.backoff);
                if let State::Ended(ended) = std::mem::replace(&mut own.state, State::Starting) {
                    own.last = Some(ended);
                }
            }
            Action::PostStart { container } => {
                if let Some(run) = self.run_mut(container) {
                    run.post_start = Hook::InFlight;
                }
            }
            Action::Probe { container, kind } => {
                if let Some(run) = self.run_mut(container) {
                    let probe = run.probe_mut(*kind);
                    probe.in_flight = true;
                    probe.asked_at = Some(now);
                }
            }
            Action::Stop { container, grace, why } => {
                let has_hook = has_pre_stop(pod, container);
                if let Some(run) = self.run_mut(container) {
                    match &mut run.stop {
                        Some(stop) => stop.shorten(*grace, now),
                        None => run.stop = Some(Stop::new(why.clone(), *grace, has_hook, now)),
                    }
                }
            }
            Action::PreStop { container } => self.with_stop(container, |stop| {
                stop.pre_stop = Hook::InFlight;
            }),
            Action::Terminate { container } => {
                self.with_stop(container, |stop| stop.note_terminated(now));
            }
            Action::Kill { container } => {
                self.with_stop(container, |stop| stop.killed_at = Some(now));
            }
        }
    }

    fn with_stop(&mut self, container: &str, change: impl FnOnce(&mut Stop)) {
        if let Some(stop) = self.run_mut(container).and_then(|run| run.stop.as_mut()) {
            change(stop);
        }
    }
}

fn has_pre_stop(pod: &Pod, name: &str) -> bool {
    let spec = pod.spec.as_ref();
    let inits = spec.and_then(|spec| spec.init_containers.as_ref()).into_iter().flatten();
    let all = inits.chain(spec.map(|spec| &spec.containers).into_iter().flatten());
    all.filter(|own| own.name == name)
        .any(|own| own.lifecycle.as_ref().is_some_and(|lifecycle| lifecycle.pre_stop.is_some()))
}
