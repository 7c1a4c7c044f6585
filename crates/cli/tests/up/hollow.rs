//! Many nodes without machines.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use crate::rig::{Up, create, phase, until};

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_nodes_run_a_thousand_pods() {
    let up = Up::with(&["--hollow", "200", "--in-memory"]);
    assert!(up.said.contains("200 nodes that only pretend"), "{}", up.said);
    let client = up.client().await;
    let nodes: Api<Node> = Api::all(client.clone());
    let nodes = nodes.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(nodes.len(), 201);
    for node in &nodes {
        let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let ready = conditions.into_iter().find(|own| own.type_ == "Ready").unwrap();
        assert_eq!(ready.status, "True", "{:?}", node.metadata.name);
    }

    let deployment = json!({
        "metadata": {"name": "many"},
        "spec": {
            "replicas": 1_000,
            "selector": {"matchLabels": {"app": "many"}},
            "template": {
                "metadata": {"labels": {"app": "many"}},
                "spec": {
                    "nodeSelector": {"tidepool.io/hollow": "true"},
                    "containers": [{"name": "c", "image": "nginx"}],
                },
            },
        },
    });
    create::<Deployment>(&client, deployment).await;
    let api: Api<Deployment> = Api::default_namespaced(client.clone());
    let api = &api;
    until("a thousand replicas are available", || async move {
        let status = api.get("many").await.unwrap().status?;
        (status.available_replicas == Some(1_000)).then_some(())
    })
    .await;
    let pods: Api<Pod> = Api::default_namespaced(client);
    let pods = pods.list(&ListParams::default()).await.unwrap().items;
    let running = pods.iter().filter(|pod| phase(pod) == "Running").count();
    assert_eq!((pods.len(), running), (1_000, 1_000));
}
