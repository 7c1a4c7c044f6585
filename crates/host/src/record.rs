//! Writes a real machine down as one text file, for tests.
//!
//! Only what the typed layer reads: a whole `/proc` and `/sys` would be megabytes, and would tell more
//! about the machine than a fixture should. Mounts and names of processes stay out.

use std::path::{Path, PathBuf};

use crate::fs::{FakeFs, HostFs};
use crate::probe::Live;
use groups::{CgroupPath, Driver, Layout};

const FILES: [&str; 24] = [
    "/proc/stat",
    "/proc/meminfo",
    "/proc/loadavg",
    "/proc/vmstat",
    "/proc/swaps",
    "/proc/pressure/cpu",
    "/proc/pressure/memory",
    "/proc/pressure/io",
    "/proc/self/limits",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/perf_event_paranoid",
    "/proc/sys/kernel/sched_group_identity_enabled",
    "/proc/sys/fs/inotify/max_user_watches",
    "/proc/sys/fs/inotify/max_user_instances",
    "/sys/kernel/mm/lru_gen/enabled",
    "/sys/kernel/mm/kidled/scan_period_in_seconds",
    "/sys/kernel/mm/kidled/use_hierarchy",
    "/sys/kernel/sched_ext/state",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/smt/active",
    "/sys/devices/system/cpu/intel_pstate/no_turbo",
    "/sys/devices/system/cpu/cpufreq/boost",
    "/sys/devices/system/node/has_generic_initiator",
    "/sys/fs/cgroup/unified/cgroup.controllers",
];

/// Files of a CPU, of a memory node and of a disk, by the end of their path.
const OF_CPU: [&str; 7] = [
    "topology/core_cpus_list",
    "topology/package_cpus_list",
    "topology/thread_siblings_list",
    "topology/core_siblings_list",
    "/level",
    "/id",
    "/shared_cpu_list",
];
const OF_NODE: [&str; 3] = ["/cpulist", "/meminfo", "/nr_hugepages"];
const OF_DISK: [&str; 3] = ["/dev", "/partition", "/dm/name"];
const OF_RESCTRL: [&str; 11] = [
    "/schemata",
    "/tasks",
    "/cbm_mask",
    "/min_cbm_bits",
    "/num_closids",
    "/min_bandwidth",
    "/bandwidth_gran",
    "/mon_features",
    "/llc_occupancy",
    "/mbm_local_bytes",
    "/mbm_total_bytes",
];
/// Starts of the names of control group files.
const OF_GROUP: [&str; 8] =
    ["cgroup.", "cpu.", "cpuacct.usage", "cpuset.", "memory.", "io.", "blkio.", "pids."];

/// No tree that is recorded is deeper.
const DEPTH: usize = 8;

/// The text of a host, with the answers of its kernel.
pub fn record(fs: &dyn HostFs, live: &Live) -> String {
    let recorder = Recorder { fs, out: FakeFs::default() };
    for file in FILES {
        recorder.file(Path::new(file));
    }
    recorder.lines("/proc/cpuinfo", |line| !line.is_empty(), Some("processor\t: 1"));
    recorder.lines("/proc/self/status", |l| l.starts_with("Uid") || l.starts_with("CapEff"), None);
    recorder.below("/sys/devices/system/cpu", "cpu", &OF_CPU);
    recorder.below("/sys/devices/system/node", "node", &OF_NODE);
    recorder.below("/sys/block", "", &OF_DISK);
    recorder.tree(Path::new("/sys/fs/resctrl"), DEPTH, &|path| ends_with(path, &OF_RESCTRL));
    recorder.groups();
    let (path, answers) = live.to_recording();
    recorder.out.set(path, answers);
    recorder.out.to_fixture()
}

fn ends_with(path: &Path, ends: &[&str]) -> bool {
    path.to_str().is_some_and(|path| ends.iter().any(|end| path.ends_with(end)))
}

struct Recorder<'f> {
    fs: &'f dyn HostFs,
    out: FakeFs,
}

impl Recorder<'_> {
    /// Files that are absent or cannot be read are left out.
    fn file(&self, path: &Path) {
        if let Ok(content) = self.fs.read(path) {
            self.out.set(path, content);
        }
    }

    /// The lines that are wanted, up to the one that ends it.
    fn lines(&self, path: &str, wanted: impl Fn(&str) -> bool, until: Option<&str>) {
        let Ok(content) = self.fs.read(Path::new(path)) else { return };
        let content = String::from_utf8_lossy(&content);
        let lines = content.lines().take_while(|line| Some(*line) != until);
        let kept: String =
            lines.filter(|line| wanted(line)).map(|line| format!("{line}\n")).collect();
        self.out.set(path, kept);
    }

    /// Files below the directories of a numbered kind.
    fn below(&self, dir: &str, prefix: &str, ends: &[&str]) {
        for entry in self.fs.list(Path::new(dir)).unwrap_or_default() {
            let Some(number) = entry.name.strip_prefix(prefix) else { continue };
            if prefix.is_empty() || number.bytes().all(|byte| byte.is_ascii_digit()) {
                let dir = Path::new(dir).join(&entry.name);
                self.tree(&dir, 3, &|path| ends_with(path, ends));
            }
        }
    }

    fn tree(&self, dir: &Path, depth: usize, wanted: &dyn Fn(&Path) -> bool) {
        for entry in self.fs.list(dir).unwrap_or_default() {
            let path = dir.join(&entry.name);
            match entry.is_dir {
                // Links lead round in circles: `device`, `subsystem`, `driver`.
                true if depth > 0 && !self.is_link(&path) => self.tree(&path, depth - 1, wanted),
                true => {}
                false if wanted(&path) => self.file(&path),
                false => {}
            }
        }
    }

    fn is_link(&self, path: &Path) -> bool {
        self.fs.real_path(path).is_some_and(|path| path.is_symlink())
    }

    /// The roots of the hierarchies, and below them the groups of pods or else one group as a sample.
    fn groups(&self) {
        let root = Path::new("/sys/fs/cgroup");
        let is_v2 = self.fs.exists(&root.join("cgroup.controllers"));
        let hierarchies: Vec<PathBuf> = match is_v2 {
            true => vec![root.to_owned()],
            false => {
                let entries = self.fs.list(root).unwrap_or_default();
                let dirs = entries.into_iter().filter(|entry| entry.is_dir);
                dirs.map(|entry| root.join(entry.name)).collect()
            }
        };
        let wanted = |path: &Path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name == "tasks" || OF_GROUP.iter().any(|start| name.starts_with(start))
        };
        for hierarchy in hierarchies {
            self.tree(&hierarchy, 0, &wanted);
            let layouts = [
                Layout::new(Driver::Systemd),
                Layout::new(Driver::Cgroupfs),
                Layout::one_machine(),
            ];
            let mut groups: Vec<CgroupPath> = layouts
                .iter()
                .map(Layout::kubepods)
                .filter(|group| self.fs.exists(&hierarchy.join(group)))
                .collect();
            if groups.is_empty() {
                let entries = self.fs.list(&hierarchy).unwrap_or_default();
                let first = entries.into_iter().find(|entry| entry.is_dir);
                groups.extend(first.map(|entry| CgroupPath::new(&entry.name)));
                groups.iter().for_each(|one| self.tree(&hierarchy.join(one), 0, &wanted));
            } else {
                groups.iter().for_each(|pods| self.tree(&hierarchy.join(pods), DEPTH, &wanted));
            }
        }
    }
}
