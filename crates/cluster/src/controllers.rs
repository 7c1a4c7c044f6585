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
//!
//! CronJobs are data only, and nodes for pods are the scheduler's part. Every controller is a pure function from what was observed to what
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
mod cache;
mod caches;
mod claim;
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
mod kinds;
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
use tracing::debug;

pub use self::tasks::TaskError;
use self::{
    caches::Caches,
    daemon_set::DaemonSets,
    deployment::Deployments,
    disruption::Budgets,
    drive::{Controller, drive},
    eviction::Evictions,
    garbage::{Garbage, Monitors, follow_shared},
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
pub use reconcile::clock::Clock;
use reconcile::{clock, key, merge};

/// What a cluster may want to have otherwise.
#[derive(Debug, Clone)]
pub struct Settings {
    pub clock: Clock,
    /// How long a node may be silent before it counts as unreachable.
    pub node_grace: SignedDuration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { clock: Clock::system(), node_grace: SignedDuration::from_secs(40) }
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

    // Controllers subscribe before the watches start, so that none misses the first list.
    let monitors = follow_shared(&caches);
    let garbage = Garbage::new(client.clone(), monitors.clone());
    let mut workers = Workers { client: client.clone(), events, settings, caches, shutdown, tasks };
    workers.start_all();
    workers.start_garbage(garbage, monitors.clone());
    let Workers { caches, shutdown, mut tasks, .. } = workers;
    caches.follow(&client, &mut tasks, &shutdown);
    let kinds = monitors.follow_kinds(client, shutdown.clone());
    tasks.spawn("watch of all kinds".into(), kinds);
    tasks.wait(&shutdown).await
}

/// What every controller needs to run.
struct Workers {
    client: Client,
    events: Events,
    settings: Settings,
    caches: Caches,
    shutdown: CancellationToken,
    tasks: Tasks,
}

impl Workers {
    fn writer<C: Controller>(&self) -> Writer {
        Writer { client: self.client.clone(), name: C::NAME, events: self.events.clone() }
    }

    fn start_all(&mut self) {
        let caches = &self.caches.clone();
        let grace = self.settings.node_grace;
        self.start(ReplicaSets::new(caches, self.writer::<ReplicaSets>()));
        self.start(Deployments::new(caches, self.writer::<Deployments>()));
        self.start(DaemonSets::new(caches, self.writer::<DaemonSets>()));
        self.start(StatefulSets::new(caches, self.writer::<StatefulSets>()));
        self.start(Jobs::new(caches, self.writer::<Jobs>()));
        self.start(Budgets::new(caches, self.writer::<Budgets>()));
        self.start(Namespaces::new(caches, self.writer::<Namespaces>()));
        self.start(NodeHealth::new(caches, self.writer::<NodeHealth>(), grace));
        self.start(Evictions::new(caches, self.writer::<Evictions>()));
        self.start(PodGarbage::new(caches, self.writer::<PodGarbage>()));
    }

    fn start<C: Controller>(&mut self, (controller, queue): (C, Queue<C::Key>)) {
        let caches = self.caches.clone();
        self.start_after(controller, queue, async move { caches.complete().await });
    }

    /// The garbage collector looks at kinds that are in no cache, and waits for them too.
    fn start_garbage(&mut self, garbage: Garbage, monitors: Monitors) {
        let (caches, queue) = (self.caches.clone(), monitors.queue.clone());
        self.start_after(garbage, queue, async move {
            caches.complete().await;
            monitors.complete().await;
        });
    }

    /// Starts a controller that decides nothing before it can see everything.
    fn start_after<C: Controller>(
        &mut self,
        controller: C,
        queue: Queue<C::Key>,
        ready: impl Future<Output = ()> + Send + 'static,
    ) {
        let (clock, shutdown) = (self.settings.clock.clone(), self.shutdown.clone());
        self.tasks.spawn(C::NAME.into(), async move {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = ready => debug!(controller = C::NAME, "caches are filled: starting"),
            }
            drive(controller, queue, clock, shutdown).await;
        });
    }
}
