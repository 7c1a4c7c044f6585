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
//! CronJobs are data only, and nodes for pods are the scheduler's part. Every controller is a pure
//! function from what was observed to what shall be done, with the time as an argument, in a module
//! of its own, and a `reconcile` around it that looks, plans and writes with the shell kit.
//!
//! The controllers share one watch a kind ([`caches`]), [`expectations`] that keep a stale cache
//! from creating twice, the way pods come and go ([`pods`]), and a recorder of events. One task a
//! controller writes; all tasks end with one token.

mod amount;
mod caches;
mod claim;
mod daemon_set;
mod deployment;
mod disruption;
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
mod pods;
mod replica_set;
mod revision;
mod revisions;
mod stateful_set;
mod tasks;
mod template;

use std::time::Duration;

use jiff::SignedDuration;
use kube::Client;
use reconcile::drive::{Controller, Driver};
use reconcile::elect::Leadership;
use reconcile::queue::Queue;
use reconcile::record::{Form, Recorder, Recording};
use reconcile::write::Writer;
use reconcile::{clock, key};
use tokio_util::sync::CancellationToken;
use tracing::debug;

pub use self::tasks::TaskError;
use self::{
    caches::Caches,
    daemon_set::DaemonSets,
    deployment::Deployments,
    disruption::Budgets,
    eviction::Evictions,
    garbage::{Garbage, Monitors, follow_shared},
    job::Jobs,
    namespace::Namespaces,
    node_health::NodeHealth,
    pod_gc::PodGarbage,
    replica_set::ReplicaSets,
    stateful_set::StatefulSets,
    tasks::Tasks,
};
pub use reconcile::clock::Clock;

/// How long a write may take: nobody else waits to lead here.
const PATIENCE: Duration = Duration::from_secs(30);

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
    let leadership = Leadership::alone();
    let recording =
        Recording::new(client.clone(), leadership.clone(), settings.clock.clone(), Form::Core);
    let recording = Recording { is_limited: true, ..recording };
    let (events, record) = recording.start("controllers", shutdown.clone());
    let mut tasks = Tasks::default();
    tasks.spawn("recorder of events".into(), record);

    // Controllers subscribe before the watches start, so that none misses the first list.
    let caches = Caches::new();
    let monitors = follow_shared(&caches);
    let clock = settings.clock.clone();
    let driver = Driver { clock, leadership: leadership.clone(), counters: None };
    let writer = Writer::new(client.clone(), leadership).waiting(PATIENCE);
    let garbage = Garbage::new(writer.clone().managing(Garbage::NAME), monitors.clone());
    let mut workers = Workers { writer, events, driver, caches, shutdown, tasks };
    workers.start_all(settings.node_grace);
    workers.start_garbage(garbage, monitors.clone());
    let Workers { caches, shutdown, mut tasks, .. } = workers;
    caches.follow(&client, &mut tasks, &shutdown);
    let kinds = monitors.follow_kinds(client, shutdown.clone());
    tasks.spawn("watch of all kinds".into(), kinds);
    tasks.wait(&shutdown).await
}

/// What every controller works with.
#[derive(Debug, Clone)]
struct Tools {
    caches: Caches,
    writer: Writer,
    events: Recorder,
}

/// What starts controllers.
struct Workers {
    writer: Writer,
    events: Recorder,
    driver: Driver,
    caches: Caches,
    shutdown: CancellationToken,
    tasks: Tasks,
}

impl Workers {
    fn start_all(&mut self, node_grace: SignedDuration) {
        self.start(ReplicaSets::new);
        self.start(Deployments::new);
        self.start(DaemonSets::new);
        self.start(StatefulSets::new);
        self.start(Jobs::new);
        self.start(Budgets::new);
        self.start(Namespaces::new);
        self.start(|tools| NodeHealth::new(tools, node_grace));
        self.start(Evictions::new);
        self.start(PodGarbage::new);
    }

    fn start<C: Controller + 'static>(&mut self, new: impl FnOnce(Tools) -> (C, Queue<C::Key>)) {
        let caches = self.caches.clone();
        let (controller, queue) = new(Tools {
            caches: caches.clone(),
            writer: self.writer.clone().managing(C::NAME),
            events: self.events.of(C::NAME),
        });
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
    fn start_after<C: Controller + 'static>(
        &mut self,
        controller: C,
        queue: Queue<C::Key>,
        ready: impl Future<Output = ()> + Send + 'static,
    ) {
        let (driver, shutdown) = (self.driver.clone(), self.shutdown.clone());
        self.tasks.spawn(C::NAME.into(), async move {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = ready => debug!(controller = C::NAME, "caches are filled: starting"),
            }
            driver.run([controller], &queue, &shutdown).await;
        });
    }
}
