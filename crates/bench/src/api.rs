//! `tidepool bench api`: what does the embedded API take, and what does it cost?
//!
//! ```text
//! nodes ──> pods: create, bind, status ──> memory ──> the same with watchers
//!           pods_per_s, latencies          rss_mib    watch_events_per_s
//! ```
//!
//! The server is a process of its own, on loopback with TLS, as `tidepool up` runs it. With
//! `--kubeconfig` the same clients talk to another server, so that two servers can be compared on
//! one machine with one command.

mod fanout;
mod load;
mod objects;
pub(super) mod scratch;
pub(crate) mod server;
mod start;

use std::fmt;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use kube::Config;
use serde::Serialize;

use self::load::{Latency, Life, Load};
use self::scratch::Scratch;
use self::server::{Server, configuration};
use super::process::{Memory, memory_mib};
use crate::report;

/// Measure the embedded API: pods created, bound and reported a second
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Where objects are kept
    #[arg(long, value_enum, default_value_t = StoreKind::Memory)]
    store: StoreKind,
    /// Nodes that pods are bound to
    #[arg(long, default_value_t = 100)]
    nodes: usize,
    /// Pods to create, bind and report
    #[arg(long, default_value_t = 5_000)]
    pods: usize,
    /// Clients at the same time
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..))]
    clients: u16,
    /// Watchers that follow all pods, in a second part; 0 leaves it out
    #[arg(long, default_value_t = 100)]
    watchers: usize,
    /// Talk to the server of this kubeconfig instead of a fresh one
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// With --kubeconfig: a process whose memory counts as the server's; may be repeated
    #[arg(long, requires = "kubeconfig")]
    pid: Vec<u32>,
    /// Measure instead how long a server on disk takes to start again
    #[arg(long, conflicts_with_all = ["store", "nodes", "pods", "watchers", "kubeconfig"])]
    start: bool,
    /// With --start: objects in the store
    #[arg(long, default_value_t = 50_000, requires = "start")]
    objects: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  tidepool bench api --store disk --json
  tidepool bench api --start --objects 50000";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreKind {
    Memory,
    Disk,
}

/// Pods that live while others watch: each is three events for every watcher.
const WATCHED_PODS: usize = 300;

/// Stable keys; more may be added. What was not measured is null.
#[derive(Debug, Serialize)]
struct Report {
    /// `memory` or `disk`; the server's address for another server.
    store: String,
    nodes: usize,
    pods: usize,
    clients: u16,
    watchers: usize,
    seconds: f64,
    /// Pods created, bound and reported running a second: three writes each.
    pods_per_s: f64,
    writes_per_s: f64,
    create: Latency,
    bind: Latency,
    status: Latency,
    /// Of the server, with all nodes and pods in it.
    rss_mib: Option<f64>,
    /// Events that reached a watcher a second, over all watchers.
    watch_events_per_s: Option<f64>,
    /// Events that did not reach a watcher.
    watch_missed: Option<usize>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { store, nodes, pods, clients, watchers, .. } = self;
        writeln!(f, "{store}: {pods} pods on {nodes} nodes by {clients} clients")?;
        let [rate, writes] = [self.pods_per_s, self.writes_per_s];
        writeln!(f, "  {rate:8.0} pods/s, {writes:.0} writes/s, {:.2} s", self.seconds)?;
        for (verb, Latency { p50_ms, p99_ms }) in
            [("create", self.create), ("bind", self.bind), ("status", self.status)]
        {
            writeln!(f, "  {verb:>8} {p50_ms:.2} ms at the median, {p99_ms:.2} ms at 99 %")?;
        }
        if let Some(rss_mib) = self.rss_mib {
            writeln!(f, "  {rss_mib:8.0} MiB")?;
        }
        if let (Some(rate), Some(missed)) = (self.watch_events_per_s, self.watch_missed) {
            writeln!(f, "  {rate:8.0} events/s to {watchers} watchers, {missed} missed")?;
        }
        Ok(())
    }
}

impl Arguments {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        if self.start {
            let report = runtime.block_on(start::measure(self.objects, self.clients))?;
            return self.print(&report);
        }
        let report = runtime.block_on(self.measure())?;
        self.print(&report)
    }

    fn print(&self, report: &(impl Serialize + fmt::Display)) -> anyhow::Result<()> {
        match self.json {
            true => report::print_json(report)?,
            false => report::print(&report.to_string())?,
        }
        Ok(())
    }

    async fn measure(&self) -> anyhow::Result<Report> {
        match &self.kubeconfig {
            Some(path) => {
                let config = configuration(path).await?;
                let name = config.cluster_url.to_string();
                let load = self.load(config);
                let report = self.measure_server(&load, name, &self.pid).await?;
                load.clean_up().await?;
                Ok(report)
            }
            None => {
                let dir = Scratch::new()?;
                let server = Server::start(self.store, dir.path())?;
                let load = self.load(server.config().await?);
                let name = format!("{:?}", self.store).to_lowercase();
                self.measure_server(&load, name, &[server.pid()]).await
            }
        }
    }

    fn load(&self, config: Config) -> Load {
        Load { config, clients: self.clients, nodes: self.nodes }
    }

    async fn measure_server(
        &self,
        load: &Load,
        store: String,
        pids: &[u32],
    ) -> anyhow::Result<Report> {
        load.prepare().await?;
        load.register_nodes().await?;
        let written = load.write_pods("pod", self.pods, Life::Running).await?;
        let rss_mib = match pids {
            [] => None,
            pids => Some(memory_mib(pids, Memory::Resident)?),
        };
        let seen = match self.watchers {
            0 => None,
            watchers => Some(fanout::measure(load, watchers, WATCHED_PODS).await?),
        };
        let seconds = written.elapsed.as_secs_f64();
        let pods_per_s = self.pods as f64 / seconds;
        Ok(Report {
            store,
            nodes: self.nodes,
            pods: self.pods,
            clients: self.clients,
            watchers: self.watchers,
            seconds,
            pods_per_s,
            writes_per_s: pods_per_s * 3.0,
            create: written.create,
            bind: written.bind,
            status: written.status,
            rss_mib,
            watch_events_per_s: seen.as_ref().map(|seen| seen.events_per_s),
            watch_missed: seen.map(|seen| seen.missed),
        })
    }
}
