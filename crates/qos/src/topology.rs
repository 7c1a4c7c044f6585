//! Which CPUs and NUMA nodes does this machine have, and who may use them?
//!
//! The scheduler places pods on CPUs, and this node's NodeResourceTopology tells it from what. Part
//! of that is the machine's own (CPUs, NUMA nodes, memory); part is decided elsewhere and gathered
//! here: the kubelet's static CPU policy, the operator's reservations, and the CPUs that the
//! scheduler has given away already. From these follow the two pools of shared CPUs:
//!
//! ```text
//! base    = all CPUs - CPUs that the kubelet bound
//! LS pool = base - CPUs the scheduler gave to any pod        - reserved - exclusive system CPUs
//! BE pool = base - CPUs the scheduler gave to LSE pods       - reserved - exclusive system CPUs
//! ```
//!
//! Pods that have ended hold no CPUs. A pool that is empty is still named, without CPUs, for the
//! NUMA nodes it had before the last two terms.

pub mod cpu_state;
pub mod kubelet;
pub mod object;
pub mod pools;
mod reserve;
pub mod take;
pub mod zones;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::metadata::Wire;
use api::metadata::node::SystemQosResource;
use api::metadata::topology::{CpuBasicInfo, CpuInfo, CpuTopology, PodCpuAllocs};
use api::protocol::{node, topology as keys};
use k8s_openapi::api::core::v1::Node;

use units::{Bytes, CpuLayout};

use self::cpu_state::CpuState;
use self::kubelet::KubeletConfig;
use self::zones::NumaZone;
use crate::node::{NodeCpus, Pods};

/// What the machine itself says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Machine {
    pub cpus: CpuLayout,
    pub basic: CpuBasicInfo,
    /// NUMA nodes with CPUs, in order of id.
    pub numa: Vec<NumaNode>,
}

/// The memory of one NUMA node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumaNode {
    pub id: u16,
    pub memory: Bytes,
    pub huge_2mi: Bytes,
    pub huge_1gi: Bytes,
}

/// Everything one computation looks at.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'i> {
    pub machine: &'i Machine,
    pub node: &'i Node,
    pub pods: &'i Pods,
    /// `None` where there is no kubelet, or where it must not be asked.
    pub kubelet: Option<&'i KubeletConfig>,
    /// What the kubelet's CPU manager has bound; looked at under the static policy.
    pub bound: &'i CpuState,
    /// Whether huge pages are counted apart from memory.
    pub huge_pages: bool,
}

/// What the node's topology object should say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Topology {
    pub annotations: BTreeMap<&'static str, String>,
    pub labels: BTreeMap<&'static str, String>,
    pub policy: &'static str,
    pub zones: Vec<NumaZone>,
    pub cpus: Arc<NodeCpus>,
}

/// Why nothing can be said; what the object says stays.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    #[error("no CPUs are known yet")]
    NoCpus,
    #[error("CPUs are on {cpus} NUMA nodes, but {memory} have memory")]
    NumaCount { cpus: usize, memory: usize },
    #[error("annotation {key} of the Node is unusable: {reason}", key = node::SYSTEM_QOS_RESOURCE.name)]
    SystemQos { reason: String },
}

/// Computes what the object should say.
pub fn compute(inputs: &Inputs<'_>) -> Result<Topology, TopologyError> {
    let machine = inputs.machine;
    if machine.cpus.is_empty() {
        return Err(TopologyError::NoCpus);
    }
    let system = system_qos(inputs.node)?;
    let reservation = reserve::node_reservation(inputs.node, machine);
    let manager = reserve::cpu_manager(inputs.kubelet, machine);
    let bound = match manager.is_static() {
        true => pools::bound(inputs.bound, inputs.pods),
        false => PodCpuAllocs::default(),
    };
    let exclusive = system.as_ref().filter(|system| system.is_exclusive());
    let excluded = exclusive.map(|system| system.cpuset.clone()).unwrap_or_default();
    let excluded = excluded.union(&reservation.reserved_cpus);
    let pools = pools::share(machine, &bound, inputs.pods, &excluded);
    let zones = zones::zones(inputs)?;

    let has_annotations =
        inputs.node.metadata.annotations.as_ref().is_some_and(|all| !all.is_empty());
    let system = match system {
        Some(system) => system.print(),
        None if has_annotations => "{}".to_owned(),
        None => "null".to_owned(),
    };
    let annotations = BTreeMap::from([
        (keys::CPU_BASIC_INFO.name, machine.basic.print()),
        (keys::CPU_TOPOLOGY.name, cpu_topology(machine).print()),
        (keys::CPU_SHARED_POOLS.name, pools.shared.print()),
        (keys::BE_CPU_SHARED_POOLS.name, pools.best_effort.print()),
        (keys::CPU_MANAGER_POLICY.name, manager.print()),
        (keys::POD_CPU_ALLOCS.name, bound.print()),
        (keys::RESERVATION.name, reservation.print()),
        (keys::SYSTEM_QOS_RESOURCE.name, system),
    ]);
    let numa_reservation = node::ENABLE_NUMA_RESERVATION.raw(&inputs.node.metadata);
    let numa_reservation = numa_reservation.filter(|value| !value.is_empty());
    let labels = numa_reservation
        .map(|value| (node::ENABLE_NUMA_RESERVATION.name, value.to_owned()))
        .into_iter()
        .collect();
    Ok(Topology {
        annotations,
        labels,
        policy: policy(inputs.kubelet),
        zones,
        cpus: Arc::new(NodeCpus {
            layout: machine.cpus.clone(),
            excluded,
            shared: pools.shared,
            best_effort: pools.best_effort,
            is_kubelet_static: manager.is_static(),
        }),
    })
}

fn cpu_topology(machine: &Machine) -> CpuTopology {
    let detail = machine.cpus.by_id().into_iter().map(|cpu| CpuInfo {
        id: cpu.id.into(),
        core: cpu.core.into(),
        socket: cpu.socket.into(),
        node: cpu.numa.into(),
    });
    CpuTopology { detail: detail.collect() }
}

/// The Node's annotation; unreadable stops the round, because pools would grow without it.
fn system_qos(node: &Node) -> Result<Option<SystemQosResource>, TopologyError> {
    let (value, findings) = node::SYSTEM_QOS_RESOURCE.read(&node.metadata);
    match (value, findings.first()) {
        (None, Some(finding)) => Err(TopologyError::SystemQos { reason: finding.to_string() }),
        (value, _) => Ok(value),
    }
}

/// The kubelet's topology manager policy and scope as one word.
fn policy(kubelet: Option<&KubeletConfig>) -> &'static str {
    let Some(kubelet) = kubelet else { return "None" };
    match (kubelet.topology_policy.as_str(), kubelet.topology_scope.as_str()) {
        ("single-numa-node", "container") => "SingleNUMANodeContainerLevel",
        ("restricted", "container") => "RestrictedContainerLevel",
        ("best-effort", "container") => "BestEffortContainerLevel",
        ("single-numa-node", "pod") => "SingleNUMANodePodLevel",
        ("restricted", "pod") => "RestrictedPodLevel",
        ("best-effort", "pod") => "BestEffortPodLevel",
        _ => "None",
    }
}

#[cfg(test)]
mod tests;
