//! Pods through the webhooks of a running manager.

use api::kind::NodeMetric;
use api::protocol::gate::ManagerGate;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::rig::{Cluster, create, get, options, pod, ready, until, with_gates};

const BATCH: &str = "kubernetes.io/batch-cpu";

fn profile(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "config.koordinator.sh/v1alpha1", "kind": "ClusterColocationProfile",
        "metadata": {"name": name}, "spec": spec,
    })
}

fn requests(pod: &Pod, name: &str) -> Option<String> {
    let container = pod.spec.as_ref()?.containers.first()?;
    Some(container.resources.as_ref()?.requests.as_ref()?.get(name)?.0.clone())
}

/// A profile is in force some moments after it was written: its watch must tell first.
async fn until_mutated(cluster: &Cluster, object: &Value) -> Pod {
    let api: Api<Pod> = cluster.api();
    until("the profile changes pods", async || {
        let params = PostParams { dry_run: true, ..PostParams::default() };
        let typed = serde_json::from_value(object.clone()).expect("a pod");
        let seen = api.create(&params, &typed).await.ok()?;
        (seen.labels().get("koordinator.sh/qosClass")? == "BE").then_some(seen)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_profile_turns_the_seeds_deployments_into_batch_work() {
    let cluster = Cluster::start().await;
    let manager = ready(cluster.client.clone(), options()).await;
    cluster
        .apply(profile(
            "batch",
            json!({
                "selector": {"matchLabels": {"koordinator.sh/enable-colocation": "true"}},
                "qosClass": "BE", "priorityClassName": "koord-batch",
                "schedulerName": "koord-scheduler",
            }),
        ))
        .await;
    let api: Api<Pod> = cluster.api();
    let cpu = json!({"limits": {"cpu": "2"}, "requests": {"cpu": "2"}});
    let batch = json!({"limits": {BATCH: "2k"}, "requests": {BATCH: "2k"}});
    let marked = json!({"koordinator.sh/enable-colocation": "true"});
    let seen = until_mutated(&cluster, &pod("dry", marked.clone(), "", cpu.clone())).await;
    assert_eq!(requests(&seen, BATCH).as_deref(), Some("2k"));
    assert!(api.get_opt("dry").await.expect("the server answers").is_none(), "a dry run stays dry");

    let plain = create(&api, pod("plain", marked, "", cpu.clone())).await.expect("admitted");
    assert_eq!(requests(&plain, BATCH).as_deref(), Some("2k"));
    assert_eq!(requests(&plain, "cpu"), None);
    let spec = plain.spec.as_ref().expect("a spec");
    assert_eq!(
        (spec.priority, spec.scheduler_name.as_deref()),
        (Some(5000), Some("koord-scheduler"))
    );
    assert_eq!(
        plain.annotations()["node.koordinator.sh/extended-resource-spec"],
        format!(
            r#"{{"containers":{{"main":{{"limits":{{"{BATCH}":"2k"}},"requests":{{"{BATCH}":"2k"}}}}}}}}"#
        )
    );

    // Seed 004's own pods, which ask for everything themselves.
    for (qos, class, resources) in [
        ("LSE", "koord-prod", &cpu),
        ("LSR", "koord-prod", &cpu),
        ("LS", "koord-prod", &cpu),
        ("BE", "koord-batch", &batch),
    ] {
        let labels = json!({"koordinator.sh/qosClass": qos});
        let name = format!("nginx-{}", qos.to_lowercase());
        let made = create(&api, pod(&name, labels, class, resources.clone())).await.expect(qos);
        let has = made.annotations().contains_key("node.koordinator.sh/extended-resource-spec");
        assert_eq!(has, qos == "BE", "{qos}");
    }
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_breaks_a_rule_is_refused_with_the_reason() {
    let cluster = Cluster::start().await;
    let manager = ready(cluster.client.clone(), options()).await;
    let api: Api<Pod> = cluster.api();
    let cpu = |text: &str| json!({"requests": {"cpu": text}, "limits": {"cpu": text}});
    let qos = |class: &str| json!({"koordinator.sh/qosClass": class});
    let cases = [
        ("be-prod", qos("BE"), "koord-prod", cpu("1"), "combination forbidden"),
        ("lsr-batch", qos("LSR"), "koord-batch", cpu("1"), "combination forbidden"),
        ("lsr-half", qos("LSR"), "koord-prod", cpu("1500m"), "whole number of cores"),
        (
            "ls-batch",
            qos("LS"),
            "koord-prod",
            json!({"requests": {BATCH: "1k"}}),
            "only pods with QoS class BE",
        ),
    ];
    for (name, labels, class, resources, want) in cases {
        let refusal = create(&api, pod(name, labels, class, resources)).await.expect_err(name);
        assert!(
            refusal.contains("vpod.koordinator.sh") && refusal.contains(want),
            "{name}: {refusal}"
        );
        assert!(api.get_opt(name).await.expect("the server answers").is_none());
    }
    create(&api, pod("ls", qos("LS"), "koord-prod", cpu("1"))).await.expect("a good neighbour");
    let patch = json!({"metadata": {"labels": {"koordinator.sh/qosClass": "BE"}}});
    let change = api.patch("ls", &PatchParams::default(), &Patch::Merge(&patch)).await;
    assert!(change.expect_err("classes stay").to_string().contains("immutable"));
    let patch = json!({"metadata": {"labels": {"other": "label"}}});
    api.patch("ls", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .expect("others may change");
    api.delete("ls", &DeleteParams::default()).await.expect("pods can go");

    let (_, all) = get(manager.status.metrics_address.expect("metrics"), "/all-metrics").await;
    let refused = "koord_manager_webhook_webhook_duration_milliseconds_count{object_type=\"pod\",operation=\"CREATE\",plugin_name=\"validate-pod\",status=\"rejected\",webhook_type=\"validate\"} 4";
    assert!(all.contains(refused), "{all}");
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gated_webhooks_appear_with_their_gates() {
    let cluster = Cluster::start().await;
    let gates = [ManagerGate::ConfigMapValidatingWebhook, ManagerGate::NodeMutatingWebhook];
    let manager = ready(cluster.client.clone(), with_gates(options(), &gates)).await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), crate::rig::NAMESPACE);
    let config = |labels: Value, text: &str| {
        json!({
            "metadata": {"name": "slo-controller-config", "labels": labels},
            "data": {"colocation-config": text},
        })
    };
    let watched = json!({"koordinator.sh/configmap-type": "slo-controller-config"});
    let refusal = create(&api, config(watched.clone(), "{\"enable\": tru")).await.expect_err("bad");
    assert!(refusal.contains("___{") && refusal.contains("ParseConfigFail"), "{refusal}");
    create(&api, config(watched, "{\"enable\": true}")).await.expect("good");

    let annotation = "node.koordinator.sh/resource-amplification-ratio";
    cluster
        .apply(json!({"apiVersion": "v1", "kind": "Node", "metadata": {
            "name": "n1", "annotations": {annotation: "{\"cpu\":1.20}"}}}))
        .await;
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(cluster.client.clone());
    let status = json!({"status": {"allocatable": {"cpu": "62", "memory": "248Gi"}}});
    let node = nodes.patch_status("n1", &PatchParams::default(), &Patch::Merge(&status)).await;
    let node = node.expect("the status is taken");
    let allocatable = node.status.and_then(|status| status.allocatable).expect("allocatable");
    assert_eq!(allocatable["cpu"].0, "74400m");
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manager_says_where_a_nodes_numbers_come_from() {
    let cluster = Cluster::start().await;
    let manager = ready(cluster.client.clone(), options()).await;
    let metrics = manager.status.metrics_address.expect("metrics");
    cluster
        .apply(json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "slo-controller-config", "namespace": crate::rig::NAMESPACE},
            "data": {"colocation-config": r#"{"enable":true}"#}}))
        .await;
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "n1"}, "status": {
        "capacity": {"cpu": "64", "memory": "256Gi"}, "allocatable": {"cpu": "62", "memory": "248Gi"}}}))
    .expect("a node");
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    nodes.create(&Default::default(), &node).await.expect("a node");
    let ask = || async {
        let (status, body) = get(metrics, "/debug/noderesource/n1").await;
        serde_json::from_str::<Value>(&body).ok().filter(|_| status == 200)
    };
    let unmeasured = until("the node is known", || async {
        ask().await.filter(|found| {
            found["lendsNothing"].as_str().is_some_and(|why| why.contains("NodeMetric"))
        })
    })
    .await;
    assert_eq!(unmeasured["batch"], Value::Null);
    let metrics_of: Api<NodeMetric> = Api::all(cluster.client.clone());
    let usage = json!({"resources": {"cpu": "4", "memory": "9Gi"}});
    let report = json!({"status": {"updateTime": jiff::Timestamp::now().to_string(),
        "nodeMetric": {"nodeUsage": usage, "systemUsage": usage}}});
    until("the node has a NodeMetric", || async {
        let patch = Patch::Merge(&report);
        metrics_of.patch_status("n1", &PatchParams::default(), &patch).await.ok()
    })
    .await;
    let lending = until("the node lends", || async {
        ask().await.filter(|found| found["lendsNothing"].is_null())
    })
    .await;
    let lines = lending["batch"][0]["lines"].as_array().unwrap();
    assert_eq!(lines.last().unwrap()["amount"], 34_400, "{lending:#}");
    assert_eq!((&lines[0]["label"], &lines[0]["amount"]), (&json!("capacity"), &json!(64_000)));
    assert!(lending["mid"].is_array(), "{lending:#}");
    assert_eq!(get(metrics, "/debug/noderesource/n2").await.0, 404);
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manager_says_how_it_is() {
    let cluster = Cluster::start().await;
    let mut options = options();
    options.webhook.install_missing = false;
    let mut manager = crate::rig::start(cluster.client.clone(), options).await;
    let health = manager.status.health_address.expect("health");
    assert_eq!(get(health, "/healthz").await.0, 200);
    let (status, body) = get(health, "/readyz").await;
    assert_eq!(status, 503, "nobody has installed the configurations");
    assert!(body.contains("webhook-ready"), "{body}");
    for configuration in control::webhook::configuration::install(crate::rig::NAMESPACE) {
        cluster.apply(configuration).await;
    }
    manager.until_ready().await;
    assert_eq!(get(health, "/readyz/webhook-ready").await.0, 200);
    assert_eq!(get(health, "/other").await.0, 404);
    let metrics = manager.status.metrics_address.expect("metrics");
    let (_, internal) = get(metrics, "/internal-metrics").await;
    assert!(internal.contains("koordinator_manager_is_leader 1"), "{internal}");
    let (_, library) = get(metrics, "/metrics").await;
    assert!(!library.contains("koordinator_manager_is_leader"), "{library}");
    manager.stop().await;
}
