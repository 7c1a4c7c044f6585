//! What a manager says about itself, and about a pod.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::{Value, json};

use crate::rig::{Cluster, create, get, options, pod, ready, say, until};

const EXPLAIN: &str = "/debug/admission/explain";

async fn explain(address: SocketAddr, object: &Value) -> Value {
    let (status, body) = say(address, "POST", EXPLAIN, &object.to_string()).await;
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).expect("JSON")
}

fn verdict<'v>(found: &'v Value, name: &str) -> &'v Value {
    let profiles = found["profiles"].as_array().expect("a list");
    profiles.iter().find(|one| one["name"] == name).expect("the profile is named")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_is_told_which_profiles_mean_it() {
    let cluster = Cluster::start().await;
    let manager = ready(cluster.client.clone(), options()).await;
    let address = manager.status.metrics_address.expect("a port");
    let selects = |app: &str| json!({"matchLabels": {"app": app}});
    let specs = [
        ("matching", json!({"selector": selects("etl"), "qosClass": "BE"})),
        ("other-labels", json!({"selector": selects("web"), "qosClass": "LS"})),
        ("other-namespace", json!({"namespaceSelector": selects("x"), "qosClass": "LS"})),
        (
            "by-chance",
            json!({"selector": selects("etl"), "probability": "20%",
            "labels": {"rare": "true"}}),
        ),
    ];
    for (name, spec) in specs {
        let profile = json!({"apiVersion": "config.koordinator.sh/v1alpha1",
            "kind": "ClusterColocationProfile", "metadata": {"name": name}, "spec": spec});
        cluster.apply(profile).await;
    }
    let object = pod("p", json!({"app": "etl"}), "", json!({}));
    let found = until("all profiles are known", async || {
        let found = explain(address, &object).await;
        (found["profiles"].as_array()?.len() == 4).then_some(found)
    })
    .await;
    let because = |name: &str| verdict(&found, name)["because"].clone();
    assert_eq!(verdict(&found, "matching")["matches"], true);
    assert_eq!(because("matching"), Value::Null);
    assert_eq!(because("other-labels"), "its selector does not match the pod's labels");
    let want = "its namespaceSelector does not match the namespace's labels";
    assert_eq!(because("other-namespace"), want);
    assert_eq!(verdict(&found, "by-chance")["probabilityPercent"], 20);
    let patch = found["patch"].to_string();
    assert!(patch.contains("koordinator.sh~1qosClass"), "{patch}");
    assert!(patch.contains("rare"), "chance is taken to favour it: {patch}");
    assert_eq!(found["refusal"], Value::Null);

    // One that exists can be named.
    let pods: Api<Pod> = cluster.api();
    create(&pods, pod("there", json!({"app": "web"}), "", json!({}))).await.expect("admitted");
    let (status, body) = get(address, &format!("{EXPLAIN}?namespace=default&name=there")).await;
    assert_eq!(status, 200, "{body}");
    let found: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(verdict(&found, "other-labels")["matches"], true);

    for (method, path, body, want) in [
        ("GET", EXPLAIN, "", 400),
        ("GET", "/debug/admission/explain?namespace=default&name=nobody", "", 404),
        ("POST", EXPLAIN, "no pod", 400),
        ("PUT", EXPLAIN, "{}", 405),
    ] {
        let (status, text) = say(address, method, path, body).await;
        assert_eq!(status, want, "{method} {path}: {text}");
    }
    let nonsense = explain(address, &json!({"spec": {"containers": "none"}})).await;
    assert!(nonsense["refusal"].as_str().is_some_and(|why| why.contains("pod")), "{nonsense}");
    manager.stop().await;
}

/// The reference's names and labels.
const NAMES: &[(&str, &[&str])] = &[
    ("slo_controller_node_resource_reconcile_count", &["status", "reason"]),
    ("slo_controller_nodemetric_reconcile_count", &["status", "reason"]),
    ("slo_controller_nodemetric_spec_parse_count", &["status", "reason"]),
    ("slo_controller_nodeslo_reconcile_count", &["status", "reason"]),
    ("slo_controller_nodeslo_spec_parse_count", &["status", "reason"]),
    ("slo_controller_node_resource_run_plugin_status", &["plugin", "status", "reason"]),
    ("slo_controller_node_extended_resource_allocatable_internal", &["node", "resource", "unit"]),
    (
        "koord_manager_webhook_webhook_duration_milliseconds",
        &["webhook_type", "object_type", "operation", "plugin_name", "status"],
    ),
    ("koord_manager_webhook_binding_admission_decisions_total", &["decision"]),
    ("koord_manager_webhook_quota_shared_weight", &["elasticquota_name", "resource_name"]),
    ("tidepool_nodemetric_age_seconds", &["node"]),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_name_is_on_its_page() {
    let cluster = Cluster::start().await;
    let manager = ready(cluster.client.clone(), options()).await;
    let address = manager.status.metrics_address.expect("a port");
    let pages = ["/all-metrics", "/internal-metrics", "/metrics", "/external-metrics"];
    let mut shown = Vec::new();
    for page in pages {
        let (status, text) = get(address, page).await;
        assert_eq!(status, 200, "{page}");
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let names = types.map(|rest| rest.split(' ').next().unwrap_or_default().to_owned());
        shown.push(names.collect::<BTreeSet<String>>());
    }
    for (name, labels) in NAMES {
        assert!(shown[0].contains(*name) && shown[1].contains(*name), "{name} is missing");
        assert!(!shown[2].contains(*name) && !shown[3].contains(*name), "{name} is elsewhere");
        let defined = api::protocol::metric::manager::ALL.iter().find(|own| own.name == *name);
        assert_eq!(defined.expect("defined").labels, *labels, "{name}");
    }
    assert!(shown[2].contains("workqueue_depth") && !shown[1].contains("workqueue_depth"));
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_process_can_be_looked_at() {
    let cluster = Cluster::start().await;
    let mut options = options();
    options.profiles = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let manager = ready(cluster.client.clone(), options).await;
    let address = manager.status.profiles_address.expect("a port");
    for (path, want, part) in [
        ("/debug/pprof/", 200, "CPU time by thread"),
        ("/debug/pprof/heap", 200, "VmRSS"),
        ("/debug/pprof/goroutine?debug=1", 200, "threads"),
        ("/debug/pprof/profile?seconds=1", 200, "CPU time over 1."),
        ("/debug/pprof/profile?seconds=0", 400, "from 1 to 300"),
        ("/debug/pprof/trace", 501, "perf record"),
        ("/debug/pprof/nothing", 404, "perf record"),
        ("/metrics", 404, "/debug/pprof"),
    ] {
        let (status, text) = get(address, path).await;
        assert_eq!(status, want, "{path}: {text}");
        assert!(text.contains(part), "{path}: {text}");
    }
    manager.stop().await;
}
