//! A whole cluster in this process: API server, controllers, and a node that only pretends.

use std::{fmt::Debug, pin::pin};

use apiserver::{
    http::{ApiServer, Options, router},
    store::{Limits, Store},
};
use cluster::controllers::{self, Settings};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Binding, Node, Pod};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    core::{NamespaceResourceScope, Status},
    runtime::{WatchStreamExt, watcher},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use testkit::wait;
pub(crate) use testkit::wait::until_object as until;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Annotation with which a pod tells the pretending node how it ends: `Succeeded` or `Failed`.
pub(crate) const ENDS: &str = "test/ends";

pub(crate) struct Rig {
    pub(crate) client: Client,
    node: Task,
    controllers: Task,
}

/// A task and how to end it.
struct Task {
    shutdown: CancellationToken,
    running: JoinHandle<()>,
}

impl Task {
    fn start<F>(run: impl FnOnce(CancellationToken) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(run(shutdown.clone()));
        Self { shutdown, running }
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.running.await.expect("tasks end when they are told to");
    }
}

async fn control(client: Client, shutdown: CancellationToken) {
    let run = controllers::run_with(client, Settings::default(), shutdown);
    run.await.expect("controllers run until they are told to stop");
}

/// A cluster with one node that runs nothing and says it does.
pub(crate) async fn rig() -> Rig {
    let store = Store::in_memory(Limits::default()).expect("a writer thread can be started");
    let server = ApiServer::start(store, Options::default()).await;
    let client = Client::new(router(server), "default");
    add_node(&client, "n1").await;
    let node = Task::start(|shutdown| pretend(client.clone(), shutdown));
    let controllers = Task::start(|shutdown| control(client.clone(), shutdown));
    Rig { client, node, controllers }
}

pub(crate) async fn add_node(client: &Client, name: &str) {
    let node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": name },
        "status": { "conditions": [{
            "type": "Ready", "status": "True", "reason": "Pretending",
            "lastHeartbeatTime": "2030-01-01T00:00:00Z",
            "lastTransitionTime": "2030-01-01T00:00:00Z",
        }] },
    });
    let nodes: Api<Node> = Api::all(client.clone());
    let node = serde_json::from_value(node).expect("a node");
    nodes.create(&PostParams::default(), &node).await.expect("the node is new");
}

/// Takes every pod, unless it wants another node, runs it as its annotation says, and lets those
/// go that are told to.
async fn pretend(client: Client, shutdown: CancellationToken) {
    let pods: Api<Pod> = Api::all(client.clone());
    let events = watcher::watcher(pods, watcher::Config::default()).default_backoff();
    let mut events = pin!(events.applied_objects().take_until(shutdown.cancelled_owned()));
    while let Some(event) = events.next().await {
        let Ok(pod) = event else { continue };
        let Some(namespace) = pod.namespace() else { continue };
        let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
        let is_bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        let phase = pod.status.as_ref().and_then(|status| status.phase.clone());
        // Whatever fails here has been overtaken by the next event.
        if !is_bound && pod.metadata.deletion_timestamp.is_none() {
            let _ = pods
                .create_subresource::<_, Status>(
                    "binding",
                    &pod.name_any(),
                    &PostParams::default(),
                    &binding(&pod),
                )
                .await;
        } else if pod.metadata.deletion_timestamp.is_some() {
            let _ = pods.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await;
        } else if is_bound && phase.as_deref() == Some("Pending") {
            let phase = pod.annotations().get(ENDS).map_or("Running", String::as_str);
            let ready = if phase == "Running" { "True" } else { "False" };
            let status = json!({ "status": { "phase": phase, "conditions": [{
                "type": "Ready", "status": ready, "lastTransitionTime": "2030-01-01T00:00:00Z",
            }] } });
            let params = PatchParams::default();
            let _ = pods.patch_status(&pod.name_any(), &params, &Patch::Merge(&status)).await;
        }
    }
}

/// To the node a DaemonSet wants it on, or else to the first.
fn binding(pod: &Pod) -> Binding {
    let spec = serde_json::to_value(&pod.spec).expect("a spec has a JSON form");
    let terms =
        "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let pinned = spec.pointer(&format!("{terms}/0/matchFields/0/values/0")).and_then(Value::as_str);
    let binding = json!({
        "metadata": { "name": pod.name_any(), "uid": pod.metadata.uid },
        "target": { "kind": "Node", "name": pinned.unwrap_or("n1") },
    });
    serde_json::from_value(binding).expect("a binding")
}

impl Rig {
    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) async fn create<K>(&self, api: &Api<K>, object: Value) -> K
    where
        K: Clone + Debug + DeserializeOwned + Serialize,
    {
        let object: K = serde_json::from_value(object).expect("the object has its kind's shape");
        api.create(&PostParams::default(), &object).await.expect("the object is accepted")
    }

    pub(crate) async fn patch<K>(&self, api: &Api<K>, name: &str, patch: Value) -> K
    where
        K: Clone + Debug + DeserializeOwned,
    {
        let patch = Patch::Merge(&patch);
        api.patch(name, &PatchParams::default(), &patch).await.expect("the patch fits")
    }

    /// Ends the controllers wherever they are, and starts them anew with nothing remembered.
    pub(crate) async fn restart_controllers(&mut self) {
        let next = Task::start(|shutdown| control(self.client.clone(), shutdown));
        std::mem::replace(&mut self.controllers, next).stop().await;
    }

    pub(crate) async fn stop(self) {
        self.controllers.stop().await;
        self.node.stop().await;
    }
}

/// Waits until the list is as it should be, and returns it.
pub(crate) async fn until_all<K>(api: &Api<K>, what: &str, is_so: impl Fn(&[K]) -> bool) -> Vec<K>
where
    K: Clone + Debug + DeserializeOwned,
{
    wait::until(what, async || {
        let list = api.list(&Default::default()).await.expect("the server answers").items;
        is_so(&list).then_some(list)
    })
    .await
}

pub(crate) async fn until_gone<K>(api: &Api<K>, name: &str)
where
    K: Clone + Debug + DeserializeOwned,
{
    wait::until(&format!("{name} is gone"), async || {
        let found = api.get_opt(name).await.expect("the server answers");
        found.is_none().then_some(())
    })
    .await;
}
