//! What can be tuned about co-location, and what is each setting called on the wire?
//!
//! The ConfigMap `slo-controller-config`, the NodeSLO object and a few annotations carry the same
//! JSON shapes; they are written down once, here. Every field is an `Option` because layers of
//! configuration are merged: an absent field leaves the layer below alone, while `0` and `false`
//! override it. Defaults and the checks of the ConfigMap webhook live with the loader, not in the
//! types. The limits in the schema are those the API server itself enforces on a NodeSLO.
//!
//! Policy names are plain strings: a name from a newer version must survive being read.

mod burst;
mod colocation;
mod host;
mod own;
mod qos;
mod ratio;
mod system;
mod threshold;

pub use burst::CpuBurstStrategy;
pub use colocation::{AggregatePolicy, ColocationStrategy};
pub use host::{CgroupPath, HostApplicationSpec, HostApplicationStrategy};
pub use own::{FreezeStrategy, KernelStrategy, ReactionStrategy, SwitchStrategy};
pub use qos::{
    BlkioQos, Block, BlockIo, CpuQos, MemoryQos, NetworkQos, QosPolicies, ResctrlQos, ResourceQos,
    ResourceQosStrategy,
};
pub use ratio::{CpuNormalizationStrategy, ModelRatios, ResourceAmplificationStrategy};
pub use system::SystemStrategy;
pub use threshold::ResourceThresholdStrategy;

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use serde::Serialize;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn assert_round_trip<T: Debug + Serialize + DeserializeOwned>(name: &str, text: Value) {
        let typed: T = serde_json::from_value(text.clone()).expect(name);
        assert_eq!(serde_json::to_value(&typed).unwrap(), text, "{name}");
    }

    /// The shapes that no custom resource contains; NodeSLO covers the others.
    #[test]
    fn every_field_of_a_configuration_only_shape_survives() {
        assert_round_trip::<ColocationStrategy>(
            "colocation",
            json!({
                "enable": true,
                "metricAggregateDurationSeconds": 300,
                "metricReportIntervalSeconds": 60,
                "metricAggregatePolicy": { "durations": ["5m0s", "1h30m0s"] },
                "metricMemoryCollectPolicy": "usageWithPageCache",
                "cpuReclaimThresholdPercent": 60,
                "cpuCalculatePolicy": "maxUsageRequest",
                "memoryReclaimThresholdPercent": 65,
                "memoryCalculatePolicy": "request",
                "degradeTimeMinutes": 15,
                "updateTimeThresholdSeconds": 300,
                "resourceDiffThreshold": 0.1,
                "midReclaimMode": "static",
                "midCPUThresholdPercent": 100,
                "midMemoryThresholdPercent": 99,
                "midUnallocatedPercent": 0,
                "midStaticCPUReservedPercent": 1,
                "midStaticMemoryReservedPercent": 2,
                "batchCPUThresholdPercent": 3,
                "batchMemoryThresholdPercent": 4,
                "extensions": { "vendor": { "any": ["thing", 1, null] } },
            }),
        );
        assert_round_trip::<CpuNormalizationStrategy>(
            "normalization",
            json!({
                "enable": true,
                "defaultRatio": 1.2,
                "ratioModel": {
                    "Some CPU @ 2.50GHz": {
                        "baseRatio": 1.1,
                        "hyperThreadEnabledRatio": 1.0,
                        "turboEnabledRatio": 1.5,
                        "hyperThreadTurboEnabledRatio": 1.25,
                    },
                },
            }),
        );
        assert_round_trip::<ResourceAmplificationStrategy>(
            "amplification",
            json!({ "enable": false, "resourceAmplificationRatio": { "cpu": 1.5, "memory": 1.0 } }),
        );
    }

    #[test]
    fn null_is_absent_and_zero_is_not() {
        let strategy: ResourceThresholdStrategy =
            serde_json::from_value(json!({ "enable": null, "cpuSuppressThresholdPercent": 0 }))
                .unwrap();
        assert_eq!(strategy.enable, None);
        assert_eq!(strategy.cpu_suppress_threshold_percent, Some(0));
    }

    #[test]
    fn integers_take_neither_fractions_nor_strings() {
        for wrong in [json!(60.5), json!(60.0), json!("60"), json!(true)] {
            let text = json!({ "cpuReclaimThresholdPercent": wrong });
            assert!(serde_json::from_value::<ColocationStrategy>(text.clone()).is_err(), "{text}");
        }
    }
}
