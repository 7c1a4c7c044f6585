//! The console over a cluster in this process: an API server with a token, and real connections.

use std::future::ready;

use api::kind::{NodeMetric, NodeResourceTopology};
use apiserver::http::{ApiServer, Options, listen};
use apiserver::store::{Limits, Store};
use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use console::feed::{Agents, Settings};
use console::{Console, Door, Feed};
use http_body_util::BodyExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, Client, Config};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::wait::until;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::rig::{self, object};

type Headers<'h> = &'h [(&'h str, &'h str)];

const TOKEN: &str = "the-right-token";

struct Rig {
    client: Client,
    feed: Feed,
    router: Router,
    shutdown: CancellationToken,
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

async fn rig() -> Rig {
    let store = Store::in_memory(Limits::default()).unwrap();
    let options = Options { token: Some(TOKEN.to_owned()), ..Options::default() };
    let server = ApiServer::start(store, options).await;
    let listener = listen("127.0.0.1:0".parse().unwrap(), false).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let shutdown = CancellationToken::new();
    tokio::spawn(server.serve(listener, None, shutdown.clone().cancelled_owned()));

    let mut config = Config::new(url.parse().unwrap());
    let door = Door::new(config.clone());
    config.auth_info = serde_json::from_value(json!({ "token": TOKEN })).unwrap();
    let client = Client::try_from(config).unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in api::kind::definitions() {
        let definition = serde_json::from_value(serde_json::to_value(definition).unwrap()).unwrap();
        definitions.create(&PostParams::default(), &definition).await.unwrap();
    }
    let feed = Feed::default();
    let config_namespace = "default".to_owned();
    let settings = Settings { config_namespace, agents: Agents::Nowhere, ledger: None };
    tokio::spawn(feed.clone().run(client.clone(), settings, shutdown.clone()));
    let console = Console { feed: feed.clone(), door: Some(door) };
    let router = console.router(true, shutdown.clone());
    Rig { client, feed, router, shutdown }
}

impl Rig {
    async fn create<K>(&self, api: Api<K>, value: Value)
    where
        K: kube::Resource + Clone + std::fmt::Debug + DeserializeOwned + serde::Serialize,
    {
        api.create(&PostParams::default(), &object(value)).await.unwrap();
    }

    async fn cluster(&self) {
        self.create(Api::<Node>::all(self.client.clone()), rig::node("n1")).await;
        let pods = Api::<Pod>::namespaced(self.client.clone(), "default");
        let mut pod = rig::pod("web", "n1", "LS");
        pod["metadata"]["namespace"] = json!("default");
        self.create(pods, pod).await;
        let metric = rig::metric("n1", Timestamp::now(), 3_000, &[("etl", "BE", 800)]);
        self.create(Api::<NodeMetric>::all(self.client.clone()), metric).await;
        let topologies = Api::<NodeResourceTopology>::all(self.client.clone());
        self.create(topologies, rig::topology("n1")).await;
        self.until(|feed| feed.look(|world| world.node_page("n1", Timestamp::now()).is_some()))
            .await;
        self.feed.publish(Timestamp::now());
    }

    /// Waits for a condition.
    async fn until(&self, is_true: impl Fn(&Feed) -> bool) {
        until("it comes true", || ready(is_true(&self.feed).then_some(()))).await;
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        let request = Request::get(path).header("host", "localhost:1");
        let (status, text) = self.send(request.body(Body::empty()).unwrap()).await;
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    async fn send(&self, request: Request<Body>) -> (StatusCode, String) {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn press(&self, headers: &[(&str, &str)], body: Value) -> (StatusCode, Value) {
        let mut request = Request::post("/api/switch").header("host", "localhost:1");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.header("content-type", "application/json");
        let (status, text) = self.send(request.body(Body::from(body.to_string())).unwrap()).await;
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    async fn annotation(&self) -> Option<String> {
        let node = Api::<Node>::all(self.client.clone()).get("n1").await.unwrap();
        node.metadata.annotations?.get("tidepool.io/switch").cloned()
    }
}

#[tokio::test]
async fn a_cluster_becomes_pages() {
    let rig = rig().await;
    rig.cluster().await;
    let (status, overview) = rig.get("/api/overview").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(overview["data"]["counts"]["nodes"], 1);
    let (_, nodes) = rig.get("/api/nodes?text=n&sort=cpu&page=7").await;
    assert_eq!(nodes["data"]["rows"][0]["name"], "n1");
    assert_eq!(nodes["data"]["page"], 0, "there is no page 7");
    let (_, none) = rig.get("/api/nodes?state=off").await;
    assert_eq!((&none["data"]["total"], &none["data"]["all"]), (&json!(0), &json!(1)));
    for path in [
        "/api/nodes/n1",
        "/api/pods",
        "/api/pods/default/web",
        "/api/decisions",
        "/api/replay/n1",
        "/api/replay/n1?at=2030-01-01T00:00:00Z",
        "/api/config",
        "/api/benefit",
    ] {
        assert_eq!(rig.get(path).await.0, StatusCode::OK, "{path}");
    }
    for path in
        ["/api/nodes/n2", "/api/replay/n2", "/api/pods/default/none", "/nothing", "/../Cargo.toml"]
    {
        assert_eq!(rig.get(path).await.0, StatusCode::NOT_FOUND, "{path}");
    }
    for path in ["/api/nodes?sort=wrong", "/api/replay/n1?at=yesterday"] {
        assert_eq!(rig.get(path).await.0, StatusCode::BAD_REQUEST, "{path}");
    }
    let (_, metrics) = rig.get("/metrics").await;
    let metrics = metrics.as_str().unwrap();
    for metric in console::metrics::ALL {
        let needs_time = metric.name.contains("24h");
        assert!(
            needs_time || metrics.contains(metric.name),
            "{} is not in\n{metrics}",
            metric.name
        );
    }
}

#[tokio::test]
async fn pages_tell_browsers_what_they_may_do() {
    let rig = rig().await;
    for path in ["/", "/app.js", "/style.css", "/api/overview", "/nothing"] {
        let request = Request::get(path).header("host", "localhost").body(Body::empty()).unwrap();
        let response = rig.router.clone().oneshot(request).await.unwrap();
        let policy = response.headers()["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{path}: {policy}");
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(response.headers()["x-content-type-options"], "nosniff", "{path}");
    }
    let foreign = Request::get("/api/overview").header("host", "evil.example");
    let (status, _) = rig.send(foreign.body(Body::empty()).unwrap()).await;
    assert_eq!(status, StatusCode::MISDIRECTED_REQUEST);
}

#[tokio::test]
async fn the_switch_obeys_the_right_token_and_nobody_else() {
    let rig = rig().await;
    rig.cluster().await;
    let right = format!("Bearer {TOKEN}");
    let own = ("x-tidepool-console", "switch");
    let off = || json!({ "node": "n1", "off": true });
    let refused: [(&str, Headers<'_>, StatusCode); 5] = [
        ("no token", &[own], StatusCode::UNAUTHORIZED),
        ("a wrong token", &[own, ("authorization", "Bearer wrong")], StatusCode::UNAUTHORIZED),
        ("another form", &[own, ("authorization", "Basic abc")], StatusCode::UNAUTHORIZED),
        ("no header of ours", &[("authorization", &right)], StatusCode::FORBIDDEN),
        (
            "another origin",
            &[own, ("authorization", &right), ("origin", "http://evil.example")],
            StatusCode::FORBIDDEN,
        ),
    ];
    for (name, headers, want) in refused {
        let (status, answer) = rig.press(headers, off()).await;
        assert_eq!(status, want, "{name}: {answer}");
        assert_eq!(rig.annotation().await, None, "{name}");
    }
    let good = [own, ("authorization", right.as_str()), ("origin", "http://localhost:1")];
    let (status, answer) = rig.press(&good, off()).await;
    assert_eq!((status, &answer["changed"]), (StatusCode::OK, &json!(1)), "{answer}");
    assert_eq!(rig.annotation().await.as_deref(), Some("off"));
    rig.until(|feed| feed.look(|world| world.is_off("n1"))).await;
    rig.feed.publish(Timestamp::now());

    let (status, answer) = rig.press(&good, json!({ "off": true })).await;
    assert_eq!((status, &answer["already"]), (StatusCode::OK, &json!(1)), "twice is harmless");
    let (status, _) = rig.press(&[own, ("authorization", "Bearer wrong")], off()).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED, "off already, but not for everyone to say");
    let (status, _) = rig.press(&good, json!({ "node": "n2", "off": true })).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let (status, _) = rig.press(&good, json!({ "off": true, "also": 1 })).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);

    let (_, answer) = rig.press(&good, json!({ "off": false })).await;
    assert_eq!(answer["changed"], 1);
    assert_eq!(rig.annotation().await, None);
}

#[tokio::test]
async fn a_console_without_a_door_has_no_switch() {
    let console = Console { feed: Feed::default(), door: None };
    let router = console.router(true, CancellationToken::new());
    let request = Request::post("/api/switch")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .body(Body::from(r#"{"off":true}"#))
        .unwrap();
    assert_eq!(router.oneshot(request).await.unwrap().status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn listeners_hear_of_each_new_version_and_of_the_end() {
    let shutdown = CancellationToken::new();
    let feed = Feed::default();
    let console = Console { feed: feed.clone(), door: None };
    let router = console.router(true, shutdown.clone());
    let request =
        Request::get("/api/live").header("host", "localhost").body(Body::empty()).unwrap();
    let mut body = router.oneshot(request).await.unwrap().into_body();
    let mut next = async || {
        let frame = body.frame().await?.unwrap();
        Some(String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap())
    };
    assert_eq!(next().await.unwrap(), "event: changed\nid: 0\ndata: 0\n\n");
    feed.publish(Timestamp::now());
    assert_eq!(next().await.unwrap(), "event: changed\nid: 1\ndata: 1\n\n");
    shutdown.cancel();
    assert_eq!(next().await, None);
}
