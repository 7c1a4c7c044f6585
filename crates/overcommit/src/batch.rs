//! What is left of a node for batch work?
//!
//! ```text
//! by usage    capacity - margin - max(system + hosts, reserved) - usage of everything above batch
//! by request  capacity - margin - reserved - requests of everything above batch    (memory only)
//! by larger   capacity - margin - max(system + hosts, reserved) - the larger of both, pod by pod
//! ```
//!
//! The margin is what the reclaim threshold leaves free: `capacity * (100 - threshold)%`. With a
//! threshold above 100 it is negative, and the operator lends more than is idle, even more than the
//! node has. Sums are exact down to a billionth; the result is rounded up once, to a milli-core and to
//! a byte.

use serde::Serialize;
use units::{Format, Quantity};

use crate::facts::{HostUsage, Reserved};
use crate::load::{Counts, Load};
use crate::pair::{fraction, truncated};
use crate::strategy::{CpuCalculation, Lending, MemoryCalculation};
use crate::{Amounts, Pair};

/// The terms of the sum, for node and zone alike.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Terms {
    pub capacity: Amounts,
    /// Measured use of neither pods nor host applications.
    pub system: Amounts,
    /// Host applications above batch.
    pub hosts: Amounts,
    pub reserved: Amounts,
    pub request: Amounts,
    pub usage: Amounts,
    pub larger: Amounts,
}

/// What a resource charged the pods above batch for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Charged {
    Usage,
    Request,
    Larger,
}

/// What decided the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Bound {
    /// The sum itself.
    Sum,
    /// The sum was negative.
    Nothing,
    /// The threshold for batch resources.
    Cap,
}

/// One resource of the sum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    pub charged: Charged,
    pub bound_by: Bound,
}

/// The sum in its parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Why {
    pub terms: Terms,
    pub kept: Reserved,
    pub margin: Amounts,
    pub outcome: Pair<Outcome>,
    /// Most that the thresholds for batch allow.
    pub cap: Pair<Option<i64>>,
    pub counts: Counts,
    pub host_count: usize,
    /// Exact, before normalization and other systems' share.
    pub left: Amounts,
}

impl Terms {
    pub(crate) fn of_node(
        capacity: Amounts,
        system: Amounts,
        hosts: &HostUsage,
        reserved: Reserved,
        load: &Load,
    ) -> Self {
        Self {
            capacity,
            system,
            hosts: hosts.above_batch,
            reserved: reserved.larger(),
            request: load.request,
            usage: load.usage,
            larger: load.larger,
        }
    }

    /// What system and host applications are charged: their use, at least the reserve.
    pub fn system_charge(&self) -> Amounts {
        (self.system + self.hosts).max(self.reserved)
    }
}

/// Why a node may lend this much to batch.
pub fn batch(
    terms: Terms,
    kept: Reserved,
    load: &Load,
    host_count: usize,
    lending: &Lending,
) -> Why {
    let Left { margin, cap, left, outcome } = left(&terms, lending);
    Why { terms, kept, margin, outcome, cap, counts: load.counts, host_count, left }
}

/// What the thresholds keep free, and the most they allow.
fn bounds(capacity: Amounts, lending: &Lending) -> (Amounts, Pair<Option<i64>>) {
    let counts = capacity.counts();
    let margin = counts
        .zip(lending.reclaim_percent)
        .map(|(whole, percent)| truncated(whole, fraction(100_i64.saturating_sub(percent))));
    let cap = counts
        .zip(lending.batch_percent)
        .map(|(whole, percent)| percent.map(|percent| truncated(whole, fraction(percent))));
    (Amounts::from_counts(margin), cap)
}

/// What the formula comes to.
pub(crate) struct Left {
    pub(crate) margin: Amounts,
    pub(crate) cap: Pair<Option<i64>>,
    /// Exact.
    pub(crate) left: Amounts,
    pub(crate) outcome: Pair<Outcome>,
}

/// The formula: what is left, and what decided it.
pub(crate) fn left(terms: &Terms, lending: &Lending) -> Left {
    let (margin, cap) = bounds(terms.capacity, lending);
    let system = terms.system_charge();
    let base = terms.capacity - margin;
    let by_usage = base - system - terms.usage;
    let by_larger = base - system - terms.larger;
    let by_request = base - terms.reserved - terms.request;
    let (cpu, cpu_charged) = match lending.cpu_policy {
        CpuCalculation::Usage => (by_usage.cpu, Charged::Usage),
        CpuCalculation::MaxUsageRequest => (by_larger.cpu, Charged::Larger),
    };
    let (memory, memory_charged) = match lending.memory_policy {
        MemoryCalculation::Usage => (by_usage.memory, Charged::Usage),
        MemoryCalculation::Request => (by_request.memory, Charged::Request),
        MemoryCalculation::MaxUsageRequest => (by_larger.memory, Charged::Larger),
    };
    let sum = Amounts::new(cpu, memory);
    let floored = sum.floored();
    let most =
        |(amount, cap): (Quantity, Option<Quantity>)| cap.map_or(amount, |cap| amount.min(cap));
    let caps = Pair::new(
        cap.cpu.map(|most| Quantity::from_milli(most.max(0), Format::DecimalSi)),
        cap.memory.map(|most| Quantity::from_int(most.max(0), Format::BinarySi)),
    );
    let left = floored.zip(caps).map(most);
    let bound = |(charged, (sum, (left, floored)))| {
        let bound_by = if left < floored {
            Bound::Cap
        } else if sum < floored {
            Bound::Nothing
        } else {
            Bound::Sum
        };
        Outcome { charged, bound_by }
    };
    let parts = sum.zip(left.zip(floored));
    let outcome = Pair::new(cpu_charged, memory_charged).zip(parts).map(bound);
    Left { margin, cap, left, outcome }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{N, gib};

    #[test]
    fn margins_of_the_example() {
        let node = N::new();
        let why = node.batch();
        assert_eq!(why.margin.counts(), Pair::new(25_600, 96_207_267_430));
        assert_eq!(why.terms.reserved.counts(), Pair::new(2_000, gib(8)));
        assert_eq!(why.terms.system_charge().counts(), Pair::new(2_000, gib(8)));
    }

    #[test]
    fn b8_margins_are_truncated_in_binary() {
        let capacity = Amounts::new("100".parse().unwrap(), "100G".parse().unwrap());
        let lending = Lending { reclaim_percent: Pair::new(71, 71), ..Lending::default() };
        let (margin, _) = bounds(capacity, &lending);
        assert_eq!(margin.counts(), Pair::new(28_999, 28_999_999_999));
    }

    #[test]
    fn what_bounds_the_result_is_named() {
        let cases = [
            ("the sum", 60, None, 0, Bound::Sum),
            ("a threshold", 60, Some(20), 0, Bound::Cap),
            ("nothing left", 60, None, 90, Bound::Nothing),
            ("a threshold of nothing left", 60, Some(20), 90, Bound::Nothing),
            ("more than there is", 300, None, 0, Bound::Sum),
        ];
        for (name, reclaim, cap, used, want) in cases {
            let lending = Lending {
                reclaim_percent: Pair::new(reclaim, reclaim),
                batch_percent: Pair::new(cap, cap),
                ..Lending::default()
            };
            let terms = Terms {
                capacity: Amounts::from_counts(Pair::new(100_000, 100)),
                usage: Amounts::from_counts(Pair::new(used * 1_000, used)),
                ..Terms::default()
            };
            let Left { left, outcome, .. } = left(&terms, &lending);
            assert_eq!(outcome.cpu.bound_by, want, "{name}");
            assert_eq!(outcome.memory.bound_by, want, "{name}");
            let most = terms.capacity.cpu.milli_value() / 100 * reclaim.max(100);
            assert!(left.cpu.milli_value() <= most && left == left.floored(), "{name}");
        }
    }

    #[test]
    fn a_threshold_above_100_lends_more_than_there_is() {
        let lending = Lending { reclaim_percent: Pair::new(150, 150), ..Lending::default() };
        let terms = Terms {
            capacity: Amounts::from_counts(Pair::new(100_000, 1_000)),
            usage: Amounts::from_counts(Pair::new(20_000, 200)),
            ..Terms::default()
        };
        assert_eq!(left(&terms, &lending).left.counts(), Pair::new(130_000, 1_300));
        let capped = Lending { batch_percent: Pair::new(Some(120), Some(50)), ..lending };
        assert_eq!(left(&terms, &capped).left.counts(), Pair::new(120_000, 500));
    }

    #[test]
    fn usage_finer_than_a_milli_core_is_exact() {
        let terms = Terms {
            capacity: Amounts::from_counts(Pair::new(1_000, 0)),
            usage: Amounts::new("100500u".parse().unwrap(), "0".parse().unwrap()),
            ..Terms::default()
        };
        let lending = Lending { reclaim_percent: Pair::new(100, 100), ..Lending::default() };
        let left = left(&terms, &lending).left;
        assert_eq!(left.cpu, "899500u".parse().unwrap());
        assert_eq!(left.counts().cpu, 900, "rounded up once");
    }
}
