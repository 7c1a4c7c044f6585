//! Values on pods: what the agent and the scheduler are asked to do.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use units::{CpuSet, Quantity};

use super::{ResourceList, Wire, json_wire, parse_or, records, words};
use crate::finding::Finding;
use crate::strategy::{BlkioQos, CpuBurstStrategy, CpuQos, MemoryQos};

json_wire!(BTreeMap<String, OomScoreAdj>, BlkioQos, CpuBurstStrategy, CpuQos, PodMemoryQos);

records! {
    /// Batch resources of a pod's containers, for readers that only see the
    /// container runtime's side.
    ExtendedResourceSpec { containers: BTreeMap<String, ExtendedResources> }

    ExtendedResources { limits: ResourceList, requests: ResourceList }
}

/// Memory QoS of one pod, over its class's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PodMemoryQos {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<MemoryQosPolicy>,
    #[serde(flatten)]
    pub fields: MemoryQos,
}

words! {
    /// What a pod's memory QoS starts from.
    #[derive(Default)]
    MemoryQosPolicy {
        /// The node's configuration for the pod's class.
        #[default]
        Default = "default",
        /// Nothing: off for this pod.
        None = "none",
        /// The template of the pod's class; fields given here count over it.
        Auto = "auto",
    }
}

records! {
    /// Bandwidth of one pod, in bits per second.
    PodNetworkQos { ingress_limit: Option<Quantity>, egress_limit: Option<Quantity> }

    /// A pod's own share of cache and memory bandwidth.
    ResctrlConfig { llc: Option<ResctrlShare>, mb: Option<ResctrlShare> }

    ResctrlShare { schemata: Option<Schemata>, schemata_per_cache: Vec<CacheSchemata> }

    Schemata {
        percent: Option<i64>,
        /// Lowest and highest percent.
        range: Vec<i64>,
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CacheSchemata {
    #[serde(rename = "cacheID")]
    pub cache_id: i32,
    #[serde(flatten)]
    pub schemata: Schemata,
}

/// The kernel's `oom_score_adj`, from -1000 (never) to 1000 (first).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct OomScoreAdj(pub i32);

impl OomScoreAdj {
    pub fn is_valid(self) -> bool {
        (-1000..=1000).contains(&self.0)
    }
}

impl Wire for OomScoreAdj {
    fn parse(text: &str) -> (Option<Self>, Vec<Finding>) {
        let adj = text.parse().ok().map(Self).filter(|adj| adj.is_valid());
        parse_or(text, adj, "a whole number between -1000 and 1000", "-500")
    }

    fn print(&self) -> String {
        self.0.to_string()
    }
}

words! {
    /// Which pods may share a core with this one; without it the group decides.
    CoreSchedPolicy {
        /// Core scheduling is off for the pod.
        None = "none",
        /// Only the pod itself.
        Exclusive = "exclusive",
    }
}

records! {
    /// How CPUs are chosen for a pod that binds them.
    ResourceSpec {
        #[serde(rename = "requiredCPUBindPolicy")]
        required_cpu_bind_policy: Option<CpuBindPolicy>,
        #[serde(rename = "preferredCPUBindPolicy")]
        preferred_cpu_bind_policy: Option<CpuBindPolicy>,
        #[serde(rename = "preferredCPUExclusivePolicy")]
        preferred_cpu_exclusive_policy: Option<CpuExclusivePolicy>,
    }
}

words! {
    /// Which CPUs of a node suit a pod.
    CpuBindPolicy {
        /// What the scheduler's configuration says.
        Default = "Default",
        /// Whole cores.
        FullPcpus = "FullPCPUs",
        /// One thread of as many cores as possible.
        SpreadByPcpus = "SpreadByPCPUs",
        /// Not bound by the scheduler.
        ConstrainedBurst = "ConstrainedBurst",
    }
}

words! {
    /// What a pod would rather not share with others of its policy.
    CpuExclusivePolicy { None = "None", PcpuLevel = "PCPULevel", NumaNodeLevel = "NUMANodeLevel" }
}

records! {
    /// What the scheduler gave a pod.
    ResourceStatus { cpuset: CpuSet, numa_node_resources: Vec<NumaNodeResource> }

    NumaNodeResource { node: i32, resources: ResourceList }

    /// Over how many NUMA nodes a pod may be spread.
    NumaTopologySpec {
        numa_topology_policy: Option<NumaTopologyPolicy>,
        #[serde(rename = "singleNUMANodeExclusive")]
        single_numa_node_exclusive: Option<NumaExclusive>,
    }
}

words! {
    NumaTopologyPolicy {
        BestEffort = "BestEffort",
        Restricted = "Restricted",
        SingleNumaNode = "SingleNUMANode",
    }
}

words! {
    NumaExclusive { Preferred = "Preferred", Required = "Required" }
}

words! {
    /// May a pod push others out?
    PreemptionPolicy { Never = "Never", PreemptLowerPriority = "PreemptLowerPriority" }
}

words! {
    /// Who keeps containers on one GPU apart.
    GpuIsolationProvider { HamiCore = "HAMi-core" }
}

records! {
    /// Where an outside planner wants a pod.
    SchedulingHint {
        node_names: Vec<String>,
        preferred_node_names: Vec<String>,
        extensions: BTreeMap<String, Json>,
    }
}
