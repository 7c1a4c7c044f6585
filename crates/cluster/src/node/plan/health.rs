//! When is a container asked how it is, and what do the answers mean?
//!
//! | probe | asked | before the first verdict | verdict against it |
//! |---|---|---|---|
//! | startup | until it succeeds | not started | stop and restart |
//! | readiness | always after the startup probe | not ready | not ready |
//! | liveness | after the startup probe, while the pod lives | well | stop and restart |
//!
//! A verdict takes as many equal answers in a row as the probe's threshold says.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{self, Probe};

use super::state::{Hook, Run};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ProbeKind {
    Startup,
    Readiness,
    Liveness,
}

/// What is known from one probe of one run of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProbeState {
    pub(crate) in_flight: bool,
    pub(crate) asked_at: Option<Timestamp>,
    successes: i32,
    failures: i32,
    pub(crate) verdict: Option<bool>,
}

impl ProbeKind {
    /// As in events: `Liveness probe failed: …`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Readiness => "Readiness",
            Self::Liveness => "Liveness",
        }
    }

    pub(crate) fn of(self, container: &v1::Container) -> Option<&Probe> {
        match self {
            Self::Startup => container.startup_probe.as_ref(),
            Self::Readiness => container.readiness_probe.as_ref(),
            Self::Liveness => container.liveness_probe.as_ref(),
        }
    }
}

/// The grace period a probe gives the container it condemns.
pub(super) fn grace_seconds(container: &v1::Container, kind: ProbeKind) -> Option<i64> {
    kind.of(container)?.termination_grace_period_seconds
}

/// The probes that matter in the container's present state.
pub(super) fn due_kinds(container: &v1::Container, run: &Run, pod_lives: bool) -> Vec<ProbeKind> {
    if matches!(run.post_start, Hook::Pending | Hook::InFlight | Hook::Failed(_)) {
        return Vec::new();
    }
    let is_starting = container.startup_probe.is_some() && run.startup.verdict != Some(true);
    let wanted = |kind: &ProbeKind| {
        let is_condemned = run.probe(*kind).verdict == Some(false);
        match kind {
            ProbeKind::Startup => is_starting && pod_lives && run.stop.is_none() && !is_condemned,
            ProbeKind::Readiness => !is_starting,
            ProbeKind::Liveness => !is_starting && pod_lives && run.stop.is_none() && !is_condemned,
        }
    };
    let all = [ProbeKind::Startup, ProbeKind::Readiness, ProbeKind::Liveness];
    all.into_iter().filter(|kind| kind.of(container).is_some()).filter(wanted).collect()
}

impl ProbeState {
    /// When the next question is due; `None` while one is unanswered or none is to be asked.
    pub(super) fn due(
        &self,
        container: &v1::Container,
        kind: ProbeKind,
        run: &Run,
    ) -> Option<Timestamp> {
        let probe = kind.of(container).filter(|_| !self.in_flight)?;
        let (from, seconds) = match self.asked_at {
            Some(asked_at) => (asked_at, probe.period_seconds.unwrap_or(10).max(1)),
            None => (run.started_at, probe.initial_delay_seconds.unwrap_or(0).max(0)),
        };
        from.saturating_add(SignedDuration::from_secs(seconds.into())).ok()
    }

    pub(super) fn answer(&mut self, probe: &Probe, is_success: bool) {
        self.in_flight = false;
        if is_success {
            self.failures = 0;
            self.successes = self.successes.saturating_add(1);
            if self.successes >= probe.success_threshold.unwrap_or(1) {
                self.verdict = Some(true);
            }
        } else {
            self.successes = 0;
            self.failures = self.failures.saturating_add(1);
            if self.failures >= probe.failure_threshold.unwrap_or(3) {
                self.verdict = Some(false);
            }
        }
    }
}
