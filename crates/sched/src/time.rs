//! When is it? The caller says so; nothing in this crate asks a clock.

use std::ops::{Add, Sub};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as WireTime;

/// Nanoseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub i64);

impl Time {
    pub const ZERO: Self = Self(0);
    pub const MAX: Self = Self(i64::MAX);

    pub fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    pub fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Whole seconds, the fraction dropped.
    pub fn whole_secs(self) -> i64 {
        self.0.div_euclid(1_000_000_000)
    }

    /// The time that has passed since `earlier`; nothing when that is ahead.
    pub fn since(self, earlier: Self) -> Duration {
        let nanos = self.0.saturating_sub(earlier.0);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
    }

    pub fn from_wire(time: &WireTime) -> Self {
        Self(i64::try_from(time.0.as_nanosecond()).unwrap_or(i64::MAX))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)))
    }
}

impl Sub<Duration> for Time {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_and_never_runs_backwards() {
        let start = Time::from_secs(10);
        assert_eq!(start + Duration::from_millis(1_500), Time::from_millis(11_500));
        assert_eq!((start + Duration::from_millis(1_500)).whole_secs(), 11);
        assert_eq!(start.since(Time::from_secs(8)), Duration::from_secs(2));
        assert_eq!(start.since(Time::from_secs(12)), Duration::ZERO);
        assert_eq!(Time::MAX + Duration::from_secs(1), Time::MAX);
        assert_eq!(Time(-1).whole_secs(), -1);
    }
}
