//! NodeSLO: how should the node agent treat the pods of one node?
//!
//! The manager renders the ConfigMap `slo-controller-config` into one such object for each node,
//! under the node's name; the agent follows it.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::spec::absent_is_default;
use crate::strategy::{
    CpuBurstStrategy, HostApplicationSpec, ResourceQosStrategy, ResourceThresholdStrategy,
    SystemStrategy,
};

/// How the node agent treats the pods of one node.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "slo.koordinator.sh",
    version = "v1alpha1",
    kind = "NodeSLO",
    root = "NodeSlo",
    plural = "nodeslos",
    status = "NodeSloStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "How the node agent treats the pods of one node."
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct NodeSloSpec {
    /// When best-effort work is held back or evicted to protect online pods.
    #[serde(rename = "resourceUsedThresholdWithBE", skip_serializing_if = "Option::is_none")]
    pub resource_used_threshold_with_be: Option<ResourceThresholdStrategy>,
    /// Kernel treatment of each QoS class.
    #[serde(rename = "resourceQOSStrategy", skip_serializing_if = "Option::is_none")]
    pub resource_qos_strategy: Option<ResourceQosStrategy>,
    /// How far a container may exceed its CPU limit for a moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_burst_strategy: Option<CpuBurstStrategy>,
    /// Kernel settings of the whole node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_strategy: Option<SystemStrategy>,
    /// Applications outside Kubernetes that share the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_applications: Vec<HostApplicationSpec>,
    /// Settings of third parties, kept as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions: Option<BTreeMap<String, Value>>,
}

absent_is_default!(NodeSloSpec);

/// Nothing is reported here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeSloStatus {}
