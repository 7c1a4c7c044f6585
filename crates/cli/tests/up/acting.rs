//! What the agent changes on this machine, and that it can all be taken back.

use std::sync::Arc;

use host::Reading;
use host::cgroup::{CgroupPath, Driver, Knob, KubeQos, Layout, PodUid, Tree};
use host::fs::{Mounts, RealFs};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::rig::{Up, create, is_ready, said, until, until_pods};

/// A kernel file of the pod, as it is now.
fn text(tree: &Tree, group: &CgroupPath, knob: Knob) -> Option<String> {
    let Ok(Reading::Value((text, _))) = tree.get_text(group, knob) else { return None };
    Some(text)
}

const KNOBS: [Knob; 4] = [Knob::CpuShares, Knob::CfsQuota, Knob::CpuIdle, Knob::MemoryLimit];

fn all(tree: &Tree, group: &CgroupPath) -> Vec<Option<String>> {
    KNOBS.iter().map(|knob| text(tree, group, *knob)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_batch_pods_come_and_go_with_the_switch() {
    let mut up = Up::start();
    let client = up.client().await;
    assert!(up.tidepool(&["off"]).status.success());
    let resources =
        json!({"kubernetes.io/batch-cpu": "700", "kubernetes.io/batch-memory": "256Mi"});
    let pod: Pod = create(
        &client,
        json!({
            "metadata": {
                "name": "job", "labels": {"app": "job", "koordinator.sh/qosClass": "BE"},
            },
            "spec": {
                // A machine that runs tests may have nothing to lend.
                "nodeName": "n1",
                "priorityClassName": "koord-batch",
                "terminationGracePeriodSeconds": 1,
                "containers": [{
                    "name": "c", "image": "host", "command": ["sleep", "1d"],
                    "resources": {"limits": resources, "requests": resources},
                }],
            },
        }),
    )
    .await;
    until_pods(&client, "app=job", "it runs", |pods| pods.iter().any(is_ready)).await;
    let tree = Tree::find(Arc::new(RealFs::new(Mounts::host()))).unwrap();
    let layout = Layout::new(Driver::Cgroupfs).below(up.cgroup_root());
    let uid = PodUid::new(pod.metadata.uid.clone().unwrap());
    let group = layout.pod(KubeQos::BestEffort, &uid);
    let before = all(&tree, &group);

    let (tree, group) = (&tree, &group);
    let limited = || async move {
        let limit = text(tree, group, Knob::MemoryLimit)?;
        let idle = text(tree, group, Knob::CpuIdle)?;
        (limit == (256 << 20).to_string() && idle == "1").then_some(())
    };
    assert!(up.tidepool(&["on"]).status.success());
    until("its limits are written", limited).await;

    let off = up.tidepool(&["off", "--reason", "a test"]);
    assert!(off.status.success(), "{}", said(&off));
    assert!(said(&off).contains("given back by the agent"), "{}", said(&off));
    assert_eq!(all(tree, group), before);
    assert!(up.tidepool(&["on"]).status.success());
    until("its limits are written again", limited).await;

    up.kill();
    assert!(limited().await.is_some(), "a dead agent leaves best-effort held back");
    up.again();
    until("the next agent takes over", limited).await;
    up.kill();
    let off = up.tidepool(&["off", "--json"]);
    let given: serde_json::Value = serde_json::from_slice(&off.stdout).unwrap();
    assert_eq!((&given["byAgent"], &given["left"]), (&json!(false), &json!([])), "{}", said(&off));
    assert_eq!(all(tree, group), before, "nobody has to run to put things right");
}
