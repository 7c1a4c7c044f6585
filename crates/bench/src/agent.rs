//! `tidepool bench agent`: what does watching this many pods cost?
//!
//! Makes a real tree of control groups below a root of its own, one idle process in each pod, and lets
//! the agent's collectors watch it from a process that does nothing else, so that its CPU time and
//! memory are theirs. The rings are filled beforehand: memory is that of an agent that has run for half
//! an hour. The tree is removed at the end, also on Ctrl-C.

mod machine;
mod watch;

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use self::machine::Machine;
use crate::interrupt::Interrupt;
use crate::report;

/// Measure the node agent's collectors on a real tree of control groups (needs root)
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Pods to watch, each with one container
    #[arg(long, default_value_t = 110, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pods: u16,
    /// How long to watch
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(2..=86_400))]
    seconds: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Watch the pods below this root; for the process that is measured
    #[arg(long, hide = true, value_name = "GROUP")]
    watch: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  tidepool bench agent --pods 110 --seconds 60
  tidepool bench agent --pods 20 --json";

/// Stable keys; more may be added.
#[derive(Debug, Serialize, Deserialize)]
struct Report {
    pods: u16,
    seconds: f64,
    /// `v1` or `v2`.
    cgroup: String,
    /// CPU time of the whole process over time.
    millicores: f64,
    rss_mib: f64,
    /// Calls of the host layer and sleeps of the thread, as the agent counts them.
    syscalls_per_s: f64,
    /// Reads, as the kernel counts them.
    kernel_reads_per_s: Option<f64>,
    tick_p99_ms: f64,
    open_files: u64,
    series: usize,
    points: usize,
}

impl Arguments {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        if let Some(root) = &self.watch {
            let report = watch::run(root, self.pods, Duration::from_secs(self.seconds))?;
            report::print(&(serde_json::to_string(&report)? + "\n"))?;
            return Ok(());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let Some(report) = runtime.block_on(self.measure())? else {
            bail!("interrupted; the control groups are removed");
        };
        match self.json {
            true => report::print_json(&report)?,
            false => report::print(&text(&report))?,
        }
        Ok(())
    }

    /// `None` when somebody stopped it.
    async fn measure(&self) -> anyhow::Result<Option<Report>> {
        let mut signals = Interrupt::new()?;
        let machine = Machine::make(self.pods)?;
        let child = Command::new(std::env::current_exe().context("cannot find this program")?)
            .args(["bench", "agent", "--pods", &self.pods.to_string()])
            .args(["--seconds", &self.seconds.to_string()])
            .args(["--watch", machine.root()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start the measured process")?;
        let output = tokio::select! {
            output = child.wait_with_output() => output?,
            () = signals.received() => return Ok(None),
        };
        if !output.status.success() {
            bail!("the measured process ended with {}", output.status);
        }
        let report = serde_json::from_slice(&output.stdout);
        Ok(Some(report.context("the measured process printed no report")?))
    }
}

fn text(report: &Report) -> String {
    format!(
        "{} pods ({}) for {:.0} s: {:.2} millicores, {:.1} MiB, {:.0} system calls/s, \
         99 of 100 ticks within {:.2} ms\n",
        report.pods,
        report.cgroup,
        report.seconds,
        report.millicores,
        report.rss_mib,
        report.syscalls_per_s,
        report.tick_p99_ms,
    )
}
