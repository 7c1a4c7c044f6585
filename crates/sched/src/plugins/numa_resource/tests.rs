use proptest::prelude::*;
use serde_json::json;

use super::super::trial::Trial;
use super::*;

const STATUS: &str = "scheduling.koordinator.sh/resource-status";
const SPEC: &str = "scheduling.koordinator.sh/resource-spec";

/// One socket, two NUMA nodes, eight cores of two threads: CPU `c` and `c + 8` are siblings.
fn topology() -> String {
    let detail: Vec<_> = (0..16)
        .map(|id| json!({"id": id, "core": id % 8, "socket": 0, "node": id % 8 / 4}))
        .collect();
    json!({ "detail": detail }).to_string()
}

fn node(labels: Value) -> Value {
    json!({
        "metadata": {"name": "n", "uid": "n", "labels": labels},
        "status": {"allocatable": {"cpu": "16", "memory": "32Gi", "pods": "110",
                                   "kubernetes.io/batch-cpu": "8000"}},
    })
}

fn describe(trial: &mut Trial) {
    let zone = |name| {
        let amount = |name, amount| json!({"name": name, "capacity": amount, "allocatable": amount, "available": amount});
        json!({"name": name, "type": "Node", "resources": [amount("cpu", "8"), amount("memory", "16Gi")]})
    };
    let object = serde_json::from_value(json!({
        "metadata": {"name": "n", "annotations": {"node.koordinator.sh/cpu-topology": topology()}},
        "topologyPolicies": [], "zones": [zone("node-0"), zone("node-1")],
    }))
    .unwrap();
    trial.snapshot.set_topology("n", Some(&object));
}

fn pod(name: &str, qos: &str, priority: i32, resources: Value) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default", "uid": name,
                     "labels": {"koordinator.sh/qosClass": qos}},
        "spec": {"priority": priority, "containers": [
            {"name": "c", "resources": {"requests": resources, "limits": resources}}]},
    })
}

fn lsr(name: &str, cpu: &str) -> Value {
    pod(name, "LSR", 9_000, json!({"cpu": cpu, "memory": "1Gi"}))
}

fn trial() -> (Trial, NodeIx) {
    let mut trial = Trial::new(NAME, &Value::Null);
    let at = trial.node(node(json!({})));
    describe(&mut trial);
    (trial, at)
}

fn status(patch: &Patch) -> Option<&str> {
    patch.annotations.get(STATUS).map(String::as_str)
}

/// The rules of the four classes: LSE and LSR get CPUs of their own, LS and BE do not.
#[test]
fn each_qos_class_gets_its_cpus() {
    let (mut trial, at) = trial();
    let pods = [
        (
            "lse",
            "LSE",
            9_000,
            json!({"cpu": "4", "memory": "1Gi"}),
            Some(r#"{"cpuset":"0-1,8-9"}"#),
        ),
        ("lsr", "LSR", 9_000, json!({"cpu": "2", "memory": "1Gi"}), Some(r#"{"cpuset":"4,12"}"#)),
        ("ls", "LS", 9_000, json!({"cpu": "2", "memory": "1Gi"}), None),
        ("be", "BE", 5_000, json!({"kubernetes.io/batch-cpu": "2000"}), None),
    ];
    for (name, qos, priority, resources, want) in pods {
        let pod = trial.pod(&pod(name, qos, priority, resources));
        assert_eq!(trial.verdict(pod, at), Ok(()), "{name}");
        let patch = trial.place(pod, at).unwrap();
        assert_eq!(status(&patch), want, "{name}");
        let spec = patch.annotations.get(SPEC).map(String::as_str);
        let filled = want.map(|_| r#"{"preferredCPUBindPolicy":"FullPCPUs"}"#);
        assert_eq!(spec, filled, "{name}: the effective policy is written");
    }
    let state = trial.snapshot.extras.numa.state(at).unwrap();
    assert_eq!(*state.free(), "2-3,5-7,10-11,13-15".parse().unwrap());
    assert_eq!(trial.snapshot.extras.check(), Vec::<String>::new());
}

#[test]
fn a_policy_that_was_written_is_left_alone() {
    let (mut trial, at) = trial();
    let mut object = lsr("a", "2");
    object["metadata"]["annotations"] =
        json!({SPEC: r#"{"preferredCPUBindPolicy":"SpreadByPCPUs"}"#});
    let pod = trial.pod(&object);
    let patch = trial.place(pod, at).unwrap();
    assert_eq!(status(&patch), Some(r#"{"cpuset":"0-1"}"#));
    assert_eq!(patch.annotations.get(SPEC), None);
}

#[test]
fn what_is_given_back_is_free_again() {
    let (mut trial, at) = trial();
    let first = trial.pod(&lsr("a", "16"));
    trial.place(first, at).unwrap();
    let second = trial.pod(&lsr("b", "2"));
    let full = Err("not enough cpus available to satisfy request".to_owned());
    assert_eq!(trial.verdict(second, at), full);
    trial.give_up(first, at);
    assert_eq!(trial.verdict(second, at), Ok(()));
    assert_eq!(trial.snapshot.extras.check(), Vec::<String>::new());
}

#[test]
fn a_dry_run_finds_the_same_cpus_again() {
    let (mut trial, at) = trial();
    let pod = trial.pod(&lsr("a", "4"));
    trial.place(pod, at).unwrap();
    let before = trial.snapshot.extras.numa.state(at).unwrap().free().clone();
    trial.snapshot.lift(pod, at);
    assert_eq!(trial.snapshot.extras.numa.state(at).unwrap().free().len(), 16);
    trial.snapshot.drop_on(pod, at);
    assert_eq!(*trial.snapshot.extras.numa.state(at).unwrap().free(), before);
}

#[test]
fn a_bound_pod_holds_what_its_annotation_says() {
    let mut trial = Trial::new(NAME, &Value::Null);
    let mut object = lsr("a", "2");
    object["spec"]["nodeName"] = json!("n");
    object["metadata"]["annotations"] = json!({STATUS: r#"{"cpuset":"3,11"}"#});
    let bound = trial.pod(&object);
    let at = trial.node(node(json!({})));
    assert_eq!(trial.snapshot.extras.numa.state(at).unwrap().bound(), 2, "no topology yet");
    describe(&mut trial);
    let state = trial.snapshot.extras.numa.state(at).unwrap();
    assert_eq!(*state.free(), "0-2,4-10,12-15".parse().unwrap());
    // The node agent moved it.
    object["metadata"]["annotations"] = json!({STATUS: r#"{"cpuset":"0,8"}"#});
    let Snapshot { extras, resources, .. } = &mut trial.snapshot;
    extras.pod_seen(bound, &serde_json::from_value(object).unwrap(), resources);
    let mut touched = Vec::new();
    extras.expire(crate::Time::ZERO, &mut touched);
    assert_eq!(touched, [at]);
    assert_eq!(*extras.numa.state(at).unwrap().free(), "1-7,9-15".parse().unwrap());
}

#[test]
fn refusals_are_told_apart() {
    let (mut trial, at) = trial();
    let half = trial.pod(&lsr("half", "1500m"));
    assert_eq!(trial.verdict(half, at), Err("the requested CPUs must be integer".to_owned()));
    let mut unreadable = lsr("unreadable", "2");
    unreadable["metadata"]["annotations"] = json!({SPEC: "{"});
    let unreadable = trial.pod(&unreadable);
    let reason = trial.verdict(unreadable, at).unwrap_err();
    assert!(reason.starts_with("annotation scheduling.koordinator.sh/resource-spec: "), "{reason}");
    let single = json!({"node.koordinator.sh/numa-topology-policy": "SingleNUMANode"});
    trial.node(node(single));
    let wide = trial.pod(&lsr("wide", "10"));
    let reason = trial.verdict(wide, at).unwrap_err();
    assert!(reason.starts_with("Unaligned NUMA Hint cause cpu prefer [{0,1}]"), "{reason}");
    let fits = trial.pod(&lsr("fits", "8"));
    assert_eq!(trial.verdict(fits, at), Ok(()));
    let patch = trial.place(fits, at).unwrap();
    let want = r#"{"cpuset":"0-3,8-11","numaNodeResources":[{"node":0,"resources":{"cpu":"8","memory":"1Gi"}}]}"#;
    assert_eq!(status(&patch), Some(want));
}

#[test]
fn a_planners_cpus_are_taken_as_they_are() {
    let (mut trial, at) = trial();
    let mut object = lsr("a", "2");
    object["metadata"]["annotations"] = json!({
        "internal.scheduling.koordinator.sh/scheduling-hint":
            r#"{"nodeNames":["n"],"extensions":{"NodeNUMAResource":{}}}"#,
        STATUS: r#"{"cpuset":"5,13"}"#,
    });
    let pod = trial.pod(&object);
    assert_eq!(trial.verdict(pod, at), Ok(()));
    let patch = trial.place(pod, at).unwrap();
    assert_eq!(status(&patch), Some(r#"{"cpuset":"5,13"}"#));
    object["metadata"]["uid"] = json!("b");
    let other = trial.pod(&object);
    assert!(trial.verdict(other, at).is_err(), "they are taken");
}

#[test]
fn args_are_read_strictly() {
    let good = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "NodeNUMAResourceArgs",
        "defaultCPUBindPolicy": "SpreadByPCPUs",
        "scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]},
        "numaScoringStrategy": {"type": "LeastAllocated"},
    });
    let mut trial = Trial::new(NAME, &good);
    let at = trial.node(node(json!({})));
    describe(&mut trial);
    let pod = trial.pod(&lsr("a", "4"));
    assert_eq!(trial.score(pod, at), 25);
    assert_eq!(status(&trial.place(pod, at).unwrap()), Some(r#"{"cpuset":"0-3"}"#));
    let bad = [
        json!({"defaultCPUBindPolicy": "Full"}),
        json!({"scoringStrategies": {}}),
        json!({"scoringStrategy": {"resources": [{"name": "cpu", "weight": 101}]}}),
    ];
    for args in bad {
        assert!(build(&args, &mut Snapshot::default()).is_err(), "{args}");
    }
}

#[test]
fn the_endpoint_shows_cpus_and_holders() {
    let (mut trial, at) = trial();
    trial.node(node(json!({"node.koordinator.sh/numa-topology-policy": "Restricted"})));
    for (name, cpu) in [("a", "2"), ("b", "10")] {
        let pod = trial.pod(&lsr(name, cpu));
        trial.place(pod, at).unwrap();
    }
    insta::assert_json_snapshot!(trial.snapshot.numa_of("n"));
    assert_eq!(trial.snapshot.numa_of("other"), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever comes, goes, is tried or restored: allocations are counted once and add up.
    #[test]
    fn allocations_are_conserved(
        steps in prop::collection::vec((0..7_u8, 0..6_usize, 1..6_u8), 1..40),
    ) {
        let (mut trial, at) = trial();
        let mut pods: Vec<Option<PodIx>> = vec![None; 6];
        let mut is_described = true;
        for (kind, slot, cpus) in steps {
            match (kind, pods[slot]) {
                (0 | 1, None) => {
                    let pod = trial.pod(&lsr(&format!("p{slot}"), &cpus.to_string()));
                    if trial.verdict(pod, at).is_ok() {
                        prop_assert!(trial.place(pod, at).is_ok(), "what passes is placed");
                        pods[slot] = Some(pod);
                    } else {
                        trial.snapshot.extras.pod_gone(pod);
                        trial.snapshot.pods.remove(pod);
                    }
                }
                (2, Some(pod)) => {
                    trial.give_up(pod, at);
                    trial.snapshot.extras.pod_gone(pod);
                    trial.snapshot.pods.remove(pod);
                    pods[slot] = None;
                }
                (3, Some(pod)) => {
                    trial.snapshot.lift(pod, at);
                    trial.snapshot.drop_on(pod, at);
                }
                (4, _) => {
                    is_described = !is_described;
                    if is_described {
                        describe(&mut trial);
                    } else {
                        trial.snapshot.set_topology("n", None);
                    }
                }
                (5, _) => {
                    let name = trial.snapshot.node(at).unwrap().name;
                    trial.snapshot.remove_node(name);
                    prop_assert_eq!(trial.node(node(json!({}))), at);
                }
                _ => {}
            }
            prop_assert_eq!(trial.snapshot.extras.check(), Vec::<String>::new());
            let held = pods.iter().flatten().count();
            let counted = trial.snapshot.extras.numa.state(at).unwrap().pods().count();
            prop_assert_eq!(held, counted);
        }
    }
}
