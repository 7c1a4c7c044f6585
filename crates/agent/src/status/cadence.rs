//! When is the next report due?
//!
//! The reference writes every `reportIntervalSeconds`, and so do we by default. An adaptive agent
//! writes early when the node's load has moved by a twentieth of its capacity, and late, up to three
//! intervals, while it stands still. Consumers bound the lateness: the scheduler ignores numbers
//! that are older than three minutes, so no pause is longer than two and a half. Whatever the
//! cause, writes follow each other at most every ten seconds after two at once.

use std::time::Duration;

use units::CpuMemory;

/// Share of the node's capacity by which load must move to count as a change.
const CHANGE: f64 = 0.05;

/// How many intervals a quiet node may be silent.
const QUIET: u32 = 3;

/// What the scheduler tolerates, with room for one lost write.
const LATEST: Duration = Duration::from_secs(150);

/// Writes: one in ten seconds, two at once.
const REFILL: Duration = Duration::from_secs(10);
const BURST: u32 = 2;

/// The first pause after a failure.
const RETRY: Duration = Duration::from_secs(2);

/// How reports are paced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Early on change, late when quiet.
    pub adaptive: bool,
    /// How long the node is measured before the first report.
    pub first_after: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { adaptive: false, first_after: Duration::from_secs(10) }
    }
}

/// Usage as shares of capacity; 0 where the capacity is not known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    cpu: f64,
    memory: f64,
}

impl Load {
    /// From cores and bytes in use.
    pub fn new(cores: f64, bytes: f64, capacity: CpuMemory) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a share needs few digits")]
        let share = |used: f64, all: i64| if all > 0 { used / all as f64 } else { 0.0 };
        Self { cpu: share(cores * 1000.0, capacity.cpu.0), memory: share(bytes, capacity.memory.0) }
    }

    fn has_moved(self, from: Self) -> bool {
        (self.cpu - from.cpu).abs() >= CHANGE || (self.memory - from.memory).abs() >= CHANGE
    }
}

/// Whether to report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    Now(Why),
    Later,
}

/// Why a report is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// There has been none for this object.
    First,
    Interval,
    /// The load has moved.
    Change,
    /// The node is quiet, but may not be silent any longer.
    Quiet,
    /// The last attempt failed.
    Retry,
}

/// What was reported and when. Times count from the agent's start.
#[derive(Debug, Clone)]
pub struct Cadence {
    settings: Settings,
    /// The object that reports go to.
    uid: String,
    last: Option<(Duration, Option<Load>)>,
    failures: u32,
    retry_at: Option<Duration>,
    tokens: u32,
    filled: Duration,
}

impl Cadence {
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            uid: String::new(),
            last: None,
            failures: 0,
            retry_at: None,
            tokens: BURST,
            filled: Duration::ZERO,
        }
    }

    /// There is no object to report to.
    pub fn forget(&mut self) {
        self.last = None;
        self.retry_at = None;
        self.failures = 0;
        self.uid.clear();
    }

    /// Reports go to this object; another one has not heard from us.
    pub fn meet(&mut self, uid: &str) {
        if self.uid != uid {
            self.forget();
            uid.clone_into(&mut self.uid);
        }
    }

    /// Whether a report is due. Without a load nothing was measured, which is told at the interval.
    pub fn due(&mut self, now: Duration, interval: Duration, load: Option<Load>) -> Due {
        self.refill(now);
        let Some(why) = self.why(now, interval, load) else { return Due::Later };
        if self.tokens == 0 {
            return Due::Later;
        }
        self.tokens -= 1;
        Due::Now(why)
    }

    fn why(&self, now: Duration, interval: Duration, load: Option<Load>) -> Option<Why> {
        if let Some(at) = self.retry_at {
            return (now >= at).then_some(Why::Retry);
        }
        let Some((last, told)) = self.last else {
            let is_measured = load.is_some() && now >= self.settings.first_after;
            return (is_measured || now >= interval).then_some(Why::First);
        };
        let age = now.saturating_sub(last);
        if !self.settings.adaptive {
            return (age >= interval).then_some(Why::Interval);
        }
        let has_moved = match (load, told) {
            (Some(load), Some(told)) => load.has_moved(told),
            (load, told) => load.is_some() != told.is_some(),
        };
        if has_moved {
            return Some(Why::Change);
        }
        let late = (interval * QUIET).min(LATEST).max(interval);
        (age >= late).then_some(Why::Quiet)
    }

    fn refill(&mut self, now: Duration) {
        while self.tokens < BURST && now.saturating_sub(self.filled) >= REFILL {
            self.tokens += 1;
            self.filled += REFILL;
        }
        if self.tokens == BURST {
            self.filled = now;
        }
    }

    pub fn written(&mut self, now: Duration, load: Option<Load>) {
        self.last = Some((now, load));
        self.failures = 0;
        self.retry_at = None;
    }

    /// Pauses double up to the interval.
    pub fn failed(&mut self, now: Duration, interval: Duration) {
        let pause = RETRY * 2u32.saturating_pow(self.failures.min(10));
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Some(now + pause.min(interval));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use units::{Bytes, MilliCpu};

    use super::*;

    const S: Duration = Duration::from_secs(1);
    const MINUTE: Duration = Duration::from_secs(60);

    fn load(cores: f64) -> Option<Load> {
        let capacity = CpuMemory { cpu: MilliCpu(10_000), memory: Bytes(1 << 30) };
        Some(Load::new(cores, 0.0, capacity))
    }

    /// Seconds and causes of all reports in a span, with a load that follows `cores`.
    fn play(settings: Settings, seconds: u32, cores: impl Fn(u32) -> f64) -> Vec<(u32, Why)> {
        let mut cadence = Cadence::new(settings);
        cadence.meet("a");
        let mut reports = Vec::new();
        for second in 0..seconds {
            let (now, load) = (second * S, load(cores(second)));
            if let Due::Now(why) = cadence.due(now, MINUTE, load) {
                cadence.written(now, load);
                reports.push((second, why));
            }
        }
        reports
    }

    #[test]
    fn the_default_is_a_fixed_interval() {
        let reports = play(Settings::default(), 200, |second| f64::from(second % 10));
        assert_eq!(
            reports,
            [(10, Why::First), (70, Why::Interval), (130, Why::Interval), (190, Why::Interval)]
        );
    }

    #[test]
    fn an_adaptive_agent_is_early_on_change_and_late_when_quiet() {
        let settings = Settings { adaptive: true, ..Settings::default() };
        let step = |second| if second < 30 { 1.0 } else { 2.0 };
        assert_eq!(
            play(settings, 400, step),
            [(10, Why::First), (30, Why::Change), (180, Why::Quiet), (330, Why::Quiet)]
        );
        let drift = |second| 1.0 + f64::from(second) * 0.001;
        let reports = play(settings, 400, drift);
        assert!(reports.iter().all(|(_, why)| *why != Why::Change), "{reports:?}");
    }

    #[test]
    fn a_slow_interval_is_not_shortened_by_consumers() {
        let mut cadence = Cadence::new(Settings { adaptive: true, ..Settings::default() });
        cadence.written(Duration::ZERO, load(1.0));
        assert_eq!(cadence.due(299 * S, 300 * S, load(1.0)), Due::Later);
        assert_eq!(cadence.due(300 * S, 300 * S, load(1.0)), Due::Now(Why::Quiet));
    }

    #[test]
    fn a_node_that_cannot_be_measured_says_so_at_the_interval() {
        let mut cadence = Cadence::new(Settings::default());
        assert_eq!(cadence.due(59 * S, MINUTE, None), Due::Later);
        assert_eq!(cadence.due(60 * S, MINUTE, None), Due::Now(Why::First));
    }

    #[test]
    fn an_object_made_anew_is_told_at_once() {
        let mut cadence = Cadence::new(Settings::default());
        cadence.meet("a");
        assert_eq!(cadence.due(10 * S, MINUTE, load(1.0)), Due::Now(Why::First));
        cadence.written(10 * S, load(1.0));
        cadence.meet("a");
        assert_eq!(cadence.due(20 * S, MINUTE, load(1.0)), Due::Later);
        cadence.meet("b");
        assert_eq!(cadence.due(21 * S, MINUTE, load(1.0)), Due::Now(Why::First));
    }

    #[test]
    fn an_hour_without_the_server_costs_little_and_ends_soon() {
        let mut cadence = Cadence::new(Settings::default());
        cadence.written(Duration::ZERO, load(1.0));
        let mut attempts = Vec::new();
        for second in 0..3600 {
            if let Due::Now(_) = cadence.due(second * S, MINUTE, load(1.0)) {
                cadence.failed(second * S, MINUTE);
                attempts.push(second);
            }
        }
        assert!(attempts.len() < 70, "{}", attempts.len());
        let back = (3600..3700).find(|second| {
            matches!(cadence.due(*second * S, MINUTE, load(1.0)), Due::Now(Why::Retry))
        });
        assert!(back.is_some_and(|second| second <= 3660), "{back:?}");
    }

    proptest! {
        /// However wild the load, writes are limited; however quiet, they come in time.
        #[test]
        fn reports_are_neither_frequent_nor_rare(loads in proptest::collection::vec(0u32..10, 600)) {
            let settings = Settings { adaptive: true, first_after: Duration::ZERO };
            let at = |second: u32| loads.get(usize::try_from(second / 3).unwrap_or(0)).copied().unwrap_or(0);
            let reports = play(settings, 1800, |second| f64::from(at(second)));
            let times: Vec<u32> = reports.iter().map(|(second, _)| *second).collect();
            for pair in times.windows(2) {
                prop_assert!(pair[1] - pair[0] <= 150, "{pair:?}");
            }
            for triple in times.windows(4) {
                prop_assert!(triple[3] - triple[0] >= 10, "{triple:?}");
            }
            prop_assert!(times.len() <= 182);
        }
    }
}
