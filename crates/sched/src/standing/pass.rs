//! One decision for a class with plugins that look at the whole cluster.
//!
//! The nodes that local filters let through are filtered and scored once more, plugin by plugin
//! over dense lists. Normalising is exact: only nodes that are feasible in the end count.

use super::{Standing, Ties, proportion};
use crate::plugin::{Normalise, Reads};
use crate::snapshot::{NodeIx, Snapshot};
use crate::verdict::Verdict;

/// Lists that are reused from one pass to the next.
#[derive(Debug, Default)]
pub struct Pass {
    nodes: Vec<NodeIx>,
    verdicts: Vec<Verdict>,
    scores: Vec<i64>,
    totals: Vec<i64>,
}

impl Pass {
    /// Nodes feasible in the end, with their totals, in no order that means anything.
    pub fn totals(&self) -> impl Iterator<Item = (NodeIx, i64)> + '_ {
        self.nodes.iter().copied().zip(self.totals.iter().copied())
    }

    pub fn feasible(&self) -> usize {
        self.nodes.len()
    }

    /// The winner and the one after it.
    pub fn best(
        &self,
        standing: &Standing,
        snapshot: &Snapshot,
    ) -> (Option<(NodeIx, i64)>, Option<(NodeIx, i64)>) {
        let ties: Ties<'_> = standing.ties(snapshot);
        let wins = |a: (NodeIx, i64), b: (NodeIx, i64)| {
            a.1 > b.1 || (a.1 == b.1 && ties.wins(a.0.0, b.0.0))
        };
        let (mut first, mut second): (Option<(NodeIx, i64)>, Option<(NodeIx, i64)>) = (None, None);
        for one in self.totals() {
            if first.is_none_or(|best| wins(one, best)) {
                (first, second) = (Some(one), first);
            } else if second.is_none_or(|best| wins(one, best)) {
                second = Some(one);
            }
        }
        (first, second)
    }
}

impl Standing {
    /// Filters and scores all nodes but those in `without`.
    pub fn pass(&mut self, snapshot: &Snapshot, without: &[NodeIx], pass: &mut Pass) {
        pass.nodes.clear();
        let cells = (0u32..).map(NodeIx).zip(&self.cells);
        let candidates =
            cells.filter(|(node, cell)| cell.verdict.is_ok() && !without.contains(node));
        pass.nodes.extend(candidates.map(|(node, _)| node));
        pass.verdicts.clear();
        pass.verdicts.resize(pass.nodes.len(), Verdict::OK);
        for run in self.filters.iter().filter(|run| run.reads == Reads::Cluster) {
            if let Some(work) = self.works.get(run.work) {
                work.filter_all(snapshot, &pass.nodes, &mut pass.verdicts);
            }
        }
        let mut verdicts = pass.verdicts.iter();
        pass.nodes.retain(|_| verdicts.next().is_some_and(|verdict| verdict.is_ok()));
        pass.totals.clear();
        pass.totals.extend(pass.nodes.iter().map(|node| self.plain_of(*node)));
        self.add_relative(pass);
        self.add_global(snapshot, pass);
    }

    /// Local scores that are relative to the largest among these nodes.
    fn add_relative(&self, pass: &mut Pass) {
        for raws in &self.raws {
            let raw = |node: &NodeIx| raws.values.get(node.index()).copied().unwrap_or(0);
            let largest = pass.nodes.iter().map(raw).max().unwrap_or(0);
            let weight = self.scores.get(raws.run).map_or(1, |run| run.weight);
            for (node, total) in pass.nodes.iter().zip(&mut pass.totals) {
                *total += weight.saturating_mul(proportion(raw(node), largest, raws.reverse));
            }
        }
    }

    fn add_global(&mut self, snapshot: &Snapshot, pass: &mut Pass) {
        for run in self.scores.iter().filter(|run| run.reads == Reads::Cluster) {
            let Some(work) = self.works.get_mut(run.work) else { continue };
            pass.scores.clear();
            pass.scores.resize(pass.nodes.len(), 0);
            work.score_all(snapshot, &pass.nodes, &mut pass.scores);
            match run.normalise {
                Normalise::None => {}
                Normalise::Own => work.normalise(&pass.nodes, &mut pass.scores),
                Normalise::Largest { reverse } => {
                    let largest = pass.scores.iter().copied().max().unwrap_or(0);
                    for score in &mut pass.scores {
                        *score = proportion(*score, largest, reverse);
                    }
                }
            }
            for (total, score) in pass.totals.iter_mut().zip(&pass.scores) {
                *total += run.weight.saturating_mul(*score);
            }
        }
    }
}
