//! Labels and annotations of nodes.

use units::{Percent, Quantity, Ratio};

use super::keys;
use crate::metadata::device::GpuPartitionPolicy;
use crate::metadata::node::{
    AmplificationRatios, NodeCpuBindPolicy, NodeReservation, NodeSwitch, NumaAllocateStrategy,
    OriginAllocatable, SystemQosResource, ThirdPartyAllocations, UsageThresholds,
};
use crate::metadata::pod::NumaTopologyPolicy;
use crate::metadata::{ResourceList, Switch};
use crate::strategy::ColocationStrategy;

keys! {
    /// Over the ConfigMap; unreadable or out of limits counts as absent.
    annotation COLOCATION_STRATEGY: ColocationStrategy = "node.koordinator.sh/colocation-strategy";
    /// Over even the annotation; `0.6` is 60 %. Unreadable counts as absent, as for the three below.
    label CPU_RECLAIM_RATIO: Percent = "node.koordinator.sh/cpu-reclaim-ratio";
    label MEMORY_RECLAIM_RATIO: Percent = "node.koordinator.sh/memory-reclaim-ratio";
    label MID_STATIC_CPU_RATIO: Percent = "node.koordinator.sh/mid-static-cpu-reserved-ratio";
    label MID_STATIC_MEMORY_RATIO: Percent = "node.koordinator.sh/mid-static-memory-reserved-ratio";
    /// W: administrator; the agent copies it to the topology object. Unreadable counts as absent.
    annotation RESERVATION: NodeReservation = "node.koordinator.sh/reservation";
    /// W: administrator; the agent copies it to the topology object.
    annotation SYSTEM_QOS_RESOURCE: SystemQosResource = "node.koordinator.sh/system-qos-resource";
    label ENABLE_NUMA_RESERVATION: bool = "node.koordinator.sh/enable-numa-reservation";
    /// In bits per second, over the configuration. Unreadable keeps what was in force.
    annotation NETWORK_BANDWIDTH: Quantity = "node.koordinator.sh/network-bandwidth";
    /// In camel case on the wire, unlike its neighbours. W: manager, R: YARN's side.
    annotation ORIGIN_ALLOCATABLE: OriginAllocatable =
        "node.koordinator.sh/originExtendedAllocatable";
    /// In camel case on the wire. W: YARN's side, R: manager; unreadable takes nothing off.
    annotation THIRD_PARTY_ALLOCATIONS: ThirdPartyAllocations =
        "node.koordinator.sh/thirdPartyAllocations";
    /// Between 1 and 5; `1.00` when normalization is off. W: manager.
    annotation CPU_NORMALIZATION_RATIO: Ratio = "node.koordinator.sh/cpu-normalization-ratio";
    /// Over the configuration; unreadable leaves the ratio as it is.
    label CPU_NORMALIZATION_ENABLED: Switch = "node.koordinator.sh/cpu-normalization-enabled";
    /// Each at least 1. W: manager, R: webhook and scheduler.
    annotation AMPLIFICATION_RATIO: AmplificationRatios =
        "node.koordinator.sh/resource-amplification-ratio";
    /// cpu and memory before amplification. W: webhook, R: scheduler.
    annotation RAW_ALLOCATABLE: ResourceList = "node.koordinator.sh/raw-allocatable";
    label CPU_BIND_POLICY: NodeCpuBindPolicy = "node.koordinator.sh/cpu-bind-policy";
    label NUMA_ALLOCATE_STRATEGY: NumaAllocateStrategy =
        "node.koordinator.sh/numa-allocate-strategy";
    label NUMA_TOPOLOGY_POLICY: NumaTopologyPolicy = "node.koordinator.sh/numa-topology-policy";
    /// R: scheduler; unreadable leaves the plugin's arguments in force.
    annotation USAGE_THRESHOLDS: UsageThresholds = "scheduling.koordinator.sh/usage-thresholds";
    label GPU_VENDOR: String = "node.koordinator.sh/gpu-vendor";
    label GPU_MODEL: String = "node.koordinator.sh/gpu-model";
    label GPU_DRIVER_VERSION: String = "node.koordinator.sh/gpu-driver-version";
    label GPU_PARTITION_POLICY: GpuPartitionPolicy = "node.koordinator.sh/gpu-partition-policy";
    /// Old.
    label OLD_GPU_DRIVER: String = "kubernetes.io/gpu-driver";
    /// Old.
    label OLD_GPU_MODEL: String = "kubernetes.io/gpu-model";
    /// Time, namespace and pod joined by commas; stale after five minutes.
    annotation HAMI_LOCK: String = "hami.io/mutex.lock";
    /// As [`HAMI_LOCK`], for Cambricon.
    annotation CAMBRICON_LOCK: String = "cambricon.com/dsmlu.lock";

    /// Ours: `off` keeps the node's agent from acting, whatever the cluster says; another word
    /// counts as absent. W: administrator, R: agent and console.
    annotation SWITCH: NodeSwitch = "tidepool.io/switch";
    /// Ours: why the switch was turned, for people.
    annotation SWITCH_REASON: String = "tidepool.io/switch-reason";
    /// Ours, on nodes of one-machine mode: the control group interface of its pods.
    annotation CGROUP: String = "tidepool.io/cgroup";
    /// Ours, on nodes of one-machine mode: what they cannot do for their pods.
    annotation MISSING: String = "tidepool.io/missing";
    /// Ours: a node without a machine.
    label HOLLOW: bool = "tidepool.io/hollow";
}

/// Condition of a Node of one-machine mode: are pods held to their requests and limits?
pub const ISOLATION_CONDITION: &str = "tidepool.io/Isolation";
