//! How far may an online container go beyond its CPU limit?
//!
//! A limit is enforced in slices of 100 ms, so a service that is idle on average is still throttled in
//! a slice in which ten requests arrive. Two answers, which a policy turns on together or alone:
//!
//! - *Burst* lets a container spend in one slice what it saved in earlier ones; the kernel does the
//!   counting ([`cfs_burst`]).
//! - *Quota burst* raises the limit itself by a fifth a round while the container is throttled and the
//!   node has room, and takes it back when the node is busy or the container has lived beyond its
//!   means for too long ([`step`], [`Limiter`]).

pub mod limiter;

use units::{Micros, MilliCpu, Percent, Ratio, Rounding};

use crate::batch::normalize;

pub use limiter::Limiter;

/// A quota below this is refused by the kernel.
const LEAST_QUOTA: Micros = Micros(1_000);

/// What of a node's shared pool is in use, in the eyes of bursting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    Idle,
    /// Close to the threshold: nobody grows.
    Cooling,
    /// At the threshold: everybody shrinks.
    Overload,
    /// No usable sample: nobody grows.
    Unknown,
}

/// The shared pool, averaged over some seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    /// All CPUs less those requested by LSE and LSR pods.
    pub total: MilliCpu,
    /// The node's use less that of LSE, LSR and BE pods; the system's stays in.
    pub used: MilliCpu,
}

/// How busy the pool is, compared with the threshold.
pub fn node_state(pool: Option<Pool>, threshold: Percent) -> NodeState {
    let Some(Pool { total, used }) = pool else {
        return NodeState::Unknown;
    };
    // An empty pool is full. Compared without division: used / total against threshold / 100.
    if total <= MilliCpu::ZERO {
        return NodeState::Overload;
    }
    let (used, limit) =
        (i128::from(used.0) * 1_000, i128::from(total.0) * i128::from(threshold.0) * 10);
    if used >= limit {
        NodeState::Overload
    } else if used * 10 >= limit * 9 {
        NodeState::Cooling
    } else {
        NodeState::Idle
    }
}

/// What a container may save up in the kernel; `None` in `quota` is unlimited and needs no savings.
///
/// Mainline kernels refuse a burst above the quota; `takes_more` says that this one does not.
pub fn cfs_burst(
    limit: Option<MilliCpu>,
    percent: Percent,
    quota: Option<Micros>,
    takes_more: bool,
) -> Micros {
    let (Some(limit), Some(quota)) = (limit, quota) else {
        return Micros::ZERO;
    };
    let wanted = percent.apply(Micros(limit.0.max(0).saturating_mul(100)), Rounding::Down);
    let wanted = wanted.max(Micros::ZERO);
    if takes_more { wanted } else { wanted.min(quota) }
}

/// Everything one container's round may look at.
#[derive(Debug, Clone, Copy)]
pub struct Inputs {
    pub limit: MilliCpu,
    /// How far the limit may be raised; 100 or less is not at all.
    pub ceiling: Percent,
    /// Quota bursting is on for this pod.
    pub is_on: bool,
    pub node: NodeState,
    /// Whether the container was throttled in its last sample; `None` without one.
    pub is_throttled: Option<bool>,
    /// Whether it has means left to live beyond its limit.
    pub has_means: bool,
    pub quota: Micros,
    /// What a core of this machine is worth, compared with the reference machine.
    pub normalization: Option<Ratio>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    pub quota: Micros,
    pub why: Why,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Why {
    pub base: Micros,
    pub ceiling: Micros,
    pub step: Step,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A fifth up: throttled, and the node has room.
    Up,
    /// A fifth down: the node is busy, or the means are used up.
    Down(Cause),
    Keep,
    /// Back to the limit: bursting is off.
    Reset,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    NodeBusy,
    NoMeans,
}

/// The quota for the next round; `None` when the container has no limit to burst from.
pub fn decide(inputs: &Inputs) -> Option<Decision> {
    if inputs.limit <= MilliCpu::ZERO {
        return None;
    }
    let base = Micros(inputs.limit.0.saturating_mul(100)).max(LEAST_QUOTA);
    let ceiling = inputs.ceiling.apply(base, Rounding::Down).max(base);
    let [base, ceiling] = [base, ceiling].map(|quota| normalize(quota, inputs.normalization));
    let step = step(inputs);
    let quota = match step {
        Step::Up => Percent(120).apply(inputs.quota, Rounding::Down),
        Step::Down(_) => Percent(80).apply(inputs.quota, Rounding::Down),
        Step::Keep => inputs.quota,
        Step::Reset => base,
    };
    Some(Decision { quota: quota.clamp(base, ceiling), why: Why { base, ceiling, step } })
}

fn step(inputs: &Inputs) -> Step {
    if !inputs.is_on {
        return Step::Reset;
    }
    if !inputs.has_means {
        return Step::Down(Cause::NoMeans);
    }
    match (inputs.node, inputs.is_throttled) {
        (NodeState::Overload, _) => Step::Down(Cause::NodeBusy),
        (NodeState::Idle, Some(true)) => Step::Up,
        _ => Step::Keep,
    }
}

/// The quota of a pod is the sum of its containers'; one without a limit makes it unlimited.
pub fn pod_quota(containers: impl IntoIterator<Item = Option<Micros>>) -> Option<Micros> {
    containers.into_iter().sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_pool_is_judged_by_its_threshold() {
        let cases = [
            ("no sample", None, NodeState::Unknown),
            ("idle", Some((10_000, 4_499)), NodeState::Idle),
            ("nine tenths of the threshold", Some((10_000, 4_500)), NodeState::Cooling),
            ("just below", Some((10_000, 4_999)), NodeState::Cooling),
            ("at the threshold", Some((10_000, 5_000)), NodeState::Overload),
            ("no pool at all", Some((0, 0)), NodeState::Overload),
            ("less used than others are charged", Some((10_000, -5)), NodeState::Idle),
        ];
        for (name, pool, want) in cases {
            let pool =
                pool.map(|(total, used)| Pool { total: MilliCpu(total), used: MilliCpu(used) });
            assert_eq!(node_state(pool, Percent(50)), want, "{name}");
        }
    }

    #[test]
    fn savings_do_not_exceed_what_the_kernel_takes() {
        let (limit, quota) = (Some(MilliCpu(2_000)), Some(Micros(200_000)));
        let cases = [
            ("mainline takes a quota", cfs_burst(limit, Percent(1_000), quota, false), 200_000),
            ("others take more", cfs_burst(limit, Percent(1_000), quota, true), 2_000_000),
            ("a small share", cfs_burst(limit, Percent(50), quota, false), 100_000),
            ("no limit", cfs_burst(None, Percent(1_000), quota, true), 0),
            ("no quota", cfs_burst(limit, Percent(1_000), None, true), 0),
            ("off", cfs_burst(limit, Percent(0), quota, true), 0),
            ("nonsense", cfs_burst(limit, Percent(-5), quota, true), 0),
        ];
        for (name, burst, want) in cases {
            assert_eq!(burst, Micros(want), "{name}");
        }
    }

    fn container() -> Inputs {
        Inputs {
            limit: MilliCpu(1_000),
            ceiling: Percent(300),
            is_on: true,
            node: NodeState::Idle,
            is_throttled: Some(true),
            has_means: true,
            quota: Micros(100_000),
            normalization: None,
        }
    }

    #[test]
    fn quota_moves_by_a_fifth() {
        let (up, keep, reset) = (Step::Up, Step::Keep, Step::Reset);
        let (busy, poor) = (Step::Down(Cause::NodeBusy), Step::Down(Cause::NoMeans));
        let at = |quota| Inputs { quota: Micros(quota), ..container() };
        let on = |node, is_throttled| Inputs { node, is_throttled, ..at(200_000) };
        let cases = [
            ("throttled on an idle node", container(), 120_000, up),
            ("not throttled", on(NodeState::Idle, Some(false)), 200_000, keep),
            ("no sample", on(NodeState::Idle, None), 200_000, keep),
            ("cooling", on(NodeState::Cooling, Some(true)), 200_000, keep),
            ("unknown", on(NodeState::Unknown, Some(true)), 200_000, keep),
            ("overload, throttled", on(NodeState::Overload, Some(true)), 160_000, busy),
            ("overload, quiet", on(NodeState::Overload, Some(false)), 160_000, busy),
            ("no means left", Inputs { has_means: false, ..at(200_000) }, 160_000, poor),
            ("off", Inputs { is_on: false, ..at(200_000) }, 100_000, reset),
            ("not above the ceiling", at(290_000), 300_000, up),
            ("not below the limit", Inputs { has_means: false, ..container() }, 100_000, poor),
            ("somebody else's value is corrected", at(50_000), 100_000, up),
            (
                "no room above the limit",
                Inputs { ceiling: Percent(50), ..container() },
                100_000,
                up,
            ),
            (
                "a faster core needs less",
                Inputs {
                    normalization: Some(Ratio::from_hundredths(150)),
                    is_on: false,
                    ..container()
                },
                66_667,
                reset,
            ),
        ];
        for (name, inputs, quota, step) in cases {
            let decision = decide(&inputs).unwrap();
            assert_eq!((decision.quota, decision.why.step), (Micros(quota), step), "{name}");
        }
        assert_eq!(decide(&Inputs { limit: MilliCpu(0), ..container() }), None);
    }

    #[test]
    fn a_throttled_container_climbs_to_its_ceiling() {
        let mut inputs = Inputs { limit: MilliCpu(2_000), quota: Micros(200_000), ..container() };
        let climb: Vec<_> = std::iter::from_fn(|| {
            inputs.quota = decide(&inputs)?.quota;
            Some(inputs.quota.0)
        })
        .take(8)
        .collect();
        let want = [240_000, 288_000, 345_600, 414_720, 497_664, 597_196, 600_000, 600_000];
        assert_eq!(climb, want);
    }

    #[test]
    fn a_pod_is_the_sum_of_its_containers() {
        let cases = [
            ("two limits", vec![Some(10_000), Some(5_000)], Some(15_000)),
            ("one without a limit", vec![Some(10_000), None], None),
            ("no container", vec![], Some(0)),
        ];
        for (name, quotas, want) in cases {
            let quotas = quotas.into_iter().map(|quota| quota.map(Micros));
            assert_eq!(pod_quota(quotas), want.map(Micros), "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_quota_stays_between_limit_and_ceiling(
            limit in 1..1_000_000i64, ceiling in -10..2_000i64, quota in any::<i64>(), has_means: bool,
        ) {
            let inputs = Inputs {
                limit: MilliCpu(limit), ceiling: Percent(ceiling), quota: Micros(quota), has_means,
                ..container()
            };
            let Decision { quota, why } = decide(&inputs).unwrap();
            prop_assert!(why.base <= quota && quota <= why.ceiling);
        }
    }
}
