//! Who owns each logical CPU of a node?
//!
//! A pod that was given CPUs of its own owns them (LSE and LSR). Of the rest, those in the
//! latency-sensitive pool belong to LS pods; best-effort work may run where its pool says, beside
//! the owner.

use std::collections::BTreeMap;

use api::kind::NodeResourceTopology;
use api::protocol::topology::{
    BE_CPU_SHARED_POOLS, CPU_SHARED_POOLS, CPU_TOPOLOGY, SYSTEM_QOS_RESOURCE,
};
use api::qos::QosClass;
use serde::Serialize;
use units::CpuSet;

use super::facts::{PodFacts, PodKey};

/// Where a logical CPU sits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seat {
    pub socket: i32,
    pub numa: i32,
    pub core: i32,
    pub cpu: i32,
}

/// A NodeResourceTopology.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    pub seats: Vec<Seat>,
    pub shared: CpuSet,
    pub best_effort: CpuSet,
    pub system: CpuSet,
}

impl Topology {
    pub fn read(object: &NodeResourceTopology) -> Self {
        let meta = &object.metadata;
        let all = CPU_TOPOLOGY.get(meta).unwrap_or_default();
        let mut seats: Vec<Seat> = all
            .detail
            .iter()
            .map(|one| Seat { socket: one.socket, numa: one.node, core: one.core, cpu: one.id })
            .collect();
        seats.sort_unstable();
        let pool = |pools: Vec<api::metadata::topology::CpuSharedPool>| {
            pools.iter().fold(CpuSet::new(), |all, pool| all.union(&pool.cpuset))
        };
        Self {
            seats,
            shared: CPU_SHARED_POOLS.get(meta).map(pool).unwrap_or_default(),
            best_effort: BE_CPU_SHARED_POOLS.get(meta).map(pool).unwrap_or_default(),
            system: SYSTEM_QOS_RESOURCE.get(meta).map(|own| own.cpuset).unwrap_or_default(),
        }
    }
}

/// The CPUs of a node, by socket, NUMA node and core.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CpuMap {
    pub sockets: Vec<Socket>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Socket {
    pub id: i32,
    pub numas: Vec<Numa>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Numa {
    pub id: i32,
    pub cores: Vec<Core>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Core {
    pub id: i32,
    pub cpus: Vec<Cpu>,
}

/// A logical CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cpu {
    pub id: i32,
    /// The class that owns it: LSE, LSR, LS, SYSTEM, or BE where nobody else does.
    pub owner: &'static str,
    /// Whether best-effort work may run there, too.
    pub lends: bool,
    /// The pod that has it for itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
}

impl CpuMap {
    pub fn of(topology: &Topology, pods: &[(&PodKey, &PodFacts)]) -> Self {
        let mut owners: BTreeMap<u16, (&PodKey, QosClass)> = BTreeMap::new();
        for (key, pod) in pods {
            for cpu in pod.cpus.iter() {
                owners.insert(cpu, (key, pod.qos));
            }
        }
        let cpu = |seat: &Seat| {
            let number = u16::try_from(seat.cpu).ok();
            let is_in = |set: &CpuSet| number.is_some_and(|number| set.contains(number));
            let bound = number.and_then(|number| owners.get(&number));
            let owner = match bound {
                Some((_, class)) => word(*class),
                None if is_in(&topology.system) => word(QosClass::System),
                None if topology.shared.is_empty() || is_in(&topology.shared) => word(QosClass::Ls),
                None => word(QosClass::Be),
            };
            // Nobody is beside an exclusive pod, and without a pool everyone is everywhere.
            let is_exclusive = matches!(bound, Some((_, QosClass::Lse)));
            let may = topology.best_effort.is_empty() || is_in(&topology.best_effort);
            Cpu {
                id: seat.cpu,
                owner,
                lends: may && !is_exclusive,
                pod: bound.map(|(key, _)| key.to_string()),
            }
        };
        let mut map = Self::default();
        for seat in &topology.seats {
            map.core(seat).cpus.push(cpu(seat));
        }
        map
    }

    /// The core of a seat; seats come sorted, so it is the last one or a new one.
    fn core(&mut self, seat: &Seat) -> &mut Core {
        let socket = last_or_new(
            &mut self.sockets,
            |socket| socket.id == seat.socket,
            || Socket { id: seat.socket, numas: Vec::new() },
        );
        let numa = last_or_new(
            &mut socket.numas,
            |numa| numa.id == seat.numa,
            || Numa { id: seat.numa, cores: Vec::new() },
        );
        last_or_new(
            &mut numa.cores,
            |core| core.id == seat.core,
            || Core { id: seat.core, cpus: Vec::new() },
        )
    }

    pub fn cpus(&self) -> impl Iterator<Item = &Cpu> {
        let cores = self.sockets.iter().flat_map(|one| &one.numas).flat_map(|one| &one.cores);
        cores.flat_map(|core| &core.cpus)
    }
}

fn last_or_new<T>(list: &mut Vec<T>, fits: impl Fn(&T) -> bool, new: impl Fn() -> T) -> &mut T {
    if !list.last().is_some_and(fits) {
        list.push(new());
    }
    list.last_mut().expect("there was one, or one was pushed")
}

fn word(class: QosClass) -> &'static str {
    match class {
        QosClass::Lse => "LSE",
        QosClass::Lsr => "LSR",
        QosClass::Ls => "LS",
        QosClass::Be => "BE",
        QosClass::System => "SYSTEM",
    }
}
