//! A scheduler that followed every change decides as one that was started a moment ago.
//!
//! Random clusters with NUMA policies, amplified CPUs, load reports that come and grow old, pods of
//! all classes that come and go. Before each decision a second scheduler is given the objects as
//! they are now; both must choose the same node and the same CPUs, or tell the same reasons.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use sched::Scheduler;
use sched::profile::Profile;
use sched::scheduler::{Attempt, Change, Key, Options, Outcome, Update};
use sched::time::Time;
use serde_json::{Value, json};

const STATUS: &str = "scheduling.koordinator.sh/resource-status";
const SPEC: &str = "scheduling.koordinator.sh/resource-spec";

const PLUGINS: [&str; 14] = [
    "SchedulingGates",
    "PrioritySort",
    "NodeUnschedulable",
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    "NodeResourcesBalancedAllocation",
    "LoadAwareScheduling",
    "NodeNUMAResource",
    "NodeResourcesFitPlus",
    "ScarceResourceAvoidance",
    "SchedulingHint",
    "DefaultBinder",
    "DefaultPreBind",
];

fn scheduler() -> Scheduler {
    let profile = Profile::of("default-scheduler", PLUGINS)
        .with_args(
            "LoadAwareScheduling",
            json!({"usageThresholds": {"cpu": 70},
            "prodUsageThresholds": {"cpu": 60}, "dominantResourceWeight": 1,
            "resourceWeights": {"cpu": 1, "memory": 1}}),
        )
        .with_args(
            "NodeResourcesFitPlus",
            json!({"resources": {
            "cpu": {"type": "MostAllocated", "weight": 1}}}),
        )
        .with_args("ScarceResourceAvoidance", json!({"resources": ["nvidia.com/gpu"]}));
    Scheduler::new(vec![profile], Options::default()).unwrap()
}

fn upsert<T: serde::de::DeserializeOwned>(object: &Value) -> Update<T> {
    Update::Upsert(Arc::new(serde_json::from_value(object.clone()).unwrap()))
}

fn clock(now: Time) -> String {
    jiff::Timestamp::from_second(now.whole_secs()).unwrap().to_string()
}

/// The objects of a cluster, by kind and name.
#[derive(Debug, Default, Clone)]
struct Cluster {
    nodes: BTreeMap<String, Value>,
    topologies: BTreeMap<String, Value>,
    metrics: BTreeMap<String, Value>,
    pods: BTreeMap<String, Value>,
}

impl Cluster {
    fn fresh(&self, now: Time) -> Scheduler {
        let mut scheduler = scheduler();
        self.metrics.values().for_each(|o| scheduler.apply(Change::NodeMetric(upsert(o)), now));
        self.pods.values().for_each(|o| scheduler.apply(Change::Pod(upsert(o)), now));
        self.nodes.values().for_each(|o| scheduler.apply(Change::Node(upsert(o)), now));
        self.topologies
            .values()
            .for_each(|o| scheduler.apply(Change::NodeTopology(upsert(o)), now));
        scheduler
    }
}

#[derive(Debug, Clone)]
struct Machine {
    cores: i32,
    threads: i32,
    policy: Option<&'static str>,
    bind: Option<&'static str>,
    amplified: bool,
    has_gpu: bool,
}

fn machines() -> impl Strategy<Value = Machine> {
    let policy = prop_oneof![
        3 => Just(None),
        1 => Just(Some("BestEffort")),
        1 => Just(Some("Restricted")),
        1 => Just(Some("SingleNUMANode")),
    ];
    let bind = prop_oneof![4 => Just(None), 1 => Just(Some("FullPCPUsOnly"))];
    (1..=3_i32, 1..=2_i32, policy, bind, prop::bool::weighted(0.3), prop::bool::weighted(0.3))
        .prop_map(|(cores, threads, policy, bind, amplified, has_gpu)| Machine {
            cores: cores * 2,
            threads,
            policy,
            bind,
            amplified,
            has_gpu,
        })
}

impl Machine {
    fn cpus(&self) -> i32 {
        2 * self.cores * self.threads
    }

    fn node(&self, name: &str) -> Value {
        let mut labels = json!({});
        if let Some(policy) = self.policy {
            labels["node.koordinator.sh/numa-topology-policy"] = json!(policy);
        }
        if let Some(bind) = self.bind {
            labels["node.koordinator.sh/cpu-bind-policy"] = json!(bind);
        }
        let milli = self.cpus() * if self.amplified { 1_500 } else { 1_000 };
        let mut annotations = json!({});
        if self.amplified {
            annotations["node.koordinator.sh/resource-amplification-ratio"] =
                json!(r#"{"cpu":1.5}"#);
            annotations["node.koordinator.sh/raw-allocatable"] =
                json!(format!(r#"{{"cpu":"{}"}}"#, self.cpus()));
        }
        let gpus = if self.has_gpu { "8" } else { "0" };
        json!({
            "metadata": {"name": name, "uid": name, "labels": labels, "annotations": annotations},
            "status": {"allocatable": {"cpu": format!("{milli}m"), "memory": "16Gi", "pods": "20",
                "kubernetes.io/batch-cpu": "8000", "kubernetes.io/batch-memory": "8Gi",
                "nvidia.com/gpu": gpus}},
        })
    }

    fn topology(&self, name: &str) -> Value {
        let total = 2 * self.cores;
        let cpu = |id: i32| {
            let core = id % total;
            json!({"id": id, "core": core, "socket": 0, "node": core / self.cores})
        };
        let cpus = json!({"detail": (0..self.cpus()).map(cpu).collect::<Vec<_>>()}).to_string();
        let amount = |name: &str, amount: String| json!({"name": name, "capacity": amount, "allocatable": amount, "available": amount});
        let zone = |id: i32| {
            let cpu = amount("cpu", (self.cores * self.threads).to_string());
            json!({"name": format!("node-{id}"), "type": "Node",
                   "resources": [cpu, amount("memory", "8Gi".to_owned())]})
        };
        json!({"metadata": {"name": name,
                   "annotations": {"node.koordinator.sh/cpu-topology": cpus}},
               "topologyPolicies": [], "zones": [zone(0), zone(1)]})
    }
}

fn pod(name: &str, kind: u8, cpus: i64, now: Time) -> Value {
    let native = json!({"cpu": cpus.to_string(), "memory": "512Mi"});
    let batch = json!({"kubernetes.io/batch-cpu": (cpus * 500).to_string(),
                       "kubernetes.io/batch-memory": "256Mi"});
    let (qos, priority, resources, spec) = match kind % 6 {
        0 => ("LSE", 9_500, native, None),
        1 => ("LSR", 9_200, native, Some(r#"{"requiredCPUBindPolicy":"FullPCPUs"}"#)),
        2 => (
            "LSR",
            9_100,
            native,
            Some(
                r#"{"preferredCPUBindPolicy":"SpreadByPCPUs","preferredCPUExclusivePolicy":"PCPULevel"}"#,
            ),
        ),
        3 => ("LS", 9_000, native, None),
        4 => ("LS", 9_000, json!({"cpu": format!("{}m", cpus * 300)}), None),
        _ => ("BE", 5_500, batch, None),
    };
    let annotations = spec.map_or(json!({}), |spec| json!({SPEC: spec}));
    json!({
        "metadata": {"name": name, "namespace": "default", "uid": name,
                     "creationTimestamp": clock(now), "annotations": annotations,
                     "labels": {"koordinator.sh/qosClass": qos}},
        "spec": {"schedulerName": "default-scheduler", "priority": priority, "containers": [
            {"name": "c", "resources": {"requests": resources, "limits": resources}}]},
    })
}

fn metric(name: &str, cpu: i64, now: Time) -> Value {
    json!({"metadata": {"name": name}, "spec": {}, "status": {
        "updateTime": clock(now),
        "nodeMetric": {"nodeUsage": {"resources": {"cpu": format!("{cpu}m"), "memory": "1Gi"}}}}})
}

/// Node and CPUs, or the reasons.
fn told(attempt: &Attempt) -> Result<(String, Option<String>), String> {
    match &attempt.outcome {
        Outcome::Place(place) => {
            Ok((place.node.clone(), place.patch.annotations.get(STATUS).cloned()))
        }
        Outcome::Reject(reject) => Err(reject.why.message()),
        Outcome::Skip { reason } => Err((*reason).to_owned()),
        Outcome::Ask(_) | Outcome::AskRoom(_) => Err("others are asked".to_owned()),
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Pod { kind: u8, cpus: i64 },
    Delete { pod: usize },
    Metric { node: usize, cpu: i64 },
    ForgetTopology { node: usize },
    Wait { seconds: u32 },
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (any::<u8>(), 1..6_i64).prop_map(|(kind, cpus)| Step::Pod { kind, cpus }),
        2 => (0..60_usize).prop_map(|pod| Step::Delete { pod }),
        2 => (0..8_usize, 0..8_000_i64).prop_map(|(node, cpu)| Step::Metric { node, cpu }),
        1 => (0..8_usize).prop_map(|node| Step::ForgetTopology { node }),
        1 => (1..120_u32).prop_map(|seconds| Step::Wait { seconds }),
    ]
}

struct Run {
    cluster: Cluster,
    machines: Vec<Machine>,
    scheduler: Scheduler,
    now: Time,
    made: usize,
}

impl Run {
    fn new(machines: Vec<Machine>) -> Self {
        let now = Time::from_secs(1_000_000);
        let mut run =
            Self { cluster: Cluster::default(), machines, scheduler: scheduler(), now, made: 0 };
        for (at, machine) in run.machines.iter().enumerate() {
            let name = format!("n{at}");
            let (node, topology) = (machine.node(&name), machine.topology(&name));
            run.scheduler.apply(Change::Node(upsert(&node)), now);
            run.scheduler.apply(Change::NodeTopology(upsert(&topology)), now);
            run.cluster.nodes.insert(name.clone(), node);
            run.cluster.topologies.insert(name, topology);
        }
        run
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Pod { kind, cpus } => return self.decide(kind, cpus),
            Step::Delete { pod } => {
                let Some(name) = self.cluster.pods.keys().nth(pod).cloned() else { return Ok(()) };
                self.cluster.pods.remove(&name);
                let key = Key::new("default", &name).with_uid(&name);
                self.scheduler.apply(Change::Pod(Update::Delete(key)), self.now);
            }
            Step::Metric { node, cpu } => {
                let name = format!("n{}", node % self.machines.len());
                let metric = metric(&name, cpu, self.now);
                self.scheduler.apply(Change::NodeMetric(upsert(&metric)), self.now);
                self.cluster.metrics.insert(name, metric);
            }
            Step::ForgetTopology { node } => {
                let name = format!("n{}", node % self.machines.len());
                let change = match self.cluster.topologies.remove(&name) {
                    Some(_) => Update::Delete(Key::new("", &name)),
                    None => {
                        let object = self.machines[node % self.machines.len()].topology(&name);
                        let change = upsert(&object);
                        self.cluster.topologies.insert(name, object);
                        change
                    }
                };
                self.scheduler.apply(Change::NodeTopology(change), self.now);
            }
            Step::Wait { seconds } => {
                self.now = self.now + std::time::Duration::from_secs(u64::from(seconds));
            }
        }
        Ok(())
    }

    /// Lets both decide about a new pod. A pod that cannot be placed is taken away again.
    fn decide(&mut self, kind: u8, cpus: i64) -> Result<(), TestCaseError> {
        let name = format!("p{:03}", self.made);
        self.made += 1;
        let object = pod(&name, kind, cpus, self.now);
        let mut fresh = self.cluster.fresh(self.now);
        let mut results = Vec::new();
        for scheduler in [&mut fresh, &mut self.scheduler] {
            scheduler.apply(Change::Pod(upsert(&object)), self.now);
            let attempt = scheduler.next(self.now);
            prop_assert_eq!(scheduler.check(), Vec::<String>::new());
            results.push(attempt.map(|attempt| told(&attempt)));
        }
        prop_assert_eq!(&results[0], &results[1], "pod {}", object);
        let Some(Ok((node, _))) = &results[1] else {
            let key = Key::new("default", &name).with_uid(&name);
            self.scheduler.apply(Change::Pod(Update::Delete(key)), self.now);
            return Ok(());
        };
        let mut bound = object.clone();
        bound["spec"]["nodeName"] = json!(node);
        bound["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "True",
                                                "lastTransitionTime": clock(self.now)}]);
        if let Some(Ok((_, Some(status)))) = &results[1] {
            bound["metadata"]["annotations"][STATUS] = json!(status);
        }
        self.scheduler.bound(&name, self.now);
        self.scheduler.apply(Change::Pod(upsert(&bound)), self.now);
        prop_assert_eq!(self.scheduler.check(), Vec::<String>::new());
        self.cluster.pods.insert(name, bound);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn what_was_followed_equals_what_is_there(
        machines in prop::collection::vec(machines(), 1..8),
        steps in prop::collection::vec(steps(), 1..60),
    ) {
        let mut run = Run::new(machines);
        for step in steps {
            run.step(step)?;
        }
    }
}
