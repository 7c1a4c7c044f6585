//! What do the controllers count?
//!
//! Names, labels and help come from [`api::protocol::metric::manager`]; the registry that serves
//! them belongs to the process.

use api::protocol::metric::manager as names;
use api::protocol::metric::status;
use prometheus::{GaugeVec, IntCounterVec, IntGauge, IntGaugeVec, Registry};
use reconcile::metrics::Registrar;

/// Everything the controllers count, registered once a process.
#[derive(Debug, Clone)]
pub struct Instruments {
    pub reconcile_total: IntCounterVec,
    pub workqueue_depth: IntGaugeVec,
    pub config_parse_failures: IntCounterVec,
    pub config_key_stale: IntGaugeVec,
    pub config_present: IntGauge,
    pub node_metric_reconcile: IntCounterVec,
    pub node_metric_parse: IntCounterVec,
    pub node_slo_reconcile: IntCounterVec,
    pub node_slo_parse: IntCounterVec,
    pub node_resource_reconcile: IntCounterVec,
    pub plugin_status: IntCounterVec,
    pub node_allocatable: GaugeVec,
    pub node_metric_age: GaugeVec,
}

impl Instruments {
    /// Fails when the registry has one of these names already.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let make = Registrar(registry);
        Ok(Self {
            reconcile_total: make.counters(&names::RECONCILE_TOTAL)?,
            workqueue_depth: make.gauges(&names::WORKQUEUE_DEPTH)?,
            config_parse_failures: make.counters(&names::CONFIG_PARSE_FAILURES)?,
            config_key_stale: make.gauges(&names::CONFIG_KEY_STALE)?,
            config_present: make.gauge(&names::CONFIG_PRESENT)?,
            node_metric_reconcile: make.counters(&names::NODE_METRIC_RECONCILE)?,
            node_metric_parse: make.counters(&names::NODE_METRIC_PARSE)?,
            node_slo_reconcile: make.counters(&names::NODE_SLO_RECONCILE)?,
            node_slo_parse: make.counters(&names::NODE_SLO_PARSE)?,
            node_resource_reconcile: make.counters(&names::NODE_RESOURCE_RECONCILE)?,
            plugin_status: make.counters(&names::PLUGIN_STATUS)?,
            node_allocatable: make.float_gauges(&names::NODE_ALLOCATABLE)?,
            node_metric_age: make.float_gauges(&names::NODE_METRIC_AGE)?,
        })
    }
}

/// Counts one end of something under the words for good and bad.
pub(crate) fn count(counter: &IntCounterVec, result: Result<&str, &str>) {
    let labels = match result {
        Ok(reason) => [status::SUCCEEDED, reason],
        Err(reason) => [status::FAILED, reason],
    };
    counter.with_label_values(&labels).inc();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_references_and_are_taken_once() {
        let registry = Registry::new();
        let instruments = Instruments::register(&registry).unwrap();
        count(&instruments.node_metric_reconcile, Ok("created"));
        count(&instruments.node_metric_reconcile, Err("conflict"));
        let families = registry.gather();
        let family = families
            .iter()
            .find(|family| family.name() == "slo_controller_nodemetric_reconcile_count")
            .unwrap();
        assert_eq!(family.get_metric().len(), 2);
        assert!(Instruments::register(&registry).is_err());
    }
}
