//! Co-location end to end in the engine: objects in, placements and patches out.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

mod brute;

use std::sync::Arc;

use sched::Scheduler;
use sched::profile::Profile;
use sched::scheduler::{Attempt, Change, Key, Options, Outcome, Update};
use sched::time::Time;
use serde_json::{Value, json};

const STATUS: &str = "scheduling.koordinator.sh/resource-status";

const PLUGINS: [&str; 13] = [
    "SchedulingGates",
    "PrioritySort",
    "NodeUnschedulable",
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    "NodeResourcesBalancedAllocation",
    "DefaultPreemption",
    "SchedulingHint",
    "LoadAwareScheduling",
    "NodeNUMAResource",
    "DefaultBinder",
    "DefaultPreBind",
];

fn at(seconds: i64) -> Time {
    Time::from_secs(1_000_000 + seconds)
}

fn scheduler() -> Scheduler {
    scheduler_with(Value::Null)
}

fn scheduler_with(load: Value) -> Scheduler {
    let profile = Profile::of("default-scheduler", PLUGINS).with_args("LoadAwareScheduling", load);
    Scheduler::new(vec![profile], Options::default()).unwrap()
}

fn upsert<T: serde::de::DeserializeOwned>(object: Value) -> Update<T> {
    Update::Upsert(Arc::new(serde_json::from_value(object).unwrap()))
}

/// One socket, two NUMA nodes, eight cores of two threads: CPU `c` and `c + 8` are siblings.
fn topology(name: &str) -> Value {
    let cpu = |id: i32| json!({"id": id, "core": id % 8, "socket": 0, "node": id % 8 / 4});
    let cpus = json!({"detail": (0..16).map(cpu).collect::<Vec<_>>()}).to_string();
    json!({"metadata": {"name": name, "annotations": {"node.koordinator.sh/cpu-topology": cpus}},
           "topologyPolicies": [], "zones": []})
}

fn node(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "uid": name},
        "status": {"allocatable": {"cpu": "16", "memory": "32Gi", "pods": "110",
                                   "kubernetes.io/batch-cpu": "16000",
                                   "kubernetes.io/batch-memory": "16Gi"}},
    })
}

fn pod(name: &str, qos: &str, priority: i32, resources: Value) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default", "uid": name,
                     "creationTimestamp": "1970-01-12T13:46:40Z",
                     "labels": {"koordinator.sh/qosClass": qos}},
        "spec": {"schedulerName": "default-scheduler", "priority": priority, "containers": [
            {"name": "c", "resources": {"requests": resources, "limits": resources}}]},
    })
}

fn lsr(name: &str, cpus: &str) -> Value {
    pod(name, "LSR", 9_000, json!({"cpu": cpus, "memory": "1Gi"}))
}

fn metric(name: &str, seconds: i64, cpu: &str) -> Value {
    let time = jiff::Timestamp::from_second(at(seconds).whole_secs()).unwrap().to_string();
    json!({"metadata": {"name": name}, "spec": {}, "status": {
        "updateTime": time,
        "nodeMetric": {"nodeUsage": {"resources": {"cpu": cpu, "memory": "1Gi"}}}}})
}

/// Applies a pod and tries until nothing is left to do; the last attempt at this pod.
fn schedule(scheduler: &mut Scheduler, object: &Value, now: Time) -> Attempt {
    scheduler.apply(Change::Pod(upsert(object.clone())), now);
    let mut last = None;
    while let Some(attempt) = scheduler.next(now) {
        last = Some(attempt);
    }
    assert_eq!(scheduler.check(), Vec::<String>::new());
    last.unwrap()
}

fn placed(attempt: &Attempt) -> Result<(&str, Option<&str>), String> {
    match &attempt.outcome {
        Outcome::Place(place) => {
            let status = place.patch.annotations.get(STATUS).map(String::as_str);
            Ok((place.node.as_str(), status))
        }
        Outcome::Reject(reject) => Err(reject.why.message()),
        Outcome::Skip { reason } => Err((*reason).to_owned()),
        Outcome::Ask(_) | Outcome::AskRoom(_) => Err("others are asked".to_owned()),
    }
}

/// What the API server reports once a placed pod is bound.
fn bound(mut object: Value, node: &str, status: Option<&str>) -> Value {
    object["spec"]["nodeName"] = json!(node);
    if let Some(status) = status {
        object["metadata"]["annotations"] = json!({STATUS: status});
    }
    object
}

/// Rules of the four classes on one machine of 16 CPUs: LSE and LSR get CPUs of their own, LS
/// shares the rest, BE lives on what is lent out.
#[test]
fn four_classes_share_a_machine() {
    let mut scheduler = scheduler();
    scheduler.apply(Change::Node(upsert(node("n"))), at(0));
    scheduler.apply(Change::NodeTopology(upsert(topology("n"))), at(0));
    let native = |cpus: &str| json!({"cpu": cpus, "memory": "1Gi"});
    let batch = json!({"kubernetes.io/batch-cpu": "4000", "kubernetes.io/batch-memory": "1Gi"});
    let cases = [
        (pod("lse", "LSE", 9_500, native("4")), Some(r#"{"cpuset":"0-1,8-9"}"#)),
        (pod("lsr", "LSR", 9_200, native("4")), Some(r#"{"cpuset":"4-5,12-13"}"#)),
        (pod("ls", "LS", 9_000, native("4")), None),
        (pod("be", "BE", 5_500, batch), None),
    ];
    for (object, want) in cases {
        let attempt = schedule(&mut scheduler, &object, at(1));
        assert_eq!(placed(&attempt), Ok(("n", want)), "{}", attempt.pod.name);
        scheduler.apply(Change::Pod(upsert(bound(object, "n", want))), at(2));
        scheduler.bound(&attempt.pod.uid, at(2));
        assert_eq!(scheduler.check(), Vec::<String>::new());
    }
    let free = scheduler.snapshot().numa_of("n").unwrap()["availableCPUs"].clone();
    assert_eq!(free, json!("2-3,6-7,10-11,14-15"));
    // Eight CPUs are free of holders, but the LS pod has four of them on loan: fit decides.
    let attempt = schedule(&mut scheduler, &lsr("big", "6"), at(3));
    let reason = placed(&attempt).unwrap_err();
    assert!(reason.contains("Insufficient cpu"), "{reason}");
}

/// After a restart the CPUs of running pods are taken, whatever is heard of first.
#[test]
fn cpus_are_not_given_twice_after_a_restart() {
    let running = bound(lsr("old", "8"), "n", Some(r#"{"cpuset":"0-3,8-11"}"#));
    let facts = [
        Change::Pod(upsert(running)),
        Change::Node(upsert(node("n"))),
        Change::NodeTopology(upsert(topology("n"))),
    ];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut scheduler = scheduler();
        for index in order {
            scheduler.apply(facts[index].clone(), at(0));
        }
        let attempt = schedule(&mut scheduler, &lsr("new", "4"), at(1));
        assert_eq!(placed(&attempt), Ok(("n", Some(r#"{"cpuset":"4-5,12-13"}"#))), "{order:?}");
    }
}

#[test]
fn a_pod_waits_for_cpus_and_gets_them() {
    let mut scheduler = scheduler();
    scheduler.apply(Change::Node(upsert(node("n"))), at(0));
    let first = schedule(&mut scheduler, &lsr("a", "8"), at(1));
    let reason = placed(&first).unwrap_err();
    assert!(reason.contains("node(s) invalid CPU Topology"), "{reason}");
    scheduler.apply(Change::NodeTopology(upsert(topology("n"))), at(10));
    scheduler.tick(at(30));
    let woken = scheduler.next(at(30)).unwrap();
    assert_eq!(placed(&woken), Ok(("n", Some(r#"{"cpuset":"0-3,8-11"}"#))));
    let shared = pod("shared", "LS", 9_000, json!({"cpu": "1", "memory": "1Gi"}));
    placed(&schedule(&mut scheduler, &shared, at(31))).unwrap();
    let second = schedule(&mut scheduler, &lsr("b", "8"), at(32));
    placed(&second).unwrap_err();
    scheduler.apply(Change::Pod(Update::Delete(Key::new("default", "a").with_uid("a"))), at(33));
    assert_eq!(scheduler.check(), Vec::<String>::new());
    scheduler.tick(at(60));
    let woken = scheduler.next(at(60)).unwrap();
    assert_eq!((woken.pod.name.as_str(), placed(&woken).unwrap().0), ("b", "n"));
}

#[test]
fn a_failed_bind_gives_the_cpus_back() {
    let mut scheduler = scheduler();
    scheduler.apply(Change::Node(upsert(node("n"))), at(0));
    scheduler.apply(Change::NodeTopology(upsert(topology("n"))), at(0));
    let attempt = schedule(&mut scheduler, &lsr("a", "16"), at(1));
    placed(&attempt).unwrap();
    let failure = sched::scheduler::BindFailure::Error("conflict".to_owned());
    scheduler.bind_failed(&attempt.pod.uid, failure, at(2));
    assert_eq!(scheduler.check(), Vec::<String>::new());
    let free = scheduler.snapshot().numa_of("n").unwrap()["availableCPUs"].clone();
    assert_eq!(free, json!("0-15"));
}

/// Two idle nodes: pods alternate although requests alone would not tell the nodes apart for long,
/// and no node is filled beyond its threshold before it reports again.
#[test]
fn load_spreads_and_stops_at_the_threshold() {
    let mut scheduler = scheduler();
    for name in ["cold", "hot"] {
        scheduler.apply(Change::Node(upsert(node(name))), at(0));
    }
    scheduler.apply(Change::NodeMetric(upsert(metric("hot", 0, "11"))), at(0));
    scheduler.apply(Change::NodeMetric(upsert(metric("cold", 0, "1"))), at(0));
    let mut counts = 0;
    for number in 0..12 {
        let object =
            pod(&format!("p{number}"), "LS", 9_000, json!({"cpu": "1", "memory": "256Mi"}));
        let attempt = schedule(&mut scheduler, &object, at(1));
        match placed(&attempt) {
            Ok((node, _)) => {
                assert_eq!(node, "cold");
                counts += 1;
            }
            Err(reason) => {
                assert!(reason.contains("2 node(s) cpu usage exceed threshold"), "{reason}");
            }
        }
    }
    // 1000 m used and 850 m for each pod: the eleventh would make it 65.4 %, rounded 65.
    assert_eq!(counts, 11);
    // A quieter report wakes the one that waits.
    scheduler.apply(Change::NodeMetric(upsert(metric("hot", 60, "1"))), at(61));
    scheduler.tick(at(62));
    let woken = scheduler.next(at(62)).unwrap();
    assert_eq!(placed(&woken).map(|(node, _)| node.to_owned()), Ok("hot".to_owned()));
}

#[test]
fn an_old_report_counts_as_old_without_any_event() {
    let mut scheduler = scheduler();
    scheduler.apply(Change::Node(upsert(node("n"))), at(0));
    scheduler.apply(Change::NodeMetric(upsert(metric("n", 0, "1"))), at(0));
    let small = |name: &str| pod(name, "LS", 9_000, json!({"cpu": "1", "memory": "256Mi"}));
    assert!(placed(&schedule(&mut scheduler, &small("a"), at(179))).is_ok());
    let late = schedule(&mut scheduler, &small("b"), at(180));
    let reason = placed(&late).unwrap_err();
    assert!(reason.contains("node(s) nodeMetric expired"), "{reason}");
}

#[test]
fn a_planner_chooses_the_node() {
    let mut scheduler = scheduler();
    for name in ["a", "b", "c"] {
        scheduler.apply(Change::Node(upsert(node(name))), at(0));
    }
    let hinted = |name: &str, hint: &str| {
        let mut object = pod(name, "LS", 9_000, json!({"cpu": "1", "memory": "256Mi"}));
        object["metadata"]["annotations"] =
            json!({"internal.scheduling.koordinator.sh/scheduling-hint": hint});
        object
    };
    for name in ["a", "b", "c"] {
        let only = hinted(&format!("only-{name}"), &json!({"nodeNames": [name]}).to_string());
        assert_eq!(placed(&schedule(&mut scheduler, &only, at(1))).unwrap().0, name);
        let hint = json!({"preferredNodeNames": ["gone", name, "a"]}).to_string();
        let first = hinted(&format!("first-{name}"), &hint);
        assert_eq!(placed(&schedule(&mut scheduler, &first, at(1))).unwrap().0, name);
    }
}
