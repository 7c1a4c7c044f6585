//! NodeMetric: what is used on a node, by whom, and how much of it could be lent?
//!
//! The manager writes `spec` (how to measure), the node agent `status` (what it measured). The
//! object has the node's name.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use units::GoDuration;

use super::shape::ResourceMap;
use super::spec::absent_is_default;
use crate::strategy::AggregatePolicy;

/// How a node is measured.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "slo.koordinator.sh",
    version = "v1alpha1",
    kind = "NodeMetric",
    plural = "nodemetrics",
    status = "NodeMetricStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "What is used on a node, by whom, and how much of it could be lent."
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct NodeMetricSpec {
    /// What the node agent collects and how often it reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric_collect_policy: Option<CollectPolicy>,
}

absent_is_default!(NodeMetricSpec);

/// What the node agent collects and how often it reports.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CollectPolicy {
    /// Window over which usage is averaged, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregate_duration_seconds: Option<i64>,
    /// Time between two reports, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report_interval_seconds: Option<i64>,
    /// Windows for which percentiles of usage are reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_aggregate_policy: Option<AggregatePolicy>,
    /// What counts as used memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "enum" = ["usageWithoutPageCache", "usageWithHotPageCache", "usageWithPageCache"]
    ))]
    pub node_memory_collect_policy: Option<String>,
}

/// What was measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeMetricStatus {
    /// When the node last reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_time: Option<Time>,
    /// Usage of the node as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_metric: Option<NodeUsage>,
    /// Usage of each pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pods_metric: Vec<PodUsage>,
    /// Usage of each application outside Kubernetes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_application_metric: Vec<HostApplicationUsage>,
    /// What online pods asked for and are not expected to need.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prod_reclaimable_metric: Option<Prediction>,
    /// What online pods and the system are expected to need at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prod_peak_metric: Option<Prediction>,
}

/// Usage of a node as a whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeUsage {
    /// Average usage of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_usage: Option<ResourceMap>,
    /// Percentiles of the node's usage, by window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aggregated_node_usages: Vec<AggregatedUsage>,
    /// Average usage of everything that is neither a pod nor a host application.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_usage: Option<ResourceMap>,
    /// Percentiles of the system's usage, by window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aggregated_system_usages: Vec<AggregatedUsage>,
    /// Usage of each NUMA node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numa_usages: Vec<NumaUsage>,
}

/// Percentiles of usage over one window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AggregatedUsage {
    /// Length of the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<GoDuration>,
    /// Usage by kind of aggregate: `avg`, `p50`, `p90`, `p95` or `p99`; an empty entry had too few
    /// samples.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub usage: BTreeMap<String, ResourceMap>,
}

/// Usage of one NUMA node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NumaUsage {
    /// Id of the NUMA node.
    #[serde(rename = "numaNodeID")]
    pub numa_node_id: i32,
    /// Average usage of the NUMA node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_usage: Option<ResourceMap>,
    /// Average usage of everything on the NUMA node that is neither a pod nor a host application.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_usage: Option<ResourceMap>,
}

/// Usage of one pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodUsage {
    /// Name of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Average usage of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_usage: Option<ResourceMap>,
    /// Priority class the pod counts as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    /// QoS class the pod counts as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
    /// Data of third parties, kept as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions: Option<BTreeMap<String, Value>>,
}

/// Usage of one application outside Kubernetes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostApplicationUsage {
    /// Name of the application.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Average usage of the application.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<ResourceMap>,
    /// Priority class the application counts as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    /// QoS class the application counts as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
}

/// What the predictor found; empty when it could not tell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Prediction {
    /// Predicted amounts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceMap>,
}
