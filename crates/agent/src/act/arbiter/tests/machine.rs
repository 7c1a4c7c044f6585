//! A machine with something to change of every kind, and an arbiter on it that can be killed.

use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use groups::{Setting, Version};
use host::cookies::{Cookie, Cookies, FakeCookies};
use host::fs::{Entry as DirEntry, FakeFs, HostFs, Source};
use host::qdisc::{FakeQdiscs, QdiscError, Qdiscs};
use tempfile::TempDir;

use super::*;

pub(super) const TIER: &str = "kubepods/besteffort";
pub(super) const POD: &str = "kubepods/besteffort/pod1";
pub(super) const OTHER: &str = "kubepods/besteffort/pod2";

const V1: &str = "\
-- sys/fs/cgroup/cpu,cpuacct/cgroup.procs --
-- sys/fs/cgroup/cpuset/cgroup.procs --
-- sys/fs/cgroup/cpuset/cpuset.cpus --
0-7
-- sys/fs/cgroup/cpuset/cpuset.mems --
0
-- sys/fs/cgroup/memory/cgroup.procs --
-- sys/fs/cgroup/freezer/cgroup.procs --
";

const V2: &str = "\
-- sys/fs/cgroup/cgroup.controllers --
cpuset cpu io memory pids
-- sys/fs/cgroup/cgroup.subtree_control --
cpuset cpu io memory pids
-- sys/fs/cgroup/cpuset.cpus.effective --
0-7
";

const REST: &str = "\
-- proc/sys/vm/watermark_scale_factor --
10
-- proc/sys/kernel/sched_group_identity_enabled --
1
-- sys/kernel/mm/kidled/scan_period_in_seconds --
0
-- sys/kernel/mm/kidled/use_hierarchy --
0
-- sys/kernel/debug/sched/features --
GENTLE NO_HRTICK WAKEUP
-- sys/fs/resctrl/schemata --
L3:0=7ff;1=7ff
MB:0=100;1=100
-- sys/fs/resctrl/tasks --
1
11
12
21
-- sys/fs/resctrl/LS/schemata --
L3:0=7f0;1=7f0
MB:0=50;1=50
-- sys/fs/resctrl/LS/tasks --
7
-- var/lib/terway/qos/pod.json --
{}
-- proc/7/stat --
-- proc/11/stat --
-- proc/12/stat --
-- proc/21/stat --
";

/// Counts what is asked of the machine, and refuses or kills when told to.
#[derive(Debug, Default)]
pub(super) struct Fuse {
    pub(super) reads: AtomicUsize,
    /// How many more writes are taken.
    pub(super) writes_left: AtomicUsize,
    /// Kills whoever writes more: before the write, or right after it.
    is_deadly: AtomicBool,
    kills_after: AtomicBool,
}

impl Fuse {
    pub(super) fn refuse_after(&self, writes: usize) {
        self.writes_left.store(writes, Ordering::Relaxed);
    }

    pub(super) fn kill_after(&self, writes: usize, is_after_the_write: bool) {
        self.writes_left.store(writes, Ordering::Relaxed);
        self.is_deadly.store(true, Ordering::Relaxed);
        self.kills_after.store(is_after_the_write, Ordering::Relaxed);
    }

    fn write<T>(&self, write: impl FnOnce() -> T) -> Result<T, io::Error> {
        let left = self.writes_left.load(Ordering::Relaxed);
        if left > 0 {
            self.writes_left.store(left - 1, Ordering::Relaxed);
            return Ok(write());
        }
        if self.is_deadly.load(Ordering::Relaxed) {
            if self.kills_after.load(Ordering::Relaxed) {
                write();
            }
            resume_unwind(Box::new("killed"));
        }
        Err(io::ErrorKind::Interrupted.into())
    }
}

/// The files of the machine.
#[derive(Debug)]
struct Kernel {
    fake: FakeFs,
    fuse: Arc<Fuse>,
}

impl HostFs for Kernel {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Source>> {
        self.fuse.reads.fetch_add(1, Ordering::Relaxed);
        self.fake.open(path)
    }

    fn write(&self, path: &Path, value: &str) -> io::Result<()> {
        self.fuse.write(|| self.fake.write(path, value))?
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.fake.list(dir)
    }

    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        self.fuse.write(|| self.fake.make_dir(dir))?
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.fuse.write(|| self.fake.remove_dir(dir))?
    }

    fn replace_file(&self, path: &Path, text: &str) -> io::Result<()> {
        self.fuse.write(|| self.fake.replace_file(path, text))?
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.fuse.write(|| self.fake.remove_file(path))?
    }

    fn exists(&self, path: &Path) -> bool {
        self.fake.exists(path)
    }

    fn real_path(&self, _path: &Path) -> Option<PathBuf> {
        None
    }
}

#[derive(Debug)]
struct FusedCookies(FakeCookies, Arc<Fuse>);

impl Cookies for FusedCookies {
    fn probe(&self) -> io::Result<()> {
        self.0.probe()
    }

    fn get(&self, process: u32) -> io::Result<Cookie> {
        self.0.get(process)
    }

    fn create(&self, process: u32) -> io::Result<()> {
        self.1.write(|| self.0.create(process))?
    }

    fn share(&self, from: u32, to: &[u32]) -> io::Result<Vec<(u32, io::Error)>> {
        // The kernel takes one process after the other.
        to.iter().try_fold(Vec::new(), |mut failed, to| {
            failed.extend(self.1.write(|| self.0.share(from, &[*to]))??);
            Ok(failed)
        })
    }

    fn clear(&self, processes: &[u32]) -> io::Result<Vec<(u32, io::Error)>> {
        processes.iter().try_fold(Vec::new(), |mut failed, process| {
            failed.extend(self.1.write(|| self.0.clear(&[*process]))??);
            Ok(failed)
        })
    }
}

#[derive(Debug)]
struct FusedQdiscs(FakeQdiscs, Arc<Fuse>);

impl FusedQdiscs {
    fn write<T>(&self, write: impl FnOnce() -> Result<T, QdiscError>) -> Result<T, QdiscError> {
        let refused = |error: io::Error| QdiscError::Refused(error.to_string());
        self.1.write(write).map_err(refused)?
    }
}

impl Qdiscs for FusedQdiscs {
    fn root(&self, device: &str) -> Result<Option<String>, QdiscError> {
        self.0.root(device)
    }

    fn batch(&self, commands: &str) -> Result<(), QdiscError> {
        commands.lines().try_for_each(|line| self.write(|| self.0.batch(line)))
    }

    fn remove_root(&self, device: &str) -> Result<(), QdiscError> {
        self.write(|| self.0.remove_root(device))
    }
}

pub(super) struct Machine {
    pub(super) fuse: Arc<Fuse>,
    pub(super) fake: FakeFs,
    pub(super) cookies: FakeCookies,
    pub(super) qdiscs: FakeQdiscs,
    pub(super) arbiter: Arbiter,
    dir: TempDir,
    /// Seconds.
    pub(super) now: u64,
}

impl Machine {
    pub(super) fn new(version: Version) -> Self {
        let groups = if version == Version::V1 { V1 } else { V2 };
        let fake = FakeFs::from_fixture(&format!("{groups}{REST}")).unwrap();
        let tree = Tree::find(Arc::new(fake.clone())).unwrap();
        let groups = ["kubepods", TIER, POD, OTHER].map(CgroupPath::new);
        for group in &groups {
            tree.make(group).unwrap();
        }
        for group in &groups {
            let cpus = Setting::Cpus("0-7".parse().unwrap());
            tree.set(group, Knob::CpusetCpus, &cpus).unwrap();
        }
        let cookies = FakeCookies::default();
        for (pod, processes) in [(POD, &[11, 12][..]), (OTHER, &[21])] {
            let container = CgroupPath::new(pod).child("main");
            tree.make(&container).unwrap();
            // v2 takes no set of CPUs away from a group with processes.
            let cpus = Setting::Cpus("0-7".parse().unwrap());
            tree.set(&container, Knob::CpusetCpus, &cpus).unwrap();
            let list: String = processes.iter().map(|id| format!("{id}\n")).collect();
            let dir = tree.main_dir(&container);
            fake.set(dir.join("cgroup.procs"), list.clone());
            let threads = if version == Version::V1 { "tasks" } else { "cgroup.threads" };
            fake.set(dir.join(threads), list);
            processes.iter().for_each(|id| cookies.start(*id, 0));
        }
        // Nobody's cookie but a stranger's.
        cookies.start(7, 70);
        let qdiscs = FakeQdiscs::of(&["eth0"]);
        let dir = tempfile::tempdir().unwrap();
        let (fuse, arbiter) = begin(&fake, &cookies, &qdiscs, &dir);
        Self { fuse, fake, cookies, qdiscs, arbiter, dir, now: 0 }
    }

    /// The process dies and is started again.
    pub(super) fn restart(&mut self) {
        (self.fuse, self.arbiter) = begin(&self.fake, &self.cookies, &self.qdiscs, &self.dir);
    }

    pub(super) fn settle(&mut self) -> Vec<Outcome> {
        self.now += 1;
        let changes = self.arbiter.settle(Duration::from_secs(self.now));
        changes.into_iter().map(|change| change.outcome).collect()
    }

    pub(super) fn text(&self, path: &str) -> String {
        self.fake.text(path).unwrap()
    }

    pub(super) fn reads(&self) -> usize {
        self.fuse.reads.swap(0, Ordering::Relaxed)
    }

    /// Everything that can be changed: files, queues and cookies, one a line.
    pub(super) fn show(&self) -> BTreeSet<String> {
        let files = self.fake.to_fixture();
        let files = files.split("-- ").filter_map(|file| file.split_once(" --\n"));
        let file = |(path, text): (&str, &str)| {
            let mut lines: Vec<&str> = text.lines().collect();
            if path.ends_with("/tasks") {
                // A list of threads has no order.
                lines.sort_unstable();
            }
            format!("{path}: {}", lines.join(", "))
        };
        let (queues, cookies) = (self.qdiscs.show(), self.cookies.all());
        let queues = queues.lines().map(|line| format!("queue {line}"));
        let cookies =
            cookies.iter().map(|(process, cookie)| format!("cookie of {process}: {cookie}"));
        files.map(file).chain(queues).chain(cookies).collect()
    }

    /// What is not as it was before.
    pub(super) fn differs(&self, before: &BTreeSet<String>) -> Vec<String> {
        self.show().symmetric_difference(before).cloned().collect()
    }
}

fn begin(
    fake: &FakeFs,
    cookies: &FakeCookies,
    qdiscs: &FakeQdiscs,
    dir: &TempDir,
) -> (Arc<Fuse>, Arbiter) {
    let fuse = Arc::new(Fuse { writes_left: usize::MAX.into(), ..Fuse::default() });
    let kernel = Kernel { fake: fake.clone(), fuse: fuse.clone() };
    let tree = Tree::find(Arc::new(kernel)).unwrap();
    let ledger = Ledger::open(&dir.path().join("ledger")).unwrap();
    let devices = Devices {
        cookies: Box::new(FusedCookies(cookies.clone(), fuse.clone())),
        qdiscs: Box::new(FusedQdiscs(qdiscs.clone(), fuse.clone())),
    };
    (fuse, Arbiter::with_devices(tree, ledger, devices))
}
