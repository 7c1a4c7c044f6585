//! Which control groups are a rig's, and how do they go away?
//!
//! The kubelet puts all pods below one group, which has the name of the rig's folder. Controllers
//! are mounted apart (v1) or all at one place (v2); what is said here holds for both.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

const ROOT: &str = "/sys/fs/cgroup";
/// The kernel takes a moment to end what was killed.
const PATIENCE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(50);

/// The group's name as the kubelet wants it, with a slash in front.
pub(crate) fn name_of(folder: &Path) -> Result<String> {
    let name = folder.file_name().and_then(|name| name.to_str());
    Ok(format!("/{}", name.with_context(|| format!("{} has no name", folder.display()))?))
}

/// Makes the group for every controller.
pub(crate) fn make(name: &str) -> Result<()> {
    for hierarchy in hierarchies() {
        let group = hierarchy.join(name.trim_start_matches('/'));
        fs::create_dir_all(&group).with_context(|| format!("cannot make {}", group.display()))?;
        // A new group of CPUs is empty, and so are all below it.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            let (from, to) = (hierarchy.join(file), group.join(file));
            if from.is_file() {
                fs::copy(&from, &to).with_context(|| format!("cannot write {}", to.display()))?;
            }
        }
        let controllers = hierarchy.join("cgroup.subtree_control");
        if hierarchy == Path::new(ROOT) {
            fs::write(&controllers, "+cpu +cpuset +memory +pids +io")
                .with_context(|| format!("cannot write {}", controllers.display()))?;
        }
    }
    Ok(())
}

/// Removes the group and all below it, once the kernel lets go of it.
pub(crate) fn remove(name: &str) -> Result<()> {
    let groups: Vec<_> = hierarchies()
        .into_iter()
        .map(|hierarchy| hierarchy.join(name.trim_start_matches('/')))
        .collect();
    let start = Instant::now();
    loop {
        let left: Vec<_> = groups.iter().filter(|group| !remove_below(group)).collect();
        let Some(first) = left.first() else { return Ok(()) };
        if start.elapsed() > PATIENCE {
            bail!("{} of a cluster is still in use", first.display());
        }
        thread::sleep(POLL);
    }
}

/// Groups that a rig in this folder may have left.
pub(crate) fn all_with_prefix(prefix: &str) -> Vec<String> {
    let mut found = std::collections::BTreeSet::new();
    for hierarchy in hierarchies() {
        let Ok(entries) = fs::read_dir(&hierarchy) else { continue };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        found.extend(names.filter(|name| name.starts_with(prefix)));
    }
    found.into_iter().collect()
}

/// Whether anybody runs in a group or below it.
pub(crate) fn has_processes(name: &str) -> bool {
    hierarchies()
        .iter()
        .any(|hierarchy| is_populated(&hierarchy.join(name.trim_start_matches('/'))))
}

fn is_populated(group: &Path) -> bool {
    let has_own = fs::read_to_string(group.join("cgroup.procs")).is_ok_and(|pids| !pids.is_empty());
    let children = fs::read_dir(group).into_iter().flatten();
    has_own
        || children
            .filter_map(|entry| Some(entry.ok()?.path()))
            .any(|child| child.is_dir() && is_populated(&child))
}

/// Whether nothing is left of it.
fn remove_below(group: &Path) -> bool {
    if let Ok(entries) = fs::read_dir(group) {
        for child in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            if child.is_dir() {
                remove_below(&child);
            }
        }
    }
    // The files in it are the kernel's and go with it.
    let _ = fs::remove_dir(group);
    !group.exists()
}

/// Where groups are made: one place for all controllers, or one for each.
fn hierarchies() -> Vec<PathBuf> {
    let root = Path::new(ROOT);
    if root.join("cgroup.controllers").is_file() {
        return vec![root.to_owned()];
    }
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| !path.is_symlink() && path.join("cgroup.procs").is_file())
        .collect()
}
