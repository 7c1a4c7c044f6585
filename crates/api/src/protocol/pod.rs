//! Labels and annotations of pods: class, resources, the agent's and the scheduler's work.

use std::collections::BTreeMap;

use super::keys;
use crate::metadata::device::{
    DeviceAllocateHints, DeviceAllocations, DeviceJointAllocate, GpuPartitionSpec, Minors,
};
use crate::metadata::pod::{
    CoreSchedPolicy, ExtendedResourceSpec, GpuIsolationProvider, NumaTopologySpec, OomScoreAdj,
    PodMemoryQos, PodNetworkQos, PreemptionPolicy, ResctrlConfig, ResourceSpec, ResourceStatus,
    SchedulingHint,
};
use crate::priority::{PriorityClass, SubPriority};
use crate::qos::QosClass;
use crate::resources::ReplaceResources;
use crate::strategy::{BlkioQos, CpuBurstStrategy, CpuQos};

keys! {
    /// Capital C on the wire. Case counts; any other value is no class.
    label QOS_CLASS: QosClass = "koordinator.sh/qosClass";
    /// Order inside the priority class. Cannot be changed on a live pod.
    label SUB_PRIORITY: SubPriority = "koordinator.sh/priority";
    /// Overrides the numeric priority, on running pods too; an unknown value
    /// is no class and still hides the number.
    label PRIORITY_CLASS: PriorityClass = "koordinator.sh/priority-class";
    /// Unreadable counts as absent; R: scheduler, behind a gate, where absent is `Never`.
    label PREEMPTION_POLICY: PreemptionPolicy = "scheduling.koordinator.sh/preemption-policy";
    /// Overrides `spec.schedulerName`.
    label SCHEDULER_NAME: String = "scheduling.koordinator.sh/scheduler-name";
    /// What `spec.schedulerName` was; only in the scheduler's memory.
    annotation ORIGINAL_SCHEDULER_NAME: String =
        "internal.scheduling.koordinator.sh/original-scheduler-name";
    /// `"true"` lets the mutating webhook see updates.
    label MUTATING_UPDATE: bool = "pod.koordinator.sh/mutating-update";
    label SKIP_ENHANCED_VALIDATION: bool = "pod.koordinator.sh/skip-enhanced-validation";
    /// Presence counts.
    label BINDING_ADMISSION_BYPASS: String = "koordinator.sh/binding-admission-bypass";

    /// W: webhook, R: agent and runtime proxy, because the CRI knows no extended
    /// resources. Unreadable at admission refuses the pod.
    annotation EXTENDED_RESOURCE_SPEC: ExtendedResourceSpec =
        "node.koordinator.sh/extended-resource-spec";
    /// Capital B on the wire. Over the node's strategy, which also holds when this
    /// is unreadable; `sharePoolThresholdPercent` has no effect here.
    annotation CPU_BURST: CpuBurstStrategy = "koordinator.sh/cpuBurst";
    /// Over the class's strategy, which also holds when this is unreadable.
    annotation MEMORY_QOS: PodMemoryQos = "koordinator.sh/memoryQOS";
    /// Only for pods labelled LS; without `enable` the identity is 0. Unreadable,
    /// or an identity outside -1..=2, leaves the kernel's value alone.
    annotation CPU_QOS: CpuQos = "koordinator.sh/cpuQOS";
    /// Needs a QoS label; `enable` has no effect here.
    annotation BLKIO_QOS: BlkioQos = "koordinator.sh/blkioQOS";
    /// In bits per second.
    annotation NETWORK_QOS: PodNetworkQos = "koordinator.sh/networkQOS";
    /// Its presence also takes the pod out of its class's resctrl group.
    annotation RESCTRL: ResctrlConfig = "node.koordinator.sh/resctrl";
    annotation OOM_SCORE_ADJ: OomScoreAdj = "koordinator.sh/oom-score-adj";
    /// By container; counts over the key for the whole pod.
    annotation OOM_SCORE_ADJ_SPEC: BTreeMap<String, OomScoreAdj> =
        "koordinator.sh/oom-score-adj-spec";
    /// A UUID, or empty.
    label CORE_SCHED_GROUP: String = "koordinator.sh/core-sched-group-id";
    /// An unknown value counts as empty.
    label CORE_SCHED_POLICY: CoreSchedPolicy = "koordinator.sh/core-sched-policy";
    annotation REPLACE_RESOURCES: ReplaceResources = "pod.koordinator.sh/replace-resources";
    /// `"true"` keeps the runtime proxy from asking hook servers about the pod.
    label SKIP_HOOK_SERVER: bool = "runtimeproxy.koordinator.sh/skip-hookserver";

    /// Unreadable keeps the pod pending, with the reason.
    annotation RESOURCE_SPEC: ResourceSpec = "scheduling.koordinator.sh/resource-spec";
    /// W: scheduler before it binds, R: agent and manager.
    annotation RESOURCE_STATUS: ResourceStatus = "scheduling.koordinator.sh/resource-status";
    /// Unreadable keeps the pod pending, with the reason.
    annotation NUMA_TOPOLOGY_SPEC: NumaTopologySpec =
        "scheduling.koordinator.sh/numa-topology-spec";
    /// W: scheduler before it binds, R: agent.
    annotation DEVICE_ALLOCATED: DeviceAllocations = "scheduling.koordinator.sh/device-allocated";
    annotation DEVICE_ALLOCATE_HINT: DeviceAllocateHints =
        "scheduling.koordinator.sh/device-allocate-hint";
    annotation DEVICE_JOINT_ALLOCATE: DeviceJointAllocate =
        "scheduling.koordinator.sh/device-joint-allocate";
    annotation GPU_PARTITION_SPEC: GpuPartitionSpec =
        "scheduling.koordinator.sh/gpu-partition-spec";
    label GPU_ISOLATION_PROVIDER: GpuIsolationProvider = "koordinator.sh/gpu-isolation-provider";
    /// The node's name, for HAMi.
    label HAMI_NODE: String = "hami.io/vgpu-node";
    /// In percent, by resource.
    annotation LOAD_SCALING_FACTORS: BTreeMap<String, i64> =
        "scheduling.koordinator.sh/load-estimated-scaling-factors";
    annotation LOAD_SECONDS_AFTER_SCHEDULED: i64 =
        "scheduling.koordinator.sh/load-estimated-seconds-after-pod-scheduled";
    annotation LOAD_SECONDS_AFTER_INITIALIZED: i64 =
        "scheduling.koordinator.sh/load-estimated-seconds-after-initialized";
    annotation SCHEDULING_HINT: SchedulingHint =
        "internal.scheduling.koordinator.sh/scheduling-hint";
    /// Read where the new key is absent.
    annotation OLD_SCHEDULING_HINT: SchedulingHint = "scheduling.koordinator.sh/scheduling-hint";

    /// Unix nanoseconds, for device plugins (as the five below, behind a gate).
    annotation BIND_TIMESTAMP: i64 = "scheduling.koordinator.sh/bind-timestamp";
    annotation GPU_MINORS: Minors = "scheduling.koordinator.sh/gpu-minors";
    /// Unix nanoseconds, for Huawei's plugin; no domain on the wire.
    annotation PREDICATE_TIME: i64 = "predicate-time";
    /// Same text as a resource name.
    annotation NPU_CORE: String = "huawei.com/npu-core";
    annotation ASCEND_310P: String = "huawei.com/Ascend310P";
    /// Spelled so by Cambricon: an H for an N.
    annotation CAMBRICON_ASSIGNED: String = "CAMBRICON_DSMLU_ASSIGHED";
    annotation CAMBRICON_PROFILE: String = "CAMBRICON_DSMLU_PROFILE";
    annotation METAX_ALLOCATED: String = "metax-tech.com/gpu-devices-allocated";

    /// Ours: `"true"` keeps the agent's hands off the pod's control groups, for people who set them
    /// by hand.
    annotation HANDS_OFF: bool = "tidepool.io/hands-off";
    /// Read where the new key is absent. Freezes nothing.
    annotation OLD_HANDS_OFF: bool = "tidepool.io/cgroup-freeze";
    /// Ours, on pods of hollow nodes: how long they take to start.
    annotation HOLLOW_START_SECONDS: String = "tidepool.io/hollow-start-seconds";
    /// Ours, on pods of hollow nodes: how long they run; absent: for ever.
    annotation HOLLOW_RUN_SECONDS: String = "tidepool.io/hollow-run-seconds";
    /// Ours, on pods of hollow nodes: how they end.
    annotation HOLLOW_EXIT_CODE: i32 = "tidepool.io/hollow-exit-code";
    /// Ours, on pods of hollow nodes: what they pretend to use, as time goes by.
    annotation HOLLOW_USAGE: String = "tidepool.io/hollow-usage";
}
