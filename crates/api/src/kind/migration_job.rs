//! PodMigrationJob: which pod is being moved, and how far has it come?
//!
//! The descheduler creates a job for each pod it wants elsewhere. By default a Reservation secures
//! the new place before the pod is evicted from the old one.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::GoDuration;

use super::reservation::ReservationSpec;
use super::shape;
use super::spec::absent_is_default;

/// Which pod is moved, and in which way.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "scheduling.koordinator.sh",
    version = "v1alpha1",
    kind = "PodMigrationJob",
    plural = "podmigrationjobs",
    shortname = "pmj",
    status = "PodMigrationJobStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "The move of one pod to another node.",
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Status","type":"string","jsonPath":".status.status"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Node","type":"string","jsonPath":".status.nodeName"}"#,
    printcolumn = r#"{"name":"Reservation","type":"string","jsonPath":".spec.reservationOptions.reservationRef.name"}"#,
    printcolumn = r#"{"name":"PodNamespace","type":"string","jsonPath":".spec.podRef.namespace"}"#,
    printcolumn = r#"{"name":"Pod","type":"string","jsonPath":".spec.podRef.name"}"#,
    printcolumn = r#"{"name":"NewPod","type":"string","jsonPath":".status.podRef.name"}"#,
    printcolumn = r#"{"name":"TTL","type":"string","jsonPath":".spec.ttl"}"#
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct PodMigrationJobSpec {
    /// Holds the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// How long the job may take before it is given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<GoDuration>,
    /// Whether a place is reserved first (`ReservationFirst`) or the pod is evicted at once
    /// (`EvictDirectly`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The pod to move.
    #[schemars(schema_with = "shape::object_reference")]
    pub pod_ref: ObjectReference,
    /// How the new place is reserved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation_options: Option<ReservationOptions>,
    /// How the pod is deleted or evicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::delete_options")]
    pub delete_options: Option<DeleteOptions>,
}

absent_is_default!(PodMigrationJobSpec);

/// How the new place of a pod is reserved.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReservationOptions {
    /// A reservation that exists already.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::object_reference")]
    pub reservation_ref: Option<ObjectReference>,
    /// The reservation to create; without it, one is made from the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::opaque")]
    pub template: Option<ReservationTemplate>,
    /// Whether pods may be preempted for the new place; there is nothing to set yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption_options: Option<PreemptionOptions>,
}

/// A reservation to create.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReservationTemplate {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ObjectMeta>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<ReservationSpec>,
}

/// Whether pods may be preempted for the new place; there is nothing to set yet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PreemptionOptions {}

/// How far the move has come.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodMigrationJobStatus {
    /// Phase of the job: `Pending`, `Running`, `Succeeded`, `Failed` or `Aborted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Type of the latest condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Why, in one CamelCase word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The steps the job has taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<MigrationCondition>,
    /// Node the pod moves to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The pod that replaces the moved one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::object_reference")]
    pub pod_ref: Option<ObjectReference>,
    /// Pods preempted for the new place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "shape::object_references")]
    pub preempted_pods_ref: Vec<ObjectReference>,
    /// Reservations made for preempted pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preempted_pods_reservation: Vec<PreemptedReservation>,
}

/// One step of a migration job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MigrationCondition {
    /// What the condition is about, such as `ReservationCreated` or `Eviction`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether the condition holds: `True`, `False` or `Unknown`.
    pub status: String,
    /// When the condition was last looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::nullable_time")]
    pub last_probe_time: Option<Time>,
    /// When the status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::nullable_time")]
    pub last_transition_time: Option<Time>,
    /// Why, in one CamelCase word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A reservation made for a preempted pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreemptedReservation {
    /// Namespace of the reservation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the reservation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Node the reservation is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Phase of the reservation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The preempted pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::object_reference")]
    pub preempted_pod_ref: Option<ObjectReference>,
    /// The pods that use the reservation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "shape::object_references")]
    pub pods_ref: Vec<ObjectReference>,
}
