//! Starting, finding, signalling and awaiting containers, from the node's side of the shim.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::cgroup::{Disk, kill_all};
use super::record::{Cause, Exit, RunDir};
use super::shim;

/// How the program is called so that it acts as shim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shim {
    pub program: PathBuf,
    /// Arguments after which [`shim_main`](crate::node::shim_main) takes over.
    pub args: Vec<String>,
}

impl Shim {
    /// This very program, whatever has become of its file, called with one hidden argument.
    pub fn own(argument: &str) -> Self {
        Self { program: "/proc/self/exe".into(), args: vec![argument.to_owned()] }
    }

    fn command(&self, stage: &str, dir: &RunDir) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).arg(stage).arg(dir.path()).stdin(Stdio::null());
        command
    }

    /// Can containers have mounts of their own?
    pub(crate) async fn can_mount(&self) -> bool {
        let mut command = Command::new(&self.program);
        command.args(&self.args).args(["check", "mounts"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().await.is_ok_and(|status| status.success())
    }
}

/// What is in the directory of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// A shim is at work.
    Alive,
    Ended(Exit),
    /// The program was never run, and will not be: a shim that comes late finds no specification.
    NotStarted,
}

/// How long a shim may take to say that the program runs.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Starts the shim of a run whose specification is in place, and waits until the program runs or
/// has failed to.
pub(crate) async fn start(shim: &Shim, dir: &RunDir) -> io::Result<()> {
    let errors = File::create(dir.path().join("shim.err"))?;
    let mut command = shim.command("run", dir);
    command.stdout(Stdio::piped()).stderr(errors);
    let mut child = command.spawn()?;
    // The shim closes its output when there is something to read in the directory.
    if let Some(mut output) = child.stdout.take() {
        let mut nothing = [0];
        let told = timeout(START_LIMIT, output.read(&mut nothing)).await;
        told.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the shim does not answer"))??;
    }
    if dir.running().is_ok() || dir.exit().is_ok() {
        return Ok(());
    }
    let _ = child.wait().await;
    let words = std::fs::read_to_string(dir.path().join("shim.err")).unwrap_or_default();
    Err(io::Error::other(format!("the shim failed: {}", words.trim())))
}

/// Finds out what became of a run, and settles it: if its shim is gone without a word, whatever it
/// left running is killed and the end is written down as unknown; if no shim ever had it, none will.
pub(crate) fn look(dir: &RunDir) -> io::Result<Found> {
    if let Ok(exit) = dir.exit() {
        return Ok(Found::Ended(exit));
    }
    let Some(_lock) = dir.lock()? else { return Ok(Found::Alive) };
    if let Ok(exit) = dir.exit() {
        return Ok(Found::Ended(exit));
    }
    if let Ok(spec) = dir.spec() {
        kill_all(&Disk, &spec.cgroups)?;
    }
    let Ok(running) = dir.running() else {
        dir.withdraw()?;
        return Ok(Found::NotStarted);
    };
    if running.process.is_alive()
        && let Some(pid) = Pid::from_raw(running.process.pid)
    {
        let _ = kill_process_group(pid, Signal::KILL);
    }
    let exit = Exit { started_at: Some(running.started_at), ..lost() };
    dir.set_exit(&exit)?;
    Ok(Found::Ended(exit))
}

/// Waits for the end of a run that has started.
pub(crate) async fn ended(dir: &RunDir) -> Exit {
    loop {
        match look(dir) {
            Ok(Found::Ended(exit)) => return exit,
            Ok(Found::NotStarted) => return lost(),
            Ok(Found::Alive) => {}
            Err(error) => {
                tracing::warn!(path = %dir.path().display(), %error, "cannot look at a container");
            }
        }
        gone(dir).await;
    }
}

/// The end of a run whose records are gone.
fn lost() -> Exit {
    Exit {
        code: 137,
        signal: None,
        started_at: None,
        finished_at: Timestamp::now(),
        oom_kills: 0,
        cause: Cause::Unknown,
    }
}

/// Is more to be expected from a run? Unlike [`look`] this changes nothing.
pub(crate) fn is_over(dir: &RunDir) -> bool {
    let is_gone = !dir.path().exists();
    is_gone || dir.exit().is_ok() || dir.running().is_ok_and(|running| !running.shim.is_alive())
}

/// Waits until the shim may be gone. It holds the writing end of a pipe as long as it lives and
/// writes nothing.
async fn gone(dir: &RunDir) {
    const PAUSE: Duration = Duration::from_millis(20);
    if let Ok(mut alive) = pipe::OpenOptions::new().open_receiver(dir.alive()) {
        let mut nothing = [0];
        let _ = alive.read(&mut nothing).await;
    }
    // It has just started and made no pipe yet, or has just ended and still holds its lock.
    sleep(PAUSE).await;
}

/// Waits until the program of a run runs or has ended; false if neither happens in time.
pub(crate) async fn running_or_ended(dir: &RunDir) -> bool {
    const PAUSE: Duration = Duration::from_millis(20);
    let looked = async {
        while dir.running().is_err() && dir.exit().is_err() {
            if !matches!(look(dir), Ok(Found::Alive)) {
                break;
            }
            sleep(PAUSE).await;
        }
    };
    timeout(START_LIMIT, looked).await.is_ok()
}

/// Sends a signal to a run's process group; SIGKILL to everything in it. A run that has ended is
/// fine.
pub(crate) fn signal(dir: &RunDir, signal: Signal) -> io::Result<()> {
    match shim::send(dir, signal) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
            Ok(())
        }
        other => other,
    }
}

/// Stops a run that nobody knows any more: SIGTERM, the grace period of its specification, SIGKILL.
pub(crate) async fn stop(dir: &RunDir, grace: Duration) -> Exit {
    let told = |sent: io::Result<()>| {
        if let Err(error) = sent {
            tracing::warn!(path = %dir.path().display(), %error, "cannot signal a container");
        }
    };
    told(signal(dir, Signal::TERM));
    if let Ok(exit) = timeout(grace, ended(dir)).await {
        return exit;
    }
    told(signal(dir, Signal::KILL));
    ended(dir).await
}

/// What a command inside a container came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Executed {
    /// `None` if it was killed by a signal.
    pub(crate) code: Option<i32>,
    /// The beginning of what it printed.
    pub(crate) output: String,
}

/// Runs a command inside a running container. `None` if it did not end in time.
pub(crate) async fn execute(
    shim: &Shim,
    dir: &RunDir,
    argv: &[String],
    limit: Duration,
) -> io::Result<Option<Executed>> {
    let mut command = shim.command("exec", dir);
    command
        .process_group(0)
        .args(argv)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn()?;
    let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let done = timeout(limit, collect(&mut child)).await;
    if let Some(group) = group
        && test_kill_process_group(group).is_ok()
    {
        // What it started and left behind goes with it.
        let _ = kill_process_group(group, Signal::KILL);
    }
    match done {
        Ok(done) => done.map(Some),
        Err(_) => {
            child.wait().await?;
            Ok(None)
        }
    }
}

async fn collect(child: &mut Child) -> io::Result<Executed> {
    /// How long output is awaited from what the command left behind.
    const LINGER: Duration = Duration::from_millis(200);
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let status = {
        let both = async { tokio::join!(read_some(out, &mut stdout), read_some(err, &mut stderr)) };
        tokio::pin!(both);
        tokio::select! {
            _ = &mut both => child.wait().await?,
            status = child.wait() => {
                let _ = timeout(LINGER, &mut both).await;
                status?
            }
        }
    };
    stdout.append(&mut stderr);
    let output = String::from_utf8_lossy(&stdout).into_owned();
    Ok(Executed { code: status.code(), output })
}

/// Keeps the beginning and reads on, so that the command does not block.
async fn read_some(pipe: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    const KEEP: usize = 10 << 10;
    let Some(mut pipe) = pipe else { return };
    let mut block = [0; 4 << 10];
    while let Ok(length) = pipe.read(&mut block).await
        && length > 0
    {
        let room = KEEP.saturating_sub(kept.len());
        kept.extend(block.iter().take(length.min(room)));
    }
}
