//! How does a counter become a rate?
//!
//! ```text
//! rate = (counter now - counter before) / time between the two readings
//! ```
//!
//! A difference is dropped, and the counter starts anew, when there is nothing before it, when the
//! counter went backwards (the object was replaced by another of the same name), or when the two
//! readings are no time or too long apart (a suspended machine, a tick that hung): the rate would
//! then speak about another moment than the sample claims.

use std::time::Duration;

/// How far apart two readings of a counter may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateRule {
    longest: Duration,
}

impl RateRule {
    /// Readings are taken every `interval`; up to three of those may pass between two.
    pub fn every(interval: Duration) -> Self {
        Self { longest: interval.saturating_mul(3) }
    }
}

/// The last reading of one counter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rate {
    last: Option<(u64, Duration)>,
}

/// What a counter did between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delta {
    pub count: u64,
    pub elapsed: Duration,
}

impl Delta {
    /// Counts a second.
    #[expect(clippy::cast_precision_loss, reason = "differences of one tick are far below 2^53")]
    pub fn per_second(self) -> f64 {
        self.count as f64 / self.elapsed.as_secs_f64()
    }
}

impl Rate {
    /// Takes a reading and tells what happened since the one before it.
    pub fn advance(&mut self, counter: u64, now: Duration, rule: RateRule) -> Option<Delta> {
        let (before, at) = self.last.replace((counter, now))?;
        let count = counter.checked_sub(before)?;
        let elapsed = now.checked_sub(at)?;
        (!elapsed.is_zero() && elapsed <= rule.longest).then_some(Delta { count, elapsed })
    }

    /// Forgets the last reading.
    pub fn reset(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plausible_differences_become_rates() {
        let rule = RateRule::every(Duration::from_secs(1));
        let cases = [
            ("a second apart", (100, 1_000), (350, 2_000), Some(250.0)),
            ("half a second apart", (100, 1_000), (350, 1_500), Some(500.0)),
            ("standing still", (100, 1_000), (100, 2_000), Some(0.0)),
            ("three intervals apart", (0, 1_000), (300, 4_000), Some(100.0)),
            ("more than three intervals apart", (0, 1_000), (300, 4_001), None),
            ("no time between", (0, 1_000), (300, 1_000), None),
            ("time went backwards", (0, 1_000), (300, 999), None),
            ("counter went backwards", (100, 1_000), (99, 2_000), None),
        ];
        for (name, first, second, want) in cases {
            let mut rate = Rate::default();
            let mut read = |(counter, ms)| rate.advance(counter, Duration::from_millis(ms), rule);
            assert_eq!(read(first), None, "{name}: first reading");
            assert_eq!(read(second).map(Delta::per_second), want, "{name}");
        }
    }

    #[test]
    fn a_dropped_difference_is_the_new_baseline() {
        let rule = RateRule::every(Duration::from_secs(1));
        let mut rate = Rate::default();
        for (counter, second, want) in [(1_000, 1, None), (5, 2, None), (12, 3, Some(7))] {
            let delta = rate.advance(counter, Duration::from_secs(second), rule);
            assert_eq!(delta.map(|delta| delta.count), want);
        }
    }
}
