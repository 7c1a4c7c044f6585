//! Every pod the scheduler knows, in few words each.

use std::collections::HashMap;
use std::sync::Arc;

use crate::model::{Class, Symbol};
use crate::time::Time;

use super::NodeIx;

/// A pod's slot. Reused after the pod is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodIx(pub u32);

impl PodIx {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where a pod stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Pending,
    /// Placed by us; the API server has not confirmed it yet.
    Assumed,
    Bound,
}

/// A pod: what it shares with its replicas, and the few things that are its own.
#[derive(Debug, Clone)]
pub struct Pod {
    pub uid: Arc<str>,
    pub namespace: Symbol,
    pub name: Arc<str>,
    pub class: Arc<Class>,
    pub phase: Phase,
    /// The node it is charged to.
    pub node: Option<NodeIx>,
    /// The node that is being cleared for it.
    pub nominated: Option<Symbol>,
    pub created: Time,
    pub started: Option<Time>,
    pub is_terminating: bool,
    /// It goes because a scheduler preempted it.
    pub is_preempted: bool,
}

#[derive(Debug, Default)]
pub struct Pods {
    slots: Vec<Option<Pod>>,
    free: Vec<PodIx>,
    by_uid: HashMap<Arc<str>, PodIx>,
}

impl Pods {
    pub fn find(&self, uid: &str) -> Option<PodIx> {
        self.by_uid.get(uid).copied()
    }

    pub fn get(&self, pod: PodIx) -> Option<&Pod> {
        self.slots.get(pod.index())?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, pod: PodIx) -> Option<&mut Pod> {
        self.slots.get_mut(pod.index())?.as_mut()
    }

    pub fn iter(&self) -> impl Iterator<Item = (PodIx, &Pod)> {
        let numbered = (0u32..).map(PodIx).zip(&self.slots);
        numbered.filter_map(|(at, slot)| slot.as_ref().map(|pod| (at, pod)))
    }

    pub fn len(&self) -> usize {
        self.by_uid.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_uid.is_empty()
    }

    pub(crate) fn insert(&mut self, pod: Pod) -> PodIx {
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            PodIx(u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX))
        });
        self.by_uid.insert(Arc::clone(&pod.uid), at);
        if let Some(slot) = self.slots.get_mut(at.index()) {
            *slot = Some(pod);
        }
        at
    }

    /// Forgets a pod that is charged to no node.
    pub(crate) fn remove(&mut self, at: PodIx) -> Option<Pod> {
        let pod = self.slots.get_mut(at.index())?.take()?;
        self.by_uid.remove(&pod.uid);
        self.free.push(at);
        Some(pod)
    }
}
