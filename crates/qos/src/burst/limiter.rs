//! Has a container lived beyond its CPU limit for too long?
//!
//! A bucket of tokens, in percent-seconds of the limit. Use below three fifths of the limit fills it,
//! use above the limit empties it, in between nothing happens. Who has tokens may burst.

use std::time::Duration;

use units::{MilliCpu, Percent, Rounding};

/// What operators allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    pub ceiling: Percent,
    /// How long a container may stay at the ceiling; `None` is for ever.
    pub period: Option<Duration>,
}

/// The bucket of one container.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limiter {
    capacity: f64,
    tokens: f64,
}

/// Below this share of its limit a container saves.
const SAVES_BELOW: i64 = 60;

impl Limiter {
    /// A new bucket is filled by up to a half, by `luck` in `0.0..1.0`, so that containers which start
    /// together do not stop bursting together.
    pub fn new(allowance: Allowance, luck: f64) -> Self {
        let capacity = capacity(allowance);
        Self { capacity, tokens: luck.clamp(0.0, 1.0) * 0.5 * capacity }
    }

    /// Whether the allowance is another one than this bucket was made for.
    pub fn is_outdated(&self, allowance: Allowance) -> bool {
        self.capacity != capacity(allowance)
    }

    /// Counts `elapsed` at this use of the limit. Without a sample the limit counts as used up.
    #[must_use]
    pub fn after(self, used: Option<MilliCpu>, limit: MilliCpu, elapsed: Duration) -> Self {
        let share = used.and_then(|used| Percent::of(used, limit, Rounding::Down));
        let share = share.map_or(100, |share| share.0);
        #[expect(clippy::cast_precision_loss, reason = "percentages are small")]
        let saved = match share {
            100.. => (100 - share) as f64,
            ..SAVES_BELOW => (100 - share) as f64,
            _ => 0.0,
        };
        let tokens = self.tokens + saved * elapsed.as_secs_f64();
        Self { tokens: tokens.clamp(-self.capacity, self.capacity), ..self }
    }

    pub fn has_means(&self) -> bool {
        self.tokens > 0.0
    }
}

/// How many percent-seconds fit; infinite without a period, none without room above the limit.
fn capacity(allowance: Allowance) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "percentages are small")]
    let above = (allowance.ceiling.0 - 100).max(0) as f64;
    match allowance.period {
        Some(period) => period.as_secs_f64() * above,
        None if above > 0.0 => f64::MAX,
        None => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const LIMIT: MilliCpu = MilliCpu(1_000);

    fn allowance(ceiling: i64, period: Option<u64>) -> Allowance {
        Allowance { ceiling: Percent(ceiling), period: period.map(Duration::from_secs) }
    }

    #[test]
    fn tokens_follow_use() {
        let start = Limiter { capacity: 1_000.0, tokens: 100.0 };
        let cases = [
            ("idle saves all", Some(0), 200.0),
            ("just below three fifths saves", Some(599), 141.0),
            ("three fifths saves nothing", Some(600), 100.0),
            ("the limit costs nothing", Some(1_000), 100.0),
            ("twice the limit costs", Some(2_000), 0.0),
            ("no sample counts as the limit", None, 100.0),
        ];
        for (name, used, want) in cases {
            let after = start.after(used.map(MilliCpu), LIMIT, SECOND);
            assert_eq!(after.tokens, want, "{name}");
        }
    }

    #[test]
    fn a_bucket_has_a_bottom_and_a_rim() {
        let start = Limiter { capacity: 1_000.0, tokens: 0.0 };
        let hour = Duration::from_secs(3_600);
        assert_eq!(start.after(Some(MilliCpu(9_000)), LIMIT, hour).tokens, -1_000.0);
        assert_eq!(start.after(Some(MilliCpu(0)), LIMIT, hour).tokens, 1_000.0);
    }

    #[test]
    fn parts_of_seconds_count() {
        let start = Limiter { capacity: 1_000.0, tokens: 0.0 };
        let after = start.after(Some(MilliCpu(0)), LIMIT, Duration::from_millis(999));
        assert!((after.tokens - 99.9).abs() < 1e-9);
    }

    #[test]
    fn means_depend_on_the_allowance() {
        let cases = [
            ("a period", allowance(300, Some(60)), true),
            ("for ever", allowance(300, None), true),
            ("no room above the limit", allowance(100, Some(60)), false),
            ("no time", allowance(300, Some(0)), false),
            ("below the limit", allowance(50, None), false),
        ];
        for (name, allowance, want) in cases {
            assert_eq!(Limiter::new(allowance, 0.5).has_means(), want, "{name}");
        }
    }

    #[test]
    fn an_endless_allowance_is_never_used_up() {
        let mut limiter = Limiter::new(allowance(300, None), 0.5);
        for _ in 0..1_000 {
            limiter = limiter.after(Some(MilliCpu(9_000)), LIMIT, Duration::from_secs(3_600));
        }
        assert!(limiter.has_means());
    }

    #[test]
    fn a_new_allowance_needs_a_new_bucket() {
        let limiter = Limiter::new(allowance(300, Some(60)), 0.5);
        assert!(!limiter.is_outdated(allowance(300, Some(60))));
        assert!(limiter.is_outdated(allowance(200, Some(60))));
    }
}
