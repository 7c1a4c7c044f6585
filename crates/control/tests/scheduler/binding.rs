//! Pods get nodes, or are told why not.

use serde_json::json;

use crate::rig::{is_bound, node_of, rig, scheduled};

#[tokio::test]
async fn a_pod_is_bound_with_one_write_and_an_event() {
    let rig = rig().await;
    rig.add_node("n1", "4").await;
    rig.add_pod("web", "1").await;
    let scheduler = rig.schedule().await;
    let pod = rig.until_pod("web", "bound", is_bound).await;
    assert_eq!(node_of(&pod), Some("n1"));
    assert_eq!(scheduled(&pod).unwrap().0, "True");
    let event = rig.until_event("web", "Scheduled").await;
    assert_eq!(event.message.as_deref(), Some("Successfully assigned default/web to n1"));
    assert_eq!(event.type_.as_deref(), Some("Normal"));
    assert_eq!(event.action.as_deref(), Some("Binding"));
    assert_eq!(event.reporting_component.as_deref(), Some("default-scheduler"));
    let writes = rig.wire.take_writes();
    assert_eq!(writes, ["POST /api/v1/namespaces/default/pods/web/binding"]);
    scheduler.stop().await;
}

/// Bindings go before events; those that are still to be written are, when it ends.
#[tokio::test]
async fn a_scheduler_that_is_stopped_has_told_of_every_binding() {
    let rig = rig().await;
    rig.add_node("n1", "64").await;
    for pod in 0..40 {
        rig.add_pod(&format!("p{pod}"), "1").await;
    }
    let scheduler = rig.schedule().await;
    rig.until("all bound", |pods| pods.len() == 40 && pods.iter().all(is_bound)).await;
    scheduler.stop().await;
    for pod in 0..40 {
        rig.until_event(&format!("p{pod}"), "Scheduled").await;
    }
}

#[tokio::test]
async fn a_pod_that_fits_nowhere_is_told_once_and_bound_when_it_fits() {
    let rig = rig().await;
    rig.add_node("n1", "2").await;
    rig.add_node("n2", "2").await;
    rig.add("small", "2", json!({"nodeName": "n1"})).await;
    rig.add_pod("big", "2500m").await;
    let scheduler = rig.schedule().await;
    let is_told = |pod: &_| scheduled(pod).is_some();
    let pod = rig.until_pod("big", "told", is_told).await;
    let (status, reason, message) = scheduled(&pod).unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("False", "Unschedulable"));
    assert!(message.starts_with("0/2 nodes are available: 2 Insufficient cpu."), "{message}");
    let event = rig.until_event("big", "FailedScheduling").await;
    assert_eq!(event.message, Some(message));
    assert_eq!(event.type_.as_deref(), Some("Warning"));

    // A change that does not help is no reason to say the same thing again.
    rig.add("other", "1", json!({"nodeName": "n2"})).await;
    rig.delete("other").await;
    let writes = rig.wire.take_writes();
    assert_eq!(writes, ["PATCH /api/v1/namespaces/default/pods/big/status"]);

    rig.add_node("n3", "4").await;
    let pod = rig.until_pod("big", "bound", is_bound).await;
    assert_eq!(node_of(&pod), Some("n3"));
    assert_eq!(scheduled(&pod).unwrap().0, "True");
    scheduler.stop().await;
}

#[tokio::test]
async fn room_is_not_given_away_twice() {
    let rig = rig().await;
    for node in 0..4 {
        rig.add_node(&format!("n{node}"), "4").await;
    }
    for pod in 0..20 {
        rig.add_pod(&format!("p{pod}"), "1").await;
    }
    let scheduler = rig.schedule().await;
    let bound = |pods: &[_]| pods.iter().filter(|pod| is_bound(pod)).count();
    let pods = rig
        .until("filled", |pods| {
            bound(pods) == 16 && pods.iter().filter(|pod| scheduled(pod).is_some()).count() == 20
        })
        .await;
    for node in 0..4 {
        let name = format!("n{node}");
        let count = pods.iter().filter(|pod| node_of(pod) == Some(&name)).count();
        assert_eq!(count, 4, "{name}");
    }
    rig.delete("p0").await;
    rig.until("refilled", |pods| pods.len() == 19 && bound(pods) >= 16).await;
    scheduler.stop().await;
}

#[tokio::test]
async fn pods_of_another_scheduler_are_left_alone() {
    let rig = rig().await;
    rig.add_node("n1", "4").await;
    rig.add("theirs", "1", json!({"schedulerName": "somebody-else"})).await;
    rig.add("ours", "1", json!({"schedulerName": "koord-scheduler"})).await;
    rig.add("gated", "1", json!({"schedulingGates": [{"name": "wait"}]})).await;
    let scheduler = rig.schedule().await;
    rig.until_pod("ours", "bound", is_bound).await;
    let pods = rig.until("there", |pods| pods.len() == 3).await;
    assert_eq!(pods.iter().filter(|pod| is_bound(pod)).count(), 1);
    scheduler.stop().await;
}
