//! `tidepool demo`: what does Tidepool do for a machine, seen in two minutes?
//!
//! A small HTTP service answers a load that swings, in three phases of equal length and with the very
//! same arrivals: (A) alone, (B) with batch pods beside it that nobody holds back, (C) with the same
//! batch pods after a profile has made best-effort work of them. All of it runs in a `tidepool up` of
//! its own: real processes, real control groups, the whole loop of API, manager, scheduler and agent.
//!
//! ```text
//!  this process ──> `up` (a child, in memory) ──> pods: `demo serve`, `demo work`
//!        │                                              ^
//!        └────────> `demo drive` (a child) ── HTTP ─────┘
//! ```
//!
//! Every child ends with its standard input, so nothing outlives this process however it ends.

mod cluster;
mod drive;
mod machine;
mod report;
mod serve;
mod work;

use std::io::{self, IsTerminal};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};

use self::cluster::{Batch, Cluster};
use self::drive::Driver;
use self::machine::Machine;
use self::report::{Phase, Report};
use crate::up::Signals;
use crate::{Outcome, output};

/// Show on this machine what batch work beside a service costs it, without and with Tidepool
///
/// Runs a small HTTP service under a load that swings: alone, with batch work that nobody holds back,
/// and with the same batch work under Tidepool. Prints utilisation, work done and the service's
/// latency for the three. Needs root for control groups; removes everything it made.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    /// Length of each of the three phases
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u16).range(5..=3_600))]
    seconds: u16,
    /// Seed of the arrivals
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    part: Option<Part>,
}

const EXAMPLES: &str = "\
Examples:
  tidepool demo
  tidepool demo --seconds 10 --json";

/// What the demo starts as processes of their own.
#[derive(Debug, Subcommand)]
#[command(hide = true)]
enum Part {
    #[command(hide = true)]
    Serve(serve::Arguments),
    #[command(hide = true)]
    Work(work::Arguments),
    #[command(hide = true)]
    Drive(drive::Arguments),
}

/// Answers later than this are missed.
const DEADLINE: Duration = Duration::from_millis(20);

/// How long a phase runs before it counts.
const WARM_UP: Duration = Duration::from_secs(2);

impl Arguments {
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        match self.part {
            Some(Part::Serve(arguments)) => return arguments.run(),
            Some(Part::Work(arguments)) => return arguments.run(),
            Some(Part::Drive(arguments)) => return arguments.run(),
            None => {}
        }
        let machine = match Machine::look() {
            Ok(machine) => machine,
            Err(reason) => {
                eprintln!("tidepool: {reason:#}");
                return Ok(Outcome::Findings);
            }
        };
        let stage = Stage { seconds: self.seconds, seed: self.seed, machine };
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let Some(report) = runtime.block_on(stage.show())? else {
            eprintln!("tidepool: stopped; everything the demo made is removed");
            return Ok(Outcome::Failed);
        };
        match self.json {
            true => output::print_as(output::Format::Json, &report)?,
            false => output::print(&report.to_text())?,
        }
        Ok(Outcome::Done)
    }
}

/// Where the three phases are played.
struct Stage {
    seconds: u16,
    seed: u64,
    machine: Machine,
}

impl Stage {
    /// Nothing when the user has had enough.
    async fn show(&self) -> anyhow::Result<Option<Report>> {
        let place = tempfile::tempdir().context("cannot make a directory to work in")?;
        say(&format!("{}; three phases of {} s", self.machine, self.seconds));
        let mut signals = Signals::new()?;
        let mut cluster = Cluster::start(place.path(), &self.machine).await?;
        let phases = tokio::select! {
            phases = self.play(&cluster) => phases.map(Some),
            () = signals.received() => Ok(None),
        };
        say("cleaning up");
        let stopped = cluster.stop().await;
        let phases = phases?;
        stopped?;
        Ok(phases.map(|[a, b, c]| Report::new(&self.machine, self.seconds, a, b, c)))
    }

    async fn play(&self, cluster: &Cluster) -> anyhow::Result<[Phase; 3]> {
        let group = self.machine.make_client_group()?;
        let address = cluster.start_service().await?;
        let driver = Driver {
            address,
            seconds: self.seconds,
            rate: self.machine.rate(),
            seed: self.seed,
            group: &group,
        };
        let a = self.phase("A  the service alone", cluster, &driver).await?;
        cluster.start_batch(Batch::Plain).await?;
        let b = self.phase("B  beside batch work that nobody holds back", cluster, &driver).await?;
        cluster.stop_batch().await?;
        cluster.start_batch(Batch::BestEffort).await?;
        let c = self.phase("C  beside the same work under Tidepool", cluster, &driver).await?;
        Ok([a, b, c])
    }

    async fn phase(
        &self,
        name: &str,
        cluster: &Cluster,
        driver: &Driver<'_>,
    ) -> anyhow::Result<Phase> {
        let counting = async {
            tokio::time::sleep(WARM_UP).await;
            let before = (self.machine.times()?, cluster.units()?);
            tokio::time::sleep(Duration::from_secs(self.seconds.into())).await;
            let after = (self.machine.times()?, cluster.units()?);
            let used = machine::utilisation(&before.0, &after.0);
            anyhow::Ok((used, after.1.saturating_sub(before.1)))
        };
        say(name);
        let ((utilisation, batch_units), latency) = tokio::try_join!(counting, driver.run())?;
        let utilisation_percent = (utilisation * 10.0).round() / 10.0;
        say(&format!("   {utilisation_percent} % used, p99 {} ms", latency.p99_ms));
        Ok(Phase { utilisation_percent, batch_units, latency })
    }
}

/// Tells people who are watching what happens.
fn say(line: &str) {
    if io::stderr().is_terminal() {
        eprintln!("{line}");
    }
}
