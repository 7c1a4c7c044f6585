//! The layout on a directory that behaves like the kernel, and on this machine's kernel.

use std::fs;
use std::sync::Mutex;

use units::{Bytes, MilliCpu};

use super::*;
use crate::node::cgroup::Disk;
use crate::node::resource::Amounts;

/// A hierarchy below a temporary directory: making a group makes its files, a group with children
/// or processes cannot be removed, and a few values are refused.
#[derive(Debug)]
struct Fake {
    version: Version,
    /// Groups whose files cannot be written, by a part of their path.
    refused: Option<&'static str>,
    log: Mutex<Vec<String>>,
}

impl Fake {
    fn files(&self, dir: &Path) -> Vec<(&'static str, String)> {
        let controller = dir.to_string_lossy();
        let has =
            |name: &str| controller.contains(&format!("/{name}/")) || controller.ends_with(name);
        match self.version {
            Version::V1 if has("cpu") => vec![
                ("cgroup.procs", String::new()),
                ("cpu.shares", "1024".into()),
                ("cpu.cfs_quota_us", "-1".into()),
                ("cpu.cfs_period_us", "100000".into()),
            ],
            Version::V1 if has("memory") => vec![
                ("cgroup.procs", String::new()),
                ("memory.limit_in_bytes", "9223372036854771712".into()),
                ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n".into()),
            ],
            Version::V1 if has("cpuset") => vec![
                ("cgroup.procs", String::new()),
                ("cpuset.cpus", String::new()),
                ("cpuset.mems", String::new()),
            ],
            Version::V1 => vec![("cgroup.procs", String::new()), ("pids.max", "max".into())],
            Version::V2 => {
                let parent = dir.parent().map(|dir| dir.join("cgroup.subtree_control"));
                let offered = parent.and_then(|file| fs::read_to_string(file).ok());
                let offered = offered.unwrap_or_default();
                let mut files = vec![
                    ("cgroup.procs", String::new()),
                    ("cgroup.controllers", offered.clone()),
                    ("cgroup.subtree_control", String::new()),
                ];
                if offered.contains("cpu") {
                    files.push(("cpu.weight", "100".into()));
                    files.push(("cpu.max", "max 100000".into()));
                }
                if offered.contains("memory") {
                    files.push(("memory.max", "max".into()));
                    files.push(("memory.swap.max", "max".into()));
                    files.push(("memory.oom.group", "0".into()));
                }
                files
            }
        }
    }
}

impl Kernel for Fake {
    fn read(&self, path: &Path) -> io::Result<String> {
        fs::read_to_string(path)
    }

    fn write(&self, path: &Path, value: &str) -> io::Result<()> {
        if !path.exists() {
            return Err(io::ErrorKind::NotFound.into());
        }
        if path.ends_with("cgroup.subtree_control") {
            let name = value.strip_prefix('+').ok_or(io::ErrorKind::InvalidInput)?;
            let on = fs::read_to_string(path)?;
            fs::write(path, format!("{on} {name}"))?;
            return Ok(());
        }
        if path.ends_with("cpu.cfs_quota_us") && value.parse::<i64>().is_ok_and(|us| us < 1_000) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.log.lock().unwrap().push(format!("{}={value}", path.display()));
        fs::write(path, value)
    }

    fn make(&self, dir: &Path) -> io::Result<()> {
        if self.refused.is_some_and(|part| dir.to_string_lossy().contains(part)) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        if dir.exists() {
            return Ok(());
        }
        fs::create_dir(dir)?;
        for (name, content) in self.files(dir) {
            fs::write(dir.join(name), content)?;
        }
        Ok(())
    }

    fn remove(&self, dir: &Path) -> io::Result<()> {
        if !dir.exists() {
            return Ok(());
        }
        if !self.list(dir)?.is_empty() || !self.read(&dir.join("cgroup.procs"))?.is_empty() {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        fs::remove_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        Disk.list(dir)
    }
}

fn v1(dir: &Path, refused: Option<&'static str>) -> (Option<Cgroups>, Vec<String>) {
    let mounts = ["cpu", "memory", "cpuset", "pids"].map(|name| (name, dir.join(name)));
    for (_, mount) in &mounts {
        fs::create_dir(mount).unwrap();
    }
    fs::write(dir.join("cpuset/cpuset.cpus"), "0-3\n").unwrap();
    fs::write(dir.join("cpuset/cpuset.mems"), "0\n").unwrap();
    let kernel = Fake { version: Version::V1, refused, log: Mutex::default() };
    Cgroups::found(Arc::new(kernel), Some(Layout::V1(mounts.into())), "tidepool")
}

fn v2(dir: &Path, controllers: &str) -> (Option<Cgroups>, Vec<String>) {
    fs::write(dir.join("cgroup.controllers"), controllers).unwrap();
    fs::write(dir.join("cgroup.subtree_control"), "").unwrap();
    let kernel = Fake { version: Version::V2, refused: None, log: Mutex::default() };
    Cgroups::found(Arc::new(kernel), Some(Layout::V2(dir.to_owned())), "tidepool")
}

fn burstable() -> Amounts {
    Amounts {
        cpu_request: MilliCpu(250),
        cpu_limit: Some(MilliCpu(500)),
        memory_request: Bytes(1 << 20),
        memory_limit: Some(Bytes(8 << 20)),
    }
}

#[test]
fn a_pod_on_v1_is_in_every_hierarchy() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, missing) = v1(dir.path(), None);
    let tree = tree.unwrap();
    assert_eq!(missing, Vec::<String>::new());

    let pod = tree.pod(QosClass::Burstable, "u-1");
    tree.ensure(&pod, &Settings::of_pod(&burstable(), None)).unwrap();
    let container = pod.child("c1");
    tree.ensure(&container, &Settings::of_container(&burstable())).unwrap();

    let read = |path: &str| {
        let path = dir.path().join(path.replace('@', "tidepool/kubepods/burstable/podu-1/c1"));
        fs::read_to_string(path).unwrap()
    };
    assert_eq!(read("cpu/@/cpu.shares"), "256");
    assert_eq!(read("cpu/@/cpu.cfs_quota_us"), "50000");
    assert_eq!(read("memory/@/memory.limit_in_bytes"), "8388608");
    assert_eq!(
        (read("cpuset/@/cpuset.cpus"), read("cpuset/@/cpuset.mems")),
        ("0-3".into(), "0".into())
    );
    assert_eq!(read("pids/@/pids.max"), "max");
    assert_eq!(tree.dirs(&container).len(), 4);
    assert!(tree.oom_file(&container).unwrap().ends_with("memory.oom_control"));

    tree.remove(&pod).unwrap();
    assert!(!dir.path().join("cpu/tidepool/kubepods/burstable/podu-1").exists());
    assert!(dir.path().join("cpu/tidepool/kubepods/burstable").exists());
    tree.remove(&pod).unwrap();
}

#[test]
fn a_pod_on_v2_gets_the_controllers_switched_on_all_the_way_down() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, missing) = v2(dir.path(), "cpuset cpu io memory pids rdma\n");
    let tree = tree.unwrap();
    assert_eq!(missing, Vec::<String>::new());

    let container = tree.pod(QosClass::Guaranteed, "u-2").child("c2");
    tree.ensure(&container, &Settings::of_container(&burstable())).unwrap();
    let group = dir.path().join("tidepool/kubepods/podu-2/c2");
    let read = |name: &str| fs::read_to_string(group.join(name)).unwrap();
    assert_eq!(read("cpu.weight"), weight_of(256));
    assert_eq!(read("cpu.max"), "50000 100000");
    assert_eq!(read("memory.max"), "8388608");
    assert_eq!(read("memory.swap.max"), "0");
    assert_eq!(read("memory.oom.group"), "1");
    assert!(
        !fs::read_to_string(dir.path().join("cgroup.subtree_control")).unwrap().contains("rdma")
    );
    assert!(tree.oom_file(&container).unwrap().ends_with("memory.events"));
}

fn weight_of(shares: u64) -> String {
    crate::node::cgroup::weight(shares).to_string()
}

#[test]
fn controllers_that_refuse_are_named_and_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, missing) = v1(dir.path(), Some("memory"));
    let tree = tree.unwrap();
    assert_eq!(missing.len(), 1, "{missing:?}");
    assert!(missing[0].starts_with("memory: cannot make control group"), "{missing:?}");
    assert!(missing[0].ends_with("permission denied"), "{missing:?}");
    tree.ensure(&tree.pod(QosClass::BestEffort, "u"), &Settings::of_pod(&burstable(), None))
        .unwrap();
    assert!(tree.oom_file(&tree.group(PodGroup::Kubepods)).is_none());

    let dir = tempfile::tempdir().unwrap();
    let (tree, missing) = v2(dir.path(), "cpu\n");
    assert_eq!(missing.len(), 2, "{missing:?}");
    let tree = tree.unwrap();
    tree.ensure(&tree.pod(QosClass::BestEffort, "u"), &Settings::of_pod(&burstable(), None))
        .unwrap();

    let (tree, missing) = Cgroups::found(Arc::new(Disk), None, "tidepool");
    assert!(tree.is_none());
    assert_eq!(missing, ["no control groups are mounted"]);
}

#[test]
fn a_value_the_kernel_refuses_is_an_error_with_file_and_value() {
    let dir = tempfile::tempdir().unwrap();
    let tree = v1(dir.path(), None).0.unwrap();
    let pod = tree.pod(QosClass::Burstable, "u");
    tree.make(&pod).unwrap();
    fs::remove_file(dir.path().join("cpu").join(&pod).join("cpu.shares")).unwrap();
    let error = tree.set(&pod, &Settings::weighing(MilliCpu(1_000))).unwrap_err();
    assert!(error.to_string().starts_with("cannot write \"1024\" to"), "{error}");
    assert!(error.to_string().ends_with("cpu.shares"), "{error}");
}

#[test]
fn a_group_with_processes_is_not_removed() {
    let dir = tempfile::tempdir().unwrap();
    let tree = v1(dir.path(), None).0.unwrap();
    let pod = tree.pod(QosClass::Burstable, "u");
    tree.make(&pod).unwrap();
    fs::write(dir.path().join("cpu").join(&pod).join("cgroup.procs"), "1\n").unwrap();
    assert!(matches!(tree.remove(&pod), Err(CgroupError::Remove { .. })));
}
