//! Reasons of Kubernetes events, audit records and conditions.

pub const COLOCATION_CONFIG: &str = "ColocationCfgUnmarshalFailed";
pub const SLO_CONFIG: &str = "SLOCfgUnmarshalFailed";
pub const NORMALIZATION_CONFIG: &str = "CPUNormalizationCfgUnmarshalFailed";
pub const AMPLIFICATION_CONFIG: &str = "ResourceAmplificationCfgUnmarshalFailed";
/// Ours: a key that was bad is good again.
pub const CONFIG_LOADED: &str = "ConfigLoaded";
/// Ours: a label or annotation of a node is not used.
pub const NODE_SETTING: &str = "NodeSettingIgnored";
/// Lower-case first letter on the wire, against the custom for reasons.
pub const EVICT_SUCCESS: &str = "evictPodSuccess";
/// Lower-case first letter on the wire, against the custom for reasons.
pub const EVICT_FAIL: &str = "evictPodFail";
/// Ours: a pod is going to be evicted.
pub const EVICTION_NOTICE: &str = "EvictionNotice";
/// Ours: a pod that was going to be evicted may stay.
pub const EVICTION_WITHDRAWN: &str = "EvictionNoticeWithdrawn";
/// Ours: the processes of a pod were killed because memory ran out.
pub const EVICTION_KILLED: &str = "KilledForMemory";
pub const CREATE_QUOTA_FAILED: &str = "CreateQuotaFailed";
pub const UPDATE_QUOTA_FAILED: &str = "UpdateQuotaFailed";
pub const SCHEDULED: &str = "Scheduled";
pub const FAILED_SCHEDULING: &str = "FailedScheduling";
/// With a hyphen on the wire.
pub const FAILED_SCHEDULING_RESERVATION: &str = "FailedScheduling-Reservation";
pub const PREEMPTED: &str = "Preempted";
pub const DESCHEDULED: &str = "Descheduled";
/// With spaces on the wire.
pub const POD_RESCTRL: &str = "Pod Level Resctrl";

pub mod action {
    pub const BINDING: &str = "Binding";
    pub const MIGRATING: &str = "Migrating";
    pub const EVICTING: &str = "Evicting";
}

pub mod source {
    pub const NODE_METRIC: &str = "nodemetric-controller";
    pub const NODE_RESOURCE: &str = "noderesource-controller";
    pub const NODE_SLO: &str = "nodeslo-controller";
    pub const QUOTA_PROFILE: &str = "quotaprofile-controller";
    pub const QOS_MANAGER: &str = "koordlet-qosManager";
    pub const RUNTIME_HOOK: &str = "koordlet-runtimehook";
}

/// What the SLO_CONFIG event calls each key's content.
pub mod config_type {
    pub const THRESHOLD: &str = "ThresholdCfg";
    pub const RESOURCE_QOS: &str = "ResourceQOSCfg";
    pub const CPU_BURST: &str = "CPUBurstCfg";
    pub const SYSTEM: &str = "SystemCfg";
    pub const HOST_APPLICATION: &str = "HostApplicationCfg";
}

pub mod migration {
    //! Reasons of a PodMigrationJob's status and events.

    pub const TIMEOUT: &str = "Timeout";
    pub const FAILED_CREATE_RESERVATION: &str = "FailedCreateReservation";
    pub const RESERVATION_EXPIRED: &str = "ReservationExpired";
    pub const UNSCHEDULABLE: &str = "Unschedulable";
    pub const FORBIDDEN: &str = "ForbiddenMigratePod";
    pub const MISSING_POD: &str = "MissingPod";
    pub const MISSING_RESERVATION: &str = "MissingReservation";
    pub const PREEMPTING: &str = "Preempting";
    pub const PREEMPT_COMPLETE: &str = "PreemptComplete";
    pub const EVICTING: &str = "Evicting";
    pub const FAILED_EVICT: &str = "FailedEvict";
    pub const EVICT_COMPLETE: &str = "EvictComplete";
    pub const WAIT_FOR_POD_BIND: &str = "WaitForPodBindReservation";
    pub const WAIT_FOR_POD_READY: &str = "WaitForBoundPodReady";
    pub const INVALID_POD_REF: &str = "InvalidPodRef";
    pub const COMPLETE: &str = "Complete";
    pub const BOUND_POD_READY: &str = "BoundPodReady";
    pub const POD_BOUND: &str = "PodBoundReservation";
    pub const RESERVATION_CREATED: &str = "ReservationCreated";
    pub const RESERVATION_SCHEDULED: &str = "ReservationScheduled";
}

pub mod audit {
    //! Reasons of the agent's audit records.

    pub const EVICTED: &str = "evicted";
    pub const UPDATE_CGROUPS: &str = "UpdateCgroups";
    pub const UPDATE_SYSTEM_CONFIG: &str = "UpdateSystemConfig";
    pub const UPDATE_RESCTRL: &str = "UpdateResctrl";
    pub const CREATE_CAT_GROUP: &str = "CreateCATGroup";
    pub const APPLY_CAT_TASKS: &str = "ApplyCatL3GroupTasks";
    pub const ADJUST_BE: &str = "AdjustBEByNodeCPUUsage";
    pub const SUPPRESS_BE: &str = "suppressBECPU";
    pub const CFS_QUOTA_BURST: &str = "CFSQuotaBurst";
    pub const CPU_BURST: &str = "CPUBurst";
    pub const UPDATE_BLKIO: &str = "UpdateBlkIO";
    pub const GROUP_IDENTITY: &str = "GroupIdentity";
    pub const CGROUP_RECONCILE: &str = "cgroup reconcile";
    pub const SYSTEM_CONFIG_RECONCILE: &str = "systemConfig reconcile";
    pub const NETQOS_RECONCILE: &str = "netqos reconcile";
    pub const RUNTIME_HOOKS: &str = "runtime-hooks";
}

pub mod unschedulable {
    //! Texts people search for in FailedScheduling events; kept to the letter.

    pub const METRIC_EXPIRED: &str = "node(s) nodeMetric expired";
    pub const CPUS_NOT_INTEGER: &str = "the requested CPUs must be integer";
    pub const NUMA_POLICY: &str = "node(s) NUMA Topology policy not match";
    pub const CPU_TOPOLOGY: &str = "node(s) invalid CPU Topology";
    pub const CPUS_PER_CORE: &str = "node(s) requested cpus not multiple cpus per core";
    pub const NOT_ENOUGH_CPUS: &str = "not enough cpus available to satisfy request";
    pub const GPU_DEVICES: &str = "Insufficient GPU Devices";

    pub fn usage(resource: &str) -> String {
        format!("node(s) {resource} usage exceed threshold")
    }

    pub fn aggregated_usage(resource: &str) -> String {
        format!("node(s) {resource} aggregated usage exceed threshold")
    }

    pub fn insufficient(resource: &str) -> String {
        format!("Insufficient {resource}")
    }
}
