//! Which pods take too long between the queue and their node?
//!
//! A record begins when a pod leaves the queue and ends when its outcome was carried out. Every
//! period those that began too long ago are said, once a period, and counted.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sched::Time;
use sched::scheduler::Attempt;
use tracing::warn;

/// Pods on their way.
#[derive(Debug)]
pub(super) struct Monitor {
    patience: Duration,
    period: Duration,
    next: Time,
    records: HashMap<Arc<str>, Record>,
}

#[derive(Debug)]
struct Record {
    pod: String,
    profile: String,
    attempts: u32,
    start: Time,
}

impl Monitor {
    pub(super) fn new(patience: Duration, period: Duration) -> Self {
        Self { patience, period, next: Time::ZERO, records: HashMap::new() }
    }

    pub(super) fn begin(&mut self, attempt: &Attempt, now: Time) {
        let record = Record {
            pod: format!("{}/{}", attempt.pod.namespace, attempt.pod.name),
            profile: attempt.scheduler_name.clone(),
            attempts: attempt.attempts,
            start: now,
        };
        self.records.insert(attempt.pod.uid.clone(), record);
    }

    /// Ends a record; says how long it took.
    pub(super) fn end(&mut self, uid: &str, now: Time) -> Option<Duration> {
        self.records.remove(uid).map(|record| now.since(record.start))
    }

    /// Says who is late, when it is time to; returns their profiles.
    pub(super) fn look(&mut self, now: Time) -> Vec<String> {
        if now < self.next {
            return Vec::new();
        }
        self.next = now + self.period;
        let late = self.records.values().filter(|own| now.since(own.start) > self.patience);
        late.map(|record| {
            warn!(
                pod = record.pod,
                profile = record.profile,
                attempts = record.attempts,
                elapsed_ms = u64::try_from(now.since(record.start).as_millis()).unwrap_or(u64::MAX),
                "a pod has been on its way to a node for too long"
            );
            record.profile.clone()
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use sched::scheduler::{Outcome, PodRef};

    use super::*;

    fn attempt(uid: &str) -> Attempt {
        let pod = PodRef { namespace: "d".into(), name: uid.into(), uid: uid.into() };
        Attempt {
            pod,
            scheduler_name: "s".into(),
            attempts: 1,
            outcome: Outcome::Skip { reason: "" },
        }
    }

    #[test]
    fn who_is_late_is_said_once_a_period() {
        let mut monitor = Monitor::new(Duration::from_secs(30), Duration::from_secs(10));
        let at = Time::from_secs;
        monitor.begin(&attempt("a"), at(100));
        monitor.begin(&attempt("b"), at(125));
        assert_eq!(monitor.look(at(130)), [""; 0], "exactly in time");
        assert_eq!(monitor.look(at(135)), [""; 0], "not yet time to look");
        assert_eq!(monitor.look(at(140)), ["s"]);
        assert_eq!(monitor.end("a", at(141)), Some(Duration::from_secs(41)));
        assert_eq!(monitor.look(at(151)), [""; 0]);
        assert_eq!((monitor.end("a", at(152)), monitor.records.len()), (None, 1));
    }
}
