//! An API server in this process, schedulers on it, and a wire between them that can fail.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use apiserver::http::{ApiServer, Options as ServerOptions, router};
use apiserver::store::{Limits, Store};
use axum::body::Body;
use axum::http::{Method, Request, Response, StatusCode};
use control::scheduler::{Options, Scheduler, SchedulerError, Status};
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// How long anything may take. Reached only when something is broken.
const LIMIT: Duration = Duration::from_secs(40);

/// What goes wrong with a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is refused and not done.
    Conflict,
    /// The server fails before it does anything.
    Broken,
    /// It is done, and the answer is an error.
    DoneBroken,
    /// It is done, and the answer never comes.
    DoneSilent,
    /// It is not done, and the answer never comes.
    Silent,
}

/// Something that happens at a certain moment.
pub(crate) type Happening = Box<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// Between schedulers and the server.
#[derive(Default)]
pub(crate) struct Wire {
    /// What happens to the next bindings, one after the other.
    faults: Mutex<Vec<Fault>>,
    /// Bindings the server did, by pod.
    bindings: Mutex<BTreeMap<String, Vec<String>>>,
    writes: Mutex<Vec<String>>,
    /// Questions about single pods that will fail.
    pub(crate) blind: AtomicUsize,
    /// Happens before the first look at a pod, or else before its binding.
    happening: Mutex<Option<Happening>>,
}

impl Wire {
    pub(crate) fn fail(&self, faults: impl IntoIterator<Item = Fault>) {
        self.faults.lock().extend(faults);
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.faults.lock().is_empty()
    }

    /// Lets something happen once, after a decision and before anything is done about it.
    pub(crate) fn before_binding(&self, happening: Happening) {
        *self.happening.lock() = Some(happening);
    }

    fn happening(&self, method: &Method, path: &str) -> Option<Happening> {
        let is_look = *method == Method::GET && path.contains("/pods/");
        (is_look || path.ends_with("/binding")).then(|| self.happening.lock().take()).flatten()
    }

    /// Writes since the last question, events and leases aside.
    pub(crate) fn take_writes(&self) -> Vec<String> {
        std::mem::take(&mut *self.writes.lock())
    }

    fn note(&self, method: &Method, path: &str) {
        let is_noise = path.contains("/events") || path.contains("/leases");
        if *method != Method::GET && !is_noise {
            self.writes.lock().push(format!("{method} {path}"));
        }
    }

    fn fault(&self, is_binding: bool) -> Option<Fault> {
        let mut faults = self.faults.lock();
        (is_binding && !faults.is_empty()).then(|| faults.remove(0))
    }

    fn is_blind(&self, method: &Method, path: &str) -> bool {
        let is_look = *method == Method::GET && path.contains("/pods/");
        let less = |left: usize| left.checked_sub(1);
        is_look && self.blind.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
    }
}

fn failure(code: StatusCode) -> Response<Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": "made to fail", "reason": "Test", "code": code.as_u16()});
    Response::builder().status(code).body(status.to_string().into()).expect("a plain response")
}

pub(crate) struct Rig {
    /// Straight to the server.
    pub(crate) client: Client,
    pub(crate) wire: Arc<Wire>,
    faulty: Client,
}

pub(crate) async fn rig() -> Rig {
    let store = Store::in_memory(Limits::default()).expect("a writer thread can be started");
    let server = ApiServer::start(store, ServerOptions::default()).await;
    let client = Client::new(router(server.clone()), "default");
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = json!({"metadata": {"name": "koordinator-system"}});
    namespaces.create(&PostParams::default(), &object(namespace)).await.expect("new");

    let wire = Arc::new(Wire::default());
    let (inner, faults) = (router(server), wire.clone());
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (inner, wire) = (inner.clone(), faults.clone());
        async move {
            let (method, path) = (request.method().clone(), request.uri().path().to_owned());
            wire.note(&method, &path);
            if let Some(happening) = wire.happening(&method, &path) {
                happening().await;
            }
            if wire.is_blind(&method, &path) {
                return Ok(failure(StatusCode::INTERNAL_SERVER_ERROR));
            }
            let is_binding = path.ends_with("/binding");
            let fault = wire.fault(is_binding);
            match fault {
                Some(Fault::Conflict) => return Ok(failure(StatusCode::CONFLICT)),
                Some(Fault::Broken) => return Ok(failure(StatusCode::INTERNAL_SERVER_ERROR)),
                Some(Fault::Silent) => return std::future::pending().await,
                Some(Fault::DoneBroken | Fault::DoneSilent) | None => {}
            }
            // What is sent is done, even if whoever sent it does not wait for the answer.
            let doing = tokio::spawn(async move {
                let answer = inner.oneshot(request).await;
                if is_binding && answer.as_ref().is_ok_and(|answer| answer.status().is_success()) {
                    let pod = path.split('/').nth_back(1).unwrap_or_default().to_owned();
                    wire.bindings.lock().entry(pod).or_default().push(path);
                }
                answer
            });
            let answer = doing.await.expect("the server does not panic");
            match fault {
                Some(Fault::DoneBroken) => Ok(failure(StatusCode::BAD_GATEWAY)),
                Some(Fault::DoneSilent) => std::future::pending().await,
                _ => answer,
            }
        }
    });
    Rig { client, wire, faulty: Client::new(service, "default") }
}

/// A scheduler that runs.
pub(crate) struct Running {
    pub(crate) status: Status,
    stop: CancellationToken,
    task: JoinHandle<Result<(), SchedulerError>>,
}

impl Running {
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("does not panic").expect("ends as told");
    }

    /// Ends it where it stands, as a crash would.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// Quick where the defaults are patient.
pub(crate) fn options() -> Options {
    let mut options = Options::on_one_machine();
    options.request_timeout = Duration::from_millis(500);
    options
}

pub(crate) fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the object has its kind's shape")
}

impl Rig {
    pub(crate) async fn schedule(&self) -> Running {
        self.schedule_with(options()).await
    }

    pub(crate) async fn schedule_with(&self, options: Options) -> Running {
        let scheduler =
            Scheduler::bind(self.faulty.clone(), options).await.expect("profiles are good");
        let (status, stop) = (scheduler.status(), CancellationToken::new());
        let task = tokio::spawn(scheduler.run(stop.clone()));
        Running { status, stop, task }
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) async fn add_node(&self, name: &str, cpu: &str) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node = json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"capacity": {"cpu": cpu, "memory": "64Gi", "pods": "110"},
                "allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}]}});
        nodes.create(&PostParams::default(), &object(node)).await.expect("the node is new");
        // New nodes are tainted until a controller finds them ready; here is none.
        let patch = json!({"spec": {"taints": null}});
        let patched = nodes.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        patched.expect("the node is there");
    }

    pub(crate) async fn add_pod(&self, name: &str, cpu: &str) -> Pod {
        self.add(name, cpu, json!({})).await
    }

    /// A pod with more in its spec.
    pub(crate) async fn add(&self, name: &str, cpu: &str, more: Value) -> Pod {
        let mut spec = json!({"containers": [{"name": "c", "image": "i",
            "resources": {"requests": {"cpu": cpu, "memory": "1Mi"}}}]});
        if let (Some(spec), Some(more)) = (spec.as_object_mut(), more.as_object()) {
            spec.extend(more.clone());
        }
        let pod = json!({"metadata": {"name": name}, "spec": spec});
        self.pods().create(&PostParams::default(), &object(pod)).await.expect("the pod is new")
    }

    pub(crate) async fn delete(&self, name: &str) {
        let params = DeleteParams::default().grace_period(0);
        self.pods().delete(name, &params).await.expect("the pod is there");
    }

    /// Each pod was bound by the server exactly once. A list may show a binding before the one who
    /// asked for it has the answer.
    pub(crate) async fn assert_bound_once(&self, count: usize) {
        self.until("all answered", |_| self.wire.bindings.lock().len() >= count).await;
        let bindings = self.wire.bindings.lock();
        assert_eq!(bindings.len(), count, "{bindings:#?}");
        for (pod, done) in bindings.iter() {
            assert_eq!(done.len(), 1, "{pod}: {done:?}");
        }
    }

    /// Waits until all pods are as they should be, and returns them.
    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&[Pod]) -> bool) -> Vec<Pod> {
        let waiting = async {
            loop {
                let pods = self.pods().list(&ListParams::default()).await.expect("answers").items;
                if is_so(&pods) {
                    return pods;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        match tokio::time::timeout(LIMIT, waiting).await {
            Ok(pods) => pods,
            Err(_) => {
                let pods = self.pods().list(&ListParams::default()).await.expect("answers").items;
                let brief: Vec<String> = pods.iter().map(brief).collect();
                panic!("never {what}: {brief:#?}\n{:?}", self.wire.take_writes());
            }
        }
    }

    /// Waits for one pod.
    pub(crate) async fn until_pod(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(&Pod) -> bool,
    ) -> Pod {
        let is_it = |pod: &&Pod| pod.metadata.name.as_deref() == Some(name);
        let pods = self.until(what, |pods| pods.iter().find(is_it).is_some_and(&is_so)).await;
        pods.iter().find(is_it).cloned().expect("just seen")
    }

    /// Waits for an event with this reason about a pod.
    pub(crate) async fn until_event(&self, pod: &str, reason: &str) -> Event {
        let events: Api<Event> = Api::namespaced(self.client.clone(), "default");
        let waiting = async {
            loop {
                let list = events.list(&ListParams::default()).await.expect("answers").items;
                let found = list.into_iter().find(|event| {
                    event.involved_object.name.as_deref() == Some(pod)
                        && event.reason.as_deref() == Some(reason)
                });
                match found {
                    Some(event) => return event,
                    None => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        };
        tokio::time::timeout(LIMIT, waiting).await.expect("the event is written")
    }
}

pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

pub(crate) fn is_bound(pod: &Pod) -> bool {
    node_of(pod).is_some()
}

/// Status, reason and message of `PodScheduled`.
pub(crate) fn scheduled(pod: &Pod) -> Option<(String, String, String)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let own = conditions.iter().find(|own| own.type_ == "PodScheduled")?;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    Some((own.status.clone(), text(&own.reason), text(&own.message)))
}

fn brief(pod: &Pod) -> String {
    format!("{:?} on {:?}: {:?}", pod.metadata.name, node_of(pod), scheduled(pod))
}
