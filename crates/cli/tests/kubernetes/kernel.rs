//! What the kernel's files of real pods say.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use api::qos::KubeQos;
use groups::{CgroupPath, ContainerId, Driver, Knob, Layout, PodUid};
use host::Reading;
use host::cgroup::Tree;
use host::fs::{Mounts, RealFs};
use serde_json::Value;

use crate::rig::Rig;

/// The control groups below the rig's root.
pub(crate) struct Kernel {
    pub(crate) tree: Tree,
    pub(crate) layout: Layout,
    root: CgroupPath,
}

impl Kernel {
    pub(crate) fn of(rig: &Rig) -> Self {
        let root = rig.cgroup_root();
        Self {
            tree: Tree::find(Arc::new(RealFs::new(Mounts::host()))).unwrap(),
            layout: Layout::new(Driver::Cgroupfs).below(&root),
            root: CgroupPath::new(&root),
        }
    }

    /// The group of a pod.
    pub(crate) fn pod(&self, pod: &Value) -> CgroupPath {
        self.layout.pod(qos(pod), &uid(pod))
    }

    /// The group of a pod's first container, as the kubelet names it now.
    pub(crate) fn container(&self, pod: &Value) -> Result<CgroupPath, String> {
        let id = pod["status"]["containerStatuses"][0]["containerID"].as_str();
        let id = id.ok_or("the pod has no container yet")?;
        let id: ContainerId = id.parse().map_err(|error| format!("{id}: {error}"))?;
        Ok(self.layout.container(qos(pod), &uid(pod), &id))
    }

    pub(crate) fn best_effort(&self) -> CgroupPath {
        self.layout.class(KubeQos::BestEffort)
    }

    /// A setting in the kernel's own words.
    pub(crate) fn text(&self, group: &CgroupPath, knob: Knob) -> Result<String, String> {
        match self.tree.get_text(group, knob) {
            Ok(Reading::Value((text, _))) => Ok(text),
            Ok(other) => Err(format!("{group} {knob:?}: {other:?}")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The processes of a group.
    pub(crate) fn processes(&self, group: &CgroupPath) -> Vec<u32> {
        match self.tree.procs(group) {
            Ok(Reading::Value(ids)) => ids,
            _ => Vec::new(),
        }
    }

    /// All groups below one, innermost first, and itself.
    pub(crate) fn below(&self, group: &CgroupPath) -> Vec<CgroupPath> {
        let mut all = Vec::new();
        if let Ok(Reading::Value(names)) = self.tree.children(group) {
            for name in names {
                all.extend(self.below(&group.child(&name)));
            }
        }
        all.push(group.clone());
        all
    }

    /// Every setting of a group and of all below it: path and value.
    pub(crate) fn settings(&self, group: &CgroupPath) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for dir in self.tree.dirs(group) {
            collect(&dir, &mut found);
        }
        found
    }

    /// Every setting of every pod.
    pub(crate) fn all_settings(&self) -> BTreeMap<String, String> {
        self.settings(&self.root)
    }
}

/// Files that can be written but hold no setting: members, counters and levers.
const NO_SETTINGS: [&str; 12] = [
    "tasks",
    "cgroup.procs",
    "cgroup.event_control",
    "cgroup.kill",
    "cpuacct.usage",
    "reset_stats",
    "failcnt",
    "max_usage_in_bytes",
    "force_empty",
    "pressure",
    "memory.reclaim",
    "rsvd.max_usage",
];

fn collect(dir: &Path, found: &mut BTreeMap<String, String>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if metadata.is_dir() {
            collect(&path, found);
            continue;
        }
        let is_setting = metadata.permissions().mode() & 0o200 != 0
            && !NO_SETTINGS.iter().any(|end| name.ends_with(end) || name.contains(end));
        if is_setting && let Ok(text) = fs::read_to_string(&path) {
            found.insert(path.display().to_string(), text.trim_end().to_owned());
        }
    }
}

/// What differs, one line each; empty when nothing does.
pub(crate) fn difference(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> String {
    let paths = before.keys().chain(after.keys().filter(|path| !before.contains_key(*path)));
    let differs = paths.filter(|path| before.get(*path) != after.get(*path));
    differs
        .map(|path| format!("{path}: {:?}, now {:?}\n", before.get(path), after.get(path)))
        .collect()
}

fn uid(pod: &Value) -> PodUid {
    PodUid::new(pod["metadata"]["uid"].as_str().unwrap_or_default())
}

fn qos(pod: &Value) -> KubeQos {
    match pod["status"]["qosClass"].as_str() {
        Some("Guaranteed") => KubeQos::Guaranteed,
        Some("Burstable") => KubeQos::Burstable,
        _ => KubeQos::BestEffort,
    }
}
