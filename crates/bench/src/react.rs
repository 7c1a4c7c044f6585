//! `tidepool bench react`: how fast is best-effort held back when the online side needs the machine?
//!
//! Two groups of equal weight in a cgroup tree of its own: one burns on every CPU (best-effort), the
//! other is idle and then wants every CPU at once (the online side). Equal, because a weight that
//! already protects the online side leaves nothing to measure; every CPU, because a load that fits
//! beside best-effort loses nothing. The daemon's own parts react, exactly as they do in the agent:
//! `Reflex` and `Arbiter`. For each step it is measured
//!
//! - *written*: from the step to the first smaller limit in the kernel,
//! - *effective*: from the step to the moment from which on best-effort stays within its last limit,
//!   over two of the kernel's periods, give or take the slice each CPU may still have in hand,
//! - *loss*: what part of the work of its first second the online side did not get done, compared with
//!   the same second without best-effort.
//!
//! Every fourth step is also answered by a loop that samples once a second and acts once a second, each
//! at its own hour, and once more with best-effort stopped. All of them take turns, so that a machine
//! that others use as well is the same for all.

mod group;
mod report;

use std::time::{Duration, Instant};

use agent::act::{Arbiter, Grant, Ledger, Outcome as Written, Reflex, TICK};
use anyhow::{Context, bail};
use clap::Args;
use qos::frame::Settings;
use tokio_util::sync::CancellationToken;
use units::{MilliCpu, Percent};

use self::group::Rig;
use self::report::{Measured, Report};
use crate::interrupt::Interrupt;

/// Measure how fast best-effort is held back when online load steps up
///
/// Needs root and a writable cgroup tree; makes a group of its own and removes it again.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
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

/// How long the online side wants the machine.
pub(super) const STEP: Duration = Duration::from_secs(1);

/// What all work together may use.
const THRESHOLD: Percent = Percent(65);

/// One step in so many is answered slowly and without best-effort too.
const COMPARED: u32 = 4;

/// How often a slow loop samples, and how often it acts.
const SLOW: Duration = Duration::from_secs(1);

impl Arguments {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let Some(report) = runtime.block_on(self.measure_or_stop())? else {
            bail!("interrupted; the control groups are removed");
        };
        match self.json {
            true => crate::report::print_json(&report)?,
            false => crate::report::print(&report.to_text())?,
        }
        Ok(())
    }

    /// `None` when somebody stopped it.
    async fn measure_or_stop(&self) -> anyhow::Result<Option<Report>> {
        let (mut signals, stop) = (Interrupt::new()?, CancellationToken::new());
        let (steps, stopped) = (self.steps, stop.clone());
        let mut measuring = tokio::task::spawn_blocking(move || measure(steps, &stopped));
        tokio::select! {
            report = &mut measuring => return report?,
            () = signals.received() => stop.cancel(),
        }
        measuring.await?
    }
}

/// `None` when told to stop.
fn measure(steps: u32, stop: &CancellationToken) -> anyhow::Result<Option<Report>> {
    let mut rig = Rig::new().context("cannot make a cgroup tree to measure in")?;
    let mut measured = Measured::default();
    for number in 0..steps {
        if stop.is_cancelled() {
            return Ok(None);
        }
        measured.steps.push(rig.step(number, &mut Fast::new(&rig)?)?);
        if number % COMPARED == 0 {
            measured.baseline.push(rig.step(number, &mut Slow::new(&rig, number)?)?);
            measured.alone.push(rig.alone()?);
        }
    }
    Ok(Some(Report::new(&measured)))
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

impl Fast {
    /// Writes a grant; whether best-effort has less now.
    fn act(&mut self, grant: &Grant, now: Duration) -> bool {
        let is_smaller = grant.granted < self.limit;
        self.limit = grant.granted;
        self.arbiter.post(
            api::decisions::strategy::FAST_QUOTA,
            self.reflex.wishes(grant, &[]),
            None,
        );
        let changes = self.arbiter.settle(now);
        let is_written = |outcome: &Written| matches!(outcome, Written::Written { .. });
        is_smaller && changes.iter().any(|change| is_written(&change.outcome))
    }
}

impl Answer for Fast {
    fn tick(&mut self, now: Duration) -> anyhow::Result<bool> {
        if now < self.next {
            return Ok(false);
        }
        self.next = now + TICK;
        let grant = self.reflex.look(&self.settings, MilliCpu::ZERO, now)?;
        Ok(grant.is_some_and(|grant| self.act(&grant, now)))
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

/// A loop of a second behind a sampler of a second: it acts on the average of the last one.
struct Slow {
    inner: Fast,
    next_sample: Duration,
    next_action: Duration,
    /// Sampled, and not acted on yet.
    seen: Option<Grant>,
}

impl Slow {
    /// The hours of the two loops are anywhere, and another time elsewhere.
    fn new(rig: &Rig, number: u32) -> anyhow::Result<Self> {
        let mut inner = Fast::new(rig)?;
        // A first reading, so that the next one is an average.
        inner.reflex.look(&inner.settings, MilliCpu::ZERO, Duration::ZERO)?;
        Ok(Self {
            inner,
            next_sample: SLOW * (number * 37 % 100) / 100,
            next_action: SLOW * (number * 61 % 100) / 100,
            seen: None,
        })
    }
}

impl Answer for Slow {
    fn tick(&mut self, now: Duration) -> anyhow::Result<bool> {
        if now >= self.next_sample {
            self.next_sample += SLOW;
            let inner = &mut self.inner;
            let grant = inner.reflex.look(&inner.settings, MilliCpu::ZERO, now)?;
            self.seen = grant.or(self.seen.take());
        }
        if now < self.next_action {
            return Ok(false);
        }
        self.next_action += SLOW;
        Ok(self.seen.take().is_some_and(|grant| self.inner.act(&grant, now)))
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
