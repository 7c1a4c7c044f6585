//! A report as gauges.

use api::kind::shape::ResourceMap;
use api::priority::PriorityClass;
use api::protocol::metric::Metric;
use api::protocol::metric::agent::external::{PRIORITY_RECLAIMABLE, PRIORITY_RECLAIMABLE_STATUS};
use api::protocol::metric::agent::internal::{
    HOST_APPLICATION_USAGE, NODE_USAGE, NUMA_SYSTEM_USAGE, NUMA_USAGE, PREDICTED_PEAK,
    PREDICTED_RECLAIMABLE, SYSTEM_USAGE,
};
use api::protocol::metric::unit;
use api::protocol::resource::{CPU, MEMORY};
use units::Quantity;

use crate::exposition::Group;
use crate::report::node_metric::Report;

/// The reference's name for the smaller of its two predictions.
const PREDICTOR: &str = "minPredictor";

/// Usage gauges are shown only with `is_shown`; predictions and host applications always.
pub(super) fn fill(group: &mut Group, report: &Report, is_shown: bool) {
    let status = &report.status;
    if let Some(node) = status.node_metric.as_ref().filter(|_| is_shown) {
        usage(group, &NODE_USAGE, &[], node.node_usage.as_ref());
        usage(group, &SYSTEM_USAGE, &[], node.system_usage.as_ref());
        for numa in &node.numa_usages {
            let id = numa.numa_node_id.to_string();
            usage(group, &NUMA_USAGE, &[&id], numa.node_usage.as_ref());
            usage(group, &NUMA_SYSTEM_USAGE, &[&id], numa.system_usage.as_ref());
        }
    }
    for app in &status.host_application_metric {
        let name = app.name.as_deref().unwrap_or_default();
        let class = app.priority.as_deref().unwrap_or_default();
        let qos = app.qos.as_deref().unwrap_or_default();
        for (resource, _, value) in amounts(app.usage.as_ref()) {
            group.set(&HOST_APPLICATION_USAGE, &[name, resource, class, qos], value);
        }
    }
    let prod = PriorityClass::Prod.as_str();
    let reclaimable = status.prod_reclaimable_metric.as_ref();
    if let Some(reclaimable) = reclaimable {
        usage(group, &PREDICTED_RECLAIMABLE, &[PREDICTOR], reclaimable.resource.as_ref());
        usage(group, &PRIORITY_RECLAIMABLE, &[prod], reclaimable.resource.as_ref());
        let failed = f64::from(u8::from(report.prediction_error.is_some()));
        group.set(&PRIORITY_RECLAIMABLE_STATUS, &[prod], failed);
    }
    if let Some(peak) = &status.prod_peak_metric {
        usage(group, &PREDICTED_PEAK, &[PREDICTOR], peak.resource.as_ref());
    }
}

/// One series for CPU and one for memory, with resource and unit as the last labels.
fn usage(group: &mut Group, metric: &'static Metric, labels: &[&str], map: Option<&ResourceMap>) {
    for (resource, unit, value) in amounts(map) {
        let labels: Vec<&str> = labels.iter().copied().chain([resource, unit]).collect();
        group.set(metric, &labels, value);
    }
}

fn amounts(map: Option<&ResourceMap>) -> impl Iterator<Item = (&'static str, &'static str, f64)> {
    let amount = |name| map.and_then(|map| map.resources.get(name)).copied();
    let cpu = amount(CPU).map(|cpu| (CPU, unit::CORE, float(cpu)));
    let memory = amount(MEMORY).map(|memory| (MEMORY, unit::BYTE, float(memory)));
    cpu.into_iter().chain(memory)
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus knows only floats")]
fn float(quantity: Quantity) -> f64 {
    quantity.milli_value() as f64 / 1000.0
}
