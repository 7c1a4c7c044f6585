//! The budget as a set of CPUs: which ones does best-effort run on?
//!
//! The number follows the budget, at least two. It falls at once; it rises by at most a tenth of the
//! machine a round, and only when the budget has justified it for some rounds or by a whole CPU more,
//! so that a lull of a second does not invite a stampede.
//!
//! CPUs of LSE pods are never lent. Those of LSR pods are, in proportion to their number, so that no
//! LSR pod carries more of best-effort than its share.

use units::{CpuLayout, CpuSet, MilliCpu};

use crate::pick::pick;

/// Best-effort keeps this many CPUs, however busy the node is.
pub const FLOOR: usize = 2;

/// How many rounds in a row must justify growth of less than a CPU.
pub const PATIENCE: u32 = 3;

#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    pub budget: MilliCpu,
    pub layout: &'a CpuLayout,
    /// CPUs nobody may have but the kubelet's reservation or the system's own class.
    pub reserved: &'a CpuSet,
    pub lse: &'a CpuSet,
    pub lsr: &'a CpuSet,
    /// What best-effort runs on at this moment.
    pub granted: &'a CpuSet,
}

/// What is remembered from round to round.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct State {
    /// How many CPUs were decided last; what the files say may be wider where the kubelet owns them.
    pub size: Option<usize>,
    /// How many rounds in a row the budget has asked for more.
    pub asked: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub cpus: CpuSet,
    pub state: State,
    pub why: Why,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Why {
    /// What the budget is worth in CPUs.
    pub wanted: usize,
    pub bound_by: Bound,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    Budget,
    Floor,
    /// Grows by a tenth of the machine a round.
    Step,
    /// Waits until growth is justified for longer.
    Patience,
    /// There are not more CPUs that may be lent.
    Candidates,
    /// No CPU may be lent at all; what is granted stays, and somebody should know.
    Starved,
}

pub fn decide(inputs: &Inputs<'_>, state: State) -> Decision {
    let lendable = inputs.layout.online().difference(inputs.reserved).difference(inputs.lse);
    let wanted = whole_cpus(inputs.budget);
    if lendable.is_empty() {
        let why = Why { wanted, bound_by: Bound::Starved };
        return Decision { cpus: inputs.granted.clone(), state, why };
    }

    let (size, asked, bound_by) = size(inputs, wanted, state);
    let (size, bound_by) =
        if size > lendable.len() { (lendable.len(), Bound::Candidates) } else { (size, bound_by) };
    let lsr = lendable.intersection(inputs.lsr);
    let others = lendable.difference(&lsr);
    // Rounding down leaves the others the odd one; where they are too few, LSR gives more.
    let of_lsr = (size * lsr.len() / lendable.len()).max(size.saturating_sub(others.len()));
    let pick = |count, from| pick(inputs.layout, count, from, inputs.granted);
    Decision {
        cpus: pick(of_lsr, &lsr).union(&pick(size - of_lsr, &others)),
        state: State { size: Some(size), asked },
        why: Why { wanted, bound_by },
    }
}

/// CPUs the budget is worth, a part of one counting as one.
fn whole_cpus(budget: MilliCpu) -> usize {
    usize::try_from(budget.0.max(0)).unwrap_or_default().div_ceil(1_000)
}

/// How many CPUs, how many rounds have asked for more, and what decided.
fn size(inputs: &Inputs<'_>, wanted: usize, state: State) -> (usize, u32, Bound) {
    let current = state.size.unwrap_or(inputs.granted.len());
    let (target, bound_by) =
        if wanted < FLOOR { (FLOOR, Bound::Floor) } else { (wanted, Bound::Budget) };
    if target <= current {
        return (target, 0, bound_by);
    }
    let asked = state.asked.saturating_add(1);
    let is_worth_it = inputs.budget.0 >= cpus_worth(current.saturating_add(1));
    // Less than the floor is nobody's decision but a restart's; it is mended at once.
    if current >= FLOOR && asked < PATIENCE && !is_worth_it {
        return (current, asked, Bound::Patience);
    }
    let step = inputs.layout.len().div_ceil(10);
    let reached = current.saturating_add(step).max(FLOOR);
    if target > reached { (reached, asked, Bound::Step) } else { (target, 0, bound_by) }
}

fn cpus_worth(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX).saturating_mul(1_000)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use units::Cpu;

    use super::*;

    /// Sixteen CPUs, two threads a core: siblings are 2n and 2n + 1.
    fn machine() -> CpuLayout {
        (0..16).map(|id| Cpu { numa: 0, socket: 0, core: id / 2, id }).collect()
    }

    fn set(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    struct Node {
        budget: i64,
        reserved: &'static str,
        lse: &'static str,
        lsr: &'static str,
        granted: &'static str,
        state: State,
    }

    const NODE: Node = Node {
        budget: 10_000,
        reserved: "",
        lse: "0-1",
        lsr: "2-3",
        granted: "2-15",
        state: State { size: None, asked: 0 },
    };

    impl Node {
        fn decide(&self) -> Decision {
            let inputs = Inputs {
                budget: MilliCpu(self.budget),
                layout: &machine(),
                reserved: &set(self.reserved),
                lse: &set(self.lse),
                lsr: &set(self.lsr),
                granted: &set(self.granted),
            };
            decide(&inputs, self.state)
        }
    }

    #[test]
    fn the_example_of_the_four_classes() {
        // LSE 0-1, LSR 2-3, ten CPUs: one of LSR's, nine of the others.
        let decision = NODE.decide();
        assert_eq!(decision.cpus, set("2,4-12"));
        assert_eq!(decision.why, Why { wanted: 10, bound_by: Bound::Budget });
    }

    #[test]
    fn size_follows_the_budget() {
        use Bound::{Budget, Candidates, Floor, Patience, Starved, Step};
        let asked = |asked| State { size: None, asked };
        let cases = [
            ("a part of a CPU counts as one", Node { budget: 9_001, ..NODE }, 10, Budget),
            ("shrinking is not limited", Node { budget: 2_500, ..NODE }, 3, Budget),
            ("two are left to it", Node { budget: -3_000, ..NODE }, 2, Floor),
            ("growth is a tenth of the machine", Node { granted: "4-7", ..NODE }, 6, Step),
            ("a whole CPU more is worth it", Node { granted: "4-12", ..NODE }, 10, Budget),
            (
                "a part of one has to wait",
                Node { budget: 9_500, granted: "4-12", ..NODE },
                9,
                Patience,
            ),
            (
                "but not for ever",
                Node { budget: 9_500, granted: "4-12", state: asked(2), ..NODE },
                10,
                Budget,
            ),
            ("there are only so many", Node { budget: 20_000, ..NODE }, 14, Candidates),
            (
                "fewer than two are better than none",
                Node { lse: "0-14", lsr: "", granted: "15", ..NODE },
                1,
                Candidates,
            ),
            ("nothing to lend leaves things alone", Node { lse: "0-15", ..NODE }, 14, Starved),
            ("reserved CPUs are not lent", Node { reserved: "4-15", ..NODE }, 2, Candidates),
            (
                "what was decided counts, not what the kubelet wrote",
                Node { state: State { size: Some(4), asked: 0 }, ..NODE },
                6,
                Step,
            ),
            ("a fresh group gets the floor", Node { budget: 0, granted: "", ..NODE }, 2, Floor),
        ];
        for (name, node, want, bound) in cases {
            let decision = node.decide();
            assert_eq!((decision.cpus.len(), decision.why.bound_by), (want, bound), "{name}");
        }
    }

    #[test]
    fn lsr_gives_more_when_the_others_are_too_few() {
        let node = Node { lse: "", lsr: "0-9", reserved: "12-15", budget: 9_000, ..NODE };
        let cpus = node.decide().cpus;
        assert_eq!(cpus.len(), 9);
        assert_eq!(cpus.intersection(&set("10-11")).len(), 2);
    }

    fn cpus() -> impl Strategy<Value = CpuSet> {
        proptest::collection::vec(0..16u16, 0..16).prop_map(|cpus| cpus.into_iter().collect())
    }

    proptest! {
        #[test]
        fn best_effort_never_gets_a_cpu_of_lse(
            budget in -16_000..32_000i64, lse in cpus(), lsr in cpus(), granted in cpus(),
        ) {
            let none = CpuSet::new();
            let inputs = Inputs {
                budget: MilliCpu(budget),
                layout: &machine(), reserved: &none, lse: &lse, lsr: &lsr, granted: &granted,
            };
            let decision = decide(&inputs, State::default());
            if decision.why.bound_by != Bound::Starved {
                prop_assert!(decision.cpus.is_disjoint(&lse));
                prop_assert!(decision.cpus.len() >= FLOOR.min(16 - lse.len()));
            }
        }

        /// Acting on a decision and asking again must come to rest.
        #[test]
        fn repeated_decisions_settle(
            budget in -16_000..32_000i64, lsr in cpus(), granted in cpus(),
        ) {
            let none = CpuSet::new();
            let (layout, mut granted, mut state) = (machine(), granted, State::default());
            let mut next = |granted: &CpuSet| {
                let inputs = Inputs {
                    budget: MilliCpu(budget),
                    layout: &layout, reserved: &none, lse: &none, lsr: &lsr, granted,
                };
                let decision = decide(&inputs, state);
                state = decision.state;
                decision.cpus
            };
            for _ in 0..16 * PATIENCE {
                granted = next(&granted);
            }
            prop_assert_eq!(next(&granted), granted);
        }
    }
}
