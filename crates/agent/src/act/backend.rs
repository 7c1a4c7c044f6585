//! How is one kind of target read, written and restored?
//!
//! | file | target | changed by |
//! |---|---|---|
//! | [`knob`] | a setting of a control group | writing its file |
//! | [`file`] | a sysctl, a switch below `/sys`, a score of a process | writing the file, or a word of it |
//! | [`resctrl`] | a part of the cache and of memory bandwidth | making a group, its lines, moving threads |
//! | [`cookie`] | who shares a core | `prctl` for each process |
//! | [`qdisc`] | how packets of a device queue | the program `tc` |
//! | [`terway`] | a file that terway's daemon reads | replacing the file |
//! | [`reclaim`] | memory of a control group | writing `memory.reclaim`, once a wish |
//!
//! A backend only knows its kind. When it is called, what is kept in the ledger and what is told to people is
//! the [`Writer`](super::writer::Writer)'s, the same for all of them.

pub(super) mod cookie;
pub(super) mod file;
pub(super) mod knob;
pub(super) mod qdisc;
pub(super) mod reclaim;
pub(super) mod resctrl;
pub(super) mod terway;

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use qos::claim::Value;
use qos::cookies::CookieHolders;
use qos::wish::Target;

use super::ledger::{Entry, OriginalValue, SharedLedger};
use crate::object::chain;

/// What a target holds at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Observation {
    /// In words by which it is recognised later.
    pub(super) text: String,
    /// As wishes see it. Where a value has many parts, it equals the wanted one when all parts are so.
    pub(super) value: Value,
    /// What has to be kept before the first write.
    pub(super) original: OriginalValue,
    /// Who has a cookie, for metrics and people.
    pub(super) holders: Option<CookieHolders>,
}

impl Observation {
    fn of_text(text: String, value: Value) -> Self {
        let original = OriginalValue::Text(text.clone());
        Self { text, value, original, holders: None }
    }
}

/// What a target is looked at for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Aim<'a> {
    /// What is wanted of it; `None` is its original value.
    pub(super) wanted: Option<&'a Value>,
    pub(super) entry: Option<&'a Entry>,
}

/// Why a target says nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReadFailure {
    /// It does not exist any more, and nothing of ours with it.
    Gone,
    /// This machine has no such thing.
    Unsupported(String),
    /// It is there, and cannot be read now.
    Refused(String),
}

/// Why a target is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    Refused(String),
    /// The time is over: the next attempt goes on from here.
    Unfinished(String),
    Unsupported(String),
    /// Nothing was written, because it could not be kept in the ledger.
    Ledger(String),
}

impl Refusal {
    fn of(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::Refused(chain(error))
    }
}

/// One write to carry out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) target: &'a Target,
    pub(super) value: &'a Value,
    pub(super) now: &'a Observation,
    pub(super) entry: Option<&'a Entry>,
    pub(super) limit: &'a Limit,
}

/// One kind of target.
pub(super) trait Backend: Debug + Send {
    fn serves(&self, target: &Target) -> bool;

    fn read(&mut self, target: &Target, aim: Aim<'_>) -> Result<Observation, ReadFailure>;

    /// Brings the target to the value. Announces every value before it is written.
    fn write(&mut self, job: &Job<'_>, log: &Announcer<'_>) -> Result<(), Refusal>;

    /// Brings back what was there; the job's value is that, as wishes would see it.
    fn restore(&mut self, job: &Job<'_>, log: &Announcer<'_>) -> Result<(), Refusal> {
        self.write(job, log)
    }

    /// An original as wishes see it; `None` when it is no longer understood.
    fn original(&self, target: &Target, original: &OriginalValue) -> Option<Value>;

    /// Whether the target holds its original value, or one that does the same.
    fn is_original(&self, target: &Target, original: &OriginalValue, now: &Observation) -> bool {
        self.original(target, original).is_some_and(|original| original == now.value)
    }

    /// Whether what is there came from us, or was there before us. Where an earlier version did not write down
    /// what it wrote, that cannot be told, and counts as ours.
    fn is_ours(&self, target: &Target, entry: &Entry, now: &Observation) -> bool {
        entry.ours.is_empty()
            || entry.ours.contains(&now.text)
            || self.is_original(target, &entry.original, now)
    }

    /// What a target would hold without us although it was never written: something of ours was handed down.
    fn inherited(&self, _target: &Target, _now: &Observation) -> Option<OriginalValue> {
        None
    }
}

/// Where a backend says what it is about to write.
#[derive(Debug)]
pub(super) struct Announcer<'a> {
    pub(super) ledger: &'a SharedLedger,
    pub(super) target: &'a Target,
    pub(super) original: &'a OriginalValue,
}

impl Announcer<'_> {
    fn announce(&self, text: &str) -> Result<(), Refusal> {
        let kept = self.ledger.lock().announce(self.target, self.original, text);
        kept.map_err(|error| Refusal::Ledger(chain(&error)))
    }

    /// What is there now came from us, and nothing announced before is.
    pub(super) fn wrote(&self, text: &str) -> Result<(), Refusal> {
        let kept = self.ledger.lock().wrote(self.target, text);
        kept.map_err(|error| Refusal::Ledger(chain(&error)))
    }
}

/// How long one call may take.
#[derive(Debug, Clone, Default)]
pub(super) struct Limit {
    end: Option<Instant>,
    /// Set when nobody waits for the outcome any more.
    is_cancelled: Arc<AtomicBool>,
}

impl Limit {
    pub(super) fn new(longest: Duration, is_cancelled: &Arc<AtomicBool>) -> Self {
        let end = Instant::now().checked_add(longest);
        Self { end, is_cancelled: is_cancelled.clone() }
    }

    fn is_over(&self) -> bool {
        self.is_cancelled.load(Ordering::Acquire)
            || self.end.is_some_and(|end| Instant::now() >= end)
    }
}
