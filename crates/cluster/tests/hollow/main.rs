//! Hollow nodes against the embedded API server.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeSet;
use std::time::Duration;

use apiserver::http::{ApiServer, Options, router};
use apiserver::store::{Limits, Store};
use cluster::hollow::{HollowConfig, run};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use testkit::wait::until;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

async fn cluster(count: u32) -> (Client, CancellationToken) {
    let store = Store::in_memory(Limits::default()).unwrap();
    let server = ApiServer::start(store, Options::default()).await;
    let client = Client::new(router(server), "default");
    let token = CancellationToken::new();
    let config =
        HollowConfig { start_delay: Duration::from_millis(10), ..HollowConfig::new(count) };
    tokio::spawn(run(config, client.clone(), watch::Sender::default(), token.clone()));
    (client, token)
}

async fn create(client: &Client, name: &str, node: &str, annotations: Value) -> Pod {
    let pod = json!({
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "nodeName": node,
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "nginx"}],
        },
    });
    let api: Api<Pod> = Api::default_namespaced(client.clone());
    api.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap()
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_registers_with_leases() {
    let (client, token) = cluster(300).await;
    let nodes: Api<Node> = Api::all(client.clone());
    let leases: Api<Lease> = Api::namespaced(client, "kube-node-lease");
    until("300 leases", || async {
        let leases = leases.list(&ListParams::default()).await.unwrap();
        (leases.items.len() == 300).then_some(())
    })
    .await;
    let nodes = nodes.list(&ListParams::default()).await.unwrap().items;
    let names: BTreeSet<_> = nodes.iter().filter_map(|node| node.metadata.name.clone()).collect();
    assert_eq!(names.len(), 300);
    assert!(names.contains("hollow-00000") && names.contains("hollow-00299"));
    for node in nodes {
        let status = node.status.unwrap();
        assert_eq!(status.allocatable.unwrap()["cpu"].0, "32");
        let conditions = status.conditions.unwrap();
        assert!(conditions.iter().any(|own| own.type_ == "Ready" && own.status == "True"));
    }
    token.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_run_end_and_go_as_scripted() {
    let (client, token) = cluster(3).await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    create(&client, "server", "hollow-00001", json!({})).await;
    let ends = |code: &str| json!({"tidepool.io/hollow-run-seconds": "0.05", "tidepool.io/hollow-exit-code": code});
    create(&client, "good", "hollow-00002", ends("0")).await;
    create(&client, "bad", "hollow-00002", ends("7")).await;
    create(&client, "elsewhere", "other", json!({})).await;

    let reaches = |name: &'static str, wanted: &'static str| {
        let pods = pods.clone();
        async move {
            until(&format!("{name} {wanted}"), || async {
                let pod = pods.get(name).await.unwrap();
                (phase(&pod) == wanted).then_some(pod)
            })
            .await
        }
    };
    let server = reaches("server", "Running").await;
    let status = server.status.unwrap();
    let conditions = status.conditions.unwrap();
    assert!(conditions.iter().any(|own| own.type_ == "Ready" && own.status == "True"));
    assert!(status.pod_ip.unwrap().starts_with("10.0.4."));
    assert!(status.container_statuses.unwrap()[0].ready);
    reaches("good", "Succeeded").await;
    let bad = reaches("bad", "Failed").await.status.unwrap().container_statuses.unwrap();
    assert_eq!(bad[0].state.clone().unwrap().terminated.unwrap().exit_code, 7);

    for name in ["server", "good", "bad"] {
        pods.delete(name, &DeleteParams::default()).await.unwrap();
        until(&format!("{name} gone"), || async {
            pods.get_opt(name).await.unwrap().is_none().then_some(())
        })
        .await;
    }
    let elsewhere = pods.get("elsewhere").await.unwrap();
    assert_eq!(phase(&elsewhere), "Pending", "pods of other nodes are left alone");
    token.cancel();
}
