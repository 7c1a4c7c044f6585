//! Making, limiting and removing our groups.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use reconcile::error::chain;

use super::kernel::{Kernel, kill_all};
use super::layout::{Layout, V2_CONTROLLERS};
use super::path::{CgroupPath, PodGroup};
use super::setting::{Settings, Version};
use crate::node::resource::QosClass;

/// What could not be done to a control group.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CgroupError {
    #[error("cannot make control group {}", path.display())]
    Make { path: PathBuf, source: io::Error },
    #[error("cannot write {value:?} to {}", path.display())]
    Write { path: PathBuf, value: String, source: io::Error },
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot kill the processes of control group {path}")]
    Kill { path: String, source: io::Error },
    #[error("cannot remove control group {}", path.display())]
    Remove { path: PathBuf, source: io::Error },
}

/// Our tree in the hierarchies of this machine that can be written.
#[derive(Debug, Clone)]
pub(crate) struct Cgroups {
    kernel: Arc<dyn Kernel>,
    layout: Layout,
    root: String,
}

/// Controllers without which a pod is not held to its limits.
const ESSENTIAL: [&str; 3] = ["cpu", "memory", "pids"];

impl Cgroups {
    /// Makes our root wherever that is possible. Controllers that refuse are left out; the second
    /// value says which and why, one sentence each.
    pub(crate) fn found(
        kernel: Arc<dyn Kernel>,
        layout: Option<Layout>,
        root: &str,
    ) -> (Option<Self>, Vec<String>) {
        match layout {
            None => (None, vec!["no control groups are mounted".to_owned()]),
            Some(Layout::V1(mounts)) => Self::found_v1(kernel, &mounts, root),
            Some(Layout::V2(mount)) => Self::found_v2(kernel, mount, root),
        }
    }

    fn found_v1(
        kernel: Arc<dyn Kernel>,
        mounts: &BTreeMap<&'static str, PathBuf>,
        root: &str,
    ) -> (Option<Self>, Vec<String>) {
        let mut missing = Vec::new();
        let mut usable = mounts.clone();
        for (controller, mount) in mounts {
            let one = Layout::V1([(*controller, mount.clone())].into());
            let tree = Self { kernel: kernel.clone(), layout: one, root: root.to_owned() };
            if let Err(error) = tree.make(&CgroupPath::of_group(root, PodGroup::Root)) {
                usable.remove(controller);
                missing.push(format!("{controller}: {}", chain(&error)));
            }
        }
        if let (true, Some(first)) = (usable.is_empty(), missing.first()) {
            // One sentence says it all.
            return (None, vec![format!("no control group can be written: {first}")]);
        }
        for controller in ESSENTIAL.iter().filter(|name| !mounts.contains_key(*name)) {
            missing.push(format!("{controller}: not mounted"));
        }
        missing.sort();
        let found = (!usable.is_empty()).then(|| Self {
            kernel,
            layout: Layout::V1(usable),
            root: root.to_owned(),
        });
        (found, missing)
    }

    fn found_v2(
        kernel: Arc<dyn Kernel>,
        mount: PathBuf,
        root: &str,
    ) -> (Option<Self>, Vec<String>) {
        let tree = Self { kernel, layout: Layout::V2(mount.clone()), root: root.to_owned() };
        if let Err(error) = tree.make(&CgroupPath::of_group(root, PodGroup::Root)) {
            return (None, vec![chain(&error)]);
        }
        let offered = tree.kernel.read(&mount.join(&tree.root).join("cgroup.controllers"));
        let offered = offered.unwrap_or_default();
        let offered: BTreeSet<&str> = offered.split_whitespace().collect();
        let missing = ESSENTIAL
            .iter()
            .filter(|name| !offered.contains(*name))
            .map(|name| format!("{name}: not available to {}", mount.join(root).display()))
            .collect();
        (Some(tree), missing)
    }

    /// The group of a pod.
    pub(crate) fn pod(&self, class: QosClass, uid: &str) -> CgroupPath {
        CgroupPath::of_pod(&self.root, class, uid)
    }

    pub(crate) fn group(&self, group: PodGroup) -> CgroupPath {
        CgroupPath::of_group(&self.root, group)
    }

    /// `v1` or `v2`.
    pub(crate) fn version(&self) -> &'static str {
        match self.layout.version() {
            Version::V1 => "v1",
            Version::V2 => "v2",
        }
    }

    /// The directories of a group, one for each hierarchy.
    pub(crate) fn dirs(&self, path: &CgroupPath) -> Vec<PathBuf> {
        match &self.layout {
            Layout::V1(mounts) => {
                let mounts: BTreeSet<&PathBuf> = mounts.values().collect();
                mounts.into_iter().map(|mount| mount.join(path)).collect()
            }
            Layout::V2(mount) => vec![mount.join(path)],
        }
    }

    /// The file that counts out-of-memory kills of a group.
    pub(crate) fn oom_file(&self, path: &CgroupPath) -> Option<PathBuf> {
        match &self.layout {
            Layout::V1(mounts) => Some(mounts.get("memory")?.join(path).join("memory.oom_control")),
            Layout::V2(mount) => Some(mount.join(path).join("memory.events")),
        }
    }

    /// Makes a group with everything above it, and gives it its settings.
    pub(crate) fn ensure(&self, path: &CgroupPath, settings: &Settings) -> Result<(), CgroupError> {
        self.make(path)?;
        self.set(path, settings)
    }

    /// Writes the settings of a group that exists. Those of controllers that this machine lacks
    /// are skipped; what is missing was reported at the start.
    pub(crate) fn set(&self, path: &CgroupPath, settings: &Settings) -> Result<(), CgroupError> {
        for setting in settings.writes(self.layout.version()) {
            let dir = match &self.layout {
                Layout::V1(mounts) => match mounts.get(setting.controller) {
                    Some(mount) => mount.join(path),
                    None => continue,
                },
                Layout::V2(mount) => mount.join(path),
            };
            let file = dir.join(setting.file);
            match self.kernel.write(&file, &setting.value) {
                Ok(()) => {}
                Err(source)
                    if source.kind() == io::ErrorKind::NotFound
                        && (setting.is_optional || self.lacks(&dir, setting.controller)) => {}
                Err(source) => {
                    let value = setting.value;
                    return Err(CgroupError::Write { path: file, value, source });
                }
            }
        }
        Ok(())
    }

    /// On v2 a group without the controller has none of its files.
    fn lacks(&self, dir: &Path, controller: &str) -> bool {
        let offered = self.kernel.read(&dir.join("cgroup.controllers"));
        offered.is_ok_and(|offered| !offered.split_whitespace().any(|name| name == controller))
    }

    fn make(&self, path: &CgroupPath) -> Result<(), CgroupError> {
        match &self.layout {
            Layout::V1(mounts) => {
                for (controller, mount) in mounts {
                    for path in path.lineage(&self.root) {
                        self.make_dir(&mount.join(&path))?;
                        if *controller == "cpuset" {
                            self.inherit_cpuset(&mount.join(&path))?;
                        }
                    }
                }
            }
            Layout::V2(mount) => {
                for path in path.lineage(&self.root) {
                    let dir = mount.join(&path);
                    if let Some(parent) = dir.parent() {
                        self.delegate(parent);
                    }
                    self.make_dir(&dir)?;
                }
            }
        }
        Ok(())
    }

    fn make_dir(&self, dir: &Path) -> Result<(), CgroupError> {
        self.kernel.make(dir).map_err(|source| CgroupError::Make { path: dir.into(), source })
    }

    /// A new v1 cpuset is empty and takes no process: it starts with what its parent has.
    fn inherit_cpuset(&self, dir: &Path) -> Result<(), CgroupError> {
        for name in ["cpuset.cpus", "cpuset.mems"] {
            let path = dir.join(name);
            let read = |path: &Path| {
                let text = self.kernel.read(path);
                text.map_err(|source| CgroupError::Read { path: path.into(), source })
            };
            if !read(&path)?.trim().is_empty() {
                continue;
            }
            let Some(parent) = dir.parent() else { continue };
            let value = read(&parent.join(name))?.trim().to_owned();
            if let Err(source) = self.kernel.write(&path, &value) {
                return Err(CgroupError::Write { path, value, source });
            }
        }
        Ok(())
    }

    /// Switches the controllers on for the children of a v2 group, each by itself: one that is
    /// refused must not take the others along. What is missing below shows in the child's
    /// `cgroup.controllers`.
    fn delegate(&self, dir: &Path) {
        let control = dir.join("cgroup.subtree_control");
        let read = |path: &Path| self.kernel.read(path).unwrap_or_default();
        let (offered, on) = (read(&dir.join("cgroup.controllers")), read(&control));
        for controller in offered.split_whitespace() {
            let is_on = on.split_whitespace().any(|name| name == controller);
            if V2_CONTROLLERS.contains(&controller) && !is_on {
                let _ = self.kernel.write(&control, &format!("+{controller}"));
            }
        }
    }

    /// Kills whatever runs in a group and below it.
    pub(crate) fn kill(&self, path: &CgroupPath) -> Result<(), CgroupError> {
        kill_all(self.kernel.as_ref(), &self.dirs(path))
            .map_err(|source| CgroupError::Kill { path: path.to_string(), source })
    }

    /// Removes a group and every group below it. A process that is just dying holds its group for
    /// a moment, so a busy one is tried again.
    pub(crate) fn remove(&self, path: &CgroupPath) -> Result<(), CgroupError> {
        for dir in self.dirs(path) {
            self.remove_below(&dir)?;
        }
        Ok(())
    }

    /// Kills what is left of these pods and removes their groups, then those around them unless
    /// somebody else has pods there.
    pub(crate) fn clear(&self, uids: &[String]) -> Result<(), CgroupError> {
        const CLASSES: [QosClass; 3] =
            [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort];
        const INNERMOST_FIRST: [PodGroup; 4] =
            [PodGroup::BestEffort, PodGroup::Burstable, PodGroup::Kubepods, PodGroup::Root];
        for uid in uids {
            for class in CLASSES {
                let pod = self.pod(class, uid);
                self.kill(&pod)?;
                self.remove(&pod)?;
            }
        }
        for group in INNERMOST_FIRST {
            for dir in self.dirs(&self.group(group)) {
                match self.kernel.remove(&dir) {
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
                    Err(source) => return Err(CgroupError::Remove { path: dir, source }),
                    Ok(()) => {}
                }
            }
        }
        Ok(())
    }

    fn remove_below(&self, dir: &Path) -> Result<(), CgroupError> {
        const TRIES: u32 = 100;
        const PAUSE: Duration = Duration::from_millis(10);
        for child in self.kernel.list(dir).unwrap_or_default() {
            self.remove_below(&child)?;
        }
        let mut tries = 0;
        loop {
            match self.kernel.remove(dir) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy && tries < TRIES => {
                    tries += 1;
                    thread::sleep(PAUSE);
                }
                Err(source) => return Err(CgroupError::Remove { path: dir.into(), source }),
            }
        }
    }
}

#[cfg(test)]
mod tests;
