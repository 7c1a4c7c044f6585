//! Which kinds do the controllers watch?
//!
//! One watch a kind, shared by all of them.

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet},
    batch::v1::Job,
    coordination::v1::Lease,
    core::v1::{Namespace, Node, PersistentVolumeClaim, Pod, PodSpec},
    policy::v1::PodDisruptionBudget,
};
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;

use super::{cache::Cache, pod::PodFacts, tasks::Tasks};
use crate::well_known::NODE_LEASE_NAMESPACE;

/// The tag of pods that are on no node yet.
pub(crate) const UNBOUND: &str = "";

/// Everything the controllers look at. Pods are tagged with their node, or with [`UNBOUND`].
#[derive(Clone)]
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
            pods: Cache::new(|pod| Some(pod.node().unwrap_or(UNBOUND).to_owned())),
            nodes: Cache::new(|_| None),
            leases: Cache::new(|_| None),
            namespaces: Cache::new(|_| None),
            deployments: Cache::new(|_| None),
            replica_sets: Cache::new(|_| None),
            daemon_sets: Cache::new(|_| None),
            stateful_sets: Cache::new(|_| None),
            revisions: Cache::new(|_| None),
            volume_claims: Cache::new(|_| None),
            jobs: Cache::new(|_| None),
            budgets: Cache::new(|_| None),
        }
    }

    /// Starts all watches.
    pub(crate) fn follow(&self, client: &Client, tasks: &mut Tasks, shutdown: &CancellationToken) {
        let pods = self.pods.clone();
        let watch = pods.follow(Api::all(client.clone()), trim_pod, shutdown.clone());
        tasks.spawn("watch of Pod".into(), watch);
        each!(self, but_pods, |cache| {
            let watch = cache.clone().follow(Api::all(client.clone()), |_| {}, shutdown.clone());
            tasks.spawn(format!("watch of {}", cache.kind()), watch)
        });
        let leases = Api::namespaced(client.clone(), NODE_LEASE_NAMESPACE);
        let watch = self.leases.clone().follow(leases, |_| {}, shutdown.clone());
        tasks.spawn("watch of Lease".into(), watch);
    }

    /// Waits until every cache has its first complete list.
    pub(crate) async fn complete(&self) {
        each!(self, |cache| cache.complete().await);
        self.leases.complete().await;
    }
}

/// Keeps of a pod what controllers look at. There may be 150,000 of them, and what their
/// containers are made of is most of their size.
fn trim_pod(pod: &mut Pod) {
    pod.spec = pod.spec.take().map(|spec| PodSpec {
        node_name: spec.node_name,
        node_selector: spec.node_selector,
        affinity: spec.affinity,
        tolerations: spec.tolerations,
        scheduling_gates: spec.scheduling_gates,
        ..PodSpec::default()
    });
}
