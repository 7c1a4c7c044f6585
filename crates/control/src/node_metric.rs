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
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::Shared;
use crate::caches::{Entry, Kind, NodeName};
use crate::drive::{Controller, SyncError, Writer, drive};
use crate::instruments::count;
use crate::intake::InForce;
use crate::queue::{Next, Queue};

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
pub async fn run(shared: Shared, shutdown: CancellationToken) {
    let writer = Writer::new(&shared, source::NODE_METRIC);
    let controller = NodeMetrics { shared: shared.clone(), writer };
    drive(&shared, &controller, shutdown).await;
}

struct NodeMetrics {
    shared: Shared,
    writer: Writer,
}

impl Controller for NodeMetrics {
    const NAME: &'static str = "nodemetric";
    const NEEDS: &'static [Kind] = &[Kind::Node, Kind::Metric];

    fn queue(shared: &Shared) -> &Queue {
        &shared.caches.metrics
    }

    async fn reconcile(&self, name: &NodeName) -> Result<Next, SyncError> {
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
            Err(error) => count(counter, Err(error.reason())),
        }
        result.map(|()| Next::Settled)
    }
}

impl NodeMetrics {
    async fn write(&self, name: &NodeName, plan: Plan) -> Result<(), SyncError> {
        match plan {
            Plan::Keep => {}
            Plan::Create(spec) => {
                let written = self.writer.create(name, &NodeMetric::new(name, spec)).await?;
                self.shared.caches.apply(&written);
                info!(node = %name, "created the node's NodeMetric");
            }
            Plan::Update(spec) => {
                // An absent field must go, so the policy is replaced as a whole.
                let spec = json!({ "spec": replaced(&spec) });
                let written = self.writer.patch::<NodeMetric>(name, &spec).await?;
                self.shared.caches.apply(&written);
                info!(node = %name, "changed how the node is measured");
            }
            Plan::Delete => {
                self.writer.delete::<NodeMetric>(name).await?;
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
