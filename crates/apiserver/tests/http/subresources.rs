//! Status, scale, binding, eviction, logs, tokens and reviews.

use std::sync::Arc;

use apiserver::http::{LogError, LogRequest, LogSource, LogStream};
use axum::http::StatusCode;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, EvictParams, LogParams};
use serde_json::{Value, json};

use crate::crud::pod;
use crate::patching::deployment;
use crate::rig::{Rig, rig};

const PODS: &str = "/api/v1/namespaces/default/pods";

fn binding(pod: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod, "annotations": {"picked-by": "test"}},
        "target": {"kind": "Node", "name": node},
    })
}

#[tokio::test]
async fn a_pod_is_bound_once() {
    let rig = rig().await;
    rig.post(PODS, &pod("web")).await;
    let path = format!("{PODS}/web/binding");
    let bound = rig.post(&path, &binding("web", "n1")).await;
    assert_eq!(bound.code, StatusCode::CREATED, "{}", bound.text);
    assert_eq!(bound.json()["status"], "Success");
    let pod = rig.get(&format!("{PODS}/web")).await.json();
    assert_eq!(pod["spec"]["nodeName"], "n1");
    assert_eq!(pod["metadata"]["annotations"]["picked-by"], "test");
    assert_eq!(pod["status"]["conditions"][0]["type"], "PodScheduled");
    assert_eq!(
        rig.post(&path, &binding("web", "n2")).await.failure(),
        (
            409,
            "Conflict".into(),
            "Operation cannot be fulfilled on pods/binding \"web\": pod web is already assigned \
             to node \"n1\""
                .into()
        )
    );
    let nowhere = json!({"metadata": {"name": "web"}, "target": {}});
    assert_eq!(rig.post(&path, &nowhere).await.failure().2, "target.name: Required value");
    let absent = rig.post(&format!("{PODS}/none/binding"), &binding("none", "n1")).await;
    assert_eq!(absent.failure().0, 404);
}

#[tokio::test]
async fn a_pod_is_not_bound_to_what_is_no_node_name() {
    let rig = rig().await;
    rig.post(PODS, &pod("web")).await;
    for node in ["../../x", "a/b", "N1", "."] {
        let refused = rig.post(&format!("{PODS}/web/binding"), &binding("web", node)).await;
        let (code, _, message) = refused.failure();
        assert_eq!(code, 500, "{message}");
        assert!(message.starts_with(&format!("target.name: Invalid value: {node:?}")), "{message}");
    }
    let pod = rig.get(&format!("{PODS}/web")).await.json();
    assert_eq!(pod["spec"]["nodeName"], Value::Null);
}

#[tokio::test]
async fn a_token_ends_with_its_account() {
    let rig = rig().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({"metadata": {"name": "robot"}});
    rig.post(accounts, &account).await;
    let asked = json!({"spec": {"expirationSeconds": 4_294_967_296_i64}});
    let issued = rig.post(&format!("{accounts}/robot/token"), &asked).await.json();
    assert_eq!(issued["spec"]["expirationSeconds"], 86_400, "no token outlives the day");
    let review = json!({"spec": {"token": issued["status"]["token"]}});
    let is_known = async || {
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        rig.post(path, &review).await.json()["status"]["authenticated"] == true
    };
    assert!(is_known().await);
    rig.delete(&format!("{accounts}/robot")).await;
    assert!(!is_known().await, "the account is gone");
    rig.post(accounts, &account).await;
    assert!(!is_known().await, "an account of the same name is another one");
}

#[tokio::test]
async fn status_writes_touch_the_status_only() {
    let rig = rig().await;
    let mut created = rig.post(PODS, &pod("web")).await.json();
    created["status"]["phase"] = json!("Running");
    created["status"]["qosClass"] = json!("Guaranteed");
    created["spec"]["nodeName"] = json!("n1");
    let updated = rig.put(&format!("{PODS}/web/status"), &created).await.json();
    assert_eq!(updated["status"]["phase"], "Running");
    assert_eq!(updated["status"]["qosClass"], "BestEffort");
    assert_eq!(updated["spec"].get("nodeName"), None);
    assert_eq!(updated["metadata"]["generation"], 1);
}

#[tokio::test]
async fn workloads_can_be_scaled() {
    let rig = rig().await;
    let base = "/apis/apps/v1/namespaces/default/deployments";
    rig.post(base, &deployment("web")).await;
    let path = format!("{base}/web/scale");
    let mut scale = rig.get(&path).await.json();
    assert_eq!(scale["spec"]["replicas"], 2);
    assert_eq!(scale["status"]["selector"], "app=web");
    scale["spec"]["replicas"] = json!(7);
    assert_eq!(rig.put(&path, &scale).await.json()["spec"]["replicas"], 7);
    let deployment = rig.get(&format!("{base}/web")).await.json();
    assert_eq!(deployment["spec"]["replicas"], 7);
    assert_eq!(deployment["metadata"]["generation"], 2);
    assert_eq!(rig.put(&path, &scale).await.failure().0, 409, "the scale was of an older version");
    scale["metadata"] = json!({"name": "web"});
    scale["spec"]["replicas"] = json!(-1);
    assert_eq!(rig.put(&path, &scale).await.failure().0, 422);
}

async fn budget(rig: &Rig, allowed: i64) {
    let base = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    });
    let mut created = rig.post(base, &budget).await.json();
    created["status"] = json!({
        "observedGeneration": 1, "disruptionsAllowed": allowed,
        "currentHealthy": 1 + allowed, "desiredHealthy": 1, "expectedPods": 2,
    });
    let path = format!("{base}/b/status");
    assert_eq!(rig.put(&path, &created).await.code, StatusCode::OK);
}

async fn running(rig: &Rig, name: &str) {
    let mut object = pod(name);
    object["metadata"]["labels"] = json!({"app": "web"});
    object["spec"]["nodeName"] = json!("n1");
    let mut created = rig.post(PODS, &object).await.json();
    created["status"]["phase"] = json!("Running");
    created["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    rig.put(&format!("{PODS}/{name}/status"), &created).await;
}

#[tokio::test]
async fn evictions_respect_the_budget() {
    let rig = rig().await;
    budget(&rig, 1).await;
    running(&rig, "a").await;
    running(&rig, "b").await;
    let pods: Api<Pod> = Api::default_namespaced(rig.client.clone());
    pods.evict("a", &EvictParams::default()).await.unwrap();
    let evicted = pods.get("a").await.unwrap();
    assert!(evicted.metadata.deletion_timestamp.is_some());
    let conditions = evicted.status.unwrap().conditions.unwrap();
    assert!(conditions.iter().any(|condition| condition.type_ == "DisruptionTarget"));

    let eviction = json!({"metadata": {"name": "b"}});
    let refused = rig.post(&format!("{PODS}/b/eviction"), &eviction).await;
    assert_eq!(
        refused.failure(),
        (
            429,
            "TooManyRequests".into(),
            "Cannot evict pod as it would violate the pod's disruption budget.".into()
        )
    );
    let cause = &refused.json()["details"]["causes"][0];
    assert_eq!(cause["reason"], "DisruptionBudget");
    assert!(pods.get("b").await.unwrap().metadata.deletion_timestamp.is_none());

    rig.post(PODS, &pod("pending")).await;
    let dry = json!({"metadata": {"name": "pending"}, "deleteOptions": {"dryRun": ["All"]}});
    assert_eq!(rig.post(&format!("{PODS}/pending/eviction"), &dry).await.code.as_u16(), 201);
    assert!(pods.get_opt("pending").await.unwrap().is_some());
}

#[derive(Debug)]
struct Echo;

impl LogSource for Echo {
    fn open(&self, request: LogRequest) -> BoxFuture<'static, Result<LogStream, LogError>> {
        async move {
            if request.previous {
                return Err(LogError::BadRequest("previous terminated container not found".into()));
            }
            let line = format!("{} {:?}\n", request.container, request.tail_lines);
            Ok(stream::iter([Ok(line.into())]).boxed())
        }
        .boxed()
    }
}

#[tokio::test]
async fn logs_come_from_the_node() {
    let rig = rig().await;
    let mut bound = pod("web");
    bound["spec"]["nodeName"] = json!("n1");
    rig.post(PODS, &bound).await;
    let pods: Api<Pod> = Api::default_namespaced(rig.client.clone());
    assert!(pods.logs("web", &LogParams::default()).await.is_err(), "no node yet");
    rig.server.set_log_source(Arc::new(Echo));
    let params = LogParams { tail_lines: Some(3), ..LogParams::default() };
    assert_eq!(pods.logs("web", &params).await.unwrap(), "main Some(3)\n");
    let previous = rig.get(&format!("{PODS}/web/log?previous=true")).await;
    assert_eq!(previous.failure().2, "previous terminated container not found");
    rig.post(PODS, &pod("unbound")).await;
    assert_eq!(pods.logs("unbound", &LogParams::default()).await.unwrap(), "");
    let exec = rig.get(&format!("{PODS}/web/exec?command=ls")).await;
    assert_eq!(exec.failure().0, 501);
}

#[tokio::test]
async fn namespaces_are_finalized_on_their_own_path() {
    let rig = rig().await;
    rig.post("/api/v1/namespaces", &json!({"metadata": {"name": "team"}})).await;
    let mut dying = rig.delete("/api/v1/namespaces/team").await.json();
    dying["spec"] = json!({"finalizers": []});
    let kept = rig.put("/api/v1/namespaces/team", &dying).await.json();
    assert_eq!(kept["spec"]["finalizers"], json!(["kubernetes"]));
    let done = rig.put("/api/v1/namespaces/team/finalize", &dying).await;
    assert_eq!(done.code, StatusCode::OK, "{}", done.text);
    assert_eq!(rig.get("/api/v1/namespaces/team").await.code, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn questions_are_answered() {
    let rig = rig().await;
    let may = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    assert_eq!(rig.post(reviews, &may).await.json()["status"]["allowed"], true);
    let rules = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let rules = rig.post(rules, &json!({"spec": {"namespace": "default"}})).await.json();
    assert_eq!(rules["status"]["resourceRules"][0]["verbs"], json!(["*"]));
    let token = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let issued = rig.post(token, &json!({"spec": {}})).await.json();
    let token = issued["status"]["token"].as_str().unwrap();
    let review = json!({"spec": {"token": token}});
    let who = rig.post("/apis/authentication.k8s.io/v1/tokenreviews", &review).await.json();
    assert_eq!(who["status"]["user"]["username"], "system:serviceaccount:default:default");
    let wrong = json!({"spec": {"token": "x"}});
    let who = rig.post("/apis/authentication.k8s.io/v1/tokenreviews", &wrong).await.json();
    assert_eq!(who["status"].get("authenticated"), None);
}

#[tokio::test]
async fn events_are_one_collection_with_two_faces() {
    let rig = rig().await;
    let event = json!({
        "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Started", "message": "hello", "type": "Normal",
    });
    assert_eq!(rig.post("/api/v1/namespaces/default/events", &event).await.code.as_u16(), 201);
    let other = rig.get("/apis/events.k8s.io/v1/namespaces/default/events/e").await.json();
    assert_eq!((&other["note"], &other["regarding"]["name"]), (&json!("hello"), &json!("p")));
    let found =
        rig.get("/api/v1/events?fieldSelector=involvedObject.name%3Dp,reason%3DStarted").await;
    assert_eq!(found.json()["items"].as_array().unwrap().len(), 1);
    let list = rig.get("/apis/events.k8s.io/v1/events?fieldSelector=regarding.name%3Dx").await;
    assert_eq!(list.json()["items"], json!([]));
}
