//! Workloads from creation to completion.

use std::collections::BTreeSet;

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet},
    batch::v1::Job,
    core::v1::{Event, PersistentVolumeClaim, Pod},
    policy::v1::PodDisruptionBudget,
};
use kube::{Api, ResourceExt, api::EvictParams};
use serde_json::{Value, json};

use crate::rig::{ENDS, Rig, add_node, rig, until, until_all, until_gone};

fn template(app: &str, image: &str, annotations: Value) -> Value {
    json!({
        "metadata": { "labels": { "app": app }, "annotations": annotations },
        "spec": { "containers": [{ "name": "main", "image": image }] },
    })
}

fn deployment(name: &str, replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": name },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": name } },
            "template": template(name, "v1", json!({})),
        },
    })
}

/// Has the rollout of this generation ended well?
fn is_rolled_out(deployment: &Deployment) -> bool {
    let Some(status) = &deployment.status else { return false };
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas);
    let progressing = status.conditions.iter().flatten().find(|one| one.type_ == "Progressing");
    status.observed_generation == deployment.metadata.generation
        && status.updated_replicas == wanted
        && status.available_replicas == wanted
        && status.replicas == wanted
        && progressing.and_then(|one| one.reason.as_deref()) == Some("NewReplicaSetAvailable")
}

/// Waits until an event with this reason is told about an object with this name.
async fn until_told(rig: &Rig, name: &str, reason: &str) {
    let events: Api<Event> = rig.api();
    let is_told = |events: &[Event]| {
        events.iter().any(|event| {
            let about = event.involved_object.name.as_deref();
            (about, event.reason.as_deref()) == (Some(name), Some(reason))
        })
    };
    until_all(&events, reason, is_told).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_rolls_out_and_back() {
    let rig = rig().await;
    let deployments: Api<Deployment> = rig.api();
    rig.create(&deployments, deployment("web", 3)).await;
    let first = until(&deployments, "web", "rolled out", is_rolled_out).await;
    assert_eq!(first.annotations()["deployment.kubernetes.io/revision"], "1");
    assert_eq!(first.metadata.generation, Some(1), "only users change the specification");
    until_told(&rig, "web", "ScalingReplicaSet").await;

    let image = |image: &str| {
        json!({ "spec": { "template": { "spec": {
            "containers": [{ "name": "main", "image": image }],
        } } } })
    };
    rig.patch(&deployments, "web", image("v2")).await;
    let is_second = |one: &Deployment| {
        is_rolled_out(one) && one.annotations()["deployment.kubernetes.io/revision"] == "2"
    };
    until(&deployments, "web", "rolled out again", is_second).await;
    let pods: Api<Pod> = rig.api();
    let is_new = |pods: &[Pod]| {
        let image = |pod: &Pod| pod.spec.as_ref().unwrap().containers[0].image.clone();
        pods.len() == 3 && pods.iter().all(|pod| image(pod).as_deref() == Some("v2"))
    };
    until_all(&pods, "only new pods", is_new).await;

    rig.patch(&deployments, "web", image("v1")).await;
    let is_third = |one: &Deployment| {
        is_rolled_out(one) && one.annotations()["deployment.kubernetes.io/revision"] == "3"
    };
    until(&deployments, "web", "rolled back", is_third).await;
    let sets: Api<ReplicaSet> = rig.api();
    let mut sizes: Vec<_> = until_all(&sets, "two sets", |sets| sets.len() == 2)
        .await
        .iter()
        .map(|set| set.spec.as_ref().and_then(|spec| spec.replicas))
        .collect();
    sizes.sort();
    assert_eq!(sizes, [Some(0), Some(3)], "the first one is used again");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_deployment_has_exactly_its_pods() {
    let rig = rig().await;
    let deployments: Api<Deployment> = rig.api();
    rig.create(&deployments, deployment("web", 120)).await;
    until(&deployments, "web", "rolled out", is_rolled_out).await;
    rig.patch(&deployments, "web", json!({ "spec": { "replicas": 7 } })).await;
    until(&deployments, "web", "small", is_rolled_out).await;
    let pods: Api<Pod> = rig.api();
    until_all(&pods, "seven pods", |pods| pods.len() == 7).await;
    let events: Api<Event> = rig.api();
    let created = events.list(&Default::default()).await.unwrap();
    let created =
        created.iter().filter(|event| event.reason.as_deref() == Some("SuccessfulCreate"));
    assert!(created.count() <= 25, "one object does not flood");
    rig.stop().await;
}

/// The old and the new ones even run side by side for a moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_controllers_go_on_where_the_last_ones_stopped() {
    let mut rig = rig().await;
    let deployments: Api<Deployment> = rig.api();
    rig.create(&deployments, deployment("web", 40)).await;
    let jobs: Api<Job> = rig.api();
    let job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": { "name": "work" },
        "spec": {
            "completions": 30,
            "parallelism": 4,
            "template": {
                "metadata": { "annotations": { ENDS: "Succeeded" } },
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{ "name": "main", "image": "v1" }],
                },
            },
        },
    });
    rig.create(&jobs, job).await;
    let pods: Api<Pod> = rig.api();
    for wanted in [5, 15, 30] {
        until_all(&pods, "some pods", |pods| pods.len() >= wanted).await;
        rig.restart_controllers().await;
    }
    until(&deployments, "web", "rolled out", is_rolled_out).await;
    let done = until(&jobs, "work", "complete", |job| {
        job.status.as_ref().is_some_and(|status| status.completion_time.is_some())
    })
    .await;
    assert_eq!(done.status.unwrap().succeeded, Some(30));
    let is_exact = |pods: &[Pod]| {
        pods.iter().filter(|pod| pod.labels().get("app").is_some_and(|app| app == "web")).count()
            == 40
    };
    until_all(&pods, "forty pods", is_exact).await;
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_runs_to_completion() {
    let rig = rig().await;
    let jobs: Api<Job> = rig.api();
    let job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": { "name": "work" },
        "spec": {
            "completions": 5,
            "parallelism": 2,
            "completionMode": "Indexed",
            "template": {
                "metadata": { "annotations": { ENDS: "Succeeded" } },
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{ "name": "main", "image": "v1" }],
                },
            },
        },
    });
    rig.create(&jobs, job).await;
    let has = |job: &Job, kind: &str| {
        let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|one| one.type_ == kind && one.status == "True")
    };
    let done = until(&jobs, "work", "complete", |job| has(job, "Complete")).await;
    assert!(has(&done, "SuccessCriteriaMet"));
    let status = done.status.unwrap();
    assert_eq!(status.completed_indexes.as_deref(), Some("0-4"));
    assert_eq!((status.succeeded, status.failed, status.active), (Some(5), None, None));
    let pods: Api<Pod> = rig.api();
    let is_free = |pods: &[Pod]| pods.iter().all(|pod| pod.finalizers().is_empty());
    let pods = until_all(&pods, "free of finalizers", is_free).await;
    assert_eq!(pods.len(), 5, "each index has run once");
    until_told(&rig, "work", "Completed").await;
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_fails_says_so_and_goes_when_its_time_has_come() {
    let rig = rig().await;
    let jobs: Api<Job> = rig.api();
    let job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": { "name": "work" },
        "spec": {
            "backoffLimit": 0,
            "template": {
                "metadata": { "annotations": { ENDS: "Failed" } },
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{ "name": "main", "image": "v1" }],
                },
            },
        },
    });
    rig.create(&jobs, job).await;
    let failed = until(&jobs, "work", "failed", |job| {
        let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|one| one.type_ == "Failed")
    })
    .await;
    assert_eq!(failed.status.unwrap().failed, Some(1));
    rig.patch(&jobs, "work", json!({ "spec": { "ttlSecondsAfterFinished": 0 } })).await;
    until_gone(&jobs, "work").await;
    let pods: Api<Pod> = rig.api();
    until_all(&pods, "gone with their job", |pods| pods.is_empty()).await;
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stateful_set_has_numbers_claims_and_revisions() {
    let rig = rig().await;
    let sets: Api<StatefulSet> = rig.api();
    let set = json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": { "name": "db" },
        "spec": {
            "replicas": 2,
            "serviceName": "db",
            "selector": { "matchLabels": { "app": "db" } },
            "template": template("db", "v1", json!({})),
            "volumeClaimTemplates": [{
                "metadata": { "name": "data" },
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": { "requests": { "storage": "1Gi" } },
                },
            }],
        },
    });
    rig.create(&sets, set).await;
    let is_ready = |set: &StatefulSet| {
        let status = set.status.clone().unwrap_or_default();
        status.ready_replicas == Some(2) && status.updated_replicas == Some(2)
    };
    let first = until(&sets, "db", "ready", is_ready).await.status.unwrap();
    assert_eq!(first.current_revision, first.update_revision);
    let pods: Api<Pod> = rig.api();
    let names: Vec<_> =
        pods.list(&Default::default()).await.unwrap().iter().map(|p| p.name_any()).collect();
    assert_eq!(names, ["db-0", "db-1"]);
    let claims: Api<PersistentVolumeClaim> = rig.api();
    let names: Vec<_> =
        claims.list(&Default::default()).await.unwrap().iter().map(|c| c.name_any()).collect();
    assert_eq!(names, ["data-db-0", "data-db-1"]);

    let image = json!({ "spec": { "template": { "spec": {
        "containers": [{ "name": "main", "image": "v2" }],
    } } } });
    rig.patch(&sets, "db", image).await;
    let is_updated = |set: &StatefulSet| {
        let status = set.status.clone().unwrap_or_default();
        is_ready(set)
            && status.update_revision != first.update_revision
            && status.current_revision == status.update_revision
    };
    until(&sets, "db", "updated", is_updated).await;
    let revisions: Api<ControllerRevision> = rig.api();
    assert_eq!(revisions.list(&Default::default()).await.unwrap().items.len(), 2);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_set_follows_the_nodes() {
    let rig = rig().await;
    let sets: Api<DaemonSet> = rig.api();
    let set = json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": { "name": "agent" },
        "spec": {
            "selector": { "matchLabels": { "app": "agent" } },
            "template": template("agent", "v1", json!({})),
        },
    });
    rig.create(&sets, set).await;
    let ready = |wanted: i32| {
        move |set: &DaemonSet| {
            set.status.as_ref().is_some_and(|status| {
                status.number_ready == wanted && status.desired_number_scheduled == wanted
            })
        }
    };
    until(&sets, "agent", "on one node", ready(1)).await;
    add_node(&rig.client, "n2").await;
    until(&sets, "agent", "on both nodes", ready(2)).await;
    let pods: Api<Pod> = rig.api();
    let nodes: BTreeSet<_> = pods
        .list(&Default::default())
        .await
        .unwrap()
        .iter()
        .filter_map(|pod| pod.spec.as_ref()?.node_name.clone())
        .collect();
    assert_eq!(nodes, BTreeSet::from(["n1".to_owned(), "n2".to_owned()]));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_budget_lets_one_pod_go_at_a_time() {
    let rig = rig().await;
    let deployments: Api<Deployment> = rig.api();
    rig.create(&deployments, deployment("web", 3)).await;
    until(&deployments, "web", "rolled out", is_rolled_out).await;
    let budgets: Api<PodDisruptionBudget> = rig.api();
    let budget = json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": { "name": "web" },
        "spec": { "maxUnavailable": 1, "selector": { "matchLabels": { "app": "web" } } },
    });
    rig.create(&budgets, budget).await;
    let allows = |wanted: i32| {
        move |budget: &PodDisruptionBudget| {
            budget.status.as_ref().is_some_and(|status| {
                status.disruptions_allowed == wanted
                    && (status.desired_healthy, status.expected_pods) == (2, 3)
            })
        }
    };
    until(&budgets, "web", "generous", allows(1)).await;
    let pods: Api<Pod> = rig.api();
    let victim = pods.list(&Default::default()).await.unwrap().items.remove(0).name_any();
    pods.evict(&victim, &EvictParams::default()).await.expect("one may go");
    until_gone(&pods, &victim).await;
    until(&budgets, "web", "generous again", allows(1)).await;
    rig.stop().await;
}
