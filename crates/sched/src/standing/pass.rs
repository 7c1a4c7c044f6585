//! One decision for a class with plugins that look at the whole cluster.
//!
//! The nodes that local filters let through are filtered and scored once more, plugin by plugin
//! over dense lists. Normalising is exact: only nodes that are feasible in the end count.

use std::collections::BTreeMap;

use super::{ScoreRun, Standing, Ties, proportion};
use crate::plugin::{Normalise, Reads};
use crate::snapshot::{NodeIx, Snapshot};
use crate::verdict::Verdict;

/// A node and its total.
pub type Scored = (NodeIx, i64);

/// Lists that are reused from one pass to the next.
#[derive(Debug, Default)]
pub struct Pass {
    nodes: Vec<NodeIx>,
    verdicts: Vec<Verdict>,
    totals: Vec<i64>,
    /// Normalised scores of plugins that look at the cluster, by their place in the standing.
    columns: Vec<(usize, Vec<i64>)>,
    spare: Vec<Vec<i64>>,
}

impl Pass {
    /// Nodes feasible in the end, with their totals, in no order that means anything.
    pub fn totals(&self) -> impl Iterator<Item = Scored> + '_ {
        self.nodes.iter().copied().zip(self.totals.iter().copied())
    }

    pub fn feasible(&self) -> usize {
        self.nodes.len()
    }

    /// Adds what others think of the nodes.
    pub(crate) fn add(&mut self, scores: &BTreeMap<NodeIx, i64>) {
        for (node, total) in self.nodes.iter().zip(&mut self.totals) {
            *total = total.saturating_add(scores.get(node).copied().unwrap_or(0));
        }
    }

    /// The winner and the one after it.
    pub fn best(
        &self,
        standing: &Standing,
        snapshot: &Snapshot,
    ) -> (Option<Scored>, Option<Scored>) {
        let ties: Ties<'_> = standing.ties(snapshot);
        let wins = |a: Scored, b: Scored| a.1 > b.1 || (a.1 == b.1 && ties.wins(a.0.0, b.0.0));
        let (mut first, mut second): (Option<Scored>, Option<Scored>) = (None, None);
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
    /// Filters and scores all nodes but those in `without`, which is sorted.
    pub fn pass(&mut self, snapshot: &Snapshot, without: &[NodeIx], pass: &mut Pass) {
        pass.nodes.clear();
        let cells = (0u32..).map(NodeIx).zip(&self.cells);
        let candidates = cells
            .filter(|(node, cell)| cell.verdict.is_ok() && without.binary_search(node).is_err());
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

    /// Weighted scores by plugin of a node that came through the pass.
    pub fn parts_in(
        &self,
        snapshot: &Snapshot,
        pass: &Pass,
        node: NodeIx,
    ) -> Vec<(&'static str, i64)> {
        let Some(row) = pass.nodes.iter().position(|one| *one == node) else { return Vec::new() };
        let score_of = |at: usize, run: &ScoreRun| {
            if run.reads == Reads::Cluster {
                let (_, column) = pass.columns.iter().find(|(one, _)| *one == at)?;
                return column.get(row).copied();
            }
            let Some(raws) = self.raws.iter().find(|raws| raws.run == at) else {
                return Some(self.works.get(run.work)?.score(snapshot, node));
            };
            let raw = |node: &NodeIx| raws.values.get(node.index()).copied().unwrap_or(0);
            let largest = pass.nodes.iter().map(raw).max().unwrap_or(0);
            Some(proportion(raw(&node), largest, raws.reverse))
        };
        let part = |(at, run): (usize, &ScoreRun)| {
            Some((run.plugin, score_of(at, run)?.saturating_mul(run.weight)))
        };
        self.scores.iter().enumerate().filter_map(part).collect()
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
        pass.spare.extend(pass.columns.drain(..).map(|(_, column)| column));
        let runs = self.scores.iter().enumerate();
        for (at, run) in runs.filter(|(_, run)| run.reads == Reads::Cluster) {
            let Some(work) = self.works.get_mut(run.work) else { continue };
            let mut scores = pass.spare.pop().unwrap_or_default();
            scores.clear();
            scores.resize(pass.nodes.len(), 0);
            work.score_all(snapshot, &pass.nodes, &mut scores);
            match run.normalise {
                Normalise::None => {}
                Normalise::Own => work.normalise(&pass.nodes, &mut scores),
                Normalise::Largest { reverse } => {
                    let largest = scores.iter().copied().max().unwrap_or(0);
                    for score in &mut scores {
                        *score = proportion(*score, largest, reverse);
                    }
                }
            }
            for (total, score) in pass.totals.iter_mut().zip(&scores) {
                *total += run.weight.saturating_mul(*score);
            }
            pass.columns.push((at, scores));
        }
    }
}
