//! The node lifecycle controller: looks at all nodes every five seconds.

use std::{collections::HashMap, fmt};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod, PodCondition};
use kube::{Api, Resource, api::Patch};
use serde_json::{Value, json};
use tracing::info;

use super::{Action, Memory, Observed, falsely_ready, next_look, plan};
use crate::controllers::{
    caches::Caches,
    clock::stamp,
    drive::{Controller, Next},
    key::{Key, Seen},
    merge,
    pod::with_condition,
    queue::Queue,
    writer::{SyncError, Writer, name},
};

pub(crate) struct NodeHealth {
    caches: Caches,
    writer: Writer,
    memory: Memory,
    grace: SignedDuration,
}

/// There is one thing to look at: all nodes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AllNodes;

impl fmt::Display for AllNodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("all nodes")
    }
}

impl NodeHealth {
    pub(crate) fn new(
        caches: &Caches,
        writer: Writer,
        grace: SignedDuration,
    ) -> (Self, Queue<AllNodes>) {
        let queue = Queue::new();
        queue.add(AllNodes);
        (Self { caches: caches.clone(), writer, memory: Memory::default(), grace }, queue)
    }

    /// Writes one change; `seen` is the node as the last write left it.
    async fn act(&self, action: Action, seen: &Seen) -> Result<Node, SyncError> {
        match action {
            Action::Conditions { node, conditions } => {
                info!(node = name(&*node), "node has fallen silent");
                let message = format!("Node {} status is now: NodeNotReady", name(&*node));
                self.writer.normal(&*node, "NodeNotReady", message);
                let patch = json!({ "status": { "conditions": conditions } });
                self.patch(seen, patch, Some("status")).await
            }
            Action::Taints { node, taints, why } => {
                info!(node = name(&*node), ?why, taints = taints.len(), "changed taints");
                self.patch(seen, json!({ "spec": { "taints": taints } }), None).await
            }
        }
    }

    async fn patch(
        &self,
        seen: &Seen,
        mut patch: Value,
        subresource: Option<&str>,
    ) -> Result<Node, SyncError> {
        if let Some(fields) = patch.as_object_mut() {
            fields.insert("metadata".into(), merge::precondition(seen).into());
        }
        let api: Api<Node> = Api::all(self.writer.client.clone());
        let (params, patch) = (self.writer.patch_params(), Patch::Merge(&patch));
        let patched = match subresource {
            Some(subresource) => {
                api.patch_subresource(subresource, &seen.key.name, &params, &patch).await
            }
            None => api.patch(&seen.key.name, &params, &patch).await,
        };
        let kind = Node::kind(&());
        patched.map_err(|source| SyncError::new("patch", &kind, &seen.key, source))
    }

    /// Takes readiness from the pods of nodes that are not ready.
    async fn mark_unready(&self, node: &str, now: Timestamp) -> Result<(), SyncError> {
        for pod in falsely_ready(self.caches.pods.tagged(node)) {
            let condition = PodCondition {
                type_: "Ready".into(),
                status: "False".into(),
                last_transition_time: Some(stamp(now)),
                ..PodCondition::default()
            };
            let conditions = with_condition(&pod, condition);
            let metadata = merge::precondition(&Seen::of(&*pod));
            let patch = json!({ "metadata": metadata, "status": { "conditions": conditions } });
            self.writer.warning(&*pod, "NodeNotReady", "Node is not ready".into());
            match self.writer.patch_status::<Pod>(&Key::of(&*pod), &patch).await {
                Err(error) if !error.is_missing() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Controller for NodeHealth {
    type Key = AllNodes;

    const NAME: &'static str = "node-controller";

    async fn reconcile(&mut self, _: &AllNodes, now: Timestamp) -> Result<Next, SyncError> {
        let nodes = self.caches.nodes.all();
        let leases = self.caches.leases.all().into_iter();
        let leases: HashMap<_, _> = leases.map(|lease| (name(&*lease), lease)).collect();
        let observed = Observed { nodes: &nodes, leases: &leases, grace: self.grace };
        let plan = plan(&observed, &self.memory, now);
        self.memory = plan.memory;
        let mut latest: HashMap<String, Seen> = HashMap::new();
        for action in plan.actions {
            let node = match &action {
                Action::Conditions { node, .. } | Action::Taints { node, .. } => node.clone(),
            };
            let seen = latest.entry(name(&*node)).or_insert_with(|| Seen::of(&*node));
            match self.act(action, seen).await {
                Ok(written) => *seen = Seen::of(&written),
                // The node has just reported; the next look will see it.
                Err(error) if error.is_conflict() || error.is_missing() => {}
                Err(error) => return Err(error),
            }
        }
        for node in &plan.unready {
            match self.mark_unready(node, now).await {
                Err(error) if error.is_conflict() => {}
                other => other?,
            }
        }
        Ok(Next::at(Some(next_look(now)), now))
    }
}
