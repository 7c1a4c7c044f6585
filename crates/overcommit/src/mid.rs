//! What will online pods not need soon?
//!
//! ```text
//! dynamic  min(predicted surplus, unused) + unallocated * percent, at most capacity * threshold
//! static   capacity * percent, at most capacity * threshold
//! ```
//!
//! The surplus is the agent's prediction; unused is capacity without what the node uses now;
//! unallocated is what neither the system nor prod pods asked for. Batch and mid are computed
//! independently and may both promise the same idle capacity, unless the strategy couples them.

use serde::Serialize;

use crate::facts::{MetricFacts, NodeUsage, Reserved};
use crate::load::Load;
use crate::pair::{fraction, truncated};
use crate::strategy::{Lending, MidMode};
use crate::{Amounts, Pair};

/// What decided the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Bound {
    Sum,
    /// The threshold for mid resources.
    Threshold,
    /// What batch may have, where the strategy couples both.
    Batch,
}

/// The sum in its parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Why {
    Static {
        capacity: Amounts,
        share: Pair<i64>,
        cap: Pair<i64>,
        bound_by: Pair<Bound>,
        left: Amounts,
    },
    Dynamic {
        capacity: Amounts,
        reclaimable: Amounts,
        unused: Amounts,
        /// The larger of measured and reserved.
        system: Amounts,
        prod_request: Amounts,
        unallocated: Amounts,
        share: Pair<i64>,
        cap: Pair<i64>,
        bound_by: Pair<Bound>,
        left: Amounts,
    },
}

impl Why {
    /// What the node may lend as mid, exactly.
    pub fn left(&self) -> Amounts {
        match self {
            Self::Static { left, .. } | Self::Dynamic { left, .. } => *left,
        }
    }

    pub fn bound_by(&self) -> Pair<Bound> {
        match self {
            Self::Static { bound_by, .. } | Self::Dynamic { bound_by, .. } => *bound_by,
        }
    }
}

/// Why a node may lend this much to mid; `batch` is what it may lend to batch.
pub fn mid(
    capacity: Amounts,
    usage: &NodeUsage,
    metric: &MetricFacts,
    kept: Reserved,
    load: &Load,
    batch: Amounts,
    lending: &Lending,
) -> Why {
    let percent = |(whole, percent)| truncated(whole, fraction(percent));
    let cap = capacity.counts().zip(lending.mid_percent).map(percent);
    let coupled = lending.is_mid_within_batch.then_some(batch);
    let bounded = |sum: Amounts| bound(sum, capacity, cap, coupled);
    match lending.mid_mode {
        MidMode::Static(percents) => {
            let share = capacity.counts().zip(percents).map(percent);
            let (left, bound_by) = bounded(Amounts::from_counts(share));
            Why::Static { capacity, share, cap, bound_by, left }
        }
        MidMode::Dynamic { unallocated_percent } => {
            // A report that lacks one of the two says too little about either.
            let unused = match (usage.total.cpu, usage.total.memory) {
                (Some(cpu), Some(memory)) => capacity - Amounts::new(cpu, memory),
                _ => Amounts::ZERO,
            };
            let system = (usage.system + metric.hosts.above_mid).max(kept.larger());
            let unallocated = (capacity - system - load.prod_request).floored();
            let factor = fraction(unallocated_percent);
            let share = unallocated.counts().map(|whole| truncated(whole, factor));
            let surplus = metric.reclaimable.min(unused).floored();
            let (left, bound_by) = bounded(surplus + Amounts::from_counts(share));
            Why::Dynamic {
                capacity,
                reclaimable: metric.reclaimable,
                unused,
                system,
                prod_request: load.prod_request,
                unallocated,
                share,
                cap,
                bound_by,
                left,
            }
        }
    }
}

fn bound(
    sum: Amounts,
    capacity: Amounts,
    cap: Pair<i64>,
    coupled: Option<Amounts>,
) -> (Amounts, Pair<Bound>) {
    let capped = sum.floored().min(Amounts::from_counts(cap)).floored().min(capacity);
    let left = coupled.map_or(capped, |batch| capped.min(batch));
    let bound_by = left.zip(capped.zip(sum)).map(|(left, (capped, sum))| {
        if left < capped {
            Bound::Batch
        } else if capped < sum {
            Bound::Threshold
        } else {
            Bound::Sum
        }
    });
    (left, bound_by)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{N, gib};

    #[test]
    fn vectors() {
        let cpus =
            |cores: i64, gibs: i64| Amounts::from_counts(Pair::new(cores * 1_000, gib(gibs)));
        struct Case {
            name: &'static str,
            reclaimable: Amounts,
            mode: MidMode,
            percent: Pair<i64>,
            want: Pair<i64>,
        }
        let dynamic = |unallocated_percent| MidMode::Dynamic { unallocated_percent };
        let whole = Pair::new(100, 100);
        let cases = [
            Case {
                name: "M1",
                reclaimable: cpus(12, 30),
                mode: dynamic(0),
                percent: whole,
                want: Pair::new(12_000, 32_212_254_720),
            },
            Case {
                name: "M2",
                reclaimable: cpus(12, 30),
                mode: dynamic(50),
                percent: whole,
                want: Pair::new(29_000, 109_521_666_048),
            },
            Case {
                name: "M3",
                reclaimable: cpus(12, 30),
                mode: dynamic(50),
                percent: Pair::new(40, 30),
                want: Pair::new(25_600, 82_463_372_083),
            },
            Case {
                name: "M4",
                reclaimable: cpus(50, 200),
                mode: dynamic(0),
                percent: whole,
                want: Pair::new(38_000, 156_766_306_304),
            },
            Case {
                name: "M5",
                reclaimable: cpus(12, 30),
                mode: MidMode::Static(Pair::new(25, 10)),
                percent: Pair::new(20, 100),
                want: Pair::new(12_800, 27_487_790_694),
            },
        ];
        for Case { name, reclaimable, mode, percent, want } in cases {
            let mut node = N::new();
            node.metric.reclaimable = reclaimable;
            node.strategies.lending.mid_mode = mode;
            node.strategies.lending.mid_percent = percent;
            let why = node.mid();
            assert_eq!(why.left().counts(), want, "{name}");
            if let Why::Dynamic { unused, unallocated, .. } = why {
                assert_eq!(unused.counts(), Pair::new(38_000, gib(146)), "{name}");
                assert_eq!(unallocated.counts(), Pair::new(34_000, gib(144)), "{name}");
            }
        }
    }

    #[test]
    fn half_a_report_leaves_nothing_unused() {
        let mut node = N::new();
        node.metric.reclaimable = Amounts::from_counts(Pair::new(12_000, gib(30)));
        if let Some(usage) = &mut node.metric.node {
            usage.total.memory = None;
        }
        assert_eq!(node.mid().left().counts(), Pair::new(0, 0));
    }

    #[test]
    fn an_overloaded_node_is_no_negative_surplus() {
        let mut node = N::new();
        node.metric.reclaimable = Amounts::from_counts(Pair::new(12_000, gib(30)));
        if let Some(usage) = &mut node.metric.node {
            usage.total = Amounts::from_counts(Pair::new(70_000, gib(300))).map(Some);
        }
        node.strategies.lending.mid_mode = MidMode::Dynamic { unallocated_percent: 50 };
        assert_eq!(node.mid().left().counts(), Pair::new(17_000, gib(72)));
    }

    #[test]
    fn coupling_caps_mid_by_batch() {
        let mut node = N::new();
        node.metric.reclaimable = Amounts::from_counts(Pair::new(20_000, gib(30)));
        assert_eq!(node.mid().left().counts().cpu, 20_000);
        node.strategies.lending.is_mid_within_batch = true;
        let why = node.mid();
        assert_eq!(why.left().counts(), Pair::new(14_400, gib(30)));
        assert_eq!(why.bound_by(), Pair::new(Bound::Batch, Bound::Sum));
    }

    #[test]
    fn prod_host_applications_count_and_mid_ones_do_not() {
        let mut node = N::new();
        node.strategies.lending.mid_mode = MidMode::Dynamic { unallocated_percent: 100 };
        node.metric.hosts.above_batch = Amounts::from_counts(Pair::new(9_000, gib(20)));
        assert_eq!(node.mid().left().counts().cpu, 34_000);
        node.metric.hosts.above_mid = Amounts::from_counts(Pair::new(2_000, gib(20)));
        assert_eq!(node.mid().left().counts().cpu, 32_500);
    }
}
