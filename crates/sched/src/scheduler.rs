//! The scheduler as one value: changes go in, attempts come out.
//!
//! One task owns it. It never waits, never asks a clock and never talks to anybody: the process
//! around it applies what the API server reports, asks for the next attempt, carries it out and
//! reports back how that went.

mod attempt;
mod change;
mod facts;

use std::time::Duration;

pub use attempt::{
    Attempt, BindFailure, Nominate, Outcome, Place, Placement, PodClaim, PodRef, Ranked, Reject,
    Victim, VolumeWork,
};
pub use change::{Change, Key, Update};

use crate::explain::Explanation;
use crate::plugins::ArgsError;
use crate::profile::Profile;
use crate::snapshot::Snapshot;
use crate::time::Time;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Decides between equal nodes.
    pub seed: u64,
    pub initial_backoff: Duration,
    pub max_backoff: Duration,
    /// How long a pod may wait for an event that never comes.
    pub flush_after: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 0,
            initial_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(10),
            flush_after: Duration::from_mins(5),
        }
    }
}

/// Why profiles cannot be scheduled with.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    #[error("no profile is given")]
    Empty,
    #[error("profile {name} is given twice")]
    Twice { name: String },
    #[error("profile {profile} enables {plugin}, which does not exist")]
    UnknownPlugin { profile: String, plugin: String },
    #[error("profile {profile} cannot be used")]
    Args { profile: String, source: ArgsError },
}

#[derive(Debug)]
pub struct Scheduler {
    snapshot: Snapshot,
}

impl Scheduler {
    pub fn new(_profiles: Vec<Profile>, _options: Options) -> Result<Self, ProfileError> {
        Ok(Self { snapshot: Snapshot::default() })
    }

    /// Takes note of an object as it is now.
    pub fn apply(&mut self, _change: Change, _now: Time) {}

    /// Takes the next pod off the queue and decides; a placed pod is assumed on its node.
    pub fn next(&mut self, _now: Time) -> Option<Attempt> {
        None
    }

    /// The pod was bound.
    pub fn bound(&mut self, _uid: &str, _now: Time) {}

    /// The pod could not be bound: its node is free again and the pod waits.
    pub fn bind_failed(&mut self, _uid: &str, _failure: BindFailure, _now: Time) {}

    /// The victims of this pod's preemption have been told to go (or could not be told).
    pub fn preempted(&mut self, _uid: &str, _now: Time) {}

    /// When [`tick`](Self::tick) has something to do next.
    pub fn wake_at(&self, _now: Time) -> Option<Time> {
        None
    }

    /// Ends back-offs and long waits that are over.
    pub fn tick(&mut self, _now: Time) {}

    /// Why a pod waits, or why it is where it is.
    pub fn explain(&self, _namespace: &str, _name: &str) -> Option<Explanation> {
        None
    }

    /// Violations of the conservation laws; none in a sane scheduler.
    pub fn check(&self) -> Vec<String> {
        Vec::new()
    }

    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }
}
