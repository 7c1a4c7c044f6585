//! The CPUs that pods share.

use std::collections::BTreeMap;

use api::metadata::topology::{CpuSharedPool, CpuSharedPools, PodCpuAlloc, PodCpuAllocs};
use api::qos::QosClass;
use units::CpuSet;

use super::Machine;
use super::cpu_state::CpuState;
use crate::node::Pods;

/// Both pools, one entry for each NUMA node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pools {
    pub shared: CpuSharedPools,
    pub best_effort: CpuSharedPools,
}

/// The pods that the kubelet's CPU manager has bound, in order of uid.
///
/// Pods that the scheduler bound, and those that share CPUs by their label, are governed by us.
pub fn bound(state: &CpuState, pods: &Pods) -> PodCpuAllocs {
    let allocs =
        state.pods.iter().filter(|(_, cpus)| !cpus.is_empty()).filter_map(|(uid, cpus)| {
            let pod = pods.get(uid);
            let is_ours = pod.is_some_and(|pod| {
                matches!(pod.raw_qos, Some(QosClass::Ls | QosClass::Be)) || !pod.cpus.is_empty()
            });
            if is_ours {
                return None;
            }
            Some(PodCpuAlloc {
                namespace: pod.map(|pod| pod.namespace.clone()).unwrap_or_default(),
                name: pod.map(|pod| pod.name.clone()).unwrap_or_default(),
                uid: uid.clone(),
                cpuset: cpus.clone(),
                managed_by_kubelet: true,
            })
        });
    PodCpuAllocs(allocs.collect())
}

/// The pools that remain after everyone took theirs; `excluded` leaves entries standing.
pub fn share(machine: &Machine, bound: &PodCpuAllocs, pods: &Pods, excluded: &CpuSet) -> Pools {
    let mut base = machine.cpus.online();
    for alloc in &bound.0 {
        base = base.difference(&alloc.cpuset);
    }
    let mut shared = base.clone();
    let mut best_effort = base;
    for pod in pods.values().filter(|pod| !pod.is_terminated()) {
        shared = shared.difference(&pod.cpus);
        if pod.raw_qos == Some(QosClass::Lse) {
            best_effort = best_effort.difference(&pod.cpus);
        }
    }
    Pools {
        shared: by_numa(machine, &shared, excluded),
        best_effort: by_numa(machine, &best_effort, excluded),
    }
}

fn by_numa(machine: &Machine, pool: &CpuSet, excluded: &CpuSet) -> CpuSharedPools {
    let mut entries: BTreeMap<(u16, u16), CpuSet> = BTreeMap::new();
    for cpu in machine.cpus.by_id().into_iter().filter(|cpu| pool.contains(cpu.id)) {
        // A NUMA node over several sockets is one entry, under the first of them.
        let socket = match entries.keys().find(|(_, node)| *node == cpu.numa) {
            Some((socket, _)) => *socket,
            None => cpu.socket,
        };
        let entry = entries.entry((socket, cpu.numa)).or_default();
        if !excluded.contains(cpu.id) {
            entry.insert(cpu.id);
        }
    }
    let pools = entries.into_iter().map(|((socket, node), cpuset)| CpuSharedPool {
        socket: socket.into(),
        node: node.into(),
        cpuset,
    });
    pools.collect()
}
