//! A cluster in this process: API server, controllers, a clock that stands still.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use api::kind::{NodeMetric, NodeResourceTopology, NodeSlo};
use apiserver::http::{ApiServer, Options, router};
use apiserver::store::{Limits, Store};
use axum::body::Body;
use axum::http::{Method, Request, Response, StatusCode};
use control::caches::{Caches, Filed, NodeName, World};
use control::instruments::Instruments;
use control::{Clock, Shared, caches, intake, node_metric, node_resource, node_slo};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use parking_lot::Mutex;
use reconcile::elect::Leadership;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::wait::until as until_so;
pub(crate) use testkit::wait::until_object as until;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

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
    /// Every answer comes this many milliseconds late.
    pub(crate) delay: AtomicU64,
    /// Writes that will never be answered.
    pub(crate) hangs: AtomicUsize,
    writes: Mutex<Vec<String>>,
}

impl Wire {
    /// What the controllers wrote since the last question, events aside.
    pub(crate) fn take_writes(&self) -> Vec<String> {
        let mut writes = std::mem::take(&mut *self.writes.lock());
        writes.retain(|write| !write.contains("/events"));
        writes
    }

    /// What happens to a request on its way.
    fn meet(&self, request: &Request<kube::client::Body>) -> Fate {
        if request.method() != Method::GET && less(&self.hangs) {
            return Fate::Hangs;
        }
        match self.refuse(request) {
            Some(response) => Fate::Refused(response),
            None => Fate::Passes(Duration::from_millis(self.delay.load(Ordering::SeqCst))),
        }
    }

    fn refuse(&self, request: &Request<kube::client::Body>) -> Option<Response<Body>> {
        let path = request.uri().path();
        let query = request.uri().query().unwrap_or_default();
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

enum Fate {
    Passes(Duration),
    Refused(Response<Body>),
    Hangs,
}

fn less(left: &AtomicUsize) -> bool {
    let one_less = |left: usize| left.checked_sub(1);
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok()
}

fn failure(code: StatusCode, reason: &str) -> Response<Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": "made to fail", "reason": reason, "code": code.as_u16()});
    Response::builder().status(code).body(status.to_string().into()).expect("a plain response")
}

pub(crate) struct Rig {
    /// Straight to the server.
    pub(crate) client: Client,
    server: ApiServer,
    now: Arc<Mutex<Timestamp>>,
    manager: Controllers,
}

/// The controllers of one manager, with their own way to the server.
pub(crate) struct Controllers {
    pub(crate) wire: Arc<Wire>,
    pub(crate) shared: Shared,
    shutdown: CancellationToken,
    running: JoinSet<()>,
}

/// The first manager's are at hand.
impl std::ops::Deref for Rig {
    type Target = Controllers;

    fn deref(&self) -> &Controllers {
        &self.manager
    }
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
    let namespace =
        serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).expect("a namespace");
    namespaces.create(&PostParams::default(), &namespace).await.expect("the namespace is new");

    let now = Arc::new(Mutex::new(Timestamp::now()));
    let manager = Controllers::start(&server, leadership, Default::default(), &now);
    Rig { client, server, now, manager }
}

impl Controllers {
    fn start(
        server: &ApiServer,
        leadership: Leadership,
        options: node_resource::Options,
        now: &Arc<Mutex<Timestamp>>,
    ) -> Self {
        let wire = Arc::new(Wire::default());
        let (inner, faults) = (router(server.clone()), wire.clone());
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let (inner, fate) = (inner.clone(), faults.meet(&request));
            async move {
                match fate {
                    Fate::Refused(response) => Ok(response),
                    Fate::Hangs => std::future::pending().await,
                    Fate::Passes(delay) => {
                        if !delay.is_zero() {
                            tokio::time::sleep(delay).await;
                        }
                        inner.oneshot(request).await
                    }
                }
            }
        });
        let (intake, configs) = intake::channel();
        let clock = now.clone();
        let instruments =
            Instruments::register(&prometheus::Registry::new()).expect("names are free");
        let shared = Shared {
            client: Client::new(service, "default"),
            caches: Caches::new(),
            configs,
            leadership,
            instruments,
            clock: Clock::from_fn(move || *clock.lock()),
            patience: Duration::from_millis(300),
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
        running.spawn(node_resource::run(s, options, stop()));
        Self { wire, shared, shutdown, running }
    }

    /// Is everything known that `fresh` shows?
    fn knows(&self, fresh: &World) -> bool {
        let same = |name: &NodeName, world: &World| match (world.get(name), fresh.get(name)) {
            (Some(known), Some(fresh)) => {
                known.node == fresh.node
                    && known.metric == fresh.metric
                    && known.slo == fresh.slo
                    && known.topology == fresh.topology
            }
            _ => false,
        };
        self.shared
            .caches
            .with(|world| world.len() == fresh.len() && fresh.names().all(|name| same(name, world)))
    }

    pub(crate) async fn stop(mut self) {
        self.shutdown.cancel();
        while let Some(ended) = self.running.join_next().await {
            ended.expect("tasks end when they are told to");
        }
    }
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

    /// A second manager beside the first, on the same server.
    pub(crate) fn second(
        &self,
        leadership: Leadership,
        options: node_resource::Options,
    ) -> Controllers {
        Controllers::start(&self.server, leadership, options, &self.now)
    }

    /// Waits until everything that happened was looked at: the caches show what the server holds,
    /// and no worker has or waits for a node. Where nobody leads, nodes may wait.
    pub(crate) async fn settle(&self) {
        self.settle_on(&self.manager).await;
    }

    pub(crate) async fn settle_on(&self, manager: &Controllers) {
        let leadership = &manager.shared.leadership;
        until_so("everything was looked at", || async {
            let fresh = self.fresh().await;
            let caches = &manager.shared.caches;
            let rests = if leadership.is_held() { caches.is_idle() } else { caches.is_at_rest() };
            (manager.knows(&fresh) && rests).then_some(())
        })
        .await;
    }

    /// The cluster as whoever comes new would see it.
    async fn fresh(&self) -> World {
        let mut world = World::default();
        self.file::<Node>(&mut world).await;
        self.file::<NodeMetric>(&mut world).await;
        self.file::<NodeSlo>(&mut world).await;
        self.file::<NodeResourceTopology>(&mut world).await;
        world
    }

    async fn file<K>(&self, world: &mut World)
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
            + Filed
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let list = self.all::<K>().list(&Default::default()).await.expect("the server answers");
        for object in list {
            object.apply(world);
        }
    }

    pub(crate) async fn stop(self) {
        self.manager.stop().await;
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

pub(crate) async fn until_gone<K>(api: &Api<K>, name: &str)
where
    K: Clone + Debug + DeserializeOwned,
{
    until_so(&format!("{name} is gone"), || async {
        api.get_opt(name).await.expect("the server answers").is_none().then_some(())
    })
    .await;
}
