//! How many pods came into each part of the queue, and what brought them?

use std::collections::BTreeMap;

use super::event::{Actions, Resource};
use super::record::Place;

/// What brought a pod into a part of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// It was created, or is ours from now on.
    Arrival,
    Failure,
    PauseOver,
    /// Nothing else was there to do.
    Idle,
    /// Somebody asked for it by name.
    Forced,
    /// It was parked for too long.
    Timeout,
    /// Something happened; of several actions the first is told.
    Event(Resource, Actions),
}

impl Cause {
    pub(super) fn event(resource: Resource, actions: Actions) -> Self {
        Self::Event(resource, actions.first())
    }

    /// The word for it in metrics.
    #[must_use]
    pub fn label(self) -> String {
        let word = match self {
            Self::Arrival => "UnscheduledPodAdd",
            Self::Failure => "ScheduleAttemptFailure",
            Self::PauseOver => "BackoffComplete",
            Self::Idle => "PopFromBackoffQ",
            Self::Forced => "ForceActivate",
            Self::Timeout => "UnschedulableTimeout",
            Self::Event(resource, actions) => return event_label(resource, actions),
        };
        word.to_owned()
    }
}

/// An event in one word, as `NodeAdd`.
#[must_use]
pub fn event_label(resource: Resource, actions: Actions) -> String {
    let resource = match resource {
        Resource::Any => "*".to_owned(),
        Resource::Pod => "AssignedPod".to_owned(),
        Resource::OwnPod => "UnscheduledPod".to_owned(),
        other => format!("{other:?}"),
    };
    format!("{resource}{:?}", actions.first())
}

/// A part of the queue, as metrics call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Room {
    Active,
    Backoff,
    Unschedulable,
    Gated,
}

impl Room {
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Backoff => "backoff",
            Self::Unschedulable => "unschedulable",
            Self::Gated => "gated",
        }
    }

    fn of(place: Place) -> Option<Self> {
        match place {
            Place::Active => Some(Self::Active),
            Place::Backoff { .. } => Some(Self::Backoff),
            Place::Unschedulable => Some(Self::Unschedulable),
            Place::Gated(_) => Some(Self::Gated),
            Place::InFlight | Place::Binding => None,
        }
    }
}

/// Counts since the beginning.
#[derive(Debug, Default)]
pub(super) struct Incoming(BTreeMap<(Room, Cause), u64>);

impl Incoming {
    pub(super) fn count(&mut self, place: Place, cause: Cause) {
        if let Some(room) = Room::of(place) {
            *self.0.entry((room, cause)).or_default() += 1;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Room, Cause, u64)> {
        self.0.iter().map(|((room, cause), count)| (*room, *cause, *count))
    }
}
