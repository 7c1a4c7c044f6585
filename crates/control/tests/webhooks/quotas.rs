//! Quotas and profiles of a running manager.

use api::kind::{ElasticQuota, ElasticQuotaProfile};
use api::protocol::gate::ManagerGate;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::rig::{Cluster, Faults, create, options, pod, ready, until, with_gates};

const PREFIX: &str = "quota.scheduling.koordinator.sh";

fn quota(name: &str, parent: &str, is_parent: bool, min: &str) -> Value {
    let labels = json!({format!("{PREFIX}/parent"): parent, format!("{PREFIX}/is-parent"): is_parent.to_string()});
    json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"min": {"cpu": min}, "max": {"cpu": "20"}},
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quotas_are_completed_and_judged_as_a_tree() {
    let cluster = Cluster::start().await;
    let manager = ready(cluster.client.clone(), options()).await;
    let api: Api<ElasticQuota> = cluster.api();
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let top = || serde_json::from_value(quota("top", "", true, "10")).expect("a quota");
    api.create(&dry, &top()).await.expect("a try");
    let made = api.create(&PostParams::default(), &top()).await.expect("the try took nothing");
    assert_eq!(made.labels()[&format!("{PREFIX}/parent")], "koordinator-root-quota");
    assert_eq!(made.annotations()[&format!("{PREFIX}/shared-weight")], "{\"cpu\":\"20\"}");

    // What was just admitted counts at once, told or not.
    let first = until("the parent is known", async || {
        create(&api, quota("a", "top", false, "6")).await.ok()
    })
    .await;
    assert_eq!(first.name_any(), "a");
    let refusal = create(&api, quota("b", "top", false, "5")).await.expect_err("11 of 10");
    assert!(refusal.contains("add up to 11 cpu"), "{refusal}");
    create(&api, quota("b", "top", false, "4")).await.expect("10 of 10");

    let refusal = api.delete("top", &DeleteParams::default()).await.expect_err("it has children");
    assert!(refusal.to_string().contains("children"), "{refusal}");
    let pods: Api<Pod> = cluster.api();
    let labels = json!({format!("{PREFIX}/name"): "a"});
    create(&pods, pod("p", labels, "", json!({}))).await.expect("a pod of a leaf");
    let refusal = api.delete("a", &DeleteParams::default()).await.expect_err("it has a pod");
    assert!(refusal.to_string().contains("default/p"), "{refusal}");
    api.delete("b", &DeleteParams::default()).await.expect("nobody needs it");
    let of_parent = pod("q", json!({format!("{PREFIX}/name"): "top"}), "", json!({}));
    let refusal = create(&pods, of_parent).await.expect_err("a parent's pod");
    assert!(refusal.contains("parent"), "{refusal}");
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_are_charged_once_and_tries_are_free() {
    let cluster = Cluster::start().await;
    let gates = [ManagerGate::EnableQuotaAdmission];
    let manager = ready(cluster.client.clone(), with_gates(options(), &gates)).await;
    let quotas: Api<ElasticQuota> = cluster.api();
    let mut team = quota("team", "", false, "1");
    team["spec"]["max"] = json!({"cpu": "4"});
    create(&quotas, team).await.expect("a quota");
    let pods: Api<Pod> = cluster.api();
    let of_team = |name: &str, cpu: &str| {
        pod(name, json!({format!("{PREFIX}/name"): "team"}), "", json!({"requests": {"cpu": cpu}}))
    };
    let used = async || {
        let quota = quotas.get("team").await.expect("the quota");
        quota.annotations().get(&format!("{PREFIX}/child-request")).cloned().unwrap_or_default()
    };
    until("the quota is known", async || create(&pods, of_team("a", "3")).await.ok()).await;
    assert_eq!(used().await, "{\"cpu\":\"3\"}");
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let try_pod = serde_json::from_value(of_team("b", "1")).expect("a pod");
    pods.create(&dry, &try_pod).await.expect("there is room");
    assert_eq!(used().await, "{\"cpu\":\"3\"}");
    let refusal = create(&pods, of_team("c", "2")).await.expect_err("no room");
    assert!(
        refusal.contains(
            "exceeded quota: default/team, requested: cpu=2, used: cpu=3, limited: cpu=4"
        ),
        "{refusal}"
    );
    create(&pods, of_team("b", "1")).await.expect("room for one");
    assert_eq!(used().await, "{\"cpu\":\"4\"}");
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_quotas_do_not_wait_for_each_other() {
    let cluster = Cluster::start().await;
    let (faults, gates) = (Faults::default(), [ManagerGate::EnableQuotaAdmission]);
    let options = with_gates(options(), &gates);
    let manager = ready(cluster.client_with(&faults), options).await;
    let quotas: Api<ElasticQuota> = cluster.api();
    let pods: Api<Pod> = cluster.api();
    let of = |quota: &str, name: &str| {
        let labels = json!({format!("{PREFIX}/name"): quota});
        pod(name, labels, "", json!({"requests": {"cpu": "1"}}))
    };
    for name in ["slow", "quick"] {
        create(&quotas, quota(name, "", false, "1")).await.expect("a quota");
        let first = format!("first-{name}");
        until("the quota is known", async || create(&pods, of(name, &first)).await.ok()).await;
    }
    faults.hang_at("/elasticquotas/slow");
    let (own, slow) = (pods.clone(), of("slow", "second-slow"));
    let charging = tokio::spawn(async move { create(&own, slow).await.map(drop) });
    until("one quota is being charged", async || (faults.waiting() > 0).then_some(())).await;
    create(&pods, of("quick", "second-quick")).await.expect("the other quota is free");
    assert!(!charging.is_finished(), "the first is still being charged");
    charging.abort();
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_profiles_quota_follows_its_nodes() {
    let cluster = Cluster::start().await;
    let manager = ready(cluster.client.clone(), options()).await;
    let node = |name: &str, cpu: &str| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"pool": "a"}},
            "status": {"allocatable": {"cpu": cpu, "memory": "8Gi"}}})
    };
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(cluster.client.clone());
    create(&nodes, node("n1", "4")).await.expect("a node");
    let profiles: Api<ElasticQuotaProfile> = Api::namespaced(cluster.client.clone(), "kube-system");
    let profile = json!({
        "metadata": {"name": "pool-a"},
        "spec": {"quotaName": "root-a", "nodeSelector": {"matchLabels": {"pool": "a"}}},
    });
    create(&profiles, profile).await.expect("a profile");
    let quotas: Api<ElasticQuota> = Api::namespaced(cluster.client.clone(), "kube-system");
    let cpu = async |want: &str| {
        until("the quota follows", async || {
            let quota = quotas.get_opt("root-a").await.ok().flatten()?;
            (quota.spec.min.get("cpu")?.to_string() == want).then_some(quota)
        })
        .await
    };
    let quota = cpu("4").await;
    assert_eq!(quota.labels()[&format!("{PREFIX}/tree-id")], "13778220790914240367");
    let profile = profiles.get("pool-a").await.expect("the profile");
    assert_eq!(profile.labels()[&format!("{PREFIX}/tree-id")], "13778220790914240367");
    create(&nodes, node("n2", "8")).await.expect("another node");
    // Nodes are summed at the next change of a profile, or every ten seconds.
    let patch = json!({"metadata": {"annotations": {"look": "again"}}});
    profiles
        .patch("pool-a", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .expect("touched");
    cpu("12").await;
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_profile_comes_late_to_waiting_pods() {
    let cluster = Cluster::start().await;
    let gates = [ManagerGate::ColocationProfileController];
    let pods: Api<Pod> = cluster.api();
    create(&pods, pod("early", json!({"app": "web"}), "", json!({}))).await.expect("a pod");
    let mut options = with_gates(options(), &gates);
    options.colocation_profile.interval = std::time::Duration::from_millis(50);
    options.colocation_profile.again_after = std::time::Duration::from_millis(100);
    let manager = ready(cluster.client.clone(), options).await;
    cluster
        .apply(json!({
            "apiVersion": "config.koordinator.sh/v1alpha1", "kind": "ClusterColocationProfile",
            "metadata": {"name": "late", "labels": {"config.koordinator.sh/controller-managed": "true"}},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "qosClass": "BE",
                "annotations": {"note": "late"}, "labels": {"tier": "x"}, "labelSuffixes": {"tier": "-y"}},
        }))
        .await;
    let pod = until("the profile arrives", async || {
        let pod = pods.get("early").await.ok()?;
        (pod.annotations().get("note").map(String::as_str) == Some("late")).then_some(pod)
    })
    .await;
    assert_eq!(pod.labels()["tier"], "x-y");
    assert!(!pod.labels().contains_key("koordinator.sh/qosClass"), "classes of live pods stay");
    // Several rounds later the suffix is still there once.
    let version = pod.resource_version();
    tokio::time::sleep(std::time::Duration::from_millis(400)).await;
    let later = pods.get("early").await.expect("the pod");
    assert_eq!(later.labels()["tier"], "x-y");
    assert_eq!(later.resource_version(), version);
    manager.stop().await;
}
