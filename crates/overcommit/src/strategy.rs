//! What did the operator ask for?
//!
//! The ConfigMap's strategies with every default filled in and every word understood once, so that
//! the sums deal in plain numbers.

use api::config::{Key, NodeView};
use api::strategy::{ColocationStrategy, CpuNormalizationStrategy, ResourceAmplificationStrategy};
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
        let own = view.colocation()?.enable == Some(true);
        let of_cluster = Self::of(view)?;
        Some(Self { is_enabled: of_cluster.is_enabled || own, ..of_cluster })
    }
}

/// What batch CPU charges online pods for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CpuPolicy {
    #[default]
    Usage,
    MaxUsageRequest,
}

/// What batch memory charges online pods for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MemoryPolicy {
    #[default]
    Usage,
    Request,
    MaxUsageRequest,
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
    pub cpu_policy: CpuPolicy,
    pub memory_policy: MemoryPolicy,
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
        Self::from(&ColocationStrategy::default())
    }
}

impl From<&ColocationStrategy> for Lending {
    fn from(strategy: &ColocationStrategy) -> Self {
        let percent = |value: Option<i64>, default| value.unwrap_or(default);
        let is_static = strategy.mid_reclaim_mode.as_deref() == Some("static");
        Self {
            reclaim_percent: Pair::new(
                percent(strategy.cpu_reclaim_threshold_percent, 60),
                percent(strategy.memory_reclaim_threshold_percent, 65),
            ),
            cpu_policy: match strategy.cpu_calculate_policy.as_deref() {
                Some("maxUsageRequest") => CpuPolicy::MaxUsageRequest,
                _ => CpuPolicy::Usage,
            },
            memory_policy: match strategy.memory_calculate_policy.as_deref() {
                Some("request") => MemoryPolicy::Request,
                Some("maxUsageRequest") => MemoryPolicy::MaxUsageRequest,
                _ => MemoryPolicy::Usage,
            },
            batch_percent: Pair::new(
                strategy.batch_cpu_threshold_percent,
                strategy.batch_memory_threshold_percent,
            ),
            mid_mode: if is_static {
                MidMode::Static(Pair::new(
                    percent(strategy.mid_static_cpu_reserved_percent, 0),
                    percent(strategy.mid_static_memory_reserved_percent, 0),
                ))
            } else {
                let unallocated_percent = percent(strategy.mid_unallocated_percent, 0);
                MidMode::Dynamic { unallocated_percent }
            },
            mid_percent: Pair::new(
                percent(strategy.mid_cpu_threshold_percent, 100),
                percent(strategy.mid_memory_threshold_percent, 100),
            ),
            is_mid_within_batch: strategy
                .extensions
                .as_ref()
                .and_then(|extensions| extensions.get(MID_BATCH_COUPLING))
                .is_some_and(|value| value == "min"),
            degrade_after: minutes(strategy.degrade_time_minutes.unwrap_or(15)),
            update_after: seconds(strategy.update_time_threshold_seconds.unwrap_or(300)),
            diff_threshold: strategy.resource_diff_threshold.unwrap_or(0.1),
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
    use api::config::Config;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use serde_json::json;

    use super::*;

    fn lending(strategy: serde_json::Value) -> Lending {
        Lending::from(&serde_json::from_value::<ColocationStrategy>(strategy).unwrap())
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
            ("usage", CpuPolicy::Usage, MemoryPolicy::Usage),
            ("request", CpuPolicy::Usage, MemoryPolicy::Request),
            ("maxUsageRequest", CpuPolicy::MaxUsageRequest, MemoryPolicy::MaxUsageRequest),
            ("Request", CpuPolicy::Usage, MemoryPolicy::Usage),
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
