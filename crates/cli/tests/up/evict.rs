//! Memory runs short on a real kernel: who leaves, who stays, and who is left in peace?

use std::sync::Arc;

use groups::{CgroupPath, Controller, Knob, Limit, Setting};
use host::cgroup::Tree;
use host::fs::{Mounts, RealFs};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::rig::{Up, create, is_alive, phase, pid_of, said, until, until_pods};

/// All pods together have this much.
const LIMIT: i64 = 1000 << 20;

/// Holds memory: what `tail` has read has no lines, and its end does not come. Two of the four dollars
/// reach the shell.
fn holding(mib: u32) -> Value {
    let script =
        format!("echo $$$$; (head -c {mib}m /dev/zero; exec sleep 1000000) | exec tail >/dev/null");
    json!({
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "c", "image": "host", "command": ["sh", "-c", script]}],
    })
}

/// Full from 55 % on, back to 45 %; 65 % is where manners end.
async fn configure(client: &Client) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let name = "koordinator-system";
    let apply = PatchParams::apply("test").force();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    namespaces.patch(name, &apply, &Patch::Apply(namespace)).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), name);
    let threshold = json!({"clusterStrategy": {"enable": true,
        "memoryEvictThresholdPercent": 55, "memoryEvictLowerPercent": 45}});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "slo-controller-config"},
        "data": {"resource-threshold-config": threshold.to_string()}});
    maps.patch("slo-controller-config", &apply, &Patch::Apply(map)).await.unwrap();
}

async fn reasons(client: &Client, pod: &str) -> Vec<String> {
    let events: Api<Event> = Api::default_namespaced(client.clone());
    let events = events.list(&ListParams::default()).await.unwrap();
    let about = |event: &Event| event.regarding.as_ref().and_then(|own| own.name.clone());
    let own = events.items.iter().filter(|event| about(event).as_deref() == Some(pod));
    own.filter_map(|event| event.reason.clone())
        .filter(|reason| reason.to_lowercase().contains("evict"))
        .collect()
}

fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hog_leaves_with_notice_and_what_replaces_it_is_left_in_peace() {
    let up = Up::start();
    let tree = Tree::find(Arc::new(RealFs::new(Mounts::host()))).unwrap();
    if !tree.has(Controller::Memory) {
        println!("skipped: no memory controller");
        return;
    }
    let root = CgroupPath::new(up.cgroup_root());
    let limited = tree.set(&root, Knob::MemoryLimit, &Setting::Limit(Limit::At(LIMIT)));
    if limited.is_err() {
        println!("skipped: memory cannot be limited here: {limited:?}");
        return;
    }
    let client = up.client().await;
    configure(&client).await;
    let web = json!({"metadata": {"name": "web", "labels": {"app": "web", "koordinator.sh/qosClass": "LS"}},
        "spec": holding(60)});
    let web: Pod = create(&client, web).await;
    let mut hog = holding(520);
    hog["priorityClassName"] = json!("koord-batch");
    let labels = json!({"app": "hog", "koordinator.sh/qosClass": "BE"});
    let hogs = json!({"metadata": {"name": "hog"}, "spec": {"replicas": 1,
        "selector": {"matchLabels": {"app": "hog"}},
        "template": {"metadata": {"labels": labels}, "spec": hog}}});
    create::<ReplicaSet>(&client, hogs).await;
    let runs = |pods: &[Pod]| pods.len() == 1 && phase(&pods[0]) == "Running";
    let first = until_pods(&client, "app=hog", "the hog runs", runs).await.remove(0);
    let online = pid_of(&client, &web).await;

    let is_another = |pods: &[Pod]| runs(pods) && pods[0].metadata.uid != first.metadata.uid;
    let second = until_pods(&client, "app=hog", "the hog was replaced", is_another).await.remove(0);
    let told = reasons(&client, name(&first)).await;
    assert!(told.contains(&"EvictionNotice".to_owned()), "{told:?}");
    assert!(told.contains(&"evictPodSuccess".to_owned()), "{told:?}");

    // It takes as much, the node is as full, and yet it may stay.
    let explained = until("the node is full again", || async {
        let output = up.tidepool(&["explain", "node", "n1", "memory"]);
        let text = said(&output);
        text.contains("pods have to leave").then_some(text)
    })
    .await;
    assert!(explained.contains("bound by: BEMemoryEvict"), "{explained}");
    for _ in 0..20 {
        let output = up.tidepool(&["explain", "node", "n1", "memory"]);
        assert!(output.status.success(), "{}", said(&output));
    }
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let stays = pods.get(name(&second)).await.unwrap();
    assert_eq!(stays.metadata.deletion_timestamp, None);
    assert_eq!(reasons(&client, name(&second)).await, [""; 0]);
    assert!(is_alive(online), "the online pod was not touched");
    assert_eq!(reasons(&client, "web").await, [""; 0]);
}
