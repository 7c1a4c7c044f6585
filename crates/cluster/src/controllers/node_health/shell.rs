//! The node lifecycle controller: looks at all nodes every five seconds.

use std::{collections::HashMap, fmt, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod, PodCondition};
use kube::{Api, Resource, api::Patch};
use serde_json::{Value, json};
use tracing::info;

use super::{Action, Memory, Observed, falsely_ready, next_look, plan};
use crate::controllers::{
    cache::Change,
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
        let keys = queue.clone();
        caches.nodes.subscribe(move |change| {
            if needs_a_look(change) {
                keys.add(AllNodes);
            }
        });
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

/// A node that has just become ready should not wait for its taint to go. A heartbeat alone can
/// wait for the next look.
fn needs_a_look(change: &Change<Node>) -> bool {
    let facts = |node: &Arc<Node>| {
        let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let states: Vec<_> =
            conditions.map(|one| (one.type_.clone(), one.status.clone())).collect();
        (states, node.spec.clone())
    };
    change.after.is_some() && change.before.as_ref().map(facts) != change.after.as_ref().map(facts)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::fixture::{NOW, node, tainted};

    #[test]
    fn a_heartbeat_can_wait_and_news_cannot() {
        let change = |after: Node| Change {
            before: Some(Arc::new(node("n1"))),
            after: Some(Arc::new(after)),
        };
        let with = |edit: fn(&mut k8s_openapi::api::core::v1::NodeCondition)| {
            let mut node = node("n1");
            let conditions = node.status.get_or_insert_default().conditions.get_or_insert_default();
            conditions.iter_mut().for_each(edit);
            change(node)
        };
        assert!(!needs_a_look(&with(|ready| ready.last_heartbeat_time = Some(stamp(NOW)))));
        assert!(needs_a_look(&with(|ready| ready.status = "False".into())));
        assert!(needs_a_look(&change(tainted(node("n1"), "a", "NoSchedule"))));
        let gone = Change { before: Some(Arc::new(node("n1"))), after: None };
        assert!(!needs_a_look(&gone));
    }
}
