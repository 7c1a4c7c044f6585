//! Which pods have been promised room on a node that is being cleared for them?

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use super::Uid;

/// Promises, by pod and by node. `N` names a node.
#[derive(Debug, Clone)]
pub struct Nominator<N> {
    nodes: HashMap<Uid, N>,
    /// The promised pods of a node with their priorities.
    pods: HashMap<N, BTreeMap<Uid, i32>>,
}

impl<N> Default for Nominator<N> {
    fn default() -> Self {
        Self { nodes: HashMap::new(), pods: HashMap::new() }
    }
}

impl<N: Clone + Eq + Hash> Nominator<N> {
    /// Replaces an earlier promise to the same pod.
    pub fn nominate(&mut self, uid: &Uid, priority: i32, node: N) {
        self.withdraw(uid);
        self.pods.entry(node.clone()).or_default().insert(uid.clone(), priority);
        self.nodes.insert(uid.clone(), node);
    }

    /// Ends the promise; returns the node it was about.
    pub fn withdraw(&mut self, uid: &Uid) -> Option<N> {
        let node = self.nodes.remove(uid)?;
        if let Some(pods) = self.pods.get_mut(&node) {
            pods.remove(uid);
            if pods.is_empty() {
                self.pods.remove(&node);
            }
        }
        Some(node)
    }

    #[must_use]
    pub fn node_of(&self, uid: &Uid) -> Option<&N> {
        self.nodes.get(uid)
    }

    /// The nodes with promised pods, in no particular order.
    pub fn nodes(&self) -> impl Iterator<Item = &N> {
        self.pods.keys()
    }

    /// The pods promised room on `node` with their priorities, by uid.
    pub fn on(&self, node: &N) -> impl Iterator<Item = (&Uid, i32)> {
        self.pods.get(node).into_iter().flatten().map(|(uid, priority)| (uid, *priority))
    }

    /// The pods a pod of `priority` must leave room for: equal or higher, not itself.
    pub fn ahead_of<'a>(
        &'a self,
        uid: &'a Uid,
        priority: i32,
        node: &N,
    ) -> impl Iterator<Item = &'a Uid> {
        self.on(node)
            .filter(move |(other, theirs)| *theirs >= priority && *other != uid)
            .map(|(other, _)| other)
    }

    /// The pods whose promise yields to a pod of `priority`.
    pub fn below<'a>(&'a self, priority: i32, node: &N) -> impl Iterator<Item = &'a Uid> {
        self.on(node).filter(move |(_, theirs)| *theirs < priority).map(|(other, _)| other)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}
