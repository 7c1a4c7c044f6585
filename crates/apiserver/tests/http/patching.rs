//! The four dialects of PATCH.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use crate::rig::{Rig, rig};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

pub(crate) fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [
                    {"name": "main", "image": "host"},
                    {"name": "side", "image": "host"},
                ]},
            },
        },
    })
}

async fn patch(rig: &Rig, path: &str, kind: &str, body: &Value) -> crate::rig::Answer {
    let request = axum::http::Request::patch(path).header("content-type", kind);
    rig.send(request.body(body.to_string().into()).unwrap()).await
}

#[tokio::test]
async fn each_dialect_changes_what_it_says() {
    let rig = rig().await;
    rig.post(DEPLOYMENTS, &deployment("web")).await;
    let path = format!("{DEPLOYMENTS}/web");

    let merged =
        patch(&rig, &path, "application/merge-patch+json", &json!({"spec": {"replicas": 3}})).await;
    assert_eq!(merged.json()["spec"]["replicas"], 3);
    assert_eq!(merged.json()["metadata"]["generation"], 2);

    let operations = json!([{"op": "replace", "path": "/spec/replicas", "value": 4}]);
    let patched = patch(&rig, &path, "application/json-patch+json", &operations).await;
    assert_eq!(patched.json()["spec"]["replicas"], 4);

    let containers = json!([{"name": "side", "image": "other"}]);
    let strategic = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    let kind = "application/strategic-merge-patch+json";
    let answer = patch(&rig, &path, kind, &strategic).await.json();
    let images: Vec<&str> = answer["spec"]["template"]["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|container| container["image"].as_str().unwrap())
        .collect();
    assert_eq!(images, ["host", "other"]);

    assert_eq!(patch(&rig, &path, "text/plain", &json!({})).await.failure().0, 415);
    let wrong = json!([{"op": "test", "path": "/spec/replicas", "value": 9}]);
    let answer = patch(&rig, &path, "application/json-patch+json", &wrong).await;
    assert_eq!(answer.failure().0, 422);
    let absent = format!("{DEPLOYMENTS}/none");
    let answer = patch(&rig, &absent, "application/merge-patch+json", &json!({})).await;
    assert_eq!(answer.failure().0, 404);
}

#[tokio::test]
async fn apply_creates_owns_and_conflicts() {
    let rig = rig().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(rig.client.clone());
    let map = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": value}});
    let alice = PatchParams::apply("alice");
    let created = maps.patch("m", &alice, &Patch::Apply(map("1"))).await.unwrap();
    let managers = created.metadata.managed_fields.unwrap();
    assert_eq!(managers[0].manager.as_deref(), Some("alice"));
    assert_eq!(managers[0].operation.as_deref(), Some("Apply"));

    let bob = PatchParams::apply("bob");
    let error = maps.patch("m", &bob, &Patch::Apply(map("2"))).await.unwrap_err();
    let kube::Error::Api(status) = error else { panic!("{error}") };
    assert_eq!(status.code, 409);
    assert_eq!(status.message, "Apply failed with 1 conflict: conflict with \"alice\": .data.a");
    let forced = maps.patch("m", &bob.clone().force(), &Patch::Apply(map("2"))).await.unwrap();
    assert_eq!(forced.data.unwrap()["a"], "2");

    let before = rig.server.store().revision();
    maps.patch("m", &bob, &Patch::Apply(map("2"))).await.unwrap();
    assert_eq!(rig.server.store().revision(), before, "applying again changes nothing");

    let nameless = patch(
        &rig,
        "/api/v1/namespaces/default/configmaps/m",
        "application/apply-patch+yaml",
        &map("3"),
    )
    .await;
    assert_eq!(
        nameless.failure().2,
        "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for \
         apply patch"
    );
}

#[tokio::test]
async fn yaml_can_be_applied() {
    let rig = rig().await;
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: plain\ndata:\n  a: 'yes'\n";
    let request = axum::http::Request::patch(
        "/api/v1/namespaces/default/configmaps/plain?fieldManager=me&force=true",
    )
    .header("content-type", "application/apply-patch+yaml")
    .header("accept", "application/yaml");
    let answer = rig.send(request.body(yaml.into()).unwrap()).await;
    assert_eq!(answer.code.as_u16(), 201, "{}", answer.text);
    assert!(answer.text.contains("name: plain\n"), "{}", answer.text);
}

#[tokio::test]
async fn concurrent_patches_all_arrive() {
    let rig = rig().await;
    rig.post("/api/v1/namespaces/default/configmaps", &json!({"metadata": {"name": "m"}})).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(rig.client.clone());
    let writers = (0..8).map(|at| {
        let maps = maps.clone();
        async move {
            let body = json!({"data": {format!("k{at}"): "v"}});
            maps.patch("m", &PatchParams::default(), &Patch::Merge(body)).await
        }
    });
    for result in futures_util::future::join_all(writers).await {
        result.unwrap();
    }
    assert_eq!(maps.get("m").await.unwrap().data.unwrap().len(), 8);
}

#[tokio::test]
async fn updates_are_attributed_to_the_client() {
    let rig = rig().await;
    let request = axum::http::Request::post(DEPLOYMENTS)
        .header("content-type", "application/json")
        .header("user-agent", "kubectl/v1.35.0 (linux/amd64)");
    let created = rig.send(request.body(deployment("web").to_string().into()).unwrap()).await;
    let entry = &created.json()["metadata"]["managedFields"][0];
    assert_eq!((&entry["manager"], &entry["operation"]), (&json!("kubectl"), &json!("Update")));
    let deployments: Api<Deployment> = Api::default_namespaced(rig.client.clone());
    let scale = json!({"spec": {"replicas": 5}});
    let params = PatchParams { field_manager: Some("hpa".into()), ..PatchParams::default() };
    deployments.patch_scale("web", &params, &Patch::Merge(scale)).await.unwrap();
    let managers = deployments.get("web").await.unwrap().metadata.managed_fields.unwrap();
    let hpa = managers.iter().find(|entry| entry.manager.as_deref() == Some("hpa")).unwrap();
    assert_eq!(hpa.subresource.as_deref(), Some("scale"));
}

#[tokio::test]
async fn unknown_fields_are_reported_as_asked() {
    let rig = rig().await;
    let mut odd = deployment("web");
    odd["spec"]["replicaz"] = json!(1);
    let strict = rig.post(&format!("{DEPLOYMENTS}?fieldValidation=Strict"), &odd).await;
    assert_eq!(
        strict.failure().2,
        "Deployment in version \"v1\" cannot be handled as a Deployment: strict decoding error: \
         unknown field \"spec.replicaz\""
    );
    let warned = rig.post(DEPLOYMENTS, &odd).await;
    assert_eq!(warned.code.as_u16(), 201);
    assert_eq!(warned.headers["warning"], "299 - \"unknown field \\\"spec.replicaz\\\"\"");
    odd["metadata"]["name"] = json!("quiet");
    let ignored = rig.post(&format!("{DEPLOYMENTS}?fieldValidation=Ignore"), &odd).await;
    assert!(!ignored.headers.contains_key("warning"));
}
