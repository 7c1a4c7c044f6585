//! Who cleans up after a cluster, even when its user was killed?
//!
//! ```text
//! xtask ──leash──> keeper ──leash──> first process of the namespaces ──> everything else
//! ```
//!
//! The keeper is in a process group of its own and outlives its user for as long as it takes to
//! end the namespaces and to remove control groups and files. When the keeper itself is killed, the
//! namespaces end all the same, and what is left of them is removed by whoever starts the next rig.

use std::{
    env, fs,
    io::Read,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use anyhow::{Context, Result};

use super::{
    cgroups,
    world::{Parts, note},
};

/// In the rig's folder: the keeper's process, and the first of the namespaces as others see it.
pub(crate) const KEEPER: &str = "keeper-pid";
pub(crate) const INIT: &str = "init-pid";
/// Every rig's folder, and its control group, is named so.
pub(crate) const PREFIX: &str = "tidepool-kube-";

const POLL: Duration = Duration::from_millis(20);

/// Runs a rig until its user or its first process is gone, and leaves nothing of it behind.
pub(crate) fn keep(folder: &Path, parts: Parts, detached: bool) -> Result<()> {
    claim(folder)?;
    let ended = run(folder, parts, detached);
    let swept = sweep(folder);
    ended.and(swept)
}

/// Notes that this process sees to the folder.
pub(crate) fn claim(folder: &Path) -> Result<()> {
    note(folder, KEEPER, &std::process::id().to_string())
}

fn run(folder: &Path, parts: Parts, detached: bool) -> Result<()> {
    let mut child = Command::new("unshare")
        .args(["--net", "--pid", "--mount", "--fork", "--kill-child"])
        .arg(env::current_exe().context("where am I?")?)
        .args(["kube", "init", "--parts", parts.name()])
        .arg(folder)
        .stdin(Stdio::piped())
        .spawn()
        .context("cannot run unshare; is util-linux installed?")?;
    let leash = child.stdin.take();
    let (send, gone) = mpsc::channel();
    if !detached {
        thread::spawn(move || {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            let _ = send.send(());
        });
    }
    let mut is_noted = false;
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for the namespaces")? {
            drop(leash);
            anyhow::ensure!(status.success(), "the first process of the namespaces: {status}");
            return Ok(());
        }
        if !is_noted && let Some(init) = child_of(child.id()) {
            note(folder, INIT, &init.to_string())?;
            is_noted = true;
        }
        if gone.recv_timeout(POLL) == Ok(()) {
            drop(leash);
            child.wait().context("cannot wait for the namespaces")?;
            return Ok(());
        }
    }
}

/// The process whose parent is this one.
fn child_of(parent: u32) -> Option<u32> {
    let processes = fs::read_dir("/proc").ok()?;
    processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .find(|pid| parent_of(*pid) == Some(parent))
}

/// The fourth field; the second is a name in parentheses that may hold anything.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

/// Removes what rigs whose keeper was killed have left.
pub(crate) fn sweep_stale() -> Result<()> {
    for name in cgroups::all_with_prefix(PREFIX) {
        let folder = place(&name);
        if !is_kept(&folder) {
            println!("removing what is left of {name}");
            sweep(&folder)?;
        }
    }
    let Ok(entries) = fs::read_dir(env::temp_dir()) else { return Ok(()) };
    for folder in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(PREFIX) && !is_kept(&folder) {
            println!("removing what is left of {name}");
            sweep(&folder)?;
        }
    }
    Ok(())
}

/// Where the rig of that name has its files.
pub(crate) fn place(name: &str) -> PathBuf {
    env::temp_dir().join(name)
}

/// Whether its keeper, or who fills it before that, lives.
pub(crate) fn is_kept(folder: &Path) -> bool {
    let pid = fs::read_to_string(folder.join(KEEPER)).unwrap_or_default();
    // A process of another program has been given the number of one that is gone.
    let program = fs::read_link(format!("/proc/{}/exe", pid.trim())).unwrap_or_default();
    program.file_name() == env::current_exe().unwrap_or_default().file_name()
}

fn sweep(folder: &Path) -> Result<()> {
    cgroups::remove(&cgroups::name_of(folder)?)?;
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}
