//! What gates of the scheduler change.

use std::time::Duration;

use api::protocol::gate::SchedulerGate;
use api::scheduler::Lease;
use control::scheduler::{Options, candidacy};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::rig::{Rig, is_bound, object, options, rig};

/// Between the decision and the binding the pod gets a label.
fn label_before_binding(rig: &Rig, pod: &'static str, key: &'static str, value: &'static str) {
    let pods = rig.pods();
    rig.wire.before_binding(Box::new(move || {
        let pods = pods.clone();
        Box::pin(async move {
            let patch = json!({"metadata": {"labels": {key: value}}});
            let params = PatchParams::default();
            pods.patch(pod, &params, &Patch::Merge(&patch)).await.expect("relabelled");
        })
    }));
}

#[tokio::test]
async fn a_pod_given_to_another_scheduler_meanwhile_is_not_bound() {
    for (name, is_checked) in [("checked", true), ("not checked", false)] {
        let rig = rig().await;
        rig.add_node("n1", "4").await;
        rig.add_pod("web", "1").await;
        // Somebody else takes it.
        label_before_binding(&rig, "web", "scheduling.koordinator.sh/scheduler-name", "another");
        let mut options = options();
        options.gates.set(SchedulerGate::DynamicSchedulerCheck, is_checked);
        let scheduler = rig.schedule_with(options).await;
        let is_taken =
            |pod: &Pod| pod.labels().contains_key("scheduling.koordinator.sh/scheduler-name");
        rig.until_pod("web", "relabelled", is_taken).await;
        if is_checked {
            rig.add_pod("next", "1").await;
            rig.until_pod("next", "bound", is_bound).await;
            let pod = rig.pods().get("web").await.expect("it is there");
            assert!(!is_bound(&pod), "{name}: it belongs to another");
        } else {
            rig.until_pod("web", "bound", is_bound).await;
        }
        scheduler.stop().await;
    }
}

#[tokio::test]
async fn a_pod_that_changed_meanwhile_and_is_still_ours_is_bound_after_a_look() {
    let rig = rig().await;
    rig.add_node("n1", "4").await;
    rig.add_pod("web", "1").await;
    label_before_binding(&rig, "web", "team", "red");
    let mut options = options();
    options.gates.set(SchedulerGate::DynamicSchedulerCheck, true);
    let scheduler = rig.schedule_with(options).await;
    rig.until_pod("web", "bound", is_bound).await;
    scheduler.stop().await;
    let writes = rig.wire.take_writes();
    let bindings = writes.iter().filter(|write| write.ends_with("/pods/web/binding")).count();
    assert_eq!(bindings, 2, "the first one was for the pod as it had been: {writes:?}");
}

fn barred(patience: Duration) -> Options {
    let lease = Lease { retry: Duration::from_millis(100), ..Lease::default() };
    let mut options = options();
    options.election = Some(candidacy(&lease, "only".to_owned()));
    options.gates.set(SchedulerGate::SyncBarrier, true);
    options.barrier.namespace = "default".to_owned();
    options.barrier.patience = patience;
    options
}

#[tokio::test]
async fn a_new_leader_waits_until_it_sees_its_own_write() {
    let rig = rig().await;
    rig.add_node("n1", "4").await;
    let options = barred(Duration::from_secs(30));
    let barrier = json!({"metadata": {"name": options.barrier.name},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]}});
    let pods: Api<Pod> = rig.pods();
    pods.create(&PostParams::default(), &object(barrier)).await.expect("new");
    rig.add_pod("web", "1").await;
    let scheduler = rig.schedule_with(options.clone()).await;
    rig.until_pod("web", "bound", is_bound).await;
    let writes = rig.wire.take_writes();
    let place = format!("PATCH /api/v1/namespaces/default/pods/{}", options.barrier.name);
    assert_eq!(writes[0], place, "before anything else: {writes:?}");
    let pod = pods.get(&options.barrier.name).await.expect("it is there");
    assert!(
        pod.annotations().contains_key("scheduling.koordinator.sh/sync-barrier-koord-scheduler")
    );
    scheduler.stop().await;
}

#[tokio::test]
async fn without_the_pod_patience_ends() {
    let rig = rig().await;
    rig.add_node("n1", "4").await;
    rig.add_pod("web", "1").await;
    let scheduler = rig.schedule_with(barred(Duration::from_millis(300))).await;
    rig.until_pod("web", "bound", is_bound).await;
    scheduler.stop().await;
}
