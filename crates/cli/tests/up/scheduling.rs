//! Which node does a pod get, and what does its owner read meanwhile?

use std::process::Command;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::{Value, json};

use crate::rig::{TIDEPOOL, Up, create, said, until};

fn pod(name: &str, scheduler: &str, cpu: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "schedulerName": scheduler,
        "nodeSelector": {"tidepool.io/hollow": "true"},
        "containers": [{"name": "c", "image": "nginx",
            "resources": {"requests": {"cpu": cpu, "memory": "1Mi"}}}]}})
}

fn message(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let own = conditions.iter().find(|own| own.type_ == "PodScheduled" && own.status == "False")?;
    own.message.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn both_schedulers_names_are_served_and_explained() {
    let up = Up::with(&["--hollow", "3", "--in-memory"]);
    let client = up.client().await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let explain = |arguments: &[&str]| {
        let config = up.kubeconfig();
        let output = Command::new(TIDEPOOL)
            .args(["explain", "pod"])
            .args(arguments)
            .arg("--kubeconfig")
            .arg(config)
            .output()
            .unwrap();
        said(&output)
    };
    for scheduler in ["default-scheduler", "koord-scheduler"] {
        create::<Pod>(&client, pod(scheduler, scheduler, "100m")).await;
        let api = &pods;
        let node = until("the pod gets a node", || async move {
            api.get(scheduler).await.unwrap().spec?.node_name
        })
        .await;
        let text = explain(&[&format!("default/{scheduler}")]);
        assert!(text.starts_with(&format!("default/{scheduler} is on {node}\n")), "{text}");
        assert!(text.contains("NodeResourcesFit="), "{text}");
    }
    create::<Pod>(&client, pod("giant", "koord-scheduler", "100000")).await;
    let api = &pods;
    let want = "0/4 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, \
        3 Insufficient cpu. preemption: 0/4 nodes are available: \
        4 Preemption is not helpful for scheduling.";
    // A node that has just come is not ready for a moment, and the pod is told that first.
    until("the pod is told why it waits", || async move {
        let told = message(&api.get("giant").await.unwrap())?;
        (told == want).then_some(())
    })
    .await;
    let text = explain(&["default/giant"]);
    assert!(text.starts_with("default/giant waits: it fits on none of 4 nodes"), "{text}");
    assert!(text.contains("3      NodeResourcesFit  Insufficient cpu"), "{text}");
    let json: Value = serde_json::from_str(&explain(&["giant", "-o", "json"])).unwrap();
    assert_eq!(json["state"]["Waiting"]["why"]["nodes"], 4);
}
