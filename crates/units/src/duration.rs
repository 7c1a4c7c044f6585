//! What does `1h30m` mean, and how is it written back?
//!
//! Durations in Kubernetes objects are Go's: a sum of decimal numbers with units (`5m`, `1h30m`,
//! `1.5h`, `-2m3.5s`), stored as nanoseconds in 64 bits, printed with every unit below the first
//! (`5m0s`, `24h0m0s`) or as one number below a second (`500ms`). Texts that mean the same span
//! are equal, so values are compared, never texts.

mod parse;
mod print;
mod wire;

pub use parse::DurationError;

use std::time::Duration;

/// A signed span of time in nanoseconds, with Go's text form.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration {
    nanos: i64,
}

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

impl GoDuration {
    pub const ZERO: Self = Self { nanos: 0 };

    pub const fn from_nanos(nanos: i64) -> Self {
        Self { nanos }
    }

    /// Saturates after 292 years.
    pub const fn from_millis(millis: i64) -> Self {
        Self { nanos: millis.saturating_mul(MILLISECOND.cast_signed()) }
    }

    /// Saturates after 292 years.
    pub const fn from_secs(secs: i64) -> Self {
        Self { nanos: secs.saturating_mul(SECOND.cast_signed()) }
    }

    /// Saturates after 292 years.
    pub fn from_std(duration: Duration) -> Self {
        Self { nanos: i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX) }
    }

    pub const fn as_nanos(self) -> i64 {
        self.nanos
    }

    /// As a standard duration; `None` when negative.
    pub fn to_std(self) -> Option<Duration> {
        u64::try_from(self.nanos).ok().map(Duration::from_nanos)
    }

    pub const fn is_zero(self) -> bool {
        self.nanos == 0
    }

    pub const fn is_negative(self) -> bool {
        self.nanos < 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_one_span_are_equal() {
        let same: [GoDuration; 4] =
            ["90s", "1m30s", "1.5m", "90000ms"].map(|text| text.parse().unwrap());
        assert!(same.iter().all(|other| *other == GoDuration::from_secs(90)));
        assert_ne!(same[0], GoDuration::from_secs(91));
    }

    #[test]
    fn conversions_saturate_or_refuse() {
        assert_eq!(GoDuration::from_std(Duration::from_millis(1_500)).to_string(), "1.5s");
        assert_eq!(GoDuration::from_std(Duration::MAX), GoDuration::from_nanos(i64::MAX));
        assert_eq!(GoDuration::from_secs(i64::MIN), GoDuration::from_nanos(i64::MIN));
        assert_eq!(GoDuration::from_millis(i64::MAX), GoDuration::from_nanos(i64::MAX));
        assert_eq!(GoDuration::from_millis(2).to_std(), Some(Duration::from_millis(2)));
        assert_eq!(GoDuration::from_nanos(-1).to_std(), None);
        assert!(GoDuration::from_nanos(-1).is_negative());
        assert!(GoDuration::ZERO.is_zero() && !GoDuration::ZERO.is_negative());
    }
}
