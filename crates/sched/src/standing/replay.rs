//! Bringing a standing up to date, node by node.

use super::{Cell, EXCLUDED, Judgement, Raws, Standing, proportion};
use crate::plugin::{Epoch, Follow, Normalise, Reads};
use crate::plugins::concerns;
use crate::snapshot::{Change, NodeIx, Snapshot, What};
use crate::verdict::Verdict;

const ABSENT: Cell = Cell {
    fixed: Verdict::ABSENT,
    verdict: Verdict::ABSENT,
    fixed_plain: 0,
    plain: 0,
    fixed_by: 0,
    by: 0,
};

impl Standing {
    /// Catches up with the snapshot; false when starting over is cheaper or the only way.
    pub(super) fn catch_up(&mut self, snapshot: &Snapshot) -> bool {
        for (epoch, number) in &mut self.epochs {
            let now = snapshot.epoch(*epoch);
            let may_ignore = *epoch == Epoch::Company;
            if now != *number && (!may_ignore || concerns(snapshot, &self.class, *number)) {
                return false;
            }
            *number = now;
        }
        if self.before.is_some() {
            self.cursor = snapshot.log().end();
            return true;
        }
        let Some(changes) = snapshot.log().since(self.cursor) else { return false };
        if changes.len() > snapshot.slots().max(8) || snapshot.slots() > self.ranking.capacity() {
            return false;
        }
        self.grow(snapshot.slots());
        for change in changes {
            if self.is_global && !self.follow(snapshot, change) {
                return false;
            }
            let node = change.node;
            let before = self.cells.get(node.index()).copied().unwrap_or(ABSENT);
            let is_object = matches!(change.what, What::Node);
            let mut cell = if is_object { self.fixed_cell(snapshot, node) } else { before };
            self.use_cell(snapshot, node, &mut cell);
            self.store(snapshot, node, before, cell, is_object);
            self.rank(snapshot, node, cell);
        }
        if self.is_dirty {
            self.rank_all(snapshot);
        }
        self.cursor = snapshot.log().end();
        true
    }

    /// Tells work that looks at the cluster of a change; false when it must be made again.
    pub fn follow(&mut self, snapshot: &Snapshot, change: &Change) -> bool {
        let Self { works, filters, scores, .. } = self;
        let mut told: Vec<usize> = Vec::new();
        let filters = filters.iter().map(|run| (run.reads, run.work));
        let scores = scores.iter().map(|run| (run.reads, run.work));
        for (reads, at) in filters.chain(scores) {
            if reads != Reads::Cluster || told.contains(&at) {
                continue;
            }
            told.push(at);
            if let Some(work) = works.get_mut(at)
                && work.follow(snapshot, change) == Follow::Stale
            {
                return false;
            }
        }
        true
    }

    /// Every node anew.
    pub(super) fn evaluate(&mut self, snapshot: &Snapshot) {
        self.cells.clear();
        self.cells.resize(snapshot.slots(), ABSENT);
        for raws in &mut self.raws {
            raws.counts.clear();
            raws.values.clear();
            raws.values.resize(snapshot.slots(), 0);
        }
        self.feasible = 0;
        for (node, _) in snapshot.nodes() {
            let mut cell = self.fixed_cell(snapshot, node);
            self.use_cell(snapshot, node, &mut cell);
            self.store(snapshot, node, ABSENT, cell, true);
        }
        self.rank_all(snapshot);
    }

    fn grow(&mut self, slots: usize) {
        if self.cells.len() < slots {
            self.cells.resize(slots, ABSENT);
            for raws in &mut self.raws {
                raws.values.resize(slots, 0);
            }
        }
    }

    /// The part that the node object decides.
    fn fixed_cell(&self, snapshot: &Snapshot, node: NodeIx) -> Cell {
        if snapshot.node(node).is_none() {
            return ABSENT;
        }
        let mut cell = Cell { fixed: Verdict::OK, ..ABSENT };
        if self.allowed.as_ref().is_some_and(|allowed| !allowed.nodes.contains(&node)) {
            return Cell { fixed: Verdict::unresolvable(0), fixed_by: EXCLUDED, ..cell };
        }
        for (by, run) in (0u8..).zip(&self.filters).filter(|(_, run)| run.reads == Reads::Node) {
            let verdict = self.run_filter(run, snapshot, node);
            if !verdict.is_ok() {
                return Cell { fixed: verdict, fixed_by: by, ..cell };
            }
        }
        cell.fixed_plain = self.plain(snapshot, node, Reads::Node);
        cell
    }

    /// The part that pods on the node decide, and the verdict of both.
    fn use_cell(&self, snapshot: &Snapshot, node: NodeIx, cell: &mut Cell) {
        (cell.verdict, cell.by) = (cell.fixed, cell.fixed_by);
        if cell.fixed.is_absent() || cell.by == EXCLUDED {
            return;
        }
        for (by, run) in (0u8..).zip(&self.filters) {
            if !cell.fixed.is_ok() && by > cell.fixed_by {
                break;
            }
            if run.reads == Reads::Usage {
                let verdict = self.run_filter(run, snapshot, node);
                if !verdict.is_ok() {
                    (cell.verdict, cell.by) = (verdict, by);
                    break;
                }
            }
        }
        if cell.verdict.is_ok() {
            cell.plain = cell.fixed_plain + self.plain(snapshot, node, Reads::Usage);
        }
    }

    /// The weighted sum of scores that need no normalising.
    fn plain(&self, snapshot: &Snapshot, node: NodeIx, reads: Reads) -> i64 {
        let runs =
            self.scores.iter().filter(|run| run.reads == reads && run.normalise == Normalise::None);
        let scores = runs.filter_map(|run| {
            Some(run.weight.saturating_mul(self.work(run.work)?.score(snapshot, node)))
        });
        scores.sum()
    }

    /// Moves a node whose cell has changed in the ranking.
    fn rank(&mut self, snapshot: &Snapshot, node: NodeIx, cell: Cell) {
        if !self.is_dirty && !self.is_global {
            let total = cell.verdict.is_ok().then(|| self.total(node, cell.plain));
            let ties = super::Ties { class: self.tie, nodes: snapshot.ties() };
            self.ranking.set(node, total, ties);
        }
    }

    fn store(
        &mut self,
        snapshot: &Snapshot,
        node: NodeIx,
        before: Cell,
        cell: Cell,
        is_object: bool,
    ) {
        let (was, is) = (before.verdict.is_ok(), cell.verdict.is_ok());
        self.feasible = self.feasible + u32::from(is) - u32::from(was);
        let Self { raws, works, scores, is_dirty, .. } = self;
        for raws in raws {
            let Some(run) = scores.get(raws.run) else { continue };
            if was && is && !is_object && run.reads == Reads::Node {
                continue;
            }
            let old = raws.values.get(node.index()).copied().unwrap_or(0);
            let work = works.get(run.work).filter(|_| is);
            let new = work.map_or(old, |work| work.score(snapshot, node));
            if (was, old) != (is, new) {
                let largest = raws.largest();
                raws.replace(node, was.then_some(old), is.then_some(new));
                *is_dirty |= raws.largest() != largest;
            }
        }
        if let Some(slot) = self.cells.get_mut(node.index()) {
            *slot = cell;
        }
    }

    fn total(&self, node: NodeIx, plain: i64) -> i64 {
        self.raws.iter().fold(plain, |total, raws| {
            let raw = raws.values.get(node.index()).copied().unwrap_or(0);
            let weight = self.scores.get(raws.run).map_or(1, |run| run.weight);
            total + weight.saturating_mul(proportion(raw, raws.largest(), raws.reverse))
        })
    }

    fn rank_all(&mut self, snapshot: &Snapshot) {
        self.is_dirty = false;
        if self.is_global {
            // Decided by a pass; only the capacity is asked for.
            let none = (0..self.cells.len()).map(|_| None);
            self.ranking.rebuild(none, super::Ties { class: self.tie, nodes: snapshot.ties() });
            return;
        }
        let mut ranking = std::mem::take(&mut self.ranking);
        let totals = (0u32..)
            .zip(&self.cells)
            .map(|(node, cell)| cell.verdict.is_ok().then(|| self.total(NodeIx(node), cell.plain)));
        let totals: Vec<Option<i64>> = totals.collect();
        ranking.rebuild(totals.into_iter(), self.ties(snapshot));
        self.ranking = ranking;
    }

    /// Local facts of a feasible node for a pass: the sum of plain scores and the raw ones.
    pub(super) fn plain_of(&self, node: NodeIx) -> i64 {
        self.cells.get(node.index()).map_or(0, |cell| cell.plain)
    }

    /// Judges a node again on its usage, with filters of the cluster too: for dry runs.
    pub fn judge_usage(&self, snapshot: &Snapshot, node: NodeIx) -> Judgement {
        let Some(cell) = self.cells.get(node.index()) else { return self.judge(snapshot, node) };
        let fixed = Judgement { verdict: cell.fixed, by: cell.fixed_by };
        if cell.fixed.is_absent() || cell.fixed_by == EXCLUDED {
            return fixed;
        }
        for (by, run) in (0u8..).zip(&self.filters) {
            if !cell.fixed.is_ok() && by >= cell.fixed_by {
                return fixed;
            }
            if run.reads != Reads::Node {
                let verdict = self.run_filter(run, snapshot, node);
                if !verdict.is_ok() {
                    return Judgement { verdict, by };
                }
            }
        }
        Judgement::OK
    }
}

impl Raws {
    /// Moves a node from one raw score to another; `None` when it is not feasible.
    fn replace(&mut self, node: NodeIx, old: Option<i64>, new: Option<i64>) {
        if let Some(old) = old
            && let Some(count) = self.counts.get_mut(&old)
        {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&old);
            }
        }
        if let Some(new) = new {
            *self.counts.entry(new).or_default() += 1;
            if let Some(value) = self.values.get_mut(node.index()) {
                *value = new;
            }
        }
    }
}
