//! What is each node's agent told?
//!
//! Every node has a NodeSLO of its name: the ConfigMap rendered for this one node. What third
//! parties keep under `extensions` stays as it is. Class defaults are not filled in here; that is
//! the agent's part, and doing it here would rewrite every NodeSLO on each upgrade.

use std::sync::Arc;

use api::kind::NodeSlo;
use api::kind::node_slo::NodeSloSpec;
use api::protocol::event::source;
use reconcile::merge;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::Shared;
use crate::caches::{Entry, Kind, NodeName};
use crate::drive::{Controller, SyncError, Writer, drive};
use crate::instruments::count;
use crate::intake::InForce;
use crate::queue::{Next, Queue};

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
    let mut spec = in_force.config.for_node(&node.meta).node_slo();
    match &entry.slo {
        None => Plan::Create(spec),
        Some(old) => {
            spec.extensions.clone_from(&old.extensions);
            if **old == spec { Plan::Keep } else { Plan::Update { old: old.clone(), new: spec } }
        }
    }
}

/// Runs until told to stop; writes only while this process leads.
pub async fn run(shared: Shared, shutdown: CancellationToken) {
    let writer = Writer::new(&shared, source::NODE_SLO);
    let controller = NodeSlos { shared: shared.clone(), writer };
    drive(&shared, &controller, shutdown).await;
}

struct NodeSlos {
    shared: Shared,
    writer: Writer,
}

impl Controller for NodeSlos {
    const NAME: &'static str = "nodeslo";
    const NEEDS: &'static [Kind] = &[Kind::Node, Kind::Slo];

    fn queue(shared: &Shared) -> &Queue {
        &shared.caches.slos
    }

    async fn reconcile(&self, name: &NodeName) -> Result<Next, SyncError> {
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
            Err(error) => count(counter, Err(error.reason())),
        }
        result.map(|()| Next::Settled)
    }
}

impl NodeSlos {
    async fn write(&self, name: &NodeName, plan: Plan) -> Result<(), SyncError> {
        match plan {
            Plan::Keep => {}
            Plan::Create(spec) => {
                let written = self.writer.create(name, &NodeSlo::new(name, spec)).await?;
                self.shared.caches.apply(&written);
                info!(node = %name, "created the node's NodeSLO");
            }
            Plan::Update { old, new } => {
                let Some(change) = merge::diff(&json!(*old), &json!(new)) else { return Ok(()) };
                let patch = json!({ "spec": change });
                let written = self.writer.patch::<NodeSlo>(name, &patch).await?;
                self.shared.caches.apply(&written);
                info!(node = %name, "changed what the node's agent is told");
            }
            Plan::Delete => {
                self.writer.delete::<NodeSlo>(name).await?;
                info!(node = %name, "deleted the NodeSLO of a node that is gone");
            }
        }
        Ok(())
    }
}
