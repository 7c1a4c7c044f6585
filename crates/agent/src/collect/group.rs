//! How is one control group sampled, second after second?
//!
//! A group is read through files that stay open. The first reading is a baseline and yields nothing;
//! from the second on there is a rate. When the group vanishes its files are let go and looked for
//! again later, at growing distances. A group that cannot be read or makes no sense is left out, which
//! is logged when it begins and when it ends, not every second.
//!
//! On v1 throttling is a file of its own. A group that used less CPU in a tick than the smallest quota
//! the kernel accepts cannot have been throttled, and a busy one whose periods do not advance has no quota;
//! both are asked every ten seconds only.

use std::time::Duration;

use groups::{CgroupPath, Version};
use host::cgroup::{CgroupReader, MemoryStat, Throttling, Tree};
use host::fs::Buffer;
use host::{FileError, Reading};
use stats::{Rate, RateRule};
use tracing::{debug, warn};

/// The kernel accepts no smaller quota.
const SMALLEST_QUOTA: Duration = Duration::from_millis(1);
/// How often a group that cannot be throttled is asked whether it was.
const THROTTLING_CHECK: Duration = Duration::from_secs(10);
/// The longest a group that vanished is not looked for.
const LONGEST_ABSENCE: Duration = Duration::from_secs(8);

/// What every sampler needs in one tick.
#[derive(Debug)]
pub(super) struct Pass<'a> {
    pub(super) tree: &'a Tree,
    pub(super) buffer: &'a mut Buffer,
    pub(super) now: Duration,
    pub(super) rule: RateRule,
}

/// What a group used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct GroupUsage {
    /// Cores.
    pub(super) cpu: f64,
    /// `None` where the memory controller is not on for the group.
    pub(super) memory: Option<MemoryStat>,
    /// Share of throttled periods; `None` where the cpu controller is not on for the group.
    pub(super) throttled: Option<f64>,
}

/// What came of an attempt to sample a group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Outcome {
    Sampled(GroupUsage),
    /// The counters have no usable reading before this one.
    Baseline,
    /// There is no such group now.
    Absent,
    /// The group is there and cannot be read.
    Failed,
}

/// One control group.
#[derive(Debug)]
pub(super) struct Group {
    path: CgroupPath,
    reader: Option<CgroupReader>,
    absence: Absence,
    cpu: Rate,
    throttling: ThrottlingRate,
    is_failing: bool,
}

/// When to look for a group that is not there.
#[derive(Debug, Clone, Copy, Default)]
struct Absence {
    retry_at: Duration,
    wait: Duration,
}

impl Absence {
    fn note(&mut self, now: Duration) {
        self.wait = (self.wait * 2).clamp(Duration::from_secs(1), LONGEST_ABSENCE);
        // Due times jitter by milliseconds; a wait of one second must not become two.
        self.retry_at = now + self.wait - Duration::from_millis(100);
    }
}

#[derive(Debug, Default)]
struct ThrottlingRate {
    last: Option<Throttling>,
    /// There were two readings: before, nothing is known about a quota.
    is_settled: bool,
    was_busy: bool,
    /// Periods do not advance: the group has no quota.
    is_unlimited: bool,
    check_at: Duration,
}

impl ThrottlingRate {
    fn is_due(&self, now: Duration) -> bool {
        !self.is_settled || (self.was_busy && !self.is_unlimited) || now >= self.check_at
    }

    /// The share of periods that were throttled since the last reading.
    #[expect(clippy::cast_precision_loss, reason = "a tick has a few dozen periods")]
    fn advance(&mut self, reading: Throttling, now: Duration) -> Option<f64> {
        self.check_at = now + THROTTLING_CHECK;
        let last = self.last.replace(reading);
        self.is_settled = last.is_some();
        let periods = reading.nr_periods.checked_sub(last?.nr_periods);
        let throttled = reading.nr_throttled.checked_sub(last?.nr_throttled);
        // Periods stand still while nothing runs; only a busy group tells.
        if self.was_busy {
            self.is_unlimited = periods == Some(0);
        }
        match (periods, throttled) {
            (Some(1..), Some(throttled)) => {
                Some((throttled as f64 / periods.unwrap_or(1) as f64).min(1.0))
            }
            (Some(0), Some(_)) => Some(0.0),
            // The counters went backwards: this reading is the new baseline.
            _ => None,
        }
    }
}

impl Group {
    pub(super) fn new(path: &CgroupPath) -> Self {
        Self {
            path: path.clone(),
            reader: None,
            absence: Absence::default(),
            cpu: Rate::default(),
            throttling: ThrottlingRate::default(),
            is_failing: false,
        }
    }

    pub(super) fn is_at(&self, path: &CgroupPath) -> bool {
        self.path == *path
    }

    pub(super) fn path(&self) -> &CgroupPath {
        &self.path
    }

    pub(super) fn is_failing(&self) -> bool {
        self.is_failing
    }

    /// Looks for the group at the next tick even if it was not there lately.
    pub(super) fn look_again(&mut self) {
        self.absence = Absence::default();
    }

    /// Reads CPU, memory and throttling.
    pub(super) fn sample(&mut self, pass: &mut Pass<'_>) -> Outcome {
        let outcome = self.read(pass);
        self.settle(outcome, pass.now)
    }

    fn read(&mut self, pass: &mut Pass<'_>) -> Result<Reading<Option<GroupUsage>>, FileError> {
        let asks_throttling =
            pass.tree.version() == Version::V2 || self.throttling.is_due(pass.now);
        let Some(reader) = self.reader(pass) else { return Ok(Reading::Gone) };
        let (usage, reading) = if asks_throttling {
            match reader.cpu_stat(pass.buffer)? {
                Reading::Value(stat) => (stat.usage, Some(stat.throttling)),
                absent => return Ok(absent.map(|_| None)),
            }
        } else {
            match reader.cpu_usage(pass.buffer)? {
                Reading::Value(usage) => (usage, None),
                absent => return Ok(absent.map(|_| None)),
            }
        };
        let memory = match reader.memory_stat(pass.buffer)? {
            Reading::Value(stat) => Some(stat),
            Reading::Unsupported => None,
            Reading::Gone => return Ok(Reading::Gone),
        };
        let throttled = match reading {
            Some(Some(reading)) => self.throttling.advance(reading, pass.now),
            Some(None) => None,
            None => Some(0.0),
        };
        let nanos = u64::try_from(usage.as_nanos()).unwrap_or(u64::MAX);
        let Some(delta) = self.cpu.advance(nanos, pass.now, pass.rule) else {
            return Ok(Reading::Value(None));
        };
        self.throttling.was_busy = Duration::from_nanos(delta.count) >= SMALLEST_QUOTA;
        let cpu = delta.per_second() / 1e9;
        Ok(Reading::Value(Some(GroupUsage { cpu, memory, throttled })))
    }

    /// The open group; `None` while it need not be looked for.
    pub(super) fn reader(&mut self, pass: &Pass<'_>) -> Option<&mut CgroupReader> {
        if self.reader.is_none() && pass.now >= self.absence.retry_at {
            self.reader = Some(pass.tree.reader(self.path.clone()));
        }
        self.reader.as_mut()
    }

    /// The open group, if it was sampled before.
    pub(super) fn open_reader(&mut self) -> Option<&mut CgroupReader> {
        self.reader.as_mut()
    }

    /// Turns a result into an outcome, and remembers what the next tick must know.
    fn settle(
        &mut self,
        result: Result<Reading<Option<GroupUsage>>, FileError>,
        now: Duration,
    ) -> Outcome {
        let outcome = match result {
            Ok(Reading::Value(Some(usage))) => Outcome::Sampled(usage),
            Ok(Reading::Value(None)) => Outcome::Baseline,
            Ok(Reading::Unsupported) => Outcome::Failed,
            Ok(Reading::Gone) => {
                self.let_go(now);
                return Outcome::Absent;
            }
            Err(error) => {
                if !self.is_failing {
                    warn!(group = self.path.as_str(), %error, "leaving out a control group");
                }
                self.is_failing = true;
                return Outcome::Failed;
            }
        };
        if std::mem::take(&mut self.is_failing) {
            debug!(group = self.path.as_str(), "a control group can be read again");
        }
        self.absence = Absence::default();
        outcome
    }

    fn let_go(&mut self, now: Duration) {
        if self.reader.take().is_some() {
            self.absence.note(now);
        }
        self.cpu.reset();
        self.throttling = ThrottlingRate::default();
        self.is_failing = false;
    }
}
