//! What did the operator ask for?
//!
//! The ConfigMap's strategies with every default filled in and every word understood once, so that
//! the sums deal in plain numbers.

use api::config::{Key, NodeView};
use api::policy::{self, ColocationPolicy};
pub use api::policy::{CpuCalculation, MemoryCalculation};
use api::strategy::{CpuNormalizationStrategy, ResourceAmplificationStrategy};
use jiff::SignedDuration;

use crate::Pair;

/// Caps mid resources by batch resources, which are computed independently otherwise.
const MID_BATCH_COUPLING: &str = "tidepool.midBatchCoupling";

/// Everything the configuration says about lending on one node.
#[derive(Debug, Clone, PartialEq)]
pub struct Strategies {
    /// Cluster and node agree to lend.
    pub is_enabled: bool,
    pub lending: Lending,
    /// `None` when the key cannot be used; what was written earlier then stays.
    pub normalization: Option<CpuNormalizationStrategy>,
    /// `None` when the key cannot be used; what was written earlier then stays.
    pub amplification: Option<ResourceAmplificationStrategy>,
}

impl Strategies {
    /// `None` while the co-location strategy is unavailable: nothing may be decided then.
    pub fn of(view: &NodeView) -> Option<Self> {
        Some(Self {
            is_enabled: view.colocation_enabled,
            lending: Lending::from(&view.colocation()?),
            normalization: view.strategy(Key::Normalization).map(|layer| layer.typed()),
            amplification: view.strategy(Key::Amplification).map(|layer| layer.typed()),
        })
    }

    /// As [`Strategies::of`], where a node's own strategy may switch lending on although the
    /// cluster's is off.
    pub fn of_overriding(view: &NodeView) -> Option<Self> {
        let own = view.colocation()?.enable;
        let of_cluster = Self::of(view)?;
        Some(Self { is_enabled: of_cluster.is_enabled || own, ..of_cluster })
    }
}

/// How mid resources are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MidMode {
    /// A fixed share of capacity, in percent.
    Static(Pair<i64>),
    /// What online pods will not need, and this share of what nobody asked for.
    Dynamic { unallocated_percent: i64 },
}

/// `colocation-config` for one node.
#[derive(Debug, Clone, PartialEq)]
pub struct Lending {
    /// Share of capacity that online usage and batch work together may fill, in percent.
    pub reclaim_percent: Pair<i64>,
    pub cpu_policy: CpuCalculation,
    pub memory_policy: MemoryCalculation,
    /// Most that is lent as batch, in percent of capacity.
    pub batch_percent: Pair<Option<i64>>,
    pub mid_mode: MidMode,
    /// Most that is lent as mid, in percent of capacity.
    pub mid_percent: Pair<i64>,
    pub is_mid_within_batch: bool,
    /// A report older than this is not trusted.
    pub degrade_after: SignedDuration,
    /// A difference of any size is written after this long.
    pub update_after: SignedDuration,
    /// Relative difference that is written at once.
    pub diff_threshold: f64,
}

impl Default for Lending {
    fn default() -> Self {
        Self::from(&ColocationPolicy::default())
    }
}

impl From<&ColocationPolicy> for Lending {
    fn from(policy: &ColocationPolicy) -> Self {
        Self {
            reclaim_percent: Pair::new(
                policy.cpu_reclaim_threshold_percent,
                policy.memory_reclaim_threshold_percent,
            ),
            cpu_policy: policy.cpu_calculate_policy,
            memory_policy: policy.memory_calculate_policy,
            batch_percent: Pair::new(
                policy.batch_cpu_threshold_percent,
                policy.batch_memory_threshold_percent,
            ),
            mid_mode: match policy.mid_reclaim_mode {
                policy::MidMode::Static => MidMode::Static(Pair::new(
                    policy.mid_static_cpu_reserved_percent,
                    policy.mid_static_memory_reserved_percent,
                )),
                policy::MidMode::Dynamic => {
                    MidMode::Dynamic { unallocated_percent: policy.mid_unallocated_percent }
                }
            },
            mid_percent: Pair::new(
                policy.mid_cpu_threshold_percent,
                policy.mid_memory_threshold_percent,
            ),
            is_mid_within_batch: policy
                .extensions
                .get(MID_BATCH_COUPLING)
                .is_some_and(|value| value == "min"),
            degrade_after: minutes(policy.degrade_time_minutes),
            update_after: seconds(policy.update_time_threshold_seconds),
            diff_threshold: policy.resource_diff_threshold,
        }
    }
}

fn minutes(count: i64) -> SignedDuration {
    seconds(count.saturating_mul(60))
}

/// A span that can be added to any time without leaving the calendar; longer ones are a century.
fn seconds(count: i64) -> SignedDuration {
    const CENTURY: i64 = 100 * 366 * 24 * 3_600;
    SignedDuration::from_secs(count.clamp(0, CENTURY))
}

#[cfg(test)]
mod tests {
    use api::config::{Config, Layer, Source};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use serde_json::json;

    use super::*;

    fn lending(strategy: serde_json::Value) -> Lending {
        let layer = Layer::new(Key::Colocation, &strategy, &Source::Cluster);
        Lending::from(&ColocationPolicy::of(&layer))
    }

    #[test]
    fn unset_fields_have_the_references_defaults() {
        let built_in = Config::default().for_node(&ObjectMeta::default());
        let strategies = Strategies::of(&built_in).unwrap();
        assert!(!strategies.is_enabled);
        assert_eq!(strategies.lending, Lending::default());
        assert_eq!(strategies.lending.reclaim_percent, Pair::new(60, 65));
        assert_eq!(strategies.lending.degrade_after, SignedDuration::from_mins(15));
    }

    #[test]
    fn unknown_words_act_as_usage_and_dynamic() {
        let cases = [
            ("usage", CpuCalculation::Usage, MemoryCalculation::Usage),
            ("request", CpuCalculation::Usage, MemoryCalculation::Request),
            (
                "maxUsageRequest",
                CpuCalculation::MaxUsageRequest,
                MemoryCalculation::MaxUsageRequest,
            ),
            ("Request", CpuCalculation::Usage, MemoryCalculation::Usage),
        ];
        for (word, cpu, memory) in cases {
            let found = lending(json!({
                "cpuCalculatePolicy": word, "memoryCalculatePolicy": word, "midReclaimMode": word,
            }));
            assert_eq!((found.cpu_policy, found.memory_policy), (cpu, memory), "{word}");
            assert_eq!(found.mid_mode, MidMode::Dynamic { unallocated_percent: 0 }, "{word}");
        }
        let fixed = lending(json!({"midReclaimMode": "static", "midStaticCPUReservedPercent": 25}));
        assert_eq!(fixed.mid_mode, MidMode::Static(Pair::new(25, 0)));
        let coupled = json!({"extensions": {"tidepool.midBatchCoupling": "min"}});
        assert!(lending(coupled).is_mid_within_batch);
    }

    #[test]
    fn absurd_spans_stay_within_the_calendar() {
        let found = lending(json!({"degradeTimeMinutes": i64::MAX}));
        assert!(jiff::Timestamp::UNIX_EPOCH.checked_add(found.degrade_after).is_ok());
    }
}
