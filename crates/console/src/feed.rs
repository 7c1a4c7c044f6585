//! How does the view learn of the cluster?
//!
//! One task for each kind follows its watch and puts what arrives into the [`World`]; another asks
//! agents for their decisions. Once a second, when something has changed, the rows and the first
//! page are computed and published under a new version: everyone who shows the cluster waits for
//! that.

mod agents;
mod keep;
mod watches;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::model::World;
use crate::model::overview::Overview;
use crate::model::row::NodeRow;

use keep::Keeper;

pub use agents::Agents;
pub use watches::Kind;

/// How often the view is computed, when something has changed.
const TICK: Duration = Duration::from_secs(1);
/// Ages grow though nothing changes.
const QUIET_TICKS: u32 = 15;

/// What is computed once for all who look.
#[derive(Debug, Clone)]
pub struct Published {
    pub version: u64,
    pub at: Timestamp,
    pub rows: Arc<Vec<NodeRow>>,
    pub overview: Arc<Overview>,
    /// Kinds whose first list has not come yet, or cannot be had.
    pub missing: Vec<Kind>,
}

/// The view of a cluster that is kept up to date. Clones look at the same.
#[derive(Debug, Clone)]
pub struct Feed(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    world: Mutex<World>,
    is_dirty: AtomicBool,
    listed: Mutex<[bool; Kind::ALL.len()]>,
    /// Whether agents were asked once.
    is_heard: AtomicBool,
    published: ArcSwap<Published>,
    versions: watch::Sender<u64>,
}

/// Where things are.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Of the ConfigMap slo-controller-config.
    pub config_namespace: String,
    pub agents: Agents,
    /// The file in which the sums of the ledger outlive this process; `None` keeps them in memory.
    pub ledger: Option<PathBuf>,
}

impl Default for Feed {
    fn default() -> Self {
        let published = Published {
            version: 0,
            at: Timestamp::UNIX_EPOCH,
            rows: Arc::default(),
            overview: Arc::new(Overview::of(&World::default(), &[])),
            missing: Kind::ALL.to_vec(),
        };
        Self(Arc::new(Inner {
            world: Mutex::default(),
            is_dirty: AtomicBool::new(true),
            listed: Mutex::default(),
            is_heard: AtomicBool::new(false),
            published: ArcSwap::from_pointee(published),
            versions: watch::Sender::new(0),
        }))
    }
}

impl Feed {
    /// Looks at the world; never held across an await.
    pub fn look<R>(&self, look: impl FnOnce(&World) -> R) -> R {
        look(&self.0.world.lock())
    }

    /// Changes the world; the next tick publishes it.
    pub fn change(&self, change: impl FnOnce(&mut World)) {
        change(&mut self.0.world.lock());
        self.0.is_dirty.store(true, Ordering::Release);
    }

    pub fn published(&self) -> Arc<Published> {
        self.0.published.load_full()
    }

    /// The version of what is published, and each new one.
    pub fn versions(&self) -> watch::Receiver<u64> {
        self.0.versions.subscribe()
    }

    /// Says that everything of a kind has come in once.
    pub fn set_listed(&self, kind: Kind, is_listed: bool) {
        if let Some(place) = self.0.listed.lock().get_mut(kind as usize) {
            *place = is_listed;
        }
        self.0.is_dirty.store(true, Ordering::Release);
    }

    fn missing(&self) -> Vec<Kind> {
        let listed = *self.0.listed.lock();
        let kinds = Kind::ALL.iter().zip(listed);
        kinds.filter(|(_, is_listed)| !is_listed).map(|(kind, _)| *kind).collect()
    }

    /// Computes and publishes.
    pub fn publish(&self, now: Timestamp) {
        self.0.is_dirty.store(false, Ordering::Release);
        let (rows, overview) = {
            let mut world = self.0.world.lock();
            let rows = world.rows(now);
            world.sample_fleet(&rows, now);
            let overview = Overview::of(&world, &rows);
            (rows, overview)
        };
        let version = self.published().version + 1;
        self.0.published.store(Arc::new(Published {
            version,
            at: now,
            rows: Arc::new(rows),
            overview: Arc::new(overview),
            missing: self.missing(),
        }));
        self.0.versions.send_replace(version);
    }

    /// Waits until every kind was listed once, or was refused for the whole time.
    pub async fn until_listed(&self, patience: Duration) {
        let listed = async {
            while !self.missing().is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let _ = tokio::time::timeout(patience, listed).await;
    }

    /// Waits until the first agents were asked.
    pub async fn until_heard(&self, patience: Duration) {
        let heard = async {
            while !self.0.is_heard.load(Ordering::Acquire) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let _ = tokio::time::timeout(patience, heard).await;
    }

    fn set_heard(&self) {
        self.0.is_heard.store(true, Ordering::Release);
    }

    /// Follows the cluster until told to stop.
    pub async fn run(self, client: Client, settings: Settings, shutdown: CancellationToken) {
        let tasks = TaskTracker::new();
        // What was kept comes before what is new.
        let keeper = match settings.ledger {
            Some(path) => Some(Keeper::open(path, &self).await),
            None => None,
        };
        watches::start(&self, &client, &settings.config_namespace, &tasks, &shutdown);
        tasks.spawn(agents::follow(self.clone(), client, settings.agents, shutdown.clone()));
        if let Some(keeper) = keeper {
            tasks.spawn(keeper.run(self.clone(), shutdown.clone()));
        }
        tasks.close();
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut quiet = 0;
        loop {
            tokio::select! {
                () = shutdown.cancelled() => break,
                _ = ticks.tick() => {}
            }
            quiet += 1;
            if self.0.is_dirty.load(Ordering::Acquire) || quiet >= QUIET_TICKS {
                quiet = 0;
                self.publish(Timestamp::now());
            }
        }
        tasks.wait().await;
    }
}
