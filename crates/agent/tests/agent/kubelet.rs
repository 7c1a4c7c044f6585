//! A kubelet that is down, slow, confused or well.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use agent::exposition::Exposition;
use agent::health::Health;
use agent::kubelet::{Access, Identity, Kubelet, Settings, Trust, endpoint};
use agent::object::Seen;
use agent::pods::from_kubelet;
use groups::{Driver, Layout};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use k8s_openapi::api::core::v1::Node;
use parking_lot::Mutex;
use qos::node::Pods;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::loopback::Loopback;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::rig::{bare, create_pod, read, until};

/// What the kubelet answers.
#[derive(Debug, Clone)]
enum Mood {
    Lists(Vec<(&'static str, &'static str)>),
    Says(u16, &'static str),
    Truncates,
    Sleeps,
}

/// A path and the token that was shown.
type Asked = (String, Option<String>);

struct Fake {
    mood: Arc<Mutex<Mood>>,
    asked: Arc<Mutex<Vec<Asked>>>,
    server: Loopback,
    dir: TempDir,
}

impl Fake {
    async fn start(mood: Mood) -> Self {
        let mood = Arc::new(Mutex::new(mood));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (moods, log) = (mood.clone(), asked.clone());
        let service = tower::service_fn(move |request: Request<Incoming>| {
            let token = request.headers().get("authorization");
            let token = token.and_then(|token| token.to_str().ok()).map(str::to_owned);
            log.lock().push((request.uri().path().to_owned(), token));
            let mood = moods.lock().clone();
            async move { Ok::<_, Infallible>(answer(mood).await) }
        });
        let server = Loopback::start(service).await.expect("loopback has a free port");
        let dir = tempfile::tempdir().expect("there is room");
        std::fs::write(dir.path().join("ca.crt"), &server.authority).expect("there is room");
        std::fs::write(dir.path().join("token"), "secret").expect("there is room");
        Self { mood, asked, server, dir }
    }

    fn turn(&self, mood: Mood) {
        *self.mood.lock() = mood;
    }

    fn asked(&self) -> usize {
        self.asked.lock().len()
    }

    fn settings(&self, trust: Trust) -> Settings {
        let identity = Identity::TokenFile(self.dir.path().join("token"));
        Settings {
            access: Access::Secure { trust, identity },
            interval: Duration::from_millis(50),
            timeout: Duration::from_millis(500),
            ..Settings::default()
        }
    }

    fn trusted(&self) -> Settings {
        self.settings(Trust::Authority(Some(self.dir.path().join("ca.crt"))))
    }

    fn node(&self) -> Node {
        read(json!({
            "metadata": { "name": "n1" },
            "status": {
                "addresses": [{ "type": "InternalIP", "address": "127.0.0.1" }],
                "daemonEndpoints": { "kubeletEndpoint": { "Port": self.server.port } },
            },
        }))
    }
}

async fn answer(mood: Mood) -> Response<Full<Bytes>> {
    let (status, text) = match mood {
        Mood::Lists(pods) => (200, list(&pods)),
        Mood::Says(status, text) => (status, text.to_owned()),
        Mood::Truncates => {
            let whole = list(&[("a", "n1"), ("b", "n1")]);
            (200, whole.get(..whole.len() / 2).unwrap_or_default().to_owned())
        }
        Mood::Sleeps => std::future::pending().await,
    };
    Response::builder().status(status).body(Full::new(Bytes::from(text))).expect("a response")
}

fn list(pods: &[(&str, &str)]) -> String {
    let items: Vec<Value> = pods
        .iter()
        .map(|(name, node)| {
            json!({
                "metadata": { "name": name, "namespace": "d", "uid": name },
                "spec": { "nodeName": node, "containers": [] },
                "status": { "phase": "Running" },
            })
        })
        .collect();
    json!({ "kind": "PodList", "apiVersion": "v1", "items": items }).to_string()
}

/// The task that asks, and what it has found.
struct Asking {
    pods: watch::Receiver<Pods>,
    health: Health,
    changes: mpsc::Sender<agent::pleg::Change>,
    client: kube::Client,
    shutdown: CancellationToken,
}

impl Asking {
    async fn start(settings: Settings, node: Node) -> Self {
        Self::start_with(settings, node, bare().await)
    }

    fn start_with(settings: Settings, node: Node, client: kube::Client) -> Self {
        let health = Health::default();
        let (changes, received) = mpsc::channel(8);
        let (_, seen) = watch::channel(Seen::Present(Arc::new(node)));
        let asking = from_kubelet::Asking {
            node_name: "n1".to_owned(),
            layout: Layout::new(Driver::Cgroupfs),
            settings,
            node: seen,
            changes: received,
            metrics: Exposition::new("n1"),
            part: health.part("pods"),
        };
        let (sender, pods) = watch::channel(Pods::default());
        let (connected, _) = watch::channel(None);
        let shutdown = CancellationToken::new();
        let follow =
            from_kubelet::follow(asking, client.clone(), sender, connected, shutdown.clone());
        tokio::spawn(follow);
        Self { pods, health, changes, client, shutdown }
    }

    fn names(&self) -> Vec<String> {
        self.pods.borrow().values().map(|pod| pod.name.clone()).collect()
    }

    async fn until_names(&self, want: &[&str]) {
        until(&format!("{want:?}"), async || (self.names() == want).then_some(())).await;
    }

    fn lacks(&self) -> String {
        self.health.lacking().into_iter().map(|(_, reason)| reason).collect()
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

#[tokio::test]
async fn pods_come_from_the_kubelet_with_our_token() {
    let fake = Fake::start(Mood::Lists(vec![("a", "n1"), ("b", "n1"), ("other", "n2")])).await;
    let asking = Asking::start(fake.trusted(), fake.node()).await;
    asking.until_names(&["a", "b"]).await;
    let first = fake.asked.lock()[0].clone();
    assert_eq!(first, ("/pods/".to_owned(), Some("Bearer secret".to_owned())));
    assert_eq!(asking.health.lacking(), []);
    fake.turn(Mood::Lists(vec![("b", "n1")]));
    asking.until_names(&["b"]).await;
}

#[tokio::test]
async fn a_kubelet_in_trouble_does_not_make_pods_vanish() {
    let moods = [
        ("down", Mood::Says(503, "")),
        ("unauthorized", Mood::Says(401, "Unauthorized")),
        ("garbage", Mood::Says(200, "<html>")),
        ("empty", Mood::Lists(Vec::new())),
        ("only foreign pods", Mood::Lists(vec![("x", "n2")])),
        ("truncated", Mood::Truncates),
        ("slow", Mood::Sleeps),
    ];
    let client = bare().await;
    // The API server knows the pod too, so that standing in for the kubelet changes nothing.
    create_pod(&client, "a", "n1").await;
    for (name, mood) in moods {
        let fake = Fake::start(Mood::Lists(vec![("a", "n1")])).await;
        let mut settings = fake.trusted();
        settings.timeout = Duration::from_millis(100);
        let asking = Asking::start_with(settings, fake.node(), client.clone());
        asking.until_names(&["a"]).await;
        fake.turn(mood);
        let before = fake.asked();
        until("asked twice more", async || (fake.asked() >= before + 2).then_some(())).await;
        assert_eq!(asking.names(), ["a"], "{name}");
    }
}

#[tokio::test]
async fn the_api_server_stands_in_until_the_kubelet_is_back() {
    let fake = Fake::start(Mood::Says(503, "")).await;
    let asking = Asking::start(fake.trusted(), fake.node()).await;
    create_pod(&asking.client, "known", "n1").await;
    create_pod(&asking.client, "elsewhere", "n2").await;
    asking.until_names(&["known"]).await;
    until("ready", async || asking.lacks().is_empty().then_some(())).await;
    create_pod(&asking.client, "later", "n1").await;
    until("seen by watch", async || (asking.names().len() == 2).then_some(())).await;
    fake.turn(Mood::Lists(vec![("a", "n1")]));
    asking.until_names(&["a"]).await;
}

#[tokio::test]
async fn a_change_of_control_groups_is_asked_about_at_once() {
    let fake = Fake::start(Mood::Lists(vec![("a", "n1")])).await;
    let settings = Settings { interval: Duration::from_secs(3600), ..fake.trusted() };
    let asking = Asking::start(settings, fake.node()).await;
    asking.until_names(&["a"]).await;
    let before = fake.asked();
    fake.turn(Mood::Lists(vec![("a", "n1"), ("b", "n1")]));
    let change = agent::pleg::Change::PodCame { uid: "b".to_owned() };
    asking.changes.send(change).await.unwrap();
    asking.until_names(&["a", "b"]).await;
    assert_eq!(fake.asked(), before + 1, "and not by polling");
}

#[tokio::test]
async fn a_kubelet_nobody_vouches_for_gets_no_token_unless_told() {
    let fake = Fake::start(Mood::Lists(vec![("a", "n1")])).await;
    let metrics = Exposition::new("n1");
    let ask = async |trust: Trust| {
        let settings = fake.settings(trust);
        let place = endpoint(&fake.node(), &settings).unwrap();
        Kubelet::new(&place, &settings, metrics.clone()).unwrap().pods("n1").await
    };
    let stranger = Fake::start(Mood::Says(404, "")).await;
    let wrong = stranger.dir.path().join("ca.crt");
    assert!(ask(Trust::Authority(Some(wrong))).await.is_err());
    assert_eq!(fake.asked(), 0, "the request never left");
    assert_eq!(ask(Trust::Anybody).await.unwrap().pods.len(), 1);
}
