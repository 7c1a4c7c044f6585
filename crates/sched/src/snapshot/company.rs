//! Which kinds of pods run where? Affinity and spread ask this of whole clusters.
//!
//! Pods are counted by class and node. A question about labels is then answered once a class
//! instead of once a pod, and a class leads straight to the nodes that matter.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::model::{Class, ClassId, Symbol};

use super::{NodeIx, PodIx};

/// Pods of one class on one node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Headcount {
    pub all: u32,
    /// Of these, how many are on their way out.
    pub terminating: u32,
}

impl Headcount {
    pub fn staying(self) -> u32 {
        self.all.saturating_sub(self.terminating)
    }
}

/// The pods of one class.
#[derive(Debug)]
pub struct Members {
    pub class: Arc<Class>,
    pub nodes: BTreeMap<NodeIx, Headcount>,
}

#[derive(Debug, Default)]
pub struct Company {
    namespaces: HashMap<Symbol, HashMap<ClassId, Members>>,
    /// Classes that say something about other pods, also when none of theirs is left: forgetting
    /// one costs everybody a second look, so that is done in bulk.
    vocal: BTreeMap<ClassId, Arc<Class>>,
    /// The same in order of appearance, each with the version it brought.
    arrivals: Vec<(u64, Arc<Class>)>,
    /// Pods with affinity terms that were promised a node, and their classes.
    expected: HashMap<PodIx, Arc<Class>>,
    forget_at: usize,
    version: u64,
}

impl Company {
    /// Moves on when a class with affinity terms appears.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Classes with affinity terms that appeared after `version`.
    pub fn arrived_after(&self, version: u64) -> impl Iterator<Item = &Arc<Class>> {
        let first = self.arrivals.partition_point(|(arrival, _)| *arrival <= version);
        self.arrivals.get(first..).unwrap_or_default().iter().map(|(_, class)| class)
    }

    /// All classes of the namespaces that pass, in no order that means anything.
    pub fn within(&self, passes: impl Fn(Symbol) -> bool) -> impl Iterator<Item = &Members> {
        let chosen = self.namespaces.iter().filter(move |(namespace, _)| passes(**namespace));
        chosen.flat_map(|(_, classes)| classes.values())
    }

    /// Classes with affinity terms of their own, whether or not pods of theirs run.
    pub fn vocal(&self) -> impl Iterator<Item = &Arc<Class>> {
        self.vocal.values()
    }

    pub fn members(&self, class: &Class) -> Option<&Members> {
        self.namespaces.get(&class.namespace)?.get(&class.id)
    }

    pub(super) fn attached(&mut self, node: NodeIx, class: &Arc<Class>, is_terminating: bool) {
        let classes = self.namespaces.entry(class.namespace).or_default();
        let members = classes
            .entry(class.id)
            .or_insert_with(|| Members { class: Arc::clone(class), nodes: BTreeMap::new() });
        let count = members.nodes.entry(node).or_default();
        count.all += 1;
        count.terminating += u32::from(is_terminating);
        self.heed(class);
    }

    /// From now on a class has a say about others, because pods of it run or were promised a
    /// node: others are tried together with them.
    fn heed(&mut self, class: &Arc<Class>) {
        if !class.pod_affinity.is_empty() && !self.vocal.contains_key(&class.id) {
            self.forget();
            self.version += 1;
            self.vocal.insert(class.id, Arc::clone(class));
            self.arrivals.push((self.version, Arc::clone(class)));
        }
    }

    /// A pod of this class was promised a node.
    pub(crate) fn expect(&mut self, pod: PodIx, class: &Arc<Class>) {
        if !class.pod_affinity.is_empty() {
            self.expected.insert(pod, Arc::clone(class));
            self.heed(class);
        }
    }

    /// The promise to a pod is over.
    pub(crate) fn unexpect(&mut self, pod: PodIx) {
        self.expected.remove(&pod);
    }

    pub(super) fn detached(&mut self, node: NodeIx, class: &Class, is_terminating: bool) {
        let Some(classes) = self.namespaces.get_mut(&class.namespace) else { return };
        let Some(members) = classes.get_mut(&class.id) else { return };
        let Some(count) = members.nodes.get_mut(&node) else { return };
        count.all = count.all.saturating_sub(1);
        count.terminating = count.terminating.saturating_sub(u32::from(is_terminating));
        if count.all > 0 {
            return;
        }
        members.nodes.remove(&node);
        if members.nodes.is_empty() {
            classes.remove(&class.id);
            if classes.is_empty() {
                self.namespaces.remove(&class.namespace);
            }
        }
    }

    /// Drops silent classes once they may be half of all.
    fn forget(&mut self) {
        if self.vocal.len() < self.forget_at.max(256) {
            return;
        }
        let (namespaces, expected) = (&self.namespaces, &self.expected);
        self.vocal.retain(|id, class| {
            let runs =
                namespaces.get(&class.namespace).is_some_and(|classes| classes.contains_key(id));
            runs || expected.values().any(|class| class.id == *id)
        });
        let vocal = &self.vocal;
        self.arrivals.retain(|(_, class)| vocal.contains_key(&class.id));
        self.forget_at = self.vocal.len() * 2;
    }

    /// How many pods are counted on a node.
    pub fn on(&self, node: NodeIx) -> usize {
        let counts = self.within(|_| true).filter_map(|members| members.nodes.get(&node));
        counts.map(|count| count.all as usize).sum()
    }
}
