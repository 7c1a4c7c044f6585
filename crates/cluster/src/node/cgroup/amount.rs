//! Which number does a request or a limit become in a kernel file?
//!
//! | amount | v1 | v2 |
//! |---|---|---|
//! | CPU request | `cpu.shares` = milli × 1024 / 1000, within 2 … 262144 | `cpu.weight`, see [`weight`] |
//! | CPU limit | `cpu.cfs_quota_us` = milli × period / 1000, at least 1 ms | `cpu.max`, the same pair |
//! | memory request | `oom_score_adj`, see [`oom_score_adj`] | the same |
//!
//! The rounding is kubelet's: whole division, then the bounds.

use units::{Bytes, MilliCpu};

use crate::node::resource::QosClass;

/// The period of a CPU limit, in microseconds.
pub(crate) const PERIOD: u64 = 100_000;

const SHARES_PER_CORE: u64 = 1_024;
const MIN_SHARES: u64 = 2;
const MAX_SHARES: u64 = 262_144;
const MIN_QUOTA: u64 = 1_000;
const MAX_WEIGHT: u64 = 10_000;

/// `cpu.shares` of a CPU request.
pub(crate) fn shares(request: MilliCpu) -> u64 {
    let milli = u64::try_from(request.0).unwrap_or(0);
    (milli.saturating_mul(SHARES_PER_CORE) / 1_000).clamp(MIN_SHARES, MAX_SHARES)
}

/// Microseconds of CPU time in a [`PERIOD`]; none for no limit.
pub(crate) fn quota(limit: MilliCpu) -> Option<u64> {
    let milli = u64::try_from(limit.0).ok().filter(|milli| *milli > 0)?;
    Some((milli.saturating_mul(PERIOD) / 1_000).max(MIN_QUOTA))
}

/// `cpu.weight` of a number of shares, as Kubernetes 1.35 and runc since 1.3.2 have it: a parabola
/// between the logarithms that goes through (2, 1), (1024, 100) and (262144, 10000).
///
/// ```text
/// weight = ⌈10 ^ ((l² + 125 l) / 612 − 7/34)⌉,  l = log₂ shares
/// ```
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "shares fit in 19 bits and the weight is between 1 and 10000"
)]
pub(crate) fn weight(shares: u64) -> u64 {
    if shares <= MIN_SHARES {
        return 1;
    }
    if shares >= MAX_SHARES {
        return MAX_WEIGHT;
    }
    let l = (shares as f64).log2();
    let exponent = (l * l + 125.0 * l) / 612.0 - 7.0 / 34.0;
    (10_f64.powf(exponent).ceil() as u64).clamp(1, MAX_WEIGHT)
}

/// Who dies first when the machine is out of memory: 1000 is first.
///
/// Burstable containers rank by the share of the machine they did not ask for, strictly between
/// the other two classes.
pub(crate) fn oom_score_adj(class: QosClass, request: Bytes, capacity: Bytes) -> i32 {
    const GUARANTEED: i64 = -997;
    const BEST_EFFORT: i64 = 1_000;
    let score = match class {
        QosClass::Guaranteed => GUARANTEED,
        QosClass::BestEffort => BEST_EFFORT,
        QosClass::Burstable => {
            let asked = i128::from(request.0) * 1_000 / i128::from(capacity.0.max(1));
            let asked = i64::try_from(asked).unwrap_or(BEST_EFFORT);
            (BEST_EFFORT - asked).clamp(BEST_EFFORT + GUARANTEED, BEST_EFFORT - 1)
        }
    };
    i32::try_from(score).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn requests_become_shares() {
        let cases = [
            ("none", 0, 2),
            ("negative", -5, 2),
            ("below the least", 1, 2),
            ("two thousandths", 2, 2),
            ("three thousandths", 3, 3),
            ("a tenth", 100, 102),
            ("one core", 1_000, 1_024),
            ("two and a half", 2_500, 2_560),
            ("the most", 256_000, 262_144),
            ("above the most", 300_000, 262_144),
            ("absurd", i64::MAX, 262_144),
        ];
        for (name, milli, want) in cases {
            assert_eq!(shares(MilliCpu(milli)), want, "{name}");
        }
    }

    #[test]
    fn limits_become_quotas() {
        let cases = [
            ("none", 0, None),
            ("negative", -1, None),
            ("below a millisecond", 1, Some(1_000)),
            ("exactly a millisecond", 10, Some(1_000)),
            ("just above", 11, Some(1_100)),
            ("half a core", 500, Some(50_000)),
            ("two cores", 2_000, Some(200_000)),
        ];
        for (name, milli, want) in cases {
            assert_eq!(quota(MilliCpu(milli)), want, "{name}");
        }
    }

    #[test]
    fn shares_become_weights() {
        let cases = [
            (0, 1),
            (2, 1),
            (3, 2),
            (102, 17),
            (512, 59),
            (1_024, 100),
            (2_048, 174),
            (4_096, 303),
            (262_143, 10_000),
            (262_144, 10_000),
            (u64::MAX, 10_000),
        ];
        for (shares, want) in cases {
            assert_eq!(weight(shares), want, "{shares}");
        }
    }

    #[test]
    fn the_killer_prefers_those_who_asked_for_little() {
        use QosClass::{BestEffort, Burstable, Guaranteed};
        let gib = 1 << 30;
        let cases = [
            ("guaranteed", Guaranteed, gib, -997),
            ("best effort", BestEffort, 0, 1_000),
            ("burstable without a request", Burstable, 0, 999),
            ("burstable, a quarter", Burstable, 4 * gib, 750),
            ("burstable, a little", Burstable, 1, 999),
            ("burstable, all", Burstable, 16 * gib, 3),
            ("burstable, more than all", Burstable, i64::MAX, 3),
        ];
        for (name, class, request, want) in cases {
            assert_eq!(oom_score_adj(class, Bytes(request), Bytes(16 * gib)), want, "{name}");
        }
        assert_eq!(oom_score_adj(Burstable, Bytes(1), Bytes(0)), 3, "unknown capacity");
    }

    proptest! {
        #[test]
        fn weights_grow_with_shares_and_stay_in_range(low in 0..300_000_u64, more in 0..300_000_u64) {
            prop_assert!(weight(low) <= weight(low + more));
            prop_assert!((1..=10_000).contains(&weight(low)));
        }
    }
}
