//! How late do online threads wake up beside best-effort work on this kernel?
//!
//! Measured once, on a thread of its own, while everything else goes on: acting starts with the means
//! that the kernel offers, and follows the verdict when there is one. Two groups beside the classes of pods
//! stand for them, one thread wakes up in the first while another spins in the second, on one CPU that
//! nobody was given:
//!
//! ```text
//! kubepods/tidepool-wake-online/pod    a thread that sleeps a millisecond at a time
//! kubepods/tidepool-wake-behind/pod    a thread that spins; of the least weight, then idle as well
//! ```
//!
//! Two seconds a mode and one CPU is all it costs, on a node with half of its CPU to spare, and only where
//! an operator wants best-effort kept behind. The groups go with the probe; what a killed agent left is
//! removed by the next one, or by `tidepool off`. Judging is [`qos::wake`]'s.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use api::why::{NODE, Resource, Sum, Why};
use groups::{CgroupPath, Driver, Knob, Layout, Setting, Shares, Version};
use host::cgroup::{SetError, Tree};
use host::wake::{self, Role, Task};
use host::{FileError, Reading};
use qos::identity::Mode;
use qos::node::{State as NodeState, milli};
use qos::wake::{Samples, Verdict, settle};
use tracing::{info, warn};
use units::Micros;

use crate::object::chain;

/// The word that makes our program one of the two processes of a probe.
pub const WORD: &str = "wake-probe";

/// How long a mode is measured, and in how many turns.
const TIME: Duration = Duration::from_secs(2);
const TURNS: u32 = 4;

/// How much longer than its time a process may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often a process is looked after.
const LOOK: Duration = Duration::from_millis(10);

/// How long the kernel may take to let go of a group whose processes have ended.
const LET_GO: Duration = Duration::from_secs(1);

const ONLINE: &str = "tidepool-wake-online";
const BEHIND: &str = "tidepool-wake-behind";
const POD: &str = "pod";

/// The program that spins and wakes up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prober {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// How long each mode is measured.
    pub time: Duration,
}

impl Prober {
    /// The program we are.
    pub fn this_program() -> Self {
        Self { program: "/proc/self/exe".into(), arguments: vec![WORD.to_owned()], time: TIME }
    }
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error("the groups of the probe cannot be used")]
    Group(#[from] FileError),
    #[error("the groups of the probe cannot be set")]
    Set(#[from] SetError),
    #[error("this kernel has no {knob:?}")]
    Unsupported { knob: Knob },
    #[error("cannot run {}", program.display())]
    Program { program: PathBuf, source: io::Error },
    #[error("{} ended with {status} and no answer", program.display())]
    NoAnswer { program: PathBuf, status: ExitStatus },
    #[error("{} did not end in time", program.display())]
    Late { program: PathBuf },
    #[error("acting was turned off meanwhile")]
    Stopped,
}

/// The probe of one agent.
#[derive(Debug, Default)]
pub(super) struct WakeProbe {
    prober: Option<Prober>,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    /// Nobody wants to know.
    #[default]
    Unwanted,
    /// For the node to have room.
    Waiting,
    Running(Running),
    Done(Verdict),
    Failed(String),
}

#[derive(Debug)]
struct Running {
    thread: JoinHandle<Result<Vec<Samples>, ProbeError>>,
    stop: Arc<AtomicBool>,
}

impl WakeProbe {
    pub(super) fn new(prober: Prober) -> Self {
        Self { prober: Some(prober), state: State::default() }
    }

    /// One that has found this.
    #[cfg(test)]
    pub(super) fn decided(verdict: Verdict) -> Self {
        Self { prober: None, state: State::Done(verdict) }
    }

    /// What was found, once it was.
    pub(super) fn verdict(&self) -> Option<&Verdict> {
        match &self.state {
            State::Done(verdict) => Some(verdict),
            _ => None,
        }
    }

    /// Begins when somebody wants to know, and looks for the answer. Whether there is a new verdict.
    pub(super) fn round(&mut self, tree: &Tree, node: &NodeState, modes: &[Mode]) -> bool {
        match &self.state {
            State::Unwanted | State::Waiting => {
                self.state = match self.prober.clone() {
                    Some(prober) if !modes.is_empty() => begin(tree, node, modes, prober),
                    _ => State::Unwanted,
                };
                false
            }
            State::Running(running) if running.thread.is_finished() => {
                self.finish();
                true
            }
            State::Running(_) | State::Done(_) | State::Failed(_) => false,
        }
    }

    fn finish(&mut self) {
        let State::Running(running) = std::mem::take(&mut self.state) else { return };
        let result = match running.thread.join() {
            Ok(result) => result.map_err(|error| chain(&error)),
            Err(_) => Err("the probe panicked".to_owned()),
        };
        let verdict = result.and_then(|samples| settle(&samples).map_err(|why| why.to_string()));
        self.state = match verdict {
            Ok(verdict) => {
                info!(mode = verdict.mode.letter(), why = %verdict.why, "measured how late threads wake up");
                State::Done(verdict)
            }
            Err(error) => {
                warn!(error, "cannot measure how late threads wake up; the kernel's best is used");
                State::Failed(error)
            }
        };
    }

    /// Ends what is under way, and waits until it has cleaned up; a verdict is kept.
    pub(super) fn stop(&mut self) {
        if let State::Running(running) = &self.state {
            running.stop.store(true, Ordering::Release);
        }
        match std::mem::take(&mut self.state) {
            State::Running(running) => drop(running.thread.join()),
            done @ (State::Done(_) | State::Failed(_)) => self.state = done,
            State::Unwanted | State::Waiting => {}
        }
    }

    /// What is known, for people.
    pub(super) fn whys(&self) -> Vec<Why> {
        let (headline, bound_by) = match &self.state {
            State::Unwanted => return Vec::new(),
            State::Waiting => (
                "how late online threads wake up is not measured yet".to_owned(),
                format!("a node that uses at most {} of its CPU", qos::wake::IDLE),
            ),
            State::Running(_) => {
                ("measuring how late online threads wake up".to_owned(), "the probe".to_owned())
            }
            State::Done(verdict) => (
                verdict.why.to_string(),
                format!(
                    "{} (mode {}): the safest within {} us, 1.5 times the best",
                    verdict.mode.beside(),
                    verdict.mode.letter(),
                    verdict.why.allowed.0
                ),
            ),
            State::Failed(error) => (
                format!("how late online threads wake up is not known: {error}"),
                "the probe".to_owned(),
            ),
        };
        let about = NODE.to_owned();
        vec![Why { about, resource: Resource::Cpu, headline, bound_by, sum: Sum::default() }]
    }
}

impl Drop for WakeProbe {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Starts the thread when the node has room.
fn begin(tree: &Tree, node: &NodeState, modes: &[Mode], prober: Prober) -> State {
    let Some(cpu) = quiet_cpu(node) else { return State::Waiting };
    let (tree, around, modes) = (tree.clone(), node.layout.kubepods(), modes.to_vec());
    let stop = Arc::new(AtomicBool::new(false));
    let asked = stop.clone();
    let thread = thread::Builder::new().name("wake-probe".to_owned()).spawn(move || {
        let bench = Bench { tree: &tree, prober: &prober, cpu, stop: &asked };
        bench.measure(&around, &modes)
    });
    match thread {
        Ok(thread) => State::Running(Running { thread, stop }),
        Err(error) => State::Failed(error.to_string()),
    }
}

/// Measures modes on one CPU, in groups below the group of all pods, and waits for it.
pub fn measure(
    tree: &Tree,
    around: &CgroupPath,
    prober: &Prober,
    cpu: u16,
    modes: &[Mode],
) -> Result<Vec<Samples>, ProbeError> {
    Bench { tree, prober, cpu, stop: &AtomicBool::new(false) }.measure(around, modes)
}

/// `None` while the node is busy, or not known well enough.
fn quiet_cpu(state: &NodeState) -> Option<u16> {
    let node = state.cluster.node.as_ref()?;
    let used = state.usage.node.last.map(milli)?;
    if !qos::wake::has_room(used, node.capacity.cpu) {
        return None;
    }
    let online = state.cpus.as_ref()?.layout.online();
    let mut given = state.cpus_of(api::qos::QosClass::Lse);
    given = given.union(&state.cpus_of(api::qos::QosClass::Lsr));
    if let Some(system) = node.system.as_ref().filter(|system| system.is_exclusive) {
        given = given.union(&system.cpus);
    }
    qos::wake::cpu(&online, &given)
}

/// Removes what a killed agent left below a group of pods.
pub(super) fn sweep(tree: &Tree, around: &CgroupPath) {
    let groups = Groups::below(around);
    for group in groups.all().iter().rev().filter(|group| tree.exists(group)) {
        // Its processes end within seconds; if they have not, the next one removes it.
        let _ = tree.remove(group);
    }
}

/// Removes what a killed agent left, wherever its pods are.
pub(super) fn sweep_everywhere(tree: &Tree) {
    let layouts =
        [Layout::new(Driver::Systemd), Layout::new(Driver::Cgroupfs), Layout::one_machine()];
    for layout in layouts {
        sweep(tree, &layout.kubepods());
    }
}

/// What stands for the classes of pods.
struct Groups {
    online: CgroupPath,
    behind: CgroupPath,
}

impl Groups {
    fn below(around: &CgroupPath) -> Self {
        Self { online: around.child(ONLINE), behind: around.child(BEHIND) }
    }

    /// Parents first.
    fn all(&self) -> [CgroupPath; 4] {
        let (online, behind) = (&self.online, &self.behind);
        [online.clone(), online.child(POD), behind.clone(), behind.child(POD)]
    }
}

/// Everything a probe needs, besides its groups.
struct Bench<'b> {
    tree: &'b Tree,
    prober: &'b Prober,
    cpu: u16,
    stop: &'b AtomicBool,
}

impl Bench<'_> {
    /// The modes take turns, so that whatever else the machine does disturbs all of them alike.
    fn measure(&self, around: &CgroupPath, modes: &[Mode]) -> Result<Vec<Samples>, ProbeError> {
        let scratch = Scratch::make(self.tree, around)?;
        let none = |mode: &Mode| Samples { mode: *mode, turns: Vec::new() };
        let mut all: Vec<Samples> = modes.iter().map(none).collect();
        for _ in 0..TURNS {
            for samples in &mut all {
                scratch.enter_mode(samples.mode)?;
                samples.turns.push(self.turn(&scratch.groups)?);
            }
        }
        Ok(all)
    }

    fn turn(&self, groups: &Groups) -> Result<Vec<Micros>, ProbeError> {
        let time = self.prober.time / TURNS;
        let mut spins = Process::start(self.prober, self.tree, &groups.behind.child(POD))?;
        let mut wakes = Process::start(self.prober, self.tree, &groups.online.child(POD))?;
        let task = |role, time| Task { role, cpu: self.cpu, time };
        // A little longer, because what wakes up must never be alone.
        spins.tell(task(Role::Spin, time + LET_GO))?;
        wakes.tell(task(Role::Wake, time))?;
        let end = Instant::now() + time + PATIENCE;
        loop {
            if self.stop.load(Ordering::Acquire) {
                return Err(ProbeError::Stopped);
            }
            if let Some(answer) = wakes.answer()? {
                return Ok(answer);
            }
            if Instant::now() >= end {
                return Err(ProbeError::Late { program: self.prober.program.clone() });
            }
            thread::sleep(LOOK);
        }
    }
}

/// The groups of a probe; they go with the value.
struct Scratch<'s> {
    tree: &'s Tree,
    groups: Groups,
}

impl<'s> Scratch<'s> {
    fn make(tree: &'s Tree, around: &CgroupPath) -> Result<Self, ProbeError> {
        let scratch = Self { tree, groups: Groups::below(around) };
        for group in scratch.groups.all() {
            match group.parent() {
                Some(parent) if parent == *around => make_beside(tree, &group)?,
                _ => tree.make(&group)?,
            }
        }
        let least = Shares::new(Shares::LEAST).map(Setting::Shares);
        for group in [scratch.groups.behind.clone(), scratch.groups.behind.child(POD)] {
            if let Some(least) = &least {
                scratch.set(&group, Knob::CpuShares, least)?;
            }
        }
        Ok(scratch)
    }

    fn enter_mode(&self, mode: Mode) -> Result<(), ProbeError> {
        let idle = Setting::Number(i64::from(mode >= Mode::IdlePods));
        self.set(&self.groups.behind.child(POD), Knob::CpuIdle, &idle)
    }

    fn set(&self, group: &CgroupPath, knob: Knob, setting: &Setting) -> Result<(), ProbeError> {
        match self.tree.set(group, knob, setting)? {
            Reading::Value(()) => Ok(()),
            Reading::Unsupported | Reading::Gone => Err(ProbeError::Unsupported { knob }),
        }
    }
}

/// Makes a group beside those of pods. It has to do with the controllers that they have: what is handed
/// down to pods is the kubelet's to say.
fn make_beside(tree: &Tree, group: &CgroupPath) -> Result<(), FileError> {
    if tree.version() == Version::V1 {
        return tree.make(group);
    }
    let path = tree.main_dir(group);
    match tree.fs().make_dir(&path) {
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
            Err(FileError::Make { path, source })
        }
        _ => Ok(()),
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        let end = Instant::now() + LET_GO;
        for group in self.groups.all().iter().rev() {
            while let Err(error) = self.tree.remove(group) {
                if Instant::now() >= end {
                    warn!(%group, error = chain(&error), "a group of the wake probe stays until the next start");
                    break;
                }
                thread::sleep(LOOK);
            }
        }
    }
}

/// One process of a probe; it is killed with the value.
struct Process<'p> {
    prober: &'p Prober,
    child: Child,
}

impl<'p> Process<'p> {
    fn start(prober: &'p Prober, tree: &Tree, group: &CgroupPath) -> Result<Self, ProbeError> {
        let child = Command::new(&prober.program)
            .args(&prober.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let failed = |source| ProbeError::Program { program: prober.program.clone(), source };
        let process = Self { prober, child: child.map_err(failed)? };
        tree.enter(group, process.child.id())?;
        Ok(process)
    }

    fn failed(&self, source: io::Error) -> ProbeError {
        ProbeError::Program { program: self.prober.program.clone(), source }
    }

    fn tell(&mut self, task: Task) -> Result<(), ProbeError> {
        let line = task.to_line();
        let written = match &mut self.child.stdin {
            Some(input) => input.write_all(line.as_bytes()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        written.map_err(|error| self.failed(error))
    }

    /// The answer of a process that has ended; it fits into a pipe.
    fn answer(&mut self) -> Result<Option<Vec<Micros>>, ProbeError> {
        let ended = self.child.try_wait();
        let Some(status) = ended.map_err(|error| self.failed(error))? else { return Ok(None) };
        let mut text = String::new();
        if let Some(output) = &mut self.child.stdout {
            let read = output.read_to_string(&mut text);
            read.map_err(|error| self.failed(error))?;
        }
        let program = self.prober.program.clone();
        wake::read_answer(&text).map(Some).ok_or(ProbeError::NoAnswer { program, status })
    }
}

impl Drop for Process<'_> {
    fn drop(&mut self) {
        // One that has ended already is only reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
