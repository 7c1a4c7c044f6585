//! The server refuses, fails or falls silent, and the scheduler may die at any time.

use std::sync::atomic::Ordering;

use crate::rig::{Fault, Rig, is_bound, rig};

async fn all_bound(rig: &Rig, count: usize) {
    rig.until("all bound", |pods| pods.len() == count && pods.iter().all(is_bound)).await;
}

#[tokio::test]
async fn every_fault_ends_in_one_binding() {
    for fault in
        [Fault::Conflict, Fault::Broken, Fault::DoneBroken, Fault::DoneSilent, Fault::Silent]
    {
        let rig = rig().await;
        rig.add_node("n1", "4").await;
        rig.add_pod("web", "1").await;
        rig.wire.fail([fault]);
        let scheduler = rig.schedule().await;
        all_bound(&rig, 1).await;
        rig.until_event("web", "Scheduled").await;
        assert!(rig.wire.is_spent());
        rig.assert_bound_once(1).await;
        scheduler.stop().await;
    }
}

#[tokio::test]
async fn a_storm_of_faults_binds_every_pod_once() {
    let rig = rig().await;
    for node in 0..3 {
        rig.add_node(&format!("n{node}"), "20").await;
    }
    for pod in 0..40 {
        rig.add_pod(&format!("p{pod}"), "1").await;
    }
    let kinds =
        [Fault::Conflict, Fault::DoneBroken, Fault::Silent, Fault::DoneSilent, Fault::Broken];
    rig.wire.fail(kinds.into_iter().cycle().take(25));
    rig.wire.blind.store(10, Ordering::SeqCst);
    let scheduler = rig.schedule().await;
    all_bound(&rig, 40).await;
    assert!(rig.wire.is_spent());
    rig.assert_bound_once(40).await;
    scheduler.stop().await;
}

#[tokio::test]
async fn a_scheduler_that_dies_in_the_middle_is_followed_by_another() {
    let rig = rig().await;
    for node in 0..3 {
        rig.add_node(&format!("n{node}"), "20").await;
    }
    for pod in 0..45 {
        rig.add_pod(&format!("p{pod}"), "1").await;
    }
    // Some bindings are on their way when the first one dies.
    rig.wire.fail([Fault::DoneSilent, Fault::Silent, Fault::DoneSilent, Fault::Silent]);
    let first = rig.schedule().await;
    rig.until("begun", |pods| pods.iter().filter(|pod| is_bound(pod)).count() >= 10).await;
    first.kill().await;
    let second = rig.schedule().await;
    all_bound(&rig, 45).await;
    rig.assert_bound_once(45).await;
    second.stop().await;
}

#[tokio::test]
async fn a_pod_that_is_replaced_while_it_is_bound_is_placed_anew() {
    let rig = rig().await;
    rig.add_node("n1", "4").await;
    rig.add_pod("web", "3").await;
    rig.wire.fail([Fault::Silent]);
    let scheduler = rig.schedule().await;
    rig.until("asked", |_| rig.wire.is_spent()).await;
    rig.delete("web").await;
    let second = rig.add_pod("web", "3").await;
    let pod = rig.until_pod("web", "bound", is_bound).await;
    assert_eq!(pod.metadata.uid, second.metadata.uid);
    scheduler.stop().await;
}
