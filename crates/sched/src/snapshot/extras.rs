//! State of plugins that follows pods and nodes.
//!
//! A plugin with state of its own adds a field here and a line to each hook. The hooks are
//! called for real changes and for dry runs alike, so they must be exact inverses of each other.

use crate::model::{Names, Node};
use crate::time::Time;

use super::{Company, NodeIx, Pod, PodIx, Storage, Workloads};

#[derive(Debug, Default)]
pub struct Extras {
    /// Which kinds of pods run where.
    pub company: Company,
    pub workloads: Workloads,
    pub storage: Storage,
}

impl Extras {
    /// There are this many slots now.
    pub(super) fn grow(&mut self, _slots: usize) {}

    /// A node came or changed.
    pub(super) fn node_set(&mut self, _at: NodeIx, _node: &Node, _names: &Names) {}

    pub(super) fn node_gone(&mut self, _at: NodeIx) {}

    /// A pod is charged to a node.
    pub(super) fn attached(&mut self, at: NodeIx, _index: PodIx, pod: &Pod) {
        self.company.attached(at, &pod.class, pod.is_terminating);
        self.storage.users.attached(&pod.class);
    }

    /// A pod is no longer charged to a node.
    pub(super) fn detached(&mut self, at: NodeIx, _index: PodIx, pod: &Pod) {
        self.company.detached(at, &pod.class, pod.is_terminating);
        self.storage.users.detached(&pod.class);
    }

    /// The object of a pod as the API server has it, before the pod is charged anywhere.
    pub fn pod_seen(&mut self, _index: PodIx, _object: &k8s_openapi::api::core::v1::Pod) {}

    /// A pod is gone for good.
    pub fn pod_gone(&mut self, index: PodIx) {
        self.storage.withdraw(index);
    }

    /// Time has passed: pushes the nodes whose state is another now.
    pub fn expire(&mut self, _now: Time, _touched: &mut Vec<NodeIx>) {}

    /// Violations of the plugins' own conservation laws.
    pub fn check(&self) -> Vec<String> {
        Vec::new()
    }
}
