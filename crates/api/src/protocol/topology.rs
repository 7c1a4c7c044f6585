//! Annotations of NodeResourceTopology objects, all written by the agent.

use super::keys;
use crate::metadata::node::{NodeReservation, SystemQosResource};
use crate::metadata::topology::{
    CpuBasicInfo, CpuManagerPolicy, CpuSharedPools, CpuTopology, PodCpuAllocs,
};

keys! {
    annotation CPU_TOPOLOGY: CpuTopology = "node.koordinator.sh/cpu-topology";
    /// The latency-sensitive pool.
    annotation CPU_SHARED_POOLS: CpuSharedPools = "node.koordinator.sh/cpu-shared-pools";
    /// The best-effort pool.
    annotation BE_CPU_SHARED_POOLS: CpuSharedPools = "node.koordinator.sh/be-cpu-shared-pools";
    /// `null` when there are none.
    annotation POD_CPU_ALLOCS: PodCpuAllocs = "node.koordinator.sh/pod-cpu-allocs";
    annotation CPU_MANAGER_POLICY: CpuManagerPolicy = "kubelet.koordinator.sh/cpu-manager-policy";
    annotation CPU_BASIC_INFO: CpuBasicInfo = "node.koordinator.sh/cpu-basic-info";
    /// The Node's, with the CPUs resolved; `{}` when there is none.
    annotation RESERVATION: NodeReservation = "node.koordinator.sh/reservation";
    /// The Node's; `{}` when there is none.
    annotation SYSTEM_QOS_RESOURCE: SystemQosResource = "node.koordinator.sh/system-qos-resource";
    /// `Koordinator`.
    label MANAGED_BY: String = "app.kubernetes.io/managed-by";
}

/// The value of [`MANAGED_BY`].
pub const MANAGER: &str = "Koordinator";
