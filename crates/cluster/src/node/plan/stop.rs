//! The steps of stopping a container.

use jiff::{SignedDuration, Timestamp};

use super::health::ProbeKind;
use super::state::Hook;

/// Even a container whose hook has used up the grace period gets this long after SIGTERM.
const LEAST: SignedDuration = SignedDuration::from_secs(2);

/// A kill that did not help is repeated.
const KILL_AGAIN: SignedDuration = SignedDuration::from_secs(10);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StopWhy {
    /// The pod is being deleted.
    Deleted,
    /// The pod's work is done, or the API says it is.
    Finished,
    DeadlineExceeded,
    /// The postStart hook failed.
    PostStart(String),
    Unhealthy(ProbeKind),
}

/// A stop that is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stop {
    pub(crate) why: StopWhy,
    /// The end of the grace period.
    pub(crate) kill_at: Timestamp,
    pub(crate) pre_stop: Hook,
    pub(crate) terminated: bool,
    pub(crate) killed_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    PreStop,
    Terminate,
    Kill,
    Wait(Timestamp),
}

impl Stop {
    pub(super) fn new(why: StopWhy, grace: SignedDuration, has_hook: bool, now: Timestamp) -> Self {
        let pre_stop = if has_hook { Hook::Pending } else { Hook::None };
        Self { why, kill_at: end(now, grace), pre_stop, terminated: false, killed_at: None }
    }

    /// A second request may only bring the end nearer.
    pub(super) fn would_shorten(&self, grace: SignedDuration, now: Timestamp) -> bool {
        end(now, grace) < self.kill_at && self.killed_at.is_none()
    }

    pub(super) fn shorten(&mut self, grace: SignedDuration, now: Timestamp) {
        self.kill_at = self.kill_at.min(end(now, grace));
    }

    /// SIGTERM has been sent.
    pub(super) fn note_terminated(&mut self, now: Timestamp) {
        self.terminated = true;
        self.kill_at = self.kill_at.max(end(now, LEAST));
    }

    pub(super) fn next(&self, now: Timestamp) -> Step {
        if let Some(killed_at) = self.killed_at {
            let again = end(killed_at, KILL_AGAIN);
            return if again <= now { Step::Kill } else { Step::Wait(again) };
        }
        match self.pre_stop {
            Hook::Pending => return Step::PreStop,
            Hook::InFlight if now < self.kill_at => return Step::Wait(self.kill_at),
            _ => {}
        }
        match (self.terminated, self.kill_at <= now) {
            (false, _) => Step::Terminate,
            (true, true) => Step::Kill,
            (true, false) => Step::Wait(self.kill_at),
        }
    }
}

/// A grace period shorter than the least is the least.
fn end(from: Timestamp, grace: SignedDuration) -> Timestamp {
    from.saturating_add(grace.max(LEAST)).unwrap_or(from)
}
