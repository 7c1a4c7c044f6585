//! How long does a container that has ended wait before it runs again?
//!
//! Not at all the first time, then 10 s after it ended, then twice as long each time up to five
//! minutes. A run that ended more than ten minutes after it began clears the record.

use jiff::{SignedDuration, Timestamp};

const FIRST: SignedDuration = SignedDuration::from_secs(10);
const MOST: SignedDuration = SignedDuration::from_secs(300);
const FORGOTTEN: SignedDuration = SignedDuration::from_secs(600);

/// How long the next end has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Backoff {
    pub(crate) delay: SignedDuration,
    /// When the container was last started again.
    pub(crate) since: Timestamp,
}

impl Backoff {
    /// When a container that ended at `finished_at` may run again.
    pub(super) fn due(record: Option<Self>, finished_at: Timestamp) -> Timestamp {
        match record.filter(|record| !record.is_forgotten(finished_at)) {
            Some(record) => finished_at.saturating_add(record.delay).unwrap_or(finished_at),
            None => finished_at,
        }
    }

    /// The record once it does run again.
    pub(super) fn after(record: Option<Self>, finished_at: Timestamp, now: Timestamp) -> Self {
        let delay = match record.filter(|record| !record.is_forgotten(finished_at)) {
            Some(record) => (record.delay * 2).min(MOST),
            None => FIRST,
        };
        Self { delay, since: now }
    }

    fn is_forgotten(&self, finished_at: Timestamp) -> bool {
        finished_at.duration_since(self.since) > FORGOTTEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds waited before each restart of a container that runs for `seconds` each time.
    fn waits(seconds: i64, restarts: usize) -> Vec<i64> {
        let mut now = Timestamp::UNIX_EPOCH;
        let mut record = None;
        let mut waits = Vec::new();
        for _ in 0..restarts {
            let ended = now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
            now = Backoff::due(record, ended);
            waits.push(now.duration_since(ended).as_secs());
            record = Some(Backoff::after(record, ended, now));
        }
        waits
    }

    #[test]
    fn waits_double_up_to_five_minutes() {
        assert_eq!(waits(1, 9), [0, 10, 20, 40, 80, 160, 300, 300, 300]);
    }

    #[test]
    fn ten_good_minutes_clear_the_record() {
        assert_eq!(waits(600, 4), [0, 10, 20, 40]);
        assert_eq!(waits(601, 4), [0, 0, 0, 0]);
    }
}
