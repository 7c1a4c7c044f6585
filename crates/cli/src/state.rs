//! Where one-machine mode keeps its files.
//!
//! ```text
//! STATE_DIR/
//!   lock          says which process serves the directory
//!   store/        objects
//!   credentials/  certificate authority, serving certificate, token
//!   kubeconfig    for kubectl and for our own commands
//!   node/         pods of this machine: their processes, logs and volumes
//!   node-passing/ the same for `up --in-memory`
//!   console/      what the console has counted
//!   agent/        what the agent has learned of this machine, what it changed, where it serves
//! ```

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::{env, fs, path};

use anyhow::{Context, bail};
use clap::Args;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::Pid;

#[derive(Debug, Clone, Args)]
pub(crate) struct StateDir {
    /// Where one-machine mode keeps its files [default: $XDG_STATE_HOME/tidepool]
    #[arg(long, value_name = "DIR", env = "TIDEPOOL_STATE_DIR")]
    state_dir: Option<PathBuf>,
}

impl StateDir {
    /// Whether a directory was named.
    pub(crate) fn is_named(&self) -> bool {
        self.state_dir.is_some()
    }

    /// The directory that was named, or the user's default one.
    pub(crate) fn resolve(&self) -> anyhow::Result<PathBuf> {
        if let Some(dir) = &self.state_dir {
            // Containers have working directories of their own.
            return path::absolute(dir).with_context(|| format!("cannot use {}", dir.display()));
        }
        let base = match env::var_os("XDG_STATE_HOME").filter(|value| !value.is_empty()) {
            Some(base) => PathBuf::from(base),
            None => {
                let home = env::var_os("HOME").filter(|value| !value.is_empty());
                let home = home.context("HOME is not set; name a place with --state-dir")?;
                PathBuf::from(home).join(".local/state")
            }
        };
        Ok(base.join("tidepool"))
    }
}

pub(crate) fn store(dir: &Path) -> PathBuf {
    dir.join("store")
}

pub(crate) fn credentials(dir: &Path) -> PathBuf {
    dir.join("credentials")
}

pub(crate) fn agent(dir: &Path) -> PathBuf {
    dir.join("agent")
}

/// Where a running agent says where it serves, below its own directory.
pub(crate) fn agent_address(agent_dir: &Path) -> PathBuf {
    agent_dir.join("address")
}

pub(crate) fn console(dir: &Path) -> PathBuf {
    dir.join("console")
}

/// What best-effort work was done, summed up.
pub(crate) fn benefit(dir: &Path) -> PathBuf {
    console(dir).join("benefit.json")
}

pub(crate) fn kubeconfig(dir: &Path) -> PathBuf {
    dir.join("kubeconfig")
}

/// The pods of a cluster that is on disk.
pub(crate) fn node(dir: &Path) -> PathBuf {
    dir.join("node")
}

/// The pods of a cluster that is in memory.
pub(crate) fn passing_node(dir: &Path) -> PathBuf {
    dir.join("node-passing")
}

pub(crate) fn lock_file(dir: &Path) -> PathBuf {
    dir.join("lock")
}

/// Held by the process that serves a state directory, until it ends in whatever way.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "held, not read")] File);

/// Makes the directory ours, or says whose it is.
pub(crate) fn lock(dir: &Path) -> anyhow::Result<Lock> {
    let unusable = || format!("cannot use {}; name another place with --state-dir", dir.display());
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).with_context(unusable)?;
    let path = lock_file(dir);
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
    let mut file = file.with_context(unusable)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let who = holder(dir).map_or_else(
                || "another process".to_owned(),
                |pid| format!("process {}", pid.as_raw_nonzero()),
            );
            bail!(
                "{who} serves {} already; stop it with `tidepool down`, or name another place \
                 with --state-dir",
                dir.display()
            );
        }
        Err(error) => return Err(error).with_context(unusable),
    }
    file.set_len(0).with_context(unusable)?;
    writeln!(file, "pid {}", std::process::id()).with_context(unusable)?;
    Ok(Lock(file))
}

/// The process that serves this directory: the lock names it, and the kernel says that it is held.
pub(crate) fn holder(dir: &Path) -> Option<Pid> {
    let path = lock_file(dir);
    let file = File::open(&path).ok()?;
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => {}
        _ => return None,
    }
    let text = fs::read_to_string(&path).ok()?;
    let pid = text.lines().find_map(|line| line.strip_prefix("pid "))?;
    Pid::from_raw(pid.trim().parse().ok()?)
}
