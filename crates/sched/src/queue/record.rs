//! What does the queue remember about one pod, and how long must it pause?
//!
//! ```text
//! pause = min(initial << (n - 1), max)     n = consecutive errors, if any, else rejections
//! over  = trunc_to_second(now) > trunc_to_second(last failure + pause)
//! ```

use std::time::Duration;

use crate::time::Time;

use super::Uid;
use super::event::{PluginId, PluginSet};

/// How long a pod pauses after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    pub initial: Duration,
    /// Zero turns pauses off.
    pub max: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { initial: Duration::from_secs(1), max: Duration::from_secs(10) }
    }
}

impl Backoff {
    /// The pause after `failures` failures in a row.
    #[must_use]
    pub fn pause(self, failures: u32) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
        let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
        self.initial.saturating_mul(factor).min(self.max)
    }
}

/// What the queue must know of a pod to order it and to look it up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    pub uid: Uid,
    pub priority: i32,
    /// Pods of one group get the same hint for every event but their own: the
    /// plugins read the same things from them.
    pub group: u64,
}

/// Why an attempt did not place the pod. Neither set filled means an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Failure {
    /// Plugins that said no.
    pub rejected_by: PluginSet,
    /// Plugins that said "not yet": their wake skips the pause.
    pub pending_on: PluginSet,
}

impl Failure {
    /// A bug or an API fault: no plugin can be asked what would help.
    pub const ERROR: Self = Self { rejected_by: PluginSet::EMPTY, pending_on: PluginSet::EMPTY };

    #[must_use]
    pub const fn rejected(by: PluginSet) -> Self {
        Self { rejected_by: by, pending_on: PluginSet::EMPTY }
    }

    #[must_use]
    pub const fn is_error(self) -> bool {
        self.rejected_by.is_empty() && self.pending_on.is_empty()
    }
}

/// Where a pending pod is; it is in exactly one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    Active,
    /// Pausing after a rejection, or after an error.
    Backoff {
        is_error: bool,
    },
    Unschedulable,
    /// Held back before it may be queued at all.
    Gated(PluginId),
    InFlight,
    /// A node is chosen and being told.
    Binding,
}

/// The queue's memory of one pod.
#[derive(Debug, Clone)]
pub struct Record {
    pub ticket: Ticket,
    pub place: Place,
    /// Times it was popped.
    pub attempts: u32,
    /// Rejections, never reset while the pod is pending.
    pub rejections: u32,
    pub consecutive_errors: u32,
    pub failure: Failure,
    /// When it joined the queue or failed last.
    pub timestamp: Time,
    pub first_attempt: Option<Time>,
    /// Order of arrival, the last word between equals.
    pub(super) arrival: u64,
    /// When it was parked or last re-examined by the flush.
    pub(super) parked: Time,
}

impl Record {
    pub(super) fn new(ticket: Ticket, arrival: u64, now: Time) -> Self {
        Self {
            ticket,
            place: Place::Active,
            attempts: 0,
            rejections: 0,
            consecutive_errors: 0,
            failure: Failure::default(),
            timestamp: now,
            first_attempt: None,
            arrival,
            parked: now,
        }
    }

    /// True unless an attempt is under way.
    pub(super) fn is_waiting(&self) -> bool {
        !matches!(self.place, Place::InFlight | Place::Binding)
    }

    pub(super) fn popped(&mut self, now: Time) {
        self.place = Place::InFlight;
        self.attempts = self.attempts.saturating_add(1);
        self.first_attempt.get_or_insert(now);
        self.failure = Failure::default();
    }

    pub(super) fn failed(&mut self, failure: Failure, now: Time) {
        if failure.is_error() {
            self.consecutive_errors = self.consecutive_errors.saturating_add(1);
        } else {
            self.rejections = self.rejections.saturating_add(1);
            self.consecutive_errors = 0;
        }
        self.failure = failure;
        self.timestamp = now;
    }

    /// The second in which the pause ends; `None` without one.
    pub(super) fn expiry(&self, backoff: Backoff) -> Option<i64> {
        let failures = match self.consecutive_errors {
            0 => self.rejections,
            errors => errors,
        };
        let pause = backoff.pause(failures);
        (!pause.is_zero()).then(|| (self.timestamp + pause).whole_secs())
    }

    pub(super) fn is_pausing(&self, backoff: Backoff, now: Time) -> bool {
        self.expiry(backoff).is_some_and(|expiry| expiry >= now.whole_secs())
    }

    /// Higher priority first, then who has waited longer.
    pub(super) fn rank(&self) -> Rank {
        Rank {
            priority: std::cmp::Reverse(self.ticket.priority),
            timestamp: self.timestamp,
            arrival: self.arrival,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    priority: std::cmp::Reverse<i32>,
    timestamp: Time,
    arrival: u64,
}
