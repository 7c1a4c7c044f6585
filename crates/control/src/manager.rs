//! The manager: which parts run in it, and in which order do they come and go?
//!
//! ```text
//!   every replica   webhooks, certificates, configuration intake, caches, health, metrics
//!   the leader      nodemetric, nodeslo, noderesource, quotaprofile, colocationprofile
//! ```
//!
//! The controllers run on every replica and write only where the lease is held.
//! On a stop they end first, then the lease is given back, so that the next
//! leader finds nobody writing; webhooks finish what they are asked. A part
//! that breaks is started again after a pause. A replica that loses the lease
//! ends, as the reference does: its caches may be behind.

mod profile;
mod serve;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use api::protocol::gate::{Gates, ManagerGate};
use api::protocol::metric::manager::{CONTROLLERS, IS_LEADER};
use kube::Client;
use prometheus::Registry;
use reconcile::drive::{Part, supervise};
use reconcile::elect::{self, End, Leadership};
use reconcile::listen::{self, Answers, Limits};
use reconcile::metrics::Registrar;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::caches::{self, Caches};
use crate::instruments::Instruments;
use crate::webhook::{self, Reach, Readiness, WebhookError, Webhooks};
use crate::{
    Clock, PATIENCE, Shared, colocation_profile, intake, node_metric, node_resource, node_slo,
    quota_profile,
};

use self::profile::Profiles;
use self::serve::{Health, Metrics};

/// How long controllers may take to end, before the lease is given back anyway.
const CONTROLLERS_END: Duration = Duration::from_secs(2);

/// How a manager runs.
#[derive(Debug, Clone)]
pub struct Options {
    pub gates: Gates<ManagerGate>,
    /// `None` for a process that is alone.
    pub election: Option<elect::Settings>,
    pub config: intake::Settings,
    /// Which controllers run; see [`selects`].
    pub controllers: Vec<String>,
    pub node_resource: node_resource::Options,
    pub colocation_profile: colocation_profile::Options,
    pub webhook: webhook::Options,
    pub health: Option<SocketAddr>,
    pub metrics: Option<SocketAddr>,
    /// Where the process can be looked at: time, memory, threads.
    pub profiles: Option<SocketAddr>,
    /// Give up when webhooks are not ready by then; `None` waits for ever.
    pub ready_within: Option<Duration>,
    pub clock: Clock,
}

impl Default for Options {
    fn default() -> Self {
        use api::protocol::endpoint::manager::{HEALTH_PORT, METRICS_PORT};
        let any = |port| Some(SocketAddr::from(([0, 0, 0, 0], port)));
        Self {
            gates: Gates::default(),
            election: None,
            config: intake::Settings::default(),
            controllers: vec!["*".to_owned()],
            node_resource: node_resource::Options::default(),
            colocation_profile: colocation_profile::Options::default(),
            webhook: webhook::Options::default(),
            health: any(HEALTH_PORT),
            metrics: any(METRICS_PORT),
            profiles: None,
            ready_within: Some(Duration::from_secs(120)),
            clock: Clock::system(),
        }
    }
}

impl Options {
    /// For a manager that shares its process with everything else: alone, called
    /// by URL on loopback, with its own webhook configurations and no further ports.
    pub fn on_one_machine() -> Self {
        let mut options =
            Self { health: None, metrics: None, ready_within: None, ..Self::default() };
        options.webhook.listen = SocketAddr::from(([127, 0, 0, 1], 0));
        options.webhook.reach = Reach::Host("127.0.0.1".to_owned());
        options.webhook.install_missing = true;
        options
    }
}

/// Why a manager ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    #[error("cannot listen on {address}")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error(transparent)]
    Webhook(#[from] WebhookError),
    #[error("cannot register a metric")]
    Metric(#[from] prometheus::Error),
    #[error("the lease went to another replica")]
    LostLease,
    #[error("webhooks were not ready after {} s", .0.as_secs())]
    NotReady(Duration),
    #[error("{0} ended unexpectedly")]
    Ended(&'static str),
}

/// Does a list such as `*,-nodeslo` name this one? The first word that speaks of it decides.
pub fn selects(list: &[String], name: &str) -> bool {
    for word in list {
        if word == name {
            return true;
        }
        if word.strip_prefix('-') == Some(name) {
            return false;
        }
    }
    list.iter().any(|word| word == "*")
}

/// What is known of a running manager.
#[derive(Debug, Clone)]
pub struct Status {
    pub leadership: Leadership,
    /// `None` when webhooks are switched off.
    pub webhooks: Option<Readiness>,
    pub webhook_address: Option<SocketAddr>,
    pub health_address: Option<SocketAddr>,
    pub metrics_address: Option<SocketAddr>,
    pub profiles_address: Option<SocketAddr>,
}

/// A manager that has its ports and waits to run.
#[derive(Debug)]
pub struct Manager {
    shared: Shared,
    options: Options,
    webhooks: Option<Webhooks>,
    health: Option<(TcpListener, Arc<Health>)>,
    metrics: Option<(TcpListener, Arc<Metrics>)>,
    profiles: Option<TcpListener>,
    held: Option<watch::Sender<bool>>,
    intake: intake::Intake,
    status: Status,
}

/// Runs a manager until told to stop.
pub async fn run(
    client: Client,
    options: Options,
    shutdown: CancellationToken,
) -> Result<(), ManagerError> {
    Manager::bind(client, options).await?.run(shutdown).await
}

impl Manager {
    /// Takes all ports and registers metrics.
    pub async fn bind(client: Client, options: Options) -> Result<Self, ManagerError> {
        let registry = Registry::new();
        let instruments = Instruments::register(&registry)?;
        let leads = Registrar(&registry).gauge(&IS_LEADER)?;
        let (held, leadership) = match &options.election {
            Some(_) => {
                let (sender, receiver) = watch::channel(false);
                (Some(sender), Leadership::follow(receiver))
            }
            None => (None, Leadership::alone()),
        };
        let webhooks = if options.gates.is_on(ManagerGate::WebhookFramework) {
            Some(Webhooks::bind(client.clone(), options.webhook.clone(), &registry).await?)
        } else {
            None
        };
        let readiness = webhooks.as_ref().map(Webhooks::readiness);
        let health = listen(options.health)
            .await?
            .map(|listener| (listener, Arc::new(Health { webhooks: readiness.clone() })));
        let (intake, configs) = intake::channel();
        let clock = options.clock.clone();
        let caches = if options.node_resource.count_mid_requests {
            Caches::counting_mid_requests()
        } else {
            Caches::new()
        };
        let patience = PATIENCE;
        let shared = Shared { client, caches, configs, leadership, instruments, clock, patience };
        let metrics = listen(options.metrics).await?.map(|listener| {
            let (shared, node_resource) = (shared.clone(), options.node_resource);
            let webhooks = readiness.clone();
            (listener, Arc::new(Metrics { registry, leads, shared, node_resource, webhooks }))
        });
        let profiles = listen(options.profiles).await?;
        let status = Status {
            leadership: shared.leadership.clone(),
            webhooks: readiness,
            webhook_address: webhooks.as_ref().map(Webhooks::address),
            health_address: health.as_ref().and_then(|(listener, _)| listener.local_addr().ok()),
            metrics_address: metrics.as_ref().and_then(|(listener, _)| listener.local_addr().ok()),
            profiles_address: profiles.as_ref().and_then(|listener| listener.local_addr().ok()),
        };
        Ok(Self { shared, options, webhooks, health, metrics, profiles, held, intake, status })
    }

    /// Where it listens, and how to ask how it is.
    pub fn status(&self) -> Status {
        self.status.clone()
    }

    /// Runs until told to stop, or until it cannot go on.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), ManagerError> {
        let Self { shared, options, webhooks, health, metrics, profiles, held, intake, status } =
            self;
        let (controllers, servers, candidacy) =
            (CancellationToken::new(), CancellationToken::new(), CancellationToken::new());

        let mut working = start_controllers(&shared, &options, intake, &controllers);
        let clock = shared.clock.clone();
        let mut serving = start_servers(webhooks, health, metrics, clock, &servers);
        if let Some(listener) = profiles {
            let profiles = Arc::new(Profiles::default());
            let serve = serve_pages(listener, profiles, servers.clone());
            serving.spawn(serve);
        }
        // Sets end their tasks when they are dropped, so nothing outlives this function.
        let mut electing = JoinSet::new();
        if let (Some(settings), Some(held)) = (options.election, held) {
            let (client, stop) = (shared.client.clone(), candidacy.clone());
            electing.spawn(elect::run(client, settings, held, stop));
        }

        let end = tokio::select! {
            () = shutdown.cancelled() => Ok(()),
            Some(end) = electing.join_next() => Err(match end {
                Ok(End::Lost) => ManagerError::LostLease,
                _ => ManagerError::Ended("the election"),
            }),
            Some(end) = serving.join_next() => Err(match end {
                Ok(Err(error)) => error,
                _ => ManagerError::Ended("a server"),
            }),
            Some(_) = working.join_next() => Err(ManagerError::Ended("a controller")),
            late = overdue(options.ready_within, status.webhooks.clone()) => Err(ManagerError::NotReady(late)),
        };
        match &end {
            Ok(()) => info!("stopping"),
            Err(error) => error!(%error, "stopping"),
        }

        controllers.cancel();
        let ended =
            timeout(CONTROLLERS_END, async { while working.join_next().await.is_some() {} });
        if ended.await.is_err() {
            warn!("controllers take too long to end; their writes stop with the lease");
        }
        drop(working);
        candidacy.cancel();
        while electing.join_next().await.is_some() {}
        servers.cancel();
        while serving.join_next().await.is_some() {}
        end
    }
}

fn start_servers(
    webhooks: Option<Webhooks>,
    health: Option<(TcpListener, Arc<Health>)>,
    metrics: Option<(TcpListener, Arc<Metrics>)>,
    clock: Clock,
    stop: &CancellationToken,
) -> JoinSet<Result<(), ManagerError>> {
    let mut serving = JoinSet::new();
    if let Some(webhooks) = webhooks {
        let stop = stop.clone();
        serving.spawn(async move { webhooks.run(clock, stop).await.map_err(ManagerError::from) });
    }
    if let Some((listener, health)) = health {
        let serve = serve_pages(listener, health, stop.clone());
        serving.spawn(serve);
    }
    if let Some((listener, metrics)) = metrics {
        let serve = serve_pages(listener, metrics, stop.clone());
        serving.spawn(serve);
    }
    serving
}

async fn serve_pages<A: Answers>(
    listener: TcpListener,
    pages: Arc<A>,
    stop: CancellationToken,
) -> Result<(), ManagerError> {
    listen::serve(listener, None, pages, Limits::of_pages(), stop).await;
    Ok(())
}

async fn listen(address: Option<SocketAddr>) -> Result<Option<TcpListener>, ManagerError> {
    let Some(address) = address else { return Ok(None) };
    let listener = TcpListener::bind(address).await;
    listener.map(Some).map_err(|source| ManagerError::Listen { address, source })
}

/// Ends when webhooks are still not ready after the limit.
async fn overdue(limit: Option<Duration>, webhooks: Option<Readiness>) -> Duration {
    let (Some(limit), Some(mut webhooks)) = (limit, webhooks) else {
        return std::future::pending().await;
    };
    match timeout(limit, webhooks.until_ready()).await {
        Ok(()) => std::future::pending().await,
        Err(_) => limit,
    }
}

fn start_controllers(
    shared: &Shared,
    options: &Options,
    intake: intake::Intake,
    stop: &CancellationToken,
) -> JoinSet<()> {
    let mut working = JoinSet::new();
    working.spawn(intake::run(
        intake,
        options.config.clone(),
        shared.client.clone(),
        shared.leadership.clone(),
        shared.instruments.clone(),
        stop.clone(),
    ));
    let each = |run: fn(Shared, CancellationToken) -> Part| {
        let shared = shared.clone();
        move |stop: CancellationToken| run(shared.clone(), stop)
    };
    working.spawn(supervise("caches", each(|s, t| Box::pin(caches::run(s, t))), stop.clone()));
    let (resources, profiles) = (options.node_resource, options.colocation_profile.clone());
    for name in CONTROLLERS.iter().copied() {
        let is_gated = name == "colocationprofile"
            && !options.gates.is_on(ManagerGate::ColocationProfileController);
        if is_gated || !selects(&options.controllers, name) {
            continue;
        }
        let (shared, resources, profiles) = (shared.clone(), resources, profiles.clone());
        let part = move |stop: CancellationToken| -> Part {
            let shared = shared.clone();
            match name {
                "nodemetric" => Box::pin(node_metric::run(shared, stop)),
                "nodeslo" => Box::pin(node_slo::run(shared, stop)),
                "noderesource" => Box::pin(node_resource::run(shared, resources, stop)),
                "quotaprofile" => Box::pin(quota_profile::run(shared, stop)),
                _ => Box::pin(colocation_profile::run(shared, profiles.clone(), stop)),
            }
        };
        working.spawn(supervise(name, part, stop.clone()));
    }
    working
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_names_select() {
        let cases = [
            ("*", "nodeslo", true),
            ("", "nodeslo", false),
            ("nodeslo", "nodeslo", true),
            ("nodemetric", "nodeslo", false),
            ("*,-nodeslo", "nodeslo", false),
            ("-nodeslo,*", "nodeslo", false),
            ("-nodeslo,*", "nodemetric", true),
            ("nodeslo,-nodeslo", "nodeslo", true),
        ];
        for (list, name, want) in cases {
            let words: Vec<String> =
                list.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect();
            assert_eq!(selects(&words, name), want, "{list:?} and {name}");
        }
    }
}
