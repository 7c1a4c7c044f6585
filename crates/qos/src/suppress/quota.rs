//! The budget as a quota on the whole best-effort tier.
//!
//! A quota is finer than CPUs and moves no task, but online threads still find best-effort on their
//! cores. Small changes are skipped; growth is limited to a tenth of the machine a round; the first
//! quota on an unlimited tier is set at once.

use units::{Micros, MilliCpu};

/// The period of the scheduler, which nobody changes.
pub const PERIOD: Micros = Micros(100_000);

/// Less would starve it.
pub const FLOOR: Micros = Micros(2_000);

#[derive(Debug, Clone, Copy)]
pub struct Inputs {
    pub budget: MilliCpu,
    pub capacity: MilliCpu,
    /// The quota in force; `None` when unlimited.
    pub granted: Option<Micros>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// What to write; `None` leaves what is there.
    pub quota: Option<Micros>,
    pub why: Why,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Why {
    /// What the budget is worth.
    pub wanted: Micros,
    pub bound_by: Bound,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    Budget,
    Floor,
    Step,
    /// Too small a change to be worth a write.
    Near,
}

pub fn decide(inputs: &Inputs) -> Decision {
    let wanted = Micros(inputs.budget.0.saturating_mul(PERIOD.0 / 1_000));
    let (target, bound_by) =
        if wanted < FLOOR { (FLOOR, Bound::Floor) } else { (wanted, Bound::Budget) };
    let decided = |quota, bound_by| Decision { quota, why: Why { wanted, bound_by } };
    let Some(granted) = inputs.granted else {
        return decided(Some(target), bound_by);
    };

    let machine = Micros(cores(inputs.capacity).saturating_mul(PERIOD.0));
    let change = target - granted;
    if change == Micros::ZERO {
        return decided(None, bound_by);
    }
    if bound_by == Bound::Budget && change.0.saturating_abs() < machine.0 / 100 {
        return decided(None, Bound::Near);
    }
    let step = Micros(machine.0 / 10);
    if change > step {
        return decided(Some(granted + step), Bound::Step);
    }
    decided(Some(target), bound_by)
}

/// Whole cores, a part of one counting as one.
fn cores(capacity: MilliCpu) -> i64 {
    capacity.0.saturating_add(999).max(0) / 1_000
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn node() -> Inputs {
        Inputs {
            budget: MilliCpu(5_400),
            capacity: MilliCpu(16_000),
            granted: Some(Micros(540_000)),
        }
    }

    #[test]
    fn quota_follows_the_budget() {
        use Bound::{Budget, Floor, Near, Step};
        let at = |granted| Some(Micros(granted));
        let cases = [
            ("nothing changed", node(), None, Budget),
            (
                "the first one is set at once",
                Inputs { granted: None, ..node() },
                at(540_000),
                Budget,
            ),
            ("a hundredth is not worth it", Inputs { granted: at(530_000), ..node() }, None, Near),
            (
                "shrinking is not limited",
                Inputs { granted: at(1_600_000), ..node() },
                at(540_000),
                Budget,
            ),
            ("growth is a tenth", Inputs { granted: at(100_000), ..node() }, at(260_000), Step),
            (
                "a full node leaves the floor",
                Inputs { budget: MilliCpu(-1), ..node() },
                at(2_000),
                Floor,
            ),
            (
                "the floor is reached exactly",
                Inputs { budget: MilliCpu(-1), granted: at(3_000), ..node() },
                at(2_000),
                Floor,
            ),
            (
                "and then left alone",
                Inputs { budget: MilliCpu(-1), granted: at(2_000), ..node() },
                None,
                Floor,
            ),
            (
                "a part of a core counts as one",
                Inputs { capacity: MilliCpu(15_500), granted: at(100_000), ..node() },
                at(260_000),
                Step,
            ),
        ];
        for (name, inputs, quota, bound_by) in cases {
            let decision = decide(&inputs);
            assert_eq!((decision.quota, decision.why.bound_by), (quota, bound_by), "{name}");
        }
    }

    proptest! {
        /// Acting on a decision and asking again must come to rest, never below the floor.
        #[test]
        fn repeated_decisions_settle(
            budget in any::<i64>(), capacity in 1..1_000_000i64, granted in proptest::option::of(1_000..100_000_000i64),
        ) {
            let mut inputs = Inputs {
                budget: MilliCpu(budget.min(capacity)),
                capacity: MilliCpu(capacity),
                granted: granted.map(Micros),
            };
            let mut rounds = 0;
            while let Some(quota) = decide(&inputs).quota {
                prop_assert!(quota >= FLOOR);
                inputs.granted = Some(quota);
                rounds += 1;
                prop_assert!(rounds <= 12, "still moving after {} rounds", rounds);
            }
        }
    }
}
