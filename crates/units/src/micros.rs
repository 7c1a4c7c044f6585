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
