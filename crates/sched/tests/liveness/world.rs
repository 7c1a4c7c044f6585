//! What the API server would hold, and what may happen to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use sched::scheduler::{Change, Key, Update};
use serde_json::{Value, json};

use crate::random::Random;

const NAMESPACES: [&str; 2] = ["x", "y"];
const APPS: [&str; 3] = ["a", "b", "c"];
const ZONES: [&str; 3] = ["1", "2", ""];
const KEYS: [&str; 2] = ["zone", "kubernetes.io/hostname"];

#[derive(Default)]
pub(crate) struct World {
    pub(crate) pods: BTreeMap<String, Arc<Pod>>,
    nodes: BTreeMap<String, Arc<Node>>,
    namespaces: BTreeMap<String, Arc<Namespace>>,
    next: u64,
}

impl World {
    /// Objects after one more thing has happened.
    pub(crate) fn step(&mut self, random: &mut Random) -> Vec<Change> {
        let waiting = self.waiting().len();
        match random.below(20) {
            0 => self.set_node(random, true),
            1..=4 => self.set_node(random, false),
            5 => self.delete_node(random),
            6 => self.label_namespace(random),
            7..=9 if waiting > 0 => self.change_waiting(random),
            10..=12 => self.change_running(random),
            13..=15 => self.delete_pod(random),
            _ if waiting > 8 => self.delete_pod(random),
            _ => self.add_pod(random),
        }
    }

    /// Everything there is, as a list would show it.
    pub(crate) fn everything(&self) -> Vec<Change> {
        let namespaces = self.namespaces.values();
        let nodes = self.nodes.values();
        let pods = self.pods.values();
        let namespaces = namespaces.map(|one| Change::Namespace(Update::Upsert(Arc::clone(one))));
        let nodes = nodes.map(|one| Change::Node(Update::Upsert(Arc::clone(one))));
        let pods = pods.map(|one| Change::Pod(Update::Upsert(Arc::clone(one))));
        namespaces.chain(nodes).chain(pods).collect()
    }

    /// Pods without a node that are not on their way out: uid, namespace, name.
    pub(crate) fn waiting(&self) -> Vec<(String, String, String)> {
        let is_waiting = |pod: &Pod| {
            let spec = pod.spec.as_ref();
            spec.is_some_and(|spec| spec.node_name.is_none())
                && pod.metadata.deletion_timestamp.is_none()
        };
        let waiting = self.pods.iter().filter(|(_, pod)| is_waiting(pod));
        let named = waiting.map(|(uid, pod)| {
            let meta = &pod.metadata;
            (uid.clone(), meta.namespace.clone().unwrap(), meta.name.clone().unwrap())
        });
        named.collect()
    }

    /// False when the pod is gone or going.
    pub(crate) fn bind(&mut self, uid: &str, node: &str) -> bool {
        self.edit(uid, |pod| {
            if pod.metadata.deletion_timestamp.is_none() {
                pod.spec.get_or_insert_default().node_name = Some(node.to_owned());
            }
        });
        self.is_bound(uid)
    }

    fn is_bound(&self, uid: &str) -> bool {
        let spec = self.pods.get(uid).and_then(|pod| pod.spec.as_ref());
        spec.is_some_and(|spec| spec.node_name.is_some())
    }

    pub(crate) fn evict(&mut self, uid: &str) -> bool {
        let time = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        self.edit(uid, |pod| pod.metadata.deletion_timestamp = Some(time))
    }

    pub(crate) fn nominate(&mut self, uid: &str, node: Option<String>) -> bool {
        self.edit(uid, |pod| pod.status.get_or_insert_default().nominated_node_name = node)
    }

    pub(crate) fn tell(&self, uid: &str) -> String {
        let pod = self.pods.get(uid);
        pod.map_or_else(String::new, |pod| serde_json::to_string(&**pod).unwrap_or_default())
    }

    fn edit(&mut self, uid: &str, change: impl FnOnce(&mut Pod)) -> bool {
        let Some(pod) = self.pods.get_mut(uid) else { return false };
        change(Arc::make_mut(pod));
        true
    }

    fn shown(&self, uid: &str) -> Vec<Change> {
        let pod = self.pods.get(uid).map(|pod| Change::Pod(Update::Upsert(Arc::clone(pod))));
        pod.into_iter().collect()
    }

    fn set_node(&mut self, random: &mut Random, is_new: bool) -> Vec<Change> {
        let known: Vec<&String> = self.nodes.keys().collect();
        let name = match known.is_empty() || (is_new && known.len() < 6) {
            true => format!("n{}", random.below(8)),
            false => known[random.index(known.len())].clone(),
        };
        let mut labels = json!({"kubernetes.io/hostname": name});
        let zone = random.pick(&ZONES);
        if !zone.is_empty() {
            labels["zone"] = json!(zone);
        }
        if random.one_in(2) {
            labels["disk"] = json!("ssd");
        }
        let taint = json!([{"key": "dedicated", "effect": "NoSchedule"}]);
        let taints = if random.one_in(4) { taint } else { json!([]) };
        let cpu = random.pick(&["2", "4", "8"]);
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": name, "uid": name, "labels": labels},
            "spec": {"taints": taints, "unschedulable": random.one_in(8)},
            "status": {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "6"}},
        }))
        .unwrap();
        let node = Arc::new(node);
        self.nodes.insert(name, Arc::clone(&node));
        vec![Change::Node(Update::Upsert(node))]
    }

    fn delete_node(&mut self, random: &mut Random) -> Vec<Change> {
        if self.nodes.len() < 3 {
            return Vec::new();
        }
        let at = random.index(self.nodes.len());
        let Some(name) = self.nodes.keys().nth(at).cloned() else { return Vec::new() };
        self.nodes.remove(&name);
        vec![Change::Node(Update::Delete(Key::new("", &name)))]
    }

    fn label_namespace(&mut self, random: &mut Random) -> Vec<Change> {
        let name = random.pick(&NAMESPACES);
        let team = random.pick(&["red", "blue"]);
        let object = json!({"metadata": {"name": name, "labels": {"team": team}}});
        let namespace: Arc<Namespace> = Arc::new(serde_json::from_value(object).unwrap());
        self.namespaces.insert(name.to_owned(), Arc::clone(&namespace));
        vec![Change::Namespace(Update::Upsert(namespace))]
    }

    fn add_pod(&mut self, random: &mut Random) -> Vec<Change> {
        self.next += 1;
        let uid = format!("p{}", self.next);
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": uid, "uid": uid, "namespace": random.pick(&NAMESPACES),
                "labels": {"app": random.pick(&APPS)}},
            "spec": spec(random),
        }))
        .unwrap();
        self.pods.insert(uid.clone(), Arc::new(pod));
        self.shown(&uid)
    }

    fn change_waiting(&mut self, random: &mut Random) -> Vec<Change> {
        let waiting = self.waiting();
        let (uid, ..) = &waiting[random.index(waiting.len())];
        let app = random.pick(&APPS);
        let what = random.below(3);
        self.edit(uid, |pod| {
            let spec = pod.spec.get_or_insert_default();
            match what {
                0 => spec.scheduling_gates = None,
                1 => {
                    let toleration = json!({"key": "dedicated", "operator": "Exists"});
                    let toleration = serde_json::from_value(toleration).unwrap();
                    spec.tolerations = Some(vec![toleration]);
                }
                _ => {
                    let labels = pod.metadata.labels.get_or_insert_default();
                    labels.insert("app".to_owned(), app.to_owned());
                }
            }
        });
        self.shown(uid)
    }

    /// A running pod is relabelled, begins to terminate, or finishes.
    fn change_running(&mut self, random: &mut Random) -> Vec<Change> {
        let running: Vec<String> =
            self.pods.keys().filter(|uid| self.is_bound(uid)).cloned().collect();
        if running.is_empty() {
            return Vec::new();
        }
        let uid = &running[random.index(running.len())];
        match random.below(3) {
            0 => {
                self.evict(uid);
            }
            1 => {
                let phase = Some("Succeeded".to_owned());
                self.edit(uid, |pod| pod.status.get_or_insert_default().phase = phase);
            }
            _ => {
                let app = random.pick(&APPS);
                self.edit(uid, |pod| {
                    let labels = pod.metadata.labels.get_or_insert_default();
                    labels.insert("app".to_owned(), app.to_owned());
                });
            }
        }
        self.shown(uid)
    }

    fn delete_pod(&mut self, random: &mut Random) -> Vec<Change> {
        if self.pods.is_empty() {
            return Vec::new();
        }
        let at = random.index(self.pods.len());
        let Some(uid) = self.pods.keys().nth(at).cloned() else { return Vec::new() };
        let Some(pod) = self.pods.remove(&uid) else { return Vec::new() };
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        vec![Change::Pod(Update::Delete(Key::new(namespace, &uid).with_uid(&uid)))]
    }
}

/// A pod with a few wishes.
fn spec(random: &mut Random) -> Value {
    let cpu = random.pick(&["500m", "1", "2", "3"]);
    let mut container = json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
    if random.one_in(6) {
        let port = random.pick(&[80, 81]);
        container["ports"] = json!([{"containerPort": port, "hostPort": port}]);
    }
    let mut spec = json!({
        "schedulerName": "default-scheduler",
        "containers": [container],
        "priority": random.pick(&[0, 0, 0, 10, 100]),
    });
    if random.one_in(5) {
        spec["nodeSelector"] = json!({"disk": "ssd"});
    }
    if random.one_in(4) {
        spec["tolerations"] = json!([{"key": "dedicated", "operator": "Exists"}]);
    }
    if random.one_in(12) {
        spec["schedulingGates"] = json!([{"name": "wait"}]);
    }
    if random.one_in(3) {
        let kind = random.pick(&["podAffinity", "podAntiAffinity"]);
        let when = random.pick(&[
            "requiredDuringSchedulingIgnoredDuringExecution",
            "requiredDuringSchedulingIgnoredDuringExecution",
            "preferredDuringSchedulingIgnoredDuringExecution",
        ]);
        let mut term = json!({
            "topologyKey": random.pick(&KEYS),
            "labelSelector": {"matchLabels": {"app": random.pick(&APPS)}},
        });
        match random.below(4) {
            0 => term["namespaceSelector"] = json!({"matchLabels": {"team": "red"}}),
            1 => term["namespaces"] = json!(["x", "y"]),
            _ => {}
        }
        if when.starts_with("preferred") {
            term = json!({"weight": 10, "podAffinityTerm": term});
        }
        spec["affinity"] = json!({kind: {when: [term]}});
    }
    if random.one_in(4) {
        spec["topologySpreadConstraints"] = json!([{
            "maxSkew": 1, "topologyKey": random.pick(&KEYS),
            "whenUnsatisfiable": random.pick(&["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
            "labelSelector": {"matchLabels": {"app": random.pick(&APPS)}},
            "nodeTaintsPolicy": random.pick(&["Honor", "Ignore"]),
        }]);
    }
    spec
}

/// One line for a failure's message.
pub(crate) fn brief(change: &Change) -> String {
    let text = match change {
        Change::Pod(Update::Upsert(pod)) => serde_json::to_string(&**pod),
        Change::Node(Update::Upsert(node)) => serde_json::to_string(&**node),
        Change::Namespace(Update::Upsert(namespace)) => serde_json::to_string(&**namespace),
        Change::Pod(Update::Delete(key)) => Ok(format!("pod {} deleted", key.name)),
        Change::Node(Update::Delete(key)) => Ok(format!("node {} deleted", key.name)),
        _ => Ok("something else".to_owned()),
    };
    text.unwrap_or_default()
}
