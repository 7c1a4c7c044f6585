//! What is each node's agent told?
//!
//! Every node has a NodeSLO of its name: the ConfigMap rendered for this one node, Tidepool's own keys
//! among its `extensions`. What third parties keep there stays as it is. Class defaults are not filled in here; that is
//! the agent's part, and doing it here would rewrite every NodeSLO on each upgrade.

use std::sync::Arc;

use api::kind::NodeSlo;
use api::kind::node_slo::NodeSloSpec;
use api::protocol::event::source;
use jiff::Timestamp;
use kube::api::DeleteParams;
use reconcile::drive::Controller;
use reconcile::key::Key;
use reconcile::merge;
use reconcile::queue::Next;
use reconcile::write::{WriteError, Writer};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::Shared;
use crate::caches::{Entry, Kind, NodeName};
use crate::instruments::count;
use crate::intake::InForce;

/// What to do about one NodeSLO.
#[derive(Debug, Clone, PartialEq)]
pub enum Plan {
    Keep,
    Create(NodeSloSpec),
    Update { old: Arc<NodeSloSpec>, new: NodeSloSpec },
    Delete,
}

pub fn plan(entry: &Entry, in_force: &InForce) -> Plan {
    let Some(node) = &entry.node else {
        return if entry.slo.is_some() { Plan::Delete } else { Plan::Keep };
    };
    let view = in_force.config.for_node(&node.meta);
    let mut spec = view.node_slo();
    match &entry.slo {
        None => Plan::Create(spec),
        Some(old) => {
            spec.extensions = view.extensions(old.extensions.as_ref());
            if **old == spec { Plan::Keep } else { Plan::Update { old: old.clone(), new: spec } }
        }
    }
}

/// Runs until told to stop; writes only while this process leads.
pub async fn run(shared: Shared, stop: CancellationToken) {
    let writer = shared.writer().managing(source::NODE_SLO);
    let controller = NodeSlos { shared: shared.clone(), writer };
    shared.drive(&controller, &shared.caches.slos, &[Kind::Node, Kind::Slo], stop).await;
}

#[derive(Clone)]
struct NodeSlos {
    shared: Shared,
    writer: Writer,
}

impl Controller for NodeSlos {
    type Key = NodeName;

    const NAME: &'static str = "nodeslo";

    async fn reconcile(&mut self, name: &NodeName, _: Timestamp) -> Result<Next, WriteError> {
        let Some(in_force) = self.shared.configs.latest() else { return Ok(Next::Settled) };
        let planned = self.shared.caches.with(|world| world.get(name).map(|e| plan(e, &in_force)));
        let Some(plan) = planned else { return Ok(Next::Settled) };
        if !matches!(plan, Plan::Keep | Plan::Delete) {
            count(&self.shared.instruments.node_slo_parse, Ok("parsed"));
        }
        let result = self.write(name, plan).await;
        let counter = &self.shared.instruments.node_slo_reconcile;
        match &result {
            Ok(()) => count(counter, Ok("")),
            Err(error) => count(counter, Err(error.word())),
        }
        result.map(|()| Next::Settled)
    }
}

impl NodeSlos {
    async fn write(&self, name: &NodeName, plan: Plan) -> Result<(), WriteError> {
        let key = Key::new("", name);
        match plan {
            Plan::Keep => {}
            Plan::Create(spec) => {
                let written = self.writer.create(&NodeSlo::new(name, spec)).await?;
                self.shared.caches.apply(&written);
                info!(node = %name, "created the node's NodeSLO");
            }
            Plan::Update { old, new } => {
                let Some(change) = merge::diff(&json!(*old), &json!(new)) else { return Ok(()) };
                let patch = json!({ "spec": change });
                let written = self.writer.patch::<NodeSlo>(&key, &patch).await?;
                self.shared.caches.apply(&written);
                info!(node = %name, "changed what the node's agent is told");
            }
            Plan::Delete => {
                self.writer.delete::<NodeSlo>(&key, DeleteParams::default()).await?;
                info!(node = %name, "deleted the NodeSLO of a node that is gone");
            }
        }
        Ok(())
    }
}
