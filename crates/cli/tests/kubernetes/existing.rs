//! Tidepool takes the place of an existing Koordinator: is everything of its users still there?

use serde_json::{Value, json};

use crate::kernel::Kernel;
use crate::rig::{Rig, SYSTEM, WORK};
use crate::seen::{ready, until};

const OBJECTS: &str = include_str!("existing.yaml");

/// A pod that was there before us and knows nothing of us.
pub(crate) const BYSTANDER: &str = "
apiVersion: v1
kind: Pod
metadata: {name: bystander, namespace: default, labels: {app: bystander}}
spec:
  containers:
  - name: c
    image: localhost/busybox:dev
    command: [sleep, '100000']
    resources: {requests: {cpu: 20m}, limits: {cpu: 50m, memory: 32Mi}}
";

/// How best-effort is held back, unless a scenario needs something else.
pub(crate) fn threshold() -> Value {
    json!({"clusterStrategy": {"enable": true}})
}

/// Where each object is, and which of its fields belong to its users.
const KEPT: [(&[&str], &[&str]); 7] = [
    (&["configmap", "koord-scheduler-config", "-n", "koordinator-system"], &["/data"]),
    (
        &["configmap", "slo-controller-config", "-n", "koordinator-system"],
        &[
            "/data/colocation-config",
            "/data/example-config",
            "/metadata/annotations/example.com~1owner",
        ],
    ),
    (
        &["clustercolocationprofile", "spark"],
        &["/spec", "/metadata/annotations/example.com~1owner"],
    ),
    (
        &["nodeslo", "node-1"],
        &["/spec/extensions/example.com~1knob", "/metadata/labels/example.com~1pool"],
    ),
    (&["podgroup", "training", "-n", WORK], &["/spec", "/metadata/annotations"]),
    (&["elasticquota", "data-team", "-n", WORK], &["/spec"]),
    (&["reservation", "spare"], &["/spec", "/metadata/annotations/example.com~1owner"]),
];

/// The users' fields of all objects, one after the other.
fn kept(rig: &Rig) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for (place, fields) in KEPT {
        let object = rig.get(place).unwrap();
        all.push((format!("{} uid", place[1]), object["metadata"]["uid"].clone()));
        for field in fields {
            let value = object.pointer(field).cloned().unwrap_or_default();
            assert!(!value.is_null(), "{} has no {field}: {object}", place[1]);
            all.push((format!("{} {field}", place[1]), value));
        }
    }
    all
}

pub(crate) fn prepare(rig: &Rig) {
    rig.start_kube_scheduler();
    let definitions = rig.tidepool(&["install", "crds"]).done();
    rig.with_file(&["apply", "--server-side"], &definitions).done();
    let wait = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"];
    rig.kubectl(&wait).done();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": WORK}});
    rig.apply(&namespace.to_string());
    rig.apply(OBJECTS);
    until(rig, "a service account for pods", || rig.get(&["serviceaccount", "default"]));
    rig.apply(BYSTANDER);
    let bystander = ready(rig, "default", "app=bystander", 1).remove(0);
    let kernel = Kernel::of(rig);
    let before = kernel.settings(&kernel.pod(&bystander));
    assert!(!before.is_empty(), "the pod has no control groups below {}", rig.cgroup_root());
    *rig.before.borrow_mut() = before;
    *rig.kept.borrow_mut() = kept(rig);
}

pub(crate) fn survives(rig: &Rig) {
    survives_but(rig, "nothing");
}

/// What users wrote is as it was, but for what has this in its name.
pub(crate) fn survives_but(rig: &Rig, changed: &str) {
    let now = kept(rig);
    for (before, after) in rig.kept.borrow().iter().zip(&now) {
        assert!(before == after || before.0.contains(changed), "{before:?} became {after:?}");
    }
}

/// The cluster as it was before there was a Koordinator.
pub(crate) fn remove(rig: &Rig) {
    let gone = ["--ignore-not-found", "--timeout=90s"];
    rig.kubectl(&[&["delete", "namespace", SYSTEM], &gone[..]].concat()).done();
    let definitions = rig.tidepool(&["install", "crds"]).done();
    rig.with_file(&[&["delete"], &gone[..]].concat(), &definitions).done();
}
