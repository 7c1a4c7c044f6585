//! The server conflicts, forgets, or is away.

use std::sync::atomic::Ordering::SeqCst;

use api::kind::NodeSlo;
use control::node_resource::Options;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use overcommit::plan::Plugins;
use reconcile::elect::Leadership;
use serde_json::json;
use tokio::sync::watch;

use crate::rig::{BATCH_CPU, batch_cpu, rig, rig_with, until};

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

#[tokio::test]
async fn a_slow_server_gets_every_value_once() {
    let rig = rig().await;
    rig.wire.delay.store(20, SeqCst);
    rig.configure(json!({"enable": true})).await;
    for name in ["n1", "n2", "n3"] {
        rig.add_node(name).await;
        rig.report(name, 4_000, rig.now()).await;
    }
    let nodes = rig.all::<Node>();
    for name in ["n1", "n2", "n3"] {
        until(&nodes, name, "lent", |node| batch_cpu(node) == Some(34_400)).await;
    }
    rig.settle().await;
    rig.wire.take_writes();
    rig.report("n2", 16_000, rig.now()).await;
    until(&nodes, "n2", "lent less", |node| batch_cpu(node) == Some(22_400)).await;
    rig.settle().await;
    assert_eq!(rig.wire.take_writes(), ["PATCH /api/v1/nodes/n2/status"]);
    rig.stop().await;
}

#[tokio::test]
async fn a_write_that_is_never_answered_is_given_up_and_made_again() {
    let rig = rig().await;
    rig.configure(json!({"enable": true})).await;
    rig.wire.hangs.store(5, SeqCst);
    rig.add_node("n1").await;
    rig.report("n1", 4_000, rig.now()).await;
    let nodes = rig.all::<Node>();
    until(&nodes, "n1", "lent", |node| batch_cpu(node) == Some(34_400)).await;
    assert_eq!(rig.wire.hangs.load(SeqCst), 0, "every one was met");
    let failed =
        |counter: &prometheus::IntCounterVec| counter.with_label_values(&["failed", "slow"]).get();
    let instruments = &rig.shared.instruments;
    let slow = [
        &instruments.node_metric_reconcile,
        &instruments.node_slo_reconcile,
        &instruments.node_resource_reconcile,
    ];
    assert_eq!(slow.map(failed).iter().sum::<u64>(), 5, "and counted by its reason");
    rig.stop().await;
}

/// What an older manager left: the same meaning in another order and in other words, and fewer
/// fields.
#[tokio::test]
async fn an_older_managers_words_are_not_written_anew() {
    let (election, held) = watch::channel(true);
    let rig = rig_with(Leadership::follow(held)).await;
    rig.configure(json!({"enable": true})).await;
    rig.add_node("n1").await;
    rig.report("n1", 4_000, rig.now()).await;
    let nodes = rig.all::<Node>();
    let node = until(&nodes, "n1", "lent", |node| batch_cpu(node) == Some(34_400)).await;
    rig.settle().await;
    election.send_replace(false);

    let memory = node.status.unwrap().allocatable.unwrap()["kubernetes.io/batch-memory"].clone();
    let origin = json!({"resources": {"kubernetes.io/batch-memory": memory,
        BATCH_CPU: "34.4k"}, "other": 1});
    let reworded = json!({"metadata": {"annotations": {
        "node.koordinator.sh/originExtendedAllocatable": origin.to_string(),
        "node.koordinator.sh/cpu-normalization-ratio": "1"}}});
    let params = PatchParams::default();
    nodes.patch("n1", &params, &Patch::Merge(&reworded)).await.expect("a node");
    let slos = rig.all::<NodeSlo>();
    let fewer = json!({"spec": {"cpuBurstStrategy": null, "hostApplications": null,
        "extensions": {"somebody": {"else": true}}}});
    slos.patch("n1", &params, &Patch::Merge(&fewer)).await.expect("a NodeSLO");
    rig.settle().await;
    rig.wire.take_writes();

    election.send_replace(true);
    until(&slos, "n1", "complete", |slo| slo.spec.cpu_burst_strategy.is_some()).await;
    rig.beat("n1").await;
    rig.settle().await;
    let writes = rig.wire.take_writes();
    assert_eq!(writes, ["PATCH /apis/slo.koordinator.sh/v1alpha1/nodeslos/n1"], "what was missing");
    let slo = json!(slos.get("n1").await.expect("a NodeSLO"));
    assert_eq!(slo["spec"]["extensions"], json!({"somebody": {"else": true}}));
    rig.stop().await;
}

/// The older one knows no mid resources. Whoever leads has its way; nobody fights.
#[tokio::test]
async fn managers_of_two_versions_hand_over_without_a_quarrel() {
    let (newer_leads, held) = watch::channel(true);
    let rig = rig_with(Leadership::follow(held)).await;
    let (older_leads, held) = watch::channel(false);
    let newer = &*rig;
    let fewer = Options { plugins: Plugins { mid: false, ..Plugins::ALL }, ..Options::default() };
    let older = rig.second(Leadership::follow(held), fewer);
    rig.configure(json!({"enable": true})).await;
    rig.add_node("n1").await;
    rig.report("n1", 4_000, rig.now()).await;
    let nodes = rig.all::<Node>();
    until(&nodes, "n1", "lent", |node| batch_cpu(node) == Some(34_400)).await;
    rig.settle().await;
    rig.settle_on(&older).await;
    assert_eq!(older.wire.take_writes(), [""; 0], "it does not lead");

    for round in 0..3 {
        let (from, to) = if round % 2 == 0 { (newer, &older) } else { (&older, newer) };
        let (loses, wins) = if round % 2 == 0 {
            (&newer_leads, &older_leads)
        } else {
            (&older_leads, &newer_leads)
        };
        loses.send_replace(false);
        wins.send_replace(true);
        from.wire.take_writes();
        to.wire.take_writes();
        rig.pass(SignedDuration::from_secs(60));
        let (used, left) = if round % 2 == 0 { (16_000, 22_400) } else { (4_000, 34_400) };
        rig.report("n1", used, rig.now()).await;
        until(&nodes, "n1", "taken over", |node| batch_cpu(node) == Some(left)).await;
        for manager in [from, to] {
            rig.settle_on(manager).await;
        }
        assert_eq!(from.wire.take_writes(), [""; 0], "round {round}: who lost writes nothing");
        let writes = to.wire.take_writes();
        assert_eq!(writes, ["PATCH /api/v1/nodes/n1/status"], "round {round}");
    }
    older.stop().await;
    rig.stop().await;
}
