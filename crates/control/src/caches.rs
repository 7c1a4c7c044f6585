//! What does the manager remember of the cluster?
//!
//! One task for each kind follows its watch and files what arrives in the [`World`]; a touched node
//! goes into the queues of the controllers that care. Pods of all nodes pass through, but only
//! facts of them stay.
//!
//! A kind that the API server does not know (its CRD is not installed) is asked for again every
//! half minute; controllers that need it wait, the others go on.

mod world;

use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;

use api::kind::{Device, NodeMetric, NodeResourceTopology, NodeSlo};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch_objects};
use kube::{Api, Client};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::Shared;
use crate::queue::Queue;
pub use world::{Entry, Filed, Kind, MetricRecord, NodeName, NodeRecord, Touch, World};

/// Pods that are bound and not done.
const OCCUPYING: &str = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";

/// How far a kind's first list has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Progress {
    #[default]
    Pending,
    /// The first attempt failed; more are made.
    Refused,
    Listed,
}

/// The world and who waits for news of it.
#[derive(Debug)]
pub struct Caches {
    world: Mutex<World>,
    progress: watch::Sender<[Progress; Kind::ALL.len()]>,
    pub(crate) metrics: Queue,
    pub(crate) slos: Queue,
    pub(crate) resources: Queue,
}

impl Caches {
    pub fn new() -> Arc<Self> {
        Self::of(World::default())
    }

    /// Mid pods are charged their mid requests.
    pub fn counting_mid_requests() -> Arc<Self> {
        Self::of(World::new(true))
    }

    fn of(world: World) -> Arc<Self> {
        Arc::new(Self {
            world: Mutex::new(world),
            progress: watch::Sender::default(),
            metrics: Queue::default(),
            slos: Queue::default(),
            resources: Queue::default(),
        })
    }

    /// Looks at the world, or changes it; never held across an await.
    pub fn with<R>(&self, look: impl FnOnce(&mut World) -> R) -> R {
        look(&mut self.world.lock())
    }

    /// Files an object that was just written, before the watch shows it.
    pub fn apply(&self, object: &impl Filed) {
        let Some(name) = object.node() else { return };
        let touch = self.with(|world| object.apply(world));
        self.touch(&NodeName::from(name), touch);
    }

    /// Does no controller have a node in hand, nor one waiting for a worker? Nodes that were put
    /// off until a later time do not count.
    pub fn is_idle(&self) -> bool {
        [&self.metrics, &self.slos, &self.resources].iter().all(|queue| queue.is_idle())
    }

    /// Is no controller at work on a node?
    pub fn is_at_rest(&self) -> bool {
        [&self.metrics, &self.slos, &self.resources].iter().all(|queue| queue.is_at_rest())
    }

    fn touch(&self, name: &NodeName, touch: Touch) {
        let queues = [
            (touch.metric, &self.metrics),
            (touch.slo, &self.slos),
            (touch.resource, &self.resources),
        ];
        for (is_touched, queue) in queues {
            if is_touched {
                queue.add(name.clone());
            }
        }
    }

    fn follow<K: Filed>(&self, event: Event<K>) {
        match event {
            Event::Init => self.with(|world| world.begin(K::KIND)),
            Event::InitApply(object) | Event::Apply(object) => self.apply(&object),
            Event::Delete(object) => {
                let Some(name) = object.node() else { return };
                let touch = self.with(|world| object.remove(world));
                self.touch(&NodeName::from(name), touch);
            }
            Event::InitDone => {
                for (name, touch) in self.with(|world| world.finish(K::KIND)) {
                    self.touch(&name, touch);
                }
                self.proceed(K::KIND, Progress::Listed);
            }
        }
    }

    fn proceed(&self, kind: Kind, progress: Progress) {
        self.progress.send_if_modified(|all| {
            let Some(slot) = all.get_mut(kind as usize) else { return false };
            let is_news = *slot != progress && *slot != Progress::Listed;
            if is_news {
                *slot = progress;
            }
            is_news
        });
    }

    /// Waits until the kinds a controller needs are listed, and the others at least tried.
    pub(crate) async fn until_listed(&self, needed: &[Kind]) {
        let mut progress = self.progress.subscribe();
        let is_ready = |all: &[Progress; Kind::ALL.len()]| {
            Kind::ALL.iter().zip(all).all(|(kind, progress)| match progress {
                Progress::Listed => true,
                Progress::Refused => !needed.contains(kind),
                Progress::Pending => false,
            })
        };
        // The sender lives as long as `self`.
        let _ = progress.wait_for(is_ready).await;
    }
}

/// Fills the caches from watches until told to stop. Runs on every replica.
pub async fn run(shared: Shared, shutdown: CancellationToken) {
    let Shared { client, caches, .. } = shared;
    let all = watcher::Config::default();
    let occupying = all.clone().fields(OCCUPYING);
    let (c, s) = (&caches, &shutdown);
    tokio::join!(
        follow::<Node>(client.clone(), all.clone(), c, s),
        follow::<Pod>(client.clone(), occupying, c, s),
        follow::<NodeMetric>(client.clone(), all.clone(), c, s),
        follow::<NodeSlo>(client.clone(), all.clone(), c, s),
        follow::<NodeResourceTopology>(client.clone(), all.clone(), c, s),
        follow::<Device>(client.clone(), all.clone(), c, s),
    );
}

async fn follow<K>(
    client: Client,
    config: watcher::Config,
    caches: &Caches,
    shutdown: &CancellationToken,
) where
    K: Filed<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let events = watch_objects(Api::<K>::all(client), config).default_backoff();
    let mut events = pin!(events.take_until(shutdown.cancelled()));
    let mut is_away = false;
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                is_away = false;
                caches.follow(event);
            }
            Err(error) => {
                if !is_away {
                    warn!(kind = %K::kind(&()), %error, "cannot watch; what is known stays");
                }
                is_away = true;
                caches.proceed(K::KIND, Progress::Refused);
            }
        }
    }
}
