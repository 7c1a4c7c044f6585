//! Standings of the classes in use. The least recently used one makes room.

use std::collections::HashMap;
use std::sync::Arc;

use super::Standing;
use crate::framework::Framework;
use crate::model::{Class, ClassId};
use crate::snapshot::Snapshot;

/// What all standings together may take, in bytes of their per-node tables.
const BUDGET: usize = 96 << 20;
/// Cells, raw scores and the ranking of one node, roughly.
const PER_NODE: usize = 96;
const FEWEST: usize = 16;

#[derive(Debug)]
pub struct Standings {
    seed: u64,
    /// By class; a class belongs to one scheduler name and so to one profile.
    by_class: HashMap<ClassId, (Standing, u64)>,
    uses: u64,
}

impl Standings {
    pub fn new(seed: u64) -> Self {
        Self { seed, by_class: HashMap::new(), uses: 0 }
    }

    /// The standing of a class as of now.
    pub fn current(
        &mut self,
        framework: &Framework,
        snapshot: &Snapshot,
        class: &Arc<Class>,
    ) -> &mut Standing {
        self.uses += 1;
        if !self.by_class.contains_key(&class.id) {
            self.make_room(snapshot.slots());
        }
        let (seed, uses) = (self.seed, self.uses);
        let entry = self.by_class.entry(class.id);
        let mut is_new = false;
        let (standing, used) = entry.or_insert_with(|| {
            is_new = true;
            (Standing::build(framework, snapshot, class, seed), uses)
        });
        *used = uses;
        if !is_new {
            standing.refresh(framework, snapshot, seed);
        }
        standing
    }

    /// A standing of its own that nobody keeps.
    pub fn fresh(
        &self,
        framework: &Framework,
        snapshot: &Snapshot,
        class: &Arc<Class>,
    ) -> Standing {
        Standing::build(framework, snapshot, class, self.seed)
    }

    pub fn len(&self) -> usize {
        self.by_class.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_class.is_empty()
    }

    fn make_room(&mut self, nodes: usize) {
        let most = (BUDGET / (nodes.max(1) * PER_NODE)).max(FEWEST);
        while self.by_class.len() >= most {
            let oldest = self.by_class.iter().min_by_key(|(_, (_, used))| *used);
            let Some(oldest) = oldest.map(|(id, _)| *id) else { return };
            self.by_class.remove(&oldest);
        }
    }
}
