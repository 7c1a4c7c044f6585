//! What time is it?
//!
//! Decisions take the time as an argument. Only the loop that calls them asks a clock, and a test
//! gives it one of its own.

use std::{fmt, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Tells the time to the controllers.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self::from_fn(Timestamp::now)
    }

    /// A clock that a test turns by hand.
    pub fn from_fn(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

/// The time as objects carry it: whole seconds.
pub fn stamp(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// `time` moved by seconds; the end of time if it does not fit.
pub fn plus_seconds(time: Timestamp, seconds: i64) -> Timestamp {
    time.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(if seconds < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    })
}

/// How long until `time`; zero when it has passed.
pub fn until(time: Timestamp, now: Timestamp) -> std::time::Duration {
    std::time::Duration::try_from(time.duration_since(now)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_whole_seconds() {
        let now: Timestamp = "2030-01-01T00:00:00.9Z".parse().unwrap();
        assert_eq!(stamp(now).0, "2030-01-01T00:00:00Z".parse().unwrap());
    }

    #[test]
    fn time_neither_wraps_nor_runs_backwards() {
        let now: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(plus_seconds(now, i64::MAX), Timestamp::MAX);
        assert_eq!(plus_seconds(now, i64::MIN), Timestamp::MIN);
        assert_eq!(until(now, plus_seconds(now, 5)), std::time::Duration::ZERO);
        assert_eq!(until(plus_seconds(now, 5), now), std::time::Duration::from_secs(5));
    }
}
