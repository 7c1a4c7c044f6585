//! Spans of time as the CPU controller counts them: quotas, periods, throttled time.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::amount::amount;
use crate::rounding::saturate;
use crate::{GoDuration, Rounding};

/// A number of microseconds.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Micros(pub i64);

amount!(Micros);

const NANOS_PER_MICRO: i64 = 1_000;

impl Micros {
    pub fn from_duration(duration: GoDuration, rounding: Rounding) -> Self {
        let nanos = i128::from(duration.as_nanos());
        Self(saturate(rounding.divide(nanos, NANOS_PER_MICRO.into()).unwrap_or_default()))
    }

    /// As a duration; saturates after 292 years.
    pub const fn to_duration(self) -> GoDuration {
        GoDuration::from_nanos(self.0.saturating_mul(NANOS_PER_MICRO))
    }

    /// As a standard duration; `None` when negative.
    pub fn to_std(self) -> Option<Duration> {
        u64::try_from(self.0).ok().map(Duration::from_micros)
    }
}

/// As a duration: `100ms`, `1m30s`.
impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_duration().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_a_duration() {
        let cases =
            [(100_000, "100ms"), (90_000_000, "1m30s"), (0, "0s"), (-5, "-5µs"), (1_500, "1.5ms")];
        for (micros, want) in cases {
            assert_eq!(Micros(micros).to_string(), want);
        }
    }

    #[test]
    fn conversions_name_their_rounding() {
        let span = GoDuration::from_nanos(1_500);
        assert_eq!(Micros::from_duration(span, Rounding::Up), Micros(2));
        assert_eq!(Micros::from_duration(span, Rounding::Down), Micros(1));
        assert_eq!(Micros(-2).to_duration(), GoDuration::from_nanos(-2_000));
        assert_eq!(Micros(i64::MAX).to_duration(), GoDuration::from_nanos(i64::MAX));
        assert_eq!(Micros(7).to_std(), Some(Duration::from_micros(7)));
        assert_eq!(Micros(-7).to_std(), None);
    }
}
