//! What should happen to a pod's containers next, and what does its status say?
//!
//! [`plan`] looks at the pod as the API has it, at what is known about its containers and at the clock,
//! and returns the status, the actions that are due and the time to ask again. It does nothing by
//! itself; the supervisor carries the actions out, notes that it has begun them
//! ([`Observed::note`](state::Observed::note)) and reports what came of it. Asking twice without news yields no further action.
//!
//! ```text
//! prepare ─> init containers one by one, sidecars once started ─> containers ─> done ─> sidecars, last first
//!                                                                   ^   │
//!                                                                   └───┘ restart: 0, 10, 20, 40 … 300 s after
//!                                                                         the exit; forgotten after 10 minutes
//!                                                                         of running
//! stop:  preStop ─> SIGTERM ─> (grace period, at least 2 s after the hook) ─> SIGKILL
//! ```
//!
//! A pod **lives** until its API object is being deleted, has a terminal phase there, runs into its
//! deadline, or its containers are done. From then on everything is stopped, taken down, reported and, if
//! it is being deleted, removed from the API.

mod backoff;
mod health;
mod policy;
mod state;
mod status;
mod stop;

#[cfg(test)]
mod tests;

pub(crate) use backoff::Backoff;
pub(crate) use health::ProbeKind;
pub(crate) use state::{Container, Ended, Hook, Observed, Problem, Run, Setup, State};
pub(crate) use stop::{Stop, StopWhy};

use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{self, Pod, PodSpec, PodStatus};

use crate::node::resource::is_sidecar;

/// Something that is due now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Make the pod's control group and volumes.
    Prepare,
    Start {
        container: String,
        restarts: u32,
        backoff: Option<Backoff>,
    },
    PostStart {
        container: String,
    },
    Probe {
        container: String,
        kind: ProbeKind,
    },
    /// Begin to stop, or stop sooner than planned.
    Stop {
        container: String,
        grace: SignedDuration,
        why: StopWhy,
    },
    PreStop {
        container: String,
    },
    Terminate {
        container: String,
    },
    Kill {
        container: String,
    },
    /// Remove the control group; nothing runs any more.
    TearDown,
    WriteStatus,
    /// Remove the API object; everything else is done.
    Delete,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Decision {
    pub(crate) status: PodStatus,
    pub(crate) actions: Vec<Action>,
    /// When something becomes due without any news.
    pub(crate) wake_at: Option<Timestamp>,
}

/// What is the same for every pod of this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Host {
    /// The node's address, and that of its pods: they share its network.
    pub(crate) address: IpAddr,
}

/// Why a pod does not live any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Lives,
    /// Its API object is being deleted.
    Deleted,
    /// The API already calls it finished.
    Finished,
    DeadlineExceeded,
}

/// What is due for `pod`, and what its status is.
pub(crate) fn plan(pod: &Pod, seen: &Observed, host: Host, now: Timestamp) -> Decision {
    let Some(spec) = &pod.spec else {
        let status = pod.status.clone().unwrap_or_default();
        return Decision { status, actions: Vec::new(), wake_at: None };
    };
    let mut planner = Planner {
        pod,
        spec,
        seen,
        now,
        fate: fate(pod, spec, seen, now),
        actions: Vec::new(),
        wake_at: None,
    };
    match planner.fate {
        Fate::Lives => planner.live(),
        _ => planner.end(),
    }
    planner.tend_running();
    planner.look_after_deadline();

    let is_over = planner.is_over();
    let status = status::build(pod, spec, seen, planner.outcome(is_over), host, now);
    let is_written = status::is_written(pod, seen, &status);
    if !is_written {
        planner.actions.push(Action::WriteStatus);
    }
    if is_over {
        planner.close(is_written);
    }
    Decision { status, actions: planner.actions, wake_at: planner.wake_at }
}

/// How far a pod has come, for its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Containers run, or will.
    Open,
    /// Nothing runs, and nothing will.
    Over,
    /// As `Over`, because it took too long.
    OutOfTime,
    /// The deadline has passed and containers are being stopped.
    RunningOutOfTime,
}

fn fate(pod: &Pod, spec: &PodSpec, seen: &Observed, now: Timestamp) -> Fate {
    if pod.metadata.deletion_timestamp.is_some() {
        return Fate::Deleted;
    }
    if status::api_phase_is_terminal(pod) {
        return Fate::Finished;
    }
    match deadline(spec, seen) {
        Some(deadline) if deadline <= now => Fate::DeadlineExceeded,
        _ => Fate::Lives,
    }
}

fn deadline(spec: &PodSpec, seen: &Observed) -> Option<Timestamp> {
    let seconds = SignedDuration::from_secs(spec.active_deadline_seconds?);
    seen.started_at.checked_add(seconds).ok()
}

struct Planner<'a> {
    pod: &'a Pod,
    spec: &'a PodSpec,
    seen: &'a Observed,
    now: Timestamp,
    fate: Fate,
    actions: Vec<Action>,
    wake_at: Option<Timestamp>,
}

/// What a container should do next, apart from stopping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Runs, or is being started.
    Busy,
    Start,
    Wait(Timestamp),
    /// Has ended for good.
    Done,
}

impl<'a> Planner<'a> {
    fn state(&self, container: &v1::Container) -> &'a State {
        self.seen.state(&container.name)
    }

    fn inits(&self) -> &'a [v1::Container] {
        self.spec.init_containers.as_deref().unwrap_or_default()
    }

    fn wake(&mut self, at: Timestamp) {
        self.wake_at = Some(self.wake_at.map_or(at, |earlier| earlier.min(at)));
    }

    fn live(&mut self) {
        match &self.seen.setup {
            Setup::Ready => {}
            Setup::Absent => return self.actions.push(Action::Prepare),
            Setup::Failed { retry_at, .. } if *retry_at <= self.now => {
                return self.actions.push(Action::Prepare);
            }
            Setup::Failed { retry_at, .. } => return self.wake(*retry_at),
            Setup::InFlight | Setup::TearingDown | Setup::Gone => return,
        }
        if self.has_failed_to_initialize() || self.is_complete() {
            return self.stop_sidecars(SignedDuration::from_secs(policy::grace_seconds(self.spec)));
        }
        if self.initialize() {
            self.run_containers();
        }
    }

    /// Starts what is due among the init containers; true once the containers may run.
    fn initialize(&mut self) -> bool {
        let has_begun = self.spec.containers.iter().any(|own| *self.state(own) != State::Absent);
        for container in self.inits() {
            let next = self.next(container);
            if is_sidecar(container) {
                self.start_if_due(container, next);
                if !has_begun && !self.seen.has_started(container) {
                    return false;
                }
            } else if !has_begun && !policy::has_succeeded(self.state(container)) {
                self.start_if_due(container, next);
                return false;
            }
        }
        true
    }

    /// Containers start in order; one with a postStart hook holds up those after it.
    fn run_containers(&mut self) {
        for container in &self.spec.containers {
            let next = self.next(container);
            self.start_if_due(container, next);
            let holds_up = match self.state(container) {
                State::Starting => true,
                State::Absent => next == Next::Start,
                State::Running(run) => matches!(run.post_start, Hook::Pending | Hook::InFlight),
                State::Ended(_) => false,
            };
            if holds_up {
                return;
            }
        }
    }

    fn start_if_due(&mut self, container: &v1::Container, next: Next) {
        match next {
            Next::Start => {
                let known = self.seen.containers.get(&container.name);
                let ended = known.and_then(|known| known.state.ended());
                let restarts = known.map_or(0, |known| match ended {
                    Some(_) => known.restarts.saturating_add(1),
                    None => known.restarts,
                });
                let backoff = ended.map(|ended| {
                    let earlier = known.and_then(|known| known.backoff);
                    Backoff::after(earlier, ended.finished_at, self.now)
                });
                let container = container.name.clone();
                self.actions.push(Action::Start { container, restarts, backoff });
            }
            Next::Wait(until) => self.wake(until),
            Next::Busy | Next::Done => {}
        }
    }

    fn next(&self, container: &v1::Container) -> Next {
        let known = self.seen.containers.get(&container.name);
        let due = |at: Timestamp| if at <= self.now { Next::Start } else { Next::Wait(at) };
        match self.state(container) {
            State::Starting | State::Running(_) => Next::Busy,
            State::Absent => match known.and_then(|known| known.problem.as_ref()) {
                Some(problem) => due(problem.retry_at),
                None => Next::Start,
            },
            State::Ended(ended) => {
                if !policy::restarts(self.spec, container, ended) {
                    return Next::Done;
                }
                let problem = known.and_then(|known| known.problem.as_ref());
                let retry = problem.map(|problem| problem.retry_at);
                let backoff = known.and_then(|known| known.backoff);
                let at = Backoff::due(backoff, ended.finished_at);
                due(retry.map_or(at, |retry| retry.max(at)))
            }
        }
    }

    /// An init container failed, and nothing will be tried again.
    fn has_failed_to_initialize(&self) -> bool {
        self.inits().iter().filter(|own| !is_sidecar(own)).any(|container| {
            self.state(container).ended().is_some_and(|ended| ended.code != 0)
                && self.next(container) == Next::Done
        })
    }

    /// Every container has ended for good.
    fn is_complete(&self) -> bool {
        self.spec.containers.iter().all(|container| self.next(container) == Next::Done)
    }

    /// Stops whatever runs: containers at once, then sidecars, the last started first.
    fn end(&mut self) {
        let spec_grace = SignedDuration::from_secs(policy::grace_seconds(self.spec));
        let (grace, why) = match self.fate {
            Fate::Deleted => {
                let seconds = self.pod.metadata.deletion_grace_period_seconds;
                let grace = seconds.map_or(spec_grace, SignedDuration::from_secs);
                (grace, StopWhy::Deleted)
            }
            Fate::DeadlineExceeded => (spec_grace, StopWhy::DeadlineExceeded),
            Fate::Finished | Fate::Lives => (spec_grace, StopWhy::Finished),
        };
        let plain = self.inits().iter().filter(|own| !is_sidecar(own)).chain(&self.spec.containers);
        let mut is_busy = false;
        for container in plain {
            match self.state(container) {
                State::Running(run) => {
                    is_busy = true;
                    self.stop(container, run, grace, why.clone());
                }
                State::Starting => is_busy = true,
                State::Absent | State::Ended(_) => {}
            }
        }
        if !is_busy {
            self.stop_sidecars(self.remaining(grace));
        }
    }

    /// What is left of a grace period that has begun with the deletion.
    fn remaining(&self, grace: SignedDuration) -> SignedDuration {
        let end = self.pod.metadata.deletion_timestamp.as_ref();
        let left = end.map_or(grace, |end| end.0.duration_since(self.now));
        left.clamp(SignedDuration::ZERO, grace.max(SignedDuration::ZERO))
    }

    fn stop_sidecars(&mut self, grace: SignedDuration) {
        for container in self.inits().iter().rev() {
            match self.state(container) {
                State::Running(run) => {
                    return self.stop(container, run, grace, StopWhy::Finished);
                }
                State::Starting => return,
                State::Absent | State::Ended(_) => {}
            }
        }
    }

    fn stop(&mut self, container: &v1::Container, run: &Run, grace: SignedDuration, why: StopWhy) {
        let is_sooner = run.stop.as_ref().is_none_or(|stop| stop.would_shorten(grace, self.now));
        if is_sooner {
            self.actions.push(Action::Stop { container: container.name.clone(), grace, why });
        }
    }

    /// Hooks, probes and the steps of stopping, for everything that runs.
    fn tend_running(&mut self) {
        for container in self.inits().iter().chain(&self.spec.containers) {
            let State::Running(run) = self.state(container) else { continue };
            match &run.stop {
                Some(stop) => self.go_on_stopping(container, stop),
                None => self.tend(container, run),
            }
            for kind in health::due_kinds(container, run, self.fate == Fate::Lives) {
                match run.probe(kind).due(container, kind, run) {
                    Some(at) if at <= self.now => {
                        let container = container.name.clone();
                        self.actions.push(Action::Probe { container, kind });
                    }
                    Some(at) => self.wake(at),
                    None => {}
                }
            }
        }
    }

    fn tend(&mut self, container: &v1::Container, run: &Run) {
        let name = || container.name.clone();
        match &run.post_start {
            Hook::Pending => self.actions.push(Action::PostStart { container: name() }),
            Hook::Failed(message) => {
                let grace = SignedDuration::from_secs(policy::grace_seconds(self.spec));
                let why = StopWhy::PostStart(message.clone());
                self.stop(container, run, grace, why);
            }
            Hook::None | Hook::InFlight | Hook::Done => {}
        }
        if self.fate != Fate::Lives {
            return;
        }
        for kind in [ProbeKind::Startup, ProbeKind::Liveness] {
            if run.probe(kind).verdict == Some(false) {
                let seconds = health::grace_seconds(container, kind)
                    .unwrap_or_else(|| policy::grace_seconds(self.spec));
                let why = StopWhy::Unhealthy(kind);
                return self.stop(container, run, SignedDuration::from_secs(seconds), why);
            }
        }
    }

    fn go_on_stopping(&mut self, container: &v1::Container, stop: &Stop) {
        let container = container.name.clone();
        match stop.next(self.now) {
            stop::Step::PreStop => self.actions.push(Action::PreStop { container }),
            stop::Step::Terminate => self.actions.push(Action::Terminate { container }),
            stop::Step::Kill => self.actions.push(Action::Kill { container }),
            stop::Step::Wait(until) => self.wake(until),
        }
    }

    fn look_after_deadline(&mut self) {
        if self.fate == Fate::Lives
            && let Some(deadline) = deadline(self.spec, self.seen)
        {
            self.wake(deadline);
        }
    }

    /// Nothing runs and nothing will.
    fn is_over(&self) -> bool {
        let is_busy = self.seen.containers.values().any(|own| own.state.is_busy());
        let is_ending = self.fate != Fate::Lives
            || (self.seen.setup == Setup::Ready || self.seen.setup == Setup::Gone)
                && (self.has_failed_to_initialize() || self.is_complete());
        !is_busy && is_ending && self.seen.setup != Setup::InFlight
    }

    fn outcome(&self, is_over: bool) -> Outcome {
        match (self.fate == Fate::DeadlineExceeded, is_over) {
            (true, true) => Outcome::OutOfTime,
            (true, false) => Outcome::RunningOutOfTime,
            (false, true) => Outcome::Over,
            (false, false) => Outcome::Open,
        }
    }

    /// Takes the pod down, and removes it from the API when the last status is there.
    fn close(&mut self, is_written: bool) {
        match self.seen.setup {
            Setup::Gone if is_written && self.fate == Fate::Deleted && !self.seen.is_deleting => {
                self.actions.push(Action::Delete);
            }
            Setup::Gone | Setup::TearingDown | Setup::InFlight => {}
            Setup::Absent | Setup::Failed { .. } | Setup::Ready => {
                self.actions.push(Action::TearDown);
            }
        }
    }
}
