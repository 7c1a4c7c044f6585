//! Spread, case by case, and against a count from end to end.

mod recount;

use serde_json::{Value, json};

use super::*;
use crate::plugins::rig::{Rig, labels, pod};
use crate::snapshot::Controller;

/// Two nodes in zone 1, one in zone 2, one without a zone.
const NODES: [&str; 4] = [
    "a kubernetes.io/hostname=a zone=1 disk=ssd",
    "b kubernetes.io/hostname=b zone=1",
    "c kubernetes.io/hostname=c zone=2 disk=ssd",
    "d kubernetes.io/hostname=d",
];

fn constraint(key: &str, max_skew: i64) -> Value {
    json!({
        "maxSkew": max_skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    })
}

fn soft(key: &str, max_skew: i64) -> Value {
    with(constraint(key, max_skew), "whenUnsatisfiable", json!("ScheduleAnyway"))
}

fn with(mut constraint: Value, field: &str, value: Value) -> Value {
    constraint[field] = value;
    constraint
}

fn spread(constraints: &[Value]) -> Value {
    pod("app=web", json!({"topologySpreadConstraints": constraints}))
}

fn also(mut pod: Value, field: &str, value: Value) -> Value {
    pod["spec"][field] = value;
    pod
}

fn web() -> Value {
    pod("app=web", json!({}))
}

fn terminating() -> Value {
    let mut pod = web();
    pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    pod
}

/// One letter a node: `.` passes, `S` skewed, `M` the label is missing.
fn letters(rig: &Rig, prepared: &Prepared) -> String {
    let letter = |reason: String| match reason.as_str() {
        "" => '.',
        "node(s) didn't match pod topology spread constraints" => 'S',
        "!node(s) didn't match pod topology spread constraints (missing required label)" => 'M',
        _ => '?',
    };
    rig.reasons(prepared).into_iter().map(letter).collect()
}

/// False when the work must be made again.
fn follow_all(rig: &Rig, prepared: &mut Prepared, start: u64) -> bool {
    let Some(work) = &mut prepared.work else { return true };
    let mut changes = rig.snapshot.log().since(start).unwrap();
    changes.all(|change| work.follow(&rig.snapshot, change) == Follow::Kept)
}

struct Case {
    name: &'static str,
    /// Pods by node, one letter each.
    running: &'static str,
    pod: Value,
    want: &'static str,
}

#[test]
fn hard_constraints_decide() {
    let zone = |max_skew| constraint("zone", max_skew);
    let empty = json!({});
    let cases = vec![
        Case { name: "nobody around", running: "", pod: spread(&[zone(1)]), want: "...M" },
        Case { name: "vector P11", running: "abc", pod: spread(&[zone(1)]), want: "SS.M" },
        Case {
            name: "vector P12: too few domains, so least is nothing",
            running: "abc",
            pod: spread(&[with(zone(1), "minDomains", json!(3))]),
            want: "SSSM",
        },
        Case {
            name: "enough domains",
            running: "abc",
            pod: spread(&[with(zone(1), "minDomains", json!(2))]),
            want: "SS.M",
        },
        Case { name: "a wider skew", running: "abc", pod: spread(&[zone(2)]), want: "...M" },
        Case { name: "even", running: "ac", pod: spread(&[zone(1)]), want: "...M" },
        Case {
            name: "by node",
            running: "ab",
            pod: spread(&[constraint("kubernetes.io/hostname", 1)]),
            want: "SS..",
        },
        Case {
            name: "two constraints must both hold",
            running: "ac",
            pod: spread(&[zone(1), constraint("kubernetes.io/hostname", 1)]),
            want: "S.SM",
        },
        Case {
            name: "nodes without all keys count for none",
            running: "d",
            pod: spread(&[constraint("kubernetes.io/hostname", 1), zone(1)]),
            want: "...M",
        },
        Case {
            name: "the second of two constraints counts, too",
            running: "aabbc",
            pod: spread(&[constraint("kubernetes.io/hostname", 9), zone(2)]),
            want: "SS.M",
        },
        Case {
            name: "a pod its own selector leaves out",
            running: "abc",
            pod: {
                let mut pod = spread(&[zone(1)]);
                pod["metadata"]["labels"] = labels("app=api");
                pod
            },
            want: "...M",
        },
        Case {
            name: "an empty selector counts the pod alone",
            running: "aab",
            pod: spread(&[with(zone(1), "labelSelector", empty.clone())]),
            want: "...M",
        },
        Case {
            name: "an absent selector counts nobody",
            running: "aab",
            pod: {
                let mut constraint = zone(1);
                constraint.as_object_mut().unwrap().remove("labelSelector");
                spread(&[constraint])
            },
            want: "...M",
        },
        Case {
            name: "a key no node has",
            running: "a",
            pod: spread(&[constraint("rack", 1)]),
            want: "MMMM",
        },
        Case {
            name: "pods on their way out",
            running: "TTc",
            pod: spread(&[zone(1)]),
            want: "..SM",
        },
        Case {
            name: "pods of other namespaces",
            running: "OOc",
            pod: spread(&[zone(1)]),
            want: "..SM",
        },
        Case { name: "pods of other apps", running: "XXc", pod: spread(&[zone(1)]), want: "..SM" },
        Case {
            name: "pods on unknown nodes",
            running: "?c",
            pod: spread(&[zone(1)]),
            want: "..SM",
        },
    ];
    check(cases);
}

#[test]
fn policies_choose_the_nodes_that_count() {
    let zone = || constraint("zone", 1);
    let host = || constraint("kubernetes.io/hostname", 1);
    let selector = json!({"disk": "ssd"});
    let tolerations = json!([{"key": "gpu", "operator": "Exists"}]);
    let ignore = |one| with(one, "nodeAffinityPolicy", json!("Ignore"));
    let honour = |one| with(one, "nodeTaintsPolicy", json!("Honor"));
    let cases = vec![
        Case {
            name: "nodes the pod does not select are no domains",
            running: "ac",
            pod: also(spread(&[host()]), "nodeSelector", selector.clone()),
            want: "....",
        },
        Case {
            name: "unless affinity is ignored",
            running: "ac",
            pod: also(spread(&[ignore(host())]), "nodeSelector", selector.clone()),
            want: "S.S.",
        },
        Case {
            name: "pods on nodes not selected do not count",
            running: "bbb",
            pod: also(spread(&[zone()]), "nodeSelector", selector.clone()),
            want: "...M",
        },
        Case {
            name: "unless affinity is ignored, again",
            running: "bbb",
            pod: also(spread(&[ignore(zone())]), "nodeSelector", selector.clone()),
            want: "SS.M",
        },
        Case {
            name: "required affinity is honoured alike",
            running: "bbb",
            pod: also(
                spread(&[zone()]),
                "affinity",
                json!({"nodeAffinity":
                {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms":
                    [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]}}}),
            ),
            want: "...M",
        },
        Case { name: "tainted nodes count", running: "ab", pod: spread(&[host()]), want: "SS.." },
        Case {
            name: "tainted nodes do not count when taints are honoured",
            running: "ab",
            pod: spread(&[honour(with(host(), "minDomains", json!(3)))]),
            want: "SS..",
        },
        Case {
            name: "a taint leaves fewer domains than are asked for",
            running: "abcd",
            pod: spread(&[honour(with(host(), "minDomains", json!(4)))]),
            want: "SS.S",
        },
        Case {
            name: "tolerated taints count",
            running: "abcd",
            pod: also(
                spread(&[honour(with(host(), "minDomains", json!(4)))]),
                "tolerations",
                tolerations,
            ),
            want: "....",
        },
        Case {
            name: "pods on tainted nodes count nowhere",
            running: "ccc",
            pod: spread(&[honour(zone())]),
            want: "...M",
        },
        Case {
            name: "matchLabelKeys narrow to the own value",
            running: "VVc",
            pod: {
                let keys = json!(["version"]);
                let mut pod = spread(&[with(zone(), "matchLabelKeys", keys)]);
                pod["metadata"]["labels"] = labels("app=web version=2");
                pod
            },
            want: "SS.M",
        },
    ];
    check_on(cases, |rig| {
        let taint = json!([{"key": "gpu", "effect": "NoSchedule"}]);
        let labels = labels("kubernetes.io/hostname=c zone=2 disk=ssd");
        rig.node(&json!({"metadata": {"name": "c", "labels": labels}, "spec": {"taints": taint}}));
    });
}

fn check(cases: Vec<Case>) {
    check_on(cases, |_| {});
}

/// Each case is asked of a cluster that has the pods, and of one where they arrive after the
/// question was prepared.
fn check_on(cases: Vec<Case>, prepare: impl Fn(&mut Rig)) {
    for Case { name, running, pod: incoming, want } in cases {
        let mut rig = Rig::new(&NODES);
        prepare(&mut rig);
        let plugin = build(&Value::Null, &mut rig.snapshot).unwrap();
        let class = rig.class(&incoming);
        let mut early = rig.prepare(&*plugin, &class);
        let start = rig.snapshot.log().end();
        for letter in running.chars() {
            let mut other = web();
            other["metadata"]["namespace"] = json!("other");
            match letter {
                'T' => rig.run("a", &terminating()),
                'O' => rig.run("a", &other),
                'X' => rig.run("a", &pod("app=api", json!({}))),
                'V' => rig.run("a", &pod("app=web version=2", json!({}))),
                '?' => rig.run("nowhere", &web()),
                node => rig.run(&node.to_string(), &web()),
            };
        }
        let late = rig.prepare(&*plugin, &class);
        assert_eq!(letters(&rig, &late), want, "{name}");
        if !running.contains('?') {
            assert!(follow_all(&rig, &mut early, start), "{name}");
            assert_eq!(letters(&rig, &early), want, "{name}, followed");
        }
    }
}

#[test]
fn soft_constraints_score() {
    struct Case {
        name: &'static str,
        running: &'static str,
        pod: Value,
        want: Option<Vec<i64>>,
    }
    let zone = || soft("zone", 1);
    let host = || soft("kubernetes.io/hostname", 1);
    let cases = vec![
        Case { name: "no constraints", running: "a", pod: web(), want: None },
        Case {
            name: "nobody around",
            running: "",
            pod: spread(&[zone()]),
            want: Some(vec![100, 100, 100, 0]),
        },
        Case {
            name: "vector P10: 3 and 1",
            running: "aabc",
            pod: spread(&[zone()]),
            want: Some(vec![25, 25, 100, 0]),
        },
        Case {
            name: "by node: ln(4 + 2) a pod",
            running: "aab",
            pod: spread(&[host()]),
            want: Some(vec![0, 50, 100, 100]),
        },
        Case {
            name: "both: the keyless node is out",
            running: "aab",
            pod: spread(&[zone(), host()]),
            want: Some(vec![0, 14, 100, 0]),
        },
        Case {
            name: "a wide skew levels",
            running: "aab",
            pod: spread(&[soft("kubernetes.io/hostname", 10)]),
            want: Some(vec![69, 84, 100, 100]),
        },
        Case {
            name: "only nodes that pass are scored",
            running: "aac",
            pod: spread(&[constraint("zone", 1), host()]),
            want: Some(vec![100]),
        },
    ];
    for Case { name, running, pod, want } in cases {
        let mut rig = Rig::new(&NODES);
        let plugin = build(&Value::Null, &mut rig.snapshot).unwrap();
        for node in running.chars() {
            rig.run(&node.to_string(), &web());
        }
        let class = rig.class(&pod);
        let mut prepared = rig.prepare(&*plugin, &class);
        assert_eq!(rig.scores(&mut prepared), want, "{name}");
    }
}

/// A pod of a ReplicaSet `web`.
fn replica() -> Value {
    let mut pod = web();
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1",
        "controller": true}]);
    pod["metadata"]["ownerReferences"] = owner;
    pod
}

fn select_web(rig: &mut Rig) -> Selector {
    let mut reader = crate::read::Reader {
        names: &mut rig.snapshot.names,
        resources: &mut rig.snapshot.resources,
    };
    reader.label_map(Some(&[("app".to_owned(), "web".to_owned())].into()))
}

const ZONED: [&str; 4] = [
    "a kubernetes.io/hostname=a topology.kubernetes.io/zone=1",
    "b kubernetes.io/hostname=b topology.kubernetes.io/zone=1",
    "c kubernetes.io/hostname=c topology.kubernetes.io/zone=2",
    "d kubernetes.io/hostname=d",
];

#[test]
fn defaults_apply_to_what_services_and_controllers_select() {
    for (name, source, args, want) in [
        ("nobody selects it", "", json!(null), None),
        ("its controller", "set", json!(null), Some(vec![14, 28, 71, 100])),
        ("a service", "service", json!(null), Some(vec![14, 28, 71, 100])),
        ("another namespace's service", "elsewhere", json!(null), None),
        ("a service that selects others", "other", json!(null), None),
        ("no defaults", "set", json!({"defaultingType": "List"}), None),
        (
            "listed defaults ignore nodes without the key",
            "set",
            json!({"defaultingType": "List", "defaultConstraints": [{"maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway"}]}),
            Some(vec![0, 0, 100, 0]),
        ),
    ] {
        let mut rig = Rig::new(&ZONED);
        let plugin = build(&args, &mut rig.snapshot).unwrap();
        let selector = select_web(&mut rig);
        let intern = |rig: &mut Rig, text: &str| rig.snapshot.names.intern(text);
        let (default, other) = (intern(&mut rig, "default"), intern(&mut rig, "elsewhere"));
        let (web_name, api) = (intern(&mut rig, "web"), intern(&mut rig, "api"));
        let app = intern(&mut rig, "app");
        let workloads = &mut rig.snapshot.extras.workloads;
        match source {
            "set" => {
                workloads.set_controller(Controller::ReplicaSet, default, web_name, Some(selector))
            }
            "service" => workloads.set_service(default, web_name, Some(selector)),
            "elsewhere" => workloads.set_service(other, web_name, Some(selector)),
            "other" => {
                let one = crate::model::Requirement {
                    key: app,
                    operator: crate::model::Operator::In,
                    values: [api].into(),
                };
                let others = Selector { requirements: [one].into(), is_absent: false };
                workloads.set_service(default, web_name, Some(others))
            }
            _ => true,
        };
        for node in "aab".chars() {
            rig.run(&node.to_string(), &web());
        }
        let class = rig.class(&replica());
        let mut prepared = rig.prepare(&*plugin, &class);
        assert!(prepared.depends.contains(&Epoch::Workloads), "{name}");
        assert_eq!(rig.scores(&mut prepared), want, "{name}");
    }
}

#[test]
fn a_listed_default_can_be_hard() {
    let args = json!({"defaultingType": "List", "defaultConstraints": [{"maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}]});
    let mut rig = Rig::new(&ZONED);
    let plugin = build(&args, &mut rig.snapshot).unwrap();
    let selector = select_web(&mut rig);
    let names = ["default", "web"].map(|name| rig.snapshot.names.intern(name));
    rig.snapshot.extras.workloads.set_service(names[0], names[1], Some(selector));
    rig.run("a", &web());
    let class = rig.class(&web());
    let prepared = rig.prepare(&*plugin, &class);
    assert_eq!(letters(&rig, &prepared), "SS.M");
}

#[test]
fn bad_args_are_refused() {
    let listed = |skew: i64| {
        json!({"defaultingType": "List", "defaultConstraints":
        [{"maxSkew": skew, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]})
    };
    let mut under_system = listed(1);
    under_system["defaultingType"] = json!("System");
    let mut rig = Rig::default();
    for (args, is_good) in [
        (json!({}), true),
        (listed(1), true),
        (listed(0), false),
        (under_system, false),
        (json!({"defaultingType": "Other"}), false),
    ] {
        assert_eq!(build(&args, &mut rig.snapshot).is_ok(), is_good, "{args}");
    }
}

#[test]
fn nodes_that_change_sides_make_the_count_again() {
    let taint = json!([{"key": "gpu", "effect": "NoSchedule"}]);
    for (name, text, taints, is_kept) in [
        ("nothing that matters", "zone=1 disk=ssd color=blue", json!([]), true),
        ("another zone", "zone=2 disk=ssd", json!([]), false),
        ("no longer selected", "zone=1", json!([]), false),
        ("tainted", "zone=1 disk=ssd", taint, false),
    ] {
        let mut rig = Rig::new(&NODES);
        let plugin = build(&Value::Null, &mut rig.snapshot).unwrap();
        let honour = with(constraint("zone", 1), "nodeTaintsPolicy", json!("Honor"));
        let class = rig.class(&also(spread(&[honour]), "nodeSelector", json!({"disk": "ssd"})));
        let mut prepared = rig.prepare(&*plugin, &class);
        let start = rig.snapshot.log().end();
        let labels = labels(text);
        rig.node(&json!({"metadata": {"name": "a", "labels": labels}, "spec": {"taints": taints}}));
        assert_eq!(follow_all(&rig, &mut prepared, start), is_kept, "{name}");
    }
}
