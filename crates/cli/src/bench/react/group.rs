//! The two groups, their processes, and one step of load.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use host::Reading;
use host::cgroup::{CgroupPath, CgroupReader, Tree};
use host::fs::{Buffer, Mounts, RealFs};
use qos::frame::Settings;
use units::{MilliCpu, Percent};

use super::report::Step;
use super::{Answer, STEP, clock};

/// How often the bench itself looks.
const LOOK: Duration = Duration::from_millis(5);

/// How long best-effort has the machine before a step.
const BEFORE: Duration = Duration::from_millis(400);

/// Over how long best-effort has to stay within its limit: the kernel's own period.
const PERIOD: Duration = Duration::from_millis(100);

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
        let root = CgroupPath::new(&format!("tidepool-react-{}", std::process::id()));
        let (best_effort, online) = (root.child("besteffort"), root.child("online"));
        for group in [&root, &best_effort, &online] {
            tree.make(group)?;
        }
        let cpus = thread::available_parallelism()?.get();
        let mut burner = Burner::start(cpus)?;
        tree.enter(&best_effort, burner.child.id())?;
        burner.say("forever")?;
        let load = Burner::start(1)?;
        tree.enter(&online, load.child.id())?;
        Ok(Self { tree, root, best_effort, online, burner, load, cpus })
    }

    /// Where limits are written down; nothing outlives the bench.
    pub(super) fn ledger(&self) -> PathBuf {
        std::env::temp_dir().join(format!("{}.ledger", self.root.as_str()))
    }

    pub(super) fn settings(&self, threshold: Percent) -> Settings {
        let capacity = MilliCpu::from_cores(i64::try_from(self.cpus).unwrap_or(i64::MAX));
        Settings { capacity, threshold, floor: MilliCpu(capacity.0 / 20) }
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
        let mut watch = Watch::new(&self.tree, &self.best_effort, &self.online)?;
        let began = now();
        let mut curve = VecDeque::from([(Duration::ZERO, Duration::ZERO)]);
        let mut written = None;
        self.load.say(&STEP.as_millis().to_string())?;
        while now() - began < STEP {
            if answer.tick(now())? && written.is_none() {
                written = Some(now() - began);
            }
            let (best_effort, _) = watch.spent()?;
            curve.push_back((now() - began, best_effort));
            thread::sleep(LOOK);
        }
        self.load.hear()?;
        let (_, online) = watch.spent()?;
        let limit = answer.limit().0 + self.settings(Percent::HUNDRED).capacity.0 / 20;
        let lost = 1.0 - online.as_secs_f64() / STEP.as_secs_f64();
        Ok(Step { written, effective: effective(&curve, limit), lost: lost.max(0.0) })
    }
}

/// The moment from which on every period stays within the limit.
fn effective(curve: &VecDeque<(Duration, Duration)>, limit: i64) -> Option<Duration> {
    let limit = u64::try_from(limit).unwrap_or_default();
    let allowed =
        Duration::from_micros(PERIOD.as_secs() * 1_000 + u64::from(PERIOD.subsec_millis()) * limit);
    let stays = |from: usize| {
        curve.iter().skip(from).all(|(start, spent)| {
            let later = curve.iter().find(|(at, _)| *at >= *start + PERIOD);
            later.is_none_or(|(_, later)| *later - *spent <= allowed)
        })
    };
    let mut from = 0;
    while from < curve.len() && !stays(from) {
        from += 1;
    }
    let (at, _) = curve.get(from)?;
    (*at + PERIOD < STEP).then_some(*at)
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

/// CPU time of both groups since the watch began.
struct Watch {
    best_effort: CgroupReader,
    online: CgroupReader,
    buffer: Buffer,
    begun: (Duration, Duration),
}

impl Watch {
    fn new(tree: &Tree, best_effort: &CgroupPath, online: &CgroupPath) -> anyhow::Result<Self> {
        let mut watch = Self {
            best_effort: tree.reader(best_effort.clone()),
            online: tree.reader(online.clone()),
            buffer: Buffer::new(),
            begun: Default::default(),
        };
        watch.begun = watch.read()?;
        Ok(watch)
    }

    fn read(&mut self) -> anyhow::Result<(Duration, Duration)> {
        let usage =
            |reader: &mut CgroupReader, buffer: &mut Buffer| match reader.cpu_usage(buffer)? {
                Reading::Value(usage) => Ok(usage),
                _ => anyhow::bail!("{} has no CPU time", reader.group()),
            };
        let best_effort = usage(&mut self.best_effort, &mut self.buffer)?;
        Ok((best_effort, usage(&mut self.online, &mut self.buffer)?))
    }

    fn spent(&mut self) -> anyhow::Result<(Duration, Duration)> {
        let (best_effort, online) = self.read()?;
        Ok((best_effort.saturating_sub(self.begun.0), online.saturating_sub(self.begun.1)))
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

    fn hear(&mut self) -> anyhow::Result<()> {
        let mut line = String::new();
        anyhow::ensure!(self.output.read_line(&mut line)? > 0, "the load ended unexpectedly");
        Ok(())
    }

    fn stop(&mut self) {
        // It ends with its input; an error means that it has ended already.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
