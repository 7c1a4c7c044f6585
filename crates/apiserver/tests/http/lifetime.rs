//! What happens with time, and across a restart.

use std::sync::{Arc, Mutex};

use apiserver::http::{ApiServer, Clock, Ids, Options};
use apiserver::store::{Limits, Store};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::custom::definition;
use crate::rig::{rig, rig_over, rig_with};

/// A clock that stands still until told.
#[derive(Debug)]
struct Stopped(Mutex<Timestamp>);

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

/// Ids that can be foretold.
#[derive(Debug)]
struct Counted(Mutex<u32>);

impl Counted {
    fn next(&self) -> u32 {
        let mut count = self.0.lock().unwrap();
        *count += 1;
        *count
    }
}

impl Ids for Counted {
    fn uid(&self) -> String {
        format!("uid-{}", self.next())
    }

    fn suffix(&self) -> String {
        format!("{:05}", self.next())
    }

    fn secret(&self) -> String {
        format!("secret-{}", self.next())
    }
}

#[tokio::test]
async fn events_are_forgotten_after_an_hour() {
    let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let clock = Arc::new(Stopped(Mutex::new(start)));
    let options = Options { clock: clock.clone(), ..Options::default() };
    let rig = rig_with(options, Limits::default()).await;
    let event = |name: &str, last: &str| {
        json!({
            "metadata": {"name": name}, "involvedObject": {"kind": "Pod", "namespace": "default"},
            "reason": "R", "lastTimestamp": last,
        })
    };
    let path = "/api/v1/namespaces/default/events";
    for (name, last) in [("old", "2026-01-01T00:00:00Z"), ("seen", "2026-01-01T00:40:00Z")] {
        assert_eq!(rig.post(path, &event(name, last)).await.code.as_u16(), 201);
    }
    assert_eq!(rig.server.expire_events().await, 0);
    *clock.0.lock().unwrap() = start + SignedDuration::from_mins(61);
    assert_eq!(rig.server.expire_events().await, 1);
    let left = rig.get(path).await.json();
    assert_eq!(left["items"][0]["metadata"]["name"], "seen");
}

#[tokio::test]
async fn time_and_ids_can_be_held_still() {
    let options = || Options {
        clock: Arc::new(Stopped(Mutex::new("2026-01-01T00:00:00Z".parse().unwrap()))),
        ids: Arc::new(Counted(Mutex::new(0))),
        ..Options::default()
    };
    let mut answers = Vec::new();
    for _ in 0..2 {
        let rig = rig_with(options(), Limits::default()).await;
        let map = json!({"metadata": {"generateName": "m-"}});
        answers.push(rig.post("/api/v1/namespaces/default/configmaps", &map).await.text);
    }
    assert_eq!(answers[0], answers[1]);
    assert!(answers[0].contains("2026-01-01T00:00:00Z"), "{}", answers[0]);
}

const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";

#[tokio::test]
async fn a_new_storage_version_leaves_old_objects_readable() {
    let rig = rig().await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let mut defined = rig.post(definitions, &definition()).await.json();
    let widget = |name: &str, version: &str| {
        json!({
            "apiVersion": format!("example.com/{version}"), "kind": "Widget",
            "metadata": {"name": name}, "spec": {"size": 1},
        })
    };
    rig.post(WIDGETS, &widget("early", "v1")).await;
    defined["spec"]["versions"][0]["storage"] = json!(false);
    defined["spec"]["versions"][1]["storage"] = json!(true);
    let updated = rig.put(DEFINITION, &defined).await;
    assert_eq!(updated.code.as_u16(), 200, "{}", updated.text);
    assert_eq!(updated.json()["status"]["storedVersions"], json!(["v1", "v1beta1"]));
    rig.post(WIDGETS, &widget("late", "v1")).await;
    for version in ["v1", "v1beta1"] {
        let path = format!("/apis/example.com/{version}/namespaces/default/widgets");
        let want = format!("example.com/{version}");
        for item in rig.get(&path).await.json()["items"].as_array().unwrap() {
            assert_eq!(item["apiVersion"], want.as_str(), "{item}");
        }
        for name in ["early", "late"] {
            let found = rig.get(&format!("{path}/{name}")).await.json();
            assert_eq!(found["apiVersion"], want.as_str());
        }
    }
}

#[tokio::test]
async fn definitions_survive_a_restart() {
    let store = Store::in_memory(Limits::default()).unwrap();
    let first = rig_over(ApiServer::start(store.clone(), Options::default()).await);
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    first.post(definitions, &definition()).await;
    let widget = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1},
    });
    assert_eq!(first.post(WIDGETS, &widget).await.code.as_u16(), 201);
    let before = store.revision();
    let second = rig_over(ApiServer::start(store.clone(), Options::default()).await);
    assert_eq!(store.revision(), before, "what is there is not made again");
    assert_eq!(second.get(&format!("{WIDGETS}/w")).await.code.as_u16(), 200);
}
