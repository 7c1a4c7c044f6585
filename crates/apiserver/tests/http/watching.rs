//! Watches, as clients see them.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::json;

use crate::crud::config_map;
use crate::rig::{Rig, rig};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn describe(event: &WatchEvent<ConfigMap>) -> String {
    let name = |map: &ConfigMap| map.metadata.name.clone().unwrap_or_default();
    match event {
        WatchEvent::Added(map) => format!("added {}", name(map)),
        WatchEvent::Modified(map) => format!("modified {}", name(map)),
        WatchEvent::Deleted(map) => format!("deleted {}", name(map)),
        WatchEvent::Bookmark(_) => "bookmark".to_owned(),
        WatchEvent::Error(status) => format!("error {} {}", status.code, status.reason),
    }
}

async fn collect(rig: &Rig, params: &WatchParams, from: &str, count: usize) -> Vec<String> {
    let maps: Api<ConfigMap> = Api::default_namespaced(rig.client.clone());
    let events = maps.watch(params, from).await.unwrap();
    let events: Vec<_> =
        tokio::time::timeout(Duration::from_secs(10), events.take(count).try_collect::<Vec<_>>())
            .await
            .expect("events arrive")
            .unwrap();
    events.iter().map(describe).collect()
}

async fn label(rig: &Rig, name: &str, value: &str) {
    let map = json!({"metadata": {"name": name, "labels": {"team": value}}});
    let path = format!("{MAPS}/{name}");
    let answer = match rig.get(&path).await.code.as_u16() {
        404 => rig.post(MAPS, &map).await,
        _ => rig.put(&path, &map).await,
    };
    assert!(answer.code.is_success(), "{}", answer.text);
}

#[tokio::test]
async fn a_watch_resumes_where_a_list_ended() {
    let rig = rig().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(rig.client.clone());
    maps.create(&PostParams::default(), &config_map("before")).await.unwrap();
    let list = maps.list(&ListParams::default()).await.unwrap();
    let from = list.metadata.resource_version.unwrap();
    maps.create(&PostParams::default(), &config_map("one")).await.unwrap();
    let mut one = maps.get("one").await.unwrap();
    one.data.get_or_insert_default().insert("b".into(), "2".into());
    maps.replace("one", &PostParams::default(), &one).await.unwrap();
    maps.delete("one", &DeleteParams::default()).await.unwrap();
    let events = collect(&rig, &WatchParams::default(), &from, 3).await;
    assert_eq!(events, ["added one", "modified one", "deleted one"]);
    let all = collect(&rig, &WatchParams::default(), "0", 1).await;
    assert_eq!(all, ["added before"]);
}

#[tokio::test]
async fn selectors_turn_changes_into_arrivals_and_departures() {
    let rig = rig().await;
    let from = rig.server.store().revision().to_string();
    label(&rig, "one", "red").await;
    label(&rig, "one", "blue").await;
    label(&rig, "two", "blue").await;
    label(&rig, "one", "red").await;
    rig.delete(&format!("{MAPS}/one")).await;
    label(&rig, "end", "red").await;
    let params = WatchParams::default().labels("team=red");
    let events = collect(&rig, &params, &from, 5).await;
    assert_eq!(events, ["added one", "deleted one", "added one", "deleted one", "added end"]);
}

#[tokio::test]
async fn streaming_lists_end_with_a_bookmark() {
    let rig = rig().await;
    label(&rig, "one", "red").await;
    label(&rig, "two", "red").await;
    let params = WatchParams::default().initial_events();
    let events = collect(&rig, &params, "0", 3).await;
    assert_eq!(events, ["added one", "added two", "bookmark"]);
    let raw = rig
        .get(&format!(
            "{MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
             &allowWatchBookmarks=true&timeoutSeconds=1"
        ))
        .await;
    let bookmark: serde_json::Value =
        serde_json::from_str(raw.text.lines().nth(2).unwrap()).unwrap();
    assert_eq!(bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
}

#[tokio::test]
async fn forgotten_history_is_gone() {
    let limits = apiserver::store::Limits { history_events: 4, ..Default::default() };
    let rig = crate::rig::rig_with(Default::default(), limits).await;
    let from = rig.server.store().revision().to_string();
    for at in 0..10 {
        label(&rig, &format!("map-{at}"), "red").await;
    }
    let events = collect(&rig, &WatchParams::default(), &from, 1).await;
    assert_eq!(events, ["error 410 Expired"]);
    let old = rig.get(&format!("{MAPS}?resourceVersion={from}&resourceVersionMatch=Exact")).await;
    assert_eq!(old.failure().0, 410);
}

#[tokio::test]
async fn kube_watchers_follow_along() {
    let rig = rig().await;
    label(&rig, "one", "red").await;
    let maps: Api<ConfigMap> = Api::default_namespaced(rig.client.clone());
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let mut stream = watcher(maps.clone(), config).applied_objects().boxed();
        let first = stream.next().await.unwrap().unwrap();
        assert_eq!(first.metadata.name.as_deref(), Some("one"));
        label(&rig, "one", "blue").await;
        let second = stream.next().await.unwrap().unwrap();
        assert_eq!(second.metadata.labels.unwrap()["team"], "blue");
        label(&rig, "one", "red").await;
    }
}
