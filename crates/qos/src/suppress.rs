//! How much CPU may best-effort use right now?
//!
//! Operators allow all work together a share of the node. What everyone above best-effort uses comes
//! off it, and what the system uses, or is reserved for it, too; best-effort gets the rest:
//!
//! ```text
//! budget = capacity * threshold%
//!        - used by pods and host applications above best-effort
//!        - max(used by the system, reserved)
//! ```
//!
//! The budget becomes a set of CPUs ([`cpus`]) or a quota ([`quota`]), whichever the policy says. Both
//! shrink at once and grow in steps.

pub mod cpus;
pub mod quota;

use units::{MilliCpu, Percent, Rounding};

use crate::node::milli;

/// CPU use of one pod or host application, from its last sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// In cores, as measured: sums are cut to milli-cores, and not what they are made of.
    pub used: f64,
    /// Best-effort by its label or by Kubernetes. A pod nobody knows anything about is not.
    pub is_best_effort: bool,
}

/// What a round may look at. Whoever has no sample is left out of the lists.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    pub capacity: MilliCpu,
    pub allocatable: MilliCpu,
    /// Reserved by the node's annotation.
    pub annotated: MilliCpu,
    /// In cores.
    pub node_used: f64,
    pub pods: &'a [Usage],
    pub host_applications: &'a [Usage],
    pub threshold: Percent,
    pub at_least: Option<Percent>,
}

/// The sum, term by term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    pub allowed: MilliCpu,
    /// Used by pods and host applications above best-effort.
    pub protected: MilliCpu,
    pub system: System,
    /// May be negative: the node is over its threshold without best-effort.
    pub budget: MilliCpu,
    pub bound_by: Bound,
}

/// What was taken off for the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct System {
    /// Used by nobody we know.
    pub used: MilliCpu,
    pub reserved: MilliCpu,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    Threshold,
    /// The share that operators guarantee to best-effort.
    Minimum,
}

impl System {
    pub fn charged(self) -> MilliCpu {
        self.used.max(self.reserved)
    }
}

pub fn budget(inputs: &Inputs<'_>) -> Budget {
    let allowed = inputs.threshold.apply(inputs.capacity, Rounding::Down);
    let everyone = || inputs.pods.iter().chain(inputs.host_applications);
    let above = |all: &[Usage]| {
        let above = all.iter().filter(|usage| !usage.is_best_effort);
        milli(above.map(|usage| usage.used).sum())
    };
    let protected = above(inputs.pods) + above(inputs.host_applications);
    let known: f64 = everyone().map(|usage| usage.used).sum();
    let system = System {
        used: milli(inputs.node_used - known),
        reserved: (inputs.capacity - inputs.allocatable).max(inputs.annotated),
    };

    let rest = allowed - protected - system.charged();
    let least = inputs.at_least.map(|share| share.apply(inputs.capacity, Rounding::Down));
    let (budget, bound_by) = match least {
        Some(least) if rest < least => (least, Bound::Minimum),
        _ => (rest, Bound::Threshold),
    };
    Budget { allowed, protected, system, budget, bound_by }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn above(used: i64) -> Usage {
        Usage { used: used as f64 / 1_000.0, is_best_effort: false }
    }

    fn below(used: i64) -> Usage {
        Usage { used: used as f64 / 1_000.0, is_best_effort: true }
    }

    fn node() -> Inputs<'static> {
        Inputs {
            capacity: MilliCpu(16_000),
            allocatable: MilliCpu(15_000),
            annotated: MilliCpu::ZERO,
            node_used: 0.0,
            pods: &[],
            host_applications: &[],
            threshold: Percent(65),
            at_least: None,
        }
    }

    #[test]
    fn budget_is_what_the_others_leave() {
        use Bound::{Minimum, Threshold};
        let cases = [
            ("an idle system is charged its reservation", node(), 9_400, Threshold),
            (
                "the annotation counts when it is larger",
                Inputs { annotated: MilliCpu(2_000), ..node() },
                8_400,
                Threshold,
            ),
            (
                "online pods come off, best-effort does not",
                Inputs { node_used: 7.0, pods: &[above(4_000), below(3_000)], ..node() },
                5_400,
                Threshold,
            ),
            (
                "a busy system is charged its use",
                Inputs { node_used: 6.0, pods: &[above(4_000)], ..node() },
                4_400,
                Threshold,
            ),
            (
                "host applications are like pods",
                Inputs {
                    node_used: 3.0,
                    host_applications: &[above(2_000), below(1_000)],
                    ..node()
                },
                7_400,
                Threshold,
            ),
            (
                "samples that add up to more than the node leave the reservation",
                Inputs { node_used: 3.0, pods: &[above(4_000)], ..node() },
                5_400,
                Threshold,
            ),
            (
                "a full node owes best-effort",
                Inputs { node_used: 15.0, pods: &[above(15_000)], ..node() },
                -5_600,
                Threshold,
            ),
            (
                "unless a minimum is promised",
                Inputs {
                    node_used: 15.0,
                    pods: &[above(15_000)],
                    at_least: Some(Percent(10)),
                    ..node()
                },
                1_600,
                Minimum,
            ),
        ];
        for (name, inputs, want, bound) in cases {
            let budget = budget(&inputs);
            assert_eq!((budget.budget.0, budget.bound_by), (want, bound), "{name}");
        }
    }

    #[test]
    fn sums_are_cut_and_not_samples() {
        let small = [Usage { used: 0.000_9, is_best_effort: false }; 10];
        let budget = budget(&Inputs { node_used: 3.0, pods: &small, ..node() });
        assert_eq!(budget.protected, MilliCpu(9), "not ten times nothing");
        assert_eq!(budget.system.used, MilliCpu(2_991));
    }

    #[test]
    fn shares_are_cut_to_whole_milli_cores() {
        let inputs = Inputs { capacity: MilliCpu(999), allocatable: MilliCpu(999), ..node() };
        assert_eq!(budget(&inputs).allowed, MilliCpu(649));
    }
}
