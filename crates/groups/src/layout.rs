//! Where are the groups of pods, and whose is a given group?
//!
//! | group | systemd driver | cgroupfs driver |
//! |---|---|---|
//! | all pods | `kubepods.slice` | `kubepods` |
//! | a class | `kubepods.slice/kubepods-burstable.slice` | `kubepods/burstable` |
//! | a pod | `.../kubepods-burstable-pod<uid>.slice` | `kubepods/burstable/pod<uid>` |
//! | a container | `.../cri-containerd-<id>.scope` | `<id>` |
//!
//! Guaranteed pods are directly below all pods. systemd reads a dash in a slice's name as a level, so
//! there the dashes of a uid are underscores. Everything may be below a root of its own
//! (`--cgroup-root`, nested kubelets, `tidepool` in one-machine mode), which the systemd driver repeats
//! in each name: `kubelet.slice/kubelet-kubepods.slice`.

use std::fmt;

use api::qos::KubeQos;
use serde::{Deserialize, Serialize};

use crate::{CgroupPath, ContainerId, Runtime};

/// Who names the groups: kubelet's `cgroupDriver`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Driver {
    Cgroupfs,
    Systemd,
}

/// The uid of a pod, with dashes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodUid(String);

impl PodUid {
    pub fn new(uid: impl Into<String>) -> Self {
        Self(uid.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PodUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a group holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Group {
    Kubepods,
    Class(KubeQos),
    Pod {
        qos: KubeQos,
        uid: PodUid,
    },
    /// A container or a sandbox.
    Container {
        qos: KubeQos,
        uid: PodUid,
        /// As named by its scope; the cgroupfs driver does not say.
        runtime: Option<Runtime>,
        /// The id without runtime.
        id: String,
    },
}

/// How the groups of pods are named on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    driver: Driver,
    /// Plain names, without `.slice`.
    root: Vec<String>,
}

impl Layout {
    /// The layout of a kubelet with its defaults.
    pub fn new(driver: Driver) -> Self {
        Self { driver, root: Vec::new() }
    }

    /// The layout of one-machine mode.
    pub fn one_machine() -> Self {
        Self::new(Driver::Cgroupfs).below("tidepool")
    }

    /// Puts everything below a root, given as kubelet's `--cgroup-root` is: `/a/b`.
    #[must_use]
    pub fn below(mut self, root: &str) -> Self {
        self.root = CgroupPath::new(root).parts().map(str::to_owned).collect();
        self
    }

    pub fn driver(&self) -> Driver {
        self.driver
    }

    /// The group around all pods.
    pub fn kubepods(&self) -> CgroupPath {
        self.path(&["kubepods"])
    }

    /// The group around a class; for Guaranteed that of all pods.
    pub fn class(&self, qos: KubeQos) -> CgroupPath {
        match class_name(qos) {
            Some(part) => self.path(&["kubepods", part]),
            None => self.kubepods(),
        }
    }

    pub fn pod(&self, qos: KubeQos, uid: &PodUid) -> CgroupPath {
        let uid = match self.driver {
            Driver::Cgroupfs => format!("pod{uid}"),
            Driver::Systemd => format!("pod{}", uid.0.replace('-', "_")),
        };
        match class_name(qos) {
            Some(part) => self.path(&["kubepods", part, &uid]),
            None => self.path(&["kubepods", &uid]),
        }
    }

    pub fn container(&self, qos: KubeQos, uid: &PodUid, container: &ContainerId) -> CgroupPath {
        let id = container.id();
        let name = match (self.driver, container.runtime().scope_prefix()) {
            (Driver::Systemd, Some(prefix)) => format!("{prefix}{id}.scope"),
            (Driver::Systemd, None) | (Driver::Cgroupfs, _) => id.to_owned(),
        };
        self.pod(qos, uid).child(&name)
    }

    fn path(&self, parts: &[&str]) -> CgroupPath {
        let root = self.root.iter().map(String::as_str);
        let all: Vec<&str> = root.chain(parts.iter().copied()).collect();
        match self.driver {
            Driver::Cgroupfs => CgroupPath::new(&all.join("/")),
            Driver::Systemd => {
                let slices: Vec<String> =
                    (1..=all.len()).map(|end| slice_name(&all, end)).collect();
                CgroupPath::new(&slices.join("/"))
            }
        }
    }

    /// Whose group is this? `None` for groups outside, inside a container, or not of this layout.
    pub fn classify(&self, path: &CgroupPath) -> Option<Group> {
        let rest = path.as_str().strip_prefix(self.kubepods().as_str())?;
        if rest.is_empty() {
            return Some(Group::Kubepods);
        }
        let mut parts = rest.strip_prefix('/')?.split('/');
        let mut part = parts.next()?;
        let mut qos = KubeQos::Guaranteed;
        for class in [KubeQos::Burstable, KubeQos::BestEffort] {
            if self.class(class).name() == Some(part) {
                qos = class;
                part = match parts.next() {
                    Some(next) => next,
                    None => return Some(Group::Class(class)),
                };
                break;
            }
        }
        let uid = self.uid(qos, part)?;
        let Some(name) = parts.next() else { return Some(Group::Pod { qos, uid }) };
        if parts.next().is_some() {
            return None;
        }
        let (runtime, id) = self.container_name(name)?;
        Some(Group::Container { qos, uid, runtime, id: id.to_owned() })
    }

    fn uid(&self, qos: KubeQos, name: &str) -> Option<PodUid> {
        let uid = match self.driver {
            Driver::Cgroupfs => name.strip_prefix("pod")?.to_owned(),
            Driver::Systemd => {
                let class = self.class(qos);
                let prefix = class.name()?.strip_suffix(".slice")?;
                let name = name.strip_suffix(".slice")?.strip_prefix(prefix)?;
                name.strip_prefix("-pod")?.replace('_', "-")
            }
        };
        (!uid.is_empty()).then_some(PodUid(uid))
    }

    fn container_name<'n>(&self, name: &'n str) -> Option<(Option<Runtime>, &'n str)> {
        if self.driver == Driver::Cgroupfs {
            return Some((None, name));
        }
        let of_runtime = |runtime: Runtime| {
            let id = name.strip_prefix(runtime.scope_prefix()?)?;
            // CRI-O names the infra container `crio-<id>` and conmon `crio-conmon-<id>.scope`.
            let id = match (id.strip_suffix(".scope"), runtime) {
                (Some(id), Runtime::CriO) if id.starts_with("conmon-") => return None,
                (Some(id), _) => id,
                (None, Runtime::CriO) => id,
                (None, _) => return None,
            };
            (!id.is_empty()).then_some((Some(runtime), id))
        };
        Runtime::ALL.into_iter().find_map(of_runtime)
    }
}

/// The name of a class's group; Guaranteed has none.
fn class_name(qos: KubeQos) -> Option<&'static str> {
    match qos {
        KubeQos::Guaranteed => None,
        KubeQos::Burstable => Some("burstable"),
        KubeQos::BestEffort => Some("besteffort"),
    }
}

/// The slice at a depth names all levels above it.
fn slice_name(parts: &[&str], end: usize) -> String {
    format!("{}.slice", parts.get(..end).unwrap_or(parts).join("-"))
}
