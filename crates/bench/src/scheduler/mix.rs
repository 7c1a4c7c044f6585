//! What do the pods of a bench ask for, and what cluster do they find?

use std::sync::Arc;

use anyhow::bail;
use api::scheduler::args::Arguments;
use api::scheduler::file::{Mention, Plugins};
use api::scheduler::{Configuration, Profile, merge};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use sched::scheduler::{Change, Update};
use serde_json::{Value, json};

use super::{Mix, START};
use crate::manager::typed;

/// Pods of one workload look alike.
pub(super) const WORKLOADS: u32 = 20;
const ZONES: u32 = 10;

impl Mix {
    /// The default plugins, and the one that is measured.
    pub(super) fn configuration(self) -> Configuration {
        let mut plugins = Plugins::default();
        let more = match self {
            Self::Numa => Some("NodeNUMAResource"),
            Self::Loadaware => Some("LoadAwareScheduling"),
            Self::Basic | Self::Affinity | Self::Spread | Self::Preempt => None,
        };
        let mentions = more.map(|name| Mention { name: name.to_owned(), weight: None });
        plugins.multi_point.enabled.extend(mentions);
        let points = merge::merge(&plugins, "plugins", &mut Vec::new());
        let scheduler_name = "default-scheduler".to_owned();
        let profile = Profile { scheduler_name, points, arguments: Arguments::default() };
        Configuration { profiles: vec![profile], ..Configuration::default() }
    }

    /// Everything that is there before the first pod.
    pub(super) fn cluster(self, nodes: u32) -> anyhow::Result<Vec<Change>> {
        let mut changes = vec![namespace()?];
        for number in 0..nodes {
            changes.push(Change::Node(Update::Upsert(Arc::new(typed(node(number))?))));
            match self {
                Self::Numa => changes.push(topology(number)?),
                Self::Loadaware => changes.push(metric(number)?),
                Self::Preempt => {
                    for pod in 0..4 {
                        changes.push(filler(number, pod)?);
                    }
                }
                Self::Basic | Self::Affinity | Self::Spread => {}
            }
        }
        Ok(changes)
    }

    pub(crate) fn pod(self, number: u32) -> anyhow::Result<Pod> {
        let workload = number % WORKLOADS;
        let app = format!("app-{workload}");
        let select = json!({"matchLabels": {"app": app}});
        let mut spec = json!({"schedulerName": "default-scheduler", "priority": 0,
            "containers": [{"name": "main", "image": format!("image-{workload}"),
                "resources": {"requests": {"cpu": format!("{}m", 50 + workload * 10),
                    "memory": format!("{}Mi", 64 + workload * 16)}}}]});
        let mut labels = json!({"app": app});
        match self {
            Self::Basic => {}
            Self::Loadaware => spec["priority"] = json!(9_500),
            Self::Affinity => {
                let term = |key: &str| json!({"labelSelector": select, "topologyKey": key});
                let weighed = |weight: u32, key: &str| json!({"weight": weight, "podAffinityTerm": term(key)});
                spec["affinity"] = match workload % 2 {
                    0 => json!({"podAntiAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [weighed(10, "kubernetes.io/hostname")]}}),
                    _ => json!({"podAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [term("topology.kubernetes.io/zone")]}}),
                };
            }
            Self::Spread => {
                let over = |key: &str, action: &str, skew: u32| {
                    json!({"maxSkew": skew, "topologyKey": key,
                    "whenUnsatisfiable": action, "labelSelector": select})
                };
                spec["topologySpreadConstraints"] = json!([
                    over("topology.kubernetes.io/zone", "DoNotSchedule", 5),
                    over("kubernetes.io/hostname", "ScheduleAnyway", 1)
                ]);
            }
            Self::Numa => {
                spec["priority"] = json!(9_500);
                labels["koordinator.sh/qosClass"] = json!("LSR");
                let amounts = json!({"cpu": "2", "memory": "1Gi"});
                spec["containers"][0]["resources"] =
                    json!({"requests": amounts, "limits": amounts});
            }
            Self::Preempt => {
                spec["priority"] = json!(1_000);
                spec["containers"][0]["resources"]["requests"] =
                    json!({"cpu": "20", "memory": "1Gi"});
            }
        }
        typed(json!({"metadata": {"name": format!("{app}-{number}"), "namespace": "default",
            "uid": format!("uid-{number}"), "labels": labels, "creationTimestamp": stamp()?},
            "spec": spec, "status": {"phase": "Pending"}}))
    }
}

fn stamp() -> anyhow::Result<String> {
    match Timestamp::from_second(START) {
        Ok(time) => Ok(time.to_string()),
        Err(error) => bail!("the bench's time does not exist: {error}"),
    }
}

fn namespace() -> anyhow::Result<Change> {
    let namespace = json!({"metadata": {"name": "default", "uid": "ns"}});
    Ok(Change::Namespace(Update::Upsert(Arc::new(typed(namespace)?))))
}

pub(crate) fn node(number: u32) -> Value {
    let name = format!("node-{number}");
    let amounts = json!({"cpu": "64", "memory": "256Gi", "pods": "256"});
    json!({"metadata": {"name": name, "uid": format!("node-uid-{number}"),
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
                "topology.kubernetes.io/zone": format!("zone-{}", number % ZONES)}},
        "status": {"capacity": amounts, "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}]}})
}

/// Takes a quarter of a node and gives way to anybody.
fn filler(node: u32, pod: u32) -> anyhow::Result<Change> {
    let name = format!("filler-{node}-{pod}");
    let pod = json!({"metadata": {"name": name, "namespace": "default", "uid": name,
            "creationTimestamp": stamp()?},
        "spec": {"nodeName": format!("node-{node}"), "priority": -10,
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "15", "memory": "1Gi"}}}]},
        "status": {"phase": "Running", "startTime": stamp()?}});
    Ok(Change::Pod(Update::Upsert(Arc::new(typed(pod)?))))
}

/// Two sockets of sixteen cores with two threads each.
fn topology(node: u32) -> anyhow::Result<Change> {
    let detail: Vec<Value> = (0..64)
        .map(|id| {
            let core = id % 32;
            json!({"id": id, "core": core, "socket": core / 16, "node": core / 16})
        })
        .collect();
    let zone = |number: u32| {
        let amount = |name: &str, text: &str| json!({"name": name, "capacity": text, "allocatable": text, "available": text});
        json!({"name": format!("node-{number}"), "type": "Node",
            "resources": [amount("cpu", "32"), amount("memory", "128Gi")]})
    };
    let topology = json!({"apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology", "metadata": {"name": format!("node-{node}"),
            "annotations": {"node.koordinator.sh/cpu-topology": json!({"detail": detail}).to_string()}},
        "topologyPolicies": ["None"], "zones": [zone(0), zone(1)]});
    Ok(Change::NodeTopology(Update::Upsert(Arc::new(typed(topology)?))))
}

fn metric(node: u32) -> anyhow::Result<Change> {
    let usage =
        json!({"resources": {"cpu": format!("{}m", 2_000 + node % 20_000), "memory": "40Gi"}});
    let metric = json!({"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric",
        "metadata": {"name": format!("node-{node}")}, "spec": {},
        "status": {"updateTime": stamp()?, "nodeMetric": {"nodeUsage": usage}}});
    Ok(Change::NodeMetric(Update::Upsert(Arc::new(typed(metric)?))))
}
