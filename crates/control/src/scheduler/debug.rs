//! What does a scheduler say about itself over HTTP?
//!
//! | path | shows |
//! |---|---|
//! | `/healthz`, `/livez` | that the process answers |
//! | `/readyz` | whether everything that exists is known |
//! | `/metrics` | what was counted |
//! | `/configz` | the plugins of each profile |
//! | `/apis/v1/__services__` | the paths below |
//! | `/apis/v1/nodes/NODE` | what is taken of a node, and by whom |
//! | `/apis/v1/pods/NAMESPACE/POD` | why a pod waits, or why it is where it is |
//! | `/apis/v1/plugins/LoadAwareScheduling/node/NODE` | what the node is thought to use |
//! | `/apis/v1/plugins/NodeNUMAResource/nodes/NODE` | its CPUs, and who holds them |
//! | `/apis/v1/check` | violations of the conservation laws |
//!
//! What lies under `/apis/v1` is answered by the leader alone.

use api::protocol::endpoint::scheduler::{LOAD_AWARE_NODE, NODE, NUMA_NODE};
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use prometheus::Registry;
use reconcile::elect::Leadership;
use reconcile::listen::{self, Answers, Reply};
use reconcile::metrics;
use sched::model::ResourceId;
use sched::scheduler::Scheduler;
use sched::snapshot::Phase;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot, watch};

use super::instruments::{self, Instruments};

/// Ours: why a pod waits, or why it is where it is.
const PODS: &str = "/apis/v1/pods/:namespace/:name";
/// Ours: violations of the conservation laws.
const CHECK: &str = "/apis/v1/check";

/// Questions that wait for the engine.
pub(super) const QUESTIONS: usize = 64;

/// Something only the owner of the engine can answer.
#[derive(Debug)]
pub(super) struct Question {
    about: About,
    reply: oneshot::Sender<Option<Value>>,
}

#[derive(Debug)]
enum About {
    Node(String),
    Load(String),
    Numa(String),
    Pod { namespace: String, name: String },
    Check,
}

impl Question {
    pub(super) fn answer(self, engine: &mut Scheduler) {
        let answer = match self.about {
            About::Node(name) => node(engine, &name),
            About::Load(name) => engine.snapshot().load_of(&name),
            About::Numa(name) => engine.snapshot().numa_of(&name),
            About::Pod { namespace, name } => {
                engine.explain(&namespace, &name).map(|found| plain(&found))
            }
            About::Check => Some(json!({"violations": engine.check()})),
        };
        // Whoever asked may have gone.
        let _ = self.reply.send(answer);
    }
}

fn plain(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// What the engine holds of a node.
fn node(engine: &Scheduler, name: &str) -> Option<Value> {
    let snapshot = engine.snapshot();
    let node = snapshot.find_node(name)?;
    let room = snapshot.rooms().get(node);
    let mut resources = Map::new();
    for id in (0..snapshot.resources.len()).filter_map(|id| u16::try_from(id).ok().map(ResourceId))
    {
        let allocatable = snapshot.rooms().allocatable(id, node);
        let requested = snapshot.rooms().requested(id, node);
        if (allocatable, requested) != (0, 0) {
            let amounts = json!({"allocatable": allocatable, "requested": requested});
            resources.insert(snapshot.resources.name(id).to_owned(), amounts);
        }
    }
    let pods = snapshot.pods_on(node).iter().filter_map(|pod| {
        let pod = snapshot.pods.get(*pod)?;
        Some(json!({"namespace": snapshot.names.text(pod.namespace), "name": &*pod.name,
            "uid": &*pod.uid, "assumed": pod.phase == Phase::Assumed}))
    });
    Some(json!({"name": name, "resources": resources,
        "nonZeroRequested": {"milliCpu": room.nonzero[ResourceId::CPU.index()],
            "memory": room.nonzero[ResourceId::MEMORY.index()]},
        "podCount": room.pods, "maxPods": room.max_pods, "pods": pods.collect::<Vec<_>>()}))
}

/// Answers requests.
#[derive(Debug)]
pub(super) struct Debug {
    pub(super) registry: Registry,
    pub(super) instruments: Instruments,
    pub(super) leadership: Leadership,
    pub(super) lease: String,
    pub(super) is_synced: watch::Receiver<bool>,
    pub(super) configuration: Value,
    pub(super) questions: mpsc::Sender<Question>,
}

impl Answers for Debug {
    async fn answer(&self, request: Request<Incoming>) -> Reply {
        if request.method() != Method::GET {
            return listen::text(StatusCode::METHOD_NOT_ALLOWED, "send GET");
        }
        let path = request.uri().path().trim_end_matches('/');
        match path {
            "/healthz" | "/livez" => listen::text(StatusCode::OK, "ok"),
            "/readyz" if *self.is_synced.borrow() => listen::text(StatusCode::OK, "ok"),
            "/readyz" => {
                let text = "[-]informer-sync failed: not everything that exists is known yet\n";
                listen::text(StatusCode::SERVICE_UNAVAILABLE, text)
            }
            "/metrics" => self.metrics(),
            "/configz" => json_reply(StatusCode::OK, &self.configuration),
            _ => match path.strip_prefix("/apis/v1/") {
                Some(rest) => self.api(rest).await,
                None => message(StatusCode::NOT_FOUND, "there is no such path"),
            },
        }
    }
}

impl Debug {
    async fn api(&self, path: &str) -> Reply {
        if !self.leadership.is_held() {
            return message(StatusCode::SERVICE_UNAVAILABLE, "the instance is not leader");
        }
        let parts: Vec<&str> = path.split('/').collect();
        let about = match parts.as_slice() {
            ["__services__"] => {
                let paths = [NODE, LOAD_AWARE_NODE, NUMA_NODE, PODS, CHECK];
                return json_reply(StatusCode::OK, &json!({"GET": paths}));
            }
            ["nodes", name] => About::Node((*name).to_owned()),
            ["plugins", "LoadAwareScheduling", "node", name] => About::Load((*name).to_owned()),
            ["plugins", "NodeNUMAResource", "nodes", name] => About::Numa((*name).to_owned()),
            ["pods", namespace, name] => {
                About::Pod { namespace: (*namespace).to_owned(), name: (*name).to_owned() }
            }
            ["check"] => About::Check,
            _ => return message(StatusCode::NOT_FOUND, "there is no such path"),
        };
        let (reply, answer) = oneshot::channel();
        if self.questions.try_send(Question { about, reply }).is_err() {
            return message(StatusCode::TOO_MANY_REQUESTS, "too many questions at once");
        }
        match answer.await {
            Ok(Some(value)) => json_reply(StatusCode::OK, &value),
            Ok(None) => message(StatusCode::NOT_FOUND, "the scheduler knows no such object"),
            Err(_) => message(StatusCode::SERVICE_UNAVAILABLE, "the scheduler is stopping"),
        }
    }

    fn metrics(&self) -> Reply {
        let leads = i64::from(self.leadership.is_held());
        self.instruments.leads.with_label_values(&[self.lease.as_str()]).set(leads);
        metrics::page(&self.registry.gather(), instruments::known())
    }
}

fn json_reply(status: StatusCode, value: &Value) -> Reply {
    listen::reply(status, "application/json", Bytes::from(value.to_string()))
}

fn message(status: StatusCode, text: &str) -> Reply {
    json_reply(status, &json!({"message": text}))
}
