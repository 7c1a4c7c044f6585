//! What clearing each node would cost a class, kept up to date by the change log.

use std::collections::{BTreeMap, HashMap};

use super::dry_run::DryRun;
use super::{Cost, count};
use crate::model::ClassId;
use crate::snapshot::NodeIx;

/// Classes that preempt are few; the least recently used one makes room.
const MOST: usize = 32;

#[derive(Debug, Clone)]
enum Entry {
    Unknown,
    Costs(Cost),
    /// Why clearing the node would not help: an index into the ledger's reasons.
    Useless(usize),
}

#[derive(Debug)]
struct Ledger {
    cursor: u64,
    budgets: u64,
    entries: Vec<Entry>,
    reasons: Vec<Vec<String>>,
    used: u64,
}

#[derive(Debug, Default)]
pub struct Ledgers {
    by_class: HashMap<ClassId, Ledger>,
    uses: u64,
}

impl Ledgers {
    /// The cheapest of these nodes, and how many are of no use for which reason.
    pub(super) fn cheapest(
        &mut self,
        dry: &mut DryRun<'_, '_>,
        nodes: &[NodeIx],
        seed: u64,
    ) -> (Option<NodeIx>, BTreeMap<String, u32>) {
        self.uses += 1;
        let class = dry.standing.class().id;
        if self.by_class.len() >= MOST && !self.by_class.contains_key(&class) {
            let oldest = self.by_class.iter().min_by_key(|(_, ledger)| ledger.used);
            if let Some(oldest) = oldest.map(|(id, _)| *id) {
                self.by_class.remove(&oldest);
            }
        }
        let ledger = self.by_class.entry(class).or_insert_with(|| Ledger {
            cursor: 0,
            budgets: 0,
            entries: Vec::new(),
            reasons: Vec::new(),
            used: 0,
        });
        ledger.used = self.uses;
        ledger.catch_up(dry);
        ledger.cheapest(dry, nodes, seed)
    }
}

impl Ledger {
    fn catch_up(&mut self, dry: &DryRun<'_, '_>) {
        let snapshot = &*dry.cycle.snapshot;
        let is_current = self.budgets == dry.budgets.epoch();
        match snapshot.log().since(self.cursor).filter(|_| is_current && self.cursor > 0) {
            Some(changes) => {
                self.entries.resize(snapshot.slots(), Entry::Unknown);
                for change in changes {
                    if let Some(entry) = self.entries.get_mut(change.node.index()) {
                        *entry = Entry::Unknown;
                    }
                }
            }
            None => {
                self.reasons.clear();
                self.entries.clear();
                self.entries.resize(snapshot.slots(), Entry::Unknown);
            }
        }
        self.budgets = dry.budgets.epoch();
        self.cursor = snapshot.log().end();
        self.forget_own(dry);
    }

    fn cheapest(
        &mut self,
        dry: &mut DryRun<'_, '_>,
        nodes: &[NodeIx],
        seed: u64,
    ) -> (Option<NodeIx>, BTreeMap<String, u32>) {
        let mut best: Option<(Cost, NodeIx)> = None;
        let mut useless: Vec<u32> = Vec::new();
        for node in nodes {
            match self.entry(dry, *node) {
                Entry::Costs(cost) => {
                    let is_better = best.is_none_or(|(least, first)| {
                        cost < least
                            || (cost == least && dry.order(*node, seed) < dry.order(first, seed))
                    });
                    if is_better {
                        best = Some((cost, *node));
                    }
                }
                Entry::Useless(why) => {
                    useless.resize(self.reasons.len(), 0);
                    if let Some(nodes) = useless.get_mut(why) {
                        *nodes += 1;
                    }
                }
                Entry::Unknown => {}
            }
        }
        let mut failures = BTreeMap::new();
        for (reasons, nodes) in self.reasons.iter().zip(useless).filter(|(_, nodes)| *nodes > 0) {
            count(&mut failures, reasons, nodes);
        }
        self.forget_own(dry);
        (best.map(|(_, node)| node), failures)
    }

    /// What the pod itself is promised differs from what its replicas are: an entry for that
    /// node is made for this pod alone.
    fn forget_own(&mut self, dry: &DryRun<'_, '_>) {
        let snapshot = &*dry.cycle.snapshot;
        let pod = snapshot.pods.get(dry.pod);
        let own = pod.and_then(|pod| pod.nominated).and_then(|name| snapshot.node_by_name(name));
        if let Some(entry) = own.and_then(|node| self.entries.get_mut(node.index())) {
            *entry = Entry::Unknown;
        }
    }

    fn entry(&mut self, dry: &mut DryRun<'_, '_>, node: NodeIx) -> Entry {
        match self.entries.get(node.index()) {
            Some(known @ (Entry::Costs(_) | Entry::Useless(_))) => return known.clone(),
            Some(Entry::Unknown) | None => {}
        }
        let entry = match dry.run(node) {
            Ok((_, cost)) => Entry::Costs(cost),
            Err(reasons) => Entry::Useless(self.reason(reasons)),
        };
        if let Some(slot) = self.entries.get_mut(node.index()) {
            *slot = entry.clone();
        }
        entry
    }

    fn reason(&mut self, reasons: Vec<String>) -> usize {
        if let Some(at) = self.reasons.iter().position(|known| *known == reasons) {
            return at;
        }
        self.reasons.push(reasons);
        self.reasons.len() - 1
    }
}
