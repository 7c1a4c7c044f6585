//! `system-config`: which kernel settings does the whole node get?

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Quantity;

/// Kernel settings of the whole node; an absent field leaves the kernel's value alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SystemStrategy {
    /// Memory the kernel keeps free (`vm.min_free_kbytes`), in ten-thousandths of the node's
    /// memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_free_kbytes_factor: Option<i64>,
    /// Distance between the reclaim watermarks (`vm.watermark_scale_factor`), in ten-thousandths of
    /// memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watermark_scale_factor: Option<i64>,
    /// 1 lets the kernel free memory of deleted cgroups in the background, 0 does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memcg_reap_back_ground: Option<i64>,
    /// 1 switches the kernel's CPU group identities on, 0 off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sched_group_identity_enabled: Option<i64>,
    /// Watermark of the kernel's idle saver (`kernel.sched_idle_saver_wmark`), in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sched_idle_saver_wmark: Option<i64>,
    /// Scheduler features of the kernel to switch on (true) or off (false), by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sched_features: Option<BTreeMap<String, bool>>,
    /// 1 switches the kernel's page cache limits on, 0 off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_cache_limit_enabled: Option<i64>,
    /// Network bandwidth of the node, in bits a second; 0 reads the speed of its interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_network_bandwidth: Option<Quantity>,
}
