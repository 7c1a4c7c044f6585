//! How far back can a watch start, and a listing continue?
//!
//! Each collection keeps its latest changes, oldest first, within a count and
//! a number of bytes. Beyond that the oldest are forgotten, and `floor` rises:
//! every change after `floor` is present, nothing before it is promised.
//!
//! The same changes, undone from the newest backwards, give the collection as
//! it was at any revision from `floor` on. So a listing that is read in pages
//! needs no snapshot to be kept for it.

use std::{collections::VecDeque, sync::Arc};

use super::{
    Limits,
    event::{Change, EventKind},
    key::Revision,
    state::{Entry, Objects},
};

#[derive(Debug)]
pub(super) struct History {
    floor: Revision,
    changes: VecDeque<Change>,
    bytes: usize,
}

impl History {
    /// Nothing is known of what happened up to and including `floor`.
    pub(super) fn starting_at(floor: Revision) -> Self {
        Self { floor, changes: VecDeque::new(), bytes: 0 }
    }

    pub(super) fn push(&mut self, change: Change, limits: &Limits) {
        self.bytes = self.bytes.saturating_add(change.event.bytes());
        self.changes.push_back(change);
        while self.changes.len() > limits.history_events || self.bytes > limits.history_bytes {
            let Some(oldest) = self.changes.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(oldest.event.bytes());
            self.floor = oldest.event.revision();
        }
    }

    /// The changes after `from`, oldest first; or the floor, if it is higher.
    pub(super) fn since(
        &self,
        from: Revision,
    ) -> Result<impl DoubleEndedIterator<Item = &Change>, Revision> {
        if from < self.floor {
            return Err(self.floor);
        }
        let start = self.changes.partition_point(|change| change.event.revision() <= from);
        Ok(self.changes.range(start..))
    }
}

/// Takes one change back.
pub(super) fn undo(objects: &mut Objects, change: &Change) {
    let Change { event, previous_revision } = change;
    match (event.kind, previous_revision, &event.previous) {
        (EventKind::Modified | EventKind::Deleted, Some(revision), Some(json)) => {
            let entry = Entry { revision: *revision, json: Arc::clone(json) };
            objects.insert_mut(event.object.key.place(), entry);
        }
        _ => {
            objects.remove_mut(&event.object.key.place());
        }
    }
}
