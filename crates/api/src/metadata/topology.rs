//! Values on NodeResourceTopology objects: the machine as its agent sees it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::CpuSet;

use super::{Wire, json_wire, print_json};
use crate::finding::Finding;
use crate::shape;

json_wire!(CpuTopology, CpuSharedPools, CpuManagerPolicy, CpuBasicInfo);

/// Every logical CPU and where it sits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CpuTopology {
    pub detail: Vec<CpuInfo>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CpuInfo {
    pub id: i32,
    pub core: i32,
    pub socket: i32,
    pub node: i32,
}

/// One pool for each NUMA node.
pub type CpuSharedPools = Vec<CpuSharedPool>;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CpuSharedPool {
    pub socket: i32,
    pub node: i32,
    #[serde(skip_serializing_if = "CpuSet::is_empty")]
    pub cpuset: CpuSet,
}

/// CPUs held by pods that the kubelet binds. Written as `null` when there are none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodCpuAllocs(pub Vec<PodCpuAlloc>);

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PodCpuAlloc {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "CpuSet::is_empty")]
    pub cpuset: CpuSet,
    #[serde(rename = "managedByKubelet", skip_serializing_if = "is_false")]
    pub managed_by_kubelet: bool,
}

impl Wire for PodCpuAllocs {
    fn parse(text: &str) -> (Option<Self>, Vec<Finding>) {
        let (allocs, findings) = shape::read::<Option<Vec<PodCpuAlloc>>>(text);
        (allocs.map(|allocs| Self(allocs.unwrap_or_default())), findings)
    }

    fn print(&self) -> String {
        print_json(&Some(&self.0).filter(|allocs| !allocs.is_empty()))
    }
}

/// The kubelet's CPU manager.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CpuManagerPolicy {
    /// `static` or `none`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub policy: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    #[serde(rename = "reservedCPUs", skip_serializing_if = "CpuSet::is_empty")]
    pub reserved_cpus: CpuSet,
}

impl CpuManagerPolicy {
    pub const STATIC: &str = "static";
    pub const NONE: &str = "none";
    pub const FULL_PCPUS_ONLY: &str = "full-pcpus-only";
    pub const DISTRIBUTE_ACROSS_NUMA: &str = "distribute-cpus-across-numa";

    pub fn is_static(&self) -> bool {
        self.policy == Self::STATIC
    }

    pub fn is_full_pcpus_only(&self) -> bool {
        self.is_static() && self.options.get(Self::FULL_PCPUS_ONLY).is_some_and(|on| on == "true")
    }
}

/// What the processor is, for the choice of a normalization ratio.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct CpuBasicInfo {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cpu_model: String,
    #[serde(skip_serializing_if = "is_false")]
    pub hyper_thread_enabled: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub turbo_enabled: bool,
    #[serde(rename = "catL3CbmMask", skip_serializing_if = "String::is_empty")]
    pub cat_l3_cbm_mask: String,
    #[serde(rename = "vendorID", skip_serializing_if = "String::is_empty")]
    pub vendor_id: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field by reference")]
fn is_false(value: &bool) -> bool {
    !value
}
