//! What has changed since I last looked?
//!
//! Every change of a node gets a running number. Whoever keeps something for every node keeps a
//! number too and reads the entries since. The log is bounded: a reader that is further behind
//! than it is long starts over, which is also cheaper by then.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::model::Class;

use super::NodeIx;

#[derive(Debug, Clone)]
pub struct Change {
    pub node: NodeIx,
    pub what: What,
}

#[derive(Debug, Clone)]
pub enum What {
    /// The node object came, changed or went.
    Node,
    /// Something a plugin keeps about the node changed: load, NUMA cells.
    State,
    Added {
        class: Arc<Class>,
        is_terminating: bool,
    },
    Removed {
        class: Arc<Class>,
        is_terminating: bool,
    },
}

#[derive(Debug, Default)]
pub struct Log {
    entries: VecDeque<Change>,
    /// The number of the oldest entry kept.
    first: u64,
}

impl Log {
    /// The number the next change will get.
    pub fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Changes from this number on, or `None` when some are no longer kept.
    pub fn since(&self, cursor: u64) -> Option<impl ExactSizeIterator<Item = &Change>> {
        let skip = cursor.checked_sub(self.first)?;
        let skip = usize::try_from(skip).ok()?;
        (skip <= self.entries.len()).then(|| self.entries.range(skip..))
    }

    pub(super) fn push(&mut self, change: Change, capacity: usize) {
        self.entries.push_back(change);
        while self.entries.len() > capacity {
            self.entries.pop_front();
            self.first += 1;
        }
    }
}
