//! What the agent does when the API server is away, slow to agree, or has forgotten.

use api::kind::NodeMetric;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::rig::{Rig, read, reported, until, until_metric};

fn time(metric: &NodeMetric) -> Option<jiff::Timestamp> {
    Some(metric.status.as_ref()?.update_time.as_ref()?.0)
}

#[tokio::test]
async fn a_write_that_was_overtaken_is_made_again() {
    let rig = Rig::start().await;
    rig.gate.overtake(3);
    rig.add_node_metric().await;
    let metric = until_metric(&rig, "reported", |metric| time(metric).is_some()).await;
    assert_eq!(rig.gate.left_to_overtake(), 0, "all three conflicts happened");
    let label = metric.metadata.labels.as_ref().and_then(|labels| labels.get("overtaken"));
    assert_eq!(label.map(String::as_str), Some("1"), "what the other wrote stays");
    rig.stop().await;
}

#[tokio::test]
async fn reports_go_on_when_the_server_is_back() {
    let rig = Rig::start().await;
    rig.add_node_metric().await;
    let before = until_metric(&rig, "reported", |metric| time(metric).is_some()).await;
    rig.gate.close();
    rig.host.use_cores(1900);
    until("refused", async || (rig.ask("/readyz").await.1.contains("[-]report")).then_some(()))
        .await;
    assert_eq!(rig.ask("/healthz").await.0, 200, "an agent without a server is alive");
    let requests = rig.gate.requests();
    rig.gate.open();
    until_metric(&rig, "reported again", |metric| time(metric) > time(&before)).await;
    assert!(rig.gate.requests() > requests);
    rig.stop().await;
}

#[tokio::test]
async fn a_watch_that_the_server_forgot_starts_over() {
    let rig = Rig::start().await;
    let dir = rig.add_pod("miner").await;
    rig.add_node_metric().await;
    until_metric(&rig, "reported with the pod", |m| reported(m) == ["miner"]).await;
    rig.gate.close();
    rig.delete_pod("miner", &dir).await;
    // More changes than the server remembers.
    let maps: Api<ConfigMap> = Api::default_namespaced(rig.client.clone());
    let map = read(json!({ "metadata": { "name": "busy" } }));
    maps.create(&PostParams::default(), &map).await.unwrap();
    for n in 0..400 {
        let patch = json!({ "data": { "n": n.to_string() } });
        maps.patch("busy", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }
    rig.gate.open();
    rig.host.use_cores(1900);
    until_metric(&rig, "reported without the pod", |m| reported(m).is_empty()).await;
    rig.stop().await;
}

#[tokio::test]
async fn an_agent_that_starts_without_a_server_waits_for_it() {
    let rig = Rig::start_with(|_| {}).await;
    rig.gate.close();
    rig.add_node_metric().await;
    until("measured", async || (rig.ask("/readyz").await.1.contains("[+]samples")).then_some(()))
        .await;
    rig.gate.open();
    until_metric(&rig, "reported", |metric| time(metric).is_some()).await;
    rig.stop().await;
}
