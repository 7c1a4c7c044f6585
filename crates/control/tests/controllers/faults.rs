//! The server conflicts, forgets, or is away.

use std::sync::atomic::Ordering::SeqCst;

use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use crate::rig::{batch_cpu, rig, until};

#[tokio::test]
async fn a_storm_of_conflicts_ends_in_one_write() {
    let rig = rig().await;
    rig.configure(json!({"enable": true})).await;
    rig.wire.conflicts.store(6, SeqCst);
    rig.add_node("n1").await;
    rig.report("n1", 4_000, rig.now()).await;
    let nodes = rig.all::<Node>();
    until(&nodes, "n1", "lent", |node| batch_cpu(node) == Some(34_400)).await;
    assert_eq!(rig.wire.conflicts.load(SeqCst), 0, "every conflict was met");
    rig.settle().await;
    let writes = rig.wire.take_writes();
    let status = writes.iter().filter(|write| write.ends_with("/nodes/n1/status")).count();
    assert!(status <= 2, "{writes:?}");
    rig.stop().await;
}

#[tokio::test]
async fn a_watch_that_lost_its_history_lists_again() {
    let rig = rig().await;
    rig.wire.expired.store(3, SeqCst);
    rig.configure(json!({"enable": true})).await;
    rig.add_node("n1").await;
    rig.report("n1", 4_000, rig.now()).await;
    let nodes = rig.all::<Node>();
    until(&nodes, "n1", "lent", |node| batch_cpu(node) == Some(34_400)).await;
    assert_eq!(rig.wire.expired.load(SeqCst), 0, "every refusal was met");
    rig.stop().await;
}

#[tokio::test]
async fn a_server_that_was_away_gets_the_latest_value() {
    let rig = rig().await;
    rig.configure(json!({"enable": true})).await;
    rig.add_node("n1").await;
    rig.report("n1", 4_000, rig.now()).await;
    let nodes = rig.all::<Node>();
    until(&nodes, "n1", "lent", |node| batch_cpu(node) == Some(34_400)).await;
    rig.wire.is_away.store(true, SeqCst);
    for used in [8_000, 16_000, 20_000] {
        rig.report("n1", used, rig.now()).await;
        rig.settle().await;
    }
    assert_eq!(batch_cpu(&nodes.get("n1").await.unwrap()), Some(34_400));
    rig.wire.is_away.store(false, SeqCst);
    until(&nodes, "n1", "caught up", |node| batch_cpu(node) == Some(18_400)).await;
    rig.stop().await;
}
