//! The directories of pods and containers, as last seen.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A pod or container whose directory came or went.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    PodCame {
        uid: String,
    },
    PodWent {
        uid: String,
    },
    /// `container` is the directory's name.
    ContainerCame {
        uid: String,
        container: String,
    },
    ContainerWent {
        uid: String,
        container: String,
    },
}

/// What is known about the directories below the parents of pods.
#[derive(Debug, Default)]
pub struct Tree {
    parents: BTreeSet<PathBuf>,
    pods: BTreeMap<PathBuf, Pod>,
}

#[derive(Debug)]
struct Pod {
    uid: String,
    containers: BTreeSet<String>,
}

impl Tree {
    pub(super) fn new(parents: &[PathBuf]) -> Self {
        Self { parents: parents.iter().cloned().collect(), pods: BTreeMap::new() }
    }

    pub(super) fn pod_dirs(&self) -> impl Iterator<Item = &Path> {
        self.pods.keys().map(PathBuf::as_path)
    }

    /// Lists everything and gives the differences.
    pub(super) fn read(&mut self, parents: &[PathBuf]) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut present = BTreeSet::new();
        for parent in parents {
            for name in directories(parent) {
                present.insert(parent.join(&name));
                changes.extend(self.came(parent, &name));
            }
        }
        let gone: Vec<PathBuf> =
            self.pods.keys().filter(|dir| !present.contains(*dir)).cloned().collect();
        for dir in gone {
            changes.extend(self.forget(&dir));
        }
        let pods: Vec<PathBuf> = self.pods.keys().cloned().collect();
        for dir in pods {
            changes.extend(self.read_pod(&dir));
        }
        changes
    }

    /// Lists one pod and gives the differences.
    pub(super) fn read_pod(&mut self, dir: &Path) -> Vec<Change> {
        let Some(pod) = self.pods.get_mut(dir) else { return Vec::new() };
        let present: BTreeSet<String> = directories(dir).into_iter().collect();
        let uid = &pod.uid;
        let mut changes: Vec<Change> = present
            .difference(&pod.containers)
            .map(|name| Change::ContainerCame { uid: uid.clone(), container: name.clone() })
            .collect();
        changes.extend(
            pod.containers
                .difference(&present)
                .map(|name| Change::ContainerWent { uid: uid.clone(), container: name.clone() }),
        );
        pod.containers = present;
        changes
    }

    /// A directory appeared in `dir`; `None` when it was known or means nothing.
    pub(super) fn came(&mut self, dir: &Path, name: &str) -> Option<Change> {
        if self.parents.contains(dir) {
            let uid = uid_of(name)?.to_owned();
            let path = dir.join(name);
            if self.pods.contains_key(&path) {
                return None;
            }
            self.pods.insert(path, Pod { uid: uid.clone(), containers: BTreeSet::new() });
            return Some(Change::PodCame { uid });
        }
        let pod = self.pods.get_mut(dir)?;
        let is_new = pod.containers.insert(name.to_owned());
        is_new.then(|| Change::ContainerCame { uid: pod.uid.clone(), container: name.to_owned() })
    }

    /// A directory vanished from `dir`.
    pub(super) fn went(&mut self, dir: &Path, name: &str) -> Vec<Change> {
        if self.parents.contains(dir) {
            return self.forget(&dir.join(name));
        }
        let Some(pod) = self.pods.get_mut(dir) else { return Vec::new() };
        let was_there = pod.containers.remove(name);
        let gone = || Change::ContainerWent { uid: pod.uid.clone(), container: name.to_owned() };
        was_there.then(gone).into_iter().collect()
    }

    fn forget(&mut self, dir: &Path) -> Vec<Change> {
        let Some(pod) = self.pods.remove(dir) else { return Vec::new() };
        let uid = pod.uid;
        let containers = pod.containers.into_iter();
        let mut changes: Vec<Change> = containers
            .map(|container| Change::ContainerWent { uid: uid.clone(), container })
            .collect();
        changes.push(Change::PodWent { uid });
        changes
    }
}

/// Names of the directories in `dir`; none when it is gone or cannot be read.
fn directories(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

/// The pod's uid in a directory's name, in either driver's form.
fn uid_of(name: &str) -> Option<&str> {
    let uid = match name.strip_suffix(".slice") {
        Some(slice) => slice.rsplit_once("-pod")?.1,
        None => name.strip_prefix("pod")?,
    };
    (!uid.is_empty()).then_some(uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_drivers_names_hold_a_uid() {
        let cases = [
            ("pod1234-ab", Some("1234-ab")),
            ("kubepods-pod1234_ab.slice", Some("1234_ab")),
            ("kubepods-besteffort-pod12_ab.slice", Some("12_ab")),
            ("kubepods-burstable.slice", None),
            ("besteffort", None),
            ("pod", None),
            ("cri-containerd-12.scope", None),
        ];
        for (name, want) in cases {
            assert_eq!(uid_of(name), want, "{name}");
        }
    }
}
