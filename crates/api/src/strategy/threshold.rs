//! `resource-threshold-config`: when is best-effort work held back or evicted?

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When best-effort work is held back or evicted to protect online pods.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceThresholdStrategy {
    /// Turns all threshold strategies on; each also has its own feature gate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable: Option<bool>,
    /// Share of the node's CPU, in percent, that all pods together may use before best-effort is
    /// held back.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub cpu_suppress_threshold_percent: Option<i64>,
    /// Share of the node's CPU, in percent, that best-effort keeps however busy the node is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub cpu_suppress_min_percent: Option<i64>,
    /// How best-effort is held back: by `cpuset` (fewer CPUs) or by `cfsQuota` (less time).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_suppress_policy: Option<String>,
    /// Memory usage of the node, in percent, at which best-effort pods are evicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub memory_evict_threshold_percent: Option<i64>,
    /// Memory usage of the node, in percent, at which that eviction stops.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub memory_evict_lower_percent: Option<i64>,
    /// Share of their requested CPU, in percent, that best-effort pods get back by eviction.
    #[serde(
        rename = "cpuEvictBESatisfactionUpperPercent",
        skip_serializing_if = "Option::is_none"
    )]
    pub cpu_evict_be_satisfaction_upper_percent: Option<i64>,
    /// Share of their requested CPU, in percent, below which best-effort pods starve and are
    /// evicted.
    #[serde(
        rename = "cpuEvictBESatisfactionLowerPercent",
        skip_serializing_if = "Option::is_none"
    )]
    pub cpu_evict_be_satisfaction_lower_percent: Option<i64>,
    /// How much of the CPU left to them, in percent, best-effort pods must use to count as
    /// starving.
    #[serde(rename = "cpuEvictBEUsageThresholdPercent", skip_serializing_if = "Option::is_none")]
    pub cpu_evict_be_usage_threshold_percent: Option<i64>,
    /// Window over which starvation is averaged, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_evict_time_window_seconds: Option<i64>,
    /// What starvation is measured against: the limit in force (`evictByRealLimit`) or the node's
    /// batch-cpu (`evictByAllocatable`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_evict_policy: Option<String>,
    /// CPU usage of the node, in percent, at which pods up to the evictable priority are evicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub cpu_evict_threshold_percent: Option<i64>,
    /// CPU usage of the node, in percent, at which that eviction stops.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub cpu_evict_lower_percent: Option<i64>,
    /// Memory requested by lent-resource pods, in percent of what is still lent out, at which they
    /// are evicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub memory_allocatable_evict_threshold_percent: Option<i64>,
    /// Memory requested by lent-resource pods, in percent of what is still lent out, at which that
    /// eviction stops.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub memory_allocatable_evict_lower_percent: Option<i64>,
    /// CPU requested by lent-resource pods, in percent of what is still lent out, at which they are
    /// evicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub cpu_allocatable_evict_threshold_percent: Option<i64>,
    /// CPU requested by lent-resource pods, in percent of what is still lent out, at which that
    /// eviction stops.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub cpu_allocatable_evict_lower_percent: Option<i64>,
    /// Highest pod priority that may be evicted because of the node's CPU or memory usage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evict_enabled_priority_threshold: Option<i32>,
    /// Highest pod priority that may be evicted because less is lent out than was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocatable_evict_priority_threshold: Option<i32>,
}
