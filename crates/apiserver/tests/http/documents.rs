//! Discovery, OpenAPI, health and metrics: what clients read before they do anything.

use std::fmt::Write;

use axum::body::Body;
use axum::http::Request;
use serde_json::Value;

use crate::rig::{Rig, rig};

fn words(value: &Value) -> String {
    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
}

async fn lines(rig: &Rig, path: &str, text: &mut String) {
    let list = rig.get(path).await.json();
    writeln!(text, "{}", list["groupVersion"].as_str().unwrap()).unwrap();
    for resource in list["resources"].as_array().unwrap() {
        let scope = if resource["namespaced"] == true { "namespaced" } else { "cluster" };
        let mut kind = resource["kind"].as_str().unwrap().to_owned();
        if let (Some(group), Some(version)) =
            (resource["group"].as_str(), resource["version"].as_str())
        {
            kind = format!("{group}/{version}.{kind}");
        }
        let name = resource["name"].as_str().unwrap();
        let verbs = words(&resource["verbs"]);
        let verbs = match verbs.as_str() {
            "create,delete,deletecollection,get,list,patch,update,watch" => "all",
            other => other,
        };
        let short = words(&resource["shortNames"]);
        let categories = words(&resource["categories"]);
        writeln!(text, "  {name} {kind} {scope} {verbs} [{short}] [{categories}]").unwrap();
    }
}

#[tokio::test]
async fn the_kinds_served_are_those_listed() {
    let rig = rig().await;
    let mut text = String::new();
    lines(&rig, "/api/v1", &mut text).await;
    let groups = rig.get("/apis").await.json();
    for group in groups["groups"].as_array().unwrap() {
        let version = group["preferredVersion"]["groupVersion"].as_str().unwrap();
        lines(&rig, &format!("/apis/{version}"), &mut text).await;
    }
    insta::assert_snapshot!(text);
}

#[tokio::test]
async fn aggregated_discovery_is_cached_by_its_tag() {
    let rig = rig().await;
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let first = rig.get_as("/apis", accept).await;
    assert_eq!(first.headers["content-type"], accept);
    assert_eq!(first.json()["items"][0]["metadata"]["name"], "apps");
    let again = |tag: &str| {
        let request = Request::get("/apis").header("accept", accept).header("if-none-match", tag);
        request.body(Body::empty()).unwrap()
    };
    let tag = first.headers["etag"].to_str().unwrap().to_owned();
    assert_eq!(rig.send(again(&tag)).await.code.as_u16(), 304);
    assert_eq!(rig.send(again("\"other\"")).await.code.as_u16(), 200);
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    rig.post(definitions, &crate::custom::definition()).await;
    assert_eq!(rig.send(again(&tag)).await.code.as_u16(), 200, "a new kind, a new tag");
}

#[tokio::test]
async fn documents_are_found_by_their_hash() {
    let rig = rig().await;
    let index = rig.get("/openapi/v3").await.json();
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    let document = rig.get(&url).await;
    assert_eq!(document.headers["cache-control"], "public, immutable");
    assert!(document.json()["components"]["schemas"].is_object());
    let stale = rig.get("/openapi/v3/apis/apps/v1?hash=OLD").await;
    assert_eq!((stale.code.as_u16(), stale.headers["location"].to_str().unwrap()), (301, &*url));
    assert_eq!(rig.get("/openapi/v3/apis/nope/v1").await.code.as_u16(), 404);
    assert_eq!(rig.get_as("/openapi/v2", "text/html").await.failure().0, 406);
    assert_eq!(rig.get("/openapi/v2").await.json()["swagger"], "2.0");
}

#[tokio::test]
async fn the_server_says_how_it_is() {
    let rig = rig().await;
    assert_eq!(rig.get("/healthz").await.text, "ok");
    let verbose = rig.get("/readyz?verbose").await.text;
    assert!(verbose.ends_with("readyz check passed\n"), "{verbose}");
    assert_eq!(rig.get("/livez/ping").await.text, "ok");
    assert_eq!(rig.get("/livez/nothing").await.code.as_u16(), 404);
    let metrics = rig.get("/metrics").await.text;
    assert!(metrics.contains("apiserver_storage_objects{group=\"\",resource=\"namespaces\"} 4\n"));
}
