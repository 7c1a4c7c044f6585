//! The best node of a class, kept while scores change one by one.
//!
//! A tournament: leaves are nodes, every inner seat holds the better of its two children.
//!
//! ```text
//!                 n3 97
//!         n1 88           n3 97
//!     n0 40   n1 88   n2  -   n3 97
//! ```
//!
//! Changing one leaf replays the matches on its way up, fourteen for ten thousand nodes. Seats
//! hold the score beside the node, so a match reads one cache line.

use crate::snapshot::NodeIx;
use crate::tie;

/// No node, or one that is not feasible.
const NOBODY: i64 = i64::MIN;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seat {
    total: i64,
    node: u32,
}

/// Who orders equals: the class and every node's own number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ties<'a> {
    pub(super) class: u64,
    pub(super) nodes: &'a [u64],
}

impl Ties<'_> {
    fn key(&self, node: u32) -> u64 {
        tie::between(self.class, self.nodes.get(node as usize).copied().unwrap_or(0))
    }

    /// Does the first node win over the second at the same score?
    pub(super) fn wins(&self, first: u32, second: u32) -> bool {
        (self.key(first), second) > (self.key(second), first)
    }

    fn better(&self, a: Seat, b: Seat) -> Seat {
        if a.total != b.total {
            return if a.total > b.total { a } else { b };
        }
        if a.total == NOBODY || self.wins(a.node, b.node) { a } else { b }
    }
}

#[derive(Debug, Default)]
pub(super) struct Ranking {
    /// Heap order: the root is 1, leaf `n` is at `leaves + n`.
    seats: Vec<Seat>,
    leaves: usize,
}

impl Ranking {
    /// Starts over with these totals; `None` is not feasible.
    pub(super) fn rebuild(
        &mut self,
        totals: impl ExactSizeIterator<Item = Option<i64>>,
        ties: Ties<'_>,
    ) {
        self.leaves = totals.len().next_power_of_two().max(1);
        self.seats.clear();
        self.seats.resize(self.leaves * 2, Seat { total: NOBODY, node: 0 });
        for ((node, total), seat) in (0..).zip(totals).zip(self.seats.iter_mut().skip(self.leaves))
        {
            *seat = Seat { total: total.unwrap_or(NOBODY), node };
        }
        for at in (1..self.leaves).rev() {
            self.play(at, ties);
        }
    }

    /// How many nodes there is place for.
    pub(super) fn capacity(&self) -> usize {
        self.leaves
    }

    pub(super) fn total(&self, node: NodeIx) -> Option<i64> {
        let seat = self.seats.get(self.leaves + node.index())?;
        (seat.total != NOBODY).then_some(seat.total)
    }

    pub(super) fn set(&mut self, node: NodeIx, total: Option<i64>, ties: Ties<'_>) {
        let total = total.unwrap_or(NOBODY);
        let Some(leaf) = self.seats.get_mut(self.leaves + node.index()) else { return };
        *leaf = Seat { total, node: node.0 };
        let mut at = (self.leaves + node.index()) / 2;
        while at >= 1 {
            if !self.play(at, ties) {
                return;
            }
            at /= 2;
        }
    }

    /// Lets the children of a seat play; says whether the seat has changed.
    fn play(&mut self, at: usize, ties: Ties<'_>) -> bool {
        let (Some(&left), Some(&right)) = (self.seats.get(at * 2), self.seats.get(at * 2 + 1))
        else {
            return false;
        };
        let winner = ties.better(left, right);
        match self.seats.get_mut(at) {
            Some(seat) if *seat != winner => {
                *seat = winner;
                true
            }
            _ => false,
        }
    }

    /// The winner and its score.
    pub(super) fn best(&self) -> Option<(NodeIx, i64)> {
        let root = self.seats.get(1)?;
        (root.total != NOBODY).then_some((NodeIx(root.node), root.total))
    }

    /// The best after the winner: one of those who lost to it directly.
    pub(super) fn second(&self, ties: Ties<'_>) -> Option<(NodeIx, i64)> {
        let (winner, _) = self.best()?;
        let mut at = self.leaves + winner.index();
        let mut second = Seat { total: NOBODY, node: 0 };
        while at > 1 {
            if let Some(loser) = self.seats.get(at ^ 1) {
                second = ties.better(second, *loser);
            }
            at /= 2;
        }
        (second.total != NOBODY).then_some((NodeIx(second.node), second.total))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sorted(totals: &[Option<i64>], ties: Ties<'_>) -> Vec<(NodeIx, i64)> {
        let mut all: Vec<(NodeIx, i64)> =
            (0..).map(NodeIx).zip(totals).filter_map(|(node, t)| Some((node, (*t)?))).collect();
        all.sort_by(|a, b| {
            b.1.cmp(&a.1).then_with(|| {
                if ties.wins(a.0.0, b.0.0) {
                    std::cmp::Ordering::Less
                } else {
                    std::cmp::Ordering::Greater
                }
            })
        });
        all
    }

    proptest! {
        /// The tournament knows the same first and second as sorting does.
        #[test]
        fn the_ranking_equals_sorting(
            start in prop::collection::vec(prop::option::of(0..5i64), 1..40),
            changes in prop::collection::vec((0..40u32, prop::option::of(0..5i64)), 0..60),
            class in any::<u64>(),
        ) {
            let nodes: Vec<u64> = (0..start.len()).map(|n| tie::of(&n.to_le_bytes())).collect();
            let ties = Ties { class, nodes: &nodes };
            let mut totals = start.clone();
            let mut ranking = Ranking::default();
            ranking.rebuild(totals.iter().copied(), ties);
            for (at, total) in changes {
                let at = at % u32::try_from(totals.len()).unwrap();
                totals[at as usize] = total;
                ranking.set(NodeIx(at), total, ties);
                let want = sorted(&totals, ties);
                prop_assert_eq!(ranking.best(), want.first().copied());
                prop_assert_eq!(ranking.second(ties), want.get(1).copied());
            }
        }
    }
}
