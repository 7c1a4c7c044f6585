//! An agent on a fake host, and the API server it reports to.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent::status::cadence;
use agent::{Config, RunError};
use api::kind::{NodeMetric, definitions};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::embedded::{in_process, router};
pub(crate) use testkit::wait::{LIMIT, until};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::gate::Gate;
use crate::host::Host;

pub(crate) struct Rig {
    /// Reaches the server whatever happens at the gate.
    pub(crate) client: Client,
    pub(crate) gate: Gate,
    pub(crate) host: Host,
    /// Where the agent serves.
    pub(crate) address: String,
    shutdown: CancellationToken,
    running: JoinHandle<Result<(), RunError>>,
    state: TempDir,
    change: Box<dyn Fn(&mut Config)>,
}

/// A server that has nothing of ours.
pub(crate) async fn bare() -> Client {
    let server = in_process().await.expect("a server starts");
    Client::new(router(server), "default")
}

/// A server with our kinds and one node; no agent yet.
async fn server() -> (Client, Gate) {
    let server = in_process().await.expect("a server starts");
    let routes = router(server);
    let client = Client::new(routes.clone(), "default");
    let crds = Api::all(client.clone());
    for definition in definitions() {
        crds.create(&PostParams::default(), &definition).await.expect("the definition is new");
    }
    let node = json!({
        "metadata": { "name": "n1" },
        "status": {
            "capacity": { "cpu": "2", "memory": "4Gi" },
            "allocatable": { "cpu": "2", "memory": "4Gi" },
        },
    });
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.create(&PostParams::default(), &read(node)).await.expect("the node is new");
    (client, Gate::new(routes))
}

impl Rig {
    /// Starts an agent that samples quickly and reports as soon as it can, on every change.
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(change: impl Fn(&mut Config) + 'static) -> Self {
        let (client, gate) = server().await;
        let host = Host::start();
        let state = tempfile::tempdir().expect("there is room for a directory");
        let change: Box<dyn Fn(&mut Config)> = Box::new(change);
        let (address, shutdown, running) = launch(&host, &gate, state.path(), &change).await;
        Self { client, gate, host, address, shutdown, running, state, change }
    }

    /// kill -9, and another process with the same directory.
    pub(crate) async fn kill_and_start(&mut self) {
        self.running.abort();
        let _ = (&mut self.running).await;
        (self.address, self.shutdown, self.running) =
            launch(&self.host, &self.gate, self.state.path(), &self.change).await;
    }

    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        let ended = tokio::time::timeout(LIMIT, self.running).await;
        ended.expect("the agent stops in time").expect("no panic").expect("no part failed");
    }

    /// Waits for an agent that ends by itself.
    pub(crate) async fn ends(self) -> Result<(), RunError> {
        let ended = tokio::time::timeout(LIMIT, self.running).await;
        ended.expect("the agent ends").expect("its task does not panic")
    }

    pub(crate) fn metrics(&self) -> Api<NodeMetric> {
        Api::all(self.client.clone())
    }

    pub(crate) async fn add_node_metric(&self) {
        let object = json!({ "metadata": { "name": "n1" }, "spec": {} });
        let object = NodeMetric { spec: Default::default(), ..named(object) };
        self.metrics().create(&PostParams::default(), &object).await.expect("the object is new");
    }

    /// Makes a pod and its control group.
    pub(crate) async fn add_pod(&self, name: &str) -> String {
        let uid = create_pod(&self.client, name, "n1").await;
        let dir = format!("tidepool/kubepods/besteffort/pod{uid}");
        self.host.add_pod(&dir);
        dir
    }

    pub(crate) async fn delete_pod(&self, name: &str, dir: &str) {
        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        let now = DeleteParams::default().grace_period(0);
        pods.delete(name, &now).await.expect("the pod is there");
        self.host.remove_pod(dir);
    }

    /// What the agent serves at a path.
    pub(crate) async fn ask(&self, path: &str) -> (u16, String) {
        let base = format!("http://{}", self.address).parse().expect("an address");
        let mut config = kube::Config::new(base);
        // Not ready is an answer.
        config.default_retry = false;
        let client = Client::try_from(config).expect("a plain client");
        let request = http::Request::get(path).body(kube::client::Body::empty()).expect("a path");
        let response = client.send(request).await.expect("the agent answers");
        let status = response.status().as_u16();
        let body = http_body_util::BodyExt::collect(response.into_body()).await.expect("a body");
        (status, String::from_utf8(body.to_bytes().to_vec()).expect("text"))
    }
}

type Running = JoinHandle<Result<(), RunError>>;

async fn launch(
    host: &Host,
    gate: &Gate,
    state: &Path,
    change: &dyn Fn(&mut Config),
) -> (String, CancellationToken, Running) {
    let fs = Arc::new(host.fs.clone());
    let mut config = Config::one_machine("n1", fs, "tidepool", state.to_owned());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound port has a number").to_string();
    config.listener = Some(listener);
    config.collect.usage_interval = Duration::from_millis(100);
    config.topology_interval = Duration::from_millis(50);
    config.report =
        Some(cadence::Settings { adaptive: true, first_after: Duration::from_millis(500) });
    change(&mut config);
    let shutdown = CancellationToken::new();
    let behind = Client::new(gate.clone(), "default");
    let running = tokio::spawn(agent::run(config, behind, shutdown.clone()));
    (address, shutdown, running)
}

fn named(object: Value) -> NodeMetric {
    let kind = json!({ "apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric" });
    let mut object = object;
    if let (Some(object), Some(kind)) = (object.as_object_mut(), kind.as_object()) {
        object.extend(kind.clone());
    }
    read(object)
}

pub(crate) fn read<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).expect("the object has its kind's shape")
}

/// Makes a pod that runs on `node`, and gives its uid.
pub(crate) async fn create_pod(client: &Client, name: &str, node: &str) -> String {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let pod = json!({
        "metadata": { "name": name, "labels": { "koordinator.sh/qosClass": "BE" } },
        "spec": { "nodeName": node, "containers": [{ "name": "c", "image": "none", "resources": {
            "requests": { "kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "1Gi" },
            "limits": { "kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "1Gi" },
        } }] },
    });
    let made = pods.create(&PostParams::default(), &read(pod)).await.expect("the pod is accepted");
    made.metadata.uid.expect("the server gives a uid")
}

/// Waits until the NodeMetric of the node is as it should be.
pub(crate) async fn until_metric(
    rig: &Rig,
    what: &str,
    is_so: impl Fn(&NodeMetric) -> bool,
) -> NodeMetric {
    let api = rig.metrics();
    until(what, async || {
        api.get_opt("n1").await.expect("the server answers").filter(|metric| is_so(metric))
    })
    .await
}

/// Names of the pods in a report.
pub(crate) fn reported(metric: &NodeMetric) -> Vec<&str> {
    let status = metric.status.iter();
    status.flat_map(|status| &status.pods_metric).filter_map(|pod| pod.name.as_deref()).collect()
}
