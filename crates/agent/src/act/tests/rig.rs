//! A machine of sixteen CPUs on which pods come and go and load is what a test says.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use api::protocol::gate::{AgentGate, Gates};
use api::qos::KubeQos;
use groups::{CgroupPath, Driver, Knob, Layout, Version};
use host::Reading;
use host::cgroup::Tree;
use host::cookies::{Cookie, Cookies, FakeCookies};
use host::fs::{Entry, FakeFs, HostFs, Source};
use host::qdisc::{FakeQdiscs, QdiscError, Qdiscs};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node as NodeObject;
use qos::node::{CpuUsage, Node, NodeState, Pods, Settings, State, Usage, next};
use rustix::io::Errno;
use serde_json::{Value, json};
use tempfile::TempDir;
use units::{Bytes, Cpu, CpuMemory};

use super::super::observe;
use super::super::rounds::Inputs;
use super::super::wake::WakeProbe;
use super::super::writer::Devices;
use super::super::{Journal, Ledger, Rounds};
use crate::audit::{self, Audit};
use crate::series::{Measure, Metrics, Store, Subject};
use qos::topology::{self, Machine, NumaNode};

const V1: &str = "\
-- sys/fs/cgroup/cpu,cpuacct/cgroup.procs --
-- sys/fs/cgroup/cpuset/cgroup.procs --
-- sys/fs/cgroup/cpuset/cpuset.cpus --
0-15
-- sys/fs/cgroup/cpuset/cpuset.mems --
0
-- sys/fs/cgroup/memory/cgroup.procs --
";

const V2: &str = "\
-- sys/fs/cgroup/cgroup.controllers --
cpuset cpu io memory pids
-- sys/fs/cgroup/cgroup.subtree_control --
cpuset cpu io memory pids
-- sys/fs/cgroup/cpuset.cpus.effective --
0-15
";

/// A kernel that refuses at random as often as it is told to.
#[derive(Debug)]
pub(super) struct Moody {
    pub(super) fake: FakeFs,
    /// Of a thousand operations.
    pub(super) refuses: AtomicU64,
    seed: AtomicU64,
    pub(super) writes: AtomicU64,
    /// Refuses every change.
    pub(super) is_read_only: AtomicBool,
}

impl Moody {
    fn change(&self) -> io::Result<()> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        if self.is_read_only.load(Ordering::Relaxed) {
            return Err(Errno::ROFS.into());
        }
        self.mood()
    }

    fn mood(&self) -> io::Result<()> {
        let refuses = self.refuses.load(Ordering::Relaxed);
        let mut seed = self.seed.load(Ordering::Relaxed);
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        self.seed.store(seed, Ordering::Relaxed);
        if seed % 1_000 >= refuses {
            return Ok(());
        }
        let errors = [Errno::INVAL, Errno::BUSY, Errno::NODEV, Errno::ACCESS, Errno::NOSPC];
        let which = usize::try_from(seed / 1_000 % 5).unwrap();
        Err(errors[which].into())
    }
}

/// Cookies of such a kernel; whether it has any is not a matter of mood.
#[derive(Debug)]
pub(super) struct MoodyCookies(pub(super) FakeCookies, pub(super) Arc<Moody>);

impl Cookies for MoodyCookies {
    fn probe(&self) -> io::Result<()> {
        self.0.probe()
    }

    fn get(&self, process: u32) -> io::Result<Cookie> {
        self.0.get(process)
    }

    fn create(&self, process: u32) -> io::Result<()> {
        self.1.change()?;
        self.0.create(process)
    }

    fn share(&self, from: u32, to: &[u32]) -> io::Result<Vec<(u32, io::Error)>> {
        self.1.change()?;
        self.0.share(from, to)
    }

    fn clear(&self, processes: &[u32]) -> io::Result<Vec<(u32, io::Error)>> {
        self.1.change()?;
        self.0.clear(processes)
    }
}

/// Its queueing disciplines.
#[derive(Debug)]
pub(super) struct MoodyQdiscs(pub(super) FakeQdiscs, pub(super) Arc<Moody>);

impl MoodyQdiscs {
    fn refused(error: io::Error) -> QdiscError {
        QdiscError::Refused(error.to_string())
    }
}

impl Qdiscs for MoodyQdiscs {
    fn root(&self, device: &str) -> Result<Option<String>, QdiscError> {
        self.1.mood().map_err(Self::refused)?;
        self.0.root(device)
    }

    fn batch(&self, commands: &str) -> Result<(), QdiscError> {
        commands.lines().try_for_each(|line| {
            self.1.change().map_err(Self::refused)?;
            self.0.batch(line)
        })
    }

    fn remove_root(&self, device: &str) -> Result<(), QdiscError> {
        self.1.change().map_err(Self::refused)?;
        self.0.remove_root(device)
    }
}

impl HostFs for Moody {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Source>> {
        self.mood()?;
        self.fake.open(path)
    }

    fn write(&self, path: &Path, value: &str) -> io::Result<()> {
        self.change()?;
        self.fake.write(path, value)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.mood()?;
        self.fake.list(dir)
    }

    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        self.change()?;
        self.fake.make_dir(dir)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.change()?;
        self.fake.remove_dir(dir)
    }

    fn replace_file(&self, path: &Path, text: &str) -> io::Result<()> {
        self.change()?;
        self.fake.replace_file(path, text)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.change()?;
        self.fake.remove_file(path)
    }

    fn exists(&self, path: &Path) -> bool {
        self.fake.exists(path)
    }

    fn real_path(&self, _path: &Path) -> Option<PathBuf> {
        None
    }
}

pub(super) struct Rig {
    pub(super) kernel: Arc<Moody>,
    pub(super) tree: Tree,
    pub(super) layout: Layout,
    pub(super) rounds: Rounds,
    pub(super) journal: Journal,
    pub(super) metrics: Metrics,
    pub(super) now: Duration,
    pub(super) off_by: Option<String>,
    settings: Settings,
    devices: Box<dyn Fn() -> Devices>,
    dir: TempDir,
    pods: BTreeMap<String, Arc<qos::node::Pod>>,
    slo: Value,
    /// Cores in use by pod, and by the system.
    load: BTreeMap<String, f64>,
    system: f64,
    cluster: Option<(Arc<NodeState>, Arc<topology::Topology>)>,
}

/// What a test says about a pod.
pub(super) struct Pod {
    pub(super) name: &'static str,
    pub(super) qos: &'static str,
    /// What Kubernetes makes of it; the usual one of its class when empty.
    pub(super) kube: &'static str,
    pub(super) cpus: &'static str,
    pub(super) resources: Value,
    pub(super) annotations: Value,
}

pub(super) const POD: Pod = Pod {
    name: "pod",
    qos: "LS",
    kube: "",
    cpus: "",
    resources: Value::Null,
    annotations: Value::Null,
};

pub(super) fn suppressing(policy: &str) -> Value {
    json!({ "resourceUsedThresholdWithBE": { "enable": true, "cpuSuppressPolicy": policy } })
}

impl Rig {
    pub(super) fn new(version: Version) -> Self {
        Self::with_gates(version, &[])
    }

    pub(super) fn with_gates(version: Version, gates: &[AgentGate]) -> Self {
        let text = if version == Version::V1 { V1 } else { V2 };
        let fake = FakeFs::from_fixture(text).unwrap();
        let kernel = Arc::new(Moody {
            fake,
            refuses: AtomicU64::new(0),
            seed: AtomicU64::new(0x9e37_79b9_7f4a_7c15),
            writes: AtomicU64::new(0),
            is_read_only: AtomicBool::new(false),
        });
        let tree = Tree::find(kernel.clone()).unwrap();
        let layout = Layout::new(Driver::Cgroupfs);
        for qos in [KubeQos::Guaranteed, KubeQos::Burstable, KubeQos::BestEffort] {
            tree.make(&layout.class(qos)).unwrap();
        }
        let names: Vec<_> = gates.iter().map(|gate| format!("{gate:?}=true")).collect();
        let (gates, errors) = Gates::parse(&names.join(","));
        assert_eq!(errors.len(), 0);
        let settings = Settings { gates, ..Settings::default() };
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::new("n1");
        let rounds = start(&settings, &tree, &layout, &dir, &journal);
        Self {
            kernel,
            tree,
            layout,
            rounds,
            journal,
            metrics: Metrics::new(Store::new(Duration::from_secs(1), 1_000_000)),
            now: Duration::ZERO,
            off_by: None,
            settings,
            devices: Box::new(none),
            dir,
            pods: BTreeMap::new(),
            slo: json!({}),
            load: BTreeMap::new(),
            system: 0.0,
            cluster: None,
        }
    }

    /// The agent dies and a new one takes over.
    pub(super) fn restart(&mut self) {
        self.rounds = start(&self.settings, &self.tree, &self.layout, &self.dir, &self.journal);
        self.rounds.parts().0.use_devices((self.devices)());
    }

    /// With other devices than a fake host has, now and after every restart.
    pub(super) fn use_devices(&mut self, devices: impl Fn() -> Devices + 'static) {
        self.devices = Box::new(devices);
        self.rounds.parts().0.use_devices((self.devices)());
    }

    pub(super) fn use_cookies(&mut self, cookies: &FakeCookies) {
        let cookies = cookies.clone();
        self.use_devices(move || Devices {
            cookies: Box::new(cookies.clone()),
            qdiscs: Box::new(FakeQdiscs::default()),
        });
    }

    pub(super) fn use_probe(&mut self, probe: WakeProbe) {
        *self.rounds.parts().1 = probe;
    }

    /// Where the agent keeps what it has to remember.
    pub(super) fn state(&self) -> &Path {
        self.dir.path()
    }

    /// Devices as the agent has them.
    pub(super) fn devices(&self) -> Devices {
        (self.devices)()
    }

    /// Nothing can be kept in the ledger any more.
    pub(super) fn fill_disk(&mut self) {
        self.rounds.parts().0.fill_disk();
    }

    /// Another hierarchy was mounted.
    pub(super) fn find_tree_again(&mut self) {
        self.tree = Tree::find(self.kernel.clone()).unwrap();
        for qos in [KubeQos::Guaranteed, KubeQos::Burstable, KubeQos::BestEffort] {
            self.tree.make(&self.layout.class(qos)).unwrap();
        }
        self.restart();
    }

    pub(super) fn slo(&mut self, slo: Value) {
        self.slo = slo;
        self.cluster = None;
    }

    /// A pod with one container and a sandbox.
    pub(super) fn add(&mut self, pod: Pod) -> CgroupPath {
        self.add_with(pod, &json!({}), None)
    }

    /// The same, with an address.
    pub(super) fn add_at(&mut self, pod: Pod, address: &str) -> CgroupPath {
        let name = pod.name;
        let group = self.add(pod);
        if let Some(pod) = self.pods.get_mut(name) {
            Arc::make_mut(pod).ip = Some(address.to_owned());
        }
        group
    }

    pub(super) fn add_with(
        &mut self,
        pod: Pod,
        own_labels: &Value,
        priority: Option<i32>,
    ) -> CgroupPath {
        let class = match pod.qos {
            _ if !pod.kube.is_empty() => pod.kube,
            "LSE" | "LSR" => "Guaranteed",
            "BE" => "BestEffort",
            _ => "Burstable",
        };
        let mut annotations = match pod.annotations {
            Value::Object(annotations) => annotations,
            _ => serde_json::Map::new(),
        };
        if !pod.cpus.is_empty() {
            let status = json!({ "cpuset": pod.cpus }).to_string();
            annotations
                .insert("scheduling.koordinator.sh/resource-status".to_owned(), status.into());
        }
        let mut labels = own_labels.clone();
        if !pod.qos.is_empty() {
            labels["koordinator.sh/qosClass"] = pod.qos.into();
        }
        let name = pod.name;
        let object = json!({
            "metadata": { "namespace": "d", "name": name, "uid": name, "labels": labels,
                "annotations": annotations },
            "spec": { "containers": [{ "name": "main", "resources": pod.resources }],
                "priority": priority },
            "status": { "phase": "Running", "qosClass": class, "containerStatuses": [
                { "name": "main", "containerID": format!("containerd://{name}"), "image": "",
                  "imageID": "", "ready": true, "restartCount": 0, "state": { "running": {} } },
            ] },
        });
        let object = serde_json::from_value(object).unwrap();
        let read = qos::node::Pod::read(&object, &self.layout).unwrap();
        let group = read.cgroup.clone();
        for group in [group.clone(), group.child(name), group.child("sandbox")] {
            self.tree.make(&group).unwrap();
        }
        self.pods.insert(name.to_owned(), Arc::new(read));
        self.cluster = None;
        group
    }

    pub(super) fn remove(&mut self, name: &str) {
        let Some(pod) = self.pods.remove(name) else { return };
        let group = pod.cgroup.clone();
        for group in [group.child(name), group.child("sandbox"), group] {
            for dir in self.tree.dirs(&group) {
                self.kernel.fake.remove(&dir);
            }
        }
        self.load.remove(name);
        self.cluster = None;
    }

    pub(super) fn uses(&mut self, name: &str, cores: f64) {
        self.load.insert(name.to_owned(), cores);
    }

    /// A process starts in a pod's container.
    pub(super) fn run_process(&self, pod: &str, process: u32) {
        let group = self.pods[pod].cgroup.child(pod);
        let list = self.tree.main_dir(&group).join("cgroup.procs");
        let before = self.kernel.fake.text(&list).unwrap_or_default();
        let line = if before.is_empty() { before } else { before + "\n" };
        self.kernel.fake.set(list, format!("{line}{process}\n"));
        let threads = match self.tree.version() {
            Version::V1 => "tasks",
            Version::V2 => "cgroup.threads",
        };
        let threads = self.tree.main_dir(&group).join(threads);
        let before = self.kernel.fake.text(&threads).unwrap_or_default();
        let line = if before.is_empty() { before } else { before + "\n" };
        self.kernel.fake.set(threads, format!("{line}{process}\n"));
        self.kernel.fake.set(format!("proc/{process}/stat"), "");
    }

    /// So much time passes that strategies that follow pods are asked.
    pub(super) fn slow_round(&mut self) {
        self.step(Duration::from_secs(11));
    }

    /// A second passes.
    pub(super) fn tick(&mut self) {
        self.step(Duration::from_secs(1));
    }

    pub(super) fn step(&mut self, step: Duration) {
        let before = self.now.as_secs();
        self.now += step;
        if self.now.as_secs() != before {
            self.sample();
        }
        let inputs = self.inputs();
        let at = Timestamp::UNIX_EPOCH + jiff::SignedDuration::try_from(self.now).unwrap();
        self.rounds.tick(self.now, at, &inputs);
    }

    fn sample(&self) {
        let mut store = self.metrics.lock();
        let used: f64 = self.load.values().sum::<f64>() + self.system;
        store.push(Subject::Node, Measure::Cpu, self.now, used);
        for (pod, cores) in &self.load {
            store.push(Subject::Pod(pod), Measure::Cpu, self.now, *cores);
        }
    }

    fn inputs(&mut self) -> Inputs {
        let (state, topology) = match &self.cluster {
            Some(known) => known.clone(),
            None => {
                let new = (Arc::new(self.look()), Arc::new(self.topology()));
                self.cluster = Some(new.clone());
                new
            }
        };
        Inputs {
            state,
            topology: Some(topology),
            metrics: self.metrics.clone(),
            off_by: self.off_by.clone(),
        }
    }

    /// What the next tick will look at, told by the test and not by the machine.
    pub(super) fn values(&mut self) -> State {
        let inputs = self.inputs();
        let now = self.now + Duration::from_secs(1);
        let tier = self.tier();
        let mut machine = qos::node::Machine::default();
        for (name, pod) in &self.pods {
            let below = ["sandbox", name].map(|child| pod.cgroup.child(child));
            let mut below = below.to_vec();
            below.sort();
            machine.children.insert(pod.cgroup.clone(), below);
            if pod.cgroup.parent().as_ref() == Some(&tier) {
                machine.children.entry(tier.clone()).or_default().push(pod.cgroup.clone());
            }
        }
        if let Ok(cpus) = self.cpus(&tier).parse() {
            machine.cpus.insert(tier, cpus);
        }
        let cpu = |cores: f64| CpuUsage { last: Some(cores), mean: None };
        let all = self.load.values().sum::<f64>() + self.system;
        let load = self.load.iter();
        let revision = Arc::as_ptr(&inputs.state).addr() as u64;
        State {
            now,
            revision,
            settings: self.settings.clone(),
            layout: self.layout.clone(),
            kernel: observe::kernel(&self.tree, &self.layout),
            cluster: inputs.state,
            cpus: inputs.topology.map(|topology| topology.cpus.clone()),
            usage: Usage {
                node: cpu(all),
                pods: load.map(|(pod, cores)| (pod.clone(), cpu(*cores))).collect(),
                ..Usage::default()
            },
            machine,
            wake: None,
        }
    }

    fn pods(&self) -> Pods {
        next(&Arc::default(), self.pods.values().map(|pod| (**pod).clone()))
    }

    fn look(&self) -> NodeState {
        let amounts = |cores| CpuMemory {
            cpu: units::MilliCpu::from_cores(cores),
            memory: Bytes::from_gib(64),
        };
        let node = Node { capacity: amounts(16), allocatable: amounts(16), ..Node::default() };
        let spec = serde_json::from_value(self.slo.clone()).unwrap();
        NodeState {
            node: Some(Arc::new(node)),
            slo: Arc::new(api::policy::resolve(Some(&spec), None)),
            pods: self.pods(),
            is_complete: true,
            ..NodeState::default()
        }
    }

    fn topology(&self) -> topology::Topology {
        let cpus = (0..16u16).map(|id| Cpu { id, core: id / 2, socket: 0, numa: 0 });
        let memory = Bytes::from_gib(64);
        let zero = Bytes::ZERO;
        let machine = Machine {
            cpus: cpus.collect(),
            numa: vec![NumaNode { id: 0, memory, huge_2mi: zero, huge_1gi: zero }],
            ..Machine::default()
        };
        topology::compute(&topology::Inputs {
            machine: &machine,
            node: &NodeObject::default(),
            pods: &self.pods(),
            kubelet: None,
            bound: &Default::default(),
            huge_pages: false,
        })
        .unwrap()
    }

    /// What a file says, in its own words.
    pub(super) fn text(&self, group: &CgroupPath, knob: Knob) -> String {
        match self.tree.get_text(group, knob) {
            Ok(Reading::Value((text, _))) => text,
            other => format!("{other:?}"),
        }
    }

    pub(super) fn cpus(&self, group: &CgroupPath) -> String {
        self.text(group, Knob::CpusetCpus)
    }

    pub(super) fn tier(&self) -> CgroupPath {
        self.layout.class(KubeQos::BestEffort)
    }
}

/// A host without core scheduling or network devices.
fn none() -> Devices {
    Devices {
        cookies: Box::new(FakeCookies::refusing(Errno::OPNOTSUPP)),
        qdiscs: Box::new(FakeQdiscs::default()),
    }
}

fn start(
    settings: &Settings,
    tree: &Tree,
    layout: &Layout,
    dir: &TempDir,
    journal: &Journal,
) -> Rounds {
    let ledger = Ledger::open(&dir.path().join("ledger")).unwrap();
    let audit = Audit::new(audit::Settings::default());
    let (settings, layout) = (settings.clone(), layout.clone());
    Rounds::new(settings, tree.clone(), layout, ledger, journal.clone(), audit)
}
