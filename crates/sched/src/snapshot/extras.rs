//! State of plugins that follows pods and nodes.
//!
//! A plugin with state of its own adds a field here and a line to each hook. The hooks are
//! called for real changes and for dry runs alike, so they must be exact inverses of each other.

use k8s_openapi::api::core::v1 as wire;

use crate::load::Loads;
use crate::model::{Names, Node, Resources};
use crate::numa::Cells;
use crate::time::Time;

use super::{Company, NodeIx, Pod, PodIx, Storage, Workloads};

#[derive(Debug, Default)]
pub struct Extras {
    /// Which kinds of pods run where.
    pub company: Company,
    pub workloads: Workloads,
    pub storage: Storage,
    pub load: Loads,
    pub numa: Cells,
}

impl Extras {
    /// There are this many slots now.
    pub(super) fn grow(&mut self, slots: usize) {
        self.load.grow(slots);
        self.numa.grow(slots);
    }

    /// A node came or changed.
    pub(super) fn node_set(
        &mut self,
        at: NodeIx,
        node: &Node,
        names: &Names,
        resources: &mut Resources,
    ) {
        self.load.set_node(at, node, names);
        self.numa.set_node(at, node, names, resources);
    }

    pub(super) fn node_gone(&mut self, at: NodeIx) {
        self.load.remove_node(at);
        self.numa.remove_node(at);
    }

    /// A pod is charged to a node.
    pub(super) fn attached(
        &mut self,
        at: NodeIx,
        index: PodIx,
        pod: &Pod,
        names: &Names,
        resources: &Resources,
    ) {
        self.company.attached(at, &pod.class, pod.is_terminating);
        self.storage.users.attached(&pod.class);
        self.load.attached(at, index, pod, names, resources);
        self.numa.attached(at, index, pod);
    }

    /// A pod is no longer charged to a node.
    pub(super) fn detached(&mut self, at: NodeIx, index: PodIx, pod: &Pod) {
        self.company.detached(at, &pod.class, pod.is_terminating);
        self.storage.users.detached(&pod.class);
        self.load.detached(at, index);
        self.numa.detached(at, index, pod);
    }

    /// The object of a pod as the API server has it, before the pod is charged anywhere.
    pub fn pod_seen(&mut self, index: PodIx, object: &wire::Pod, resources: &mut Resources) {
        self.load.pod_seen(index, object);
        self.numa.pod_seen(index, object, resources);
    }

    /// A pod is gone for good.
    pub fn pod_gone(&mut self, index: PodIx) {
        self.storage.withdraw(index);
        self.load.pod_gone(index);
        self.numa.pod_gone(index);
    }

    /// Time has passed: pushes the nodes whose state is another now.
    pub fn expire(&mut self, now: Time, touched: &mut Vec<NodeIx>) {
        self.load.expire(now, touched);
        self.numa.drain(touched);
    }

    /// When [`expire`](Self::expire) has something to do next.
    pub fn wake_at(&self) -> Option<Time> {
        self.load.wake_at()
    }

    /// Violations of the plugins' own conservation laws.
    pub fn check(&self) -> Vec<String> {
        let mut wrong = self.load.check();
        wrong.extend(self.numa.check());
        wrong
    }
}
