//! Webhooks, really called over TLS.

use std::sync::{Arc, Mutex};

use apiserver::http::{Clock, Credentials, RandomIds, SystemClock};
use axum::Router;
use axum::body::Bytes;
use axum::response::IntoResponse;
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::crud::pod;
use crate::rig::{Rig, rig};

const PODS: &str = "/api/v1/namespaces/default/pods";
const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

type Answer = dyn Fn(&Value) -> Value + Send + Sync;

/// A webhook on loopback and everything it was asked.
struct Hook {
    port: u16,
    authority: String,
    seen: Arc<Mutex<Vec<Value>>>,
}

async fn hook(answer: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Hook {
    let names = ["127.0.0.1", "hook.default.svc"].map(str::to_owned);
    let credentials = Credentials::ephemeral(&names, &RandomIds, SystemClock.now()).unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(credentials.server_config().unwrap());
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (answer, log): (Arc<Answer>, _) = (Arc::new(answer), seen.clone());
    let handler = move |body: Bytes| {
        let (answer, log) = (answer.clone(), log.clone());
        async move {
            let review: Value = serde_json::from_slice(&body).unwrap();
            let mut response = answer(&review["request"]);
            response["uid"] = review["request"]["uid"].clone();
            log.lock().unwrap().push(review["request"].clone());
            let review = json!({
                "apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response,
            });
            review.to_string().into_response()
        }
    };
    let router = Router::new().route("/{*path}", post(handler));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, router) = (acceptor.clone(), router.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let _ = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
                    .await;
            });
        }
    });
    Hook { port, authority: credentials.authority, seen }
}

impl Hook {
    fn questions(&self) -> Vec<Value> {
        self.seen.lock().unwrap().clone()
    }

    /// A webhook entry that asks about pods.
    fn entry(&self, name: &str) -> Value {
        json!({
            "name": format!("{name}.example.com"),
            "clientConfig": {
                "url": format!("https://127.0.0.1:{}/{name}", self.port),
                "caBundle": STANDARD.encode(&self.authority),
            },
            "rules": [{
                "operations": ["CREATE", "UPDATE", "DELETE"], "apiGroups": [""],
                "apiVersions": ["v1"], "resources": ["pods"],
            }],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "timeoutSeconds": 5,
        })
    }
}

async fn configure(rig: &Rig, path: &str, name: &str, webhooks: Vec<Value>) {
    let configuration = json!({"metadata": {"name": name}, "webhooks": webhooks});
    let answer = rig.post(path, &configuration).await;
    assert_eq!(answer.code.as_u16(), 201, "{}", answer.text);
}

fn patch(operations: Value) -> Value {
    let patch = STANDARD.encode(operations.to_string());
    json!({"allowed": true, "patchType": "JSONPatch", "patch": patch})
}

fn labels(name: &str) -> impl Fn(&Value) -> Value + use<> {
    let name = name.to_owned();
    move |request: &Value| {
        if request["object"]["metadata"]["labels"].is_object() {
            let path = format!("/metadata/labels/{name}");
            return patch(json!([{"op": "add", "path": path, "value": "yes"}]));
        }
        patch(json!([{"op": "add", "path": "/metadata/labels", "value": {name.clone(): "yes"}}]))
    }
}

#[tokio::test]
async fn webhooks_change_and_refuse() {
    let rig = rig().await;
    let mutating = hook(labels("touched")).await;
    let validating = hook(|request| match request["object"]["metadata"]["name"].as_str() {
        Some("bad") => json!({"allowed": false, "status": {"code": 403, "message": "bad name"}}),
        _ => json!({"allowed": true, "warnings": ["look out"]}),
    })
    .await;
    configure(&rig, MUTATING, "m", vec![mutating.entry("m")]).await;
    configure(&rig, VALIDATING, "v", vec![validating.entry("v")]).await;

    let created = rig.post(PODS, &pod("good")).await;
    assert_eq!(created.code.as_u16(), 201, "{}", created.text);
    assert_eq!(created.json()["metadata"]["labels"]["touched"], "yes");
    assert_eq!(created.headers["warning"], "299 - \"look out\"");
    let question = &validating.questions()[0];
    assert_eq!(question["object"]["metadata"]["labels"]["touched"], "yes");
    assert_eq!(question["kind"], json!({"group": "", "version": "v1", "kind": "Pod"}));
    assert_eq!(question["operation"], "CREATE");
    assert_eq!(question["options"]["kind"], "CreateOptions");
    assert_eq!(question["userInfo"]["username"], "kubernetes-admin");
    assert_eq!(question["oldObject"], Value::Null);

    let refused = rig.post(PODS, &pod("bad")).await.failure();
    assert_eq!(
        (refused.0, refused.2.as_str()),
        (403, "admission webhook \"v.example.com\" denied the request: bad name")
    );
    assert_eq!(rig.delete(&format!("{PODS}/good")).await.code.as_u16(), 200);
    let last = validating.questions().pop().unwrap();
    assert_eq!((&last["operation"], &last["object"]), (&json!("DELETE"), &Value::Null));
    assert_eq!(last["oldObject"]["metadata"]["name"], "good");
}

#[tokio::test]
async fn failures_follow_the_policy() {
    let rig = rig().await;
    let dead = Hook { port: 1, authority: String::new(), seen: Arc::default() };
    let mut entry = dead.entry("dead");
    entry["failurePolicy"] = json!("Ignore");
    configure(&rig, VALIDATING, "lenient", vec![entry.clone()]).await;
    assert_eq!(rig.post(PODS, &pod("one")).await.code.as_u16(), 201);
    entry["failurePolicy"] = json!("Fail");
    configure(&rig, VALIDATING, "strict", vec![entry]).await;
    let (code, reason, message) = rig.post(PODS, &pod("two")).await.failure();
    assert_eq!((code, reason.as_str()), (500, "InternalError"));
    assert!(
        message.starts_with(
            "Internal error occurred: failed calling webhook \"dead.example.com\": failed to call \
             webhook: Post \"https://127.0.0.1:1/dead?timeout=5s\": "
        ),
        "{message}"
    );
}

#[tokio::test]
async fn strangers_are_not_trusted() {
    let rig = rig().await;
    let real = hook(|_| json!({"allowed": true})).await;
    let mut entry = real.entry("v");
    let other = hook(|_| json!({"allowed": true})).await;
    entry["clientConfig"]["caBundle"] = json!(STANDARD.encode(&other.authority));
    configure(&rig, VALIDATING, "v", vec![entry]).await;
    assert_eq!(rig.post(PODS, &pod("one")).await.failure().0, 500);
    assert_eq!(real.questions().len(), 0);
}

#[tokio::test]
async fn selectors_and_conditions_narrow_the_questions() {
    let rig = rig().await;
    let deny = hook(|_| json!({"allowed": false})).await;
    let mut by_namespace = deny.entry("n");
    by_namespace["namespaceSelector"] = json!({"matchLabels": {"guarded": "yes"}});
    let mut by_object = deny.entry("o");
    by_object["objectSelector"] = json!({"matchLabels": {"guarded": "yes"}});
    let mut by_condition = deny.entry("c");
    by_condition["matchConditions"] =
        json!([{"name": "named", "expression": "object.metadata.name.startsWith('guarded')"}]);
    configure(&rig, VALIDATING, "v", vec![by_namespace, by_object, by_condition]).await;

    assert_eq!(rig.post(PODS, &pod("free")).await.code.as_u16(), 201);
    let mut labelled = pod("labelled");
    labelled["metadata"]["labels"] = json!({"guarded": "yes"});
    assert_eq!(rig.post(PODS, &labelled).await.failure().0, 400);
    assert_eq!(rig.post(PODS, &pod("guarded-1")).await.failure().0, 400);
    let team = json!({"metadata": {"name": "team", "labels": {"guarded": "yes"}}});
    rig.post("/api/v1/namespaces", &team).await;
    assert_eq!(rig.post("/api/v1/namespaces/team/pods", &pod("p")).await.failure().0, 400);
    let map = json!({"metadata": {"name": "m"}});
    let maps = rig.post("/api/v1/namespaces/team/configmaps", &map).await;
    assert_eq!(maps.code.as_u16(), 201, "only pods are guarded");
}

#[tokio::test]
async fn a_webhook_is_asked_again_when_others_changed_the_object() {
    let rig = rig().await;
    let first = hook(labels("first")).await;
    let second = hook(labels("second")).await;
    let mut early = first.entry("a");
    early["reinvocationPolicy"] = json!("IfNeeded");
    configure(&rig, MUTATING, "a", vec![early]).await;
    configure(&rig, MUTATING, "b", vec![second.entry("b")]).await;
    rig.post(PODS, &pod("one")).await;
    let questions = first.questions();
    assert_eq!((questions.len(), second.questions().len()), (2, 1));
    assert_eq!(questions[1]["object"]["metadata"]["labels"]["second"], "yes");
}

#[tokio::test]
async fn webhooks_learn_of_dry_runs() {
    let rig = rig().await;
    let hook = hook(|_| json!({"allowed": true})).await;
    configure(&rig, VALIDATING, "v", vec![hook.entry("v")]).await;
    let answer = rig.post(&format!("{PODS}?dryRun=All"), &pod("one")).await;
    assert_eq!(answer.code.as_u16(), 201);
    assert_eq!(hook.questions()[0]["dryRun"], true);
    let mut careless = hook.entry("w");
    careless["sideEffects"] = json!("Some");
    let configuration = json!({"metadata": {"name": "w"}, "webhooks": [careless]});
    let refused = rig.post(VALIDATING, &configuration).await;
    assert_eq!(refused.failure().0, 422, "side effects that a dry run would have");
}

#[tokio::test]
async fn services_lead_to_their_endpoints() {
    let rig = rig().await;
    let hook = hook(|_| json!({"allowed": false, "status": {"message": "from the service"}})).await;
    let service = json!({
        "metadata": {"name": "hook"},
        "spec": {"ports": [{"name": "https", "port": 443, "targetPort": hook.port}]},
    });
    let answer = rig.post("/api/v1/namespaces/default/services", &service).await;
    assert_eq!(answer.code.as_u16(), 201, "{}", answer.text);
    let endpoints = json!({
        "metadata": {"name": "hook"},
        "subsets": [{
            "addresses": [{"ip": "127.0.0.1"}], "ports": [{"name": "https", "port": hook.port}],
        }],
    });
    rig.post("/api/v1/namespaces/default/endpoints", &endpoints).await;
    let mut entry = hook.entry("v");
    entry["clientConfig"] = json!({
        "service": {"namespace": "default", "name": "hook", "path": "/check"},
        "caBundle": STANDARD.encode(&hook.authority),
    });
    configure(&rig, VALIDATING, "v", vec![entry]).await;
    let (_, _, message) = rig.post(PODS, &pod("one")).await.failure();
    assert_eq!(message, "admission webhook \"v.example.com\" denied the request: from the service");
}
