//! The webhook server: how do requests reach [`crate::admission`], and answers the API server?
//!
//! | file | question |
//! |---|---|
//! | `knowledge` | what does this replica know, for answering at once? |
//! | `handle` | which function answers which request? |
//! | [`certificate`] | with which certificate? |
//! | `tls` | how is it replaced while requests come in? |
//! | [`configuration`] | what must stand in the webhook configurations? |
//! | [`latency`] | how long does all this take? |
//! | `keeper` | who keeps certificates and configurations in order? |
//!
//! Every replica serves, leader or not. A request is answered from memory; one
//! that comes before memory is filled gets a 503, so that the API server's
//! failure policy decides and not a guess of ours.

pub mod certificate;
pub mod configuration;
mod handle;
mod keeper;
mod knowledge;
pub mod latency;
pub(crate) mod tls;
mod turns;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::protocol::endpoint::manager::{CONVERT, HEALTHZ, QUOTA_DUMP};
use api::protocol::gate::ManagerGate;
use api::protocol::metric::manager::{BINDING_DECISIONS, QUOTA_SHARED_WEIGHT, WEBHOOK_DURATION};
use api::protocol::name::{NAMESPACE, secret};
use api::protocol::webhook::{
    MUTATING_CONFIGURATION, SERVICE, Stage, VALIDATING_CONFIGURATION, WEBHOOKS, Webhook,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::{Method, Request, StatusCode};
use kube::Client;
use prometheus::{GaugeVec, HistogramVec, IntCounterVec, Registry};
use reconcile::error::chain;
use reconcile::listen::{self, Answers, Limits, Reply};
use reconcile::metrics::Registrar;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::handle::Handlers;
pub use self::handle::Rules;
use self::keeper::{Charge, Keeper};
pub use self::keeper::{KeeperError, Vault};
use self::knowledge::Knowledge;
use self::tls::Serving;
use crate::Clock;
use crate::admission::review::Review;
use crate::admission::{Denied, Verdict};

/// How long an answer may take; the API server waits as long at most.
const ANSWER: Duration = Duration::from_secs(25);

/// How the API server finds the webhooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    Service {
        namespace: String,
        name: String,
    },
    /// By URL, at this host and the port that is listened on.
    Host(String),
}

/// Where and how webhooks are served.
#[derive(Debug, Clone)]
pub struct Options {
    pub listen: SocketAddr,
    pub reach: Reach,
    pub vault: Vault,
    /// Names of the mutating and the validating configuration.
    pub configurations: (String, String),
    /// Create configurations that are missing. An installer does that, except on one machine.
    pub install_missing: bool,
    pub rules: Rules,
    /// What clients may hold on to. All requests come from one API server, perhaps from one
    /// address, so there is no limit for an address.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        use api::protocol::endpoint::manager::WEBHOOK_PORT;
        let namespace = NAMESPACE.to_owned();
        Self {
            listen: SocketAddr::from(([0, 0, 0, 0], WEBHOOK_PORT)),
            reach: Reach::Service { namespace: namespace.clone(), name: SERVICE.to_owned() },
            vault: Vault::Secret { namespace, name: secret::WEBHOOK_CERTS.to_owned() },
            configurations: (
                MUTATING_CONFIGURATION.to_owned(),
                VALIDATING_CONFIGURATION.to_owned(),
            ),
            install_missing: false,
            rules: Rules::default(),
            limits: Limits::default(),
        }
    }
}

impl Options {
    fn host(&self) -> String {
        match &self.reach {
            Reach::Service { namespace, name } => format!("{name}.{namespace}.svc"),
            Reach::Host(host) => host.clone(),
        }
    }

    fn target(&self, port: u16) -> configuration::Target {
        match &self.reach {
            Reach::Service { namespace, name } => {
                configuration::Target::Service { namespace: namespace.clone(), name: name.clone() }
            }
            Reach::Host(host) => configuration::Target::Url(format!("https://{host}:{port}")),
        }
    }
}

/// Why webhooks cannot be served at all.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    #[error("cannot listen on {address} for webhooks")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
    #[error("cannot register a metric")]
    Metric(#[from] prometheus::Error),
}

/// A webhook server that has its port and waits to run.
#[derive(Debug)]
pub struct Webhooks {
    listener: TcpListener,
    address: SocketAddr,
    options: Options,
    service: Arc<Service>,
    configured: watch::Sender<bool>,
}

impl Webhooks {
    /// Takes the port and registers metrics.
    pub async fn bind(
        client: Client,
        options: Options,
        registry: &Registry,
    ) -> Result<Self, WebhookError> {
        let failed = |source| WebhookError::Listen { address: options.listen, source };
        let listener = TcpListener::bind(options.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let instruments = Instruments::register(registry)?;
        let knowledge = Knowledge::new(instruments.shared_weight);
        let rules = options.rules.clone();
        let handlers = Handlers::new(client, knowledge, rules, instruments.binding_decisions);
        let service =
            Service { served: served(&handlers), handlers, duration: instruments.duration };
        let configured = watch::Sender::new(false);
        Ok(Self { listener, address, options, service: Arc::new(service), configured })
    }

    /// Where requests are answered.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// True once memory is filled and certificates and configurations are in order.
    pub fn readiness(&self) -> Readiness {
        Readiness { configured: self.configured.subscribe(), service: self.service.clone() }
    }

    /// Serves until told to stop.
    pub async fn run(self, clock: Clock, shutdown: CancellationToken) -> Result<(), WebhookError> {
        let serving = Arc::new(Serving::default());
        let tls = tls::server_config(serving.clone())?;
        let client = self.service.handlers.client.0.clone();
        let port = self.address.port();
        let namespace = match &self.options.vault {
            Vault::Secret { namespace, .. } => namespace.clone(),
            Vault::Directory(_) => NAMESPACE.to_owned(),
        };
        let paths = self.service.served.iter().map(|webhook| webhook.path).collect();
        let keeper = Keeper {
            client: client.clone(),
            charge: Charge {
                vault: self.options.vault.clone(),
                host: self.options.host(),
                target: self.options.target(port),
                port,
                paths,
                configurations: self.options.configurations.clone(),
                install: self.options.install_missing.then_some(namespace),
            },
            serving,
            clock,
            rotating: None,
        };
        let knowing = self.service.handlers.knowledge.follow(client, shutdown.clone());
        let keeping = async {
            // A configuration brings requests; they need somebody who knows the answers.
            tokio::select! {
                () = self.service.handlers.knowledge.until_ready() => {
                    keeper.run(self.configured.clone(), shutdown.clone()).await;
                }
                () = shutdown.cancelled() => {}
            }
        };
        let answering = listen::serve(
            self.listener,
            Some(tls),
            self.service.clone(),
            self.options.limits,
            shutdown.clone(),
        );
        tokio::join!(knowing, keeping, answering);
        Ok(())
    }
}

/// Whether webhooks are answered, cheap to clone and to ask.
#[derive(Debug, Clone)]
pub struct Readiness {
    configured: watch::Receiver<bool>,
    service: Arc<Service>,
}

impl Readiness {
    pub fn is_ready(&self) -> bool {
        *self.configured.borrow() && self.service.handlers.knowledge.is_ready()
    }

    /// What would be done to a new pod, and which profiles mean it. `None` while memory is empty.
    pub(crate) fn explain(&self, pod: &Value, namespace: &str) -> Option<Value> {
        let handlers = &self.service.handlers;
        handlers.knowledge.is_ready().then(|| handlers.explain(pod, namespace))
    }

    /// Waits until webhooks are answered; never returns once the server is gone.
    pub async fn until_ready(&mut self) {
        if self.configured.wait_for(|ready| *ready).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

struct Instruments {
    duration: HistogramVec,
    shared_weight: GaugeVec,
    binding_decisions: IntCounterVec,
}

impl Instruments {
    fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let make = Registrar(registry);
        Ok(Self {
            duration: make.histograms(&WEBHOOK_DURATION)?,
            shared_weight: make.float_gauges(&QUOTA_SHARED_WEIGHT)?,
            binding_decisions: make.counters(&BINDING_DECISIONS)?,
        })
    }
}

/// What answers HTTP requests.
#[derive(Debug)]
struct Service {
    handlers: Handlers,
    served: Vec<&'static Webhook>,
    duration: HistogramVec,
}

/// Webhooks whose gates are on.
fn served(handlers: &Handlers) -> Vec<&'static Webhook> {
    let gates = &handlers.rules.gates;
    let framework = gates.is_on(ManagerGate::WebhookFramework);
    WEBHOOKS.iter().filter(|webhook| framework && gates.is_on(webhook.gate)).collect()
}

impl Service {
    async fn review(&self, webhook: &Webhook, request: Request<Incoming>) -> Reply {
        let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if !kind.is_some_and(|kind| kind.starts_with("application/json")) {
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return listen::text(status, "send application/json");
        }
        let body = match listen::body(request).await {
            Ok(body) => body,
            Err(status) => return listen::text(status, status.to_string()),
        };
        let start = Instant::now();
        let review = match Review::parse(&body) {
            Ok(review) => review,
            Err(error) => return listen::text(StatusCode::BAD_REQUEST, chain(&error)),
        };
        if !self.handlers.knowledge.is_ready() {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            return listen::text(status, "not ready: still learning what is in the cluster");
        }
        let answering = self.handlers.answer(webhook.path, &review.request);
        let verdict = tokio::time::timeout(ANSWER, answering)
            .await
            .unwrap_or_else(|_| Err(Denied::impossible("the API server takes too long to answer")));
        self.observe(webhook, &review, &verdict, start);
        let answer = review.answer(&verdict, |bytes| STANDARD.encode(bytes));
        json_reply(StatusCode::OK, &answer)
    }

    fn observe(&self, webhook: &Webhook, review: &Review, verdict: &Verdict, start: Instant) {
        let stage = match webhook.stage {
            Stage::Mutating => "mutate",
            Stage::Validating => "validate",
        };
        let object = match webhook.resource.2 {
            "configmaps" => "configmap",
            "elasticquotas" => "elasticquota",
            "nodes" | "nodes/status" => "node",
            "reservations" => "reservation",
            _ => "pod",
        };
        let status = if verdict.is_ok() { "allowed" } else { "rejected" };
        let plugin = webhook.path.trim_start_matches('/');
        let operation = review.request.operation.as_str();
        let labels = [stage, object, operation, plugin, status];
        let millis = start.elapsed().as_secs_f64() * 1000.0;
        self.duration.with_label_values(&labels).observe(millis);
        if let Err(Denied { code, message }) = verdict {
            let (namespace, name) = (&review.request.namespace, &review.request.name);
            tracing::debug!(webhook = webhook.name, namespace, name, code, message, "refused");
        }
    }

    /// All versions of our kinds are stored as they are sent, so converting is saying so.
    async fn convert(&self, request: Request<Incoming>) -> Reply {
        let body = match listen::body(request).await {
            Ok(body) => body,
            Err(status) => return listen::text(status, status.to_string()),
        };
        let Ok(review) = serde_json::from_slice::<Value>(&body) else {
            return listen::text(StatusCode::BAD_REQUEST, "the body is not a ConversionReview");
        };
        let request = &review["request"];
        let Some(wanted) = request["desiredAPIVersion"].as_str() else {
            return listen::text(StatusCode::BAD_REQUEST, "the review has no desiredAPIVersion");
        };
        let objects = request["objects"].as_array().cloned().unwrap_or_default();
        let convert = |mut object: Value| {
            object.as_object_mut()?.insert("apiVersion".to_owned(), wanted.into());
            Some(object)
        };
        let response = match objects.into_iter().map(convert).collect::<Option<Vec<Value>>>() {
            Some(converted) => json!({ "uid": request["uid"], "result": { "status": "Success" },
                "convertedObjects": converted }),
            None => json!({ "uid": request["uid"], "result": { "status": "Failure",
                "message": "one of the objects is not an object" } }),
        };
        let answer = json!({ "apiVersion": review["apiVersion"], "kind": "ConversionReview",
            "response": response });
        json_reply(StatusCode::OK, &answer)
    }

    /// The quotas as admission sees them, for people.
    fn dump_quotas(&self) -> Reply {
        let prepared = self.handlers.knowledge.prepared();
        let quotas: Vec<Value> = prepared
            .quotas
            .iter()
            .map(|quota| {
                json!({
                    "namespace": quota.metadata.namespace, "name": quota.metadata.name,
                    "parent": api::metadata::quota::parent_of(&quota.metadata),
                    "treeID": api::protocol::quota::TREE_ID.raw(&quota.metadata),
                    "spec": quota.spec,
                })
            })
            .collect();
        json_reply(StatusCode::OK, &json!(quotas))
    }
}

fn json_reply(status: StatusCode, body: &Value) -> Reply {
    listen::reply(status, "application/json", Bytes::from(body.to_string()))
}

impl Answers for Service {
    async fn answer(&self, request: Request<Incoming>) -> Reply {
        let path = request.uri().path().to_owned();
        let method = request.method().clone();
        match (path.as_str(), &method) {
            (HEALTHZ, &Method::GET) => return listen::text(StatusCode::OK, "ok"),
            (QUOTA_DUMP, &Method::GET) => return self.dump_quotas(),
            (CONVERT, &Method::POST) => return self.convert(request).await,
            _ => {}
        }
        match self.served.iter().find(|webhook| webhook.path == path) {
            Some(webhook) if method == Method::POST => self.review(webhook, request).await,
            Some(_) => listen::text(StatusCode::METHOD_NOT_ALLOWED, "send POST"),
            None => listen::text(StatusCode::NOT_FOUND, "no such webhook"),
        }
    }
}
