//! The few things done to the kernel's control group files.
//!
//! Everything above goes through [`Kernel`], so that the layout can be tested on a directory that
//! behaves like the kernel.

use std::fmt::Debug;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// File operations on a control group hierarchy.
pub(crate) trait Kernel: Debug + Send + Sync {
    fn read(&self, path: &Path) -> io::Result<String>;
    /// Writes to a file that exists.
    fn write(&self, path: &Path, value: &str) -> io::Result<()>;
    /// Makes one directory; one that exists is fine.
    fn make(&self, dir: &Path) -> io::Result<()>;
    /// Removes one directory; one that is gone is fine.
    fn remove(&self, dir: &Path) -> io::Result<()>;
    /// The directories inside.
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>>;
}

/// The real one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Disk;

impl Kernel for Disk {
    fn read(&self, path: &Path) -> io::Result<String> {
        fs::read_to_string(path)
    }

    fn write(&self, path: &Path, value: &str) -> io::Result<()> {
        // The kernel takes a value as one write, or not at all.
        OpenOptions::new().write(true).open(path)?.write_all(value.as_bytes())
    }

    fn make(&self, dir: &Path) -> io::Result<()> {
        match fs::create_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    fn remove(&self, dir: &Path) -> io::Result<()> {
        match fs::remove_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                found.push(entry.path());
            }
        }
        found.sort();
        Ok(found)
    }
}

/// How often a kill is repeated against a group that keeps forking.
const KILL_ROUNDS: u32 = 100;
const KILL_PAUSE: Duration = Duration::from_millis(10);

/// Kills every process in a group, given its directory in each hierarchy, and in the groups below.
///
/// On v2 the kernel does it at once. On v1 the group is frozen first, so that it cannot fork away,
/// and thawed after, because frozen processes do not die.
pub(crate) fn kill_all(kernel: &dyn Kernel, dirs: &[PathBuf]) -> io::Result<()> {
    for dir in dirs {
        let kill = dir.join("cgroup.kill");
        if kernel.write(&kill, "1").is_ok() {
            return Ok(());
        }
    }
    for _ in 0..KILL_ROUNDS {
        let frozen: Vec<PathBuf> = dirs.iter().map(|dir| dir.join("freezer.state")).collect();
        let frozen: Vec<&PathBuf> =
            frozen.iter().filter(|state| kernel.write(state, "FROZEN").is_ok()).collect();
        let mut killed = 0;
        for dir in dirs {
            killed += kill_below(kernel, dir)?;
        }
        for state in frozen {
            kernel.write(state, "THAWED")?;
        }
        if killed == 0 {
            return Ok(());
        }
        thread::sleep(KILL_PAUSE);
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, "processes keep coming back"))
}

/// How many processes were found and sent SIGKILL.
fn kill_below(kernel: &dyn Kernel, dir: &Path) -> io::Result<usize> {
    let procs = match kernel.read(&dir.join("cgroup.procs")) {
        Ok(procs) => procs,
        // The group is gone, and with it everything in it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let pids: Vec<Pid> =
        procs.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect();
    for pid in &pids {
        // It may have ended meanwhile; the next round sees what is left.
        let _ = kill_process(*pid, Signal::KILL);
    }
    let mut found = pids.len();
    for child in kernel.list(dir).unwrap_or_default() {
        found += kill_below(kernel, &child)?;
    }
    Ok(found)
}

/// How many processes of the group the kernel killed for want of memory, from `memory.events` (v2)
/// or `memory.oom_control` (v1, since Linux 4.13).
pub(crate) fn oom_kills(kernel: &dyn Kernel, file: &Path) -> u64 {
    let text = kernel.read(file).unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}
