//! How much CPU must best-effort pods give back?
//!
//! Best-effort is *satisfied* as far as its limit covers its requests. When it wants more than it may
//! have (its use is near its limit) and gets less than the lower share of what it asked for, so many
//! requests are sent away that the rest is satisfied up to the upper share:
//!
//! ```text
//! release = requested * (upper - limit / requested)
//! ```
//!
//! The condition must hold on average over a window and still hold now, and the smaller of the two
//! amounts counts: a moment's dip of the limit is no reason to send anybody away.

use units::{MilliCpu, Percent, Rounding};

/// The best-effort tier, over a window or at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tier {
    pub used: MilliCpu,
    pub requested: MilliCpu,
    /// What it may use: CPUs or quota, or what the node advertises, by policy.
    pub limit: MilliCpu,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Satisfaction {
    pub lower: Percent,
    pub upper: Percent,
    /// Below this share of its limit the tier does not want more.
    pub busy: Percent,
}

/// Use of the tier near its limit, where not told otherwise.
pub const BUSY: Percent = Percent(90);

/// Below one CPU any use counts as near the limit.
const SMALL: MilliCpu = MilliCpu(1_000);

impl Satisfaction {
    /// Whether these shares make sense together.
    pub fn is_valid(&self) -> bool {
        (1..=60).contains(&self.lower.0)
            && (1..100).contains(&self.upper.0)
            && self.upper >= self.lower
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Why {
    /// What the average asks for; `None` where its condition does not hold.
    pub on_average: Option<MilliCpu>,
    /// What the last sample asks for.
    pub now: Option<MilliCpu>,
}

/// How much must go, and why; nothing without a current sample.
pub fn release(average: &Tier, last: Option<&Tier>, shares: &Satisfaction) -> (MilliCpu, Why) {
    let on_average =
        Some(average).filter(|tier| is_hot(tier, shares)).map(|tier| lacks(tier, shares));
    let now = last.filter(|tier| is_hot(tier, shares)).map(|tier| lacks(tier, shares));
    let release = match (on_average, now) {
        (Some(on_average), Some(now)) if shares.is_valid() => on_average.min(now),
        _ => MilliCpu::ZERO,
    };
    (release, Why { on_average, now })
}

fn is_hot(tier: &Tier, shares: &Satisfaction) -> bool {
    let is_near = || {
        let (used, limit) = (i128::from(tier.used.0), i128::from(tier.limit.0));
        used * 100 >= limit * i128::from(shares.busy.0)
    };
    tier.limit > MilliCpu::ZERO && (tier.limit < SMALL || is_near())
}

fn lacks(tier: &Tier, shares: &Satisfaction) -> MilliCpu {
    let Tier { requested, limit, .. } = *tier;
    let lower = i128::from(requested.0) * i128::from(shares.lower.0);
    if requested <= MilliCpu::ZERO || i128::from(limit.0) * 100 > lower {
        return MilliCpu::ZERO;
    }
    (shares.upper.apply(requested, Rounding::Down) - limit).max(MilliCpu::ZERO)
}

/// A node over its threshold, or pods over what the node advertises: down to the lower share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Band {
    pub threshold: Percent,
    pub lower: Percent,
}

impl Band {
    /// A lower share that is not given is two below the threshold.
    pub fn new(threshold: Percent, lower: Option<Percent>) -> Option<Self> {
        let lower = lower.unwrap_or(threshold - Percent(2));
        (threshold >= Percent::ZERO && lower < threshold).then_some(Self { threshold, lower })
    }

    /// What a node must get rid of, by its use in whole percent.
    pub fn above<T>(&self, used: T, capacity: T) -> T
    where
        T: Copy + Into<i64> + From<i64>,
    {
        let share = Percent::of(used, capacity, Rounding::Down).unwrap_or_default();
        if share < self.threshold {
            return T::from(0);
        }
        (share - self.lower).apply(capacity, Rounding::Down)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARES: Satisfaction =
        Satisfaction { lower: Percent(60), upper: Percent(80), busy: BUSY };

    fn tier(used: i64, requested: i64, limit: i64) -> Tier {
        Tier { used: MilliCpu(used), requested: MilliCpu(requested), limit: MilliCpu(limit) }
    }

    #[test]
    fn unsatisfied_and_busy_tiers_release() {
        let cases = [
            ("half satisfied, busy", tier(5_000, 10_000, 5_000), 3_000),
            ("two fifths satisfied", tier(3_900, 10_000, 4_000), 4_000),
            ("exactly at the lower share", tier(6_000, 10_000, 6_000), 2_000),
            ("satisfied enough", tier(6_100, 10_000, 6_001), 0),
            ("not busy", tier(4_499, 10_000, 5_000), 0),
            ("just busy", tier(4_500, 10_000, 5_000), 3_000),
            ("less than a CPU counts as busy", tier(0, 10_000, 999), 7_001),
            ("no limit known", tier(5_000, 10_000, -1), 0),
            ("nothing requested", tier(5_000, 0, 5_000), 0),
        ];
        for (name, tier, want) in cases {
            assert_eq!(release(&tier, Some(&tier), &SHARES).0, MilliCpu(want), "{name}");
        }
    }

    #[test]
    fn average_and_present_must_agree() {
        let bad = tier(5_000, 10_000, 5_000);
        let cases = [
            ("no present sample", bad, None, 0),
            ("over by now", bad, Some(tier(5_000, 10_000, 9_000)), 0),
            ("better by now", bad, Some(tier(6_000, 10_000, 6_000)), 2_000),
            ("worse by now", bad, Some(tier(2_000, 10_000, 2_000)), 3_000),
            ("a dip of a moment", tier(6_000, 10_000, 9_000), Some(tier(0, 10_000, 1)), 0),
        ];
        for (name, average, last, want) in cases {
            let (released, _) = release(&average, last.as_ref(), &SHARES);
            assert_eq!(released, MilliCpu(want), "{name}");
        }
    }

    #[test]
    fn nonsense_shares_release_nothing() {
        let bad = tier(5_000, 10_000, 5_000);
        let cases = [
            ("upper below lower", Percent(60), Percent(50)),
            ("lower above 60", Percent(61), Percent(80)),
            ("no lower", Percent(0), Percent(80)),
            ("upper of all", Percent(60), Percent(100)),
        ];
        for (name, lower, upper) in cases {
            let shares = Satisfaction { lower, upper, ..SHARES };
            assert_eq!(release(&bad, Some(&bad), &shares).0, MilliCpu::ZERO, "{name}");
        }
    }

    #[test]
    fn a_band_goes_down_to_its_lower_share() {
        let band = Band::new(Percent(70), None).unwrap();
        let cases = [
            ("below", 6_999, 0),
            ("at the threshold", 7_000, 200),
            ("whole percents count", 7_099, 200),
            ("far above", 9_000, 2_200),
        ];
        for (name, used, want) in cases {
            assert_eq!(band.above(MilliCpu(used), MilliCpu(10_000)), MilliCpu(want), "{name}");
        }
        assert_eq!(band.above(MilliCpu(5), MilliCpu(0)), MilliCpu(0), "no capacity");
        assert_eq!(Band::new(Percent(70), Some(Percent(70))), None);
        assert_eq!(Band::new(Percent(-1), None), None);
    }
}
