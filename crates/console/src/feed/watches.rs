//! How does each kind come in?
//!
//! A kind that the API server does not know is asked for again; what depends on it stays empty
//! and is named as missing.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::pin::pin;

use api::kind::{NodeMetric, NodeResourceTopology};
use api::protocol::name::config_map;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch_objects};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use super::Feed;
use crate::model::{PodKey, World};

/// What is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    Nodes,
    Pods,
    NodeMetrics,
    Topologies,
    Configuration,
}

impl Kind {
    pub const ALL: [Self; 5] =
        [Self::Nodes, Self::Pods, Self::NodeMetrics, Self::Topologies, Self::Configuration];
}

type Put<K> = Box<dyn Fn(&mut World, K) + Send>;
type Remove = Box<dyn Fn(&mut World, &PodKey) + Send>;

/// How objects of a kind go in and out.
struct Way<K> {
    kind: Kind,
    put: Put<K>,
    remove: Remove,
    /// Objects of this kind that are known.
    known: BTreeSet<PodKey>,
    listing: BTreeSet<PodKey>,
}

pub(super) fn start(
    feed: &Feed,
    client: &Client,
    namespace: &str,
    tasks: &TaskTracker,
    shutdown: &CancellationToken,
) {
    let all = watcher::Config::default;
    let spawn = |task| tasks.spawn(task);
    let nodes = Way::new(
        Kind::Nodes,
        |world, node: Node| world.put_node(node),
        |world, key| {
            world.remove_node(&key.name);
        },
    );
    let pods = Way::new(
        Kind::Pods,
        |world, pod: Pod| world.put_pod(&pod),
        |world, key| {
            world.remove_pod(key);
        },
    );
    let metrics = Way::new(
        Kind::NodeMetrics,
        |world, metric: NodeMetric| world.put_metric(metric),
        |world, key| {
            world.remove_metric(&key.name);
        },
    );
    let topologies = Way::new(
        Kind::Topologies,
        |world, topology: NodeResourceTopology| world.put_topology(&topology),
        |world, key| world.remove_topology(&key.name),
    );
    let object = format!("ConfigMap {namespace}/{}", config_map::SLO);
    let gone = object.clone();
    feed.change(|world| world.put_config(None, &object));
    let config = Way::new(
        Kind::Configuration,
        move |world, map: ConfigMap| world.put_config(Some(map), &object),
        move |world, _| world.put_config(None, &gone),
    );
    let named = all().fields(&format!("metadata.name={}", config_map::SLO));
    let (feed, stop) = (|| feed.clone(), || shutdown.clone());
    spawn(Box::pin(nodes.follow(feed(), Api::all(client.clone()), all(), stop())) as Task);
    spawn(Box::pin(pods.follow(feed(), Api::all(client.clone()), all(), stop())));
    spawn(Box::pin(metrics.follow(feed(), Api::all(client.clone()), all(), stop())));
    spawn(Box::pin(topologies.follow(feed(), Api::all(client.clone()), all(), stop())));
    let maps = Api::namespaced(client.clone(), namespace);
    spawn(Box::pin(config.follow(feed(), maps, named, stop())));
}

type Task = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

impl<K> Way<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    fn new(
        kind: Kind,
        put: impl Fn(&mut World, K) + Send + 'static,
        remove: impl Fn(&mut World, &PodKey) + Send + 'static,
    ) -> Self {
        Self {
            kind,
            put: Box::new(put),
            remove: Box::new(remove),
            known: BTreeSet::new(),
            listing: BTreeSet::new(),
        }
    }

    async fn follow(
        mut self,
        feed: Feed,
        api: Api<K>,
        config: watcher::Config,
        shutdown: CancellationToken,
    ) {
        let events = watch_objects(api, config).default_backoff();
        let mut events = pin!(events.take_until(shutdown.cancelled_owned()));
        let mut is_failing = false;
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    is_failing = false;
                    self.take(&feed, event);
                }
                Err(error) if std::mem::replace(&mut is_failing, true) => {
                    debug!(kind = ?self.kind, %error, "the console still cannot watch");
                }
                Err(error) => {
                    warn!(kind = ?self.kind, %error, "the console cannot watch; what is known stays");
                }
            }
        }
    }

    fn take(&mut self, feed: &Feed, event: Event<K>) {
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(object) => {
                self.listing.insert(key(&object));
                feed.change(|world| (self.put)(world, object));
            }
            Event::InitDone => {
                let listing = std::mem::take(&mut self.listing);
                let gone: Vec<PodKey> = self.known.difference(&listing).cloned().collect();
                feed.change(|world| gone.iter().for_each(|key| (self.remove)(world, key)));
                self.known = listing;
                feed.set_listed(self.kind, true);
            }
            Event::Apply(object) => {
                self.known.insert(key(&object));
                feed.change(|world| (self.put)(world, object));
            }
            Event::Delete(object) => {
                let key = key(&object);
                self.known.remove(&key);
                feed.change(|world| (self.remove)(world, &key));
            }
        }
    }
}

/// Namespace and name; cluster-scoped objects have no namespace.
fn key<K: Resource>(object: &K) -> PodKey {
    PodKey {
        namespace: object.meta().namespace.clone().unwrap_or_default(),
        name: object.meta().name.clone().unwrap_or_default(),
    }
}
