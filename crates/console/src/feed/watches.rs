//! How does each kind come in?
//!
//! A kind that the API server does not know is asked for again; what depends on it stays empty
//! and is named as missing.

use std::fmt::Debug;

use api::kind::{NodeMetric, NodeResourceTopology};
use api::protocol::name::config_map;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::{Api, Client, Resource};
use reconcile::watch::{Config, Difference, Differences, Update, Watch};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

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

pub(super) fn start(
    feed: &Feed,
    client: &Client,
    namespace: &str,
    tasks: &TaskTracker,
    shutdown: &CancellationToken,
) {
    let watch = |config| (feed.clone(), config, shutdown.clone());
    let all = || watch(Config::default());
    tasks.spawn(follow(
        all(),
        Api::all(client.clone()),
        Kind::Nodes,
        |world, node: Node| world.put_node(node),
        |world, key| world.remove_node(&key.name),
    ));
    tasks.spawn(follow(
        all(),
        Api::all(client.clone()),
        Kind::Pods,
        |world, pod: Pod| world.put_pod(&pod),
        |world, key| world.remove_pod(key),
    ));
    tasks.spawn(follow(
        all(),
        Api::all(client.clone()),
        Kind::NodeMetrics,
        |world, metric: NodeMetric| world.put_metric(metric),
        |world, key| world.remove_metric(&key.name),
    ));
    tasks.spawn(follow(
        all(),
        Api::all(client.clone()),
        Kind::Topologies,
        |world, topology: NodeResourceTopology| world.put_topology(&topology),
        |world, key| world.remove_topology(&key.name),
    ));
    let object = format!("ConfigMap {namespace}/{}", config_map::SLO);
    let gone = object.clone();
    feed.change(|world| world.put_config(None, &object));
    tasks.spawn(follow(
        watch(Config::default().fields(&format!("metadata.name={}", config_map::SLO))),
        Api::namespaced(client.clone(), namespace),
        Kind::Configuration,
        move |world, map: ConfigMap| world.put_config(Some(map), &object),
        move |world, _| world.put_config(None, &gone),
    ));
}

/// Puts what a watch brings into the view, and takes what it lacks out of it.
async fn follow<K>(
    (feed, config, stop): (Feed, Config, CancellationToken),
    api: Api<K>,
    kind: Kind,
    put: impl Fn(&mut World, K) + Send,
    remove: impl Fn(&mut World, &PodKey) + Send,
) where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut watch = Watch::new(api, config, stop);
    let mut differences = Differences::by_name();
    while let Some(update) = watch.next().await {
        let is_listed = matches!(update, Update::Listed);
        differences.take(update, |difference| match difference {
            Difference::Applied(object) => feed.change(|world| put(world, object)),
            Difference::Gone(id) => {
                let key = PodKey { namespace: id.namespace, name: id.name };
                feed.change(|world| remove(world, &key));
            }
        });
        if is_listed {
            feed.set_listed(kind, true);
        }
    }
}
