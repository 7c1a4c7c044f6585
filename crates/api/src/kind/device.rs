//! Device: which GPUs, RDMA cards and FPGAs does a node have?
//!
//! The node agent writes it under the node's name, `status` included: there is no status
//! subresource.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shape::DeviceInfo;
use super::spec::absent_is_default;

/// The devices of one node.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "scheduling.koordinator.sh",
    version = "v1alpha1",
    kind = "Device",
    plural = "devices",
    status = "DeviceStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "The GPUs, RDMA cards and FPGAs of one node."
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct DeviceSpec {
    /// The devices, ordered by class and minor number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceInfo>,
}

absent_is_default!(DeviceSpec);

/// Who uses the devices.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceStatus {
    /// Allocations by class of device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allocations: Vec<DeviceAllocation>,
}

/// Who uses the devices of one class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceAllocation {
    /// Class of the devices.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// The pods that use them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<DeviceAllocationEntry>,
}

/// The devices one pod uses.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceAllocationEntry {
    /// Name of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// UID of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Minor numbers of the devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub minors: Vec<i32>,
}
