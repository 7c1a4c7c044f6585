//! The scheduler: which parts run in it, and in which order do they come and go?
//!
//! ```text
//!   every replica   watches, the engine's picture of the cluster, health, metrics
//!   the leader      decisions, bindings, preemptions, events
//! ```
//!
//! A replica that does not lead knows everything and decides nothing, so that it can take over
//! at once. On a stop deciding ends first, then what is under way is finished, then the lease is
//! given back. A replica that loses the lease ends, as the reference does.
//!
//! | module | question |
//! |---|---|
//! | [`profile`] | what does a configuration mean to the engine? |
//! | `feed` | what does the engine hear of the cluster? |
//! | `drive` | when is decided, and what becomes of a decision? |
//! | `act` | how is it written, so that a pod is bound once? |
//! | `pending`, `notes` | what are people told, and how often? |
//! | `monitor`, `instruments`, `debug` | how is it doing? |

mod act;
mod debug;
mod drive;
mod feed;
pub mod instruments;
mod monitor;
mod notes;
mod pending;
pub mod profile;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use api::protocol::gate::{Gates, SchedulerGate};
use api::protocol::name::SCHEDULER_PROFILE;
use api::protocol::resource::{BATCH_CPU, BATCH_MEMORY};
use api::scheduler::args::WeighedResource;
use api::scheduler::file::{Mention, Plugins};
use api::scheduler::{Configuration, Lease, Point, Profile, merge};
use kube::Client;
use prometheus::Registry;
use sched::scheduler::{Options as EngineOptions, ProfileError, Scheduler as Engine};
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use self::act::Hands;
use self::debug::{Debug, Question};
use self::drive::{Driver, Parts};
use self::instruments::Instruments;
use self::monitor::Monitor;
use crate::Clock;
use crate::leader::Leadership;
use crate::leader::election::{self, End};

/// How a scheduler runs.
#[derive(Debug, Clone)]
pub struct Options {
    pub configuration: Configuration,
    /// `None` for a process that is alone.
    pub election: Option<election::Settings>,
    pub gates: Gates<SchedulerGate>,
    /// Where health, metrics and questions are answered.
    pub listen: Option<SocketAddr>,
    /// Decides between equal nodes.
    pub seed: u64,
    /// Pods on their way to their nodes at once.
    pub bindings: usize,
    /// How long one request may take before its outcome counts as unknown.
    pub request_timeout: Duration,
    /// When a pod on its way is late, and how often that is looked at.
    pub scheduling_timeout: Duration,
    pub monitor_period: Duration,
    pub clock: Clock,
}

impl Default for Options {
    fn default() -> Self {
        use api::protocol::endpoint::scheduler::HTTP_PORT;
        Self {
            configuration: Configuration::default(),
            election: None,
            gates: Gates::default(),
            listen: Some(SocketAddr::from(([0, 0, 0, 0], HTTP_PORT))),
            seed: 0,
            bindings: 128,
            request_timeout: Duration::from_secs(30),
            scheduling_timeout: Duration::from_secs(30),
            monitor_period: Duration::from_secs(10),
            clock: Clock::system(),
        }
    }
}

impl Options {
    /// For a scheduler that shares its process with everything else: alone, without ports, for
    /// pods that name no scheduler and for those that name ours, with the plugins of co-location.
    pub fn on_one_machine() -> Self {
        let mut options = Self { listen: None, ..Self::default() };
        options.configuration.profiles =
            vec![colocation(SCHEDULER_PROFILE), colocation("default-scheduler")];
        options
    }
}

/// The default plugins with load and CPU topology, and the arguments the reference ships: batch
/// resources count in the score, and nodes are not refused for their load.
fn colocation(scheduler_name: &str) -> Profile {
    let mut plugins = Plugins::default();
    for name in ["LoadAwareScheduling", "NodeNUMAResource"] {
        plugins.multi_point.enabled.push(Mention { name: name.to_owned(), weight: None });
    }
    let mut profile = Profile::plain(scheduler_name);
    profile.points = merge::merge(&plugins, "plugins", &mut Vec::new());
    let load = &mut profile.arguments.load_aware;
    load.filter_expired_node_metrics = false;
    load.node_metric_expiration_seconds = 300;
    load.usage_thresholds.values_mut().for_each(|percent| *percent = 0);
    let batch = [BATCH_CPU, BATCH_MEMORY];
    let batch = batch.map(|name| WeighedResource { name: name.to_owned(), weight: 1 });
    profile.arguments.fit.scoring_strategy.resources.extend(batch);
    profile
}
/// The lease of a configuration, in the name of this replica.
pub fn candidacy(lease: &Lease, identity: String) -> election::Settings {
    election::Settings {
        namespace: lease.namespace.clone(),
        name: lease.name.clone(),
        identity,
        length: lease.length,
        deadline: lease.deadline,
        retry: lease.retry,
    }
}

/// Why a scheduler ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum SchedulerError {
    #[error("cannot listen on {address}")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("the configuration cannot be used")]
    Profile(#[from] ProfileError),
    #[error("cannot register a metric")]
    Metric(#[from] prometheus::Error),
    #[error("the lease went to another replica")]
    LostLease,
    #[error("{0} ended unexpectedly")]
    Ended(&'static str),
}

/// What is known of a running scheduler.
#[derive(Debug, Clone)]
pub struct Status {
    pub leadership: Leadership,
    pub address: Option<SocketAddr>,
    is_synced: watch::Receiver<bool>,
}

impl Status {
    /// Waits until everything that exists is known.
    pub async fn until_synced(&mut self) {
        if self.is_synced.wait_for(|synced| *synced).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// A scheduler that has its port and its profiles and waits to run.
pub struct Scheduler {
    client: Client,
    options: Options,
    engine: Engine,
    registry: Registry,
    instruments: Instruments,
    listener: Option<TcpListener>,
    held: Option<watch::Sender<bool>>,
    synced: watch::Sender<bool>,
    status: Status,
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler").field("status", &self.status).finish_non_exhaustive()
    }
}

/// Runs a scheduler until told to stop.
pub async fn run(
    client: Client,
    options: Options,
    shutdown: CancellationToken,
) -> Result<(), SchedulerError> {
    Scheduler::bind(client, options).await?.run(shutdown).await
}

impl Scheduler {
    /// Takes the port, makes the engine and registers metrics.
    pub async fn bind(client: Client, options: Options) -> Result<Self, SchedulerError> {
        let registry = Registry::new();
        let instruments = Instruments::register(&registry)?;
        let engine = Engine::new(
            options.configuration.profiles.iter().map(profile::translate).collect(),
            EngineOptions {
                seed: options.seed,
                initial_backoff: options.configuration.initial_backoff,
                max_backoff: options.configuration.max_backoff,
            },
        )?;
        let (held, leadership) = match &options.election {
            Some(_) => {
                let (sender, receiver) = watch::channel(false);
                (Some(sender), Leadership::follow(receiver))
            }
            None => (None, Leadership::alone()),
        };
        let listener = match options.listen {
            None => None,
            Some(address) => Some(
                TcpListener::bind(address)
                    .await
                    .map_err(|source| SchedulerError::Listen { address, source })?,
            ),
        };
        let (synced, is_synced) = watch::channel(false);
        let address = listener.as_ref().and_then(|listener| listener.local_addr().ok());
        let status = Status { leadership, address, is_synced };
        Ok(Self { client, options, engine, registry, instruments, listener, held, synced, status })
    }

    /// Where it listens, and how to ask how it is.
    pub fn status(&self) -> Status {
        self.status.clone()
    }

    /// Runs until told to stop, or until it cannot go on.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), SchedulerError> {
        let Self { client, options, engine, registry, instruments, listener, held, synced, status } =
            self;
        let leadership = status.leadership.clone();
        let (deciding, writing, noting, helping, candidacy) = (
            CancellationToken::new(),
            CancellationToken::new(),
            CancellationToken::new(),
            CancellationToken::new(),
            CancellationToken::new(),
        );
        // Sets end their tasks when they are dropped, so nothing outlives this function.
        let (mut helpers, mut noters, mut electing) =
            (JoinSet::new(), JoinSet::new(), JoinSet::new());
        let items = feed::start(&client, &helping, &mut helpers);
        let notes = notes::start(&client, &leadership, &options.clock, &noting, &mut noters);
        let (asking, questions) = mpsc::channel::<Question>(debug::QUESTIONS);
        if let Some(listener) = listener {
            let debug = Arc::new(Debug {
                registry,
                instruments: instruments.clone(),
                leadership: leadership.clone(),
                lease: options.election.as_ref().map(|own| own.name.clone()).unwrap_or_default(),
                is_synced: status.is_synced.clone(),
                configuration: describe(&options.configuration),
                questions: asking.clone(),
            });
            helpers.spawn(crate::listener::serve(listener, None, debug, helping.clone()));
        }
        let hands = hands(&client, &leadership, &options, &writing);
        let driver = Driver::new(Parts {
            engine,
            hands,
            notes,
            instruments,
            clock: options.clock.clone(),
            leadership,
            monitor: Monitor::new(options.scheduling_timeout, options.monitor_period),
            bindings: options.bindings.max(1),
            is_synced: synced,
        });
        let mut driving = JoinSet::new();
        driving.spawn(driver.run(items, questions, deciding.clone()));
        if let (Some(settings), Some(held)) = (options.election, held) {
            electing.spawn(election::run(client, settings, held, candidacy.clone()));
        }

        let end = until_end(&shutdown, &mut electing, &mut driving, &mut helpers).await;
        deciding.cancel();
        while driving.join_next().await.is_some() {}
        writing.cancel();
        noting.cancel();
        while noters.join_next().await.is_some() {}
        candidacy.cancel();
        while electing.join_next().await.is_some() {}
        helping.cancel();
        drop(asking);
        while helpers.join_next().await.is_some() {}
        end
    }
}

/// Waits for the stop, or for a part that ends by itself.
async fn until_end(
    shutdown: &CancellationToken,
    electing: &mut JoinSet<End>,
    driving: &mut JoinSet<()>,
    helpers: &mut JoinSet<()>,
) -> Result<(), SchedulerError> {
    let end = tokio::select! {
        () = shutdown.cancelled() => Ok(()),
        Some(end) = electing.join_next() => Err(match end {
            Ok(End::Lost) => SchedulerError::LostLease,
            _ => SchedulerError::Ended("the election"),
        }),
        Some(_) = driving.join_next() => Err(SchedulerError::Ended("the engine")),
        Some(_) = helpers.join_next() => Err(SchedulerError::Ended("a watch or a server")),
    };
    match &end {
        Ok(()) => info!("stopping"),
        Err(error) => error!(%error, "stopping"),
    }
    end
}

fn hands(
    client: &Client,
    leadership: &Leadership,
    options: &Options,
    stop: &CancellationToken,
) -> Hands {
    let patience = |profile: &Profile| profile.arguments.volume_binding.bind_timeout_seconds;
    let seconds = options.configuration.profiles.iter().map(patience).max().unwrap_or_default();
    Hands {
        client: client.clone(),
        leadership: leadership.clone(),
        patience: options.request_timeout,
        volume_patience: Duration::from_secs(u64::try_from(seconds).unwrap_or_default()),
        stop: stop.clone(),
    }
}

/// The plugins that run, for people.
fn describe(configuration: &Configuration) -> Value {
    let profiles = configuration.profiles.iter().map(|profile| {
        let mut points = Map::new();
        for point in Point::ALL.iter().copied() {
            let plugins = profile.points.active(point).map(|own| match point {
                Point::Score => json!({"name": own.plugin.name, "weight": own.weight}),
                _ => json!({"name": own.plugin.name}),
            });
            points.insert(point.as_str().to_owned(), plugins.collect());
        }
        json!({"schedulerName": profile.scheduler_name, "plugins": points})
    });
    json!({"kubescheduler.config.k8s.io": {
        "podInitialBackoffSeconds": configuration.initial_backoff.as_secs(),
        "podMaxBackoffSeconds": configuration.max_backoff.as_secs(),
        "profiles": profiles.collect::<Vec<_>>()}})
}
