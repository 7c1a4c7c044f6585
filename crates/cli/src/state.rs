//! Where one-machine mode keeps its files.
//!
//! ```text
//! STATE_DIR/
//!   store/        objects, and the lock that says which process serves them
//!   credentials/  certificate authority, serving certificate, token
//!   kubeconfig    for kubectl and for our own commands
//! ```

use std::fs::File;
use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::Context;
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
    /// The directory that was named, or the user's default one.
    pub(crate) fn resolve(&self) -> anyhow::Result<PathBuf> {
        if let Some(dir) = &self.state_dir {
            return Ok(dir.clone());
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

pub(crate) fn kubeconfig(dir: &Path) -> PathBuf {
    dir.join("kubeconfig")
}

/// The process that serves this directory: the lock names it, and the kernel says that it is held.
pub(crate) fn holder(dir: &Path) -> Option<Pid> {
    let path = store(dir).join("lock");
    let file = File::open(&path).ok()?;
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => {}
        _ => return None,
    }
    let text = fs::read_to_string(&path).ok()?;
    let pid = text.lines().find_map(|line| line.strip_prefix("pid "))?;
    Pid::from_raw(pid.trim().parse().ok()?)
}
