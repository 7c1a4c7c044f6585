//! A cluster in this process: API server, controllers, a clock that stands still.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use api::kind::{NodeMetric, NodeSlo};
use apiserver::http::{ApiServer, Options, router};
use apiserver::store::{Limits, Store};
use axum::body::Body;
use axum::http::{Method, Request, Response, StatusCode};
use control::caches::Caches;
use control::instruments::Instruments;
use control::leader::Leadership;
use control::{Clock, Shared, caches, intake, node_metric, node_resource, node_slo};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// How long anything may take. Reached only when something is broken.
const LIMIT: Duration = Duration::from_secs(30);

pub(crate) const NAMESPACE: &str = "koordinator-system";
pub(crate) const CONFIG: &str = "slo-controller-config";
pub(crate) const BATCH_CPU: &str = "kubernetes.io/batch-cpu";

/// What goes wrong between the controllers and the server, and what they wrote.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    /// Answers to patches of node status that will be a conflict.
    pub(crate) conflicts: AtomicUsize,
    /// Watches that will be told that their history is gone.
    pub(crate) expired: AtomicUsize,
    /// The server does not answer but for what is under way.
    pub(crate) is_away: AtomicBool,
    writes: Mutex<Vec<String>>,
}

impl Wire {
    /// What the controllers wrote since the last question, events aside.
    pub(crate) fn take_writes(&self) -> Vec<String> {
        let mut writes = std::mem::take(&mut *self.writes.lock());
        writes.retain(|write| !write.contains("/events"));
        writes
    }

    fn refuse(&self, request: &Request<kube::client::Body>) -> Option<Response<Body>> {
        let path = request.uri().path();
        let query = request.uri().query().unwrap_or_default();
        let less = |left: &AtomicUsize| {
            left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
                .is_ok()
        };
        if self.is_away.load(Ordering::SeqCst) {
            return Some(failure(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"));
        }
        if path.ends_with("/status") && request.method() == Method::PATCH && less(&self.conflicts) {
            return Some(failure(StatusCode::CONFLICT, "Conflict"));
        }
        if query.contains("watch=true") && path.contains("nodemetrics") && less(&self.expired) {
            return Some(failure(StatusCode::GONE, "Expired"));
        }
        if request.method() != Method::GET {
            self.writes.lock().push(format!("{} {path}", request.method()));
        }
        None
    }
}

fn failure(code: StatusCode, reason: &str) -> Response<Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": "made to fail", "reason": reason, "code": code.as_u16()});
    Response::builder().status(code).body(status.to_string().into()).unwrap()
}

pub(crate) struct Rig {
    /// Straight to the server.
    pub(crate) client: Client,
    pub(crate) wire: Arc<Wire>,
    pub(crate) shared: Shared,
    now: Arc<Mutex<Timestamp>>,
    shutdown: CancellationToken,
    running: JoinSet<()>,
}

/// A cluster without nodes, in which this process leads.
pub(crate) async fn rig() -> Rig {
    rig_with(Leadership::alone()).await
}

pub(crate) async fn rig_with(leadership: Leadership) -> Rig {
    let store = Store::in_memory(Limits::default()).expect("a writer thread can be started");
    let server = ApiServer::start(store, Options::default()).await;
    let client = Client::new(router(server.clone()), "default");
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in api::kind::definitions() {
        crds.create(&PostParams::default(), &crd).await.expect("the definition is new");
    }
    served(&client).await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.expect("the namespace is new");

    let wire = Arc::new(Wire::default());
    let (inner, faults) = (router(server), wire.clone());
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (inner, refused) = (inner.clone(), faults.refuse(&request));
        async move {
            match refused {
                Some(response) => Ok(response),
                None => inner.oneshot(request).await,
            }
        }
    });
    let now = Arc::new(Mutex::new(Timestamp::now()));
    let (intake, configs) = intake::channel();
    let clock = now.clone();
    let shared = Shared {
        client: Client::new(service, "default"),
        caches: Caches::new(),
        configs,
        leadership,
        instruments: Instruments::register(&prometheus::Registry::new()).unwrap(),
        clock: Clock::from_fn(move || *clock.lock()),
    };
    let (shutdown, mut running) = (CancellationToken::new(), JoinSet::new());
    let (s, stop) = (shared.clone(), || shutdown.clone());
    running.spawn(intake::run(
        intake,
        intake::Settings::default(),
        s.client.clone(),
        s.leadership.clone(),
        s.instruments.clone(),
        stop(),
    ));
    running.spawn(caches::run(s.clone(), stop()));
    running.spawn(node_metric::run(s.clone(), stop()));
    running.spawn(node_slo::run(s.clone(), stop()));
    running.spawn(node_resource::run(s, node_resource::Options::default(), stop()));
    Rig { client, wire, shared, now, shutdown, running }
}

async fn served(client: &Client) {
    let metrics: Api<NodeMetric> = Api::all(client.clone());
    let slos: Api<NodeSlo> = Api::all(client.clone());
    while metrics.list(&Default::default()).await.is_err()
        || slos.list(&Default::default()).await.is_err()
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

impl Rig {
    pub(crate) fn all<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>,
    {
        Api::all(self.client.clone())
    }

    pub(crate) fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub(crate) fn now(&self) -> Timestamp {
        *self.now.lock()
    }

    pub(crate) fn pass(&self, time: SignedDuration) {
        *self.now.lock() += time;
    }

    /// A node of 64 cores and 256 GiB, of which the kubelet offers 62 and 248.
    pub(crate) async fn add_node(&self, name: &str) -> Node {
        let node = json!({"metadata": {"name": name, "labels": {"pool": "a"}}, "status": {
            "capacity": {"cpu": "64", "memory": "256Gi"},
            "allocatable": {"cpu": "62", "memory": "248Gi"}}});
        create(&self.all::<Node>(), node).await
    }

    pub(crate) async fn configure(&self, colocation: Value) {
        self.configure_all(json!({"colocation-config": colocation.to_string()})).await;
    }

    pub(crate) async fn configure_all(&self, data: Value) {
        let maps = self.config_maps();
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": CONFIG, "namespace": NAMESPACE}, "data": data});
        let params = PatchParams::apply("test").force();
        maps.patch(CONFIG, &params, &Patch::Apply(&map)).await.expect("the ConfigMap is accepted");
    }

    /// The node's agent reports that the system uses so many milli-cores.
    pub(crate) async fn report(&self, node: &str, milli_cores: i64, at: Timestamp) {
        let metrics = self.all::<NodeMetric>();
        until(&metrics, node, "created", |_| true).await;
        let usage = json!({"resources": {"cpu": format!("{milli_cores}m"), "memory": "9Gi"}});
        let status = json!({"status": {"updateTime": at.to_string(), "nodeMetric": {
            "nodeUsage": usage, "systemUsage": usage}}});
        let patch = Patch::Merge(&status);
        metrics.patch_status(node, &PatchParams::default(), &patch).await.expect("a report");
    }

    /// The kubelet says that the node is alive.
    pub(crate) async fn beat(&self, node: &str) {
        let stamp = self.now().as_nanosecond().to_string();
        let patch = json!({"metadata": {"annotations": {"test/beat": stamp}}});
        let patch = Patch::Merge(&patch);
        self.all::<Node>().patch(node, &PatchParams::default(), &patch).await.expect("a node");
    }

    /// Waits until everything that happened was looked at.
    pub(crate) async fn settle(&self) {
        // Writes come within milliseconds of their cause; a quiet moment means that none is due.
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) async fn stop(mut self) {
        self.shutdown.cancel();
        while let Some(ended) = self.running.join_next().await {
            ended.expect("tasks end when they are told to");
        }
    }
}

pub(crate) async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    let object: K = serde_json::from_value(object).expect("the object has its kind's shape");
    api.create(&PostParams::default(), &object).await.expect("the object is accepted")
}

/// Batch CPU as the node shows it.
pub(crate) fn batch_cpu(node: &Node) -> Option<i64> {
    let list = node.status.as_ref()?.allocatable.as_ref()?;
    Some(api::resources::amount(list.get(BATCH_CPU)?).value())
}

pub(crate) async fn until<K>(api: &Api<K>, name: &str, what: &str, is_so: impl Fn(&K) -> bool) -> K
where
    K: Clone + Debug + DeserializeOwned,
{
    let waiting = async {
        loop {
            if let Some(object) = api.get_opt(name).await.expect("the server answers")
                && is_so(&object)
            {
                return object;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    match tokio::time::timeout(LIMIT, waiting).await {
        Ok(object) => object,
        Err(_) => panic!("{name}: never {what}: {:#?}", api.get_opt(name).await),
    }
}

pub(crate) async fn until_gone<K>(api: &Api<K>, name: &str)
where
    K: Clone + Debug + DeserializeOwned,
{
    let waiting = async {
        while api.get_opt(name).await.expect("the server answers").is_some() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(LIMIT, waiting).await.is_ok(), "{name}: still there");
}
