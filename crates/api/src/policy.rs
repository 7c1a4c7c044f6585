//! What a node follows: strategies with every default filled in.
//!
//! A *strategy* ([`crate::strategy`]) is what somebody wrote: any field may be absent, because layers are
//! laid over each other. A *policy* is what comes out of that: a field that has a default has a value,
//! and a word is understood. Only [`crate::config::defaults`] knows the defaults; nobody who follows a
//! policy repeats one. An `Option` that is left means something by itself, and says what.
//!
//! [`resolve()`] makes a [`NodePolicy`] out of a NodeSLO, for the agent and the simulator. The manager's
//! [`ColocationPolicy`] comes from [`NodeView::colocation`](crate::config::NodeView::colocation).

mod colocation;
mod own;
mod qos;
mod resolve;
mod words;

use std::time::Duration;

use serde::Deserialize;
use units::{Percent, Quantity};

pub use self::colocation::{AggregateWindows, ColocationPolicy};
pub use self::own::{KernelPolicy, ReactionPolicy, SwitchPolicy};
pub use self::qos::{ClassPolicy, CpuClassPolicy, QosPolicy, ResctrlPolicy};
pub use self::resolve::{RefusedField, ResolvedNodeSlo, resolve};
pub use self::words::{
    BurstMode, CpuCalculation, CpuPriorityMechanism, KernelMode, MemoryCalculation, MidMode,
    NetworkMechanism, SatisfactionBase, SuppressMechanism,
};
use crate::config::defaults::built_in;
use crate::config::{Key, Layer};
use crate::strategy::{CpuBurstStrategy, HostApplicationSpec};

/// Everything a node's agent follows.
#[derive(Debug, Clone, PartialEq)]
pub struct NodePolicy {
    pub threshold: ThresholdPolicy,
    pub qos: QosPolicy,
    pub burst: BurstPolicy,
    pub system: SystemPolicy,
    pub kernel: KernelPolicy,
    pub reaction: ReactionPolicy,
    pub switch: SwitchPolicy,
    pub host_applications: Vec<HostApplicationSpec>,
}

impl Default for NodePolicy {
    /// Without a NodeSLO: everything that the reference knows is off.
    fn default() -> Self {
        resolve(None, None).policy
    }
}

/// `resource-threshold-config`: when best-effort is held back or evicted.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThresholdPolicy {
    pub enable: bool,
    /// Share of the node that all pods together may use before best-effort is held back.
    pub cpu_suppress_threshold_percent: Percent,
    /// Share of the node that best-effort keeps; `None` promises nothing.
    pub cpu_suppress_min_percent: Option<Percent>,
    pub cpu_suppress_policy: SuppressMechanism,
    pub memory_evict_threshold_percent: Percent,
    /// Where eviction stops; `None` leaves that to the rule.
    pub memory_evict_lower_percent: Option<Percent>,
    /// Eviction by satisfaction needs both bounds.
    #[serde(rename = "cpuEvictBESatisfactionUpperPercent")]
    pub cpu_evict_be_satisfaction_upper_percent: Option<Percent>,
    #[serde(rename = "cpuEvictBESatisfactionLowerPercent")]
    pub cpu_evict_be_satisfaction_lower_percent: Option<Percent>,
    /// `None` leaves that to the rule.
    #[serde(rename = "cpuEvictBEUsageThresholdPercent")]
    pub cpu_evict_be_usage_threshold_percent: Option<Percent>,
    /// `None` looks at the last sample alone.
    pub cpu_evict_time_window_seconds: Option<u64>,
    pub cpu_evict_policy: SatisfactionBase,
    /// `None` evicts nobody for the node's CPU usage.
    pub cpu_evict_threshold_percent: Option<Percent>,
    /// Where that eviction stops; `None` leaves that to the rule.
    pub cpu_evict_lower_percent: Option<Percent>,
    /// Eviction for lent memory needs both bounds, as does that for lent CPU.
    pub memory_allocatable_evict_threshold_percent: Option<Percent>,
    pub memory_allocatable_evict_lower_percent: Option<Percent>,
    pub cpu_allocatable_evict_threshold_percent: Option<Percent>,
    pub cpu_allocatable_evict_lower_percent: Option<Percent>,
    /// `None` allows nobody to be evicted for the node's usage but best-effort.
    pub evict_enabled_priority_threshold: Option<i32>,
    /// `None` allows nobody to be evicted for what is lent.
    pub allocatable_evict_priority_threshold: Option<i32>,
}

/// `cpu-burst-config`: how far a container may exceed its CPU limit for a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BurstPolicy {
    pub policy: BurstMode,
    /// Kernel burst buffer, of the container's CPU limit.
    pub cpu_burst_percent: Percent,
    /// Highest quota, of the container's own.
    pub cfs_quota_burst_percent: Percent,
    /// How long a container may run on a raised quota at full speed; `None` is without end.
    #[serde(rename = "cfsQuotaBurstPeriodSeconds", deserialize_with = "seconds_or_endless")]
    pub cfs_quota_burst_period: Option<Duration>,
    /// Usage of the shared pool above which raised quotas are taken back.
    pub share_pool_threshold_percent: Percent,
}

impl BurstPolicy {
    /// The policy of a pod whose annotation has the last word; its pool threshold has no effect.
    #[must_use]
    pub fn with(self, own: &CpuBurstStrategy) -> Self {
        let percent = |own: Option<i64>, node| own.map_or(node, Percent);
        Self {
            policy: own.policy.as_deref().map_or(self.policy, BurstMode::from_word),
            cpu_burst_percent: percent(own.cpu_burst_percent, self.cpu_burst_percent),
            cfs_quota_burst_percent: percent(
                own.cfs_quota_burst_percent,
                self.cfs_quota_burst_percent,
            ),
            cfs_quota_burst_period: own
                .cfs_quota_burst_period_seconds
                .map_or(self.cfs_quota_burst_period, endless_below_zero),
            share_pool_threshold_percent: self.share_pool_threshold_percent,
        }
    }
}

fn endless_below_zero(seconds: i64) -> Option<Duration> {
    u64::try_from(seconds).ok().map(Duration::from_secs)
}

fn seconds_or_endless<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    i64::deserialize(deserializer).map(endless_below_zero)
}

/// `system-config`: kernel settings of the whole node; `None` leaves the kernel's value alone.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SystemPolicy {
    pub min_free_kbytes_factor: Option<i64>,
    pub watermark_scale_factor: Option<i64>,
    pub memcg_reap_back_ground: Option<i64>,
    pub sched_group_identity_enabled: Option<i64>,
    pub sched_idle_saver_wmark: Option<i64>,
    #[serde(default)]
    pub sched_features: std::collections::BTreeMap<String, bool>,
    pub page_cache_limit_enabled: Option<i64>,
    /// In bits a second; zero is not known.
    pub total_network_bandwidth: Quantity,
}

/// The policy that a layer over the built-in one comes to. A layer whose leaves were checked always
/// has the shape; should one not, the built-in policy holds.
fn policy_of<T: serde::de::DeserializeOwned>(key: Key, layer: &Layer) -> T {
    let built_in = match key {
        Key::Qos => crate::config::defaults::as_agent_sees(&Layer::default()),
        key => built_in(key),
    };
    let read = serde_json::from_value(layer.over(&built_in).to_json());
    read.or_else(|_| serde_json::from_value(built_in.to_json()))
        .expect("the built-in default of every key is a whole policy; a test reads each")
}
