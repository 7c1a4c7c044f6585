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
use std::sync::Arc;
use std::time::Duration;

use api::kind::{Device, NodeMetric, NodeResourceTopology, NodeSlo};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, Client};
use parking_lot::Mutex;
use reconcile::queue::{Backoff, Queue};
use reconcile::watch::{Config, State, Update, Watch};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::Shared;
pub use world::{Entry, Filed, Kind, MetricRecord, NodeName, NodeRecord, Touch, World};

/// How long a node that failed waits.
const BACKOFF: Backoff =
    Backoff { first: Duration::from_millis(10), last: Duration::from_secs(30) };

/// Pods that are bound and not done.
const OCCUPYING: &str = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";

/// The world and who waits for news of it.
#[derive(Debug)]
pub struct Caches {
    world: Mutex<World>,
    states: watch::Sender<[State; Kind::ALL.len()]>,
    pub(crate) metrics: Queue<NodeName>,
    pub(crate) slos: Queue<NodeName>,
    pub(crate) resources: Queue<NodeName>,
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
            states: watch::Sender::default(),
            metrics: Queue::new(BACKOFF),
            slos: Queue::new(BACKOFF),
            resources: Queue::new(BACKOFF),
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

    fn take<K: Filed>(&self, update: Update<K>) {
        let slot = K::KIND as usize;
        let state = self.states.borrow().get(slot).copied().unwrap_or_default().after(&update);
        match update {
            Update::Relist => self.with(|world| world.begin(K::KIND)),
            Update::Applied(object) => self.apply(&object),
            Update::Deleted(object) => {
                let Some(name) = object.node() else { return };
                let touch = self.with(|world| object.remove(world));
                self.touch(&NodeName::from(name), touch);
            }
            Update::Listed => {
                for (name, touch) in self.with(|world| world.finish(K::KIND)) {
                    self.touch(&name, touch);
                }
            }
            Update::Refused(_) => {}
        }
        // Whoever waits for the list must find the objects.
        self.states.send_if_modified(|states| {
            states.get_mut(slot).is_some_and(|was| std::mem::replace(was, state) != state)
        });
    }

    /// Waits until the kinds a controller needs are listed, and the others at least tried.
    pub(crate) async fn until_listed(&self, needed: &[Kind]) {
        let mut states = self.states.subscribe();
        let is_ready = |states: &[State; Kind::ALL.len()]| {
            Kind::ALL.iter().zip(states).all(|(kind, state)| match state {
                State::Listed => true,
                State::Refused | State::Unserved => !needed.contains(kind),
                State::Pending => false,
            })
        };
        // The sender lives as long as `self`.
        let _ = states.wait_for(is_ready).await;
    }
}

/// Fills the caches from watches until told to stop. Runs on every replica.
pub async fn run(shared: Shared, shutdown: CancellationToken) {
    let Shared { client, caches, .. } = shared;
    let all = Config::default();
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

async fn follow<K>(client: Client, config: Config, caches: &Caches, stop: &CancellationToken)
where
    K: Filed<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut watch = Watch::new(Api::<K>::all(client), config, stop.clone());
    while let Some(update) = watch.next().await {
        caches.take(update);
    }
}
