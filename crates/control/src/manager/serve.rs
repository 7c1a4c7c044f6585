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

use api::protocol::endpoint::manager::{
    ALL_METRICS, EXTERNAL_METRICS, HEALTHZ, INTERNAL_METRICS, METRICS, READYZ, WEBHOOK_READY_CHECK,
};
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use prometheus::proto::MetricFamily;
use prometheus::{Encoder, IntGauge, Registry, TextEncoder};

use crate::leader::Leadership;
use crate::listener::{self, Answers, Reply};
use crate::webhook::Readiness;

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

/// What was counted.
#[derive(Debug)]
pub(super) struct Metrics {
    pub(super) registry: Registry,
    pub(super) leads: IntGauge,
    pub(super) leadership: Leadership,
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
        let shows: fn(&MetricFamily) -> bool = match request.uri().path() {
            METRICS => is_library,
            INTERNAL_METRICS => |family| !is_library(family),
            EXTERNAL_METRICS => |_| false,
            ALL_METRICS => |_| true,
            _ => return listener::text(StatusCode::NOT_FOUND, "no such page"),
        };
        self.leads.set(self.leadership.is_held().into());
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
