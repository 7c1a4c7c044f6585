//! Create, read, update, delete and list.

use axum::http::StatusCode;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};

use crate::rig::{Rig, rig};

pub(crate) fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"a": "1"}})).unwrap()
}

pub(crate) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "host"}]},
    })
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test]
async fn an_object_lives_from_create_to_delete() {
    let rig = rig().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(rig.client.clone());
    let created = maps.create(&PostParams::default(), &config_map("one")).await.unwrap();
    let metadata = &created.metadata;
    assert!(metadata.uid.is_some() && metadata.creation_timestamp.is_some());
    assert_eq!(metadata.namespace.as_deref(), Some("default"));

    let mut next = created.clone();
    next.data.get_or_insert_default().insert("b".into(), "2".into());
    let updated = maps.replace("one", &PostParams::default(), &next).await.unwrap();
    assert_eq!(updated.metadata.uid, created.metadata.uid);
    assert_ne!(updated.metadata.resource_version, created.metadata.resource_version);

    let stale = maps.replace("one", &PostParams::default(), &next).await.unwrap_err();
    let kube::Error::Api(status) = stale else { panic!("{stale}") };
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));

    maps.delete("one", &DeleteParams::default()).await.unwrap();
    assert!(maps.get_opt("one").await.unwrap().is_none());
}

#[tokio::test]
async fn an_update_that_changes_nothing_is_not_written() {
    let rig = rig().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(rig.client.clone());
    let created = maps.create(&PostParams::default(), &config_map("one")).await.unwrap();
    let before = rig.server.store().revision();
    let same = maps.replace("one", &PostParams::default(), &created).await.unwrap();
    assert_eq!(same.metadata.resource_version, created.metadata.resource_version);
    assert_eq!(rig.server.store().revision(), before);
}

#[tokio::test]
async fn names_can_be_generated() {
    let rig = rig().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(rig.client.clone());
    let mut map = config_map("x");
    map.metadata.name = None;
    map.metadata.generate_name = Some("web-".into());
    let name = |map: ConfigMap| map.metadata.name.unwrap();
    let first = name(maps.create(&PostParams::default(), &map).await.unwrap());
    let second = name(maps.create(&PostParams::default(), &map).await.unwrap());
    assert!(first.starts_with("web-") && first.len() == 9, "{first}");
    assert_ne!(first, second);
}

#[tokio::test]
async fn refusals_are_those_of_kubernetes() {
    let rig = rig().await;
    let map = json!({"metadata": {"name": "one"}});
    assert_eq!(rig.post(MAPS, &map).await.code, StatusCode::CREATED);
    let elsewhere = json!({"metadata": {"name": "two", "namespace": "other"}});
    let cases = [
        (
            "twice",
            rig.post(MAPS, &map).await,
            (409, "AlreadyExists", "configmaps \"one\" already exists"),
        ),
        (
            "absent",
            rig.get(&format!("{MAPS}/two")).await,
            (404, "NotFound", "configmaps \"two\" not found"),
        ),
        (
            "no such namespace",
            rig.post("/api/v1/namespaces/nowhere/configmaps", &map).await,
            (404, "NotFound", "namespaces \"nowhere\" not found"),
        ),
        (
            "another namespace in the object",
            rig.post(MAPS, &elsewhere).await,
            (
                400,
                "BadRequest",
                "the namespace of the provided object does not match the namespace sent on the \
                 request",
            ),
        ),
        (
            "no name",
            rig.post(MAPS, &json!({})).await,
            (
                422,
                "Invalid",
                "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName \
                 is required",
            ),
        ),
        (
            "another kind",
            rig.post(MAPS, &json!({"apiVersion": "apps/v1", "kind": "Deployment"})).await,
            (
                400,
                "BadRequest",
                "Deployment in version \"v1\" cannot be handled as a ConfigMap: converting \
                 (v1.Deployment) to (core.ConfigMap): unknown conversion",
            ),
        ),
        (
            "create across namespaces",
            rig.post("/api/v1/configmaps", &map).await,
            (
                405,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
            ),
        ),
        (
            "another name in the object",
            rig.put(&format!("{MAPS}/one"), &json!({"metadata": {"name": "two"}})).await,
            (
                400,
                "BadRequest",
                "the name of the object (two) does not match the name on the URL (one)",
            ),
        ),
        (
            "an immortal namespace",
            rig.delete("/api/v1/namespaces/default").await,
            (
                403,
                "Forbidden",
                "namespaces \"default\" is forbidden: this namespace may not be deleted",
            ),
        ),
    ];
    for (name, answer, (code, reason, message)) in cases {
        assert_eq!(answer.failure(), (code, reason.to_owned(), message.to_owned()), "{name}");
    }
    assert_eq!(rig.get("/api/v1/nothings").await.code, StatusCode::NOT_FOUND);
    assert_eq!(rig.get("/api/v1/namespaces/default/nodes").await.code, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn dry_runs_leave_no_trace() {
    let rig = rig().await;
    let before = rig.server.store().revision();
    let map = json!({"metadata": {"name": "one"}});
    let answer = rig.post(&format!("{MAPS}?dryRun=All"), &map).await;
    assert_eq!(answer.code, StatusCode::CREATED);
    assert!(answer.json()["metadata"]["uid"].is_string());
    assert_eq!(rig.server.store().revision(), before);
    assert_eq!(rig.post(&format!("{MAPS}?dryRun=Some"), &map).await.code.as_u16(), 422);
}

#[tokio::test]
async fn finalizers_hold_an_object_until_they_are_gone() {
    let rig = rig().await;
    let path = format!("{MAPS}/held");
    let map = json!({"metadata": {"name": "held", "finalizers": ["example.com/wait"]}});
    rig.post(MAPS, &map).await;
    let dying = rig.delete(&path).await.json();
    assert!(dying["metadata"]["deletionTimestamp"].is_string());

    let mut more = dying.clone();
    more["metadata"]["finalizers"] = json!(["example.com/wait", "example.com/more"]);
    assert_eq!(rig.put(&path, &more).await.failure().0, 422);

    let mut released = dying;
    released["metadata"]["finalizers"] = json!([]);
    assert_eq!(rig.put(&path, &released).await.code, StatusCode::OK);
    assert_eq!(rig.get(&path).await.code, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn deletes_honour_preconditions() {
    let rig = rig().await;
    rig.post(MAPS, &json!({"metadata": {"name": "one"}})).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(rig.client.clone());
    let wrong = DeleteParams {
        preconditions: Some(kube::api::Preconditions {
            uid: Some("other".into()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    let kube::Error::Api(status) = maps.delete("one", &wrong).await.unwrap_err() else { panic!() };
    assert_eq!(status.code, 409);
    let uid = maps.get("one").await.unwrap().metadata.uid;
    let right = DeleteParams {
        preconditions: Some(kube::api::Preconditions { uid, resource_version: None }),
        ..DeleteParams::default()
    };
    maps.delete("one", &right).await.unwrap();
}

#[tokio::test]
async fn pods_are_born_pending_and_die_gracefully() {
    let rig = rig().await;
    let created = rig.post(PODS, &pod("web")).await.json();
    assert_eq!(created["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
    assert_eq!(created["spec"]["priority"], 0);
    assert_eq!(created["metadata"]["generation"], 1);

    let path = format!("{PODS}/web");
    assert_eq!(rig.delete(&path).await.code, StatusCode::OK);
    assert_eq!(rig.get(&path).await.code, StatusCode::NOT_FOUND, "nobody ran it");

    let mut bound = pod("bound");
    bound["spec"]["nodeName"] = json!("n1");
    rig.post(PODS, &bound).await;
    let path = format!("{PODS}/bound");
    let dying = rig.delete(&path).await.json();
    assert_eq!(dying["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(rig.get(&path).await.code, StatusCode::OK);
    rig.delete(&format!("{path}?gracePeriodSeconds=0")).await;
    assert_eq!(rig.get(&path).await.code, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn unknown_priority_classes_are_refused() {
    let rig = rig().await;
    let mut critical = pod("critical");
    critical["spec"]["priorityClassName"] = json!("system-node-critical");
    let created = rig.post(PODS, &critical).await.json();
    assert_eq!(created["spec"]["priority"], 2_000_001_000);
    let mut unknown = pod("unknown");
    unknown["spec"]["priorityClassName"] = json!("gold");
    assert_eq!(
        rig.post(PODS, &unknown).await.failure().2,
        "pods \"unknown\" is forbidden: no PriorityClass with name gold was found"
    );
}

#[tokio::test]
async fn status_and_specification_are_kept_apart() {
    let rig = rig().await;
    let mut created = rig.post(PODS, &pod("web")).await.json();
    created["status"]["phase"] = json!("Running");
    created["metadata"]["labels"] = json!({"a": "b"});
    let updated = rig.put(&format!("{PODS}/web"), &created).await.json();
    assert_eq!(updated["status"]["phase"], "Pending");
    assert_eq!(updated["metadata"]["labels"]["a"], "b");
}

#[tokio::test]
async fn namespaces_wait_for_their_finalizer() {
    let rig = rig().await;
    let spaces: Api<Namespace> = Api::all(rig.client.clone());
    let space: Namespace = serde_json::from_value(json!({"metadata": {"name": "team"}})).unwrap();
    let created = spaces.create(&PostParams::default(), &space).await.unwrap();
    assert_eq!(created.status.unwrap().phase.as_deref(), Some("Active"));
    let account = rig.get("/api/v1/namespaces/team/serviceaccounts/default").await;
    assert_eq!(account.code, StatusCode::OK);

    let dying = rig.delete("/api/v1/namespaces/team").await.json();
    assert_eq!(dying["status"]["phase"], "Terminating");
    let refused = rig.post("/api/v1/namespaces/team/pods", &pod("late")).await;
    assert_eq!(refused.failure().0, 403);
    assert_eq!(refused.json()["details"]["causes"][0]["reason"], "NamespaceTerminating");
    assert_eq!(rig.delete("/api/v1/namespaces/team").await.code, StatusCode::OK, "it dies anyway");
}

async fn fill(rig: &Rig, count: usize) {
    for at in 0..count {
        let labels = json!({"parity": if at % 2 == 0 { "even" } else { "odd" }});
        let map = json!({"metadata": {"name": format!("map-{at}"), "labels": labels}});
        assert_eq!(rig.post(MAPS, &map).await.code, StatusCode::CREATED);
    }
}

#[tokio::test]
async fn lists_come_in_pages_of_one_moment() {
    let rig = rig().await;
    fill(&rig, 7).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(rig.client.clone());
    let mut params = ListParams::default().limit(3);
    let mut names = Vec::new();
    let mut revisions = Vec::new();
    loop {
        let page = maps.list(&params).await.unwrap();
        revisions.push(page.metadata.resource_version.clone());
        names.extend(page.items.into_iter().map(|map| map.metadata.name.unwrap()));
        if names.len() == 3 {
            assert_eq!(page.metadata.remaining_item_count, Some(4));
            maps.create(&PostParams::default(), &config_map("map-3b")).await.unwrap();
        }
        match page.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => params = params.continue_token(&next),
            None => break,
        }
    }
    let want: Vec<String> = (0..7).map(|at| format!("map-{at}")).collect();
    assert_eq!(names, want);
    assert!(revisions.windows(2).all(|pair| pair[0] == pair[1]), "{revisions:?}");
}

#[tokio::test]
async fn selectors_narrow_lists() {
    let rig = rig().await;
    fill(&rig, 5).await;
    let count = async |query: &str| {
        let answer = rig.get(&format!("{MAPS}?{query}")).await;
        match answer.code {
            StatusCode::OK => answer.json()["items"].as_array().unwrap().len(),
            _ => panic!("{query}: {}", answer.text),
        }
    };
    assert_eq!(count("labelSelector=parity%3Deven").await, 3);
    assert_eq!(count("labelSelector=parity+notin+(even)").await, 2);
    assert_eq!(count("fieldSelector=metadata.name%3Dmap-1").await, 1);
    assert_eq!(count("labelSelector=parity%3Dodd&fieldSelector=metadata.name!%3Dmap-1").await, 1);
    assert_eq!(rig.get(&format!("{MAPS}?fieldSelector=data.a%3D1")).await.failure().0, 400);
}

#[tokio::test]
async fn revisions_bound_lists() {
    let rig = rig().await;
    fill(&rig, 2).await;
    let at = rig.get(MAPS).await.json()["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    fill_more(&rig).await;
    let count = async |query: String| {
        let answer = rig.get(&format!("{MAPS}?{query}")).await.json();
        answer["items"].as_array().map(Vec::len)
    };
    assert_eq!(count(format!("resourceVersion={at}&resourceVersionMatch=Exact")).await, Some(2));
    let newer = format!("resourceVersion={at}&resourceVersionMatch=NotOlderThan");
    assert_eq!(count(newer).await, Some(3));
    assert_eq!(count("resourceVersion=0".into()).await, Some(3));
    let future = rig.get(&format!("{MAPS}?resourceVersion=999999")).await;
    assert_eq!(future.failure().0, 504);
    assert_eq!(future.json()["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    assert_eq!(rig.get(&format!("{MAPS}?resourceVersion=x")).await.failure().0, 400);
}

async fn fill_more(rig: &Rig) {
    rig.post(MAPS, &json!({"metadata": {"name": "later"}})).await;
}

#[tokio::test]
async fn collections_are_deleted_by_selector() {
    let rig = rig().await;
    fill(&rig, 5).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(rig.client.clone());
    let odd = ListParams::default().labels("parity=odd");
    maps.delete_collection(&DeleteParams::default(), &odd).await.unwrap();
    assert_eq!(maps.list(&ListParams::default()).await.unwrap().items.len(), 3);
}

#[tokio::test]
async fn kube_discovery_finds_the_kinds() {
    let rig = rig().await;
    let discovery = kube::Discovery::new(rig.client.clone()).run_aggregated().await.unwrap();
    let (resource, _) = discovery
        .resolve_gvk(&kube::api::GroupVersionKind::gvk("apps", "v1", "Deployment"))
        .unwrap();
    assert_eq!(resource.plural, "deployments");
    let discovery = kube::Discovery::new(rig.client.clone()).run().await.unwrap();
    assert!(discovery.has_group("coordination.k8s.io"));
    let version = rig.client.apiserver_version().await.unwrap();
    assert_eq!((version.major.as_str(), version.minor.as_str()), ("1", "35"));
    let _: Api<Pod> = Api::all(rig.client.clone());
}
