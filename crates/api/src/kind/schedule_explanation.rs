//! ScheduleExplanation: why can a pod, job or gang not be placed, and what would help?

use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::GoDuration;

use super::shape;
use super::spec::absent_is_default;

/// What is asked about.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "scheduling.koordinator.sh",
    version = "v1alpha1",
    kind = "ScheduleExplanation",
    plural = "scheduleexplanations",
    shortname = "sched-exp",
    namespaced,
    status = "ScheduleExplanationStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "Why a pod, job or gang cannot be placed, and what would help."
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct ScheduleExplanationSpec {
    /// `namespace/name` of a pod or job, or the id of a gang group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question_object_key: Option<String>,
    /// A pod that does not exist yet; not supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::opaque")]
    pub question_object_template: Option<PodTemplateSpec>,
    /// How long the explanation is kept up to date; `0` is for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "24h"))]
    pub ttl: Option<GoDuration>,
}

absent_is_default!(ScheduleExplanationSpec);

/// The answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleExplanationStatus {
    /// Whether the pods fit now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedulable: Option<bool>,
    /// Whether the pods fit once others are preempted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedulable_after_preemption: Option<bool>,
    /// Why the pods do not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_message: Option<String>,
    /// When the answer was last confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// The answer for each topology domain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub detailed_explanation: Vec<DomainExplanation>,
}

/// The answer for one topology domain.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DomainExplanation {
    /// The domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology_domain: Option<String>,
    /// Whether the pods fit there now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedulable: Option<bool>,
    /// Whether the pods fit there once others are preempted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedulable_after_preemption: Option<bool>,
    /// Why the pods do not fit there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_message: Option<String>,
    /// The nodes of the domain as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_explanation: Option<NodesExplanation>,
    /// The nodes of the domain once others are preempted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preempt_explanation: Option<NodesExplanation>,
    /// Pods that could be preempted, by node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_possible_victims: Vec<NodeVictims>,
}

/// What the nodes of a domain say to the pods.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodesExplanation {
    /// Whether all pods fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedulable: Option<bool>,
    /// Why they do not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_message: Option<String>,
    /// Where the pods that fit would go.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feasible_scheduling_result: Vec<Placement>,
    /// Why nodes refuse, ordered by plugin and reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_failed_details: Vec<Refusal>,
}

/// Where one pod would go.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// Namespace of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// UID of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
}

/// One reason to refuse, and the nodes that gave it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// Scheduler plugin that refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_plugin: Option<String>,
    /// Its reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether preemption might change its mind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preempt_might_help: Option<bool>,
    /// The nodes, in order of name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_nodes: Vec<String>,
}

/// Pods that could be preempted on one node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeVictims {
    /// The node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub possible_victims: Vec<Victim>,
}

/// A pod that could be preempted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Victim {
    /// Namespace of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// UID of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Whether the pod does not run yet and only holds a claim on the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_nominated_pod: Option<bool>,
}
