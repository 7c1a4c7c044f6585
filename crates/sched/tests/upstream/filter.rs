//! Where a pod may run.

use k8s_openapi::api::core::v1::{Node, Pod};
use sched::profile::Profile;
use sched::scheduler::Scheduler;
use serde_json::{Value, json};

use crate::{Cluster, asks, node, on, pod};

/// A pod against one node, with what else runs there.
struct Case {
    name: &'static str,
    node: Value,
    there: Vec<Pod>,
    pod: Value,
    /// The reasons, or nothing when the pod fits.
    want: &'static str,
}

fn check(cases: Vec<Case>) {
    for Case { name, node: over, there, pod: spec, want } in cases {
        let there = there.into_iter().map(|pod| on("n", pod)).collect();
        let mut cluster = Cluster::new(vec![node("n", over)], there);
        let found = cluster.try_pod(pod("p", spec));
        let want = match want {
            "" => Ok("n".to_owned()),
            reasons => Err(format!("0/1 nodes are available: {reasons}.")),
        };
        assert_eq!(found, want, "{name}");
    }
}

fn case(name: &'static str, node: Value, pod: Value, want: &'static str) -> Case {
    Case { name, node, there: Vec::new(), pod, want }
}

const TAINTED: &str = "1 node(s) had untolerated taint(s)";
const UNWANTED: &str = "1 node(s) didn't match Pod's node affinity/selector";
const PORTS: &str = "1 node(s) didn't have free ports for the requested pod ports";

#[test]
fn taints_keep_pods_away_unless_tolerated() {
    let tainted =
        |effect: &str| json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": effect}]}});
    let tolerates = |toleration: Value| json!({"tolerations": [toleration]});
    let hard = || tainted("NoSchedule");
    check(vec![
        case("no taint", json!({}), json!({}), ""),
        case("NoSchedule", hard(), json!({}), TAINTED),
        case("NoExecute", tainted("NoExecute"), json!({}), TAINTED),
        case("PreferNoSchedule does not filter", tainted("PreferNoSchedule"), json!({}), ""),
        case(
            "equal value",
            hard(),
            tolerates(json!({"key": "k", "operator": "Equal", "value": "v"})),
            "",
        ),
        case("Equal is the default", hard(), tolerates(json!({"key": "k", "value": "v"})), ""),
        case("other value", hard(), tolerates(json!({"key": "k", "value": "w"})), TAINTED),
        case("other key", hard(), tolerates(json!({"key": "j", "operator": "Exists"})), TAINTED),
        case(
            "Exists needs no value",
            hard(),
            tolerates(json!({"key": "k", "operator": "Exists"})),
            "",
        ),
        case(
            "Exists without key tolerates all",
            hard(),
            tolerates(json!({"operator": "Exists"})),
            "",
        ),
        case(
            "effect must be the same",
            hard(),
            tolerates(json!({"key": "k", "operator": "Exists", "effect": "NoExecute"})),
            TAINTED,
        ),
        case(
            "effect is the same",
            hard(),
            tolerates(json!({"key": "k", "operator": "Exists", "effect": "NoSchedule"})),
            "",
        ),
        case(
            "an unknown operator tolerates nothing",
            hard(),
            tolerates(json!({"key": "k", "operator": "Like", "value": "v"})),
            TAINTED,
        ),
        case(
            "every taint counts",
            json!({"spec": {"taints": [
                {"key": "k", "value": "v", "effect": "NoSchedule"},
                {"key": "l", "effect": "NoExecute"},
            ]}}),
            tolerates(json!({"key": "k", "operator": "Exists"})),
            TAINTED,
        ),
        case(
            "an empty value equals an empty value",
            json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),
            tolerates(json!({"key": "k"})),
            "",
        ),
    ]);
}

#[test]
fn cordoned_nodes_take_only_pods_that_tolerate_it() {
    let cordoned = || json!({"spec": {"unschedulable": true}});
    let key = "node.kubernetes.io/unschedulable";
    check(vec![
        case("cordoned", cordoned(), json!({}), "1 node(s) were unschedulable"),
        case(
            "tolerated",
            cordoned(),
            json!({"tolerations": [{"key": key, "operator": "Exists", "effect": "NoSchedule"}]}),
            "",
        ),
        case(
            "tolerated by everything",
            cordoned(),
            json!({"tolerations": [{"operator": "Exists"}]}),
            "",
        ),
        case(
            "another effect does not help",
            cordoned(),
            json!({"tolerations": [{"key": key, "operator": "Exists", "effect": "NoExecute"}]}),
            "1 node(s) were unschedulable",
        ),
    ]);
}

fn requires(terms: Value) -> Value {
    json!({"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
    }}})
}

fn expression(key: &str, operator: &str, values: Value) -> Value {
    json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}])
}

#[test]
fn affinity_selects_nodes_by_labels_and_name() {
    let labelled = || json!({"metadata": {"labels": {"disk": "ssd", "rank": "5", "text": "x"}}});
    let wants =
        |key: &str, operator: &str, values: Value| requires(expression(key, operator, values));
    check(vec![
        case("selector matches", labelled(), json!({"nodeSelector": {"disk": "ssd"}}), ""),
        case("selector differs", labelled(), json!({"nodeSelector": {"disk": "hdd"}}), UNWANTED),
        case(
            "selector of an absent label",
            labelled(),
            json!({"nodeSelector": {"a": "b"}}),
            UNWANTED,
        ),
        case("In", labelled(), wants("disk", "In", json!(["hdd", "ssd"])), ""),
        case("In without the value", labelled(), wants("disk", "In", json!(["hdd"])), UNWANTED),
        case("NotIn", labelled(), wants("disk", "NotIn", json!(["hdd"])), ""),
        case("NotIn with the value", labelled(), wants("disk", "NotIn", json!(["ssd"])), UNWANTED),
        case("NotIn of an absent label", labelled(), wants("zone", "NotIn", json!(["z"])), ""),
        case("Exists", labelled(), wants("disk", "Exists", json!([])), ""),
        case("Exists of an absent label", labelled(), wants("zone", "Exists", json!([])), UNWANTED),
        case("DoesNotExist", labelled(), wants("zone", "DoesNotExist", json!([])), ""),
        case(
            "DoesNotExist of a label",
            labelled(),
            wants("disk", "DoesNotExist", json!([])),
            UNWANTED,
        ),
        case("Gt", labelled(), wants("rank", "Gt", json!(["4"])), ""),
        case("Gt is strict", labelled(), wants("rank", "Gt", json!(["5"])), UNWANTED),
        case("Lt", labelled(), wants("rank", "Lt", json!(["6"])), ""),
        case("Lt is strict", labelled(), wants("rank", "Lt", json!(["5"])), UNWANTED),
        case("Gt of no number", labelled(), wants("text", "Gt", json!(["4"])), UNWANTED),
        case("Gt with two bounds", labelled(), wants("rank", "Gt", json!(["1", "2"])), UNWANTED),
        case("an unknown operator", labelled(), wants("disk", "Like", json!(["ssd"])), UNWANTED),
        case("no terms match nothing", labelled(), requires(json!([])), UNWANTED),
        case("an empty term matches nothing", labelled(), requires(json!([{}])), UNWANTED),
        case(
            "one of two terms is enough",
            labelled(),
            requires(json!([
                {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["hdd"]}]},
                {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]},
            ])),
            "",
        ),
        case(
            "all expressions of a term must hold",
            labelled(),
            requires(json!([{"matchExpressions": [
                {"key": "disk", "operator": "In", "values": ["ssd"]},
                {"key": "zone", "operator": "Exists"},
            ]}])),
            UNWANTED,
        ),
        case(
            "selector and terms must both hold",
            labelled(),
            {
                let mut both = wants("disk", "In", json!(["ssd"]));
                crate::merge(&mut both, json!({"nodeSelector": {"disk": "hdd"}}));
                both
            },
            UNWANTED,
        ),
    ]);
}

#[test]
fn terms_that_pin_names_look_only_there() {
    let field = |operator: &str, names: Value| json!([{"matchFields": [{"key": "metadata.name", "operator": operator, "values": names}]}]);
    let pinned = "1 node(s) didn't satisfy plugin(s) [NodeAffinity]";
    check(vec![
        case("its own name", json!({}), requires(field("In", json!(["n"]))), ""),
        case("another name", json!({}), requires(field("In", json!(["m"]))), pinned),
        case("not another name", json!({}), requires(field("NotIn", json!(["m"]))), ""),
        case("not its name", json!({}), requires(field("NotIn", json!(["n"]))), UNWANTED),
        case(
            "names that exclude each other",
            json!({}),
            requires(json!([{"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": ["n"]},
                {"key": "metadata.name", "operator": "In", "values": ["m"]},
            ]}])),
            "pod affinity terms conflict",
        ),
        case(
            "a field nodes do not have",
            json!({}),
            requires(json!([{"matchFields": [
                {"key": "metadata.uid", "operator": "In", "values": ["n"]},
            ]}])),
            UNWANTED,
        ),
        case(
            "one term that pins nothing frees the others",
            json!({"metadata": {"labels": {"disk": "ssd"}}}),
            requires(json!([
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]},
                {"matchExpressions": [{"key": "disk", "operator": "Exists"}]},
            ])),
            "",
        ),
    ]);
}

#[test]
fn the_profile_may_add_affinity() {
    let args = json!({"addedAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": expression("pool", "In", json!(["ours"])),
        },
    }});
    let profile = Profile::of_defaults("default-scheduler").with_args("NodeAffinity", args);
    let nodes = |pool: &str| -> Vec<Node> {
        vec![node("n", json!({"metadata": {"labels": {"pool": pool}}}))]
    };
    let mut ours = Cluster::with(profile.clone(), nodes("ours"), Vec::new());
    assert_eq!(ours.try_pod(pod("p", json!({}))), Ok("n".to_owned()));
    let mut theirs = Cluster::with(profile, nodes("theirs"), Vec::new());
    let why = "0/1 nodes are available: 1 node(s) didn't match scheduler-enforced node affinity.";
    assert_eq!(theirs.try_pod(pod("p", json!({}))), Err(why.to_owned()));
}

fn port(port: Value) -> Value {
    json!({"containers": [{"name": "main", "image": "web:1", "ports": [port]}]})
}

#[test]
fn host_ports_are_taken_once() {
    let there = |spec: Value| vec![pod("there", spec)];
    let row = |name, taken: Value, wanted: Value, want| Case {
        name,
        node: json!({}),
        there: there(port(taken)),
        pod: port(wanted),
        want,
    };
    let tcp = |number: i32| json!({"containerPort": 1, "hostPort": number});
    let at = |ip: &str| json!({"containerPort": 1, "hostPort": 80, "hostIP": ip});
    check(vec![
        row("same port", tcp(80), tcp(80), PORTS),
        row("other port", tcp(80), tcp(81), ""),
        row("no host port", json!({"containerPort": 80}), json!({"containerPort": 80}), ""),
        row(
            "other protocol",
            tcp(80),
            json!({"containerPort": 1, "hostPort": 80, "protocol": "UDP"}),
            "",
        ),
        row("other address", at("10.0.0.1"), at("10.0.0.2"), ""),
        row("same address", at("10.0.0.1"), at("10.0.0.1"), PORTS),
        row("every address includes this one", tcp(80), at("10.0.0.1"), PORTS),
        row("this one is part of every address", at("10.0.0.1"), at("0.0.0.0"), PORTS),
        Case {
            name: "a sidecar's port counts",
            node: json!({}),
            there: there(json!({"initContainers": [{
                "name": "side", "restartPolicy": "Always", "ports": [tcp(80)],
            }]})),
            pod: port(tcp(80)),
            want: PORTS,
        },
        Case {
            name: "an init container's port does not",
            node: json!({}),
            there: there(json!({"initContainers": [{"name": "init", "ports": [tcp(80)]}]})),
            pod: port(tcp(80)),
            want: "",
        },
    ]);
}

#[test]
fn requests_must_fit_what_is_left() {
    let there = |requests: Value| vec![pod("there", asks(requests))];
    let row = |name, taken: Value, wanted: Value, want| Case {
        name,
        node: json!({"status": {"allocatable": {"nvidia.com/gpu": "2", "ephemeral-storage": "1Gi"}}}),
        there: there(taken),
        pod: asks(wanted),
        want,
    };
    let short = "1 Insufficient cpu";
    check(vec![
        row("just fits", json!({"cpu": "3"}), json!({"cpu": "1"}), ""),
        row("one milli-core too many", json!({"cpu": "3"}), json!({"cpu": "1001m"}), short),
        row("memory", json!({"memory": "7Gi"}), json!({"memory": "2Gi"}), "1 Insufficient memory"),
        row(
            "every short resource is told",
            json!({"cpu": "3", "memory": "7Gi"}),
            json!({"cpu": "2", "memory": "2Gi"}),
            "1 Insufficient cpu, 1 Insufficient memory",
        ),
        row(
            "ephemeral storage",
            json!({"ephemeral-storage": "600Mi"}),
            json!({"ephemeral-storage": "600Mi"}),
            "1 Insufficient ephemeral-storage",
        ),
        row(
            "extended resources",
            json!({"nvidia.com/gpu": "1"}),
            json!({"nvidia.com/gpu": "2"}),
            "1 Insufficient nvidia.com/gpu",
        ),
        row(
            "unknown resource",
            json!({}),
            json!({"example.com/x": "1"}),
            "1 Insufficient example.com/x",
        ),
        row("nothing asked of a full node", json!({"cpu": "4"}), json!({}), ""),
        row("a zero is not a request", json!({"cpu": "4"}), json!({"cpu": "0"}), ""),
        case(
            "too many pods",
            json!({"status": {"allocatable": {"pods": "0"}}}),
            json!({}),
            "1 Too many pods",
        ),
        case(
            "init containers run one after the other",
            json!({}),
            json!({
                "initContainers": [
                    {"name": "a", "resources": {"requests": {"cpu": "4"}}},
                    {"name": "b", "resources": {"requests": {"cpu": "4"}}},
                ],
            }),
            "",
        ),
        case(
            "sidecars run beside",
            json!({}),
            json!({
                "initContainers": [
                    {"name": "a", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
                    {"name": "b", "resources": {"requests": {"cpu": "3500m"}}},
                ],
            }),
            short,
        ),
        case(
            "overhead counts",
            json!({}),
            {
                let mut spec = asks(json!({"cpu": "4"}));
                spec["overhead"] = json!({"cpu": "1m"});
                spec
            },
            short,
        ),
        case(
            "pod-level resources replace the containers'",
            json!({}),
            {
                let mut spec = asks(json!({"cpu": "8"}));
                spec["resources"] = json!({"requests": {"cpu": "2"}});
                spec
            },
            "",
        ),
        case(
            "deprecated names are understood",
            json!({"status": {"allocatable": {"koordinator.sh/batch-cpu": "1000"}}}),
            asks(json!({"kubernetes.io/batch-cpu": "1001"})),
            "1 Insufficient kubernetes.io/batch-cpu",
        ),
    ]);
}

#[test]
fn ignored_resources_are_not_checked() {
    let try_with = |args: Value, resource: &str| {
        let profile = Profile::of_defaults("default-scheduler").with_args("NodeResourcesFit", args);
        let mut cluster = Cluster::with(profile, vec![node("n", json!({}))], Vec::new());
        cluster.try_pod(pod("p", asks(json!({resource: "1"})))).is_ok()
    };
    let cases = [
        ("by name", json!({"ignoredResources": ["example.com/x"]}), "example.com/x", true),
        ("another name", json!({"ignoredResources": ["example.com/y"]}), "example.com/x", false),
        ("by group", json!({"ignoredResourceGroups": ["example.com"]}), "example.com/x", true),
        (
            "another group",
            json!({"ignoredResourceGroups": ["example.org"]}),
            "example.com/x",
            false,
        ),
        (
            "never native names",
            json!({"ignoredResources": ["kubernetes.io/batch-cpu"]}),
            "kubernetes.io/batch-cpu",
            false,
        ),
    ];
    for (name, args, resource, want) in cases {
        assert_eq!(try_with(args, resource), want, "{name}");
    }
}

#[test]
fn gated_pods_wait_outside() {
    let mut cluster = Cluster::new(vec![node("n", json!({}))], Vec::new());
    cluster.add(pod("p", json!({"schedulingGates": [{"name": "a"}, {"name": "b"}]})));
    assert!(cluster.0.next(crate::NOW).is_none());
    let explained = cluster.0.explain("default", "p").unwrap();
    let told = serde_json::to_value(&explained.state).unwrap();
    let want = json!({"Gated": {
        "plugin": "SchedulingGates", "reason": "waiting for scheduling gates: [a b]",
    }});
    assert_eq!(told, want);
    assert_eq!(cluster.try_pod(pod("p", json!({}))), Ok("n".to_owned()));
}

#[test]
fn reasons_are_counted_over_all_nodes() {
    let nodes = vec![
        node("a", json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}})),
        node("b", json!({"spec": {"unschedulable": true}})),
        node("c", json!({"status": {"allocatable": {"cpu": "1"}}})),
        node("d", json!({"status": {"allocatable": {"cpu": "1", "memory": "1Gi"}}})),
    ];
    let mut cluster = Cluster::new(nodes, Vec::new());
    let found = cluster.try_pod(pod("p", asks(json!({"cpu": "2", "memory": "4Gi"}))));
    let want = "0/4 nodes are available: 1 Insufficient memory, 1 node(s) had untolerated \
                taint(s), 1 node(s) were unschedulable, 2 Insufficient cpu.";
    assert_eq!(found, Err(want.to_owned()));
}

#[test]
fn without_nodes_the_pod_is_retried_by_time() {
    let mut cluster = Cluster::new(Vec::new(), Vec::new());
    let found = cluster.try_pod(pod("p", json!({})));
    assert_eq!(found, Err("no nodes available to schedule pods".to_owned()));
    assert_eq!(cluster.0.depth().backoff, 1);
}

#[test]
fn unusable_args_are_refused() {
    let cases = [
        ("unknown field", "NodeResourcesFit", json!({"ignored": []})),
        ("unknown strategy", "NodeResourcesFit", json!({"scoringStrategy": {"type": "Best"}})),
        (
            "weight out of range",
            "NodeResourcesFit",
            json!({"scoringStrategy": {"resources": [{"name": "cpu", "weight": 101}]}}),
        ),
        (
            "ratio without shape",
            "NodeResourcesFit",
            json!({"scoringStrategy": {"type": "RequestedToCapacityRatio"}}),
        ),
        (
            "shape that falls back",
            "NodeResourcesFit",
            json!({"scoringStrategy": {
                "type": "RequestedToCapacityRatio",
                "requestedToCapacityRatio": {"shape": [
                    {"utilization": 50, "score": 0}, {"utilization": 50, "score": 10},
                ]},
            }}),
        ),
        (
            "weights of the balance",
            "NodeResourcesBalancedAllocation",
            json!({"resources": [{"name": "cpu", "weight": 2}]}),
        ),
        ("unknown affinity field", "NodeAffinity", json!({"addedAffinities": {}})),
    ];
    for (name, plugin, args) in cases {
        let profile = Profile::of_defaults("s").with_args(plugin, args);
        assert!(Scheduler::new(vec![profile], Default::default()).is_err(), "{name}");
    }
    let known = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "NodeResourcesFitArgs",
        "scoringStrategy": {"type": "MostAllocated"},
    });
    let profile = Profile::of_defaults("s").with_args("NodeResourcesFit", known);
    assert!(Scheduler::new(vec![profile], Default::default()).is_ok());
}
