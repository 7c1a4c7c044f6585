//! The agent as a whole: which parts run, and how do they hear of each other?
//!
//! ```text
//! API server ── Node, NodeSLO, NodeMetric, NodeResourceTopology, Device ──┐
//! kubelet or API server ── pods                                           ├─> NodeState ─> kernel threads
//! control groups ── changes ──> pods                                      ┘    (collect, predict, act)
//!                                                                                            │
//! NodeMetric.status, NodeResourceTopology, Device, /metrics <────────────────────────────────┘
//! ```
//!
//! Nothing waits for anything: every part starts at once, works with what is known, and says on
//! `/readyz` what it lacks. A part that ends before it is told to takes the process down.

mod parts;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use groups::{Driver, Layout};
use host::cgroup::{Tree, TreeError};
use kube::Client;
use rustix::fs::FlockOperation;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::config::{Config, Groups};
use crate::durable::PRIVATE;
use crate::worker::ThreadEnd;
use parts::Agent;

/// How long it is waited for the kubelet to make its first directory.
const FIND_GROUPS: Duration = Duration::from_secs(60);

/// Why the agent cannot run, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("the node's name is empty; set NODE_NAME")]
    NoName,
    #[error("the control groups of this host cannot be read")]
    Groups(#[from] TreeError),
    #[error("another agent holds {}; one agent runs on a node", path.display())]
    Locked { path: PathBuf },
    #[error("cannot lock {}", path.display())]
    Lock { path: PathBuf, source: io::Error },
    #[error("cannot start thread {name}")]
    Thread { name: &'static str, source: io::Error },
    #[error("cannot keep what was in kernel files before us")]
    Ledger(#[from] crate::act::switch::SwitchError),
    #[error("part {name} ended unexpectedly")]
    Ended { name: &'static str },
    #[error("{0}")]
    ThreadEnded(ThreadEnd),
}

/// Runs the agent until shutdown.
pub async fn run(
    config: Config,
    client: Client,
    shutdown: CancellationToken,
) -> Result<(), RunError> {
    if config.node_name.is_empty() {
        return Err(RunError::NoName);
    }
    let lock = config.lock.as_deref().map(lock).transpose()?;
    let tree = Tree::find(config.host.clone())?;
    let Some(layout) = find_layout(&config.groups, &tree, &shutdown).await else { return Ok(()) };
    // Ours ends all parts when one of them fails.
    let stop = shutdown.child_token();
    let mut agent = Agent::start(config, client, &tree, layout, stop)?;
    let result = agent.wait().await;
    agent.stop(lock).await;
    result
}

/// Takes the lock, which the kernel gives back when the process ends.
fn lock(path: &Path) -> Result<File, RunError> {
    let failed = |source| RunError::Lock { path: path.to_owned(), source };
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(failed)?;
    }
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(PRIVATE).open(path);
    let file = file.map_err(failed)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(RunError::Locked { path: path.to_owned() }),
        Err(error) => Err(failed(error.into())),
    }
}

/// How the groups of pods are called; `None` when shutdown came first.
async fn find_layout(groups: &Groups, tree: &Tree, shutdown: &CancellationToken) -> Option<Layout> {
    let below = match groups {
        Groups::Known(layout) => return Some(layout.clone()),
        Groups::Find { below } => below,
    };
    let start = Instant::now();
    let layouts =
        [Driver::Systemd, Driver::Cgroupfs].map(|driver| Layout::new(driver).below(below));
    let mut told = false;
    while start.elapsed() < FIND_GROUPS {
        if let Some(found) = layouts.iter().find(|layout| tree.exists(&layout.kubepods())) {
            info!(path = %found.kubepods(), "found the groups of pods");
            return Some(found.clone());
        }
        if !std::mem::replace(&mut told, true) {
            warn!("there are no groups of pods yet: waiting for the kubelet to make them");
        }
        tokio::select! {
            () = shutdown.cancelled() => return None,
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
    }
    warn!("the kubelet made no groups of pods; taking its driver for systemd");
    let [systemd, _] = layouts;
    Some(systemd)
}

#[cfg(test)]
mod tests;
