//! The measured process: the agent's collectors, its look at the load twenty times a second, and nothing
//! else.

use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use agent::act::Reflex;
use agent::clock::Clock;
use agent::collect::{CollectSettings, CollectThread, Meter, MeteredFs};
use agent::series::{Measure, Metrics, Store, Subject};
use anyhow::Context;
use arc_swap::ArcSwap;
use groups::Version;
use host::cgroup::Tree;
use host::fs::{Mounts, RealFs};
use qos::frame;
use qos::node::NodeState;
use rustix::time::{ClockId, clock_gettime};
use units::{MilliCpu, Percent};

use super::{Report, machine};

/// The longest window of NodeMetric.
const HISTORY: Duration = Duration::from_secs(30 * 60);
/// Opening all files is not what a second costs.
const WARM_UP: Duration = Duration::from_secs(3);

/// Watches the pods below `root` for a while.
pub(super) fn run(root: &str, pods: u16, time: Duration) -> anyhow::Result<Report> {
    let meter = Meter::default();
    let fs = MeteredFs::new(RealFs::new(Mounts::host()), meter.clone());
    let tree = Tree::find(Arc::new(fs))?;
    let cgroup = match tree.version() {
        Version::V1 => "v1",
        Version::V2 => "v2",
    };
    let state = machine::state(root, pods);
    let settings = CollectSettings {
        best_effort_cgroup: machine::best_effort(root),
        ..CollectSettings::default()
    };
    let metrics = Metrics::new(Store::new(settings.usage_interval, settings.max_points));
    remember(&metrics, &state, settings.usage_interval);
    let state = Arc::new(ArcSwap::from_pointee(state));
    let clock = Clock::start_at(HISTORY);
    let collecting =
        CollectThread::start_into(metrics.clone(), settings, tree.clone(), state, clock)?;
    let mut reflex = Reflex::new(&tree, machine::all_pods(root), machine::best_effort(root));
    look(&mut reflex, clock, WARM_UP)?;
    let before = Spent::now(&meter, &collecting)?;
    look(&mut reflex, clock, time)?;
    let after = Spent::now(&meter, &collecting)?;
    let rss_mib = rss_mib()?;
    let size = metrics.size();
    let open_files = meter.open_files();
    let p99 = collecting.ticks().p99().unwrap_or_default();
    collecting.stop();
    let seconds = (after.at - before.at).as_secs_f64();
    let per_second = |count: u64| count_f64(count) / seconds;
    Ok(Report {
        pods,
        seconds,
        cgroup: cgroup.to_owned(),
        millicores: (after.cpu.saturating_sub(before.cpu)).as_secs_f64() / seconds * 1000.0,
        rss_mib,
        syscalls_per_s: per_second(after.calls - before.calls),
        kernel_reads_per_s: after
            .reads
            .zip(before.reads)
            .map(|(after, before)| per_second(after - before)),
        tick_p99_ms: p99.as_secs_f64() * 1000.0,
        open_files,
        series: size.series,
        points: size.points,
    })
}

/// Looks at the load as the acting side does, for a while.
fn look(reflex: &mut Reflex, clock: Clock, time: Duration) -> anyhow::Result<()> {
    let settings = frame::Settings {
        capacity: MilliCpu::from_cores(i64::try_from(thread::available_parallelism()?.get())?),
        threshold: Percent(65),
        floor: MilliCpu(100),
    };
    let end = Instant::now() + time;
    while Instant::now() < end {
        reflex.look(&settings, MilliCpu::ZERO, clock.now())?;
        thread::sleep(reflex.pause());
    }
    Ok(())
}

/// Fills the rings with half an hour of samples, as if the agent had run that long.
fn remember(metrics: &Metrics, state: &NodeState, interval: Duration) {
    let mut store = metrics.lock();
    let mut at = Duration::ZERO;
    while at < HISTORY {
        let nodes = [Subject::Node, Subject::System, Subject::BestEffort];
        let pods = state.pods.values().map(|pod| Subject::Pod(&pod.uid));
        let containers = state.pods.values().flat_map(|pod| &pod.containers);
        let containers = containers.map(|container| Subject::Container(&container.id));
        for subject in nodes.into_iter().chain(pods).chain(containers) {
            store.push(subject, Measure::Cpu, at, 0.1);
            store.push(subject, Measure::Memory, at, 1e8);
        }
        at += interval;
    }
}

/// What the process has used so far.
struct Spent {
    at: Instant,
    cpu: Duration,
    calls: u64,
    reads: Option<u64>,
}

impl Spent {
    fn now(meter: &Meter, collecting: &CollectThread) -> anyhow::Result<Self> {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        Ok(Self {
            at: Instant::now(),
            cpu: Duration::try_from(cpu).context("CPU time is negative")?,
            calls: meter.count() + collecting.wakes(),
            reads: field("/proc/self/io", "syscr:"),
        })
    }
}

fn rss_mib() -> anyhow::Result<f64> {
    let kib = field("/proc/self/status", "VmRSS:").context("no VmRSS in /proc/self/status")?;
    Ok(count_f64(kib) / 1024.0)
}

/// The first number after `key` in a file of lines.
fn field(path: &str, key: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

#[expect(clippy::cast_precision_loss, reason = "counts of a bench are far below 2^53")]
fn count_f64(count: u64) -> f64 {
    count as f64
}
