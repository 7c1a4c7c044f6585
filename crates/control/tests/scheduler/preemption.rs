//! Somebody more important comes.

use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::rig::{Rig, is_bound, node_of, object, rig, scheduled};

async fn priorities(rig: &Rig) {
    let classes: Api<PriorityClass> = Api::all(rig.client.clone());
    for (name, value) in [("low", 10), ("high", 1_000)] {
        let class = json!({"metadata": {"name": name}, "value": value});
        classes.create(&PostParams::default(), &object(class)).await.expect("new");
    }
}

#[tokio::test]
async fn the_less_important_make_room() {
    let rig = rig().await;
    priorities(&rig).await;
    rig.add_node("n1", "4").await;
    // Without a node agent a grace period would never end.
    let low = json!({"priorityClassName": "low", "terminationGracePeriodSeconds": 0});
    for name in ["a", "b"] {
        rig.add(name, "2", low.clone()).await;
    }
    let scheduler = rig.schedule().await;
    rig.until("both bound", |pods| pods.len() == 2 && pods.iter().all(is_bound)).await;
    rig.wire.take_writes();
    rig.add("boss", "3", json!({"priorityClassName": "high"})).await;
    let boss = rig.until_pod("boss", "bound", is_bound).await;
    assert_eq!(node_of(&boss), Some("n1"));
    let pods = rig.until("cleared", |pods| pods.len() == 1).await;
    assert_eq!(pods[0].metadata.name.as_deref(), Some("boss"));
    for victim in ["a", "b"] {
        let event = rig.until_event(victim, "Preempted").await;
        let uid = boss.metadata.uid.clone().unwrap();
        assert_eq!(event.message, Some(format!("Preempted by pod {uid} on node n1")));
    }
    let writes = rig.wire.take_writes();
    for victim in ["a", "b"] {
        let of = |method: &str, end: &str| {
            let path = format!("{method} /api/v1/namespaces/default/pods/{victim}{end}");
            writes.iter().filter(|write| **write == path).count()
        };
        assert_eq!((of("PATCH", "/status"), of("DELETE", "")), (1, 1), "{writes:?}");
    }
    scheduler.stop().await;
}

#[tokio::test]
async fn equals_are_left_alone_and_the_message_says_so() {
    let rig = rig().await;
    priorities(&rig).await;
    rig.add_node("n1", "4").await;
    rig.add("a", "3", json!({"priorityClassName": "high"})).await;
    let scheduler = rig.schedule().await;
    rig.until_pod("a", "bound", is_bound).await;
    rig.add("b", "3", json!({"priorityClassName": "high"})).await;
    let pod = rig.until_pod("b", "told", |pod| scheduled(pod).is_some()).await;
    let (_, _, message) = scheduled(&pod).unwrap();
    assert_eq!(
        message,
        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: \
         1 No preemption victims found for incoming pod."
    );
    assert_eq!(rig.pods().list(&Default::default()).await.unwrap().items.len(), 2);
    scheduler.stop().await;
}
