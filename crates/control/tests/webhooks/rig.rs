//! An API server and managers in this process; webhooks are called over TLS on loopback.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::protocol::gate::{Gates, ManagerGate};
use apiserver::http::{ApiServer, Options as ApiOptions, router};
use apiserver::store::{Limits, Store};
use control::manager::{Manager, ManagerError, Options, Status};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use reconcile::elect;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
pub(crate) use testkit::wait::{LIMIT, until};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::Service;

pub(crate) const NAMESPACE: &str = "koordinator-system";

/// What goes wrong between a manager and its API server.
#[derive(Clone, Default)]
pub(crate) struct Faults(Arc<AtomicU8>, Arc<Waits>);

/// Requests that wait for ever because of their path.
#[derive(Default)]
struct Waits {
    path: Mutex<Option<String>>,
    count: AtomicU8,
}

impl Faults {
    /// No request arrives.
    pub(crate) fn cut(&self) {
        self.0.store(1, Ordering::SeqCst);
    }

    /// Requests wait for ever.
    pub(crate) fn hang(&self) {
        self.0.store(2, Ordering::SeqCst);
    }

    /// Changes of what is at this path wait for ever.
    pub(crate) fn hang_at(&self, path: &str) {
        *self.1.path.lock().expect("no test panics with the path") = Some(path.to_owned());
    }

    /// How many requests wait because of their path.
    pub(crate) fn waiting(&self) -> u8 {
        self.1.count.load(Ordering::SeqCst)
    }

    /// Whether this request waits for ever.
    fn hangs(&self, request: &http::Request<kube::client::Body>) -> bool {
        let path = self.1.path.lock().expect("no test panics with the path").clone();
        let is_meant = path.is_some_and(|path| request.uri().path().ends_with(&path));
        is_meant && request.method() == http::Method::PATCH
    }

    pub(crate) fn heal(&self) {
        self.0.store(0, Ordering::SeqCst);
    }
}

pub(crate) struct Cluster {
    server: ApiServer,
    pub(crate) client: Client,
}

impl Cluster {
    /// With our definitions, priority classes and the namespace of an install.
    pub(crate) async fn start() -> Self {
        let cluster = Self::without_namespace().await;
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        cluster.apply(namespace).await;
        cluster
    }

    pub(crate) async fn without_namespace() -> Self {
        let store = Store::in_memory(Limits::default()).expect("a writer thread can be started");
        let server = ApiServer::start(store, ApiOptions::default()).await;
        let client = Client::new(router(server.clone()), "default");
        let cluster = Self { server, client };
        for definition in api::kind::definitions() {
            cluster.apply(json!(definition)).await;
        }
        let classes = [("koord-prod", 9000), ("koord-mid", 7000), ("koord-batch", 5000)];
        for (name, value) in classes {
            cluster
                .apply(json!({
                    "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                    "metadata": {"name": name}, "value": value,
                }))
                .await;
        }
        cluster
    }

    /// A client with something in between.
    pub(crate) fn client_with(&self, faults: &Faults) -> Client {
        let (router, faults) = (router(self.server.clone()), faults.clone());
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let (mut router, fault) = (router.clone(), faults.0.load(Ordering::SeqCst));
            let (faults, hangs) = (faults.clone(), faults.hangs(&request));
            async move {
                if hangs {
                    faults.1.count.fetch_add(1, Ordering::SeqCst);
                    std::future::pending::<()>().await;
                }
                match fault {
                    1 => return Err(tower::BoxError::from("the network is cut")),
                    2 => std::future::pending::<()>().await,
                    _ => {}
                }
                let answer = router.call(request).await;
                Ok(answer.unwrap_or_else(|never| match never {}))
            }
        });
        Client::new(service, "default")
    }

    /// Creates or changes an object of any kind, as an administrator.
    pub(crate) async fn apply(&self, object: Value) -> Value {
        self.try_apply(object).await.expect("the object is accepted")
    }

    pub(crate) async fn try_apply(&self, object: Value) -> Result<Value, kube::Error> {
        let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default();
        let (group, version) = match text("/apiVersion").split_once('/') {
            Some((group, version)) => (group, version),
            None => ("", text("/apiVersion")),
        };
        let kind = kube::core::GroupVersionKind::gvk(group, version, text("/kind"));
        let resource = kube::api::ApiResource::from_gvk(&kind);
        let namespace = text("/metadata/namespace");
        let api: Api<kube::api::DynamicObject> = match namespace {
            "" => Api::all_with(self.client.clone(), &resource),
            namespace => Api::namespaced_with(self.client.clone(), namespace, &resource),
        };
        let params = PatchParams::apply("admin").force();
        let applied = api.patch(text("/metadata/name"), &params, &Patch::Apply(&object)).await?;
        Ok(serde_json::to_value(applied).expect("objects are JSON"))
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), "default")
    }
}

/// A manager that is alone, called by URL on loopback.
pub(crate) fn options() -> Options {
    let loopback = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let ready_within = Some(LIMIT);
    Options { health: loopback, metrics: loopback, ready_within, ..Options::on_one_machine() }
}

/// One of several replicas, with short times.
pub(crate) fn replica(name: &str) -> Options {
    let settings = elect::Settings {
        length: Duration::from_secs(2),
        deadline: Duration::from_millis(1500),
        retry: Duration::from_millis(200),
        ..elect::Settings::manager(name.to_owned())
    };
    Options { election: Some(settings), ..options() }
}

pub(crate) fn with_gates(mut options: Options, gates: &[ManagerGate]) -> Options {
    let mut on = Gates::default();
    gates.iter().for_each(|gate| on.set(*gate, true));
    options.webhook.rules.gates = on.clone();
    options.colocation_profile.gates = on.clone();
    options.gates = on;
    options
}

pub(crate) struct Running {
    pub(crate) status: Status,
    stop: CancellationToken,
    task: JoinHandle<Result<(), ManagerError>>,
}

/// Starts a manager and does not wait for anything.
pub(crate) async fn start(client: Client, options: Options) -> Running {
    let manager = Manager::bind(client, options).await.expect("loopback has free ports");
    let (status, stop) = (manager.status(), CancellationToken::new());
    let task = tokio::spawn(manager.run(stop.clone()));
    Running { status, stop, task }
}

/// Starts a manager and waits for its webhooks.
pub(crate) async fn ready(client: Client, options: Options) -> Running {
    let mut running = start(client, options).await;
    running.until_ready().await;
    running
}

impl Running {
    pub(crate) async fn until_ready(&mut self) {
        let webhooks = self.status.webhooks.as_mut().expect("webhooks are on");
        tokio::time::timeout(LIMIT, webhooks.until_ready()).await.expect("webhooks become ready");
    }

    pub(crate) async fn until_leading(&self) {
        let mut leadership = self.status.leadership.clone();
        tokio::time::timeout(LIMIT, leadership.until_held()).await.expect("somebody leads");
    }

    pub(crate) fn leads(&self) -> bool {
        self.status.leadership.is_held()
    }

    /// Ends it in good order.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("it does not panic").expect("it ends well");
    }

    /// Ends it as a power cut would.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    /// Waits until it ends by itself.
    pub(crate) async fn end(self) -> Result<(), ManagerError> {
        tokio::time::timeout(LIMIT, self.task).await.expect("it ends").expect("it does not panic")
    }
}

pub(crate) async fn create<K>(api: &Api<K>, object: Value) -> Result<K, String>
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    let object: K = serde_json::from_value(object).expect("the object has its kind's shape");
    api.create(&PostParams::default(), &object).await.map_err(|error| match error {
        kube::Error::Api(status) => status.message,
        other => other.to_string(),
    })
}

pub(crate) fn pod(name: &str, labels: Value, priority_class: &str, resources: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {
            "priorityClassName": priority_class,
            "containers": [{"name": "main", "image": "nginx", "resources": resources}],
        },
    })
}

/// Says a plain HTTP request and returns status and body.
pub(crate) async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    say(address, "GET", path, "").await
}

pub(crate) async fn say(
    address: SocketAddr,
    method: &str,
    path: &str,
    body: &str,
) -> (u16, String) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("somebody listens");
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.expect("the request is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("the answer is text");
    let status = answer.get(9..12).and_then(|code| code.parse().ok()).expect("a status line");
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    (status, body.unwrap_or_default())
}
