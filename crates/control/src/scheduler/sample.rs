//! Which attempts and changes are timed? One in ten of each: two looks at a clock for every
//! plugin would be felt at a hundred thousand decisions a second.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

const ONE_IN: u32 = 10;

/// Counts to ten; the first one is timed.
#[derive(Debug, Default)]
pub(super) struct Sample(u32);

impl Sample {
    /// Is the next one timed?
    pub(super) fn is_due(&self) -> bool {
        self.0 == 0
    }

    /// One more has been.
    pub(super) fn count(&mut self) {
        self.0 = (self.0 + 1) % ONE_IN;
    }
}

/// The clock that is lent to the engine.
pub(super) fn clock() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_ten_is_timed_and_the_first_is_among_them() {
        let mut sample = Sample::default();
        let mut is_timed = || {
            let is_due = sample.is_due();
            sample.count();
            is_due
        };
        let timed: Vec<u32> = (0..25).filter(|_| is_timed()).collect();
        assert_eq!(timed, [0, 10, 20]);
    }
}
