//! Which controllers does a cluster of one machine need, and how do they run together?
//!
//! | controller | brings about |
//! |---|---|
//! | [`replica_set`], [`deployment`] | replicated pods, and rollouts of them |
//! | [`daemon_set`], [`stateful_set`] | one pod a node; pods in a numbered row |
//! | [`job`] | pods that run to completion |
//! | [`garbage`], [`namespace`], [`pod_gc`] | the end of what nobody owns any more |
//! | [`disruption`] | how many pods may be evicted |
//! | [`node_health`], [`eviction`] | what follows when a node falls silent |
//! | [`binder`] | nodes for pods, until there is a scheduler |
//!
//! CronJobs are data only. Every controller is a pure function from what was observed to what
//! shall be done, with the time as an argument, in a module of its own, and a `shell` around it:
//!
//! ```text
//!  server ──watch──> caches ──changes──> queue ──key──> shell: look ─> plan ─> write ──> server
//!                       └───────────── indexed objects ─────────┘
//! ```
//!
//! The shells share everything that is not a decision: one watch a kind ([`caches`]), queues with
//! growing retries ([`queue`]), the loop that empties them ([`drive`]), writes that fail when they
//! were decided on old facts ([`writer`]), [`expectations`] that keep a stale cache from creating
//! twice, and [`recorder`] for events. One task a controller writes; all tasks end with one token.

mod amount;
mod binder;
mod cache;
mod caches;
mod claim;
mod clock;
mod daemon_set;
mod deployment;
mod disruption;
mod drive;
mod eviction;
mod expectations;
#[cfg(test)]
mod fixture;
mod garbage;
mod job;
mod key;
mod kinds;
mod merge;
mod namespace;
mod node_health;
mod owners;
mod placement;
mod pod;
mod pod_gc;
mod queue;
mod recorder;
mod replica_set;
mod revision;
mod revisions;
mod stateful_set;
mod tasks;
mod template;
mod writer;

use jiff::SignedDuration;
use kube::Client;
use tokio_util::sync::CancellationToken;
use tracing::info;

use self::{
    binder::Binder,
    caches::Caches,
    daemon_set::DaemonSets,
    deployment::Deployments,
    disruption::Budgets,
    drive::{Controller, drive},
    eviction::Evictions,
    garbage::{Garbage, follow_shared},
    job::Jobs,
    namespace::Namespaces,
    node_health::NodeHealth,
    pod_gc::PodGarbage,
    queue::Queue,
    recorder::Events,
    replica_set::ReplicaSets,
    stateful_set::StatefulSets,
    tasks::Tasks,
    writer::Writer,
};
pub use self::{clock::Clock, tasks::TaskError};

/// What a cluster may want to have otherwise.
#[derive(Debug, Clone)]
pub struct Settings {
    pub clock: Clock,
    /// How long a node may be silent before it counts as unreachable.
    pub node_grace: SignedDuration,
    /// Run the provisional binder, which gives every pending pod a node; off when a scheduler runs.
    pub binder: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { clock: Clock::system(), node_grace: SignedDuration::from_secs(40), binder: true }
    }
}

/// Runs all controllers until `shutdown`, with the usual settings.
pub async fn run(client: Client, shutdown: CancellationToken) -> Result<(), TaskError> {
    run_with(client, Settings::default(), shutdown).await
}

/// Runs all controllers until `shutdown`. An error means that a task has ended by itself; all
/// others have been ended then too.
pub async fn run_with(
    client: Client,
    settings: Settings,
    shutdown: CancellationToken,
) -> Result<(), TaskError> {
    let caches = Caches::new();
    let (events, notes) = recorder::channel();
    let mut tasks = Tasks::default();
    let record = recorder::record(client.clone(), notes, settings.clock.clone(), shutdown.clone());
    tasks.spawn("recorder of events".into(), record);
    let mut workers =
        Workers { client: client.clone(), events, settings, shutdown: shutdown.clone(), tasks };

    // Controllers subscribe before the watches start, so that none misses the first list.
    let monitors = follow_shared(&caches);
    let garbage = Garbage::new(client.clone(), monitors.clone());
    let starts = workers.prepare(&caches);
    caches.follow(&client, &mut workers.tasks, &shutdown);
    let kinds = monitors.clone().follow_kinds(client, shutdown.clone());
    workers.tasks.spawn("watch of all kinds".into(), kinds);

    tokio::select! {
        biased;
        () = shutdown.cancelled() => {}
        () = caches.complete() => {
            info!("caches are filled: starting controllers");
            for start in starts {
                start(&mut workers);
            }
            workers.start_garbage(garbage, monitors);
        }
    }
    workers.tasks.wait(&shutdown).await
}

/// Starts a controller that is ready to run.
type Start = Box<dyn FnOnce(&mut Workers) + Send>;

/// What every controller needs to run.
struct Workers {
    client: Client,
    events: Events,
    settings: Settings,
    shutdown: CancellationToken,
    tasks: Tasks,
}

impl Workers {
    fn writer<C: Controller>(&self) -> Writer {
        Writer { client: self.client.clone(), name: C::NAME, events: self.events.clone() }
    }

    /// Builds all controllers; they run once the caches are filled.
    fn prepare(&self, caches: &Caches) -> Vec<Start> {
        let grace = self.settings.node_grace;
        let mut starts = vec![
            later(ReplicaSets::new(caches, self.writer::<ReplicaSets>())),
            later(Deployments::new(caches, self.writer::<Deployments>())),
            later(DaemonSets::new(caches, self.writer::<DaemonSets>())),
            later(StatefulSets::new(caches, self.writer::<StatefulSets>())),
            later(Jobs::new(caches, self.writer::<Jobs>())),
            later(Budgets::new(caches, self.writer::<Budgets>())),
            later(Namespaces::new(caches, self.writer::<Namespaces>())),
            later(NodeHealth::new(caches, self.writer::<NodeHealth>(), grace)),
            later(Evictions::new(caches, self.writer::<Evictions>())),
            later(PodGarbage::new(caches, self.writer::<PodGarbage>())),
        ];
        if self.settings.binder {
            starts.push(later(Binder::new(caches, self.writer::<Binder>())));
        }
        starts
    }

    fn start<C: Controller>(&mut self, controller: C, queue: Queue<C::Key>) {
        let task = drive(controller, queue, self.settings.clock.clone(), self.shutdown.clone());
        self.tasks.spawn(C::NAME.into(), task);
    }

    /// The garbage collector looks at kinds that are in no cache, and waits for them too.
    fn start_garbage(&mut self, garbage: Garbage, monitors: garbage::Monitors) {
        let (clock, shutdown) = (self.settings.clock.clone(), self.shutdown.clone());
        self.tasks.spawn(Garbage::NAME.into(), async move {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = monitors.complete() => {}
            }
            drive(garbage, monitors.queue.clone(), clock, shutdown).await;
        });
    }
}

fn later<C: Controller>((controller, queue): (C, Queue<C::Key>)) -> Start {
    Box::new(move |workers| workers.start(controller, queue))
}
