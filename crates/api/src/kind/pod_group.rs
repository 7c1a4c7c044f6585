//! PodGroup: which pods must start together?
//!
//! There is no status subresource; the scheduler writes `status` with the object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shape::ResourceList;
use super::spec::absent_is_default;

/// How many pods must start together.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "scheduling.sigs.k8s.io",
    version = "v1alpha1",
    kind = "PodGroup",
    plural = "podgroups",
    namespaced,
    status = "PodGroupStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "Pods that must start together."
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct PodGroupSpec {
    /// Fewest pods of the group that may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_member: Option<i32>,
    /// Fewest resources the group needs in total.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub min_resources: ResourceList,
    /// How long placed pods wait for the rest of the group, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_timeout_seconds: Option<i32>,
}

absent_is_default!(PodGroupSpec);

/// How far the group has come.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupStatus {
    /// Phase of the group: `Pending`, `PreScheduling`, `Scheduling`, `Scheduled`, `Running`,
    /// `Unknown`, `Finished` or `Failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Workloads the group belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occupied_by: Option<String>,
    /// Number of pods that have a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled: Option<i32>,
    /// Number of pods that run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<i32>,
    /// Number of pods that succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<i32>,
    /// Number of pods that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<i32>,
    /// When scheduling of the group began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_start_time: Option<Time>,
}
