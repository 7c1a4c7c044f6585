//! Objects in few words, and a cluster to put them into.

use console::model::World;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The moment of all tests.
pub(crate) fn now() -> Timestamp {
    "2030-01-01T12:00:00Z".parse().unwrap()
}

pub(crate) fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// A ready node of 8 CPUs and 16 GiB that lends 3 CPUs.
pub(crate) fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name},
        "status": {
            "capacity": {"cpu": "8", "memory": "16Gi"},
            "allocatable": {"cpu": "8", "memory": "16Gi",
                "kubernetes.io/batch-cpu": "3000", "kubernetes.io/batch-memory": "4Gi"},
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "conditions": [{"type": "Ready", "status": "True", "reason": "r",
                "lastHeartbeatTime": "2030-01-01T00:00:00Z",
                "lastTransitionTime": "2030-01-01T00:00:00Z"}],
        },
    })
}

pub(crate) fn pod(name: &str, on: &str, qos: &str) -> Value {
    let requests = match qos {
        "BE" => json!({"kubernetes.io/batch-cpu": "1000", "kubernetes.io/batch-memory": "1Gi"}),
        _ => json!({"cpu": "2", "memory": "2Gi"}),
    };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "labels": {"koordinator.sh/qosClass": qos}},
        "spec": {"nodeName": on, "containers": [{"name": "main", "image": "host",
            "resources": {"requests": requests, "limits": requests}}]},
        "status": {"phase": "Running"},
    })
}

/// A report; amounts in milli-cores.
pub(crate) fn metric(name: &str, at: Timestamp, used: i64, pods: &[(&str, &str, i64)]) -> Value {
    let pods: Vec<Value> = pods
        .iter()
        .map(|(name, qos, milli)| {
            json!({"name": name, "namespace": "shop", "qos": qos,
                "podUsage": {"resources": {"cpu": format!("{milli}m"), "memory": "512Mi"}}})
        })
        .collect();
    json!({
        "apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric",
        "metadata": {"name": name}, "spec": {},
        "status": {
            "updateTime": at.to_string(),
            "nodeMetric": {
                "nodeUsage": {"resources": {"cpu": format!("{used}m"), "memory": "4Gi"}},
                "systemUsage": {"resources": {"cpu": "100m", "memory": "1Gi"}},
            },
            "podsMetric": pods,
        },
    })
}

/// Two sockets of two cores of two threads.
pub(crate) fn topology(name: &str) -> Value {
    let detail: Vec<Value> = (0..8)
        .map(|cpu| json!({"id": cpu, "core": cpu / 2, "socket": cpu / 4, "node": cpu / 4}))
        .collect();
    json!({
        "apiVersion": "topology.node.k8s.io/v1alpha1", "kind": "NodeResourceTopology",
        "metadata": {"name": name, "annotations": {
            "node.koordinator.sh/cpu-topology": json!({"detail": detail}).to_string(),
            "node.koordinator.sh/cpu-shared-pools":
                json!([{"socket": 0, "node": 0, "cpuset": "2-5"}]).to_string(),
            "node.koordinator.sh/be-cpu-shared-pools":
                json!([{"socket": 0, "node": 0, "cpuset": "2-7"}]).to_string(),
        }},
        "topologyPolicies": ["None"], "zones": [],
    })
}

/// What an agent serves: the limit of best-effort work, and a decision about a pod.
pub(crate) fn agent(limit: i64, since: Timestamp) -> api::decisions::Page {
    object(json!({
        "node": "n1",
        "switch": {"isOn": true, "dirty": 4},
        "decisions": [{
            "strategy": "suppress", "since": since.to_string(), "about": "node",
            "resource": "cpu", "headline": format!("best-effort may use {limit}m of 8"),
            "boundBy": "threshold",
            "lines": [
                {"sign": "plus", "amount": 8_000, "unit": "milliCores", "label": "capacity"},
                {"sign": "then", "amount": 5_200, "unit": "milliCores", "label": "allowed in total",
                    "note": "threshold 65"},
                {"sign": "equals", "amount": limit, "unit": "milliCores", "label": "granted"},
            ],
        }],
        "changes": [],
    }))
}

/// A node with one pod of each kind, measured a moment ago.
pub(crate) fn world() -> World {
    let mut world = World::default();
    world.put_node(object(node("n1")));
    for (name, qos) in [("web", "LS"), ("cache", "LSR"), ("etl", "BE")] {
        world.put_pod(&object(pod(name, "n1", qos)));
    }
    let pods = [("web", "LS", 1_500), ("cache", "LSR", 500), ("etl", "BE", 800)];
    world.put_metric(object(metric(
        "n1",
        now() - jiff::SignedDuration::from_secs(30),
        3_000,
        &pods,
    )));
    world.put_topology(&object(topology("n1")));
    world
}
