//! Which kinds do the controllers watch?
//!
//! One watch a kind, shared by all of them.

use std::sync::Arc;

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet},
    batch::v1::Job,
    coordination::v1::Lease,
    core::v1::{Namespace, Node, PersistentVolumeClaim, Pod, PodSpec},
    policy::v1::PodDisruptionBudget,
};
use kube::{Api, Client};
use reconcile::watch::{Cache, Watch, controller_entry};
use reconcile::write::Kind;
use tokio_util::sync::CancellationToken;

use super::{pod::PodFacts, tasks::Tasks};
use crate::well_known::NODE_LEASE_NAMESPACE;

/// Everything the controllers look at. Pods are found by their node, too.
#[derive(Debug, Clone)]
pub(crate) struct Caches {
    pub(crate) pods: Cache<Pod>,
    pub(crate) nodes: Cache<Node>,
    pub(crate) leases: Cache<Lease>,
    pub(crate) namespaces: Cache<Namespace>,
    pub(crate) deployments: Cache<Deployment>,
    pub(crate) replica_sets: Cache<ReplicaSet>,
    pub(crate) daemon_sets: Cache<DaemonSet>,
    pub(crate) stateful_sets: Cache<StatefulSet>,
    pub(crate) revisions: Cache<ControllerRevision>,
    pub(crate) volume_claims: Cache<PersistentVolumeClaim>,
    pub(crate) jobs: Cache<Job>,
    pub(crate) budgets: Cache<PodDisruptionBudget>,
}

/// Does the same for every cache but the leases: they have different types and one life.
macro_rules! each {
    ($caches:expr, |$cache:ident| $body:expr) => {{
        each!(@ $caches, $cache, $body, pods);
        each!($caches, but_pods, |$cache| $body)
    }};
    ($caches:expr, but_pods, |$cache:ident| $body:expr) => {
        each!(@ $caches, $cache, $body, nodes namespaces deployments replica_sets daemon_sets
            stateful_sets revisions volume_claims jobs budgets)
    };
    (@ $caches:expr, $cache:ident, $body:expr, $($field:ident)*) => {{
        $({
            let $cache = &$caches.$field;
            $body;
        })*
    }};
}
pub(crate) use each;

impl Caches {
    pub(crate) fn new() -> Self {
        Self {
            pods: Cache::new(|pod| {
                let node = pod.node().map(node_entry);
                node.into_iter().chain([controller_entry(pod)]).collect()
            }),
            nodes: Cache::by_controller(),
            leases: Cache::by_controller(),
            namespaces: Cache::by_controller(),
            deployments: Cache::by_controller(),
            replica_sets: Cache::by_controller(),
            daemon_sets: Cache::by_controller(),
            stateful_sets: Cache::by_controller(),
            revisions: Cache::by_controller(),
            volume_claims: Cache::by_controller(),
            jobs: Cache::by_controller(),
            budgets: Cache::by_controller(),
        }
    }

    /// Starts all watches.
    pub(crate) fn follow(&self, client: &Client, tasks: &mut Tasks, shutdown: &CancellationToken) {
        let pods = Watch::all(Api::all(client.clone()), shutdown.clone());
        tasks.spawn("watch of Pod".into(), self.pods.clone().follow(pods, trim_pod));
        each!(self, but_pods, |cache| {
            follow(cache, Api::all(client.clone()), tasks, shutdown);
        });
        let leases = Api::namespaced(client.clone(), NODE_LEASE_NAMESPACE);
        follow(&self.leases, leases, tasks, shutdown);
    }

    /// Waits until every cache has its first complete list.
    pub(crate) async fn complete(&self) {
        each!(self, |cache| cache.until_listed().await);
        self.leases.until_listed().await;
    }

    /// The pods that are bound to a node.
    pub(crate) fn pods_on(&self, node: &str) -> Vec<Arc<Pod>> {
        self.pods.indexed(&node_entry(node))
    }
}

fn follow<K: Kind>(cache: &Cache<K>, api: Api<K>, tasks: &mut Tasks, shutdown: &CancellationToken) {
    let watch = Watch::all(api, shutdown.clone());
    tasks.spawn(format!("watch of {}", K::kind(&())), cache.clone().follow(watch, |object| object));
}

fn node_entry(node: &str) -> String {
    format!("node/{node}")
}

/// Keeps of a pod what controllers look at. There may be 150,000 of them, and what their
/// containers are made of is most of their size.
fn trim_pod(mut pod: Pod) -> Pod {
    pod.spec = pod.spec.take().map(|spec| PodSpec {
        node_name: spec.node_name,
        node_selector: spec.node_selector,
        affinity: spec.affinity,
        tolerations: spec.tolerations,
        scheduling_gates: spec.scheduling_gates,
        ..PodSpec::default()
    });
    pod
}
