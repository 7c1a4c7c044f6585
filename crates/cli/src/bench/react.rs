//! `tidepool bench react`: how fast is best-effort held back when the online side needs the machine?
//!
//! Two groups of equal weight in a cgroup tree of its own: one burns on every CPU (best-effort), the
//! other is idle and then wants a CPU at once (the online side). The daemon's own parts react, exactly
//! as they do in the agent: `Reflex` and `Arbiter`. For each step it is measured
//!
//! - *written*: from the step to the first smaller limit in the kernel,
//! - *effective*: from the step to the moment after which best-effort stays within its limit,
//! - *loss*: what part of its first second the online side did not get.
//!
//! The same steps are then answered by a loop that samples once a second and acts once a second.

mod group;
mod report;

use std::time::{Duration, Instant};

use agent::act::{Arbiter, Ledger, Outcome as Written, Reflex, TICK};
use anyhow::Context;
use clap::Args;
use qos::frame::Settings;
use units::{MilliCpu, Percent};

use self::group::Rig;
use self::report::Report;
use crate::{Outcome, output};

/// Measure how fast best-effort is held back when online load steps up
///
/// Needs root and a writable cgroup tree; makes a group of its own and removes it again.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Steps of online load to measure
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    steps: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  tidepool bench react --steps 20
  tidepool bench react --steps 200 --json";

/// How long the online side wants its CPU.
pub(super) const STEP: Duration = Duration::from_secs(1);

/// What all work together may use.
const THRESHOLD: Percent = Percent(65);

/// How long a loop with a period of a second takes to see a step and to act on it.
const SLOW: Duration = Duration::from_secs(1);

impl Arguments {
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        let report = self.measure()?;
        match self.json {
            true => output::print_as(output::Format::Json, &report)?,
            false => output::print(&report.to_text())?,
        }
        Ok(Outcome::Done)
    }

    fn measure(&self) -> anyhow::Result<Report> {
        let mut rig = Rig::new().context("cannot make a cgroup tree to measure in")?;
        let mut steps = Vec::new();
        for number in 0..self.steps {
            steps.push(rig.step(number, &mut Fast::new(&rig)?)?);
        }
        // One step in four is enough for a figure that hardly varies.
        let mut baseline = Vec::new();
        for number in 0..self.steps.div_ceil(4) {
            baseline.push(rig.step(number, &mut Slow::new(&rig)?)?);
        }
        Ok(Report::new(&steps, &baseline))
    }
}

/// Whoever answers a step: called every few milliseconds, with the time since it was made.
pub(super) trait Answer {
    /// Something to do at this moment; whether a smaller limit has been written by it.
    fn tick(&mut self, now: Duration) -> anyhow::Result<bool>;

    /// What best-effort may use in the end.
    fn limit(&self) -> MilliCpu;
}

/// The agent's own parts.
struct Fast {
    reflex: Reflex,
    arbiter: Arbiter,
    settings: Settings,
    next: Duration,
    limit: MilliCpu,
}

impl Fast {
    fn new(rig: &Rig) -> anyhow::Result<Self> {
        let settings = rig.settings(THRESHOLD);
        Ok(Self {
            reflex: Reflex::new(&rig.tree, rig.root.clone(), rig.best_effort.clone()),
            arbiter: Arbiter::new(rig.tree.clone(), Ledger::open(&rig.ledger())?),
            settings,
            next: Duration::ZERO,
            limit: settings.capacity,
        })
    }
}

impl Answer for Fast {
    fn tick(&mut self, now: Duration) -> anyhow::Result<bool> {
        if now < self.next {
            return Ok(false);
        }
        self.next = now + TICK;
        let Some(grant) = self.reflex.look(&self.settings, MilliCpu::ZERO, now)? else {
            return Ok(false);
        };
        let is_smaller = grant.granted < self.limit;
        self.limit = grant.granted;
        self.arbiter.post("frame", self.reflex.wishes(&grant, &[]), None);
        let changes = self.arbiter.settle(now);
        let is_written = |outcome: &Written| matches!(outcome, Written::Written { .. });
        Ok(is_smaller && changes.iter().any(|change| is_written(&change.outcome)))
    }

    fn limit(&self) -> MilliCpu {
        self.limit
    }
}

impl Drop for Fast {
    fn drop(&mut self) {
        self.arbiter.withdraw_all();
        self.arbiter.settle(self.next);
    }
}

/// A loop of one second: it knows the averages of the last second, and acts at its next turn.
struct Slow {
    inner: Fast,
}

impl Slow {
    fn new(rig: &Rig) -> anyhow::Result<Self> {
        Ok(Self { inner: Fast::new(rig)? })
    }
}

impl Answer for Slow {
    fn tick(&mut self, now: Duration) -> anyhow::Result<bool> {
        let is_due = now >= self.inner.next;
        let is_written = self.inner.tick(now)?;
        if is_due {
            self.inner.next = now + SLOW;
        }
        Ok(is_written)
    }

    fn limit(&self) -> MilliCpu {
        self.inner.limit()
    }
}

/// Whole milliseconds are enough for people.
pub(super) fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e4).round() / 10.0
}

/// A clock that starts now.
pub(super) fn clock() -> impl Fn() -> Duration {
    let start = Instant::now();
    move || start.elapsed()
}
