//! Why a pod waits, or why it is where it is.

use serde_json::json;

use crate::{Cluster, asks, node, pod};

fn explained(cluster: &mut Cluster, name: &str) -> serde_json::Value {
    serde_json::to_value(cluster.0.explain("default", name).unwrap().state).unwrap()
}

#[test]
fn a_waiting_pod_is_told_what_is_missing() {
    let nodes = vec![
        node("a", json!({"spec": {"unschedulable": true}})),
        node("b", json!({"status": {"allocatable": {"cpu": "1"}}})),
    ];
    let mut cluster = Cluster::new(nodes, Vec::new());
    cluster.try_pod(pod("p", asks(json!({"cpu": "2"})))).unwrap_err();
    let before = cluster.0.depth();
    let told = explained(&mut cluster, "p");
    let nearest = &told["Waiting"]["nearest"];
    assert_eq!(nearest.as_array().unwrap().len(), 2, "{told}");
    let reasons: Vec<&str> =
        nearest.as_array().unwrap().iter().map(|one| one[1]["plugin"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["NodeUnschedulable", "NodeResourcesFit"]);
    assert_eq!(told["Waiting"]["why"]["nodes"], 2);
    assert_eq!(cluster.0.depth(), before, "asking changes nothing");
    assert_eq!(cluster.0.check(), Vec::<String>::new());
}

#[test]
fn a_placed_pod_knows_its_scores() {
    let nodes = vec![
        node("a", json!({})),
        node("b", json!({"spec": {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}})),
    ];
    let mut cluster = Cluster::new(nodes, Vec::new());
    cluster.add(pod("p", asks(json!({"cpu": "1", "memory": "2Gi"}))));
    let ready = explained(&mut cluster, "p");
    assert_eq!(ready["Ready"]["winner"]["node"], "a");
    let attempt = cluster.0.next(crate::NOW).unwrap();
    assert_eq!(attempt.pod.name, "p");
    let told = explained(&mut cluster, "p");
    let placed = &told["Placed"];
    assert_eq!(placed["node"], "a");
    assert_eq!(placed["why"]["feasible"], 2);
    let parts = placed["why"]["winner"]["parts"].as_array().unwrap();
    let part = |name: &str| parts.iter().find(|one| one[0] == name).map(|one| one[1].clone());
    assert_eq!(part("TaintToleration"), Some(json!(300)));
    assert_eq!(part("NodeResourcesFit"), Some(json!(75)));
    assert_eq!(part("NodeResourcesBalancedAllocation"), Some(json!(100)));
    let runner = &placed["why"]["runners_up"][0];
    assert_eq!((runner["node"].as_str(), runner["total"].as_i64()), (Some("b"), Some(175)));
}

#[test]
fn nobody_knows_a_pod_that_never_was() {
    let mut cluster = Cluster::new(vec![node("a", json!({}))], Vec::new());
    assert!(cluster.0.explain("default", "p").is_none());
    assert!(cluster.0.explain("nowhere", "p").is_none());
}
