//! Who gives a binder its work, and looks at the clock?
//!
//! ```text
//! pods are made      binder starts   first bound      last bound       it is quiet
//! ├─ created_per_s ─┤                ├─ pods_per_s ──┤
//!                                    ├─ binder_cpu_s, server_cpu_s ───┤
//!
//! the same binder, no pods; then one every 1/rate s: p50_ms, p99_ms from the request to make a
//! pod until a watch shows it with a node
//! ```
//!
//! Binders tell of what they did after they did it, in events. So their time is taken until they
//! are quiet, and their speed from what they bound.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use kube::api::PostParams;
use kube::{Api, Client};
use serde::Serialize;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::Target;
use super::objects::{NAMESPACE, make_nodes, make_pods, pod, remove_pods};
use super::sight::Sightings;
use crate::api::StoreKind;
use crate::api::scratch::Scratch;
use crate::api::server::Server;
use crate::percentile_ms;
use crate::process::{Memory, cpu, memory_mib};
use crate::report;

/// How long nobody may be bound before the binder counts as stuck.
const PATIENCE: Duration = Duration::from_secs(60);
/// A binder that used less than this share of a core for so long is quiet.
const QUIET: Duration = Duration::from_millis(500);
const QUIET_SHARE: f64 = 0.05;
const UNTIL_QUIET: Duration = Duration::from_secs(120);

/// Measure a binder: start it, give it pods, see when they have their nodes, end it
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  tidepool bench cluster drive --embedded memory --nodes 100 -- tidepool bench cluster bind
  tidepool bench cluster drive --scheduler-name koord-scheduler --json -- \\
    tidepool scheduler --no-leader-election --address 127.0.0.1:0")]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Start a fresh embedded API instead, with objects in memory or on disk
    #[arg(long, value_enum, value_name = "STORE", conflicts_with_all = ["kubeconfig", "server_pid"])]
    embedded: Option<StoreKind>,
    /// With --embedded: nodes in it
    #[arg(long, default_value_t = 1_000, requires = "embedded")]
    nodes: u32,
    /// Pods that wait when the binder starts
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..))]
    pods: u32,
    /// Pods a second in the second measurement; 0 leaves it out
    #[arg(long, default_value_t = 100)]
    rate: u32,
    /// How many pods come at that rate
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    steady_pods: u32,
    /// Which scheduler the pods name
    #[arg(long, default_value = "default-scheduler")]
    scheduler_name: String,
    /// A process whose time and memory count as the server's; may be repeated
    #[arg(long, value_name = "PID")]
    server_pid: Vec<u32>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// The binder, with its arguments; $KUBECONFIG tells it where the cluster is
    #[arg(last = true, required = true, value_name = "BINDER")]
    binder: Vec<String>,
}

/// Stable keys; more may be added. What was not measured is null.
#[derive(Debug, Serialize)]
struct Report {
    pods: u32,
    created_per_s: f64,
    /// From the first bound pod to the last.
    pods_per_s: f64,
    /// From the start of the binder to the first bound pod.
    start_s: f64,
    /// From the last bound pod until the binder is quiet.
    quiet_s: f64,
    /// For a thousand pods, from the first bound one until the binder is quiet.
    binder_cpu_s: f64,
    server_cpu_s: Option<f64>,
    /// The most that the binder held.
    binder_mib: f64,
    /// What the server holds at the end.
    server_mib: Option<f64>,
    steady: Option<Steady>,
}

/// Pods that come one after the other.
#[derive(Debug, Serialize)]
struct Steady {
    pods: u32,
    rate: u32,
    p50_ms: f64,
    p99_ms: f64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pods, created_per_s, pods_per_s, .. } = self;
        writeln!(f, "{pods} pods: {created_per_s:.0} a second made, {pods_per_s:.0} bound")?;
        let [cpu, mib, start, quiet] =
            [self.binder_cpu_s, self.binder_mib, self.start_s, self.quiet_s];
        writeln!(f, "  binder: {cpu:.2} CPU-s for 1,000 pods, {mib:.0} MiB at most")?;
        writeln!(f, "          first bound after {start:.2} s, quiet {quiet:.1} s after the last")?;
        if let (Some(cpu), Some(mib)) = (self.server_cpu_s, self.server_mib) {
            writeln!(f, "  server: {cpu:.2} CPU-s for 1,000 pods, {mib:.0} MiB")?;
        }
        if let Some(Steady { rate, p50_ms, p99_ms, .. }) = &self.steady {
            writeln!(f, "  at {rate}/s: {p50_ms:.1} ms at the median, {p99_ms:.1} ms at 99 %")?;
        }
        Ok(())
    }
}

impl Arguments {
    pub(super) async fn run(mut self) -> anyhow::Result<()> {
        let report = match self.embedded {
            None => {
                let client = self.target.connect().await?;
                remove_pods(&client).await?;
                let measured = self.measure(&client).await;
                remove_pods(&client).await?;
                measured?
            }
            Some(store) => {
                let dir = Scratch::new()?;
                let server = Server::start(store, dir.path())?;
                self.target.kubeconfig = Some(server.kubeconfig());
                self.server_pid = vec![server.pid()];
                let client = self.target.connect().await?;
                make_nodes(&client, self.nodes).await?;
                self.measure(&client).await?
            }
        };
        match self.json {
            true => report::print_json(&report),
            false => report::print(&report.to_string()),
        }
    }

    async fn measure(&self, client: &Client) -> anyhow::Result<Report> {
        let begin = Instant::now();
        make_pods(client, 0..self.pods, &self.scheduler_name).await?;
        let created_per_s = f64::from(self.pods) / begin.elapsed().as_secs_f64();

        let mut sightings = Sightings::begin(client).await?;
        let mut waiting = HashSet::new();
        for number in 0..self.pods {
            waiting.insert(pod(number, "")?.metadata.name.unwrap_or_default());
        }
        let mut binder = Binder::start(&self.binder, self.target.kubeconfig.as_deref())?;
        let started = Instant::now();
        waiting.remove(&binder.next(&mut sightings).await?);
        let first = Instant::now();
        let before = (binder.cpu()?, cpu(&self.server_pid)?);
        while !waiting.is_empty() {
            waiting.remove(&binder.next(&mut sightings).await?);
        }
        let last = Instant::now();
        binder.until_quiet().await?;
        let quiet_s = last.elapsed().saturating_sub(QUIET).as_secs_f64();
        let after = (binder.cpu()?, cpu(&self.server_pid)?);
        let rest = f64::from(self.pods.saturating_sub(1).max(1));
        let of_1000 =
            |from: Duration, to: Duration| to.saturating_sub(from).as_secs_f64() * 1_000.0 / rest;
        let report = Report {
            pods: self.pods,
            created_per_s,
            pods_per_s: rest / (last - first).as_secs_f64().max(1e-9),
            start_s: (first - started).as_secs_f64(),
            quiet_s,
            binder_cpu_s: of_1000(before.0, after.0),
            server_cpu_s: (!self.server_pid.is_empty()).then(|| of_1000(before.1, after.1)),
            binder_mib: memory_mib(&[binder.pid], Memory::Peak)?,
            server_mib: match self.server_pid.as_slice() {
                [] => None,
                pids => Some(memory_mib(pids, Memory::Resident)?),
            },
            steady: None,
        };
        let steady = match self.rate {
            0 => None,
            rate => Some(self.steady(client, rate, &mut binder, &mut sightings).await?),
        };
        binder.end().await?;
        Ok(Report { steady, ..report })
    }

    /// Makes one pod after the other, whatever becomes of those before.
    async fn steady(
        &self,
        client: &Client,
        rate: u32,
        binder: &mut Binder,
        sightings: &mut Sightings,
    ) -> anyhow::Result<Steady> {
        remove_pods(client).await?;
        binder.until_quiet().await?;
        let pods: Api<_> = Api::namespaced(client.clone(), NAMESPACE);
        let mut clock = interval(Duration::from_secs(1) / rate);
        clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut requests = JoinSet::new();
        // Other names than before: what is seen late of those must not count.
        let mut numbers = self.pods..self.pods.saturating_add(self.steady_pods);
        let mut sent: HashMap<String, Instant> = HashMap::new();
        let mut taken = Vec::new();
        while !(numbers.is_empty() && sent.is_empty()) {
            tokio::select! {
                _ = clock.tick(), if !numbers.is_empty() => {
                    let Some(number) = numbers.next() else { continue };
                    let pod = pod(number, &self.scheduler_name)?;
                    sent.insert(pod.metadata.name.clone().unwrap_or_default(), Instant::now());
                    let pods = pods.clone();
                    requests.spawn(async move { pods.create(&PostParams::default(), &pod).await });
                }
                Some(made) = requests.join_next() => drop(made??),
                name = binder.next(sightings) => {
                    taken.extend(sent.remove(&name?).map(|sent| sent.elapsed()));
                }
            }
        }
        let [p50_ms, p99_ms] = [500, 990].map(|per_mille| percentile_ms(&taken, per_mille));
        Ok(Steady { pods: self.steady_pods, rate, p50_ms, p99_ms })
    }
}

/// The measured process. It ends with the measurement.
struct Binder {
    child: Child,
    pid: u32,
    /// Where its complaints go, for the case that it fails.
    complaints: PathBuf,
    _dir: TempDir,
}

impl Binder {
    fn start(line: &[String], kubeconfig: Option<&Path>) -> anyhow::Result<Self> {
        let (program, arguments) = line.split_first().context("which binder?")?;
        let dir = tempfile::tempdir().context("cannot make a temporary directory")?;
        let complaints = dir.path().join("stderr");
        let child = Command::new(program)
            .args(arguments)
            .envs(kubeconfig.map(|path| ("KUBECONFIG", path)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&complaints).context("cannot make a file for complaints")?)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {program}"))?;
        let pid = child.id().context("the binder ended at once")?;
        Ok(Self { child, pid, complaints, _dir: dir })
    }

    fn cpu(&self) -> anyhow::Result<Duration> {
        cpu(&[self.pid])
    }

    /// The next pod with a node, unless the binder ends or binds nothing.
    async fn next(&mut self, sightings: &mut Sightings) -> anyhow::Result<String> {
        let why = tokio::select! {
            seen = timeout(PATIENCE, sightings.next()) => match seen {
                Ok(seen) => return seen,
                Err(_) => format!("the binder bound nothing for {} s", PATIENCE.as_secs()),
            },
            status = self.child.wait() => format!("the binder ended: {}", status?),
        };
        let said = fs::read_to_string(&self.complaints).unwrap_or_default();
        let last: Vec<&str> = said.lines().rev().take(5).collect();
        bail!("{why}; it said:\n{}", last.into_iter().rev().collect::<Vec<_>>().join("\n"))
    }

    /// Waits until it has told all it had to tell.
    async fn until_quiet(&self) -> anyhow::Result<()> {
        let begin = Instant::now();
        while begin.elapsed() < UNTIL_QUIET {
            let (at, before) = (Instant::now(), self.cpu()?);
            sleep(QUIET).await;
            let used = self.cpu()?.saturating_sub(before).as_secs_f64();
            if used < at.elapsed().as_secs_f64() * QUIET_SHARE {
                return Ok(());
            }
        }
        bail!("the binder is not quiet after {} s", UNTIL_QUIET.as_secs())
    }

    async fn end(mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("cannot end the binder")
    }
}
