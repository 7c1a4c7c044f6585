//! What is read of objects: reservations, resizes, replicas, and what cannot be read.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use sched::model::ResourceId;
use sched::scheduler::{BindFailure, Change, Key, Outcome, Update};
use serde_json::{Value, json};

use crate::{Cluster, NOW, asks, node, on, pod};

fn reserved(annotation: &str) -> Value {
    json!({
        "metadata": {"annotations": {"node.koordinator.sh/reservation": annotation}},
        "status": {"allocatable": {"kubernetes.io/batch-cpu": "4000"}},
    })
}

#[test]
fn node_reservations_are_taken_off() {
    let cases = [
        ("amounts", r#"{"resources":{"cpu":"1","memory":"1Gi"}}"#, 3_000, 7 << 30, 0),
        (
            "CPUs count over the amount",
            r#"{"resources":{"cpu":"3"},"reservedCPUs":"0-1"}"#,
            2_000,
            8 << 30,
            0,
        ),
        ("never below zero", r#"{"resources":{"cpu":"9"}}"#, 0, 8 << 30, 0),
        (
            "CPUs only",
            r#"{"resources":{"cpu":"1"},"applyPolicy":"ReservedCPUsOnly"}"#,
            4_000,
            8 << 30,
            0,
        ),
        (
            "lent resources stay",
            r#"{"resources":{"kubernetes.io/batch-cpu":"1000"}}"#,
            4_000,
            8 << 30,
            0,
        ),
        ("unreadable counts as absent", r#"{"resources":"#, 4_000, 8 << 30, 1),
    ];
    for (name, annotation, cpu, memory, findings) in cases {
        let cluster = Cluster::new(vec![node("n", reserved(annotation))], Vec::new());
        let snapshot = cluster.0.snapshot();
        let at = snapshot.find_node("n").unwrap();
        let rooms = snapshot.rooms();
        assert_eq!(rooms.allocatable(ResourceId::CPU, at), cpu, "{name}: cpu");
        assert_eq!(rooms.allocatable(ResourceId::MEMORY, at), memory, "{name}: memory");
        let batch = snapshot.resources.find("kubernetes.io/batch-cpu").unwrap();
        assert_eq!(rooms.allocatable(batch, at), 4_000, "{name}: batch");
        assert_eq!(snapshot.node(at).unwrap().findings.len(), findings, "{name}: findings");
    }
}

#[test]
fn a_resize_is_charged_at_its_largest() {
    let resized = |status: Value| {
        let mut pod = on("n", pod("there", asks(json!({"cpu": "2"}))));
        pod.status = serde_json::from_value(status).unwrap();
        pod
    };
    let container = |allocated: &str, actual: &str| {
        json!([{
            "name": "main", "image": "", "imageID": "", "ready": true, "restartCount": 0,
            "allocatedResources": {"cpu": allocated},
            "resources": {"requests": {"cpu": actual}},
        }])
    };
    let cases = [
        ("wanted", json!({"containerStatuses": container("1", "1")}), 2_000),
        ("granted", json!({"containerStatuses": container("3", "1")}), 3_000),
        ("actual", json!({"containerStatuses": container("1", "3")}), 3_000),
        (
            "wanted but infeasible",
            json!({
                "containerStatuses": container("1", "1"),
                "conditions": [
                    {"type": "PodResizePending", "status": "True", "reason": "Infeasible"},
                ],
            }),
            1_000,
        ),
    ];
    for (name, status, want) in cases {
        let cluster = Cluster::new(vec![node("n", json!({}))], vec![resized(status)]);
        let snapshot = cluster.0.snapshot();
        let at = snapshot.find_node("n").unwrap();
        assert_eq!(snapshot.rooms().requested(ResourceId::CPU, at), want, "{name}");
    }
}

/// Replicas differ in name, uid, times and the names of projected volumes, and share a class.
#[test]
fn replicas_share_a_class() {
    let replica = |name: &str, over: Value| {
        let mut object = json!({
            "metadata": {
                "name": name, "namespace": "default", "uid": name,
                "labels": {"app": "web", "pod-template-hash": "abc"},
                "annotations": {"kubectl.kubernetes.io/restartedAt": name},
            },
            "spec": {
                "schedulerName": "default-scheduler",
                "containers": [{"name": "main", "image": "web:1", "volumeMounts": [
                    {"name": format!("token-{name}"), "mountPath": "/var/run"},
                ]}],
                "volumes": [{"name": format!("token-{name}"), "projected": {"sources": []}}],
            },
        });
        crate::merge(&mut object, over);
        serde_json::from_value::<Pod>(object).unwrap()
    };
    let classes = |pods: Vec<Pod>| {
        let cluster = Cluster::new(vec![node("n", json!({}))], pods);
        cluster.0.snapshot().classes.len()
    };
    let one = || replica("a", json!({}));
    assert_eq!(classes(vec![one(), replica("b", json!({}))]), 1);
    let placed = json!({
        "metadata": {"annotations": {"scheduling.koordinator.sh/resource-status": "{}"}},
        "spec": {"nodeName": "n"}, "status": {"phase": "Running"},
    });
    assert_eq!(classes(vec![one(), replica("b", placed)]), 1, "placed by somebody");
    let differences = [
        json!({"metadata": {"labels": {"app": "db"}}}),
        json!({"spec": {"priority": 7}}),
        json!({"spec": {"nodeSelector": {"a": "b"}}}),
        json!({"metadata": {"annotations": {"scheduling.koordinator.sh/resource-spec": "{}"}}}),
    ];
    for difference in differences {
        let other = replica("b", difference.clone());
        assert_eq!(classes(vec![one(), other]), 2, "{difference}");
    }
}

#[test]
fn applying_everything_twice_changes_nothing() {
    let nodes = || vec![node("n", json!({})), node("m", json!({}))];
    let pods =
        || vec![on("n", pod("a", asks(json!({"cpu": "1"})))), on("gone", pod("b", json!({})))];
    let mut cluster = Cluster::new(nodes(), pods());
    let end = cluster.0.snapshot().log().end();
    for node in nodes() {
        cluster.0.apply(Change::Node(Update::Upsert(Arc::new(node))), NOW);
    }
    for pod in pods() {
        cluster.add(pod);
    }
    assert_eq!(cluster.0.snapshot().log().end(), end);
    assert_eq!(cluster.0.check(), Vec::<String>::new());
}

#[test]
fn pods_before_their_node_are_charged_when_it_comes() {
    let mut cluster = Cluster::new(Vec::new(), vec![on("n", pod("a", asks(json!({"cpu": "3"}))))]);
    cluster.0.apply(Change::Node(Update::Upsert(Arc::new(node("n", json!({}))))), NOW);
    let found = cluster.try_pod(pod("p", asks(json!({"cpu": "2"}))));
    assert_eq!(found, Err("0/1 nodes are available: 1 Insufficient cpu.".to_owned()));
    // The node goes and comes back; its pod was there all the time.
    cluster.0.apply(Change::Node(Update::Delete(Key::new("", "n"))), NOW);
    cluster.0.apply(Change::Node(Update::Upsert(Arc::new(node("n", json!({}))))), NOW);
    let found = cluster.try_pod(pod("q", asks(json!({"cpu": "2"}))));
    assert_eq!(found, Err("0/1 nodes are available: 1 Insufficient cpu.".to_owned()));
    assert_eq!(cluster.0.check(), Vec::<String>::new());
}

#[test]
fn finished_pods_hold_nothing() {
    let mut done = on("n", pod("a", asks(json!({"cpu": "4"}))));
    let mut cluster = Cluster::new(vec![node("n", json!({}))], vec![done.clone()]);
    assert!(cluster.try_pod(pod("p", asks(json!({"cpu": "1"})))).is_err());
    done.status = serde_json::from_value(json!({"phase": "Succeeded"})).unwrap();
    cluster.add(done);
    assert_eq!(cluster.try_pod(pod("q", asks(json!({"cpu": "1"})))), Ok("n".to_owned()));
}

#[test]
fn pods_of_other_schedulers_are_left_alone_but_counted() {
    let mut cluster = Cluster::new(vec![node("n", json!({}))], Vec::new());
    let theirs = json!({"schedulerName": "theirs"});
    cluster.add(pod("a", theirs.clone()));
    assert!(cluster.0.next(NOW).is_none());
    let mut bound = theirs;
    crate::merge(&mut bound, asks(json!({"cpu": "4"})));
    cluster.add(on("n", pod("a", bound)));
    assert!(cluster.try_pod(pod("p", asks(json!({"cpu": "1"})))).is_err());
}

#[test]
fn a_failed_binding_gives_the_room_back() {
    let mut cluster = Cluster::new(vec![node("n", json!({}))], Vec::new());
    assert_eq!(cluster.try_pod(pod("p", asks(json!({"cpu": "4"})))), Ok("n".to_owned()));
    let copy = pod("p", asks(json!({"cpu": "4"})));
    cluster.add(copy);
    assert!(cluster.0.next(NOW).is_none(), "an old copy does not queue it again");
    cluster.0.bind_failed("p", BindFailure::Error("conflict".to_owned()), NOW);
    assert_eq!(cluster.0.check(), Vec::<String>::new());
    assert_eq!(cluster.try_pod(pod("q", asks(json!({"cpu": "4"})))), Ok("n".to_owned()));
    cluster.0.bound("q", NOW);
    cluster.0.bind_failed("q", BindFailure::Error("late".to_owned()), NOW);
    let at = cluster.0.snapshot().find_node("n").unwrap();
    assert_eq!(cluster.0.snapshot().pods_on(at).len(), 1, "what is bound stays bound");
    assert_eq!(cluster.0.check(), Vec::<String>::new());
}

#[test]
fn a_pod_confirmed_elsewhere_is_charged_there() {
    let nodes = vec![node("n", json!({})), node("m", json!({"spec": {"unschedulable": true}}))];
    let mut cluster = Cluster::new(nodes, Vec::new());
    assert_eq!(cluster.try_pod(pod("p", asks(json!({"cpu": "4"})))), Ok("n".to_owned()));
    cluster.add(on("m", pod("p", asks(json!({"cpu": "4"})))));
    let snapshot = cluster.0.snapshot();
    let charged = |name: &str| snapshot.pods_on(snapshot.find_node(name).unwrap()).len();
    assert_eq!((charged("n"), charged("m")), (0, 1));
    assert_eq!(cluster.0.check(), Vec::<String>::new());
}

#[test]
fn a_pod_that_is_going_is_skipped() {
    let mut cluster = Cluster::new(vec![node("n", json!({}))], Vec::new());
    let meta = json!({"metadata": {"deletionTimestamp": "2026-01-01T01:00:00Z"}});
    let going: Pod = serde_json::from_value(meta).unwrap();
    let mut one = pod("p", json!({}));
    one.metadata.deletion_timestamp = going.metadata.deletion_timestamp;
    let attempt = cluster.attempt(one);
    assert!(matches!(attempt.outcome, Outcome::Skip { reason: "pod is being deleted" }));
}
