//! What is there to see?

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use units::Bytes;

use super::Live;
use crate::cgroup::Tree;
use crate::cold;
use crate::fs::HostFs;
use crate::proc::MemInfo;
use crate::psi::Resource;
use crate::topology::{CpuModel, Topology};
use groups::{CgroupPath, Controller, Driver, Layout, Version, scan};

/// The first two numbers of a release; vendors count differently after them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion {
    pub major: u32,
    pub minor: u32,
}

impl KernelVersion {
    /// `6.1.0-18-amd64`
    pub fn parse(release: &str) -> Option<Self> {
        let mut numbers = release.trim().split(|c: char| !c.is_ascii_digit());
        let mut next = || numbers.next()?.parse().ok();
        Some(Self { major: next()?, minor: next()? })
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Everything the requirements are judged by.
#[derive(Debug, Clone)]
pub struct Facts {
    pub release: String,
    pub kernel: Option<KernelVersion>,
    pub cgroups: Option<CgroupFacts>,
    pub host_pressure: bool,
    pub topology: Option<Topology>,
    pub model: Option<CpuModel>,
    pub resctrl_mounted: bool,
    pub kidled: bool,
    pub multi_gen_lru: bool,
    pub sched_ext: bool,
    pub swap: Option<Bytes>,
    pub is_root: bool,
    /// The effective capabilities as a bit mask; `None` when they cannot be read.
    pub capabilities: Option<u64>,
    /// The most open files the process may ask for.
    pub open_files: Option<u64>,
    pub inotify_watches: Option<u64>,
    pub inotify_instances: Option<u64>,
    pub live: Live,
}

/// The control groups as found.
#[derive(Debug, Clone)]
pub struct CgroupFacts {
    pub version: Version,
    pub is_hybrid: bool,
    pub controllers: BTreeSet<Controller>,
    pub driver: Option<Driver>,
    /// Names of the files in the root and in one group below it.
    pub files: BTreeSet<String>,
    /// On v2 the root lacks most files; without a group below nothing can be said.
    pub has_sample: bool,
}

impl Facts {
    pub fn gather(fs: &Arc<dyn HostFs>, live: Live) -> Self {
        let text = |path: &str| {
            let bytes = fs.read(Path::new(path)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).trim().to_owned()
        };
        let number = |path: &str| scan::number(text(path).as_bytes());
        let exists = |path: &str| fs.exists(Path::new(path));
        let release = text("/proc/sys/kernel/osrelease");
        let status = text("/proc/self/status");
        let field = |key: &str| status.lines().find_map(|line| line.strip_prefix(key));
        let topology = Topology::read(&**fs).ok();
        let model = topology.as_ref().and_then(|known| CpuModel::read(&**fs, known).ok());
        let memory = MemInfo::parse(text("/proc/meminfo").as_bytes()).ok();
        Self {
            kernel: KernelVersion::parse(&release),
            release,
            cgroups: Tree::find(Arc::clone(fs)).ok().map(|tree| CgroupFacts::gather(&tree)),
            host_pressure: Resource::ALL.iter().all(|resource| {
                // A kernel with pressure switched off has the files and does not let us read them.
                fs.read(Path::new(resource.host_file())).is_ok()
            }),
            topology,
            model,
            resctrl_mounted: exists("/sys/fs/resctrl/schemata"),
            kidled: cold::is_supported(&**fs),
            multi_gen_lru: !matches!(
                text("/sys/kernel/mm/lru_gen/enabled").as_str(),
                "" | "0x0000"
            ),
            sched_ext: exists("/sys/kernel/sched_ext/state"),
            swap: memory.map(|memory| memory.swap_total),
            is_root: field("Uid:").and_then(|ids| ids.split_whitespace().nth(1)) == Some("0"),
            capabilities: field("CapEff:").and_then(|mask| scan::hex(mask.trim().as_bytes())),
            open_files: open_files(&text("/proc/self/limits")),
            inotify_watches: number("/proc/sys/fs/inotify/max_user_watches"),
            inotify_instances: number("/proc/sys/fs/inotify/max_user_instances"),
            live,
        }
    }

    /// Is there a control group file of this name?
    pub fn has_file(&self, name: &str) -> bool {
        self.cgroups.as_ref().is_some_and(|cgroups| cgroups.files.contains(name))
    }

    pub fn has_capability(&self, bit: u32) -> bool {
        self.capabilities.is_some_and(|mask| mask >> bit & 1 == 1)
    }
}

impl CgroupFacts {
    fn gather(tree: &Tree) -> Self {
        let sample = sample(tree);
        let mut files = BTreeSet::new();
        for group in [Some(CgroupPath::root()), sample.clone()].into_iter().flatten() {
            for dir in tree.dirs(&group) {
                let entries = tree.fs().list(&dir).unwrap_or_default();
                let names = entries.into_iter().filter(|entry| !entry.is_dir);
                files.extend(names.map(|entry| entry.name));
            }
        }
        Self {
            version: tree.version(),
            is_hybrid: tree.is_hybrid(),
            controllers: Controller::ALL.into_iter().filter(|known| tree.has(*known)).collect(),
            driver: tree.driver(),
            files,
            has_sample: sample.is_some() || tree.version() == Version::V1,
        }
    }
}

/// A group to look at: that of the pods, or the first there is.
fn sample(tree: &Tree) -> Option<CgroupPath> {
    let layouts =
        [Layout::new(Driver::Systemd), Layout::new(Driver::Cgroupfs), Layout::one_machine()];
    let pods = layouts.iter().map(Layout::kubepods).find(|group| tree.exists(group));
    pods.or_else(|| {
        let children = tree.children(&CgroupPath::root()).ok()?.value()?;
        children.first().map(|name| CgroupPath::new(name))
    })
}

/// The hard limit: the soft one is raised at start.
fn open_files(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().nth(1)? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_start_with_two_numbers() {
        let cases = [
            ("6.1.0-18-amd64\n", Some((6, 1))),
            ("5.10.134-16.an8.x86_64", Some((5, 10))),
            ("6.18-rc1", Some((6, 18))),
            ("linux", None),
            ("6", None),
            ("", None),
        ];
        for (release, want) in cases {
            let want = want.map(|(major, minor)| KernelVersion { major, minor });
            assert_eq!(KernelVersion::parse(release), want, "{release:?}");
        }
    }

    #[test]
    fn the_hard_limit_counts() {
        let line = |soft, hard| format!("Limit x\nMax open files   {soft}   {hard}   files\n");
        assert_eq!(open_files(&line("1024", "4096")), Some(4_096));
        assert_eq!(open_files(&line("1024", "unlimited")), Some(u64::MAX));
        assert_eq!(open_files("Max processes 1 2"), None);
    }
}
