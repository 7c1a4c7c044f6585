//! What does one API server hold?

use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{Mutex, Semaphore, watch};

use super::admission::{Cache, Caller, EndpointResolver, ServiceResolver};
use super::auth::Tokens;
use super::intake::Intake;
use super::kinds::{Definition, Registry, Served};
use super::metrics::Metrics;
use super::source::{Clock, Ids, RandomIds, SystemClock};
use super::status::Status;
use super::sub::LogSource;
use crate::store::{Collection, Store, Stored};
use objects::schema::openapi::OpenApi;

/// How a server is set up; the default suits tests: no token, system clock, random ids.
#[derive(Debug, Clone)]
pub struct Options {
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    /// The bearer token clients must show; `None` lets everyone in.
    pub token: Option<String>,
    /// Finds the services that webhooks are behind.
    pub services: Arc<dyn ServiceResolver>,
    /// Largest request body, in bytes.
    pub max_body: usize,
    /// Bytes of large request bodies held at once, over all requests.
    pub max_bodies: usize,
    /// Requests served at once, watches not counted.
    pub max_in_flight: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
            token: None,
            services: Arc::new(EndpointResolver),
            max_body: 3 << 20,
            max_bodies: 64 << 20,
            max_in_flight: 400,
        }
    }
}

/// A handle to the server; clones share it.
#[derive(Debug, Clone)]
pub struct ApiServer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    registry: ArcSwap<Registry>,
    options: Options,
    in_flight: Semaphore,
    intake: Intake,
    /// Held while definitions change, so that names are claimed by one of them only.
    definitions: Mutex<()>,
    tokens: Tokens,
    logs: ArcSwapOption<Arc<dyn LogSource>>,
    /// True once watches are to end.
    closing: watch::Sender<bool>,
    webhooks: Cache,
    caller: Caller,
    documents: ArcSwap<OpenApi>,
    metrics: Metrics,
}

impl ApiServer {
    /// A server over a store that may already hold objects; what every cluster has is added.
    pub async fn start(store: Store, options: Options) -> Self {
        let in_flight = Semaphore::new(options.max_in_flight);
        let intake = Intake::new(options.max_body, options.max_bodies);
        let registry = ArcSwap::from_pointee(Registry::built_in());
        let definitions = Mutex::new(());
        let inner = Inner {
            store,
            registry,
            options,
            in_flight,
            intake,
            definitions,
            tokens: Tokens::default(),
            logs: ArcSwapOption::empty(),
            closing: watch::Sender::new(false),
            webhooks: Cache::new(),
            caller: Caller::default(),
            documents: ArcSwap::from_pointee(OpenApi::new([])),
            metrics: Metrics::default(),
        };
        let server = Self { inner: Arc::new(inner) };
        // A deletion of a definition may have been cut off by the last stop.
        super::definitions::settle(&server).await;
        super::bootstrap::fill(&server).await;
        server
    }

    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    pub fn options(&self) -> &Options {
        &self.inner.options
    }

    pub(super) fn in_flight(&self) -> &Semaphore {
        &self.inner.in_flight
    }

    pub(super) fn intake(&self) -> &Intake {
        &self.inner.intake
    }

    pub(super) fn definitions_lock(&self) -> &Mutex<()> {
        &self.inner.definitions
    }

    pub(super) fn tokens(&self) -> &Tokens {
        &self.inner.tokens
    }

    pub(super) fn webhooks(&self) -> &Cache {
        &self.inner.webhooks
    }

    pub(super) fn documents(&self) -> Arc<OpenApi> {
        self.inner.documents.load_full()
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    pub(super) fn caller(&self) -> &Caller {
        &self.inner.caller
    }

    /// Ends all watches; their clients come back on their own.
    pub fn close_watches(&self) {
        self.inner.closing.send_replace(true);
    }

    pub(super) fn closing(&self) -> watch::Receiver<bool> {
        self.inner.closing.subscribe()
    }

    /// From now on, logs of containers come from here.
    pub fn set_log_source(&self, source: Arc<dyn LogSource>) {
        self.inner.logs.store(Some(Arc::new(source)));
    }

    pub(super) fn log_source(&self) -> Option<Arc<dyn LogSource>> {
        self.inner.logs.load_full().map(|source| (*source).clone())
    }

    /// Everything served at this moment.
    pub fn registry(&self) -> Arc<Registry> {
        self.inner.registry.load_full()
    }

    /// Serves exactly the kinds whose definitions are in the store and established.
    pub(super) fn refresh_registry(&self) {
        let collection = Collection::new("apiextensions.k8s.io", "customresourcedefinitions");
        let objects: Vec<Value> = self
            .inner
            .store
            .list(&collection, None)
            .iter()
            .filter_map(|stored| serde_json::from_slice::<Value>(&stored.json).ok())
            .filter(super::definitions::is_established)
            .collect();
        let definitions: Vec<Definition> = objects
            .iter()
            .filter_map(|object| match Definition::from_object(object) {
                Ok(definition) => Some(definition),
                Err(error) => {
                    tracing::warn!(%error, "cannot serve a custom resource definition");
                    None
                }
            })
            .collect();
        self.inner.documents.store(Arc::new(OpenApi::new(&objects)));
        self.inner.registry.store(Arc::new(Registry::with_definitions(definitions.iter())));
    }

    /// Reads what `T` names of an object of any kind, in its stored form.
    pub(super) fn read<T: DeserializeOwned>(
        &self,
        group: &str,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> Option<T> {
        let served = self.registry().preferred(group, resource)?.clone();
        let stored = self.inner.store.get(&served.key(namespace, name)?)?;
        serde_json::from_slice(&stored.json).ok()
    }
}

/// A stored object in the served version.
pub(super) fn object_of(stored: &Stored, served: &Served) -> Result<Value, Status> {
    let mut object = serde_json::from_slice(&stored.json)
        .map_err(|error| Status::internal(format!("cannot read {}: {error}", stored.key)))?;
    super::convert::from_storage(&mut object, served);
    Ok(object)
}
