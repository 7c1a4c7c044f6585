//! How is each node measured?
//!
//! Every node has a NodeMetric of its name. The manager owns its spec, the node's agent its status.
//!
//! | node | NodeMetric | done |
//! |---|---|---|
//! | there | missing | created with the node's policy |
//! | there | another policy | its spec is changed |
//! | gone | there | deleted |
//!
//! NodeMetrics exist where nothing is lent, too: load-aware scheduling needs them. While the
//! co-location strategy is in doubt an existing spec stays.

use api::kind::NodeMetric;
use api::kind::node_metric::NodeMetricSpec;
use api::protocol::event::source;
use jiff::Timestamp;
use kube::api::DeleteParams;
use reconcile::drive::Controller;
use reconcile::key::Key;
use reconcile::queue::Next;
use reconcile::write::{WriteError, Writer};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::Shared;
use crate::caches::{Entry, Kind, NodeName};
use crate::instruments::count;
use crate::intake::InForce;

/// What to do about one NodeMetric.
#[derive(Debug, Clone, PartialEq)]
pub enum Plan {
    Keep,
    Create(NodeMetricSpec),
    Update(NodeMetricSpec),
    Delete,
}

pub fn plan(entry: &Entry, in_force: &InForce) -> Plan {
    let Some(node) = &entry.node else {
        return if entry.metric.is_some() { Plan::Delete } else { Plan::Keep };
    };
    if entry.metric.is_some() && in_force.is_colocation_doubtful() {
        return Plan::Keep;
    }
    let policy = in_force.config.for_node(&node.meta).metric_collect_policy();
    let Some(policy) = policy else { return Plan::Keep };
    let spec = NodeMetricSpec { metric_collect_policy: Some(policy) };
    match &entry.metric {
        None => Plan::Create(spec),
        Some(metric) if *metric.spec != spec => Plan::Update(spec),
        Some(_) => Plan::Keep,
    }
}

/// Runs until told to stop; writes only while this process leads.
pub async fn run(shared: Shared, stop: CancellationToken) {
    let writer = shared.writer().managing(source::NODE_METRIC);
    let controller = NodeMetrics { shared: shared.clone(), writer };
    shared.drive(&controller, &shared.caches.metrics, &[Kind::Node, Kind::Metric], stop).await;
}

#[derive(Clone)]
struct NodeMetrics {
    shared: Shared,
    writer: Writer,
}

impl Controller for NodeMetrics {
    type Key = NodeName;

    const NAME: &'static str = "nodemetric";

    async fn reconcile(&mut self, name: &NodeName, _: Timestamp) -> Result<Next, WriteError> {
        let Some(in_force) = self.shared.configs.latest() else { return Ok(Next::Settled) };
        let planned = self.shared.caches.with(|world| world.get(name).map(|e| plan(e, &in_force)));
        let Some(plan) = planned else { return Ok(Next::Settled) };
        if !matches!(plan, Plan::Keep | Plan::Delete) {
            count(&self.shared.instruments.node_metric_parse, Ok("parsed"));
        }
        let result = self.write(name, plan).await;
        let counter = &self.shared.instruments.node_metric_reconcile;
        match &result {
            Ok(()) => count(counter, Ok("")),
            Err(error) => count(counter, Err(error.word())),
        }
        result.map(|()| Next::Settled)
    }
}

impl NodeMetrics {
    async fn write(&self, name: &NodeName, plan: Plan) -> Result<(), WriteError> {
        let key = Key::new("", name);
        match plan {
            Plan::Keep => {}
            Plan::Create(spec) => {
                let written = self.writer.create(&NodeMetric::new(name, spec)).await?;
                self.shared.caches.apply(&written);
                info!(node = %name, "created the node's NodeMetric");
            }
            Plan::Update(spec) => {
                // An absent field must go, so the policy is replaced as a whole.
                let spec = json!({ "spec": replaced(&spec) });
                let written = self.writer.patch::<NodeMetric>(&key, &spec).await?;
                self.shared.caches.apply(&written);
                info!(node = %name, "changed how the node is measured");
            }
            Plan::Delete => {
                self.writer.delete::<NodeMetric>(&key, DeleteParams::default()).await?;
                info!(node = %name, "deleted the NodeMetric of a node that is gone");
            }
        }
        Ok(())
    }
}

/// The spec as a merge patch that takes away what it does not have.
fn replaced(spec: &NodeMetricSpec) -> serde_json::Value {
    let policy = spec.metric_collect_policy.clone().unwrap_or_default();
    json!({ "metricCollectPolicy": {
        "aggregateDurationSeconds": policy.aggregate_duration_seconds,
        "reportIntervalSeconds": policy.report_interval_seconds,
        "nodeAggregatePolicy": policy.node_aggregate_policy,
        "nodeMemoryCollectPolicy": policy.node_memory_collect_policy,
    } })
}
