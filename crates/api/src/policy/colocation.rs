//! `colocation-config` with its defaults: how much of a node is lent out.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use units::GoDuration;

use super::policy_of;
use super::words::{CpuCalculation, MemoryCalculation, MidMode};
use crate::config::{Key, Layer};

/// How much of a node's idle capacity is lent out, and how it is measured.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ColocationPolicy {
    pub enable: bool,
    pub metric_aggregate_duration_seconds: i64,
    pub metric_report_interval_seconds: i64,
    pub metric_aggregate_policy: AggregateWindows,
    pub metric_memory_collect_policy: String,
    /// Percentages above 100 lend more than is idle.
    pub cpu_reclaim_threshold_percent: i64,
    pub cpu_calculate_policy: CpuCalculation,
    pub memory_reclaim_threshold_percent: i64,
    pub memory_calculate_policy: MemoryCalculation,
    pub degrade_time_minutes: i64,
    pub update_time_threshold_seconds: i64,
    pub resource_diff_threshold: f64,
    #[serde(default)]
    pub mid_reclaim_mode: MidMode,
    #[serde(rename = "midCPUThresholdPercent")]
    pub mid_cpu_threshold_percent: i64,
    pub mid_memory_threshold_percent: i64,
    pub mid_unallocated_percent: i64,
    #[serde(rename = "midStaticCPUReservedPercent")]
    pub mid_static_cpu_reserved_percent: i64,
    pub mid_static_memory_reserved_percent: i64,
    /// `None` caps nothing.
    #[serde(rename = "batchCPUThresholdPercent")]
    pub batch_cpu_threshold_percent: Option<i64>,
    /// `None` caps nothing.
    pub batch_memory_threshold_percent: Option<i64>,
    #[serde(default)]
    pub extensions: BTreeMap<String, Value>,
}

/// Windows for which percentiles of usage are reported.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct AggregateWindows {
    pub durations: Vec<GoDuration>,
}

impl Default for ColocationPolicy {
    fn default() -> Self {
        Self::of(&Layer::default())
    }
}

impl ColocationPolicy {
    /// The policy of a layer, over the built-in one.
    pub fn of(layer: &Layer) -> Self {
        policy_of(Key::Colocation, layer)
    }
}
