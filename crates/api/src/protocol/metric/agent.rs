//! Metrics of the node agent.

use super::Kind::{Counter, Gauge, Histogram};
use super::{Buckets, Endpoint, Kind, metrics};

const MILLISECONDS: Kind = Histogram(Buckets::Exponential { start: 0.01, factor: 4.0, count: 8 });

pub mod internal {
    use super::{Buckets, Counter, Endpoint, Gauge, Histogram, MILLISECONDS, metrics};

    metrics! { Endpoint::Internal, "koordlet_";
        /// Unix time of the agent's start.
        START_TIME: Gauge, "start_time", [node];
        /// Attempts to collect CPU information.
        COLLECT_CPU_INFO: Counter, "collect_node_cpu_info_status", [node, status];
        /// Attempts to collect NUMA information.
        COLLECT_NUMA_INFO: Counter, "collect_node_numa_info_status", [node, status];
        /// Attempts to collect disk information.
        COLLECT_STORAGE_INFO: Counter, "collect_node_local_storage_info_status", [node, status];
        /// Pods evicted by the agent.
        POD_EVICTION: Counter, "pod_eviction", [node, reason];
        /// Pods evicted by the agent, by pod.
        POD_EVICTION_DETAIL: Counter, "pod_eviction_detail",
            [node, pod_namespace, pod_name, reason];
        /// CPU used on the node, in cores.
        NODE_USED_CPU: Gauge, "node_used_cpu_cores", [node];
        /// Memory used on the node.
        NODE_USED_MEMORY: Gauge, "node_used_memory_bytes", [node];
        /// CPU left to best-effort pods, in cores.
        BE_SUPPRESS: Gauge, "be_suppress_cpu_cores", [node, type];
        /// CPU used by latency-sensitive pods at the last decision, in cores.
        BE_SUPPRESS_LS_USED: Gauge, "be_suppress_ls_used_cpu_cores", [node];
        /// CPU used by best-effort pods at the last decision, in cores.
        BE_SUPPRESS_BE_USED: Gauge, "be_suppress_be_used_cpu_cores", [node];
        /// CFS burst set on a container.
        SCALED_CFS_BURST: Gauge, "container_scaled_cfs_burst_us",
            [node, pod_namespace, pod_name, container_id, container_name];
        /// CFS quota set on a container.
        SCALED_CFS_QUOTA: Gauge, "container_scaled_cfs_quota_us",
            [node, pod_namespace, pod_name, container_id, container_name];
        /// CPUs in the latency-sensitive pool.
        SHARE_POOL: Gauge, "cpuset_share_pool_cpu_cores", [node];
        /// CPUs in the best-effort pool.
        BE_SHARE_POOL: Gauge, "cpuset_be_share_pool_cpu_cores", [node];
        /// One series for each CPU of the latency-sensitive pool.
        SHARE_POOL_INFO: Gauge, "cpuset_share_pool_info", [node, cpu];
        /// One series for each CPU of the best-effort pool.
        BE_SHARE_POOL_INFO: Gauge, "cpuset_be_share_pool_info", [node, cpu];
        /// What a predictor says can be reclaimed.
        PREDICTED_RECLAIMABLE: Gauge, "node_predicted_resource_reclaimable",
            [node, predictor, resource, unit];
        /// The peak a predictor expects.
        PREDICTED_PEAK: Gauge, "node_predicted_resource_peak", [node, predictor, resource, unit];
        /// Core-scheduling cookie of a container.
        CORE_SCHED_COOKIE: Gauge, "container_core_sched_cookie",
            [node, pod_name, pod_namespace, pod_uid, container_name, container_id, core_sched_group,
             core_sched_cookie];
        /// Attempts to set core-scheduling cookies.
        CORE_SCHED_STATUS: Counter, "core_sched_cookie_manage_status",
            [node, core_sched_group, status];
        /// Node usage as reported in NodeMetric.
        NODE_USAGE: Gauge, "node_metric_node_usage", [node, resource, unit];
        /// System usage as reported in NodeMetric.
        SYSTEM_USAGE: Gauge, "node_metric_system_usage", [node, resource, unit];
        /// Usage of a NUMA node as reported in NodeMetric.
        NUMA_USAGE: Gauge, "node_metric_numa_node_usage", [node, numa_node_id, resource, unit];
        /// System usage of a NUMA node as reported in NodeMetric.
        NUMA_SYSTEM_USAGE: Gauge, "node_metric_numa_system_usage",
            [node, numa_node_id, resource, unit];
        /// OOM score adjustment set on a container.
        OOM_SCORE_ADJ: Gauge, "container_oom_score_adj",
            [node, pod_name, pod_namespace, pod_uid, container_name];
        /// Time to write a kernel file, in milliseconds.
        RESOURCE_UPDATE_DURATION: MILLISECONDS, "resource_update_duration_milliseconds",
            [type, status];
        /// Time of requests to the kubelet, in seconds.
        KUBELET_REQUEST_DURATION: Histogram(Buckets::Exponential { start: 0.001, factor: 4.0, count: 7 }), "kubelet_request_duration_seconds",
            [verb, path, code];
        /// Time of a runtime hook, in milliseconds.
        HOOK_DURATION: MILLISECONDS, "runtime_hook_invoked_duration_milliseconds",
            [node, hook, stage, status];
        /// Time of a reconcile that repeats what hooks do, in milliseconds.
        RECONCILER_DURATION: MILLISECONDS, "runtime_hook_reconciler_invoked_duration_milliseconds",
            [node, level, resource_type, status];
        /// Usage of a process outside Kubernetes.
        HOST_APPLICATION_USAGE: Gauge, "host_application_resource_usage",
            [node, host_application_name, resource, priority_class, qos];
    }
}

pub mod external {
    use super::{Endpoint, Gauge, metrics};

    metrics! { Endpoint::External, "koordlet_";
        /// Batch and mid resources of the node.
        NODE_ALLOCATABLE: Gauge, "node_resource_allocatable", [node, resource, unit];
        /// What can be reclaimed from a priority class.
        PRIORITY_RECLAIMABLE: Gauge, "node_priority_resource_reclaimable",
            [node, priority, resource, unit];
        /// 0 when the prediction for a priority class worked, 1 when it failed.
        PRIORITY_RECLAIMABLE_STATUS: Gauge, "node_resource_priority_reclaimable_status",
            [node, priority];
        /// Requests of a container; the unit label says `integer` for cpu and memory alike.
        CONTAINER_REQUESTS: Gauge, "container_resource_requests",
            [node, resource, unit, pod_uid, pod_name, pod_namespace, container_id, container_name];
        /// Limits of a container; the unit label says `byte` for cpu and memory alike.
        CONTAINER_LIMITS: Gauge, "container_resource_limits",
            [node, resource, unit, pod_uid, pod_name, pod_namespace, container_id, container_name];
        /// Cycles and instructions of a container.
        CONTAINER_CPI: Gauge, "container_cpi",
            [node, container_id, container_name, pod_uid, pod_name, pod_namespace, cpi_field];
        /// Pressure stall information of a container.
        CONTAINER_PSI: Gauge, "container_psi",
            [node, container_id, container_name, pod_uid, pod_name, pod_namespace,
             psi_resource_type, psi_precision, psi_degree, cpu_full_supported];
        /// Pressure stall information of a pod.
        POD_PSI: Gauge, "pod_psi",
            [node, pod_uid, pod_name, pod_namespace, psi_resource_type, psi_precision, psi_degree,
             cpu_full_supported];
        /// Last-level cache occupied by a QoS class, in bytes.
        RESCTRL_LLC: Gauge, "resctrl_llc_occupancy", [node, cache_id, qos];
        /// Memory traffic of a QoS class, in bytes.
        RESCTRL_BANDWIDTH: Gauge, "resctrl_memory_bandwidth", [node, cache_id, qos, mb_type];
    }
}
