//! What does a manager say about itself over HTTP?
//!
//! | port | path | shows |
//! |---|---|---|
//! | health | `/healthz` | that the process answers |
//! | health | `/readyz` | whether webhooks are in order; check `webhook-ready` |
//! | metrics | `/metrics` | controllers and queues only, as the reference's library |
//! | metrics | `/internal-metrics` | everything else |
//! | metrics | `/external-metrics` | nothing: the manager has none |
//! | metrics | `/all-metrics` | all of it |
//! | metrics | `/debug/noderesource/NODE` | where the node's batch and mid resources come from |
//! | metrics | `/debug/admission/explain` | which profiles mean a pod: POST it, or `?namespace=N&name=P` |

use api::protocol::endpoint::manager::{
    ALL_METRICS, DEBUG_ADMISSION, DEBUG_NODE_RESOURCE, EXTERNAL_METRICS, HEALTHZ, INTERNAL_METRICS,
    METRICS, READYZ, WEBHOOK_READY_CHECK,
};
use api::protocol::metric::manager as names;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use overcommit::explain;
use prometheus::proto::MetricFamily;
use prometheus::{IntGauge, Registry};
use reconcile::listen::{self, Answers, Reply};
use reconcile::metrics;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::webhook::Readiness;
use crate::{Shared, node_resource};

/// Is it alive, is it ready?
#[derive(Debug)]
pub(super) struct Health {
    /// `None` when webhooks are switched off.
    pub(super) webhooks: Option<Readiness>,
}

impl Answers for Health {
    async fn answer(&self, request: Request<Incoming>) -> Reply {
        let path = request.uri().path();
        let is = |root: &str| {
            let rest = path.strip_prefix(root).map(|rest| rest.trim_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest == WEBHOOK_READY_CHECK)
        };
        if is(HEALTHZ) {
            return listen::text(StatusCode::OK, "ok");
        }
        if !is(READYZ) {
            return listen::text(StatusCode::NOT_FOUND, "no such check");
        }
        if self.webhooks.as_ref().is_none_or(Readiness::is_ready) {
            return listen::text(StatusCode::OK, "ok");
        }
        let body = format!(
            "[-]{WEBHOOK_READY_CHECK} failed: caches, certificates or webhook configurations are not in order yet\n"
        );
        listen::text(StatusCode::SERVICE_UNAVAILABLE, body)
    }
}

/// What was counted, and what was calculated.
#[derive(Debug)]
pub(super) struct Metrics {
    pub(super) registry: Registry,
    pub(super) leads: IntGauge,
    pub(super) shared: Shared,
    pub(super) node_resource: node_resource::Options,
    /// `None` when webhooks are switched off.
    pub(super) webhooks: Option<Readiness>,
}

/// Shown to whoever asks in another way.
const HOW_TO_EXPLAIN: &str =
    "POST a pod as JSON, or GET with ?namespace=NAMESPACE&name=NAME of one that exists\n";

/// Families that the reference's controller library keeps in a registry of its own.
const LIBRARY: [&str; 3] = ["controller_runtime_", "workqueue_", "rest_client_"];

fn is_library(name: &str) -> bool {
    LIBRARY.iter().any(|prefix| name.starts_with(prefix))
}

impl Answers for Metrics {
    async fn answer(&self, request: Request<Incoming>) -> Reply {
        if request.uri().path() == DEBUG_ADMISSION {
            return self.explain(request).await;
        }
        if request.method() != Method::GET {
            return listen::text(StatusCode::METHOD_NOT_ALLOWED, "send GET");
        }
        if let Some(node) = request.uri().path().strip_prefix(DEBUG_NODE_RESOURCE) {
            return self.node(node);
        }
        let shows: fn(&str) -> bool = match request.uri().path() {
            METRICS => is_library,
            INTERNAL_METRICS => |name| !is_library(name),
            EXTERNAL_METRICS => |_| false,
            ALL_METRICS => |_| true,
            _ => return listen::text(StatusCode::NOT_FOUND, "no such page"),
        };
        self.leads.set(self.shared.leadership.is_held().into());
        let families = self.registry.gather().into_iter();
        let families: Vec<MetricFamily> = families.filter(|family| shows(family.name())).collect();
        metrics::page(&families, names::ALL.iter().filter(|metric| shows(metric.name)))
    }
}

impl Metrics {
    /// What webhooks would do to a pod that is sent, or that exists.
    async fn explain(&self, request: Request<Incoming>) -> Reply {
        let Some(webhooks) = &self.webhooks else {
            let text = "webhooks are switched off; see the gate WebhookFramework\n";
            return listen::text(StatusCode::NOT_FOUND, text);
        };
        let query = request.uri().query().unwrap_or_default().to_owned();
        let asked = |name: &str| {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.filter(|(key, _)| *key == name).map(|(_, value)| value.to_owned()).next_back()
        };
        let method = request.method().clone();
        let pod = match method {
            Method::POST => match listen::body(request).await {
                Ok(body) => serde_json::from_slice::<Value>(&body)
                    .map_err(|error| (StatusCode::BAD_REQUEST, format!("no JSON: {error}\n"))),
                Err(status) => Err((status, format!("{status}\n"))),
            },
            Method::GET => match (asked("namespace"), asked("name")) {
                (Some(namespace), Some(name)) => self.pod(&namespace, &name).await,
                _ => Err((StatusCode::BAD_REQUEST, HOW_TO_EXPLAIN.to_owned())),
            },
            _ => Err((StatusCode::METHOD_NOT_ALLOWED, HOW_TO_EXPLAIN.to_owned())),
        };
        let pod = match pod {
            Ok(pod) => pod,
            Err((status, why)) => return listen::text(status, why),
        };
        let named = pod.pointer("/metadata/namespace").and_then(Value::as_str);
        let namespace = named.map(str::to_owned).or_else(|| asked("namespace"));
        let namespace = namespace.filter(|own| !own.is_empty()).unwrap_or_else(|| "default".into());
        match webhooks.explain(&pod, &namespace) {
            Some(found) => {
                listen::reply(StatusCode::OK, "application/json", found.to_string().into())
            }
            None => {
                let text = "not ready: still learning what is in the cluster\n";
                listen::text(StatusCode::SERVICE_UNAVAILABLE, text)
            }
        }
    }

    async fn pod(&self, namespace: &str, name: &str) -> Result<Value, (StatusCode, String)> {
        let pods: Api<Pod> = Api::namespaced(self.shared.client.clone(), namespace);
        match timeout(self.shared.patience, pods.get_opt(name)).await {
            Ok(Ok(Some(pod))) => Ok(json!(pod)),
            Ok(Ok(None)) => {
                Err((StatusCode::NOT_FOUND, format!("no such pod: {namespace}/{name}\n")))
            }
            Ok(Err(error)) => Err((StatusCode::BAD_GATEWAY, format!("{error}\n"))),
            Err(_) => Err((StatusCode::GATEWAY_TIMEOUT, "the API server is slow\n".to_owned())),
        }
    }

    /// The sums behind what a node lends, as this replica would publish them now.
    fn node(&self, name: &str) -> Reply {
        let Some(in_force) = self.shared.configs.latest() else {
            let text = "not ready: the configuration has not been read yet";
            return listen::text(StatusCode::SERVICE_UNAVAILABLE, text);
        };
        let now = self.shared.clock.now();
        let found = self.shared.caches.with(|world| {
            let plan = world.plan(name, &in_force, &self.node_resource, now)?;
            Some((plan, world.get(name)?.node.as_ref()?.meta.clone()))
        });
        let Some((plan, meta)) = found else {
            return listen::text(StatusCode::NOT_FOUND, format!("no such node: {name:?}\n"));
        };
        let view = in_force.config.for_node(&meta);
        let body = json!({
            "node": name,
            "lendsNothing": explain::standing(plan.why.standing, &view),
            "batch": explain::batch(&plan.why, &view),
            "mid": explain::mid(&plan.why, &view),
        });
        listen::reply(StatusCode::OK, "application/json", Bytes::from(body.to_string()))
    }
}
