//! Values about accelerators, on pods and on Device objects.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use units::Quantity;

use super::{ResourceList, Wire, json_wire, parse_or, records, words};
use crate::finding::Finding;
use crate::kind::shape::VirtualFunction;

json_wire!(DeviceAllocations, DeviceAllocateHints, GpuPartitionTable);

/// By device type: the devices a pod was given.
pub type DeviceAllocations = BTreeMap<String, Vec<DeviceAllocation>>;

records! {
    DeviceAllocation {
        minor: i32,
        resources: ResourceList,
        id: String,
        extension: Option<DeviceAllocationExtension>,
    }

    DeviceAllocationExtension { vfs: Vec<VirtualFunction>, gpu_shared_resource_template: String }
}

/// By device type: how a pod wants its devices chosen.
pub type DeviceAllocateHints = BTreeMap<String, DeviceHint>;

records! {
    DeviceHint {
        selector: Option<LabelSelector>,
        vf_selector: Option<LabelSelector>,
        allocate_strategy: Option<DeviceAllocateStrategy>,
        required_topology_scope: Option<DeviceTopologyScope>,
        exclusive_policy: Option<DeviceExclusivePolicy>,
    }
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

records! {
    /// Device types that must be close to each other; the first one leads.
    DeviceJointAllocate { device_types: Vec<String>, required_scope: Option<DeviceJointScope> }
}

words! {
    DeviceJointScope { SamePcie = "SamePCIe" }
}

records! {
    /// What a pod asks of the links between its GPUs.
    GpuPartitionSpec {
        allocate_policy: Option<GpuAllocatePolicy>,
        ring_bus_bandwidth: Option<Quantity>,
    }
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

records! {
    GpuPartition {
        minors: Vec<i32>,
        gpu_link_type: String,
        ring_bus_bandwidth: Option<Quantity>,
        allocation_score: Option<i32>,
    }
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
