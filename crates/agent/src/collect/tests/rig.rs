//! A fake machine of four CPUs and two NUMA nodes whose counters a test moves.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::priority::PriorityClass;
use api::qos::{KubeQos, QosClass};
use groups::{CgroupPath, Controller, Version};
use host::cgroup::Tree;
use host::fs::FakeFs;
use qos::node::{Container, ContainerState, HostApplication, Pod, PodPhase, next};
use units::{Bytes, CpuMemory, MilliCpu};

use crate::collect::{CollectSettings, Collector, Meter, MeteredFs};
use crate::series::{Measure, Metrics, Store, Subject};
use qos::node::NodeState;

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const MIB: u64 = 1 << 20;
pub(super) const BOTH: [Version; 2] = [Version::V1, Version::V2];
pub(super) const TIER: &str = "kubepods/besteffort";

/// What a group's counters say.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counters {
    pub(super) usage_ms: u64,
    pub(super) anon: u64,
    pub(super) file: u64,
    pub(super) periods: u64,
    pub(super) throttled: u64,
}

#[derive(Debug)]
pub(super) struct Rig {
    pub(super) fs: FakeFs,
    pub(super) tree: Tree,
    pub(super) meter: Meter,
    pub(super) metrics: Metrics,
    pub(super) collector: Collector,
    pub(super) state: Arc<NodeState>,
    pub(super) now: Duration,
}

impl Rig {
    pub(super) fn new(version: Version) -> Self {
        Self::with(version, CollectSettings::default())
    }

    pub(super) fn with(version: Version, settings: CollectSettings) -> Self {
        let fs = FakeFs::default();
        lay_out(&fs, version);
        let meter = Meter::default();
        let tree = Tree::find(Arc::new(MeteredFs::new(fs.clone(), meter.clone()))).unwrap();
        assert_eq!(tree.version(), version);
        let metrics = Metrics::new(Store::new(settings.usage_interval, settings.max_points));
        let collector = Collector::new(tree.clone(), settings, metrics.clone());
        let rig = Self {
            fs,
            tree,
            meter,
            metrics,
            collector,
            state: Arc::default(),
            now: Duration::ZERO,
        };
        rig.stat(&[0; 4]);
        rig.memory(8_000, 6_000, 4_000);
        for group in ["kubepods", TIER] {
            rig.make(group);
        }
        rig
    }

    /// Busy ticks of each CPU since boot; a CPU with `u64::MAX` is offline.
    pub(super) fn stat(&self, busy: &[u64]) {
        let all: u64 = busy.iter().filter(|ticks| **ticks != u64::MAX).sum();
        let mut text = format!("cpu  {all} 0 0 9 9 0 0 7 0 0\n");
        for (cpu, ticks) in busy.iter().enumerate().filter(|(_, ticks)| **ticks != u64::MAX) {
            writeln!(text, "cpu{cpu} {ticks} 0 0 9 9 0 0 7 0 0").unwrap();
        }
        self.fs.set("/proc/stat", text + "intr 1 2 3\n");
    }

    /// Memory of the node in MiB, half of it on each NUMA node.
    pub(super) fn memory(&self, total: u64, available: u64, free: u64) {
        let kb = |mib: u64| mib * 1024;
        let text = format!(
            "MemTotal: {} kB\nMemFree: {} kB\nMemAvailable: {} kB\n",
            kb(total),
            kb(free),
            kb(available)
        );
        self.fs.set("/proc/meminfo", text);
        for node in 0..2 {
            let lines = [
                ("MemTotal:", total / 2),
                ("MemFree:", free / 2),
                ("Active(file):", (available - free) / 2),
                ("Inactive(file):", 0),
                ("SReclaimable:", 0),
            ];
            let text: String = lines
                .iter()
                .map(|(key, mib)| format!("Node {node} {key} {} kB\n", kb(*mib)))
                .collect();
            self.fs.set(format!("/sys/devices/system/node/node{node}/meminfo"), text);
        }
    }

    /// Makes a control group with those above it.
    pub(super) fn make(&self, group: &str) {
        let path = CgroupPath::new(group);
        if let Some(parent) = path.parent().filter(|parent| !self.tree.exists(parent)) {
            self.make(parent.as_str());
        }
        self.tree.make(&path).unwrap();
    }

    pub(super) fn remove(&self, group: &str) {
        for dir in self.tree.dirs(&CgroupPath::new(group)) {
            self.fs.remove(dir);
        }
    }

    pub(super) fn file(&self, controller: Controller, group: &str, name: &str) -> PathBuf {
        self.tree.dir(controller, &CgroupPath::new(group)).unwrap().join(name)
    }

    /// Sets the counters of a group.
    pub(super) fn count(&self, group: &str, counters: Counters) {
        let Counters { usage_ms, anon, file, periods, throttled } = counters;
        let lists = |prefix: &str, rss: &str, cache: &str| {
            format!(
                "{prefix}{rss} {anon}\n{prefix}{cache} {file}\n{prefix}inactive_anon 0\n\
                 {prefix}active_anon {anon}\n{prefix}inactive_file {file}\n\
                 {prefix}active_file 0\n{prefix}unevictable 0\n"
            )
        };
        let throttling = format!("nr_periods {periods}\nnr_throttled {throttled}\n");
        match self.tree.version() {
            Version::V1 => {
                let usage = self.file(Controller::Cpuacct, group, "cpuacct.usage");
                self.fs.set(usage, format!("{}\n", usage_ms * 1_000_000));
                let stat = self.file(Controller::Cpu, group, "cpu.stat");
                self.fs.set(stat, throttling + "throttled_time 0\n");
                let memory = self.file(Controller::Memory, group, "memory.stat");
                self.fs.set(memory, lists("total_", "rss", "cache"));
                let numa = self.file(Controller::Memory, group, "memory.numa_stat");
                let pages = (anon + file) / 4096;
                self.fs.set(numa, format!("total={pages} N0={pages} N1=0\n"));
            }
            Version::V2 => {
                let stat = self.file(Controller::Cpu, group, "cpu.stat");
                let usage = format!("usage_usec {}\n", usage_ms * 1000);
                self.fs.set(stat, usage + &throttling + "throttled_usec 0\n");
                let memory = self.file(Controller::Memory, group, "memory.stat");
                self.fs.set(memory, lists("", "anon", "file"));
                let numa = self.file(Controller::Memory, group, "memory.numa_stat");
                self.fs.set(numa, format!("anon N0={anon} N1=0\nfile N0={file} N1=0\n"));
            }
        }
    }

    pub(super) fn enter(&mut self, pods: Vec<Pod>) {
        let pods = next(&self.state.pods, pods);
        self.state = Arc::new(NodeState { pods, ..(*self.state).clone() });
    }

    pub(super) fn enter_application(&mut self, name: &str, cgroup: &str) {
        let app = HostApplication {
            name: name.to_owned(),
            priority: Some(PriorityClass::Prod),
            qos: Some(QosClass::Ls),
            cgroup: CgroupPath::new(cgroup),
        };
        let host_applications = Arc::new(vec![app]);
        self.state = Arc::new(NodeState { host_applications, ..(*self.state).clone() });
    }

    /// A second passes and everything that is due is done.
    pub(super) fn step(&mut self) {
        self.pass(SECOND);
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
        self.collector.tick(self.now, &self.state);
    }

    /// The value of this very tick.
    pub(super) fn fresh(&self, subject: Subject<'_>, measure: Measure) -> Option<f64> {
        self.metrics.recent(subject, measure, self.now, Duration::ZERO)
    }

    pub(super) fn assert_fresh(&self, subject: Subject<'_>, measure: Measure, want: f64) {
        let got = self.fresh(subject, measure);
        let is_near = got.is_some_and(|got| (got - want).abs() <= want.abs() * 1e-6 + 1e-6);
        assert!(is_near, "{subject:?} {measure:?}: {got:?} is not {want}");
    }
}

/// A pod with one running container.
pub(super) fn pod(name: &str, class: KubeQos) -> Pod {
    let cgroup = CgroupPath::new(&match class {
        KubeQos::BestEffort => format!("{TIER}/pod{name}"),
        KubeQos::Burstable => format!("kubepods/burstable/pod{name}"),
        KubeQos::Guaranteed => format!("kubepods/pod{name}"),
    });
    let qos = QosClass::from(class);
    Pod {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        uid: name.to_owned(),
        kube_qos: class,
        raw_qos: Some(qos),
        qos,
        priority_class: PriorityClass::from(qos),
        phase: PodPhase::Running,
        batch_requests: CpuMemory { cpu: MilliCpu(1_500), memory: Bytes::from_gib(1) },
        containers: vec![Container {
            name: "main".to_owned(),
            id: format!("containerd://{name}"),
            cgroup: cgroup.child(name),
            state: ContainerState::Running,
        }],
        cgroup,
        ..Pod::default()
    }
}

pub(super) fn container(pod: &Pod) -> &Container {
    &pod.containers[0]
}

/// Lays out the files a kernel has before anyone makes a group.
fn lay_out(fs: &FakeFs, version: Version) {
    match version {
        Version::V1 => {
            for controller in ["cpu", "cpuacct", "cpuset", "memory"] {
                fs.set(format!("/sys/fs/cgroup/{controller}/cgroup.procs"), "1\n");
            }
            fs.set("/sys/fs/cgroup/cpuset/cpuset.cpus", "0-3\n");
            fs.set("/sys/fs/cgroup/cpuset/cpuset.mems", "0-1\n");
        }
        Version::V2 => {
            fs.set("/sys/fs/cgroup/cgroup.procs", "1\n");
            fs.set("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n");
            fs.set("/sys/fs/cgroup/cgroup.subtree_control", "\n");
            fs.set("/sys/fs/cgroup/cpuset.cpus.effective", "0-3\n");
        }
    }
    fs.set("/sys/devices/system/cpu/online", "0-3\n");
    for (node, cpus) in [(0, "0-1\n"), (1, "2-3\n")] {
        fs.set(format!("/sys/devices/system/node/node{node}/cpulist"), cpus);
    }
}
