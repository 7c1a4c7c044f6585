//! Reservation: which resources are kept free, and for whom?
//!
//! A reservation is scheduled like a pod made from its template. Once it has a node, pods that
//! match one of its owners may use what it holds.

use k8s_openapi::api::core::v1::{ObjectReference, PodTemplateSpec, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::GoDuration;

use super::shape::{self, ResourceList};
use super::spec::absent_is_default;

/// What is reserved, for whom and for how long.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "scheduling.koordinator.sh",
    version = "v1alpha1",
    kind = "Reservation",
    plural = "reservations",
    status = "ReservationStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "Resources kept free for pods to come.",
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Node","type":"string","jsonPath":".status.nodeName"}"#,
    printcolumn = r#"{"name":"TTL","type":"string","jsonPath":".spec.ttl"}"#,
    printcolumn = r#"{"name":"Expires","type":"string","jsonPath":".spec.expires"}"#
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct ReservationSpec {
    /// The pod whose requests, affinities and tolerations are reserved for; its `nodeName` pins the
    /// reservation to a node.
    #[schemars(schema_with = "shape::opaque")]
    pub template: PodTemplateSpec,
    /// Pods that may use the reservation; one match is enough.
    #[schemars(length(min = 1))]
    pub owners: Vec<ReservationOwner>,
    /// How long the reservation lives from its creation; `0` is for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "24h"))]
    pub ttl: Option<GoDuration>,
    /// When the reservation ends; wins over `ttl`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<Time>,
    /// Lets the reservation be placed on resources that pods still use, and wait for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_allocation: Option<bool>,
    /// Which running pods a waiting reservation may count on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_allocation_policy: Option<PreAllocationPolicy>,
    /// Ends the reservation with the first pod that uses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = true))]
    pub allocate_once: Option<bool>,
    /// Whether a pod may take more than the reservation holds of a resource from the rest of the
    /// node (`Aligned`) or not (`Restricted`).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Aligned", "Restricted"]))]
    pub allocate_policy: Option<String>,
    /// Keeps new pods from using the reservation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unschedulable: Option<bool>,
    /// Taints that a pod must tolerate to use the reservation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "shape::taints")]
    pub taints: Vec<Taint>,
}

absent_is_default!(ReservationSpec);

/// Pods that may use a reservation; all given fields must match.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ReservationOwner {
    /// The pod itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::object_reference")]
    pub object: Option<ObjectReference>,
    /// The controller of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::controller_reference")]
    pub controller: Option<ControllerReference>,
    /// Labels of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::label_selector")]
    pub label_selector: Option<LabelSelector>,
}

/// The controller of a pod, with its namespace.
///
/// The API server insists on the first four fields; an annotation with the same shape may lack
/// them, so reading does not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerReference {
    #[serde(default)]
    pub api_version: String,
    #[serde(default)]
    pub kind: String,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub uid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

/// Which running pods a waiting reservation may count on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreAllocationPolicy {
    /// Where candidates come from: pods that match the owners (`Default`) or pods marked in the
    /// whole cluster (`Cluster`).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Default", "Cluster"], "default" = "Default"))]
    pub mode: Option<String>,
    /// Lets the reservation count on more than one pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub enable_multiple: Option<bool>,
}

/// Where the reservation is and who uses it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReservationStatus {
    /// Phase of the reservation: `Pending`, `Available`, `Waiting`, `Succeeded` or `Failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Pending"))]
    pub phase: Option<String>,
    /// What is known about scheduling and readiness.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ReservationCondition>,
    /// Pods that use the reservation now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "shape::object_references")]
    pub current_owners: Vec<ObjectReference>,
    /// Node that holds the reserved resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Amounts the reservation holds.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub allocatable: ResourceList,
    /// Amounts that pods have taken from it.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub allocated: ResourceList,
}

/// One thing that is known about a reservation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReservationCondition {
    /// What the condition is about: `Scheduled` or `Ready`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Whether the condition holds: `True`, `False` or `Unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Why, in one CamelCase word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the condition was last looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Time>,
    /// When the status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}
