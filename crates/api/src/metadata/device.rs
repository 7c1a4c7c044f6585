//! Values about accelerators, on pods and on Device objects.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Quantity;

use super::{ResourceList, Wire, json_wire, parse_or, words};
use crate::finding::Finding;
use crate::kind::shape::VirtualFunction;

json_wire!(
    DeviceAllocations,
    DeviceAllocateHints,
    DeviceJointAllocate,
    GpuPartitionSpec,
    GpuPartitionTable,
);

/// By device type: the devices a pod was given.
pub type DeviceAllocations = BTreeMap<String, Vec<DeviceAllocation>>;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DeviceAllocation {
    pub minor: i32,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: ResourceList,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extension: Option<DeviceAllocationExtension>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DeviceAllocationExtension {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vfs: Vec<VirtualFunction>,
    #[serde(rename = "gpuSharedResourceTemplate", skip_serializing_if = "String::is_empty")]
    pub gpu_shared_resource_template: String,
}

/// By device type: how a pod wants its devices chosen.
pub type DeviceAllocateHints = BTreeMap<String, DeviceHint>;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct DeviceHint {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vf_selector: Option<LabelSelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocate_strategy: Option<DeviceAllocateStrategy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_topology_scope: Option<DeviceTopologyScope>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclusive_policy: Option<DeviceExclusivePolicy>,
}

words! {
    DeviceAllocateStrategy {
        /// Every matching device gets the request.
        ApplyForAll = "ApplyForAll",
        /// The request counts devices.
        RequestsAsCount = "RequestsAsCount",
    }
}

words! {
    /// The widest part of the machine the devices may be spread over.
    DeviceTopologyScope { Device = "Device", Pcie = "PCIe", NumaNode = "NUMANode", Node = "Node" }
}

words! {
    DeviceExclusivePolicy { DeviceLevel = "DeviceLevel", PcieLevel = "PCIeLevel" }
}

/// Device types that must be close to each other; the first one leads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct DeviceJointAllocate {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub device_types: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_scope: Option<DeviceJointScope>,
}

words! {
    DeviceJointScope { SamePcie = "SamePCIe" }
}

/// What a pod asks of the links between its GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct GpuPartitionSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocate_policy: Option<GpuAllocatePolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ring_bus_bandwidth: Option<Quantity>,
}

words! {
    #[derive(Default)]
    GpuAllocatePolicy { Restricted = "Restricted", #[default] BestEffort = "BestEffort" }
}

words! {
    /// Must the node's GPU partition table be followed?
    #[derive(Default)]
    GpuPartitionPolicy { Honor = "Honor", #[default] Prefer = "Prefer" }
}

/// By number of GPUs: the groups of GPUs that are linked well.
pub type GpuPartitionTable = BTreeMap<String, Vec<GpuPartition>>;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct GpuPartition {
    pub minors: Vec<i32>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub gpu_link_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ring_bus_bandwidth: Option<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation_score: Option<i32>,
}

/// Device minors in the form `0,1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Minors(pub Vec<i32>);

impl Wire for Minors {
    fn parse(text: &str) -> (Option<Self>, Vec<Finding>) {
        let minors = text.split(',').map(str::parse).collect::<Result<_, _>>();
        parse_or(text, minors.ok().map(Self), "device minors joined by commas", "0,1")
    }

    fn print(&self) -> String {
        self.0.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }
}
