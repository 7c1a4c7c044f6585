//! Which of the nodes that fit is best.

use k8s_openapi::api::core::v1::{Node, Pod};
use sched::profile::Profile;
use serde_json::{Value, json};

use crate::{Cluster, asks, node, on, pod};

/// Weighted totals of all nodes for a pod, with these plugins alone.
fn totals(profile: Profile, nodes: Vec<Node>, there: Vec<Pod>, wanted: Pod) -> Vec<(String, i64)> {
    let mut cluster = Cluster::with(profile, nodes, there);
    cluster.add(wanted);
    let mut totals = cluster.0.ranking("default", "p").unwrap();
    totals.sort();
    totals
}

fn only(plugin: &str) -> Profile {
    Profile::of("default-scheduler", [plugin])
}

fn named(totals: &[(String, i64)]) -> Vec<(&str, i64)> {
    totals.iter().map(|(node, total)| (node.as_str(), *total)).collect()
}

/// P7: untolerated soft taints 0, 1, 3; the weight is 3.
#[test]
fn fewer_soft_taints_are_better() {
    let tainted = |name: &str, count: usize| {
        let taints: Vec<Value> = (0..count)
            .map(|at| json!({"key": format!("k{at}"), "effect": "PreferNoSchedule"}))
            .collect();
        node(name, json!({"spec": {"taints": taints}}))
    };
    let nodes = || vec![tainted("a", 0), tainted("b", 1), tainted("c", 3)];
    let found = totals(only("TaintToleration"), nodes(), Vec::new(), pod("p", json!({})));
    assert_eq!(named(&found), [("a", 300), ("b", 3 * 67), ("c", 0)]);

    let tolerates = json!({"tolerations": [{"operator": "Exists", "effect": "PreferNoSchedule"}]});
    let found = totals(only("TaintToleration"), nodes(), Vec::new(), pod("p", tolerates));
    assert_eq!(named(&found), [("a", 300), ("b", 300), ("c", 300)], "all tolerated");

    let hard = json!({"tolerations": [{"operator": "Exists", "effect": "NoSchedule"}]});
    let found = totals(only("TaintToleration"), nodes(), Vec::new(), pod("p", hard));
    assert_eq!(named(&found), [("a", 300), ("b", 201), ("c", 0)], "of another effect");
}

fn prefers(terms: Value) -> Value {
    json!({"affinity": {"nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": terms,
    }}})
}

/// P8: sums 0, 30, 80; the weight is 2.
#[test]
fn preferred_terms_add_up() {
    let labelled = |name: &str, labels: Value| node(name, json!({"metadata": {"labels": labels}}));
    let nodes = || {
        vec![
            labelled("a", json!({})),
            labelled("b", json!({"x": "1"})),
            labelled("c", json!({"x": "1", "y": "1"})),
        ]
    };
    let term = |weight: i32, key: &str| {
        let expression = json!({"key": key, "operator": "Exists"});
        json!({"weight": weight, "preference": {"matchExpressions": [expression]}})
    };
    let wanted = pod("p", prefers(json!([term(30, "x"), term(50, "y")])));
    let found = totals(only("NodeAffinity"), nodes(), Vec::new(), wanted);
    assert_eq!(named(&found), [("a", 0), ("b", 2 * 37), ("c", 200)]);

    let empty = pod("p", prefers(json!([{"weight": 10, "preference": {}}])));
    let found = totals(only("NodeAffinity"), nodes(), Vec::new(), empty);
    assert_eq!(named(&found), [("a", 0), ("b", 0), ("c", 0)], "an empty term");

    let found = totals(only("NodeAffinity"), nodes(), Vec::new(), pod("p", json!({})));
    assert_eq!(named(&found), [("a", 0), ("b", 0), ("c", 0)], "no terms");

    let added = json!({"addedAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [term(5, "y")],
    }});
    let profile = only("NodeAffinity").with_args("NodeAffinity", added);
    let found = totals(profile, nodes(), Vec::new(), pod("p", json!({})));
    assert_eq!(named(&found), [("a", 0), ("b", 0), ("c", 200)], "added by the profile");
}

fn sized(name: &str, cpu: &str, memory: &str) -> Node {
    node(name, json!({"status": {"allocatable": {"cpu": cpu, "memory": memory}}}))
}

/// P1 to P3 on nodes: 16 CPUs and 32 GiB, of which 8 and 14 are requested with the pod.
#[test]
fn allocation_strategies_look_at_requests() {
    let nodes = || vec![sized("a", "16", "32Gi")];
    let there = || vec![on("a", pod("there", asks(json!({"cpu": "6", "memory": "10Gi"}))))];
    let wanted = || pod("p", asks(json!({"cpu": "2", "memory": "4Gi"})));
    let fit = |args: Value| {
        let profile = only("NodeResourcesFit").with_args("NodeResourcesFit", args);
        totals(profile, nodes(), there(), wanted()).remove(0).1
    };
    assert_eq!(fit(Value::Null), 53, "least allocated is the default");
    assert_eq!(fit(json!({"scoringStrategy": {"type": "MostAllocated"}})), 46);
    let weighed = json!({"scoringStrategy": {"type": "LeastAllocated", "resources": [
        {"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1},
    ]}});
    assert_eq!(fit(weighed), (3 * 50 + 56) / 4);
    let ratio = json!({"scoringStrategy": {
        "type": "RequestedToCapacityRatio",
        "resources": [{"name": "cpu"}],
        "requestedToCapacityRatio": {"shape": [
            {"utilization": 0, "score": 0}, {"utilization": 100, "score": 10},
        ]},
    }});
    assert_eq!(fit(ratio), 50);
    let scalar = json!({"scoringStrategy": {"resources": [
        {"name": "cpu", "weight": 1}, {"name": "nvidia.com/gpu", "weight": 9},
    ]}});
    assert_eq!(fit(scalar), 50, "a scalar nobody asks for is left out");
    let balanced = totals(only("NodeResourcesBalancedAllocation"), nodes(), there(), wanted());
    assert_eq!(named(&balanced), [("a", 96)]);
}

#[test]
fn containers_without_requests_count_a_little_for_fit_only() {
    let nodes = || vec![sized("a", "1", "2000Mi")];
    let fit = totals(only("NodeResourcesFit"), nodes(), Vec::new(), pod("p", json!({})));
    // 100 milli-cores of 1000 and 200 MiB of 2000.
    assert_eq!(named(&fit), [("a", 90)]);
    let there = || vec![on("a", pod("there", json!({})))];
    let fit = totals(only("NodeResourcesFit"), nodes(), there(), pod("p", json!({})));
    assert_eq!(named(&fit), [("a", 80)], "and so does what runs there");
    let plugin = "NodeResourcesBalancedAllocation";
    let balanced = totals(only(plugin), nodes(), Vec::new(), pod("p", json!({})));
    assert_eq!(named(&balanced), [("a", 0)], "the balance skips such a pod");
    let cpu = pod("p", asks(json!({"cpu": "500m"})));
    let balanced = totals(only(plugin), nodes(), there(), cpu);
    assert_eq!(named(&balanced), [("a", 75)], "fractions 0.5 and 0");
}

#[test]
fn listed_scalars_count_when_asked_for() {
    let gpus = |name: &str, count: &str| {
        node(name, json!({"status": {"allocatable": {"nvidia.com/gpu": count}}}))
    };
    let args = json!({"scoringStrategy": {"type": "MostAllocated", "resources": [
        {"name": "nvidia.com/gpu", "weight": 1},
    ]}});
    let profile = || only("NodeResourcesFit").with_args("NodeResourcesFit", args.clone());
    let nodes = || vec![gpus("a", "4"), gpus("b", "8")];
    let wanted = pod("p", asks(json!({"nvidia.com/gpu": "2"})));
    let found = totals(profile(), nodes(), Vec::new(), wanted);
    assert_eq!(named(&found), [("a", 50), ("b", 25)]);
    let found = totals(profile(), nodes(), Vec::new(), pod("p", json!({})));
    assert_eq!(named(&found), [("a", 0), ("b", 0)], "nothing left to weigh");
}

/// P13: 800 MiB on half of the nodes.
#[test]
fn nodes_with_the_image_are_better() {
    let holder = |name: &str, image: &str, mib: i64| {
        let images = json!([{"names": [image], "sizeBytes": mib << 20}]);
        node(name, json!({"status": {"images": images}}))
    };
    let nodes = || vec![holder("a", "web:1", 800), holder("b", "other:1", 800)];
    let found = totals(only("ImageLocality"), nodes(), Vec::new(), pod("p", json!({})));
    assert_eq!(named(&found), [("a", 38), ("b", 0)]);
    let latest = || vec![holder("a", "web:latest", 800), holder("b", "other:1", 800)];
    let untagged = json!({"containers": [{"name": "main", "image": "web"}]});
    let found = totals(only("ImageLocality"), latest(), Vec::new(), pod("p", untagged));
    assert_eq!(named(&found), [("a", 38), ("b", 0)], "no tag is the tag latest");
    let registry = json!({"containers": [{"name": "main", "image": "host:5000/web"}]});
    let ported = || vec![holder("a", "host:5000/web:latest", 800), holder("b", "x:1", 1)];
    let found = totals(only("ImageLocality"), ported(), Vec::new(), pod("p", registry));
    assert_eq!(named(&found), [("a", 38), ("b", 0)], "a registry's port is no tag");
}

/// Normalising counts feasible nodes only.
#[test]
fn a_node_that_does_not_fit_does_not_set_the_scale() {
    let labelled = |name: &str, weight: &str, cpu: &str| {
        node(
            name,
            json!({
                "metadata": {"labels": {"rank": weight}}, "status": {"allocatable": {"cpu": cpu}},
            }),
        )
    };
    let nodes = vec![labelled("a", "1", "4"), labelled("b", "2", "1")];
    let term = |weight: i32, rank: &str| {
        let expression = json!({"key": "rank", "operator": "In", "values": [rank]});
        json!({"weight": weight, "preference": {"matchExpressions": [expression]}})
    };
    let mut spec = prefers(json!([term(10, "1"), term(100, "2")]));
    crate::merge(&mut spec, asks(json!({"cpu": "2"})));
    let profile = Profile::of("default-scheduler", ["NodeAffinity", "NodeResourcesFit"])
        .with_args("NodeResourcesFit", Value::Null);
    let found = totals(profile, nodes, Vec::new(), pod("p", spec));
    // Affinity 200 of itself, and 70 for what is left: CPU 2 of 4, memory 200 MiB of 8 GiB.
    assert_eq!(named(&found), [("a", 200 + (50 + 97) / 2)]);
}

#[test]
fn equal_nodes_are_ordered_by_name_and_labels_not_by_index() {
    let winner = |names: &[&str]| {
        let nodes = names.iter().map(|name| node(name, json!({}))).collect();
        Cluster::new(nodes, Vec::new()).try_pod(pod("p", json!({}))).unwrap()
    };
    assert_eq!(winner(&["a", "b", "c", "d"]), winner(&["d", "c", "b", "a"]));
    let mut winners: Vec<String> = Vec::new();
    for at in 0..20 {
        let nodes = ["a", "b", "c", "d"].map(|name| node(name, json!({}))).to_vec();
        let mut one = pod("p", json!({}));
        one.metadata.labels = Some([("app".to_owned(), format!("x{at}"))].into());
        winners.push(Cluster::new(nodes, Vec::new()).try_pod(one).unwrap());
    }
    winners.sort();
    winners.dedup();
    assert!(winners.len() >= 3, "always the same nodes win: {winners:?}");
}
