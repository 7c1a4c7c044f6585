//! `cpu-burst-config`: how far may a container exceed its CPU limit for a moment?

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far a container may exceed its CPU limit for a moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CpuBurstStrategy {
    /// Which means are used: `none`, `cpuBurstOnly` (kernel burst), `cfsQuotaBurstOnly` (raised
    /// quota) or `auto` (both).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Kernel burst buffer of a container, in percent of its CPU limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10000))]
    pub cpu_burst_percent: Option<i64>,
    /// Highest CFS quota a throttled container may be raised to, in percent of its own quota.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cfs_quota_burst_percent: Option<i64>,
    /// How long a container may run on a raised quota at full speed, in seconds; -1 is without
    /// end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cfs_quota_burst_period_seconds: Option<i64>,
    /// Usage of the node's shared CPU pool, in percent, above which raised quotas are taken back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_pool_threshold_percent: Option<i64>,
}
