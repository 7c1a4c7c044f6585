//! Values on NodeResourceTopology objects: the machine as its agent sees it.

use std::collections::BTreeMap;

use units::CpuSet;

use super::{Wire, json_wire, print_json, records};
use crate::finding::Finding;
use crate::shape;

json_wire!(CpuSharedPools);

records! {
    /// Every logical CPU and where it sits.
    CpuTopology { detail: Vec<CpuInfo> }

    CpuInfo { id: i32, core: i32, socket: i32, node: i32 }
}

/// One pool for each NUMA node.
pub type CpuSharedPools = Vec<CpuSharedPool>;

records! {
    CpuSharedPool { socket: i32, node: i32, cpuset: CpuSet }
}

/// CPUs held by pods that the kubelet binds. Written as `null` when there are none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodCpuAllocs(pub Vec<PodCpuAlloc>);

records! {
    PodCpuAlloc {
        namespace: String,
        name: String,
        uid: String,
        cpuset: CpuSet,
        managed_by_kubelet: bool,
    }
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

records! {
    /// The kubelet's CPU manager.
    CpuManagerPolicy {
        /// `static` or `none`.
        policy: String,
        options: BTreeMap<String, String>,
        #[serde(rename = "reservedCPUs")]
        reserved_cpus: CpuSet,
    }
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

records! {
    /// What the processor is, for the choice of a normalization ratio.
    CpuBasicInfo {
        cpu_model: String,
        hyper_thread_enabled: bool,
        turbo_enabled: bool,
        cat_l3_cbm_mask: String,
        #[serde(rename = "vendorID")]
        vendor_id: String,
    }
}
