//! What the agent writes when all is well.

use api::kind::{Device, NodeMetric, NodeResourceTopology};
use api::protocol::gate::AgentGate;
use kube::Api;
use kube::api::DeleteParams;

use crate::host::POD_MEMORY;
use crate::rig::{Rig, reported, until, until_metric};

#[tokio::test]
async fn usage_of_the_node_and_its_pods_is_reported() {
    let rig = Rig::start().await;
    let dir = rig.add_pod("miner").await;
    rig.add_node_metric().await;
    let metric = until_metric(&rig, "reported with a pod", |m| reported(m) == ["miner"]).await;
    let status = metric.status.unwrap();
    assert!(status.update_time.is_some());
    let node = status.node_metric.unwrap().node_usage.unwrap().resources;
    assert!(node["cpu"].milli_value() > 0, "{node:?}");
    assert_eq!(node["memory"].value(), 1 << 30, "total less available");
    let pod = &status.pods_metric[0];
    assert_eq!((pod.qos.as_deref(), pod.priority.as_deref()), (Some("BE"), Some("koord-batch")));
    let usage = &pod.pod_usage.as_ref().unwrap().resources;
    assert!(usage["cpu"].milli_value() > 0, "{usage:?}");
    assert_eq!(usage["memory"].value(), POD_MEMORY);

    rig.delete_pod("miner", &dir).await;
    rig.host.use_cores(1900);
    until_metric(&rig, "reported without the pod", |m| reported(m).is_empty()).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_node_without_a_node_metric_gets_none_and_a_new_one_is_filled() {
    let rig = Rig::start().await;
    until("ready", async || (rig.ask("/readyz").await.1.contains("[+]samples")).then_some(()))
        .await;
    assert_eq!(rig.metrics().get_opt("n1").await.unwrap(), None, "the manager makes it, not we");
    rig.add_node_metric().await;
    let has_status = |m: &NodeMetric| m.status.as_ref().is_some_and(|s| s.update_time.is_some());
    let first = until_metric(&rig, "reported", has_status).await;
    rig.metrics().delete("n1", &DeleteParams::default()).await.unwrap();
    rig.add_node_metric().await;
    let second = until_metric(&rig, "reported again", has_status).await;
    assert_ne!(first.metadata.uid, second.metadata.uid);
    rig.stop().await;
}

#[tokio::test]
async fn the_machine_s_topology_is_published_and_kept() {
    let rig = Rig::start().await;
    let api: Api<NodeResourceTopology> = Api::all(rig.client.clone());
    let pools = "node.koordinator.sh/cpu-shared-pools";
    let is_right = |object: &NodeResourceTopology| {
        let annotations = object.metadata.annotations.as_ref();
        annotations
            .and_then(|all| all.get(pools))
            .is_some_and(|text| text == r#"[{"socket":0,"node":0,"cpuset":"0-1"}]"#)
    };
    let look = async || api.get_opt("n1").await.expect("the server answers").filter(is_right);
    let object = until("published", look).await;
    assert_eq!(object.zones.len(), 1);
    assert_eq!(object.zones[0].resources[0].capacity.value(), 2);
    let owner = &object.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.controller), ("Node", Some(true)));

    let wrong = serde_json::json!({ "metadata": { "annotations": { pools: "[]" } } });
    let patch = kube::api::Patch::Merge(&wrong);
    api.patch("n1", &Default::default(), &patch).await.unwrap();
    until("put right", look).await;
    api.delete("n1", &DeleteParams::default()).await.unwrap();
    until("made anew", look).await;
    rig.stop().await;
}

#[tokio::test]
async fn devices_are_reported_only_where_there_are_some() {
    let devices = tempfile::tempdir().unwrap();
    let dir = devices.path().to_owned();
    let rig = Rig::start_with(move |config| {
        config.gates.set(AgentGate::Accelerators, true);
        config.device_dir = dir.clone();
    })
    .await;
    let api: Api<Device> = Api::all(rig.client.clone());
    until("ready", async || (rig.ask("/readyz").await.1.contains("[+]device ok")).then_some(()))
        .await;
    assert_eq!(api.get_opt("n1").await.unwrap(), None);
    let text =
        r#"[{"vendor":"huawei","model":"910B","uuid":"u","minor":0,"status":{"healthy":true}}]"#;
    std::fs::write(devices.path().join("npu.json"), text).unwrap();
    let device = until("reported", async || api.get_opt("n1").await.expect("an answer")).await;
    assert_eq!(device.spec.devices[0].id.as_deref(), Some("u"));
    rig.stop().await;
}

#[tokio::test]
async fn metrics_show_what_is_lent_while_it_is() {
    let rig = Rig::start().await;
    let dir = rig.add_pod("miner").await;
    let shown = |text: &str| {
        text.contains("koordlet_container_resource_requests") && text.contains("pod_name=\"miner\"")
    };
    until("shown", async || shown(&rig.ask("/metrics").await.1).then_some(())).await;
    until("measured", async || {
        rig.ask("/metrics")
            .await
            .1
            .contains("koordlet_node_used_cpu_cores{node=\"n1\"}")
            .then_some(())
    })
    .await;
    let external = rig.ask("/external-metrics").await.1;
    assert!(!external.contains("koordlet_node_used_cpu_cores"), "{external}");
    rig.delete_pod("miner", &dir).await;
    until("gone", async || (!shown(&rig.ask("/metrics").await.1)).then_some(())).await;
    assert_eq!(rig.ask("/healthz").await, (200, "ok\n".to_owned()));
    rig.stop().await;
}

#[tokio::test]
async fn readiness_names_what_is_missing() {
    let rig = Rig::start_with(|config| config.node_name = "nobody".to_owned()).await;
    let (status, text) = until("asked", async || {
        let answer = rig.ask("/readyz").await;
        answer.1.contains("Node nobody is absent").then_some(answer)
    })
    .await;
    assert_eq!(status, 503, "{text}");
    assert!(text.contains("[+]nodeslo ok"), "nothing waits for a NodeSLO: {text}");
    rig.stop().await;
}
