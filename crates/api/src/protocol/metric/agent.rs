//! Metrics of the node agent.

use super::{Buckets, Endpoint, Kind};

const MILLISECONDS: Kind =
    Kind::Histogram(Buckets::Exponential { start: 0.01, factor: 4.0, count: 8 });

pub mod internal {
    use super::super::metrics;
    use super::{Buckets, Endpoint, Kind, MILLISECONDS};

    metrics! { Endpoint::Internal;
        /// Unix time of the agent's start.
        START_TIME: Kind::Gauge, "koordlet_start_time", ["node"];
        /// Attempts to collect CPU information.
        COLLECT_CPU_INFO: Kind::Counter, "koordlet_collect_node_cpu_info_status",
            ["node", "status"];
        /// Attempts to collect NUMA information.
        COLLECT_NUMA_INFO: Kind::Counter, "koordlet_collect_node_numa_info_status",
            ["node", "status"];
        /// Attempts to collect disk information.
        COLLECT_STORAGE_INFO: Kind::Counter, "koordlet_collect_node_local_storage_info_status",
            ["node", "status"];
        /// Pods evicted by the agent.
        POD_EVICTION: Kind::Counter, "koordlet_pod_eviction", ["node", "reason"];
        /// Pods evicted by the agent, by pod.
        POD_EVICTION_DETAIL: Kind::Counter, "koordlet_pod_eviction_detail",
            ["node", "pod_namespace", "pod_name", "reason"];
        /// CPU used on the node, in cores.
        NODE_USED_CPU: Kind::Gauge, "koordlet_node_used_cpu_cores", ["node"];
        /// Memory used on the node.
        NODE_USED_MEMORY: Kind::Gauge, "koordlet_node_used_memory_bytes", ["node"];
        /// CPU left to best-effort pods, in cores.
        BE_SUPPRESS: Kind::Gauge, "koordlet_be_suppress_cpu_cores", ["node", "type"];
        /// CPU used by latency-sensitive pods at the last decision, in cores.
        BE_SUPPRESS_LS_USED: Kind::Gauge, "koordlet_be_suppress_ls_used_cpu_cores", ["node"];
        /// CPU used by best-effort pods at the last decision, in cores.
        BE_SUPPRESS_BE_USED: Kind::Gauge, "koordlet_be_suppress_be_used_cpu_cores", ["node"];
        /// CFS burst set on a container.
        SCALED_CFS_BURST: Kind::Gauge, "koordlet_container_scaled_cfs_burst_us",
            ["node", "pod_namespace", "pod_name", "container_id", "container_name"];
        /// CFS quota set on a container.
        SCALED_CFS_QUOTA: Kind::Gauge, "koordlet_container_scaled_cfs_quota_us",
            ["node", "pod_namespace", "pod_name", "container_id", "container_name"];
        /// CPUs in the latency-sensitive pool.
        SHARE_POOL: Kind::Gauge, "koordlet_cpuset_share_pool_cpu_cores", ["node"];
        /// CPUs in the best-effort pool.
        BE_SHARE_POOL: Kind::Gauge, "koordlet_cpuset_be_share_pool_cpu_cores", ["node"];
        /// One series for each CPU of the latency-sensitive pool.
        SHARE_POOL_INFO: Kind::Gauge, "koordlet_cpuset_share_pool_info", ["node", "cpu"];
        /// One series for each CPU of the best-effort pool.
        BE_SHARE_POOL_INFO: Kind::Gauge, "koordlet_cpuset_be_share_pool_info", ["node", "cpu"];
        /// What a predictor says can be reclaimed.
        PREDICTED_RECLAIMABLE: Kind::Gauge, "koordlet_node_predicted_resource_reclaimable",
            ["node", "predictor", "resource", "unit"];
        /// The peak a predictor expects.
        PREDICTED_PEAK: Kind::Gauge, "koordlet_node_predicted_resource_peak",
            ["node", "predictor", "resource", "unit"];
        /// Core-scheduling cookie of a container.
        CORE_SCHED_COOKIE: Kind::Gauge, "koordlet_container_core_sched_cookie",
            ["node", "pod_name", "pod_namespace", "pod_uid", "container_name", "container_id",
             "core_sched_group", "core_sched_cookie"];
        /// Attempts to set core-scheduling cookies.
        CORE_SCHED_STATUS: Kind::Counter, "koordlet_core_sched_cookie_manage_status",
            ["node", "core_sched_group", "status"];
        /// Node usage as reported in NodeMetric.
        NODE_USAGE: Kind::Gauge, "koordlet_node_metric_node_usage", ["node", "resource", "unit"];
        /// System usage as reported in NodeMetric.
        SYSTEM_USAGE: Kind::Gauge, "koordlet_node_metric_system_usage",
            ["node", "resource", "unit"];
        /// Usage of a NUMA node as reported in NodeMetric.
        NUMA_USAGE: Kind::Gauge, "koordlet_node_metric_numa_node_usage",
            ["node", "numa_node_id", "resource", "unit"];
        /// System usage of a NUMA node as reported in NodeMetric.
        NUMA_SYSTEM_USAGE: Kind::Gauge, "koordlet_node_metric_numa_system_usage",
            ["node", "numa_node_id", "resource", "unit"];
        /// OOM score adjustment set on a container.
        OOM_SCORE_ADJ: Kind::Gauge, "koordlet_container_oom_score_adj",
            ["node", "pod_name", "pod_namespace", "pod_uid", "container_name"];
        /// Time to write a kernel file, in milliseconds.
        RESOURCE_UPDATE_DURATION: MILLISECONDS, "koordlet_resource_update_duration_milliseconds",
            ["type", "status"];
        /// Time of requests to the kubelet, in seconds.
        KUBELET_REQUEST_DURATION: Kind::Histogram(Buckets::Exponential { start: 0.001, factor: 4.0, count: 7 }),
            "koordlet_kubelet_request_duration_seconds",
            ["verb", "path", "code"];
        /// Time of a runtime hook, in milliseconds.
        HOOK_DURATION: MILLISECONDS, "koordlet_runtime_hook_invoked_duration_milliseconds",
            ["node", "hook", "stage", "status"];
        /// Time of a reconcile that repeats what hooks do, in milliseconds.
        RECONCILER_DURATION: MILLISECONDS,
            "koordlet_runtime_hook_reconciler_invoked_duration_milliseconds",
            ["node", "level", "resource_type", "status"];
        /// Usage of a process outside Kubernetes.
        HOST_APPLICATION_USAGE: Kind::Gauge, "koordlet_host_application_resource_usage",
            ["node", "host_application_name", "resource", "priority_class", "qos"];
    }
}

pub mod external {
    use super::super::metrics;
    use super::{Endpoint, Kind};

    metrics! { Endpoint::External;
        /// Batch and mid resources of the node.
        NODE_ALLOCATABLE: Kind::Gauge, "koordlet_node_resource_allocatable",
            ["node", "resource", "unit"];
        /// What can be reclaimed from a priority class.
        PRIORITY_RECLAIMABLE: Kind::Gauge, "koordlet_node_priority_resource_reclaimable",
            ["node", "priority", "resource", "unit"];
        /// 0 when the prediction for a priority class worked, 1 when it failed.
        PRIORITY_RECLAIMABLE_STATUS: Kind::Gauge,
            "koordlet_node_resource_priority_reclaimable_status",
            ["node", "priority"];
        /// Requests of a container; the unit label says `integer` for cpu and memory alike.
        CONTAINER_REQUESTS: Kind::Gauge, "koordlet_container_resource_requests",
            ["node", "resource", "unit", "pod_uid", "pod_name", "pod_namespace", "container_id",
             "container_name"];
        /// Limits of a container; the unit label says `byte` for cpu and memory alike.
        CONTAINER_LIMITS: Kind::Gauge, "koordlet_container_resource_limits",
            ["node", "resource", "unit", "pod_uid", "pod_name", "pod_namespace", "container_id",
             "container_name"];
        /// Cycles and instructions of a container.
        CONTAINER_CPI: Kind::Gauge, "koordlet_container_cpi",
            ["node", "container_id", "container_name", "pod_uid", "pod_name", "pod_namespace",
             "cpi_field"];
        /// Pressure stall information of a container.
        CONTAINER_PSI: Kind::Gauge, "koordlet_container_psi",
            ["node", "container_id", "container_name", "pod_uid", "pod_name", "pod_namespace",
             "psi_resource_type", "psi_precision", "psi_degree", "cpu_full_supported"];
        /// Pressure stall information of a pod.
        POD_PSI: Kind::Gauge, "koordlet_pod_psi",
            ["node", "pod_uid", "pod_name", "pod_namespace", "psi_resource_type", "psi_precision",
             "psi_degree", "cpu_full_supported"];
        /// Last-level cache occupied by a QoS class, in bytes.
        RESCTRL_LLC: Kind::Gauge, "koordlet_resctrl_llc_occupancy", ["node", "cache_id", "qos"];
        /// Memory traffic of a QoS class, in bytes.
        RESCTRL_BANDWIDTH: Kind::Gauge, "koordlet_resctrl_memory_bandwidth",
            ["node", "cache_id", "qos", "mb_type"];
    }
}
