//! The shim's own work: start, pump, wait, clean up, write down.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, mkfifoat, open};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, kill_process, kill_process_group,
    pidfd_open, set_child_subreaper, setsid, wait,
};

use super::{NOT_STARTED, descendants};
use crate::node::cgroup::{Disk, kill_all, oom_kills};
use crate::node::log::{Stream, Writer};
use crate::node::record::{Cause, Exit, ProcessId, RunDir, RunSpec, Running};

/// How often orphans are waited for. They are dead already; only their numbers are kept busy.
const REAP_EVERY: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// How long output is awaited from processes that outlived the program and were killed.
const DRAIN: Duration = Duration::from_secs(2);

/// Runs one container from start to end.
pub(super) fn run(dir: &RunDir) -> io::Result<()> {
    // A signal for the terminal's group, such as Ctrl-C, must not reach us.
    let _ = setsid();
    // Processes whose parent ends become our children, so that none escapes.
    set_child_subreaper(Some(getpid()))?;
    let _lock = lock(dir)?;
    if dir.exit().is_ok() {
        // Nobody saw us start in time, and the node has given this start up.
        return Ok(());
    }
    let spec = dir.spec()?;
    let control = named_pipe(&dir.control())?;
    let _alive = named_pipe(&dir.alive())?;
    let mut log = Writer::new(spec.log.clone());
    let exit = match start(dir, &spec) {
        Ok(mut container) => {
            tell_starter();
            container.pump(&spec, &control, &mut log)?
        }
        Err(message) => {
            clean_up(&spec);
            Exit {
                code: NOT_STARTED,
                signal: None,
                started_at: None,
                finished_at: Timestamp::now(),
                oom_kills: spec.oom_file.as_deref().map_or(0, |file| oom_kills(&Disk, file)),
                cause: Cause::NotStarted(message),
            }
        }
    };
    dir.set_exit(&exit)?;
    let _ = fs::remove_file(dir.control());
    let _ = fs::remove_file(dir.alive());
    tell_starter();
    Ok(())
}

/// The node takes the lock for a moment when it looks for us; anybody who has it longer is another
/// shim.
fn lock(dir: &RunDir) -> io::Result<File> {
    const TRIES: u32 = 100;
    const PAUSE: Duration = Duration::from_millis(10);
    for _ in 0..TRIES {
        if let Some(lock) = dir.lock()? {
            return Ok(lock);
        }
        thread::sleep(PAUSE);
    }
    Err(io::Error::other("another shim has this directory"))
}

/// Both ends of a pipe in the file system: a reader never finds it closed by the other side.
fn named_pipe(path: &Path) -> io::Result<OwnedFd> {
    match mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(open(path, flags, Mode::empty())?)
}

/// Whoever started us waits for our standard output to close. By then `running.json` or
/// `exit.json` is there.
fn tell_starter() {
    if let Ok(null) = File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
    }
}

struct Container {
    pid: Pid,
    started_at: Timestamp,
    output: [Option<File>; 2],
    /// Readable when the program has ended; absent on kernels before 5.3.
    ended: Option<OwnedFd>,
    status: Option<WaitStatus>,
}

/// Spawns init and waits until it has become the program, or says why not.
fn start(dir: &RunDir, spec: &RunSpec) -> Result<Container, String> {
    let pipe =
        || pipe_with(PipeFlags::CLOEXEC).map_err(|error| format!("cannot make a pipe: {error}"));
    let (stdout, stdout_in) = pipe()?;
    let (stderr, stderr_in) = pipe()?;
    let (verdict, verdict_in) = pipe()?;
    let child = Command::new("/proc/self/exe")
        .args(&spec.shim_args)
        .arg("init")
        .arg(dir.path())
        .stdin(Stdio::from(verdict_in))
        .stdout(Stdio::from(stdout_in))
        .stderr(Stdio::from(stderr_in))
        .spawn()
        .map_err(|error| format!("cannot start a process: {error}"))?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or("the process has no number")?;

    // The pipe closes when init becomes the program.
    let mut message = String::new();
    let _ = File::from(verdict).read_to_string(&mut message);
    if !message.is_empty() {
        return Err(message);
    }
    let started_at = Timestamp::now();
    let name = |pid: Pid| {
        // A program that has ended already keeps its entry until it is waited for.
        ProcessId::of(pid.as_raw_nonzero().get())
            .map_err(|error| format!("cannot look at process {pid:?}: {error}"))
    };
    let running = Running { shim: name(getpid())?, process: name(pid)?, started_at };
    let written = dir.set_running(&running);
    let container = Container {
        pid,
        started_at,
        output: [Some(stdout.into()), Some(stderr.into())],
        ended: pidfd_open(pid, PidfdFlags::empty()).ok(),
        status: None,
    };
    if let Err(error) = written {
        // Without the record nobody could find the container again.
        let _ = kill_process(pid, Signal::KILL);
        return Err(format!("cannot write down that it runs: {error}"));
    }
    Ok(container)
}

impl Container {
    fn pump(&mut self, spec: &RunSpec, control: &OwnedFd, log: &mut Writer) -> io::Result<Exit> {
        while self.status.is_none() {
            let ready = self.wait_for_something(control, REAP_EVERY)?;
            if ready.control {
                self.obey(control, spec);
            }
            self.read_output(ready, log);
            self.reap();
        }
        let finished_at = Timestamp::now();
        let oom_kills = spec.oom_file.as_deref().map_or(0, |file| oom_kills(&Disk, file));
        clean_up(spec);
        self.drain(control, log)?;
        let (code, signal) = self.verdict();
        Ok(Exit {
            code,
            signal,
            started_at: Some(self.started_at),
            finished_at,
            oom_kills,
            cause: Cause::Ended,
        })
    }

    fn wait_for_something(&self, control: &OwnedFd, limit: Timespec) -> io::Result<Ready> {
        let mut fds = vec![PollFd::new(control, PollFlags::IN)];
        let mut places = [None; 2];
        for (place, output) in places.iter_mut().zip(&self.output) {
            if let Some(output) = output {
                *place = Some(fds.len());
                fds.push(PollFd::new(output, PollFlags::IN));
            }
        }
        if let Some(ended) = &self.ended {
            fds.push(PollFd::from_borrowed_fd(ended.as_fd(), PollFlags::IN));
        }
        match poll(&mut fds, Some(&limit)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
        Ok(Ready { control: is_ready(0), output: places.map(|place| place.is_some_and(is_ready)) })
    }

    /// Each byte on the control pipe is a signal: SIGKILL for everything, another one for the
    /// program's process group.
    fn obey(&self, control: &OwnedFd, spec: &RunSpec) {
        let mut numbers = [0; 16];
        let Ok(length) = rustix::io::read(control, &mut numbers) else { return };
        for number in numbers.iter().take(length) {
            let Some(signal) = Signal::from_named_raw(i32::from(*number)) else { continue };
            if signal == Signal::KILL {
                let _ = kill_process(self.pid, signal);
                clean_up(spec);
            } else if kill_process_group(self.pid, signal).is_err() {
                // It is not the leader of its group yet.
                let _ = kill_process(self.pid, signal);
            }
        }
    }

    fn read_output(&mut self, ready: Ready, log: &mut Writer) {
        const STREAMS: [Stream; 2] = [Stream::Stdout, Stream::Stderr];
        let mut block = [0; 64 << 10];
        for ((output, stream), is_ready) in self.output.iter_mut().zip(STREAMS).zip(ready.output) {
            if !is_ready {
                continue;
            }
            let Some(file) = output else { continue };
            match file.read(&mut block) {
                Ok(0) => {
                    log.finish(stream, Timestamp::now());
                    *output = None;
                }
                Ok(length) => log.push(stream, &block[..length], Timestamp::now()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => *output = None,
            }
        }
    }

    /// Waits for every process that has ended: the program, and orphans we were given.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == self.pid {
                self.status = Some(status);
            }
        }
    }

    /// Reads what is left in the pipes after everyone has been killed.
    fn drain(&mut self, control: &OwnedFd, log: &mut Writer) -> io::Result<()> {
        let end = Instant::now() + DRAIN;
        while self.output.iter().any(Option::is_some) && Instant::now() < end {
            let ready =
                self.wait_for_something(control, Timespec { tv_sec: 0, tv_nsec: 50_000_000 })?;
            self.read_output(ready, log);
            self.reap();
        }
        for stream in [Stream::Stdout, Stream::Stderr] {
            log.finish(stream, Timestamp::now());
        }
        Ok(())
    }

    fn verdict(&self) -> (i32, Option<i32>) {
        let signal = self.status.and_then(WaitStatus::terminating_signal);
        let code = self.status.and_then(WaitStatus::exit_status);
        (code.or(signal.map(|signal| 128 + signal)).unwrap_or(NOT_STARTED), signal)
    }
}

#[derive(Debug, Clone, Copy)]
struct Ready {
    control: bool,
    output: [bool; 2],
}

/// A container ends with its program, as it does when the program is process 1 of a namespace:
/// what it left behind is killed.
fn clean_up(spec: &RunSpec) {
    let _ = kill_all(&Disk, &spec.cgroups);
    descendants::kill();
}

impl std::fmt::Debug for Container {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Container").field("pid", &self.pid).finish_non_exhaustive()
    }
}

/// Tells the shim of a container to send a signal. `NotFound` or `ENXIO` means that it has ended.
pub(crate) fn send(dir: &RunDir, signal: Signal) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let control = open(dir.control(), flags, Mode::empty())?;
    let number = u8::try_from(signal.as_raw()).map_err(io::Error::other)?;
    File::from(control).write_all(&[number])
}
