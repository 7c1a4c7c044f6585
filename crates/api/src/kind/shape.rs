//! Which shapes do several kinds share?
//!
//! The Rust types of Kubernetes' own shapes come from `k8s-openapi`. Their schemas are written
//! here, because a CRD needs details those types do not carry: limits of conditions, and which maps
//! and lists server-side apply must treat as one value.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use units::Quantity;

/// Amounts by resource name; an absent name is not the same as zero.
pub type ResourceList = BTreeMap<String, Quantity>;

/// Amounts of plain resources and of devices.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceMap {
    /// Amounts by resource name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: ResourceList,
    /// Amounts by device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceInfo>,
}

/// A device of a node: what it is, where it sits, and what it offers or uses.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceInfo {
    /// Class of the device: `gpu`, `fpga` or `rdma`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Properties of the device that allocation hints can select.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Unique id of the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Minor number of the device, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minor: Option<i32>,
    /// Physical position of the device in the machine.
    #[serde(rename = "moduleID", skip_serializing_if = "Option::is_none")]
    pub module_id: Option<i32>,
    /// Whether the device can be used.
    #[serde(default)]
    pub health: bool,
    /// What the device offers, or in a metric what is used of it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: ResourceList,
    /// Where the device is attached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<DeviceTopology>,
    /// Virtual functions of the device, by group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vf_groups: Vec<VirtualFunctionGroup>,
    /// What is known about the device's health.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
}

/// Where a device is attached.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceTopology {
    /// Socket the device is attached to; -1 when unknown.
    #[serde(rename = "socketID")]
    pub socket_id: i32,
    /// NUMA node the device is attached to.
    #[serde(rename = "nodeID")]
    pub node_id: i32,
    /// PCIe switch the device is attached to.
    #[serde(rename = "pcieID")]
    pub pcie_id: String,
    /// Address of the device on its bus.
    #[serde(rename = "busID", skip_serializing_if = "Option::is_none")]
    pub bus_id: Option<String>,
}

/// Virtual functions with the same properties.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VirtualFunctionGroup {
    /// Properties of the group that allocation hints can select.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The virtual functions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vfs: Vec<VirtualFunction>,
}

/// One virtual function of a device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VirtualFunction {
    /// Minor number of the virtual function; -1 when it has none.
    pub minor: i32,
    /// Address of the virtual function on its bus.
    #[serde(rename = "busID", skip_serializing_if = "Option::is_none")]
    pub bus_id: Option<String>,
}

/// An object whose content the API server keeps without looking at it.
pub(super) fn opaque(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// A time that may be written as `null`.
pub(super) fn nullable_time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time", "nullable": true })
}

pub(super) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchLabels": {
                "description": "Labels an object must have, all of them.",
                "type": "object",
                "additionalProperties": { "type": "string" },
            },
            "matchExpressions": {
                "description": "Conditions an object's labels must meet, all of them.",
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": { "description": "Label key.", "type": "string" },
                        "operator": {
                            "description": "In, NotIn, Exists or DoesNotExist.",
                            "type": "string",
                        },
                        "values": {
                            "description": "Label values for In and NotIn.",
                            "type": "array",
                            "x-kubernetes-list-type": "atomic",
                            "items": { "type": "string" },
                        },
                    },
                },
            },
        },
    })
}

pub(super) fn object_reference(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "apiVersion": { "description": "API version of the object.", "type": "string" },
            "kind": { "description": "Kind of the object.", "type": "string" },
            "namespace": { "description": "Namespace of the object.", "type": "string" },
            "name": { "description": "Name of the object.", "type": "string" },
            "uid": { "description": "UID of the object.", "type": "string" },
            "resourceVersion": {
                "description": "Version of the object that is meant.",
                "type": "string",
            },
            "fieldPath": { "description": "Part of the object that is meant.", "type": "string" },
        },
    })
}

pub(super) fn object_references(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": object_reference(generator) })
}

/// An owner reference that also names a namespace.
pub(super) fn controller_reference(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "required": ["apiVersion", "kind", "name", "uid"],
        "properties": {
            "apiVersion": { "description": "API version of the controller.", "type": "string" },
            "kind": { "description": "Kind of the controller.", "type": "string" },
            "namespace": { "description": "Namespace of the controller.", "type": "string" },
            "name": { "description": "Name of the controller.", "type": "string" },
            "uid": { "description": "UID of the controller.", "type": "string" },
            "controller": {
                "description": "Whether the owner is the managing one.",
                "type": "boolean",
            },
            "blockOwnerDeletion": {
                "description": "Whether the owner stays until this reference is gone.",
                "type": "boolean",
            },
        },
    })
}

pub(super) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {
                    "description": "What the condition is about.",
                    "type": "string",
                    "maxLength": 316,
                    "pattern": CONDITION_TYPE,
                },
                "status": {
                    "description": "Whether the condition holds.",
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                },
                "observedGeneration": {
                    "description": "Generation of the object the condition was found for.",
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                },
                "lastTransitionTime": {
                    "description": "When the status last changed.",
                    "type": "string",
                    "format": "date-time",
                },
                "reason": {
                    "description": "Why the status is what it is, in one CamelCase word.",
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": CONDITION_REASON,
                },
                "message": {
                    "description": "Why the status is what it is, in a sentence.",
                    "type": "string",
                    "maxLength": 32768,
                },
            },
        },
    })
}

/// An optional DNS prefix and a slash, then a name, as for label keys.
const CONDITION_TYPE: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

const CONDITION_REASON: &str = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";

pub(super) fn taints(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "required": ["key", "effect"],
            "properties": {
                "key": { "description": "Key of the taint.", "type": "string" },
                "value": { "description": "Value of the taint.", "type": "string" },
                "effect": {
                    "description": "NoSchedule, PreferNoSchedule or NoExecute.",
                    "type": "string",
                },
                "timeAdded": {
                    "description": "When the taint was added.",
                    "type": "string",
                    "format": "date-time",
                },
            },
        },
    })
}

pub(super) fn delete_options(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "apiVersion": { "description": "API version of the options.", "type": "string" },
            "kind": { "description": "Kind of the options.", "type": "string" },
            "gracePeriodSeconds": {
                "description": "Time the pod gets to stop, in seconds; 0 deletes it at once.",
                "type": "integer",
                "format": "int64",
            },
            "preconditions": {
                "description": "What must hold for the deletion to happen.",
                "type": "object",
                "properties": {
                    "uid": { "description": "UID the pod must have.", "type": "string" },
                    "resourceVersion": {
                        "description": "Version the pod must have.",
                        "type": "string",
                    },
                },
            },
            "orphanDependents": {
                "description": "Older form of the propagation policy Orphan.",
                "type": "boolean",
            },
            "propagationPolicy": {
                "description": "What happens to dependents: Orphan, Background or Foreground.",
                "type": "string",
            },
            "dryRun": {
                "description": "All to check the deletion without doing it.",
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": { "type": "string" },
            },
            "ignoreStoreReadErrorWithClusterBreakingPotential": {
                "description": "Deletes an object even if its stored form cannot be read.",
                "type": "boolean",
            },
        },
    })
}
