//! Does the typed layer agree with the kernel this runs on, v1 or v2?
//!
//! Needs root and control groups that can be written; says so and skips otherwise, which with `CI=true`
//! is a failure. All groups have a name of their own and are removed at the end, whatever happens. The
//! processes measured are this very binary, started again: it needs no other file, so it also runs as
//! the only program of a virtual machine.
//!
//! `TIDEPOOL_TEST_TOPOLOGY=cpus=8,cores=4,sockets=2,nodes=2` says what the machine is known to have.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use groups::{CgroupPath, Knob, Limit, Setting, Shares, Version};
use host::cgroup::{SetError, Tree};
use host::cookies::{self, Cookies, KernelCookies};
use host::fs::{Buffer, FakeFs, HostFs, Mounts, RealFs};
use host::proc::{NodeReader, ProcessCgroups, SchedStat, Stat};
use host::psi::Resource;
use host::topology::{CpuModel, Topology};
use host::{Reading, perf};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use units::{Bytes, CpuSet};

const ROLE: &str = "TIDEPOOL_TEST_ROLE";
const TOPOLOGY: &str = "TIDEPOOL_TEST_TOPOLOGY";

fn real() -> Arc<dyn HostFs> {
    Arc::new(RealFs::new(Mounts::host()))
}

/// A group of our own, with the processes in it. Both end with the value.
struct Group {
    tree: Tree,
    path: CgroupPath,
    workers: Vec<Worker>,
}

impl Group {
    /// The reason for skipping when there can be no such group.
    fn make() -> Result<Self, String> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        if !rustix::process::geteuid().is_root() {
            return Err("not root".to_owned());
        }
        let tree = Tree::find(real()).map_err(|error| error.to_string())?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = CgroupPath::new(&format!("tidepool-host-{}-{count}", std::process::id()));
        let group = Self { tree, path, workers: Vec::new() };
        match group.tree.make(&group.path) {
            Ok(()) => Ok(group),
            Err(error) => Err(format!("no group can be made: {error}")),
        }
    }

    fn start(&mut self, role: &str) -> &mut Worker {
        let worker = Worker::start(role);
        self.tree.enter(&self.path, worker.child.id()).unwrap();
        self.workers.push(worker);
        self.workers.last_mut().unwrap()
    }

    fn set(&self, knob: Knob, setting: Setting) -> Result<Reading<()>, SetError> {
        self.tree.set(&self.path, knob, &setting)
    }

    fn get(&self, knob: Knob) -> Reading<Setting> {
        self.tree.get(&self.path, knob).unwrap()
    }

    fn end(&mut self) {
        self.workers.clear();
        let limit = Instant::now() + Duration::from_secs(10);
        // A process leaves its group a moment after it was waited for.
        while self.tree.remove(&self.path).is_err() && Instant::now() < limit {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
        let left: Vec<_> =
            self.tree.dirs(&self.path).into_iter().filter(|dir| dir.exists()).collect();
        if !thread::panicking() {
            assert!(left.is_empty(), "still there: {left:?}");
        }
    }
}

/// A process that does something when told, and says what it cost.
struct Worker {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    fn start(role: &str) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "worker", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut worker = Self { child, commands, answers };
        worker.answer("ready");
        worker
    }

    /// Lets it work and returns the CPU time it says it took.
    fn work(&mut self) -> Duration {
        self.commands.write_all(b"go\n").unwrap();
        Duration::from_nanos(self.answer("took").parse().unwrap())
    }

    /// CPU time of all its threads once it is idle. Hearing an order and answering it are not free,
    /// least of all on an emulated processor.
    fn counted(&self) -> Duration {
        let tasks = format!("/proc/{}/task", self.child.id());
        let mut last = Duration::MAX;
        loop {
            let entries = real().list(Path::new(&tasks)).unwrap();
            let ids = entries.iter().map(|entry| entry.name.parse().unwrap());
            let stats = ids.map(|id| SchedStat::read(&*real(), id).unwrap().value().unwrap());
            let now = stats.map(|stat| stat.run).sum();
            if now == last {
                return now;
            }
            last = now;
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn answer(&mut self, word: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.answers.read_line(&mut line).unwrap(), 0, "the worker ended");
            // The test harness prints its own lines around ours.
            if let Some((_, answer)) = line.split_once(&format!("worker: {word}")) {
                return answer.trim().to_owned();
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Not a test of its own: the other side of [`Worker`].
#[test]
fn worker() {
    let Ok(role) = env::var(ROLE) else { return };
    let (verb, amount) = role.split_once(' ').unwrap();
    let amount: u64 = amount.parse().unwrap();
    println!("\nworker: ready");
    let mut held = Vec::new();
    for _command in std::io::stdin().lines() {
        let start = cpu_time();
        match verb {
            "spin" => while cpu_time() - start < Duration::from_millis(amount) {},
            "hold" => {
                let mut block = vec![0_u8; usize::try_from(amount << 20).unwrap()];
                block.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
                held.push(block);
            }
            other => panic!("no worker does {other}"),
        }
        println!("\nworker: took {}", (cpu_time() - start).as_nanos());
    }
    assert!(held.iter().all(|block| block.first() == Some(&1)));
}

fn cpu_time() -> Duration {
    clock_gettime(ClockId::ProcessCPUTime).try_into().unwrap()
}

macro_rules! group_or_skip {
    () => {
        match Group::make() {
            Ok(group) => group,
            Err(reason) => {
                assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "skipped: {reason}");
                println!("skipped: {reason}");
                return;
            }
        }
    };
}

#[test]
fn cpu_time_is_what_the_process_itself_counts() {
    let mut group = group_or_skip!();
    let mut reader = group.tree.reader(group.path.clone());
    let mut buffer = Buffer::new();
    let worker = group.start("spin 1000");
    let start = worker.counted();
    let before = reader.cpu_usage(&mut buffer).unwrap().value().unwrap();
    let spun = worker.work();
    let took = worker.counted() - start;
    let after = reader.cpu_usage(&mut buffer).unwrap().value().unwrap();
    assert!(took >= spun && spun >= Duration::from_secs(1), "{took:?} for {spun:?}");
    let seen = after - before;
    let error = seen.abs_diff(took).as_secs_f64() / took.as_secs_f64();
    assert!(error < 0.02, "the group says {seen:?}, the process {took:?}: {error}");
    let stat = reader.cpu_stat(&mut buffer).unwrap().value().unwrap();
    assert!(stat.usage >= after && stat.throttling.is_some());
}

#[test]
fn memory_is_what_the_process_holds() {
    const MIB: i64 = 96;
    let mut group = group_or_skip!();
    let mut reader = group.tree.reader(group.path.clone());
    let mut buffer = Buffer::new();
    let worker = group.start(&format!("hold {MIB}"));
    let before = reader.memory_stat(&mut buffer).unwrap().value().unwrap().used();
    worker.work();
    let want = Bytes::from_mib(MIB);
    // The kernel sums up what each CPU has counted every two seconds.
    let limit = Instant::now() + Duration::from_secs(10);
    let seen = loop {
        let seen = reader.memory_stat(&mut buffer).unwrap().value().unwrap().used() - before;
        if (seen - want).0.abs() * 100 <= want.0 || Instant::now() > limit {
            break seen;
        }
        thread::sleep(Duration::from_millis(100));
    };
    assert!((seen - want).0.abs() * 100 <= want.0, "the group holds {seen}, the process {want}");
    let usage = reader.memory_usage(&mut buffer).unwrap().value().unwrap();
    assert!(usage >= seen, "usage {usage} has the page cache as well");
    let mut nodes = Vec::new();
    if let Reading::Value(()) = reader.numa_memory(&mut buffer, &mut nodes).unwrap() {
        let sum = nodes.iter().fold(Bytes::ZERO, |sum, node| sum + *node);
        assert!(sum.0 * 100 >= want.0 * 95, "the nodes hold {sum}");
    }
}

#[test]
fn a_quota_throttles_and_is_counted() {
    let mut group = group_or_skip!();
    let mut reader = group.tree.reader(group.path.clone());
    let mut buffer = Buffer::new();
    let quota = Setting::Limit(Limit::At(10_000));
    assert_eq!(group.set(Knob::CfsQuota, quota).unwrap(), Reading::Value(()));
    group.start("spin 100").work();
    let stat = reader.cpu_stat(&mut buffer).unwrap().value().unwrap();
    let throttling = stat.throttling.unwrap();
    assert!(throttling.nr_throttled >= 5, "{throttling:?}");
    assert!(throttling.nr_periods >= throttling.nr_throttled, "{throttling:?}");
    assert!(throttling.throttled > Duration::from_millis(100), "{throttling:?}");
    let max = reader.cpu_max(&mut buffer).unwrap().value().unwrap();
    assert_eq!(max.cpus(), Limit::At(units::MilliCpu(100)));
}

#[test]
fn settings_read_back_as_they_were_written() {
    let group = group_or_skip!();
    let limit = |value| Setting::Limit(Limit::At(value));
    let settings = [
        (Knob::CpuShares, Setting::Shares(Shares::new(2).unwrap())),
        (Knob::CfsQuota, limit(150_000)),
        (Knob::CfsQuota, Setting::Limit(Limit::Max)),
        (Knob::MemoryLimit, limit(64 << 20)),
        (Knob::MemoryLimit, Setting::Limit(Limit::Max)),
        (Knob::CpusetCpus, Setting::Cpus(CpuSet::from_iter([0]))),
        (Knob::MemoryLow, limit(8 << 20)),
        (Knob::MemoryHigh, Setting::Limit(Limit::Max)),
        (Knob::CpuIdle, Setting::Number(1)),
    ];
    let mut written = 0;
    for (knob, setting) in settings {
        match group.set(knob, setting.clone()).unwrap() {
            Reading::Value(()) => {
                assert_eq!(group.get(knob), Reading::Value(setting), "{knob:?}");
                written += 1;
            }
            Reading::Unsupported => println!("{knob:?} is not there"),
            Reading::Gone => panic!("{knob:?}: the group is there"),
        }
    }
    assert!(written >= 6, "only {written} settings could be written");
    assert!(group.set(Knob::CfsQuota, limit(999)).is_err(), "below a millisecond");
    let mut reader = group.tree.reader(group.path.clone());
    let mut buffer = Buffer::new();
    assert_eq!(
        reader.cpus(&mut buffer).unwrap().map(ToString::to_string),
        Reading::Value("0".to_owned())
    );
}

#[test]
fn a_group_that_ends_is_gone_and_never_an_error() {
    let mut group = group_or_skip!();
    let mut kept = group.tree.reader(group.path.clone());
    let mut buffer = Buffer::new();
    let worker = group.start("spin 1");
    worker.work();
    let pid = worker.child.id();
    assert!(kept.cpu_usage(&mut buffer).unwrap().value().unwrap() > Duration::ZERO);
    assert!(kept.memory_stat(&mut buffer).unwrap().value().is_some());
    let mut ids = Vec::new();
    assert_eq!(kept.procs(&mut buffer, &mut ids).unwrap(), Reading::Value(()));
    assert_eq!(ids, [pid]);
    let groups = ProcessCgroups::read(group.tree.fs(), pid).unwrap().value().unwrap();
    let version = group.tree.version();
    assert_eq!(groups.group(version, groups::Controller::Memory), Some(&group.path));
    let scheduled = SchedStat::read(group.tree.fs(), pid).unwrap();
    assert!(scheduled.value().is_none_or(|stat| stat.run > Duration::ZERO));

    group.end();
    let mut late = group.tree.reader(group.path.clone());
    for reader in [&mut kept, &mut late] {
        assert!(reader.cpu_usage(&mut buffer).unwrap().is_gone());
        assert!(reader.cpu_stat(&mut buffer).unwrap().is_gone());
        assert!(reader.memory_stat(&mut buffer).unwrap().is_gone());
        assert!(reader.pressure(Resource::Cpu, &mut buffer).unwrap().is_gone());
    }
    assert!(group.tree.children(&group.path).unwrap().is_gone());
    assert!(group.tree.get(&group.path, Knob::CpuShares).unwrap().is_gone());
    assert!(ProcessCgroups::read(group.tree.fs(), pid).unwrap().is_gone());
}

/// The same writes, one after the other, on the kernel and on a fake: same answers, same text.
#[test]
fn the_fake_host_answers_as_this_kernel_does() {
    let group = group_or_skip!();
    let fake = FakeFs::default();
    let version = group.tree.version();
    let writes: &[(&str, &str)] = match version {
        Version::V1 => &[
            ("cpu/cpu.cfs_quota_us", "999"),
            ("cpu/cpu.cfs_quota_us", "50000"),
            ("cpu/cpu.cfs_burst_us", "50001"),
            ("cpu/cpu.cfs_burst_us", "50000"),
            ("cpu/cpu.cfs_quota_us", "40000"),
            ("cpu/cpu.cfs_burst_us", "0"),
            ("cpu/cpu.cfs_quota_us", "-1"),
            ("cpu/cpu.cfs_period_us", "999"),
            ("cpu/cpu.cfs_period_us", "1000001"),
            ("cpu/cpu.shares", "1"),
            ("cpu/cpu.shares", "300000"),
            ("cpu/cpu.idle", "2"),
            ("cpu/cpu.idle", "1"),
            ("cpu/cpu.shares", "1024"),
            ("cpu/cpu.idle", "0"),
            ("cpuset/cpuset.cpus", "0"),
            ("cpuset/cpuset.cpus", "x"),
            ("memory/memory.limit_in_bytes", "4198400"),
            ("memory/memory.limit_in_bytes", "4194305"),
            ("memory/memory.limit_in_bytes", "-1"),
        ],
        Version::V2 => &[
            ("cpu.max", "999"),
            ("cpu.max", "50000"),
            ("cpu.max.burst", "50001"),
            ("cpu.max.burst", "50000"),
            ("cpu.max", "40000 100000"),
            ("cpu.max.burst", "0"),
            ("cpu.max", "max"),
            ("cpu.max", "-1"),
            ("cpu.max", "50000 999"),
            ("cpu.weight", "0"),
            ("cpu.weight", "10001"),
            ("cpu.idle", "2"),
            ("cpu.idle", "1"),
            ("cpu.weight", "100"),
            ("cpu.idle", "0"),
            ("cpuset.cpus", "0"),
            ("cpuset.cpus", "x"),
            ("memory.max", "4198400"),
            ("memory.max", "4194305"),
            ("memory.max", "max"),
            ("memory.high", "-1"),
        ],
    };
    let root = Path::new("/sys/fs/cgroup");
    let place = |file: &str| match file.split_once('/') {
        Some((controller, file)) => root.join(controller).join(&group.path).join(file),
        None => root.join(&group.path).join(file),
    };
    let real = group.tree.fs();
    // The fake starts with the same files and, for the parent's CPUs, the same root.
    let cpuset = if version == Version::V1 { root.join("cpuset") } else { root.to_owned() };
    for file in ["cgroup.controllers", "cpuset.cpus", "cpuset.cpus.effective"] {
        if let Ok(text) = real.read(&cpuset.join(file)) {
            fake.set(cpuset.join(file), text);
        }
    }
    for dir in group.tree.dirs(&group.path) {
        for entry in real.list(&dir).unwrap() {
            if let Ok(text) = real.read(&dir.join(&entry.name)) {
                fake.set(dir.join(&entry.name), text);
            }
        }
    }
    for (file, value) in writes {
        let path = place(file);
        if !real.exists(&path) {
            println!("{file} is not there");
            continue;
        }
        let answer = |host: &dyn HostFs| {
            let written = host.write(&path, value);
            let errno = written.err().map(|error| Errno::from_io_error(&error));
            let text = host.read(&path).unwrap();
            (errno, String::from_utf8_lossy(text.trim_ascii()).into_owned())
        };
        assert_eq!(answer(&fake), answer(real), "{value:?} to {file}");
    }
}

#[test]
fn the_topology_is_that_of_this_machine() {
    let fs = real();
    let topology = Topology::read(&*fs).unwrap();
    let mut stat = Stat::default();
    let mut node = NodeReader::new(Arc::clone(&fs));
    let mut buffer = Buffer::new();
    node.stat(&mut buffer, &mut stat).unwrap();
    let online: CpuSet = stat.cpus.iter().map(|(cpu, _)| *cpu).collect();
    assert_eq!(topology.cpus.online(), online);
    assert!(topology.cpus.core_count() <= online.len() && topology.cpus.socket_count() >= 1);
    let model = CpuModel::read(&*fs, &topology).unwrap();
    assert_eq!(model.smt_active, topology.cpus.core_count() < online.len());
    let memory = node.memory(&mut buffer).unwrap();
    let mut total = Bytes::ZERO;
    for numa in topology.cpu_nodes() {
        let capacity = node.node_capacity(&topology, numa, &mut buffer).unwrap();
        let counted = node.node_memory(&numa.meminfo, &mut buffer).unwrap().total;
        assert!(counted <= capacity, "{counted} of {capacity} are accepted");
        total += capacity;
    }
    if topology.nodes.iter().all(|numa| !numa.cpus.is_empty()) && !topology.nodes.is_empty() {
        assert_eq!(total, memory.total);
    }
    if let Ok(want) = env::var(TOPOLOGY) {
        let seen = format!(
            "cpus={},cores={},sockets={},nodes={}",
            online.len(),
            topology.cpus.core_count(),
            topology.cpus.socket_count(),
            topology.cpu_nodes().count()
        );
        assert_eq!(seen, want);
    }
}

#[test]
fn hardware_counters_work_or_are_unsupported() {
    let group = group_or_skip!();
    let cpus = Topology::read(&*real()).unwrap().cpus.online();
    let dir = group.tree.dir(groups::Controller::PerfEvent, &group.path);
    match (perf::probe(), dir) {
        (Ok(()), Some(dir)) => {
            let opened = perf::CgroupCounters::open(&dir, &cpus).unwrap();
            if let Reading::Value(counters) = opened {
                assert_eq!(counters.read().unwrap(), perf::Cycles::default(), "an empty group");
            }
        }
        (Ok(()), None) => println!("counters, but no hierarchy for groups"),
        (Err(error), _) => assert!(perf::is_unsupported(&error), "{error}"),
    }
}

/// Either the kernel has cookies, and then processes of ours are given one and lose it again, or it says
/// why not: without hyper-threads or without the option there is nothing to give.
#[test]
fn cookies_are_given_handed_on_and_taken_back_or_unsupported() {
    let kernel = KernelCookies;
    let [one, other, third] = ["spin 1", "spin 1", "spin 1"].map(Worker::start);
    let [one, other, third] = [&one, &other, &third].map(|worker| worker.child.id());
    if let Err(error) = kernel.probe() {
        let errno = Errno::from_io_error(&error);
        assert!(matches!(errno, Some(Errno::INVAL | Errno::NODEV | Errno::PERM)), "{error}");
        assert!(kernel.create(one).is_err(), "what was learned holds");
        println!("unsupported: {error}");
        return;
    }
    let get = |process| kernel.get(process).unwrap();
    kernel.create(one).unwrap();
    kernel.create(third).unwrap();
    assert_eq!(kernel.share(one, &[other]).unwrap().len(), 0);
    let (ours, theirs) = (get(one), get(third));
    assert!(ours != cookies::NONE && theirs != cookies::NONE && ours != theirs);
    assert_eq!(get(other), ours);
    assert_eq!(get(std::process::id()), cookies::NONE, "we keep none of what we hand on");
    assert_eq!(kernel.clear(&[one, other]).unwrap().len(), 0);
    assert_eq!([one, other, third].map(get), [cookies::NONE, cookies::NONE, theirs]);
    let gone = kernel.share(third, &[u32::MAX]).unwrap();
    assert_eq!(gone.len(), 1, "a process that is not there is said and hurts nobody");
}
