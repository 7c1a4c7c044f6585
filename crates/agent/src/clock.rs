//! Time since the agent started.

use std::time::{Duration, Instant};

/// Time since the agent started; never steps when somebody sets the wall clock.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
    /// What the clock showed at its start.
    at_start: Duration,
}

impl Clock {
    pub fn start() -> Self {
        Self::start_at(Duration::ZERO)
    }

    /// A clock that shows `now` at this moment.
    pub fn start_at(now: Duration) -> Self {
        Self { start: Instant::now(), at_start: now }
    }

    pub fn now(self) -> Duration {
        self.at_start + self.start.elapsed()
    }
}
