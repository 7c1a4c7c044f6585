//! The two groups, their processes, and one step of load.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use groups::CgroupPath;
use host::Reading;
use host::cgroup::{CgroupReader, Tree};
use host::fs::{Buffer, Mounts, RealFs};
use qos::frame::Settings;
use rustix::process::{Pid, Signal, kill_process};
use units::{MilliCpu, Percent, Rounding};

use super::report::Step;
use super::{Answer, STEP, clock};

/// How often the bench itself looks.
const LOOK: Duration = Duration::from_millis(5);

/// How long best-effort has the machine before a step.
const BEFORE: Duration = Duration::from_millis(400);

/// Over how long best-effort has to stay within its limit: the kernel's own period.
const PERIOD: Duration = Duration::from_millis(100);

/// What a CPU may have in hand when a limit shrinks: `sched_cfs_bandwidth_slice_us`.
const SLICE: Duration = Duration::from_millis(5);

/// What best-effort keeps, so that what is lost is lost to the reaction and not to the floor.
const FLOOR: Percent = Percent(2);

const ROOT: &str = "tidepool-react-";
const BEST_EFFORT: &str = "besteffort";
const ONLINE: &str = "online";

pub(super) struct Rig {
    pub(super) tree: Tree,
    pub(super) root: CgroupPath,
    pub(super) best_effort: CgroupPath,
    online: CgroupPath,
    /// Burns all the time.
    burner: Burner,
    load: Burner,
    cpus: usize,
}

impl Rig {
    pub(super) fn new() -> anyhow::Result<Self> {
        let tree = Tree::find(Arc::new(RealFs::new(Mounts::host())))?;
        sweep(&tree);
        let root = root(std::process::id());
        let (best_effort, online) = (root.child(BEST_EFFORT), root.child(ONLINE));
        for group in [&root, &best_effort, &online] {
            tree.make(group)?;
        }
        let cpus = thread::available_parallelism()?.get();
        let mut burner = Burner::start(cpus)?;
        tree.enter(&best_effort, burner.child.id())?;
        burner.say("forever")?;
        let load = Burner::start(cpus)?;
        tree.enter(&online, load.child.id())?;
        Ok(Self { tree, root, best_effort, online, burner, load, cpus })
    }

    /// Where limits are written down; nothing outlives the bench.
    pub(super) fn ledger(&self) -> PathBuf {
        std::env::temp_dir().join(format!("{}.ledger", self.root.as_str()))
    }

    pub(super) fn settings(&self, threshold: Percent) -> Settings {
        let capacity = MilliCpu::from_cores(i64::try_from(self.cpus).unwrap_or(i64::MAX));
        Settings { capacity, threshold, floor: FLOOR.apply(capacity, Rounding::Up) }
    }

    /// Lets best-effort have the machine, then lets the online side want a CPU, and watches.
    pub(super) fn step(&mut self, number: u32, answer: &mut impl Answer) -> anyhow::Result<Step> {
        let now = clock();
        // The step may fall anywhere between two looks of whoever answers.
        let start = BEFORE + Duration::from_millis(u64::from(number) * 37 % 50);
        while now() < start {
            answer.tick(now())?;
            thread::sleep(LOOK);
        }
        let mut watch = Watch::new(&self.tree, &self.best_effort)?;
        let began = now();
        let mut curve = vec![(Duration::ZERO, Duration::ZERO)];
        let mut written = None;
        self.load.say(&STEP.as_millis().to_string())?;
        while now() - began < STEP {
            if answer.tick(now())? && written.is_none() {
                written = Some(now() - began);
            }
            curve.push((now() - began, watch.spent()?));
            thread::sleep(LOOK);
        }
        let work = self.load.hear()?;
        let in_hand = SLICE * u32::try_from(self.cpus).unwrap_or(u32::MAX);
        let allowed = share(answer.limit()) + in_hand;
        Ok(Step { written, effective: effective(&curve, allowed), work })
    }

    /// The work of the online side in one step with best-effort stopped.
    pub(super) fn alone(&mut self) -> anyhow::Result<u64> {
        self.burner.signal(Signal::STOP)?;
        let work = self.load.say(&STEP.as_millis().to_string()).and_then(|()| self.load.hear());
        self.burner.signal(Signal::CONT)?;
        work
    }
}

fn root(pid: u32) -> CgroupPath {
    CgroupPath::new(&format!("{ROOT}{pid}"))
}

/// Removes what benches that were killed have left. Groups that are in use cannot be removed.
fn sweep(tree: &Tree) {
    let Ok(Reading::Value(groups)) = tree.children(&CgroupPath::root()) else { return };
    let pids = groups.iter().filter_map(|name| name.strip_prefix(ROOT)?.parse().ok());
    for pid in pids.filter(|pid: &u32| !Path::new(&format!("/proc/{pid}")).exists()) {
        let root = root(pid);
        for group in [root.child(BEST_EFFORT), root.child(ONLINE), root] {
            let _ = tree.remove(&group);
        }
    }
}

/// What a limit comes to in one period.
fn share(limit: MilliCpu) -> Duration {
    PERIOD.saturating_mul(u32::try_from(limit.0).unwrap_or_default()) / 1_000
}

/// The moment from which on two periods stay within what is allowed; `curve` is CPU time over time.
fn effective(curve: &[(Duration, Duration)], allowed: Duration) -> Option<Duration> {
    let spent_at = |at: Duration| {
        let place = curve.partition_point(|(time, _)| *time < at);
        curve.get(place).map(|(_, spent)| *spent)
    };
    let stays = |from: Duration| {
        let (start, middle, end) =
            (spent_at(from)?, spent_at(from + PERIOD)?, spent_at(from + 2 * PERIOD)?);
        Some(middle.saturating_sub(start) <= allowed && end.saturating_sub(middle) <= allowed)
    };
    curve.iter().map(|(at, _)| *at).find(|at| stays(*at) == Some(true))
}

impl Drop for Rig {
    fn drop(&mut self) {
        // It may never have been written.
        let _ = std::fs::remove_file(self.ledger());
        for burner in [&mut self.burner, &mut self.load] {
            burner.stop();
        }
        for group in [&self.best_effort, &self.online, &self.root] {
            for _ in 0..50 {
                if self.tree.remove(group).is_ok() {
                    break;
                }
                thread::sleep(LOOK);
            }
        }
    }
}

/// CPU time of a group since the watch began.
struct Watch {
    reader: CgroupReader,
    buffer: Buffer,
    begun: Duration,
}

impl Watch {
    fn new(tree: &Tree, group: &CgroupPath) -> anyhow::Result<Self> {
        let reader = tree.reader(group.clone());
        let mut watch = Self { reader, buffer: Buffer::new(), begun: Duration::ZERO };
        watch.begun = watch.spent()?;
        Ok(watch)
    }

    fn spent(&mut self) -> anyhow::Result<Duration> {
        match self.reader.cpu_usage(&mut self.buffer)? {
            Reading::Value(usage) => Ok(usage.saturating_sub(self.begun)),
            _ => anyhow::bail!("{} has no CPU time", self.reader.group()),
        }
    }
}

/// A process that burns when told to.
struct Burner {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Burner {
    fn start(threads: usize) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["bench", "burn", "--threads", &threads.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a process to burn CPU")?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().context("the process has no output")?);
        Ok(Self { child, input, output })
    }

    fn say(&mut self, line: &str) -> anyhow::Result<()> {
        let input = self.input.as_mut().context("the process was stopped")?;
        writeln!(input, "{line}")?;
        Ok(input.flush()?)
    }

    /// The work that was done.
    fn hear(&mut self) -> anyhow::Result<u64> {
        let mut line = String::new();
        anyhow::ensure!(self.output.read_line(&mut line)? > 0, "the load ended unexpectedly");
        line.trim().parse().context("the load did not say how much it did")
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        Ok(kill_process(id.context("a process without an id")?, signal)?)
    }

    fn stop(&mut self) {
        // It ends with its input; an error means that it has ended already.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// CPU time in steps of 5 ms, at two CPUs until a moment and at so many thousandths afterwards.
    fn curve(until: u32, milli: u32) -> Vec<(Duration, Duration)> {
        let spent =
            |at: u32| 2 * at.min(until) * MS + at.saturating_sub(until) * milli * MS / 1_000;
        (0..=200).map(|n| (n * 5 * MS, spent(n * 5))).collect()
    }

    #[test]
    fn effective_is_when_two_periods_keep_the_limit() {
        let allowed = share(MilliCpu(40)) + 2 * SLICE;
        assert_eq!(allowed, 14 * MS);
        let cases = [
            ("at once", curve(0, 40), Some(0)),
            ("after a while", curve(85, 40), Some(80)),
            ("never", curve(2_000, 40), None),
            ("slower, but above", curve(85, 200), None),
        ];
        for (name, curve, want) in cases {
            let got = effective(&curve, allowed);
            assert_eq!(got, want.map(|ms| ms * MS), "{name}");
        }
    }

    #[test]
    fn a_lull_of_one_period_is_not_effective() {
        let mut curve = curve(0, 0);
        for (at, spent) in &mut curve {
            if *at > 150 * MS {
                *spent = 2 * (*at - 150 * MS);
            }
        }
        assert_eq!(effective(&curve, 14 * MS), None);
    }
}
