//! Does a body of the wrong shape ever do more than be refused?
//!
//! Everything that is served, with every verb that takes a body, gets bodies in which one part is of
//! another type than it should be. The server may refuse them or take them; it may not fail.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

use crate::rig::{Rig, rig};

/// Where something else is put than belongs there.
const PARTS: &[&str] = &[
    "",
    "/metadata",
    "/metadata/labels",
    "/metadata/annotations",
    "/metadata/ownerReferences",
    "/metadata/finalizers",
    "/metadata/managedFields",
    "/metadata/generation",
    "/spec",
    "/spec/template",
    "/spec/selector",
    "/spec/containers",
    "/spec/finalizers",
    "/spec/replicas",
    "/spec/expirationSeconds",
    "/status",
    "/status/conditions",
    "/target",
    "/target/name",
    "/data",
    "/webhooks",
    "/rules",
    "/subsets",
    "/deleteOptions",
];

fn other_types() -> [Value; 5] {
    [Value::Null, json!("x"), json!(-1), json!(["x"]), json!({"x": {"x": "x"}})]
}

/// A resource that is served, or a part of one.
struct Endpoint {
    path: String,
    group_version: String,
    kind: String,
}

/// Everything that discovery names, with an object's name in it.
async fn endpoints(rig: &Rig) -> Vec<Endpoint> {
    let mut versions = vec![("/api/v1".to_owned(), "v1".to_owned())];
    let groups = rig.get("/apis").await.json();
    for version in groups["groups"].as_array().unwrap().iter().flat_map(|group| {
        group["versions"].as_array().unwrap().iter().map(|version| version["groupVersion"].clone())
    }) {
        let version = version.as_str().unwrap();
        versions.push((format!("/apis/{version}"), version.to_owned()));
    }
    let mut all = Vec::new();
    for (root, version) in versions {
        for resource in rig.get(&root).await.json()["resources"].as_array().unwrap() {
            let is_namespaced = resource["namespaced"] == true;
            let space = if is_namespaced { "/namespaces/default" } else { "" };
            let name = resource["name"].as_str().unwrap();
            let path = match name.split_once('/') {
                Some((main, part)) => format!("{root}{space}/{main}/a/{part}"),
                None => format!("{root}{space}/{name}"),
            };
            let group = resource["group"].as_str().unwrap_or_default();
            let own = resource["version"].as_str().map(|version| match group {
                "" => version.to_owned(),
                group => format!("{group}/{version}"),
            });
            let kind = resource["kind"].as_str().unwrap().to_owned();
            all.push(Endpoint { path, group_version: own.unwrap_or(version.clone()), kind });
        }
    }
    assert!(all.len() > 60, "{} endpoints", all.len());
    all
}

/// An object of this kind in which one part is something else.
fn body(endpoint: &Endpoint, part: &str, other: &Value) -> Value {
    let mut object = json!({
        "apiVersion": endpoint.group_version,
        "kind": endpoint.kind,
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let Some((parent, field)) = part.rsplit_once('/') else { return other.clone() };
    if !parent.is_empty() && object.pointer(parent).is_none() {
        object[parent.trim_start_matches('/')] = json!({});
    }
    let parent = object.pointer_mut(parent).and_then(Value::as_object_mut).unwrap();
    parent.insert(field.to_owned(), other.clone());
    object
}

#[tokio::test]
async fn no_body_of_the_wrong_shape_is_more_than_refused() {
    let rig = rig().await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}});
    for (path, object) in [("pods", pod), ("serviceaccounts", account)] {
        let path = format!("/api/v1/namespaces/default/{path}");
        assert_eq!(send(&rig, "POST", &path, &object).await.0, 201);
    }
    let (mut sent, mut failures) = (0, Vec::new());
    for endpoint in endpoints(&rig).await {
        for part in PARTS {
            for other in other_types() {
                let body = body(&endpoint, part, &other);
                let named = match endpoint.path.split('/').any(|step| step == "a") {
                    true => endpoint.path.clone(),
                    false => format!("{}/a", endpoint.path),
                };
                for (method, path) in [("POST", &endpoint.path), ("PUT", &named), ("PATCH", &named)]
                {
                    let (code, text) = send(&rig, method, path, &body).await;
                    // Kubernetes refuses bindings with this code; nothing streams into containers.
                    let is_binding = path.contains("binding") && text.contains("Required value");
                    if code >= 500 && code != 501 && !is_binding {
                        failures.push(format!("{method} {path} {body}: {code} {text}"));
                    }
                    sent += 1;
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} fail: {:#?}", failures.len(), failures.get(..5));
    assert!(sent > 20_000, "{sent} requests");
}

async fn send(rig: &Rig, method: &str, path: &str, body: &Value) -> (u16, String) {
    let kind = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind)
        .body(Body::from(body.to_string()))
        .unwrap();
    let answer = rig.send(request).await;
    (answer.code.as_u16(), answer.text)
}
