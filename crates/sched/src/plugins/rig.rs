//! A small cluster for tests of single plugins: nodes, pods on them, and what a plugin says.

use std::sync::Arc;

use k8s_openapi::api::core::v1 as wire;
use serde_json::{Value, json};

use crate::model::Class;
use crate::plugin::{Context, Filtering, Normalise, Plugin, Prepared, Scoring, Work};
use crate::read::Reader;
use crate::snapshot::{NodeIx, Phase, Pod, PodIx, Snapshot};
use crate::verdict::{Code, Verdict};

#[derive(Debug, Default)]
pub(super) struct Rig {
    pub(super) snapshot: Snapshot,
    pods: u32,
}

/// Labels from `a=1 b=2`.
pub(super) fn labels(text: &str) -> Value {
    let pairs = text.split_whitespace().filter_map(|pair| pair.split_once('='));
    Value::Object(pairs.map(|(key, value)| (key.to_owned(), json!(value))).collect())
}

/// A pod of namespace `default` with these labels and this spec.
pub(super) fn pod(text: &str, spec: Value) -> Value {
    json!({"metadata": {"namespace": "default", "labels": labels(text)}, "spec": spec})
}

impl Rig {
    /// Nodes as `name key=value ...`, one a line.
    pub(super) fn new(nodes: &[&str]) -> Self {
        let mut rig = Self::default();
        for node in nodes {
            let (name, text) = node.split_once(' ').unwrap_or((node, ""));
            rig.node(&json!({"metadata": {"name": name, "labels": labels(text)}}));
        }
        rig
    }

    fn reader(&mut self) -> Reader<'_> {
        Reader { names: &mut self.snapshot.names, resources: &mut self.snapshot.resources }
    }

    pub(super) fn node(&mut self, node: &Value) -> NodeIx {
        let object: wire::Node = serde_json::from_value(node.clone()).unwrap();
        let read = self.reader().node(&object);
        let name = read.name;
        self.snapshot.set_node(read);
        self.snapshot.node_by_name(name).unwrap()
    }

    pub(super) fn class(&mut self, pod: &Value) -> Arc<Class> {
        let object: wire::Pod = serde_json::from_value(pod.clone()).unwrap();
        let (facts, template) = self.reader().pod(&object);
        self.snapshot.classes.intern(template, facts.tie)
    }

    /// A pod on a node, which need not exist.
    pub(super) fn run(&mut self, node: &str, pod: &Value) -> PodIx {
        let at = self.wait(pod);
        let name = self.snapshot.names.intern(node);
        self.snapshot.attach(at, name);
        at
    }

    /// A pod that waits.
    pub(super) fn wait(&mut self, pod: &Value) -> PodIx {
        self.pods += 1;
        let object: wire::Pod = serde_json::from_value(pod.clone()).unwrap();
        let class = self.class(pod);
        let (facts, _) = self.reader().pod(&object);
        self.snapshot.pods.insert(Pod {
            uid: format!("pod-{}", self.pods).into(),
            namespace: facts.namespace,
            name: format!("pod-{}", self.pods).into(),
            class,
            phase: Phase::Bound,
            node: None,
            nominated: None,
            created: facts.created,
            started: None,
            is_terminating: facts.is_terminating,
            is_preempted: false,
        })
    }

    pub(super) fn prepare(&self, plugin: &dyn Plugin, class: &Class) -> Prepared {
        plugin.prepare(Context { snapshot: &self.snapshot, class })
    }

    /// What the plugin says of every node, by index.
    pub(super) fn verdicts(&self, prepared: &Prepared) -> Vec<Verdict> {
        let nodes: Vec<NodeIx> = self.snapshot.nodes().map(|(at, _)| at).collect();
        let mut verdicts = vec![Verdict::OK; nodes.len()];
        if let (Filtering::Run(_), Some(work)) = (&prepared.filter, &prepared.work) {
            work.filter_all(&self.snapshot, &nodes, &mut verdicts);
        }
        verdicts
    }

    /// The reason for every node, `""` for a good one, with `!` before one that eviction cannot
    /// turn.
    pub(super) fn reasons(&self, prepared: &Prepared) -> Vec<String> {
        if let Filtering::Reject(refusal) = &prepared.filter {
            return vec![mark(refusal.code, &refusal.reason); self.snapshot.live() as usize];
        }
        let text = |verdict: &Verdict| match (verdict.code(), &prepared.work) {
            (Some(code), Some(work)) => {
                let all: Vec<_> = verdict.reasons().map(|bit| work.reason(bit)).collect();
                mark(code, &all.join(", "))
            }
            _ => String::new(),
        };
        self.verdicts(prepared).iter().map(text).collect()
    }

    /// Normalised scores of the nodes that pass, by index; `None` when the plugin does not score.
    pub(super) fn scores(&self, prepared: &mut Prepared) -> Option<Vec<i64>> {
        let Scoring::Run(_, normalise) = prepared.score else { return None };
        let verdicts = self.verdicts(prepared);
        let nodes = self.snapshot.nodes().map(|(at, _)| at).zip(verdicts);
        let feasible: Vec<NodeIx> =
            nodes.filter(|(_, verdict)| verdict.is_ok()).map(|(at, _)| at).collect();
        let work: &mut Box<dyn Work> = prepared.work.as_mut()?;
        let mut scores = vec![0; feasible.len()];
        work.score_all(&self.snapshot, &feasible, &mut scores);
        if normalise == Normalise::Own {
            work.normalise(&feasible, &mut scores);
        }
        Some(scores)
    }
}

fn mark(code: Code, reason: &str) -> String {
    match code {
        Code::Unschedulable => reason.to_owned(),
        Code::Unresolvable => format!("!{reason}"),
    }
}
