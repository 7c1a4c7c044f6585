//! `tidepool down`: stop what `tidepool up` started.

use std::path::Path;
use std::time::Duration;
use std::{fs, thread};

use anyhow::{Context, bail};
use clap::Args;
use cluster::node;
use rustix::process::{Pid, Signal, kill_process};

use crate::state::{self, StateDir};
use crate::{Outcome, output};

/// Stop the cluster of this machine
///
/// Asks the process that serves the state directory to stop and waits for it. Pods run on until
/// the next `tidepool up` takes them over, or `--purge` ends them.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    state_dir: StateDir,
    /// End all pods and remove the state directory: objects, logs, certificates, kubeconfig
    #[arg(long)]
    purge: bool,
    /// Say what would be done and do nothing
    #[arg(long)]
    dry_run: bool,
}

const EXAMPLES: &str = "\
Examples:
  tidepool down
  tidepool down --purge --dry-run";

/// Long enough for clients to take their last answers.
const PATIENCE: Duration = Duration::from_secs(15);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

impl Arguments {
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        let dir = self.state_dir.resolve()?;
        match state::holder(&dir) {
            Some(pid) if self.dry_run => say(&format!("would stop process {}", raw(pid)))?,
            Some(pid) => {
                stop(&dir, pid)?;
                say(&format!("stopped process {}", raw(pid)))?;
            }
            None => say(&format!("nothing is running in {}", dir.display()))?,
        }
        if self.purge {
            purge(&dir, self.dry_run)?;
        }
        Ok(Outcome::Done)
    }
}

fn say(line: &str) -> anyhow::Result<()> {
    output::print(&format!("{line}\n"))
}

fn raw(pid: Pid) -> i32 {
    pid.as_raw_nonzero().get()
}

/// Done when the process has let go of the state directory.
fn stop(dir: &Path, pid: Pid) -> anyhow::Result<()> {
    kill_process(pid, Signal::TERM).with_context(|| format!("cannot stop process {}", raw(pid)))?;
    let mut waited = Duration::ZERO;
    while state::holder(dir) == Some(pid) {
        if waited >= PATIENCE {
            bail!("process {} has not ended after {} s", raw(pid), PATIENCE.as_secs());
        }
        thread::sleep(LOOK_AGAIN);
        waited += LOOK_AGAIN;
    }
    Ok(())
}

/// Removes only what `up` makes, so that a mistyped directory loses nothing else.
fn purge(dir: &Path, dry_run: bool) -> anyhow::Result<()> {
    let _lock = match dry_run || !dir.exists() {
        true => None,
        // Nobody starts in here meanwhile.
        false => Some(state::lock(dir)?),
    };
    for node in [state::node(dir), state::passing_node(dir)].iter().filter(|node| node.exists()) {
        end_pods(node, dry_run)?;
    }
    let parts = [
        state::store(dir),
        state::credentials(dir),
        state::agent(dir),
        state::console(dir),
        state::kubeconfig(dir),
        state::lock_file(dir),
    ];
    for part in parts.iter().filter(|part| part.exists()) {
        if dry_run {
            say(&format!("would remove {}", part.display()))?;
            continue;
        }
        let removed = if part.is_dir() { fs::remove_dir_all(part) } else { fs::remove_file(part) };
        removed.with_context(|| format!("cannot remove {}", part.display()))?;
        say(&format!("removed {}", part.display()))?;
    }
    if !dry_run && dir.exists() {
        // Not empty means that something of the user's is in there.
        let _ = fs::remove_dir(dir);
    }
    Ok(())
}

/// Ends the pods of a node with their own grace periods, and removes what the node has made.
fn end_pods(node: &Path, dry_run: bool) -> anyhow::Result<()> {
    let pods = match node::pods_left(node) {
        1 => "1 pod".to_owned(),
        count => format!("{count} pods"),
    };
    if dry_run {
        return say(&format!("would end {pods} and remove {}", node.display()));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(node::purge(node))?;
    say(&format!("ended {pods} and removed {}", node.display()))
}
