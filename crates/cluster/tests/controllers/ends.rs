//! How things end: namespaces, owners and their dependents.

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet},
        core::v1::{ConfigMap, Namespace, Pod},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, PostParams},
    discovery::ApiResource,
};
use serde_json::{Value, json};

use crate::rig::{Rig, rig, until, until_all, until_gone};

fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": name },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": "main", "image": "v1" }] },
            },
        },
    })
}

async fn deployed(rig: &Rig, namespace: &str) -> Api<Deployment> {
    let deployments: Api<Deployment> = Api::namespaced(rig.client.clone(), namespace);
    rig.create(&deployments, deployment("web")).await;
    until(&deployments, "web", "available", |one| {
        one.status.as_ref().is_some_and(|status| status.available_replicas == Some(2))
    })
    .await;
    deployments
}

/// A custom kind `Widget`, served.
async fn widgets(rig: &Rig, namespace: &str) -> Api<DynamicObject> {
    let definitions: Api<CustomResourceDefinition> = Api::all(rig.client.clone());
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": { "plural": "widgets", "singular": "widget", "kind": "Widget" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object" } },
            }],
        },
    });
    rig.create(&definitions, definition).await;
    until(&definitions, "widgets.example.com", "established", |one| {
        let conditions = one.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|one| one.type_ == "Established" && one.status == "True")
    })
    .await;
    let resource = ApiResource {
        group: "example.com".into(),
        version: "v1".into(),
        api_version: "example.com/v1".into(),
        kind: "Widget".into(),
        plural: "widgets".into(),
    };
    Api::namespaced_with(rig.client.clone(), namespace, &resource)
}

fn widget(name: &str, owner: Option<Value>) -> DynamicObject {
    let widget = json!({
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": { "name": name, "ownerReferences": owner.into_iter().collect::<Vec<_>>() },
    });
    serde_json::from_value(widget).expect("a widget")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_ends_with_everything_in_it() {
    let rig = rig().await;
    let namespaces: Api<Namespace> = Api::all(rig.client.clone());
    rig.create(&namespaces, json!({ "metadata": { "name": "shop" } })).await;
    deployed(&rig, "shop").await;
    let widgets = widgets(&rig, "shop").await;
    widgets.create(&PostParams::default(), &widget("w", None)).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(rig.client.clone(), "shop");
    let held = json!({ "metadata": { "name": "held", "finalizers": ["example.com/hold"] } });
    rig.create(&maps, held).await;

    namespaces.delete("shop", &DeleteParams::default()).await.unwrap();
    let hanging = until(&namespaces, "shop", "hanging", |one| {
        let conditions = one.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let message = "Some content in the namespace has finalizers remaining: \
                       example.com/hold in 1 resource instances";
        conditions.into_iter().any(|one| one.message.as_deref() == Some(message))
    })
    .await;
    assert_eq!(hanging.status.unwrap().phase.as_deref(), Some("Terminating"));
    let pods: Api<Pod> = Api::namespaced(rig.client.clone(), "shop");
    assert_eq!(pods.list(&Default::default()).await.unwrap().items.len(), 0, "pods went first");

    rig.patch(&maps, "held", json!({ "metadata": { "finalizers": null } })).await;
    until_gone(&namespaces, "shop").await;
    assert!(widgets.get_opt("w").await.unwrap().is_none());
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreground_deletion_takes_the_children_first() {
    let rig = rig().await;
    let deployments = deployed(&rig, "default").await;
    let pods: Api<Pod> = rig.api();
    let held = pods.list(&Default::default()).await.unwrap().items.remove(0).name_any();
    rig.patch(&pods, &held, json!({ "metadata": { "finalizers": ["example.com/hold"] } })).await;

    deployments.delete("web", &DeleteParams::foreground()).await.unwrap();
    until_all(&pods, "one pod", |pods| pods.len() == 1).await;
    let waiting = deployments.get("web").await.expect("it waits for the last pod");
    assert_eq!(waiting.finalizers(), ["foregroundDeletion"]);
    let sets: Api<ReplicaSet> = rig.api();
    assert_eq!(sets.list(&Default::default()).await.unwrap().items.len(), 1);

    rig.patch(&pods, &held, json!({ "metadata": { "finalizers": null } })).await;
    until_gone(&deployments, "web").await;
    until_all(&sets, "no sets", |sets| sets.is_empty()).await;
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn background_deletion_takes_the_children_after() {
    let rig = rig().await;
    let deployments = deployed(&rig, "default").await;
    deployments.delete("web", &DeleteParams::background()).await.unwrap();
    let sets: Api<ReplicaSet> = rig.api();
    until_all(&sets, "no sets", |sets| sets.is_empty()).await;
    let pods: Api<Pod> = rig.api();
    until_all(&pods, "no pods", |pods| pods.is_empty()).await;
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orphans_stay_and_are_adopted_again() {
    let rig = rig().await;
    let deployments = deployed(&rig, "default").await;
    let sets: Api<ReplicaSet> = rig.api();
    let before = sets.list(&Default::default()).await.unwrap().items.remove(0);
    deployments.delete("web", &DeleteParams::orphan()).await.unwrap();
    until_gone(&deployments, "web").await;
    let orphan = sets.get(&before.name_any()).await.expect("it stays");
    assert_eq!(orphan.owner_references().len(), 0);
    let again = rig.create(&deployments, deployment("web")).await;
    let adopted = until(&sets, &before.name_any(), "adopted", |set| {
        set.owner_references().iter().any(|owner| Some(&owner.uid) == again.metadata.uid.as_ref())
    })
    .await;
    assert_eq!(adopted.metadata.uid, before.metadata.uid);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn custom_objects_own_and_are_owned() {
    let rig = rig().await;
    let widgets = widgets(&rig, "default").await;
    let params = PostParams::default();
    let head = widgets.create(&params, &widget("head", None)).await.unwrap();
    let reference = |kind: &str, version: &str, name: &str, uid: &str| json!({ "apiVersion": version, "kind": kind, "name": name, "uid": uid });
    let uid = head.metadata.uid.clone().unwrap();
    let child = reference("Widget", "example.com/v1", "head", &uid);
    widgets.create(&params, &widget("child", Some(child.clone()))).await.unwrap();
    let maps: Api<ConfigMap> = rig.api();
    rig.create(&maps, json!({ "metadata": { "name": "map", "ownerReferences": [child] } })).await;
    // An owner of a kind that is not there: left alone. One that never was, of a kind that is
    // there: gone. The second is looked at after the first.
    let alien = reference("Alien", "example.org/v1", "x", "no-such-id");
    widgets.create(&params, &widget("puzzle", Some(alien))).await.unwrap();
    let ghost = reference("Widget", "example.com/v1", "ghost", "no-such-id");
    widgets.create(&params, &widget("lost", Some(ghost))).await.unwrap();
    until_gone(&widgets, "lost").await;
    assert!(widgets.get_opt("child").await.unwrap().is_some());

    widgets.delete("head", &DeleteParams::background()).await.unwrap();
    until_gone(&widgets, "child").await;
    until_gone(&maps, "map").await;
    assert!(widgets.get_opt("puzzle").await.unwrap().is_some());
    rig.stop().await;
}
