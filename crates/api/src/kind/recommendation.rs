//! Recommendation: which requests would suit a workload?

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shape::{self, ResourceList};
use super::spec::absent_is_default;

/// What is looked at.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "analysis.koordinator.sh",
    version = "v1alpha1",
    kind = "Recommendation",
    plural = "recommendations",
    shortname = "recom",
    namespaced,
    status = "RecommendationStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "The requests that would suit a workload.",
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Type","type":"string","jsonPath":".spec.target.type"}"#,
    printcolumn = r#"{"name":"Kind","type":"string","jsonPath":".spec.target.workload.kind"}"#,
    printcolumn = r#"{"name":"Name","type":"string","jsonPath":".spec.target.workload.name"}"#,
    printcolumn = r#"{"name":"LastUpdateTime","type":"date","jsonPath":".status.updateTime"}"#
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct RecommendationSpec {
    /// The pods to look at.
    pub target: RecommendationTarget,
}

absent_is_default!(RecommendationSpec);

/// The pods a recommendation looks at.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecommendationTarget {
    /// How the pods are given: as a `workload` or by a `podSelector`.
    #[serde(rename = "type")]
    pub type_: String,
    /// The workload the pods belong to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<WorkloadReference>,
    /// Labels of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::label_selector")]
    pub pod_selector: Option<LabelSelector>,
}

/// A workload in the namespace of the recommendation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadReference {
    /// Kind of the workload.
    pub kind: String,
    /// Name of the workload.
    pub name: String,
    /// API version of the workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecommendationStatus {
    /// Recommended requests of one pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_status: Option<RecommendedPod>,
    /// When the recommendation was last worked out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_time: Option<Time>,
    /// What stands in the way of a good recommendation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "shape::conditions")]
    pub conditions: Vec<Condition>,
}

/// Recommended requests of one pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecommendedPod {
    /// Recommended requests by container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub container_statuses: Vec<RecommendedContainer>,
}

/// Recommended requests of one container.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecommendedContainer {
    /// Name of the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_name: Option<String>,
    /// Recommended amounts.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub resources: ResourceList,
}
