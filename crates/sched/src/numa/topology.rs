//! Where does each logical CPU of a machine sit?
//!
//! ```text
//! socket 0                      socket 1
//!   NUMA 0        NUMA 1          NUMA 2 ...
//!     core 0  ..    core 4  ..
//!       cpu 0, cpu 16
//! ```
//!
//! Cores are numbered inside their socket on the wire, so a core's identity is the pair. Inside,
//! everything is a dense position: CPUs in order of id, cores in order of (socket, core), NUMA
//! nodes and sockets in order of id. Sorting by position is sorting by identity.

use std::collections::{BTreeMap, BTreeSet};

use api::metadata::topology::CpuTopology;
use units::CpuSet;

/// A dense position of a CPU, core, NUMA node or socket in its [`Topology`].
pub(crate) type Position = usize;

/// The CPUs of one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    cpus: Vec<Cpu>,
    /// The CPUs of each core, ascending.
    cores: Vec<Vec<Position>>,
    nodes: Vec<Node>,
    sockets: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cpu {
    pub(crate) id: u16,
    pub(crate) core: Position,
    pub(crate) node: Position,
    pub(crate) socket: Position,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Node {
    /// The number Linux gives the NUMA node.
    pub(crate) id: u16,
    pub(crate) socket: Position,
}

/// A CPU as the wire has it, once its numbers are known to be usable.
struct Place {
    id: u16,
    core: (u16, u16),
    node: u16,
    socket: u16,
}

impl Topology {
    /// The machine a node agent described; `None` when the description cannot be one: nothing in
    /// it, a negative number, or a CPU that is listed twice.
    pub fn read(wire: &CpuTopology) -> Option<Self> {
        let mut places = Vec::with_capacity(wire.detail.len());
        for info in &wire.detail {
            let socket = u16::try_from(info.socket).ok()?;
            let core = (socket, u16::try_from(info.core).ok()?);
            let (id, node) = (u16::try_from(info.id).ok()?, u16::try_from(info.node).ok()?);
            places.push(Place { id, core, node, socket });
        }
        places.sort_by_key(|place| place.id);
        let is_unique = places.is_sorted_by(|a, b| a.id < b.id);
        (!places.is_empty() && is_unique).then(|| Self::build(&places))
    }

    fn build(places: &[Place]) -> Self {
        let cores: BTreeSet<_> = places.iter().map(|place| place.core).collect();
        let sockets: BTreeSet<_> = places.iter().map(|place| place.socket).collect();
        let core_at = positions(&cores);
        let socket_at = positions(&sockets);
        let mut nodes: BTreeMap<u16, Position> = BTreeMap::new();
        for place in places {
            nodes.entry(place.node).or_insert(socket_at[&place.socket]);
        }
        let node_at = positions(&nodes.keys().copied().collect());
        let cpus: Vec<Cpu> = places
            .iter()
            .map(|place| Cpu {
                id: place.id,
                core: core_at[&place.core],
                node: node_at[&place.node],
                socket: socket_at[&place.socket],
            })
            .collect();
        let mut threads = vec![Vec::new(); cores.len()];
        for (position, cpu) in cpus.iter().enumerate() {
            threads[cpu.core].push(position);
        }
        let nodes = nodes.into_iter().map(|(id, socket)| Node { id, socket }).collect();
        Self { cpus, cores: threads, nodes, sockets: sockets.len() }
    }

    /// All CPUs, in order of id.
    pub(crate) fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// The threads of each core, in order of core identity.
    pub(crate) fn cores(&self) -> &[Vec<Position>] {
        &self.cores
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(crate) fn sockets(&self) -> usize {
        self.sockets
    }

    /// Threads of one core, taking the cores as equal.
    pub fn cpus_per_core(&self) -> usize {
        self.cpus.len() / self.cores.len()
    }

    /// CPUs of one NUMA node, taking the nodes as equal.
    pub fn cpus_per_node(&self) -> usize {
        self.cpus.len() / self.nodes.len()
    }

    /// CPUs of one socket, taking the sockets as equal.
    pub fn cpus_per_socket(&self) -> usize {
        self.cpus.len() / self.sockets
    }

    /// Every CPU of the machine.
    pub fn all(&self) -> CpuSet {
        self.cpus.iter().map(|cpu| cpu.id).collect()
    }

    /// The CPUs of one NUMA node, by the number Linux gives it.
    pub fn of_node(&self, id: u16) -> CpuSet {
        let is_inside = |cpu: &&Cpu| self.nodes[cpu.node].id == id;
        self.cpus.iter().filter(is_inside).map(|cpu| cpu.id).collect()
    }

    /// Where a CPU sits; `None` when the machine does not have it.
    pub(crate) fn find(&self, id: u16) -> Option<(Position, Cpu)> {
        let position = self.cpus.binary_search_by_key(&id, |cpu| cpu.id).ok()?;
        self.cpus.get(position).map(|cpu| (position, *cpu))
    }
}

fn positions<T: Copy + Ord>(sorted: &BTreeSet<T>) -> BTreeMap<T, Position> {
    sorted.iter().copied().enumerate().map(|(position, key)| (key, position)).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use api::metadata::topology::CpuInfo;

    use super::*;

    /// Sockets, NUMA nodes in each, cores in each node, threads in each core. Siblings of core `c`
    /// are `c`, `c + cores`, and so on.
    pub(crate) fn wire(sockets: i32, nodes: i32, cores: i32, threads: i32) -> CpuTopology {
        let total = sockets * nodes * cores;
        let detail = (0..total * threads)
            .map(|id| {
                let core = id % total;
                let node = core / cores;
                CpuInfo { id, core, socket: node / nodes, node }
            })
            .collect();
        CpuTopology { detail }
    }

    pub(crate) fn machine(sockets: i32, nodes: i32, cores: i32, threads: i32) -> Topology {
        Topology::read(&wire(sockets, nodes, cores, threads)).unwrap()
    }

    #[test]
    fn counts_and_neighbourhoods() {
        let topology = machine(2, 2, 4, 2);
        assert_eq!(topology.cpus_per_core(), 2);
        assert_eq!(topology.cpus_per_node(), 8);
        assert_eq!(topology.cpus_per_socket(), 16);
        assert_eq!(topology.of_node(1), "4-7,20-23".parse().unwrap());
        assert_eq!(topology.of_node(4), CpuSet::new());
        assert_eq!(topology.cores()[5], [5, 21]);
        assert_eq!(topology.find(21).map(|(_, cpu)| (cpu.node, cpu.socket)), Some((1, 0)));
        assert_eq!(topology.find(32), None);
    }

    #[test]
    fn cores_of_different_sockets_may_share_a_number() {
        let detail = [(0, 0, 0), (1, 0, 1), (2, 0, 0), (3, 0, 1)]
            .map(|(id, core, socket)| CpuInfo { id, core, socket, node: socket })
            .to_vec();
        let topology = Topology::read(&CpuTopology { detail }).unwrap();
        assert_eq!(topology.cores(), [vec![0, 2], vec![1, 3]]);
    }

    #[test]
    fn what_is_no_machine_is_refused() {
        let good = wire(1, 1, 2, 2);
        let broken = |change: fn(&mut CpuTopology)| {
            let mut wire = good.clone();
            change(&mut wire);
            wire
        };
        let cases = [
            ("empty", broken(|wire| wire.detail.clear())),
            ("negative id", broken(|wire| wire.detail[0].id = -1)),
            ("negative node", broken(|wire| wire.detail[1].node = -1)),
            ("id too large", broken(|wire| wire.detail[1].id = 70_000)),
            ("listed twice", broken(|wire| wire.detail[1].id = 0)),
        ];
        assert!(Topology::read(&good).is_some());
        for (name, wire) in cases {
            assert_eq!(Topology::read(&wire), None, "{name}");
        }
    }
}
