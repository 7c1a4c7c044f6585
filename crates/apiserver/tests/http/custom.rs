//! Kinds that come and go with their definitions.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::rig::{Rig, rig};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

pub(crate) fn definition() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 1},
            "color": {"type": "string", "default": "red"},
            "replicas": {"type": "integer"},
        }},
        "status": {"type": "object", "properties": {
            "ready": {"type": "integer"}, "phase": {"type": "string"}, "selector": {"type": "string"},
        }},
    }}});
    let columns = json!([
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "shortNames": ["wd"]},
            "versions": [
                {
                    "name": "v1", "served": true, "storage": true, "schema": schema,
                    "subresources": {"status": {}, "scale": {
                        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.ready",
                        "labelSelectorPath": ".status.selector",
                    }},
                    "additionalPrinterColumns": columns,
                    "selectableFields": [{"jsonPath": ".spec.color"}],
                },
                {
                    "name": "v1beta1", "served": true, "storage": false, "schema": schema,
                    "deprecated": true, "subresources": {"status": {}},
                },
            ],
        },
    })
}

async fn define(rig: &Rig) -> Value {
    let answer = rig.post(DEFINITIONS, &definition()).await;
    assert_eq!(answer.code, StatusCode::CREATED, "{}", answer.text);
    answer.json()
}

fn widget(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": 2}})
}

#[tokio::test]
async fn a_definition_is_served_at_once() {
    let rig = rig().await;
    let created = define(&rig).await;
    let conditions = created["status"]["conditions"].as_array().unwrap();
    let is_true =
        |kind: &str| conditions.iter().any(|c| c["type"] == kind && c["status"] == "True");
    assert!(is_true("NamesAccepted") && is_true("Established"));
    assert_eq!(created["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(created["status"]["acceptedNames"]["listKind"], "WidgetList");

    let groups = rig.get("/apis/example.com").await.json();
    assert_eq!(groups["preferredVersion"]["version"], "v1");
    let resources = rig.get("/apis/example.com/v1").await.json();
    assert_eq!(resources["resources"][0]["shortNames"], json!(["wd"]));

    let created = rig.post(WIDGETS, &widget("one")).await;
    assert_eq!(created.code, StatusCode::CREATED, "{}", created.text);
    assert_eq!(created.json()["spec"]["color"], "red", "defaults apply");
    let mut wrong = widget("two");
    wrong["spec"] = json!({"size": 0});
    let refused = rig.post(WIDGETS, &wrong).await;
    assert_eq!(refused.failure().0, 422);
    assert_eq!(refused.json()["details"]["causes"][0]["field"], "spec.size");
}

#[tokio::test]
async fn versions_share_their_objects() {
    let rig = rig().await;
    define(&rig).await;
    rig.post(WIDGETS, &widget("one")).await;
    let old = rig.get("/apis/example.com/v1beta1/namespaces/default/widgets/one").await;
    assert_eq!(old.json()["apiVersion"], "example.com/v1beta1");
    assert_eq!(
        old.headers["warning"],
        "299 - \"example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget\""
    );
    let list = rig.get("/apis/example.com/v1beta1/widgets").await.json();
    assert_eq!(list["items"][0]["apiVersion"], "example.com/v1beta1");
}

#[tokio::test]
async fn custom_status_scale_and_columns_work() {
    let rig = rig().await;
    define(&rig).await;
    let mut one = rig.post(WIDGETS, &widget("one")).await.json();
    one["status"] = json!({"phase": "Busy", "ready": 1});
    one["spec"]["size"] = json!(9);
    let updated = rig.put(&format!("{WIDGETS}/one/status"), &one).await.json();
    assert_eq!(updated["status"]["phase"], "Busy");
    assert_eq!(
        (&updated["spec"]["size"], &updated["metadata"]["generation"]),
        (&json!(2), &json!(1))
    );

    let scale = format!("{WIDGETS}/one/scale");
    let mut found = rig.get(&scale).await.json();
    assert_eq!(found["status"]["replicas"], 1);
    found["spec"]["replicas"] = json!(4);
    rig.put(&scale, &found).await;
    assert_eq!(rig.get(&format!("{WIDGETS}/one")).await.json()["spec"]["replicas"], 4);

    let table = rig.get_as(WIDGETS, "application/json;as=Table;v=v1;g=meta.k8s.io").await.json();
    let names: Vec<&str> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| column["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["Name", "Size", "Phase", "Age"]);
    assert_eq!(table["rows"][0]["cells"][1], 2);
    assert_eq!(table["rows"][0]["cells"][2], "Busy");
    let red = rig.get(&format!("{WIDGETS}?fieldSelector=spec.color%3Dred")).await.json();
    assert_eq!(red["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn an_update_needs_a_version() {
    let rig = rig().await;
    define(&rig).await;
    rig.post(WIDGETS, &widget("one")).await;
    let refused = rig.put(&format!("{WIDGETS}/one"), &widget("one")).await;
    assert_eq!(
        refused.failure().2,
        "widgets.example.com \"one\" is invalid: metadata.resourceVersion: Invalid value: 0: must \
         be specified for an update"
    );
}

#[tokio::test]
async fn deleting_a_definition_takes_its_instances_along() {
    let rig = rig().await;
    define(&rig).await;
    rig.post(WIDGETS, &widget("one")).await;
    let mut held = widget("held");
    held["metadata"]["finalizers"] = json!(["example.com/wait"]);
    rig.post(WIDGETS, &held).await;
    let path = format!("{DEFINITIONS}/widgets.example.com");
    rig.delete(&path).await;
    assert_eq!(rig.get(&format!("{WIDGETS}/one")).await.code, StatusCode::NOT_FOUND);
    let dying = rig.get(&path).await.json();
    assert!(dying["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(rig.post(WIDGETS, &widget("late")).await.failure().0, 405);

    let mut last = rig.get(&format!("{WIDGETS}/held")).await.json();
    last["metadata"]["finalizers"] = json!([]);
    assert_eq!(rig.put(&format!("{WIDGETS}/held"), &last).await.code, StatusCode::OK);
    assert_eq!(rig.get(&path).await.code, StatusCode::NOT_FOUND);
    assert_eq!(rig.get(WIDGETS).await.code, StatusCode::NOT_FOUND);
    assert_eq!(rig.get("/apis/example.com").await.code, StatusCode::NOT_FOUND);
    define(&rig).await;
}

#[tokio::test]
async fn names_belong_to_one_definition() {
    let rig = rig().await;
    define(&rig).await;
    let mut other = definition();
    other["metadata"]["name"] = json!("gadgets.example.com");
    other["spec"]["names"] = json!({"kind": "Gadget", "plural": "gadgets", "shortNames": ["wd"]});
    let waiting = rig.post(DEFINITIONS, &other).await.json();
    let accepted = &waiting["status"]["conditions"][0];
    assert_eq!(
        (&accepted["status"], &accepted["reason"], &accepted["message"]),
        (&json!("False"), &json!("ShortNamesConflict"), &json!("\"wd\" is already in use"))
    );
    assert_eq!(rig.get("/apis/example.com/v1/gadgets").await.code, StatusCode::NOT_FOUND);
    rig.delete(&format!("{DEFINITIONS}/widgets.example.com")).await;
    assert_eq!(rig.get("/apis/example.com/v1/gadgets").await.code, StatusCode::OK);
}
