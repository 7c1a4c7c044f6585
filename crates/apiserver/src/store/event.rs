//! What do watchers see?

use std::sync::Arc;

use super::{key::Revision, state::Stored};

/// How an object changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    Added,
    Modified,
    Deleted,
}

/// One write, as a watcher sees it. For a deletion, `object` is the last state
/// at the revision of the deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub kind: EventKind,
    pub object: Stored,
    /// The JSON that this write replaced or removed.
    pub previous: Option<Arc<[u8]>>,
}

impl Event {
    pub fn revision(&self) -> Revision {
        self.object.revision
    }

    /// The memory an event keeps alive at most.
    pub(super) fn bytes(&self) -> usize {
        let previous = self.previous.as_ref().map_or(0, |json| json.len());
        self.object.json.len().saturating_add(previous)
    }
}

/// An event and what it takes to undo it.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) event: Arc<Event>,
    pub(super) previous_revision: Option<Revision>,
}
