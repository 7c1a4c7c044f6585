//! The node lifecycle controller: looks at all nodes every five seconds.

use std::{collections::HashMap, fmt, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod, PodCondition};
use kube::ResourceExt;
use reconcile::clock::stamp;
use reconcile::drive::Controller;
use reconcile::key::{Key, ObjectVersion};
use reconcile::merge::precondition;
use reconcile::queue::{Next, Queue};
use reconcile::record::Recorder;
use reconcile::watch::Change;
use reconcile::write::{WriteError, Writer, missing_is_fine};
use serde_json::json;
use tracing::info;

use super::{Action, Memory, Observed, falsely_ready, next_look, plan};
use crate::controllers::{Tools, caches::Caches, pod::with_condition};

pub(crate) struct NodeHealth {
    caches: Caches,
    writer: Writer,
    events: Recorder,
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
        Tools { caches, writer, events }: Tools,
        grace: SignedDuration,
    ) -> (Self, Queue<AllNodes>) {
        let queue = Queue::default();
        queue.add(AllNodes);
        let keys = queue.clone();
        caches.nodes.subscribe(move |change| {
            if needs_a_look(change) {
                keys.add(AllNodes);
            }
        });
        (Self { caches, writer, events, memory: Memory::default(), grace }, queue)
    }

    /// Writes one change; `seen` is the node as the last write left it.
    async fn act(&self, action: Action, seen: &ObjectVersion) -> Result<Node, WriteError> {
        let metadata = precondition(seen);
        match action {
            Action::Conditions { node, conditions } => {
                info!(node = node.name_any(), "node has fallen silent");
                let text = format!("Node {} status is now: NodeNotReady", node.name_any());
                self.events.normal(&*node, "NodeNotReady", text);
                let patch = json!({ "metadata": metadata, "status": { "conditions": conditions } });
                self.writer.patch_status(&seen.key, &patch).await
            }
            Action::Taints { node, taints, why } => {
                info!(node = node.name_any(), ?why, taints = taints.len(), "changed taints");
                let patch = json!({ "metadata": metadata, "spec": { "taints": taints } });
                self.writer.patch(&seen.key, &patch).await
            }
        }
    }

    /// Takes readiness from the pods of nodes that are not ready.
    async fn mark_unready(&self, node: &str, now: Timestamp) -> Result<(), WriteError> {
        for pod in falsely_ready(self.caches.pods_on(node)) {
            let condition = PodCondition {
                type_: "Ready".into(),
                status: "False".into(),
                last_transition_time: Some(stamp(now)),
                ..PodCondition::default()
            };
            let conditions = with_condition(&pod, condition);
            let metadata = precondition(&ObjectVersion::of(&*pod));
            let patch = json!({ "metadata": metadata, "status": { "conditions": conditions } });
            self.events.warning(&*pod, "NodeNotReady", "Node is not ready");
            missing_is_fine(self.writer.patch_status::<Pod>(&Key::of(&*pod), &patch).await)?;
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

    async fn reconcile(&mut self, _: &AllNodes, now: Timestamp) -> Result<Next, WriteError> {
        let nodes = self.caches.nodes.all();
        let leases = self.caches.leases.all().into_iter();
        let leases: HashMap<_, _> = leases.map(|lease| (lease.name_any(), lease)).collect();
        let observed = Observed { nodes: &nodes, leases: &leases, grace: self.grace };
        let plan = plan(&observed, &self.memory, now);
        self.memory = plan.memory;
        let mut latest: HashMap<String, ObjectVersion> = HashMap::new();
        for action in plan.actions {
            let node = match &action {
                Action::Conditions { node, .. } | Action::Taints { node, .. } => node.clone(),
            };
            let seen = latest.entry(node.name_any()).or_insert_with(|| ObjectVersion::of(&*node));
            match self.act(action, seen).await {
                Ok(written) => *seen = ObjectVersion::of(&written),
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
