//! Metrics of the manager.
//!
//! They are served under `/all-metrics`, `/internal-metrics` and
//! `/external-metrics`; `/metrics` shows only the controller runtime's.

use super::Kind::{Counter, Gauge};
use super::{Endpoint, doubling, metrics};

metrics! { Endpoint::Internal, "";
    /// Reconciles of node resources.
    NODE_RESOURCE_RECONCILE: Counter, "slo_controller_node_resource_reconcile_count",
        [status, reason];
    /// Reconciles of NodeMetric objects.
    NODE_METRIC_RECONCILE: Counter, "slo_controller_nodemetric_reconcile_count", [status, reason];
    /// Attempts to derive a NodeMetric's spec.
    NODE_METRIC_PARSE: Counter, "slo_controller_nodemetric_spec_parse_count", [status, reason];
    /// Reconciles of NodeSLO objects.
    NODE_SLO_RECONCILE: Counter, "slo_controller_nodeslo_reconcile_count", [status, reason];
    /// Attempts to derive a NodeSLO's spec.
    NODE_SLO_PARSE: Counter, "slo_controller_nodeslo_spec_parse_count", [status, reason];
    /// Runs of node resource plugins.
    PLUGIN_STATUS: Counter, "slo_controller_node_resource_run_plugin_status",
        [plugin, status, reason];
    /// Lent resources of a node; batch-cpu is given in cores, mid-cpu in milli-cores.
    NODE_ALLOCATABLE: Gauge, "slo_controller_node_extended_resource_allocatable_internal",
        [node, resource, unit];
    /// Age of a node's last report in seconds; negative when the node's clock is ahead.
    NODE_METRIC_AGE: Gauge, "tidepool_nodemetric_age_seconds", [node];
    /// Time of an admission handler, in milliseconds.
    WEBHOOK_DURATION: doubling(0.001, 20), "koord_manager_webhook_webhook_duration_milliseconds",
        [webhook_type, object_type, operation, plugin_name, status];
    /// Shared weight of a quota.
    QUOTA_SHARED_WEIGHT: Gauge, "koord_manager_webhook_quota_shared_weight",
        [elasticquota_name, resource_name];
    /// Decisions about pod bindings.
    BINDING_DECISIONS: Counter, "koord_manager_webhook_binding_admission_decisions_total",
        [decision];
    /// 1 on the replica that leads.
    IS_LEADER: Gauge, "koordinator_manager_is_leader", [];
    /// Reconciles of a controller.
    RECONCILE_TOTAL: Counter, "controller_runtime_reconcile_total", [controller, result];
    /// Waiting items of a controller.
    WORKQUEUE_DEPTH: Gauge, "workqueue_depth", [name];
    /// Reads of a configuration key that failed.
    CONFIG_PARSE_FAILURES: Counter, "tidepool_config_parse_failures_total", [key];
    /// 1 while an older value of a configuration key stays in force.
    CONFIG_KEY_STALE: Gauge, "tidepool_config_key_stale", [key];
    /// 1 while the configuration's ConfigMap exists.
    CONFIG_PRESENT: Gauge, "tidepool_config_present", [];
}

/// Node resource plugins, as in the `plugin` label and in `--noderesource-plugins`.
pub const PLUGINS: &[&str] = &[
    "MidResource",
    "BatchResource",
    "CPUNormalization",
    "ResourceAmplification",
    "GPUDeviceResource",
    "RDMADeviceResource",
];

/// Controllers, as in the `controller` label and in `--controllers`.
pub const CONTROLLERS: &[&str] =
    &["colocationprofile", "nodemetric", "noderesource", "nodeslo", "quotaprofile"];
