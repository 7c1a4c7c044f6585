//! `colocation-config`: how much of a node's idle capacity is lent out?

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use units::GoDuration;

/// How much of a node's idle capacity is lent out, and how it is measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ColocationStrategy {
    /// Turns lending on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable: Option<bool>,
    /// Window over which the node agent averages usage, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric_aggregate_duration_seconds: Option<i64>,
    /// Time between two reports of the node agent, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric_report_interval_seconds: Option<i64>,
    /// Windows for which percentiles of node usage are reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric_aggregate_policy: Option<AggregatePolicy>,
    /// What counts as used memory: `usageWithoutPageCache`, `usageWithHotPageCache` or
    /// `usageWithPageCache`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric_memory_collect_policy: Option<String>,
    /// Share of the node's CPU, in percent, that online usage and batch work together may fill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_reclaim_threshold_percent: Option<i64>,
    /// What online pods are charged for batch CPU: their `usage`, or the larger of usage and
    /// request (`maxUsageRequest`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_calculate_policy: Option<String>,
    /// Share of the node's memory, in percent, that online usage and batch work together may fill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_reclaim_threshold_percent: Option<i64>,
    /// What online pods are charged for batch memory: their `usage`, their `request`, or the larger
    /// of both (`maxUsageRequest`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_calculate_policy: Option<String>,
    /// Age of the last report, in minutes, after which nothing more is lent out on the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degrade_time_minutes: Option<i64>,
    /// Time after which the node's lent resources are written again even if they barely changed, in
    /// seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_time_threshold_seconds: Option<i64>,
    /// Relative change, as a fraction of the old value, that is worth writing at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_diff_threshold: Option<f64>,
    /// How mid resources are found: `static` takes a fixed share of the node, anything else
    /// follows the predicted peak of online pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mid_reclaim_mode: Option<String>,
    /// Most CPU that is lent as mid-cpu, in percent of the node's capacity.
    #[serde(rename = "midCPUThresholdPercent", skip_serializing_if = "Option::is_none")]
    pub mid_cpu_threshold_percent: Option<i64>,
    /// Most memory that is lent as mid-memory, in percent of the node's capacity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mid_memory_threshold_percent: Option<i64>,
    /// Share of the resources no online pod asked for, in percent, that is added to mid resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mid_unallocated_percent: Option<i64>,
    /// mid-cpu in static mode, in percent of the node's capacity.
    #[serde(rename = "midStaticCPUReservedPercent", skip_serializing_if = "Option::is_none")]
    pub mid_static_cpu_reserved_percent: Option<i64>,
    /// mid-memory in static mode, in percent of the node's capacity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mid_static_memory_reserved_percent: Option<i64>,
    /// Most CPU that is lent as batch-cpu, in percent of the node's capacity; without it there is
    /// no cap.
    #[serde(rename = "batchCPUThresholdPercent", skip_serializing_if = "Option::is_none")]
    pub batch_cpu_threshold_percent: Option<i64>,
    /// Most memory that is lent as batch-memory, in percent of the node's capacity; without it
    /// there is no cap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_memory_threshold_percent: Option<i64>,
    /// Settings of third parties, kept as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions: Option<BTreeMap<String, Value>>,
}

/// Windows for which percentiles of usage are reported.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AggregatePolicy {
    /// Lengths of the windows, such as `5m0s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durations: Option<Vec<GoDuration>>,
}
