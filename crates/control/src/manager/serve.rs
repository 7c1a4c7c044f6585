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

use api::protocol::endpoint::manager::{
    ALL_METRICS, DEBUG_NODE_RESOURCE, EXTERNAL_METRICS, HEALTHZ, INTERNAL_METRICS, METRICS, READYZ,
    WEBHOOK_READY_CHECK,
};
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use overcommit::explain;
use prometheus::proto::MetricFamily;
use prometheus::{Encoder, IntGauge, Registry, TextEncoder};
use serde_json::json;

use crate::listener::{self, Answers, Reply};
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
            return listener::text(StatusCode::OK, "ok");
        }
        if !is(READYZ) {
            return listener::text(StatusCode::NOT_FOUND, "no such check");
        }
        if self.webhooks.as_ref().is_none_or(Readiness::is_ready) {
            return listener::text(StatusCode::OK, "ok");
        }
        let body = format!(
            "[-]{WEBHOOK_READY_CHECK} failed: caches, certificates or webhook configurations are not in order yet\n"
        );
        listener::text(StatusCode::SERVICE_UNAVAILABLE, body)
    }
}

/// What was counted, and what was calculated.
#[derive(Debug)]
pub(super) struct Metrics {
    pub(super) registry: Registry,
    pub(super) leads: IntGauge,
    pub(super) shared: Shared,
    pub(super) node_resource: node_resource::Options,
}

/// Families that the reference's controller library keeps in a registry of its own.
const LIBRARY: [&str; 3] = ["controller_runtime_", "workqueue_", "rest_client_"];

fn is_library(family: &MetricFamily) -> bool {
    LIBRARY.iter().any(|prefix| family.name().starts_with(prefix))
}

impl Answers for Metrics {
    async fn answer(&self, request: Request<Incoming>) -> Reply {
        if request.method() != Method::GET {
            return listener::text(StatusCode::METHOD_NOT_ALLOWED, "send GET");
        }
        if let Some(node) = request.uri().path().strip_prefix(DEBUG_NODE_RESOURCE) {
            return self.node(node);
        }
        let shows: fn(&MetricFamily) -> bool = match request.uri().path() {
            METRICS => is_library,
            INTERNAL_METRICS => |family| !is_library(family),
            EXTERNAL_METRICS => |_| false,
            ALL_METRICS => |_| true,
            _ => return listener::text(StatusCode::NOT_FOUND, "no such page"),
        };
        self.leads.set(self.shared.leadership.is_held().into());
        let families: Vec<MetricFamily> =
            self.registry.gather().into_iter().filter(shows).collect();
        let mut body = Vec::new();
        match TextEncoder::new().encode(&families, &mut body) {
            Ok(()) => {
                let kind = "text/plain; version=0.0.4; charset=utf-8";
                listener::reply(StatusCode::OK, kind, Bytes::from(body))
            }
            Err(error) => listener::text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
    }
}

impl Metrics {
    /// The sums behind what a node lends, as this replica would publish them now.
    fn node(&self, name: &str) -> Reply {
        let Some(in_force) = self.shared.configs.latest() else {
            let text = "not ready: the configuration has not been read yet";
            return listener::text(StatusCode::SERVICE_UNAVAILABLE, text);
        };
        let now = self.shared.clock.now();
        let found = self.shared.caches.with(|world| {
            let plan = world.plan(name, &in_force, &self.node_resource, now)?;
            Some((plan, world.get(name)?.node.as_ref()?.meta.clone()))
        });
        let Some((plan, meta)) = found else {
            return listener::text(StatusCode::NOT_FOUND, format!("no such node: {name:?}\n"));
        };
        let view = in_force.config.for_node(&meta);
        let body = json!({
            "node": name,
            "lendsNothing": explain::standing(plan.why.standing, &view),
            "batch": explain::batch(&plan.why, &view),
            "mid": explain::mid(&plan.why, &view),
        });
        listener::reply(StatusCode::OK, "application/json", Bytes::from(body.to_string()))
    }
}
