//! What Kubernetes does, case by case: each row is a small cluster, a pod, and what must happen.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod consult;
mod explain;
mod filter;
mod preempt;
mod read;
mod score;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use sched::profile::Profile;
use sched::scheduler::{Attempt, Change, Options, Outcome, Scheduler, Update};
use sched::time::Time;
use serde_json::{Value, json};

pub(crate) const NOW: Time = Time(1_000_000_000_000);

/// Lays `over` onto `base`, field by field.
pub(crate) fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

/// A node with 4 CPUs, 8 GiB and room for ten pods.
pub(crate) fn node(name: &str, over: Value) -> Node {
    let mut node = json!({
        "metadata": {"name": name, "uid": name},
        "spec": {},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    });
    merge(&mut node, over);
    serde_json::from_value(node).unwrap()
}

/// A pod with one container; `over` is laid onto its spec.
pub(crate) fn pod(name: &str, over: Value) -> Pod {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": name}},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "main", "image": "web:1"}],
        },
    });
    merge(&mut pod["spec"], over);
    serde_json::from_value(pod).unwrap()
}

/// The spec of a pod that asks for this much.
pub(crate) fn asks(requests: Value) -> Value {
    let resources = json!({"requests": requests});
    json!({"containers": [{"name": "main", "image": "web:1", "resources": resources}]})
}

/// The same pod, running on a node.
pub(crate) fn on(node: &str, mut pod: Pod) -> Pod {
    pod.spec.as_mut().unwrap().node_name = Some(node.to_owned());
    pod
}

pub(crate) struct Cluster(pub(crate) Scheduler);

impl Cluster {
    pub(crate) fn new(nodes: Vec<Node>, pods: Vec<Pod>) -> Self {
        Self::with(Profile::of_defaults("default-scheduler"), nodes, pods)
    }

    pub(crate) fn with(profile: Profile, nodes: Vec<Node>, pods: Vec<Pod>) -> Self {
        let mut cluster = Self(Scheduler::new(vec![profile], Options::default()).unwrap());
        for node in nodes {
            cluster.0.apply(Change::Node(Update::Upsert(Arc::new(node))), NOW);
        }
        for pod in pods {
            cluster.add(pod);
        }
        cluster
    }

    pub(crate) fn add(&mut self, pod: Pod) {
        self.0.apply(Change::Pod(Update::Upsert(Arc::new(pod))), NOW);
    }

    pub(crate) fn attempt(&mut self, pod: Pod) -> Attempt {
        self.add(pod);
        self.0.next(NOW).expect("the pod is tried")
    }

    /// The node the pod is placed on, or why it is not; preemption left out.
    pub(crate) fn try_pod(&mut self, pod: Pod) -> Result<String, String> {
        match self.attempt(pod).outcome {
            Outcome::Place(place) => Ok(place.node),
            Outcome::Reject(mut reject) => {
                reject.why.preemption = None;
                Err(reject.why.message())
            }
            other => panic!("{other:?}"),
        }
    }
}
