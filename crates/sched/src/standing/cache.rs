//! Standings of the classes in use. The least recently used one makes room.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::Standing;
use crate::framework::Framework;
use crate::model::{Class, ClassId, Symbol};
use crate::profile::Point;
use crate::snapshot::Snapshot;

/// What all standings together may take, in bytes of their per-node tables.
const BUDGET: usize = 96 << 20;
/// Cells, raw scores and the ranking of one node, roughly.
const PER_NODE: usize = 96;
const FEWEST: usize = 16;

/// How many pods each plugin had a say about, by scheduler name, plugin and point.
pub type Evaluations = BTreeMap<(Symbol, &'static str, Point), u64>;

#[derive(Debug)]
pub struct Standings {
    seed: u64,
    /// By class; a class belongs to one scheduler name and so to one profile.
    by_class: HashMap<ClassId, (Standing, u64)>,
    uses: u64,
    /// Of standings that are no more, and of others as of the last count.
    evaluations: Evaluations,
}

impl Standings {
    pub fn new(seed: u64) -> Self {
        Self { seed, by_class: HashMap::new(), uses: 0, evaluations: Evaluations::new() }
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
        let Self { seed, by_class, uses, evaluations } = self;
        let entry = by_class.entry(class.id);
        let mut is_new = false;
        let (standing, used) = entry.or_insert_with(|| {
            is_new = true;
            (Standing::build(framework, snapshot, class, *seed), *uses)
        });
        *used = *uses;
        if !is_new && !standing.catch_up(snapshot) {
            count(standing, evaluations);
            *standing = Standing::build(framework, snapshot, class, *seed);
            is_new = true;
        }
        if is_new {
            for plugin in framework.pre_filters.iter().filter_map(|at| framework.get(*at)) {
                let key = (class.scheduler, plugin.name(), Point::PreFilter);
                *evaluations.entry(key).or_default() += 1;
            }
        }
        standing
    }

    /// The standing of a class as it was last used.
    pub(crate) fn last(&self, class: &Class) -> Option<&Standing> {
        self.by_class.get(&class.id).map(|(standing, _)| standing)
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

    /// How many pods each plugin had a say about so far. Preparation counts as often as it is
    /// done, which is once for many pods.
    pub fn evaluations(&mut self) -> &Evaluations {
        for (standing, _) in self.by_class.values_mut() {
            count(standing, &mut self.evaluations);
        }
        &self.evaluations
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
            if let Some((mut standing, _)) = self.by_class.remove(&oldest) {
                count(&mut standing, &mut self.evaluations);
            }
        }
    }
}

/// Adds a standing's decisions to those of its plugins.
fn count(standing: &mut Standing, evaluations: &mut Evaluations) {
    let decisions = std::mem::take(&mut standing.decisions);
    if decisions == 0 {
        return;
    }
    let filters = standing.filters.iter().map(|run| (run.plugin, Point::Filter));
    let scores = standing.scores.iter().map(|run| (run.plugin, Point::Score));
    for (plugin, point) in filters.chain(scores) {
        let key = (standing.class.scheduler, plugin, point);
        *evaluations.entry(key).or_default() += decisions;
    }
}
