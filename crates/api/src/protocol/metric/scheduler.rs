//! Metrics of the scheduler.

use super::Kind::{Counter, Gauge, Histogram};
use super::{Buckets, Endpoint, Kind, doubling, metrics};

const GANG_SECONDS: Kind = Histogram(Buckets::Explicit(&[
    0.1, 0.5, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 12.5, 15.0, 20.0, 25.0, 30.0, 45.0, 60.0, 120.0,
]));
const SECONDS: Kind = doubling(0.001, 15);

metrics! { Endpoint::Internal, "scheduler_";
    /// Scheduling cycles that took too long.
    TIMEOUT: Counter, "scheduling_timeout", [profile];
    /// Nodes looked at for one pod.
    EVALUATED_NODES: doubling(1.0, 24), "pod_scheduling_evaluated_nodes", [];
    /// Nodes that fit one pod.
    FEASIBLE_NODES: doubling(1.0, 24), "pod_scheduling_feasible_nodes", [];
    /// 1 for the phase a reservation is in.
    RESERVATION_PHASE: Gauge, "reservation_status_phase", [name, phase];
    /// Resources of a reservation.
    RESERVATION_RESOURCE: Gauge, "reservation_resource", [type, name, resource, unit];
    /// Time of a quota operation, in seconds.
    QUOTA_LATENCY: doubling(1e-5, 24), "elastic_quota_process_latency", [operation];
    /// Time of a quota hook, in seconds.
    QUOTA_HOOK_LATENCY: doubling(1e-6, 24), "elastic_quota_hook_plugin_latency",
        [plugin, operation];
    /// Bounds of a quota; field is min or max.
    QUOTA_SPEC: Gauge, "elastic_quota_spec", [name, resource, tree, is_parent, parent, field];
    /// State of a quota; cpu in milli-cores.
    QUOTA_STATUS: Gauge, "elastic_quota_status", [name, resource, tree, is_parent, parent, field];
    /// Time to write quota states, in seconds.
    QUOTA_STATUS_DURATION: SECONDS, "update_elastic_quota_status_duration_seconds", [];
    /// 1 for nodes whose secondary devices are not planned well.
    DEVICE_NOT_PLANNED: Gauge, "secondary_device_not_well_planned", [node_name];
    /// Gang groups that wait.
    WAITING_GANGS: Gauge, "waiting_gang_group_number", [];
    /// Time to take the next pod out of the queue, in seconds.
    QUEUE_DELETE_LATENCY: doubling(1e-5, 24), "next_pod_delete_from_queue_latency", [];
    /// Time of a job preemption, in seconds.
    JOB_PREEMPTION_DURATION: doubling(0.001, 20), "job_preemption_duration_seconds",
        [jobName, result];
    /// Time of a gang's scheduling round, in seconds.
    GANG_DURATION: GANG_SECONDS, "gang_schedule_cycle_duration_seconds", [reason, job_size];
    /// Queries of the reservation selector index.
    RESERVATION_INDEX_QUERIES: Counter, "reservation_selector_index_query_total", [result];
    /// Reservations the selector index returned.
    RESERVATION_INDEX_CANDIDATES: doubling(1.0, 16), "reservation_selector_index_candidates_count",
        [];
    /// Time of an inline batch, in seconds.
    BATCH_DURATION: SECONDS, "inline_batch_schedule_duration_seconds", [result];
    /// Time of a batch placed node by node, in seconds.
    BATCH_BY_NODE_DURATION: SECONDS, "batch_algorithm_by_node_duration_seconds", [];
    /// Time of a batch placed pod by pod, in seconds.
    BATCH_BY_POD_DURATION: SECONDS, "batch_algorithm_by_pod_duration_seconds", [];
    /// Jobs of which only part was bound.
    BATCH_PARTIAL_JOBS: Counter, "batch_partial_bind_jobs_total", [];
    /// Pods of partly bound jobs.
    BATCH_PARTIAL_PODS: Counter, "batch_partial_bind_pods_total", [status];
    /// Batch bindings that failed.
    BATCH_BIND_FAILURES: Counter, "batch_bind_failures_total", [reason, phase];
    /// Assumed pods of a batch that were taken back.
    BATCH_CLEANUP: Counter, "batch_assumed_pods_cleanup_total", [reason];
    /// Workloads that preempted again. This and the following take extra labels from flags.
    AUDIT_REPEATED_PREEMPTIONS: Counter, "workload_auditor_repeated_preemptions_total", [];
    /// Preemptions that led nowhere.
    AUDIT_INVALID_PREEMPTIONS: Counter, "workload_auditor_preemption_invalidations_total", [];
    /// Time until a victim ran again, in seconds.
    AUDIT_VICTIM_RESCHEDULE: SECONDS, "workload_auditor_victim_reschedule_duration_seconds", [];
    /// Attempts while a victim was still going.
    AUDIT_VICTIM_RETRIES: doubling(1.0, 16), "workload_auditor_preemption_victim_deleting_retries",
        [];
    /// Time from preemption to the victim's end, in seconds.
    AUDIT_VICTIM_DELETED: SECONDS, "workload_auditor_preemption_to_victim_deleted_seconds", [];
    /// Time a preemption was interrupted, in seconds.
    AUDIT_INTERRUPTED: SECONDS, "workload_auditor_preemption_cycle_interrupted_seconds", [];
    /// Time between scheduling events, in seconds.
    AUDIT_EVENT_INTERVAL: SECONDS, "workload_auditor_scheduling_event_interval_seconds", [];
    /// Scheduling events before the outcome.
    AUDIT_EVENTS: doubling(1.0, 16), "workload_auditor_scheduling_events_before_outcome",
        [event_type, outcome];
    /// Time of the auditor's own methods, in seconds.
    AUDIT_METHOD_DURATION: SECONDS, "workload_auditor_record_method_duration_seconds", [method];
}

pub mod inherited {
    //! kube-scheduler's metrics that published dashboards query, with its buckets.

    use super::{Buckets, Counter, Endpoint, Gauge, Histogram, Kind, doubling, metrics};

    const CLIENT_SECONDS: Kind = doubling(0.005, 14);

    metrics! { Endpoint::Internal, "";
        /// Attempts to schedule pods.
        ATTEMPTS: Counter, "scheduler_schedule_attempts_total", [result, profile];
        /// Time of an attempt, in seconds.
        ATTEMPT_DURATION: doubling(0.001, 15), "scheduler_scheduling_attempt_duration_seconds",
            [result, profile];
        /// Time of the algorithm, in seconds.
        ALGORITHM_DURATION: doubling(0.001, 15), "scheduler_scheduling_algorithm_duration_seconds",
            [];
        /// Pods that wait.
        PENDING_PODS: Gauge, "scheduler_pending_pods", [queue];
        /// Pods that entered a queue.
        INCOMING_PODS: Counter, "scheduler_queue_incoming_pods_total", [queue, event];
        /// Pods a plugin holds back.
        UNSCHEDULABLE_PODS: Gauge, "scheduler_unschedulable_pods", [plugin, profile];
        /// Preemptions tried.
        PREEMPTION_ATTEMPTS: Counter, "scheduler_preemption_attempts_total", [];
        /// Victims of a preemption.
        PREEMPTION_VICTIMS: doubling(1.0, 7), "scheduler_preemption_victims", [];
        /// Attempts until a pod was scheduled.
        POD_ATTEMPTS: doubling(1.0, 5), "scheduler_pod_scheduling_attempts", [];
        /// Time until a pod was scheduled, in seconds.
        POD_DURATION: doubling(0.01, 20), "scheduler_pod_scheduling_duration_seconds", [attempts];
        /// Time from a pod's first appearance until it was scheduled, in seconds.
        POD_SLI_DURATION: doubling(0.01, 20), "scheduler_pod_scheduling_sli_duration_seconds",
            [attempts];
        /// Objects remembered, by type.
        CACHE_SIZE: Gauge, "scheduler_cache_size", [type];
        /// 1 where the lease is held.
        LEADER: Gauge, "leader_election_master_status", [name];
        /// Time of an extension point, in seconds.
        EXTENSION_POINT_DURATION: doubling(0.0001, 12), "scheduler_framework_extension_point_duration_seconds",
            [extension_point, status, profile];
        /// Time of a plugin, in seconds.
        PLUGIN_DURATION: Histogram(Buckets::Exponential { start: 0.00001, factor: 1.5, count: 20 }), "scheduler_plugin_execution_duration_seconds",
            [plugin, extension_point, status];
        /// Pods a plugin had a say about; preparation is done once for many pods.
        PLUGIN_EVALUATIONS: Counter, "scheduler_plugin_evaluation_total",
            [plugin, extension_point, profile];
        /// Time to find out whether an event helps a rejected pod, in seconds.
        HINT_DURATION: doubling(0.00001, 12), "scheduler_queueing_hint_execution_duration_seconds",
            [plugin, event, hint];
        /// Time to take note of a change, in seconds.
        EVENT_DURATION: doubling(0.00001, 15), "scheduler_event_handling_duration_seconds",
            [event];
        /// Events kept for pods that are being decided.
        INFLIGHT_EVENTS: Gauge, "scheduler_inflight_events", [event];
        /// Time to tell victims of a preemption to go, in seconds.
        PREEMPTION_DURATION: doubling(0.01, 20), "scheduler_preemption_goroutines_duration_seconds",
            [result];
        /// Preemptions carried out.
        PREEMPTIONS: Counter, "scheduler_preemption_goroutines_execution_total", [result];
        /// Time pods waited for permission, in seconds.
        PERMIT_WAIT: doubling(0.001, 15), "scheduler_permit_wait_duration_seconds", [result];
        /// Running tasks by kind of work; the name is the dashboard's.
        TASKS: Gauge, "scheduler_goroutines", [operation];
        /// Requests to the API server.
        CLIENT_REQUESTS: Counter, "rest_client_requests_total", [code, method, host];
        /// Time of requests to the API server, in seconds.
        CLIENT_DURATION: CLIENT_SECONDS, "rest_client_request_duration_seconds", [verb, host];
        /// Time requests waited for the rate limiter, in seconds.
        CLIENT_RATE_LIMITER: CLIENT_SECONDS, "rest_client_rate_limiter_duration_seconds",
            [verb, host];
        /// CPU time of the process, in seconds.
        PROCESS_CPU: Counter, "process_cpu_seconds_total", [];
        /// Resident memory of the process.
        PROCESS_MEMORY: Gauge, "process_resident_memory_bytes", [];
    }
}

pub mod own {
    //! Metrics of ours.

    use super::{Counter, Endpoint, metrics};

    metrics! { Endpoint::Internal, "tidepool_scheduler_";
        /// Bindings sent to the API server, by what came of them.
        BINDINGS: Counter, "bindings_total", [result];
    }
}
