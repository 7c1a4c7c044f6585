//! Which hierarchies does this host have, and what is in them?
//!
//! The place of the hierarchies is fixed by convention, so files answer: a `cgroup.controllers` at
//! `/sys/fs/cgroup` is v2; otherwise each directory there is a v1 hierarchy named after its
//! controllers (`cpu,cpuacct`, often with links for the single names). A host with v1 controllers beside
//! an empty v2 (hybrid) counts as v1.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use groups::{CgroupPath, Controller, Driver, Knob, KnobError, Layout, Setting, Version};

use super::{CgroupReader, pids};
use crate::Reading;
use crate::error::FileError;
use crate::fs::HostFs;

const ROOT: &str = "/sys/fs/cgroup";
/// Where hybrid hosts mount v2 beside v1.
const HYBRID: &str = "/sys/fs/cgroup/unified";

/// Why there is no tree to look at.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    #[error("no control group hierarchy is mounted at {ROOT}")]
    NotMounted,

    #[error("cannot list {ROOT}")]
    List(#[source] io::Error),
}

/// Why a setting was not written.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    #[error(transparent)]
    Knob(#[from] KnobError),

    #[error(transparent)]
    File(#[from] FileError),
}

/// The host's hierarchies. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Tree {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    fs: Arc<dyn HostFs>,
    hierarchies: Hierarchies,
}

#[derive(Debug)]
enum Hierarchies {
    V1 { mounts: BTreeMap<Controller, PathBuf>, is_hybrid: bool },
    V2 { controllers: Vec<String> },
}

impl Tree {
    /// Looks at what is mounted.
    pub fn find(fs: Arc<dyn HostFs>) -> Result<Self, TreeError> {
        let hierarchies = match fs.read(&Path::new(ROOT).join("cgroup.controllers")) {
            Ok(text) => {
                let text = String::from_utf8_lossy(&text);
                let controllers = text.split_whitespace().map(str::to_owned).collect();
                Hierarchies::V2 { controllers }
            }
            Err(_) => find_v1(&*fs)?,
        };
        Ok(Self { inner: Arc::new(Inner { fs, hierarchies }) })
    }

    pub fn fs(&self) -> &dyn HostFs {
        &*self.inner.fs
    }

    /// The same host, for readers that keep it.
    pub fn shared_fs(&self) -> Arc<dyn HostFs> {
        Arc::clone(&self.inner.fs)
    }

    pub fn version(&self) -> Version {
        match self.inner.hierarchies {
            Hierarchies::V1 { .. } => Version::V1,
            Hierarchies::V2 { .. } => Version::V2,
        }
    }

    /// v1 controllers beside a v2 hierarchy without any.
    pub fn is_hybrid(&self) -> bool {
        matches!(self.inner.hierarchies, Hierarchies::V1 { is_hybrid: true, .. })
    }

    pub fn has(&self, controller: Controller) -> bool {
        match &self.inner.hierarchies {
            Hierarchies::V1 { mounts, .. } => mounts.contains_key(&controller),
            Hierarchies::V2 { controllers } => match controller {
                Controller::Cpuacct | Controller::PerfEvent | Controller::Freezer => true,
                Controller::NetCls => false,
                other => other
                    .v2_name()
                    .is_some_and(|name| controllers.iter().any(|known| known == name)),
            },
        }
    }

    /// The group's directory for a controller; `None` when the host does not have the controller.
    pub fn dir(&self, controller: Controller, group: &CgroupPath) -> Option<PathBuf> {
        match &self.inner.hierarchies {
            Hierarchies::V1 { mounts, .. } => Some(mounts.get(&controller)?.join(group)),
            Hierarchies::V2 { .. } => self.has(controller).then(|| Path::new(ROOT).join(group)),
        }
    }

    /// The group's directory in every hierarchy.
    pub fn dirs(&self, group: &CgroupPath) -> Vec<PathBuf> {
        match &self.inner.hierarchies {
            Hierarchies::V1 { mounts, .. } => {
                let mut dirs: Vec<PathBuf> =
                    mounts.values().map(|mount| mount.join(group)).collect();
                dirs.sort();
                dirs.dedup();
                dirs
            }
            Hierarchies::V2 { .. } => vec![Path::new(ROOT).join(group)],
        }
    }

    /// The directory in which groups are looked for: kubelet makes all of them there.
    pub fn main_dir(&self, group: &CgroupPath) -> PathBuf {
        let preferred = [Controller::Cpu, Controller::Memory, Controller::Cpuset];
        let dir = preferred.into_iter().find_map(|controller| self.dir(controller, group));
        dir.unwrap_or_else(|| Path::new(ROOT).join(group))
    }

    pub fn exists(&self, group: &CgroupPath) -> bool {
        self.fs().exists(&self.main_dir(group))
    }

    /// The names of the groups directly below, sorted.
    pub fn children(&self, group: &CgroupPath) -> Result<Reading<Vec<String>>, FileError> {
        let dir = self.main_dir(group);
        match self.fs().list(&dir) {
            Ok(entries) => {
                let dirs = entries.into_iter().filter(|entry| entry.is_dir);
                Ok(Reading::Value(dirs.map(|entry| entry.name).collect()))
            }
            Err(error) if is_gone(&error) => Ok(Reading::Gone),
            Err(source) => Err(FileError::Read { path: dir, source }),
        }
    }

    /// The processes of a group, not those of the groups below.
    pub fn procs(&self, group: &CgroupPath) -> Result<Reading<Vec<u32>>, FileError> {
        let path = self.main_dir(group).join("cgroup.procs");
        let mut ids = Vec::new();
        match self.fs().read(&path) {
            Ok(text) => match pids::parse_ids(&text, &mut ids) {
                Ok(()) => Ok(Reading::Value(ids)),
                Err(error) => Err(FileError::parse(path, error)),
            },
            Err(error) if is_gone(&error) => Ok(Reading::Gone),
            Err(source) => Err(FileError::Read { path, source }),
        }
    }

    /// A reader of the group's files. Nothing is opened before it is first read.
    pub fn reader(&self, group: CgroupPath) -> CgroupReader {
        CgroupReader::new(self.clone(), group)
    }

    /// Reads a setting as it stands.
    pub fn get(&self, group: &CgroupPath, knob: Knob) -> Result<Reading<Setting>, FileError> {
        Ok(self.get_text(group, knob)?.map(|(_, setting)| setting))
    }

    /// Reads a setting as it stands, and the kernel's own words for it.
    pub fn get_text(
        &self,
        group: &CgroupPath,
        knob: Knob,
    ) -> Result<Reading<(String, Setting)>, FileError> {
        let Some(path) = self.knob_path(group, knob) else { return Ok(Reading::Unsupported) };
        match self.fs().read(&path) {
            Ok(text) => match knob.decode(self.version(), &text) {
                Ok(setting) => {
                    let text = String::from_utf8_lossy(text.trim_ascii_end()).into_owned();
                    Ok(Reading::Value((text, setting)))
                }
                Err(error) => Err(FileError::parse(path, error)),
            },
            Err(error) => self
                .absent(group, &path, &error)
                .ok_or_else(|| FileError::Read { path: path.clone(), source: error }),
        }
    }

    /// Writes a setting, whatever it was before.
    pub fn set(
        &self,
        group: &CgroupPath,
        knob: Knob,
        setting: &Setting,
    ) -> Result<Reading<()>, SetError> {
        let values = knob.encode(self.version(), setting)?;
        let Some(path) = self.knob_path(group, knob) else { return Ok(Reading::Unsupported) };
        for value in values {
            if let Err(source) = self.fs().write(&path, &value) {
                return match self.absent(group, &path, &source) {
                    Some(absent) => Ok(absent),
                    None => Err(FileError::Write { path, value, source }.into()),
                };
            }
        }
        Ok(Reading::Value(()))
    }

    /// Writes a setting in the words in which it was once read, so that nothing is lost in between.
    pub fn set_text(
        &self,
        group: &CgroupPath,
        knob: Knob,
        text: &str,
    ) -> Result<Reading<()>, FileError> {
        let Some(path) = self.knob_path(group, knob) else { return Ok(Reading::Unsupported) };
        // With its newline, because the kernel never sees a write of nothing.
        match self.fs().write(&path, &format!("{text}\n")) {
            Ok(()) => Ok(Reading::Value(())),
            Err(source) => match self.absent(group, &path, &source) {
                Some(absent) => Ok(absent),
                None => Err(FileError::Write { path, value: text.to_owned(), source }),
            },
        }
    }

    fn knob_path(&self, group: &CgroupPath, knob: Knob) -> Option<PathBuf> {
        let file = knob.file(self.version())?;
        Some(self.dir(file.controller, group)?.join(file.name))
    }

    /// Is a failed access no error but an absence?
    pub(super) fn absent<T>(
        &self,
        group: &CgroupPath,
        path: &Path,
        error: &io::Error,
    ) -> Option<Reading<T>> {
        match Errno::from_io_error(error)? {
            Errno::NODEV => Some(Reading::Gone),
            // PSI that is compiled in and switched off, memory files of a controller that is off.
            Errno::OPNOTSUPP => Some(Reading::Unsupported),
            Errno::NOENT => {
                let dir = path.parent().unwrap_or(path);
                // A controller that is not on for this group leaves the others' directories there.
                let is_there = self.fs().exists(dir) || (!group.is_root() && self.exists(group));
                Some(if is_there { Reading::Unsupported } else { Reading::Gone })
            }
            // Some files answer this while their group is being removed.
            Errno::IO if !self.exists(group) => Some(Reading::Gone),
            _ => None,
        }
    }

    /// Makes a group in every hierarchy, ready for processes: on v1 it starts with its parent's CPUs
    /// and memory nodes, on v2 its parent hands down every controller it has.
    pub fn make(&self, group: &CgroupPath) -> Result<(), FileError> {
        if let (Version::V2, Some(parent)) = (self.version(), group.parent()) {
            self.hand_down(&Path::new(ROOT).join(&parent))?;
        }
        for dir in self.dirs(group) {
            match self.fs().make_dir(&dir) {
                Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(FileError::Make { path: dir, source });
                }
                _ => {}
            }
        }
        if self.version() == Version::V1
            && let Some(dir) = self.dir(Controller::Cpuset, group)
        {
            for file in ["cpuset.cpus", "cpuset.mems"] {
                self.inherit(&dir, file)?;
            }
        }
        Ok(())
    }

    fn hand_down(&self, dir: &Path) -> Result<(), FileError> {
        let Ok(controllers) = self.fs().read(&dir.join("cgroup.controllers")) else {
            return Ok(());
        };
        let path = dir.join("cgroup.subtree_control");
        for controller in String::from_utf8_lossy(&controllers).split_whitespace() {
            let value = format!("+{controller}");
            self.fs().write(&path, &value).map_err(|source| FileError::Write {
                path: path.clone(),
                value,
                source,
            })?;
        }
        Ok(())
    }

    fn inherit(&self, dir: &Path, file: &str) -> Result<(), FileError> {
        let (from, to) = (dir.parent().unwrap_or(dir).join(file), dir.join(file));
        let read = |path: &PathBuf| {
            let text = self.fs().read(path);
            text.map_err(|source| FileError::Read { path: path.clone(), source })
        };
        if !read(&to)?.trim_ascii().is_empty() {
            return Ok(());
        }
        let value = String::from_utf8_lossy(read(&from)?.trim_ascii()).into_owned();
        self.fs().write(&to, &value).map_err(|source| FileError::Write { path: to, value, source })
    }

    /// Removes a group without processes or groups below; one that is gone is fine.
    pub fn remove(&self, group: &CgroupPath) -> Result<(), FileError> {
        for dir in self.dirs(group) {
            match self.fs().remove_dir(&dir) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(FileError::Remove { path: dir, source });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Moves a process into a group, in every hierarchy.
    pub fn enter(&self, group: &CgroupPath, pid: u32) -> Result<(), FileError> {
        for dir in self.dirs(group) {
            let (path, value) = (dir.join("cgroup.procs"), pid.to_string());
            if let Err(source) = self.fs().write(&path, &value) {
                return Err(FileError::Write { path, value, source });
            }
        }
        Ok(())
    }

    /// Which driver made the pods' groups here, going by their names; `None` before kubelet did.
    ///
    /// After a change of driver both may be there; kubelet's own configuration then knows better.
    pub fn driver(&self) -> Option<Driver> {
        [Driver::Systemd, Driver::Cgroupfs]
            .into_iter()
            .find(|driver| self.exists(&Layout::new(*driver).kubepods()))
    }
}

fn find_v1(fs: &dyn HostFs) -> Result<Hierarchies, TreeError> {
    let entries = fs.list(Path::new(ROOT)).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => TreeError::NotMounted,
        _ => TreeError::List(error),
    })?;
    let mut mounts = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.is_dir) {
        let dir = Path::new(ROOT).join(&entry.name);
        for controller in Controller::ALL {
            // A single name is a link to the pair, or a hierarchy of its own; both serve.
            let is_named = entry.name.split(',').any(|name| name == controller.name());
            if is_named && fs.exists(&dir.join("cgroup.procs")) {
                mounts.entry(controller).or_insert_with(|| dir.clone());
            }
        }
    }
    if mounts.is_empty() {
        return Err(TreeError::NotMounted);
    }
    let is_hybrid = fs.exists(&Path::new(HYBRID).join("cgroup.controllers"));
    Ok(Hierarchies::V1 { mounts, is_hybrid })
}

/// The directory is not there, or no more.
fn is_gone(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::NODEV))
}
