//! Acting on a real kernel: what is written is taken, what was found comes back, and a process that is
//! killed in between leaves nothing that the next one cannot put right.

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use agent::act::rounds::Inputs;
use agent::act::{Journal, Ledger, Rounds, Settings};
use agent::audit::{self, Audit};
use agent::series::{Measure, Metrics, StorageInfo, Store, Subject};
use agent::topology::machine;
use api::protocol::gate::Gates;
use api::qos::KubeQos;
use groups::Disk;
use groups::{CgroupPath, Driver, Knob, Layout, Setting, Version};
use host::Reading;
use host::block;
use host::cgroup::Tree;
use host::fs::{Mounts, RealFs};
use host::topology::Topology;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node as NodeObject;
use qos::node::NodeState;
use qos::node::{Node, Pod};
use qos::topology;
use serde_json::{Value, json};
use testkit::wait::until_blocking;
use units::{Bytes, CpuMemory, CpuSet, MilliCpu};

use crate::sandbox::Sandbox;
use crate::sandbox_or_skip;
use crate::workload::Workload;

/// Everything the strategies may touch.
const KNOBS: [Knob; 11] = [
    Knob::CpuShares,
    Knob::CfsQuota,
    Knob::CfsBurst,
    Knob::CpuIdle,
    Knob::CpusetCpus,
    Knob::MemoryLimit,
    Knob::MemoryMin,
    Knob::MemoryLow,
    Knob::MemoryHigh,
    Knob::OomGroup,
    Knob::Frozen,
];

const EVERYTHING: &str = r#"{
    "resourceUsedThresholdWithBE": { "enable": true, "cpuSuppressPolicy": "cfsQuota" },
    "cpuBurstStrategy": { "policy": "auto", "sharePoolThresholdPercent": 100 },
    "resourceQOSStrategy": {
        "beClass": { "cpuQOS": { "enable": true } },
        "lsClass": { "memoryQOS": { "enable": true, "lowLimitPercent": 50, "throttlingPercent": 80 } }
    }
}"#;

/// One node below a group of its own.
struct Rig {
    tree: Tree,
    layout: Layout,
    rounds: Rounds,
    journal: Journal,
    metrics: Metrics,
    pods: Vec<Pod>,
    slo: Value,
    start: Instant,
    off_by: Option<String>,
    cpus: i64,
    topology: Arc<topology::Topology>,
    state: Arc<NodeState>,
}

impl Rig {
    fn new(tree: &Tree, root: &CgroupPath, ledger: PathBuf, pods: &[(&str, &str)]) -> Self {
        let layout = Layout::new(Driver::Cgroupfs).below(root.as_str());
        let (gates, _) = Gates::parse("CgroupReconcile=true,BlkIOReconcile=true");
        let settings =
            Settings { gates, interval: Duration::from_millis(100), ..Settings::default() };
        let journal = Journal::new("n1");
        let audit = Audit::new(audit::Settings::default());
        let ledger = Ledger::open(&ledger).unwrap();
        let rounds =
            Rounds::new(settings, tree.clone(), layout.clone(), ledger, journal.clone(), audit);
        let pods = pods.iter().map(|(name, qos)| pod(name, qos, &layout)).collect();
        let machine = machine::read(&tree.shared_fs()).unwrap();
        let cpus = i64::try_from(machine.cpus.len()).unwrap();
        let topology = topology::compute(&topology::Inputs {
            machine: &machine,
            node: &NodeObject::default(),
            pods: &Arc::default(),
            kubelet: None,
            bound: &Default::default(),
            huge_pages: false,
        });
        let mut rig = Self {
            tree: tree.clone(),
            layout,
            rounds,
            journal,
            metrics: Metrics::new(Store::new(Duration::from_secs(1), 100_000)),
            pods,
            slo: serde_json::from_str(EVERYTHING).unwrap(),
            start: Instant::now(),
            off_by: None,
            cpus,
            topology: Arc::new(topology.unwrap()),
            state: Arc::default(),
        };
        rig.look();
        rig
    }

    fn look(&mut self) {
        let amounts =
            CpuMemory { cpu: MilliCpu::from_cores(self.cpus), memory: Bytes::from_gib(1) };
        let node = Node { capacity: amounts, allocatable: amounts, ..Node::default() };
        let spec = serde_json::from_value(self.slo.clone()).unwrap();
        let pods = self.pods.iter().map(|pod| (pod.uid.clone(), Arc::new(pod.clone())));
        self.state = Arc::new(NodeState {
            node: Some(Arc::new(node)),
            slo: Arc::new(api::policy::resolve(Some(&spec), None)),
            pods: Arc::new(pods.collect()),
            is_complete: true,
            ..NodeState::default()
        });
    }

    /// A round in which the online pod uses this many cores and is throttled.
    fn tick(&mut self, online: f64) {
        let now = self.start.elapsed();
        {
            let mut store = self.metrics.lock();
            store.push(Subject::Node, Measure::Cpu, now, online);
            store.push(Subject::Pod("web"), Measure::Cpu, now, online);
            store.push(Subject::Container("containerd://web"), Measure::Throttled, now, 0.5);
        }
        let inputs = Inputs {
            state: self.state.clone(),
            topology: Some(self.topology.clone()),
            metrics: self.metrics.clone(),
            off_by: self.off_by.clone(),
        };
        self.rounds.tick(now, Timestamp::now(), &inputs);
        // The kernel counts in periods of its own, and one has to pass.
        thread::sleep(Duration::from_millis(101));
    }

    fn refused(&self) -> Vec<String> {
        use api::decisions::ChangeOutcome::{Overridden, Refused};
        let changes = self.journal.page().changes.into_iter();
        let bad = changes.filter(|change| matches!(change.outcome, Refused | Overridden));
        bad.map(|change| format!("{} {}", change.file, change.new)).collect()
    }

    fn off(&mut self) {
        self.off_by = Some("a test".to_owned());
        let start = Instant::now();
        while !self.rounds.is_clean() || start.elapsed() < Duration::from_millis(50) {
            self.tick(0.0);
            assert!(start.elapsed() < Duration::from_secs(5), "{:?}", self.rounds.arbiter());
        }
    }

    fn text(&self, group: &CgroupPath, knob: Knob) -> String {
        match self.tree.get_text(group, knob) {
            Ok(Reading::Value((text, _))) => text,
            other => format!("{other:?}"),
        }
    }

    fn quota(&self, group: &CgroupPath) -> i64 {
        let text = self.text(group, Knob::CfsQuota);
        text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(-1)
    }
}

fn pod(name: &str, qos: &str, layout: &Layout) -> Pod {
    let class = if qos == "BE" { "BestEffort" } else { "Burstable" };
    let resources = match qos {
        "BE" => {
            json!({ "limits": { "kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "256Mi" } })
        }
        _ => {
            json!({ "limits": { "cpu": "1", "memory": "256Mi" }, "requests": { "memory": "64Mi" } })
        }
    };
    let object = json!({
        "metadata": { "namespace": "d", "name": name, "uid": name,
            "labels": { "koordinator.sh/qosClass": qos } },
        "spec": { "containers": [{ "name": "main", "resources": resources }] },
        "status": { "phase": "Running", "qosClass": class, "containerStatuses": [
            { "name": "main", "containerID": format!("containerd://{name}"), "image": "",
              "imageID": "", "ready": true, "restartCount": 0, "state": { "running": {} } },
        ] },
    });
    Pod::read(&serde_json::from_value(object).unwrap(), layout).unwrap()
}

const PODS: [(&str, &str); 2] = [("web", "LS"), ("job", "BE")];

/// The groups of both pods with a process in each, and quotas as a kubelet writes them.
fn furnish(sandbox: &Sandbox) -> (Vec<CgroupPath>, Vec<Workload>) {
    let layout = Layout::new(Driver::Cgroupfs).below(sandbox.root.as_str());
    let mut groups = vec![
        layout.kubepods(),
        layout.class(KubeQos::Burstable),
        layout.class(KubeQos::BestEffort),
    ];
    let mut workloads = Vec::new();
    for group in &groups {
        let below = group.as_str().strip_prefix(sandbox.root.as_str()).unwrap();
        sandbox.make(below);
    }
    for (name, qos) in PODS {
        let pod = pod(name, qos, &layout);
        let group = pod.cgroup.clone();
        let container = group.child(name);
        for group in [&group, &container] {
            sandbox.tree.make(group).unwrap();
            if qos == "LS" {
                let quota = Setting::Limit(groups::Limit::At(100_000));
                sandbox.tree.set(group, Knob::CfsQuota, &quota).unwrap();
            }
        }
        let workload = Workload::start();
        sandbox.tree.enter(&container, workload.id()).unwrap();
        workloads.push(workload);
        groups.extend([group, container]);
    }
    (groups, workloads)
}

pub(crate) fn snapshot(tree: &Tree, groups: &[CgroupPath]) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for group in groups {
        for knob in KNOBS {
            if let Ok(Reading::Value((mut text, _))) = tree.get_text(group, knob) {
                // v2 does not go back to none once there are processes; all of them do the same.
                if knob == Knob::CpusetCpus && text.is_empty() {
                    text = Topology::read(tree.fs()).unwrap().cpus.online().to_string();
                }
                all.insert(format!("{group}:{knob:?}"), text);
            }
        }
    }
    all
}

#[test]
fn load_moves_limits_and_off_brings_every_file_back() {
    let sandbox = sandbox_or_skip!("act");
    let (groups, _workloads) = furnish(&sandbox);
    let before = snapshot(&sandbox.tree, &groups);
    let dir = tempfile::tempdir().unwrap();
    let mut rig = Rig::new(&sandbox.tree, &sandbox.root, dir.path().join("ledger"), &PODS);
    let (tier, web) = (rig.layout.class(KubeQos::BestEffort), groups[4].clone());
    let job = groups[5].clone();
    for _ in 0..4 {
        rig.tick(0.0);
    }
    let allowed = rig.cpus * 65_000;
    assert_eq!(rig.quota(&tier), allowed, "65 % of the machine");
    let burst = rig.quota(&web);
    assert!(burst > 100_000, "a throttled container bursts: {burst}");
    assert_eq!(rig.text(&job, Knob::CpuIdle), "1", "best-effort is idle");
    assert_eq!(rig.text(&tier, Knob::CpuIdle), "0", "and its tier is not");
    assert_eq!(rig.text(&job, Knob::MemoryLimit), (256 << 20).to_string());
    if rig.tree.version() == Version::V2 {
        let high = (64 << 20) + (192 << 20) / 10 * 8;
        let shown: i64 = rig.text(&web, Knob::MemoryHigh).parse().unwrap();
        assert!((high - shown).abs() < 8_192, "{shown} instead of {high}");
        assert_eq!(rig.text(&groups[0], Knob::MemoryLow), (32 << 20).to_string(), "up to the top");
    }
    #[expect(clippy::cast_precision_loss, reason = "CPUs are few")]
    let half = rig.cpus as f64 / 2.0;
    rig.tick(half);
    let held_back = rig.quota(&tier);
    assert_eq!(held_back, allowed - rig.cpus * 50_000, "the other half is the online side's");
    assert_eq!(rig.refused(), [""; 0]);

    rig.off();
    assert_eq!(snapshot(&sandbox.tree, &groups), before);
    rig.off_by = None;
    rig.tick(half);
    assert_eq!(rig.quota(&tier), held_back, "on resumes");
    rig.off();
    assert_eq!(snapshot(&sandbox.tree, &groups), before);
}

#[test]
fn best_effort_is_moved_to_fewer_cpus_and_back() {
    let sandbox = sandbox_or_skip!("cpus");
    let (groups, _workloads) = furnish(&sandbox);
    let before = snapshot(&sandbox.tree, &groups);
    let dir = tempfile::tempdir().unwrap();
    let mut rig = Rig::new(&sandbox.tree, &sandbox.root, dir.path().join("ledger"), &PODS);
    rig.slo = json!({ "resourceUsedThresholdWithBE": { "enable": true } });
    rig.look();
    rig.tick(0.0);
    rig.tick(16.0);
    let job = groups.last().unwrap();
    let cpus: CpuSet = rig.text(job, Knob::CpusetCpus).parse().unwrap();
    assert_eq!(cpus.len(), 2, "a full machine leaves two");
    assert_eq!(rig.refused(), [""; 0]);
    // A container that starts meanwhile is given back what it would have had.
    let late = job.parent().unwrap().child("late");
    sandbox.tree.make(&late).unwrap();
    rig.tick(16.0);
    rig.off();
    assert_eq!(snapshot(&sandbox.tree, &groups), before);
    let late_now = snapshot(&sandbox.tree, std::slice::from_ref(&late));
    let job_now = snapshot(&sandbox.tree, std::slice::from_ref(job));
    let cpus = |all: &BTreeMap<String, String>| {
        all.iter().find(|(place, _)| place.contains("Cpuset")).map(|(_, text)| text.clone())
    };
    assert_eq!(cpus(&late_now), cpus(&job_now));
    sandbox.tree.remove(&late).unwrap();
}

#[test]
fn a_frozen_group_is_thawed_by_off() {
    let sandbox = sandbox_or_skip!("freeze");
    let (groups, mut workloads) = furnish(&sandbox);
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(&dir.path().join("ledger")).unwrap();
    let mut arbiter = agent::act::Arbiter::new(sandbox.tree.clone(), ledger);
    let job = groups.last().unwrap();
    let frozen = |now: &str| {
        let text = sandbox.tree.get_text(job, Knob::Frozen).unwrap().value().unwrap().0;
        assert!(now.contains(&text), "{text} is not in {now}");
    };
    frozen("0 THAWED");
    let wish = qos::wish::Wish {
        target: qos::wish::Target::knob(job.clone(), Knob::Frozen),
        rank: qos::claim::Rank::CRITICAL,
        bound: qos::claim::Bound::Set(qos::claim::Value::Number(Some(1))),
        why: "a test".to_owned(),
    };
    arbiter.post("relief", vec![wish], Some(Duration::from_secs(2)));
    arbiter.settle(Duration::ZERO);
    frozen("1 FROZEN FREEZING");
    arbiter.settle(Duration::from_secs(2));
    frozen("0 THAWED");
    assert!(arbiter.is_clean(), "a wish that lapses is taken back");
    // A thawed process answers.
    workloads.last_mut().unwrap().spin(Duration::from_millis(1));
}

#[test]
fn disks_of_best_effort_are_limited_and_freed_again() {
    let sandbox = sandbox_or_skip!("disks");
    let (_, _workloads) = furnish(&sandbox);
    let dir = tempfile::tempdir().unwrap();
    let mut rig = Rig::new(&sandbox.tree, &sandbox.root, dir.path().join("ledger"), &PODS);
    let tier = rig.layout.class(KubeQos::BestEffort);
    let disks = block::disks(sandbox.tree.fs()).unwrap();
    let is_real = |disk: &&Disk| !["loop", "ram", "zram"].iter().any(|n| disk.name.starts_with(n));
    let disk = disks.iter().find(is_real).expect("every machine has a disk").clone();
    let storage = StorageInfo { at: Duration::ZERO, disks: Arc::new(disks), mounts: Vec::new() };
    rig.metrics.lock().facts.storage = Some(Arc::new(storage));
    let io = json!({ "readBPS": 1_048_576, "writeIOPS": 100 });
    let block = json!({ "name": disk.name, "type": "device", "ioCfg": io });
    rig.slo = json!({ "resourceQOSStrategy": { "beClass": {
        "blkioQOS": { "enable": true, "blocks": [block] } } } });
    rig.look();
    rig.tick(0.0);
    let limits = || {
        let knobs = [Knob::ReadBps, Knob::WriteIops, Knob::WriteBps];
        knobs.map(|knob| match sandbox.tree.get(&tier, knob).unwrap() {
            Reading::Value(Setting::Rates(rates)) => match rates.get(&disk.number) {
                Some(groups::Limit::At(rate)) => Some(*rate),
                Some(groups::Limit::Max) | None => None,
            },
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(limits(), [Some(1_048_576), Some(100), None]);
    // v2 has all of them in one file, and each is a word of its own in there when it is looked at
    // again.
    rig.start = rig.start.checked_sub(Duration::from_secs(120)).unwrap();
    rig.tick(0.0);
    assert_eq!(limits(), [Some(1_048_576), Some(100), None]);
    assert_eq!(rig.refused(), [""; 0]);
    rig.off();
    assert_eq!(limits(), [None; 3]);
}

const ROLE: &str = "TIDEPOOL_TEST_ACTING";
const TEST: &str = "acting::a_process_that_is_killed_leaves_a_ledger";

/// An agent that moves limits as fast as it can until somebody kills it.
fn act_until_killed(root: &str) {
    let tree = Tree::find(Arc::new(RealFs::new(Mounts::host()))).unwrap();
    let (root, ledger) = root.split_once(' ').unwrap();
    let mut rig = Rig::new(&tree, &CgroupPath::new(root), ledger.into(), &PODS);
    for round in 0_u32.. {
        rig.slo["resourceUsedThresholdWithBE"]["cpuSuppressPolicy"] =
            json!(if round % 8 < 4 { "cfsQuota" } else { "cpuset" });
        rig.look();
        rig.tick(f64::from(round % 3));
    }
}

fn agent_process(sandbox: &Sandbox, ledger: &std::path::Path) -> Child {
    Command::new("/proc/self/exe")
        .args(["--exact", TEST, "--nocapture", "--test-threads=1"])
        .env(ROLE, format!("{} {}", sandbox.root.as_str(), ledger.display()))
        .spawn()
        .unwrap()
}

#[test]
fn a_process_that_is_killed_leaves_a_ledger() {
    if let Some(root) = env::var_os(ROLE) {
        return act_until_killed(root.to_str().unwrap());
    }
    let sandbox = sandbox_or_skip!("kill");
    let (groups, _workloads) = furnish(&sandbox);
    let before = snapshot(&sandbox.tree, &groups);
    let dir = tempfile::tempdir().unwrap();
    let ledger = dir.path().join("ledger");
    for life in 0..4 {
        let mut seen = snapshot(&sandbox.tree, &groups);
        let mut agent = agent_process(&sandbox, &ledger);
        // Killed after some changes, in each life after more of them.
        for _ in 0..=life {
            seen = until_blocking("it changes something", || {
                Some(snapshot(&sandbox.tree, &groups)).filter(|now| *now != seen)
            });
        }
        agent.kill().unwrap();
        agent.wait().unwrap();
    }
    let mut rig = Rig::new(&sandbox.tree, &sandbox.root, ledger, &PODS);
    rig.off();
    assert_eq!(snapshot(&sandbox.tree, &groups), before);
}
