//! Memory runs short in a real memory cgroup: who leaves, who stays, and who is left in peace?
//!
//! ```text
//! of 600 MiB:  270 goal   300 full   360 critical
//! web 64 + hog 240                 the hog is told, and asked
//! web 64 + hog 200 + other 60      the hog's owner is at rest: the other one leaves
//! ```

use groups::{Controller, Knob, Limit, Setting};
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use testkit::wait::until;

use crate::node::{Node, Plan, groups, make_classes, pod, run_pod};
use crate::sandbox::Sandbox;
use crate::sandbox_or_skip;
use crate::workload::Workload;

const MIB: u64 = 1 << 20;
const NOTICE: &str = "tidepool.io/eviction-notice";

/// A pod of a ReplicaSet that holds so many MiB.
async fn run(sandbox: &Sandbox, node: &Node, name: &str, qos: &str, mib: u64) -> Workload {
    let mut workload = run_pod(sandbox, name, qos);
    workload.hold(mib * MIB);
    let owner = name.split('-').next().unwrap();
    let mut object: Value = pod(name, qos, "");
    object["metadata"]["ownerReferences"] = json!([{ "apiVersion": "apps/v1",
        "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true }]);
    node.add(&object).await;
    workload
}

async fn get(node: &Node, name: &str) -> Pod {
    node.pods().get(name).await.unwrap()
}

fn is_told(pod: &Pod) -> bool {
    pod.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(NOTICE))
}

fn is_leaving(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hog_leaves_with_notice_and_what_replaces_it_is_left_in_peace() {
    let sandbox = sandbox_or_skip!("leaving");
    assert!(sandbox.tree.has(Controller::Memory), "memory is measured by groups");
    let most = Setting::Limit(Limit::At(i64::try_from(600 * MIB).unwrap()));
    sandbox.tree.set(&sandbox.root, Knob::MemoryLimit, &most).unwrap();
    make_classes(&sandbox);
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(&Plan {
        root: sandbox.root.as_str().to_owned(),
        state: dir.path().to_owned(),
        slo: json!({ "resourceUsedThresholdWithBE": { "enable": true,
            "memoryEvictThresholdPercent": 50, "memoryEvictLowerPercent": 45 } }),
        pods: Vec::new(),
        cleanup_on_exit: true,
    })
    .await;
    let mut web = run(&sandbox, &node, "web-1", "LS", 64).await;
    let hog = run(&sandbox, &node, "hog-1", "BE", 240).await;
    let is = async |name: &str, so: fn(&Pod) -> bool| so(&get(&node, name).await).then_some(());
    until("the hog is told", async || is("hog-1", is_told).await).await;
    until("the hog is asked", async || is("hog-1", is_leaving).await).await;

    // What a kubelet does.
    drop(hog);
    for group in groups(&sandbox, "hog-1", "BE") {
        sandbox.remove(&group).unwrap();
    }
    let now = DeleteParams::default().grace_period(0);
    node.pods().delete("hog-1", &now).await.unwrap();

    let _hog = run(&sandbox, &node, "hog-2", "BE", 200).await;
    let _other = run(&sandbox, &node, "other-1", "BE", 60).await;
    until("somebody else is asked", async || is("other-1", is_leaving).await).await;
    for name in ["hog-2", "web-1"] {
        let pod = get(&node, name).await;
        assert!(!is_told(&pod) && !is_leaving(&pod), "{name}");
    }
    web.spin(std::time::Duration::from_millis(1));
    node.stop().await;
}
