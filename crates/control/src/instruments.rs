//! What do the controllers count?
//!
//! Names, labels and help come from [`api::protocol::metric::manager`]; the registry that serves
//! them belongs to the process.

use api::protocol::metric::manager as names;
use api::protocol::metric::{Metric, status};
use prometheus::{GaugeVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

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
        let counter = |metric: &Metric| {
            let counter = IntCounterVec::new(opts(metric), metric.labels)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let integers = |metric: &Metric| {
            let gauge = IntGaugeVec::new(opts(metric), metric.labels)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, prometheus::Error>(gauge)
        };
        let gauges = |metric: &Metric| {
            let gauge = GaugeVec::new(opts(metric), metric.labels)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, prometheus::Error>(gauge)
        };
        let config_present = IntGauge::with_opts(opts(&names::CONFIG_PRESENT))?;
        registry.register(Box::new(config_present.clone()))?;
        Ok(Self {
            reconcile_total: counter(&names::RECONCILE_TOTAL)?,
            workqueue_depth: integers(&names::WORKQUEUE_DEPTH)?,
            config_parse_failures: counter(&names::CONFIG_PARSE_FAILURES)?,
            config_key_stale: integers(&names::CONFIG_KEY_STALE)?,
            config_present,
            node_metric_reconcile: counter(&names::NODE_METRIC_RECONCILE)?,
            node_metric_parse: counter(&names::NODE_METRIC_PARSE)?,
            node_slo_reconcile: counter(&names::NODE_SLO_RECONCILE)?,
            node_slo_parse: counter(&names::NODE_SLO_PARSE)?,
            node_resource_reconcile: counter(&names::NODE_RESOURCE_RECONCILE)?,
            plugin_status: counter(&names::PLUGIN_STATUS)?,
            node_allocatable: gauges(&names::NODE_ALLOCATABLE)?,
            node_metric_age: gauges(&names::NODE_METRIC_AGE)?,
        })
    }
}

fn opts(metric: &Metric) -> Opts {
    Opts::new(metric.name, metric.help)
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
