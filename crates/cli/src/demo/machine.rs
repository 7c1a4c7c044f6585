//! Can this machine show it, and how much load is right for it?

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use groups::{CgroupPath, Controller, Knob, Setting, Shares};
use host::Reading;
use host::cgroup::Tree;
use host::fs::{Buffer, Mounts, RealFs};
use host::proc::{CpuTimes, NodeReader, Stat};

use super::work;

/// What the demo needs to know of the machine it runs on.
pub(super) struct Machine {
    pub(super) cpus: u32,
    pub(super) tree: Tree,
    /// How often the unit of work is repeated for a millisecond of CPU.
    pub(super) rounds: u64,
}

/// CPU time that one request costs the service.
pub(super) const REQUEST: Duration = Duration::from_millis(1);

/// What part of the machine the service uses on average.
const ONLINE_SHARE: f64 = 0.2;

/// A load that one process can make without being the bottleneck itself.
const MOST_REQUESTS: f64 = 2_000.0;

impl Machine {
    /// An error says why this machine cannot show anything.
    pub(super) fn look() -> anyhow::Result<Self> {
        let cpus = thread::available_parallelism()?.get();
        anyhow::ensure!(
            cpus > 1,
            "this machine has one CPU: nothing is idle while the service works, so there is nothing to lend"
        );
        let tree = Tree::find(Arc::new(RealFs::new(Mounts::host()))).context(
            "control groups cannot be found, and without them nothing holds batch work back",
        )?;
        anyhow::ensure!(
            tree.has(Controller::Cpu),
            "the kernel's CPU controller is not mounted, so nothing holds batch work back"
        );
        sweep(&tree);
        let group = client_group(std::process::id());
        let tried = tree.make(&group).and_then(|()| tree.remove(&group));
        tried.context("control groups cannot be made; run the demo as root")?;
        Ok(Self { cpus: u32::try_from(cpus)?, tree, rounds: calibrate() })
    }

    /// Requests a second, on average.
    pub(super) fn rate(&self) -> f64 {
        let busy = ONLINE_SHARE * f64::from(self.cpus) / REQUEST.as_secs_f64();
        busy.min(MOST_REQUESTS)
    }

    /// A control group that the load comes from. Its weight makes it a machine of its own, in effect:
    /// what is measured is the service, not how long its clients wait for a CPU.
    pub(super) fn make_client_group(&self) -> anyhow::Result<ClientGroup> {
        let path = client_group(std::process::id());
        self.tree.make(&path)?;
        let group = ClientGroup { tree: self.tree.clone(), path };
        let most = Shares::new(Shares::MOST).context("the most is within the range")?;
        self.tree.set(&group.path, Knob::CpuShares, &Setting::Shares(most))?;
        Ok(group)
    }

    pub(super) fn times(&self) -> anyhow::Result<CpuTimes> {
        let mut stat = Stat::default();
        NodeReader::new(self.tree.shared_fs()).stat(&mut Buffer::new(), &mut stat)?;
        Ok(stat.total)
    }
}

const CLIENTS: &str = "tidepool-demo-client-";

fn client_group(pid: u32) -> CgroupPath {
    CgroupPath::new(&format!("{CLIENTS}{pid}"))
}

/// Removes what demos that were killed have left. Groups that are in use cannot be removed.
fn sweep(tree: &Tree) {
    let Ok(Reading::Value(groups)) = tree.children(&CgroupPath::root()) else { return };
    let pids = groups.iter().filter_map(|name| name.strip_prefix(CLIENTS)?.parse().ok());
    for pid in pids.filter(|pid: &u32| !Path::new(&format!("/proc/{pid}")).exists()) {
        let _ = tree.remove(&client_group(pid));
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = format!("{:?}", self.tree.version()).to_lowercase();
        write!(f, "{} CPUs, cgroup {version}, about {:.0} requests/s", self.cpus, self.rate())
    }
}

/// Busy part of the time between two looks, in percent.
pub(super) fn utilisation(before: &CpuTimes, after: &CpuTimes) -> f64 {
    let busy = after.busy().saturating_sub(before.busy());
    let idle = after.idle().saturating_sub(before.idle());
    match busy + idle {
        0 => 0.0,
        all => 100.0 * busy as f64 / all as f64,
    }
}

/// The fastest of some tries: whoever else was running only made the others slower.
fn calibrate() -> u64 {
    const PROBE: u64 = 1_000_000;
    let tries = (0..20).map(|_| {
        let start = Instant::now();
        work::spin(PROBE);
        start.elapsed()
    });
    let fastest = tries.min().unwrap_or(REQUEST).as_nanos().max(1);
    let rounds = u128::from(PROBE) * REQUEST.as_nanos() / fastest;
    u64::try_from(rounds).unwrap_or(PROBE).max(1)
}

/// Removed with whatever holds it.
pub(super) struct ClientGroup {
    tree: Tree,
    path: CgroupPath,
}

impl ClientGroup {
    pub(super) fn enter(&self, pid: u32) -> anyhow::Result<()> {
        Ok(self.tree.enter(&self.path, pid)?)
    }
}

impl Drop for ClientGroup {
    fn drop(&mut self) {
        // A process that has ended may count for a moment longer.
        for _ in 0..100 {
            if self.tree.remove(&self.path).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utilisation_is_the_busy_part_of_the_time_between() {
        let at = |user, idle| CpuTimes { user, idle, ..CpuTimes::default() };
        let cases = [
            ("half", at(100, 100), at(150, 150), 50.0),
            ("idle", at(100, 100), at(100, 200), 0.0),
            ("no time has passed", at(1, 1), at(1, 1), 0.0),
            ("a counter that went back", at(10, 10), at(5, 20), 0.0),
        ];
        for (name, before, after, want) in cases {
            assert!((utilisation(&before, &after) - want).abs() < 1e-9, "{name}");
        }
    }
}
