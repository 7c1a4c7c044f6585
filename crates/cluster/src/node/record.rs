//! What is written down about a container, so that nothing is forgotten when `tidepool` ends?
//!
//! Every start of a container has a directory of its own, `containers/<name>/<restart count>`:
//!
//! | file | written by | says |
//! |---|---|---|
//! | `spec.json` | node, before the start | everything needed to run the process |
//! | `lock` | shim | locked while the shim lives |
//! | `control` | shim | a pipe for signal numbers |
//! | `alive` | shim | a pipe it holds open while it lives |
//! | `running.json` | shim, when the program runs | who and since when |
//! | `exit.json` | shim, last; the node for one that never ran | how it ended |
//! | `termination-log` | the container | its last words |
//!
//! Files appear whole (written beside and renamed) and only their owner may read them: a
//! specification holds the values of Secrets.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// How to run one container once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunSpec {
    /// What follows `tidepool://` in the status, and the name of the control group.
    pub(crate) id: String,
    pub(crate) argv: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) working_dir: PathBuf,
    /// A directory that becomes `/`.
    pub(crate) root: Option<PathBuf>,
    pub(crate) mounts: Vec<Mount>,
    /// The directories of its control group, one for each hierarchy.
    pub(crate) cgroups: Vec<PathBuf>,
    /// Counts out-of-memory kills.
    pub(crate) oom_file: Option<PathBuf>,
    pub(crate) oom_score_adj: i32,
    pub(crate) user: Option<User>,
    pub(crate) no_new_privileges: bool,
    pub(crate) log: LogFile,
    /// Arguments that make the program the shim.
    pub(crate) shim_args: Vec<String>,
    /// Seconds between SIGTERM and SIGKILL when nobody knows the pod any more.
    pub(crate) grace_seconds: u64,
    pub(crate) backoff: Option<BackoffRecord>,
}

/// A directory or file of this machine made visible inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mount {
    pub(crate) source: PathBuf,
    pub(crate) target: PathBuf,
    pub(crate) read_only: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
}

/// Where output goes, and how much of it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogFile {
    pub(crate) path: PathBuf,
    /// A file that has grown to this is put aside.
    pub(crate) max_bytes: u64,
    /// How many files are kept, the current one included.
    pub(crate) max_files: u32,
}

/// How long the next failure has to wait; see [`crate::node::plan`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BackoffRecord {
    pub(crate) seconds: u64,
    pub(crate) since: Timestamp,
}

/// A process that cannot be mistaken for a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessId {
    pub(crate) pid: i32,
    /// Clock ticks after boot at which it started, from `/proc/<pid>/stat`.
    pub(crate) start: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Running {
    pub(crate) shim: ProcessId,
    pub(crate) process: ProcessId,
    pub(crate) started_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exit {
    /// The exit status, or 128 plus the signal.
    pub(crate) code: i32,
    pub(crate) signal: Option<i32>,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) finished_at: Timestamp,
    pub(crate) oom_kills: u64,
    pub(crate) cause: Cause,
}

/// Why there is an exit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Cause {
    /// The process ended.
    Ended,
    /// The program could not be run.
    NotStarted(String),
    /// The shim is gone and took the answer along.
    Unknown,
}

impl ProcessId {
    /// The process that has this number now.
    pub(crate) fn of(pid: i32) -> io::Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let start = start_time(&stat).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { pid, start })
    }

    /// Does the process still exist? One that has ended but not been waited for does not.
    pub(crate) fn is_alive(self) -> bool {
        let Ok(stat) = fs::read_to_string(format!("/proc/{}/stat", self.pid)) else { return false };
        start_time(&stat) == Some(self.start) && !matches!(state(&stat), Some("Z" | "X"))
    }
}

/// The fields after the command name, which is in parentheses and may hold anything.
fn fields(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace()
}

fn state(stat: &str) -> Option<&str> {
    fields(stat).next()
}

/// Field 22 of `/proc/<pid>/stat`.
fn start_time(stat: &str) -> Option<u64> {
    fields(stat).nth(19)?.parse().ok()
}

/// The parent's number, field 4 of `/proc/<pid>/stat`.
pub(crate) fn parent(stat: &str) -> Option<i32> {
    fields(stat).nth(1)?.parse().ok()
}

/// The directory of one start of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunDir(PathBuf);

impl RunDir {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn control(&self) -> PathBuf {
        self.0.join("control")
    }

    pub(crate) fn alive(&self) -> PathBuf {
        self.0.join("alive")
    }

    pub(crate) fn termination_log(&self) -> PathBuf {
        self.0.join("termination-log")
    }

    /// Makes the directory and writes the specification.
    pub(crate) fn create(&self, spec: &RunSpec) -> io::Result<()> {
        make_private_dirs(&self.0)?;
        write_json(&self.0.join("spec.json"), spec)
    }

    /// Takes the specification back. Only who holds the lock may do that.
    pub(crate) fn withdraw(&self) -> io::Result<()> {
        match fs::remove_file(self.0.join("spec.json")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    pub(crate) fn spec(&self) -> io::Result<RunSpec> {
        read_json(&self.0.join("spec.json"))
    }

    pub(crate) fn running(&self) -> io::Result<Running> {
        read_json(&self.0.join("running.json"))
    }

    pub(crate) fn set_running(&self, running: &Running) -> io::Result<()> {
        write_json(&self.0.join("running.json"), running)
    }

    pub(crate) fn exit(&self) -> io::Result<Exit> {
        read_json(&self.0.join("exit.json"))
    }

    pub(crate) fn set_exit(&self, exit: &Exit) -> io::Result<()> {
        write_json(&self.0.join("exit.json"), exit)
    }

    /// Takes the lock that a living shim holds; `None` if somebody has it.
    pub(crate) fn lock(&self) -> io::Result<Option<File>> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.0.join("lock"))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

pub(crate) fn make_private_dirs(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Writes beside and renames, so that a reader sees the old content or the new.
pub(crate) fn write_atomically(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(".new");
    let beside = path.with_file_name(name);
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&beside)?;
    file.write_all(content)?;
    drop(file);
    fs::rename(&beside, path)
}

pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    write_atomically(path, &serde_json::to_vec_pretty(value)?, 0o600)
}

fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    /// No record of ours comes near this.
    const MAX_BYTES: u64 = 16 << 20;
    let mut content = Vec::new();
    File::open(path)?.take(MAX_BYTES).read_to_end(&mut content)?;
    Ok(serde_json::from_slice(&content)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn exit() -> Exit {
        Exit {
            code: 3,
            signal: None,
            started_at: None,
            finished_at: Timestamp::UNIX_EPOCH,
            oom_kills: 0,
            cause: Cause::NotStarted("no such file".into()),
        }
    }

    #[test]
    fn records_are_private_and_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::new(dir.path().join("web/0"));
        make_private_dirs(run.path()).unwrap();
        assert_eq!(run.exit().unwrap_err().kind(), io::ErrorKind::NotFound);
        run.set_exit(&exit()).unwrap();
        assert_eq!(run.exit().unwrap(), exit());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&run.path().join("exit.json")), 0o600);
        assert_eq!(mode(run.path()), 0o700);
        let left: Vec<_> = fs::read_dir(run.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "nothing is left beside the record");
    }

    #[test]
    fn a_torn_record_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::new(dir.path());
        fs::write(dir.path().join("exit.json"), "{\"code\": 3").unwrap();
        assert!(run.exit().is_err());
    }

    #[test]
    fn only_one_holds_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::new(dir.path());
        let held = run.lock().unwrap();
        assert!(held.is_some());
        assert!(run.lock().unwrap().is_none());
        drop(held);
        assert!(run.lock().unwrap().is_some());
    }

    #[test]
    fn a_command_name_may_look_like_fields() {
        let stat = "7 (a) S 9 (b) c) R 1 7 7 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 4242 1 2";
        assert_eq!(
            (state(stat), parent(stat), start_time(stat)),
            (Some("R"), Some(1), Some(4_242))
        );
        assert_eq!((state(""), parent("x"), start_time("7 (a) S")), (None, None, None));
    }

    #[test]
    fn a_number_that_was_given_away_again_is_somebody_else() {
        let own = ProcessId::of(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(own.is_alive());
        assert!(!ProcessId { start: own.start + 1, ..own }.is_alive());
    }
}
