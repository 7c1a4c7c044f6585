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
//! | `extender` | who else has a say about a pod? |
//! | [`barrier`] | may a new leader trust what it has seen? |
//! | `pending`, `notes` | what are people told, and how often? |
//! | `monitor`, `instruments`, `sample`, `debug` | how is it doing? |
//! | [`secure`] | who may read that over TLS? |

mod act;
pub mod barrier;
mod debug;
mod drive;
mod extender;
mod feed;
pub mod instruments;
mod monitor;
mod notes;
mod pending;
pub mod profile;
mod sample;
pub mod secure;
mod versions;

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
use reconcile::elect::{self, End, Leadership};
use reconcile::listen::{self, Limits};
use reconcile::write::Writer;
use sched::scheduler::{Options as EngineOptions, ProfileError, Scheduler as Engine};
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use self::act::Hands;
use self::barrier::Barrier;
use self::debug::{Debug, Question};
use self::drive::{Driver, Parts};
use self::extender::Extenders;
use self::instruments::Instruments;
use self::monitor::Monitor;
use self::secure::{Guard, Secure};
use crate::Clock;
use crate::webhook::tls::{self, Serving};

/// How a scheduler runs.
#[derive(Debug, Clone)]
pub struct Options {
    pub configuration: Configuration,
    /// `None` for a process that is alone.
    pub election: Option<elect::Settings>,
    pub gates: Gates<SchedulerGate>,
    /// Where health, metrics and questions are answered.
    pub listen: Option<SocketAddr>,
    /// Where they are answered over TLS, to those who may ask.
    pub secure: Option<Secure>,
    /// Behind the gate `SyncBarrier`.
    pub barrier: barrier::Settings,
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
            secure: None,
            barrier: barrier::Settings::default(),
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
        // There is no other scheduler a pod could have been given to.
        options.gates.set(SchedulerGate::DynamicSchedulerCheck, false);
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
pub fn candidacy(lease: &Lease, identity: String) -> elect::Settings {
    elect::Settings {
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
    #[error(transparent)]
    Extender(#[from] extender::ExtenderError),
    #[error("cannot serve over TLS")]
    Secure(#[from] secure::SecureError),
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
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
    pub secure_address: Option<SocketAddr>,
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
    extenders: Arc<Extenders>,
    listener: Option<TcpListener>,
    secure: Option<(TcpListener, Arc<Serving>)>,
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
        let extenders = Arc::new(Extenders::connect(&options.configuration.extenders)?);
        let mut engine = Engine::new(
            profile::translate_all(&options.configuration),
            EngineOptions {
                seed: options.seed,
                initial_backoff: options.configuration.initial_backoff,
                max_backoff: options.configuration.max_backoff,
            },
        )?;
        if let Some(consult) = extenders.consult() {
            engine.consult(&consult);
        }
        let (held, leadership) = match &options.election {
            Some(_) => {
                let (sender, receiver) = watch::channel(false);
                (Some(sender), Leadership::follow(receiver))
            }
            None => (None, Leadership::alone()),
        };
        let listener = listen(options.listen).await?;
        let secure = match &options.secure {
            None => None,
            Some(own) => {
                let serving = secure::serving(own, options.clock.now()).await?;
                listen(Some(own.listen)).await?.map(|listener| (listener, serving))
            }
        };
        let (synced, is_synced) = watch::channel(false);
        let status = Status {
            leadership,
            address: listener.as_ref().and_then(|listener| listener.local_addr().ok()),
            secure_address: secure.as_ref().and_then(|(listener, _)| listener.local_addr().ok()),
            is_synced,
        };
        Ok(Self {
            client,
            options,
            engine,
            registry,
            instruments,
            extenders,
            listener,
            secure,
            held,
            synced,
            status,
        })
    }

    /// Where it listens, and how to ask how it is.
    pub fn status(&self) -> Status {
        self.status.clone()
    }

    /// Runs until told to stop, or until it cannot go on.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), SchedulerError> {
        let (deciding, writing, noting, helping, candidacy) = (
            CancellationToken::new(),
            CancellationToken::new(),
            CancellationToken::new(),
            CancellationToken::new(),
            CancellationToken::new(),
        );
        // Sets end their tasks when they are dropped, so nothing outlives this function.
        let (mut helpers, mut noters, mut electing, mut driving) =
            (JoinSet::new(), JoinSet::new(), JoinSet::new(), JoinSet::new());
        let (asking, questions) = mpsc::channel::<Question>(debug::QUESTIONS);
        let pages = Arc::new(self.pages(asking.clone()));
        let Self { client, options, engine, instruments, extenders, listener, secure, .. } = self;
        let (held, synced, leadership) = (self.held, self.synced, self.status.leadership);
        let listeners = (listener, secure);
        serve(pages, listeners, &client, options.secure.as_ref(), &helping, &mut helpers)?;
        let items = feed::start(&client, &helping, &mut helpers);
        let notes = notes::start(&client, &leadership, &options.clock, &noting, &mut noters);
        let hands = hands(&client, &leadership, &options, &extenders, &instruments, &writing);
        let is_barred = options.gates.is_on(SchedulerGate::SyncBarrier);
        let barrier = options.election.as_ref().filter(|_| is_barred).map(|_| options.barrier);
        let driver = Driver::new(Parts {
            engine,
            hands,
            notes,
            instruments,
            clock: options.clock,
            leadership,
            monitor: Monitor::new(options.scheduling_timeout, options.monitor_period),
            bindings: options.bindings.max(1),
            is_synced: synced,
            extenders,
            barrier: Barrier::new(barrier),
            lease: options.election.as_ref().map(|own| own.name.clone()).unwrap_or_default(),
        });
        driving.spawn(driver.run(items, questions, deciding.clone()));
        if let (Some(settings), Some(held)) = (options.election, held) {
            electing.spawn(elect::run(client, settings, held, candidacy.clone()));
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

    /// What is answered over HTTP.
    fn pages(&self, questions: mpsc::Sender<Question>) -> Debug {
        let election = self.options.election.as_ref();
        Debug {
            registry: self.registry.clone(),
            instruments: self.instruments.clone(),
            leadership: self.status.leadership.clone(),
            lease: election.map(|own| own.name.clone()).unwrap_or_default(),
            is_synced: self.status.is_synced.clone(),
            configuration: describe(&self.options.configuration),
            questions,
        }
    }
}

async fn listen(address: Option<SocketAddr>) -> Result<Option<TcpListener>, SchedulerError> {
    let Some(address) = address else { return Ok(None) };
    let listener = TcpListener::bind(address).await;
    listener.map(Some).map_err(|source| SchedulerError::Listen { address, source })
}

/// Answers on both ports.
fn serve(
    pages: Arc<Debug>,
    (plain, secure): (Option<TcpListener>, Option<(TcpListener, Arc<Serving>)>),
    client: &Client,
    settings: Option<&Secure>,
    stop: &CancellationToken,
    helpers: &mut JoinSet<()>,
) -> Result<(), SchedulerError> {
    if let Some(listener) = plain {
        let limits = Limits::of_pages();
        helpers.spawn(listen::serve(listener, None, pages.clone(), limits, stop.clone()));
    }
    if let (Some((listener, serving)), Some(settings)) = (secure, settings) {
        let tls = tls::server_config(serving.clone())?;
        if let Some(files) = settings.files.clone() {
            helpers.spawn(secure::renew(files, serving, stop.clone()));
        }
        let guard = Arc::new(Guard::new(client.clone(), settings.open.clone(), pages));
        let limits = Limits::of_pages();
        helpers.spawn(listen::serve(listener, Some(tls), guard, limits, stop.clone()));
    }
    Ok(())
}

fn hands(
    client: &Client,
    leadership: &Leadership,
    options: &Options,
    extenders: &Arc<Extenders>,
    instruments: &Instruments,
    stop: &CancellationToken,
) -> Hands {
    Hands {
        writer: Writer::new(client.clone(), leadership.clone()).waiting(options.request_timeout),
        volume_patience: volume_patience(&options.configuration),
        looks_again: options.gates.is_on(SchedulerGate::DynamicSchedulerCheck),
        extenders: extenders.clone(),
        instruments: instruments.clone(),
        stop: stop.clone(),
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

/// How long volumes may take, as the most patient profile has it.
fn volume_patience(configuration: &Configuration) -> Duration {
    let patience = |profile: &Profile| profile.arguments.volume_binding.bind_timeout_seconds;
    let seconds = configuration.profiles.iter().map(patience).max().unwrap_or_default();
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
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
