//! Who is asked for pods now, and when again?
//!
//! A value that is told what happened and says what to do, so that outages can be played through
//! without waiting for them.

use std::time::Duration;

/// Failures in a row after which the API server is asked too.
const FAILURES: u32 = 3;

/// Failures that last this long are more than a restart of the kubelet.
pub const LONG: Duration = Duration::from_secs(300);

/// The kubelet learns what a new container is called about a second after it starts it.
const AFTER_CHANGE: Duration = Duration::from_millis(1500);

/// Immediate requests that may follow each other: five a second, ten at once.
const BURST: f64 = 10.0;
const PER_SECOND: f64 = 5.0;

/// How asking the kubelet has gone so far. Times count from the agent's start.
#[derive(Debug, Clone)]
pub struct Plan {
    interval: Duration,
    failures: u32,
    failing_since: Option<Duration>,
    next: Duration,
    tokens: f64,
    filled: Duration,
}

impl Plan {
    /// Asks at once, then every `interval`.
    pub fn new(interval: Duration) -> Self {
        Self {
            interval,
            failures: 0,
            failing_since: None,
            next: Duration::ZERO,
            tokens: BURST,
            filled: Duration::ZERO,
        }
    }

    /// When the kubelet is to be asked next.
    pub fn next(&self) -> Duration {
        self.next
    }

    /// A control group came or went. Asks at once, or when the bucket has a token again.
    pub fn changed(&mut self, now: Duration) {
        let grown = now.saturating_sub(self.filled).as_secs_f64() * PER_SECOND;
        self.tokens = (self.tokens + grown).min(BURST);
        self.filled = now;
        let missing = (1.0 - self.tokens).max(0.0);
        let at = now + Duration::from_secs_f64(missing / PER_SECOND);
        if at < self.next {
            // Paid for now, even if it has to wait for its token.
            self.tokens -= 1.0;
            self.next = at;
        }
    }

    /// The kubelet gave a list. `soon` asks for another before the interval is over.
    pub fn succeeded(&mut self, now: Duration, soon: bool) {
        self.failures = 0;
        self.failing_since = None;
        let wait = if soon { AFTER_CHANGE.min(self.interval) } else { self.interval };
        self.next = now + wait;
    }

    /// The kubelet gave none.
    pub fn failed(&mut self, now: Duration) {
        self.failures = self.failures.saturating_add(1);
        self.failing_since.get_or_insert(now);
        // The first failures are followed up sooner: a restarting kubelet is back in seconds.
        let wait = if self.failures < FAILURES { AFTER_CHANGE } else { self.interval };
        self.next = now + wait.min(self.interval);
    }

    /// Whether the API server stands in.
    pub fn needs_fallback(&self) -> bool {
        self.failures >= FAILURES
    }

    /// How long the kubelet has been silent, once that is long.
    pub fn long_silence(&self, now: Duration) -> Option<Duration> {
        let silent = now.saturating_sub(self.failing_since?);
        (silent >= LONG).then_some(silent)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn a_quiet_node_is_asked_every_interval() {
        let mut plan = Plan::new(10 * S);
        assert_eq!(plan.next(), Duration::ZERO);
        plan.succeeded(S, false);
        assert_eq!(plan.next(), 11 * S);
        assert!(!plan.needs_fallback());
    }

    #[test]
    fn a_change_is_asked_about_at_once_and_again_a_moment_later() {
        let mut plan = Plan::new(10 * S);
        plan.succeeded(S, false);
        plan.changed(2 * S);
        assert_eq!(plan.next(), 2 * S);
        plan.succeeded(2 * S, true);
        assert_eq!(plan.next(), 2 * S + AFTER_CHANGE);
        plan.succeeded(4 * S, false);
        assert_eq!(plan.next(), 14 * S, "and then the node is quiet again");
    }

    #[test]
    fn three_failures_bring_in_the_api_server_until_one_success() {
        let mut plan = Plan::new(10 * S);
        for second in 1..=2 {
            plan.failed(second * S);
            assert!(!plan.needs_fallback());
        }
        plan.failed(3 * S);
        assert!(plan.needs_fallback());
        assert_eq!(plan.next(), 13 * S, "a kubelet that stays away is not hurried");
        assert_eq!(plan.long_silence(300 * S), None);
        assert_eq!(plan.long_silence(301 * S), Some(300 * S), "counted from the first failure");
        plan.succeeded(302 * S, false);
        assert!(!plan.needs_fallback());
        assert_eq!(plan.long_silence(900 * S), None);
    }

    proptest! {
        /// However often groups change, the kubelet is asked at most ten times and five a second,
        /// besides once every interval.
        #[test]
        fn storms_are_limited(gaps in proptest::collection::vec(0u64..100, 1..256)) {
            let mut plan = Plan::new(10 * S);
            plan.succeeded(Duration::ZERO, false);
            let mut now = Duration::ZERO;
            let mut asked = 0u32;
            for gap in gaps {
                now += Duration::from_millis(gap);
                if plan.next() <= now {
                    plan.succeeded(now, false);
                    asked += 1;
                }
                plan.changed(now);
                if plan.next() <= now {
                    plan.succeeded(now, false);
                    asked += 1;
                }
            }
            let seconds = now.as_secs_f64();
            let most = BURST + PER_SECOND * seconds + seconds / 10.0 + 1.0;
            prop_assert!(f64::from(asked) <= most, "{asked} in {now:?}");
        }
    }
}
