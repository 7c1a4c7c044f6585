//! One plugin on a small cluster, without the engine around it.

use std::sync::Arc;

use serde_json::Value;

use crate::model::Class;
use crate::plugin::{Context, Filtering, Patch, Plugin, Prepared, Refusal};
use crate::read::Reader;
use crate::snapshot::{NodeIx, Phase, Pod, PodIx, Snapshot};

#[derive(Debug)]
pub(super) struct Trial {
    pub(super) snapshot: Snapshot,
    plugin: Box<dyn Plugin>,
}

impl Trial {
    pub(super) fn new(name: &str, args: &Value) -> Self {
        let mut snapshot = Snapshot::default();
        let row = super::find(name).unwrap();
        let plugin = (row.build)(args, &mut snapshot).unwrap();
        assert_eq!(plugin.name(), name);
        Self { snapshot, plugin }
    }

    pub(super) fn node(&mut self, object: Value) -> NodeIx {
        let object = serde_json::from_value(object).unwrap();
        let Snapshot { names, resources, .. } = &mut self.snapshot;
        let node = Reader { names, resources }.node(&object);
        let name = node.name;
        self.snapshot.set_node(node);
        self.snapshot.node_by_name(name).unwrap()
    }

    pub(super) fn pod(&mut self, object: &Value) -> PodIx {
        let object = serde_json::from_value(object.clone()).unwrap();
        let Snapshot { names, resources, .. } = &mut self.snapshot;
        let (facts, template) = Reader { names, resources }.pod(&object);
        let class = self.snapshot.classes.intern(template, facts.tie);
        let index = self.snapshot.pods.insert(Pod {
            uid: facts.uid,
            namespace: facts.namespace,
            name: facts.name,
            class,
            phase: if facts.node.is_some() { Phase::Bound } else { Phase::Pending },
            node: None,
            nominated: None,
            created: facts.created,
            started: None,
            is_terminating: false,
            is_preempted: false,
        });
        let Snapshot { extras, resources, .. } = &mut self.snapshot;
        extras.pod_seen(index, &object, resources);
        if let Some(node) = facts.node {
            self.snapshot.attach(index, node);
        }
        index
    }

    pub(super) fn class(&self, pod: PodIx) -> Arc<Class> {
        Arc::clone(&self.snapshot.pods.get(pod).unwrap().class)
    }

    pub(super) fn prepare(&self, pod: PodIx) -> Prepared {
        let class = self.class(pod);
        self.plugin.prepare(Context { snapshot: &self.snapshot, class: &class })
    }

    /// What the filter says; `Err` holds the reason.
    pub(super) fn verdict(&self, pod: PodIx, node: NodeIx) -> Result<(), String> {
        let prepared = self.prepare(pod);
        let work = match &prepared.filter {
            Filtering::Skip => return Ok(()),
            Filtering::Reject(refusal) => return Err(refusal.reason.clone()),
            Filtering::Run(_) => prepared.work.as_ref().unwrap(),
        };
        let verdict = work.filter(&self.snapshot, node);
        match verdict.reasons().next() {
            None => Ok(()),
            Some(bit) => Err(work.reason(bit).into_owned()),
        }
    }

    pub(super) fn score(&self, pod: PodIx, node: NodeIx) -> i64 {
        self.prepare(pod).work.unwrap().score(&self.snapshot, node)
    }

    /// Places a pod as the engine does: charge, reserve, patch.
    pub(super) fn place(&mut self, pod: PodIx, node: NodeIx) -> Result<Patch, Refusal> {
        let name = self.snapshot.node(node).unwrap().name;
        self.snapshot.attach(pod, name);
        self.snapshot.pods.get_mut(pod).unwrap().phase = Phase::Assumed;
        self.plugin.reserve(&mut self.snapshot, pod, node)?;
        let mut patch = Patch::default();
        self.plugin.patch(&self.snapshot, pod, node, &mut patch);
        Ok(patch)
    }

    pub(super) fn give_up(&mut self, pod: PodIx, node: NodeIx) {
        self.plugin.unreserve(&mut self.snapshot, pod, node);
        self.snapshot.detach(pod);
    }
}
