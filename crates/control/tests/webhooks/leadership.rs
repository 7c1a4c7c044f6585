//! Two managers: one leads, both answer.

use std::time::{Duration, Instant};

use api::kind::{ElasticQuota, ElasticQuotaProfile};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::json;

use control::manager::ManagerError;

use crate::rig::{Cluster, Faults, NAMESPACE, create, pod, ready, replica, start, until};

async fn holder(cluster: &Cluster) -> String {
    let api: Api<Lease> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let lease = api.get("koordinator-manager").await.expect("there is a lease");
    lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default()
}

/// Some controller of the leader's works: a profile's quota appears.
async fn somebody_works(cluster: &Cluster, name: &str) {
    let profiles: Api<ElasticQuotaProfile> = cluster.api();
    let profile = json!({
        "apiVersion": "quota.koordinator.sh/v1alpha1", "kind": "ElasticQuotaProfile",
        "metadata": {"name": name}, "spec": {"quotaName": name, "nodeSelector": {}},
    });
    create(&profiles, profile).await.expect("a profile");
    let quotas: Api<ElasticQuota> = cluster.api();
    until("the quota is made", async || quotas.get_opt(name).await.ok().flatten()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_leads_and_both_answer() {
    let cluster = Cluster::start().await;
    let first = ready(cluster.client.clone(), replica("a")).await;
    first.until_leading().await;
    let second = ready(cluster.client.clone(), replica("b")).await;
    assert!(first.leads() && !second.leads());
    assert_eq!(holder(&cluster).await, "a");
    somebody_works(&cluster, "one").await;

    let start = Instant::now();
    first.stop().await;
    second.until_leading().await;
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(holder(&cluster).await, "b");
    somebody_works(&cluster, "two").await;
    let bad = pod("bad", json!({"koordinator.sh/qosClass": "BE"}), "koord-prod", json!({}));
    let api: Api<Pod> = cluster.api();
    until("the one that is left is called", async || create(&api, bad.clone()).await.err()).await;
    second.stop().await;
    assert_eq!(holder(&cluster).await, "", "given back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_leader_is_followed() {
    let cluster = Cluster::start().await;
    let first = ready(cluster.client.clone(), replica("a")).await;
    first.until_leading().await;
    let second = ready(cluster.client.clone(), replica("b")).await;
    first.kill().await;
    assert_eq!(holder(&cluster).await, "a", "nobody gave it back");
    second.until_leading().await;
    assert_eq!(holder(&cluster).await, "b");
    somebody_works(&cluster, "one").await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_never_lead_at_once() {
    let cluster = Cluster::start().await;
    let (cut, hung) = (Faults::default(), Faults::default());
    let first = ready(cluster.client_with(&cut), replica("a")).await;
    first.until_leading().await;
    let second = ready(cluster.client_with(&hung), replica("b")).await;
    let (ours, theirs) = (first.status.leadership.clone(), second.status.leadership.clone());
    let watching = tokio::spawn(async move {
        let mut both = 0;
        while !theirs.is_held() || ours.is_held() {
            both += usize::from(ours.is_held() && theirs.is_held());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        both
    });
    cut.cut();
    let end = first.end().await;
    assert!(matches!(end, Err(ManagerError::LostLease)), "{end:?}");
    second.until_leading().await;
    assert_eq!(watching.await.expect("it does not panic"), 0);

    let third = start(cluster.client.clone(), replica("c")).await;
    hung.hang();
    let end = second.end().await;
    assert!(
        matches!(end, Err(ManagerError::LostLease)),
        "a server that hangs is as good as none: {end:?}"
    );
    third.until_leading().await;
    third.stop().await;
}
