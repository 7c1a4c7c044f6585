//! `resource-qos-config`: which kernel treatment does each QoS class get?

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kernel treatment of each QoS class; `LSE` pods are treated as `LSR`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceQosStrategy {
    /// Which kernel mechanisms carry the settings below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policies: Option<QosPolicies>,
    /// Settings of `LSR` and `LSE` pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lsr_class: Option<ResourceQos>,
    /// Settings of `LS` pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ls_class: Option<ResourceQos>,
    /// Settings of `BE` pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub be_class: Option<ResourceQos>,
    /// Settings of `SYSTEM` pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_class: Option<ResourceQos>,
    /// Settings of the root cgroup; only disk I/O is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup_root: Option<ResourceQos>,
}

/// Which kernel mechanisms carry QoS settings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QosPolicies {
    /// How CPU priorities are enforced: `groupIdentity` or `coreSched`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_policy: Option<String>,
    /// How network shares are enforced: `tc` or `terway-qos`.
    #[serde(rename = "netQOSPolicy", skip_serializing_if = "Option::is_none")]
    pub net_qos_policy: Option<String>,
}

/// Kernel treatment of one QoS class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceQos {
    /// CPU scheduling.
    #[serde(rename = "cpuQOS", skip_serializing_if = "Option::is_none")]
    pub cpu_qos: Option<CpuQos>,
    /// Memory reclaim and protection.
    #[serde(rename = "memoryQOS", skip_serializing_if = "Option::is_none")]
    pub memory_qos: Option<MemoryQos>,
    /// Disk I/O.
    #[serde(rename = "blkioQOS", skip_serializing_if = "Option::is_none")]
    pub blkio_qos: Option<BlkioQos>,
    /// Last-level cache and memory bandwidth.
    #[serde(rename = "resctrlQOS", skip_serializing_if = "Option::is_none")]
    pub resctrl_qos: Option<ResctrlQos>,
    /// Network bandwidth.
    #[serde(rename = "networkQOS", skip_serializing_if = "Option::is_none")]
    pub network_qos: Option<NetworkQos>,
}

/// CPU scheduling of one QoS class or pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CpuQos {
    /// Turns the CPU settings on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable: Option<bool>,
    /// Group identity (`cpu.bvt_warp_ns`), from -1 for work that yields to 2 for work that
    /// preempts, with the policy `groupIdentity`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_identity: Option<i64>,
    /// 1 makes the cgroup idle class (`cpu.idle`), 0 leaves it normal, with the policy `coreSched`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sched_idle: Option<i64>,
    /// Keeps idle-class work off the sibling hyper-thread, with the policy `coreSched`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_expeller: Option<bool>,
}

/// Memory reclaim and protection of one QoS class or pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryQos {
    /// Turns the memory settings on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable: Option<bool>,
    /// Memory that is never reclaimed (`memory.min`), in percent of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_limit_percent: Option<i64>,
    /// Memory that is reclaimed last (`memory.low`), in percent of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub low_limit_percent: Option<i64>,
    /// Where allocations are slowed down (`memory.high`), in percent of the way from request to
    /// limit; 0 is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub throttling_percent: Option<i64>,
    /// Usage at which the cgroup reclaims in the background (`memory.wmark_ratio`), in percent of
    /// its limit; 0 is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub wmark_ratio: Option<i64>,
    /// How much one background reclaim frees (`memory.wmark_scale_factor`), in thousandths of the
    /// limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub wmark_scale_permill: Option<i64>,
    /// Shift of the node's minimum watermark for this cgroup (`memory.wmark_min_adj`), in percent;
    /// negative is reclaimed later.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -25, max = 50))]
    pub wmark_min_adj: Option<i64>,
    /// 1 lets `priority` decide which cgroup the kernel kills from first, 0 does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_enable: Option<i64>,
    /// Kill priority when the kernel runs out of memory, from 0 (first) to 12 (last).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// 1 kills all processes of the cgroup together when it runs out of memory, 0 only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_kill_group: Option<i64>,
    /// Turns the limit on page cache on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_cache_enable: Option<bool>,
    /// Most page cache, in percent of the memory limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub page_cache_limit_percent: Option<i64>,
    /// Most page cache, in bytes; wins over the percentage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_cache_limit_size: Option<i64>,
    /// Makes the writer wait while page cache above the limit is reclaimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_cache_reclaim_sync: Option<bool>,
}

/// Last-level cache and memory bandwidth of one QoS class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResctrlQos {
    /// Turns the cache and bandwidth settings on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable: Option<bool>,
    /// First usable part of the last-level cache, in percent of its ways.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub cat_range_start_percent: Option<i64>,
    /// End of the usable part of the last-level cache, in percent of its ways.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub cat_range_end_percent: Option<i64>,
    /// Usable memory bandwidth, in percent of the machine's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub mba_percent: Option<i64>,
}

/// Network bandwidth of one QoS class: integers are percents of the node's, strings are
/// quantities in bits a second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkQos {
    /// Turns the network settings on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable: Option<bool>,
    /// Guaranteed inbound bandwidth, in percent or bits a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 0))]
    pub ingress_request: Option<IntOrString>,
    /// Most inbound bandwidth, in percent or bits a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 100))]
    pub ingress_limit: Option<IntOrString>,
    /// Guaranteed outbound bandwidth, in percent or bits a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 0))]
    pub egress_request: Option<IntOrString>,
    /// Most outbound bandwidth, in percent or bits a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 100))]
    pub egress_limit: Option<IntOrString>,
}

/// Disk I/O of one QoS class or pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlkioQos {
    /// Turns the disk settings on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable: Option<bool>,
    /// Settings by disk or volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Vec<Block>>,
}

/// I/O settings of one disk or volume.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Block {
    /// Name of the device, volume group or pod volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the name means: `device`, `volumegroup` or `podvolume`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Limits, weight and latency goals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_cfg: Option<BlockIo>,
}

/// Limits, weight, latency goals and cost model of one disk or volume.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockIo {
    /// Most reads a second; 0 is unlimited.
    #[serde(rename = "readIOPS", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub read_iops: Option<i64>,
    /// Most writes a second; 0 is unlimited.
    #[serde(rename = "writeIOPS", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub write_iops: Option<i64>,
    /// Most bytes read a second; 0 is unlimited.
    #[serde(rename = "readBPS", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub read_bps: Option<i64>,
    /// Most bytes written a second; 0 is unlimited.
    #[serde(rename = "writeBPS", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub write_bps: Option<i64>,
    /// Weight of this work when the disk is contended, from 1 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub io_weight_percent: Option<i64>,
    /// Read latency to hold, in microseconds; for the root cgroup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_latency: Option<i64>,
    /// Write latency to hold, in microseconds; for the root cgroup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_latency: Option<i64>,
    /// Share of reads, in percent, that must meet the read latency; for the root cgroup.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub read_latency_percent: Option<i64>,
    /// Share of writes, in percent, that must meet the write latency; for the root cgroup.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub write_latency_percent: Option<i64>,
    /// Uses the cost model below instead of the kernel's own estimate; for the root cgroup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_user_model: Option<bool>,
    /// Sequential read speed of the disk, in bytes a second.
    #[serde(rename = "modelReadBPS", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub model_read_bps: Option<i64>,
    /// Sequential write speed of the disk, in bytes a second.
    #[serde(rename = "modelWriteBPS", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub model_write_bps: Option<i64>,
    /// Sequential reads a second the disk can do.
    #[serde(rename = "modelReadSeqIOPS", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub model_read_seq_iops: Option<i64>,
    /// Sequential writes a second the disk can do.
    #[serde(rename = "modelWriteSeqIOPS", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub model_write_seq_iops: Option<i64>,
    /// Random reads a second the disk can do.
    #[serde(rename = "modelReadRandIOPS", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub model_read_rand_iops: Option<i64>,
    /// Random writes a second the disk can do.
    #[serde(rename = "modelWriteRandIOPS", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub model_write_rand_iops: Option<i64>,
}
