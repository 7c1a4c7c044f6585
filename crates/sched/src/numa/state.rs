//! Which CPUs and NUMA resources of a node are taken, by whom, and what is left?
//!
//! A [`State`] is fed from three sides, in any order and any number of times: the node object
//! ([`Settings`]), the topology object ([`Machine`]) and allocations by pod uid. Allocations are
//! kept even while the machine is unknown and count as soon as it is known, so that CPUs are not
//! handed out twice after a restart.
//!
//! A CPU is free when no pod holds it and nobody reserved it. A NUMA node offers
//!
//! ```text
//! capacity  = (zone - reserved CPUs) * ratio
//! used      = shares of pods without CPUs of their own + CPUs held * ratio
//! ```
//!
//! where `ratio` is the node's amplification: a CPU that is bound costs as many amplified
//! milli-cores as it was sold for.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::metadata::node::{NodeCpuBindPolicy, NumaAllocateStrategy};
use api::metadata::pod::NumaTopologyPolicy;
use units::{CpuSet, Ratio, Rounding};

use super::hint::{Mask, Occupancy};
use super::take::{Bind, Exclusive, Fill};
use super::topology::Topology;
use crate::model::{Requests, ResourceId};

/// What a pod holds on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Allocation {
    /// CPUs of its own.
    pub cpus: CpuSet,
    pub exclusive: Exclusive,
    /// What it has of each NUMA node, by the number Linux gives that.
    pub shares: Vec<(u16, Requests)>,
}

impl Allocation {
    pub fn is_empty(&self) -> bool {
        self.cpus.is_empty() && self.shares.is_empty()
    }
}

/// What the node object says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    pub bind: Option<NodeCpuBindPolicy>,
    pub strategy: Option<NumaAllocateStrategy>,
    pub policy: Option<NumaTopologyPolicy>,
    pub ratios: Ratios,
}

/// How much more than it has a node sells.
#[derive(Debug, Clone, PartialEq)]
pub enum Ratios {
    /// Resources that are not named count as they are.
    Known(Vec<(ResourceId, Ratio)>),
    Unreadable,
}

impl Default for Ratios {
    fn default() -> Self {
        Self::Known(Vec::new())
    }
}

impl Ratios {
    /// At least one.
    pub fn of(&self, resource: ResourceId) -> Ratio {
        let Self::Known(ratios) = self else { return Ratio::ONE };
        let found = ratios.iter().find(|(id, _)| *id == resource);
        found.map_or(Ratio::ONE, |(_, ratio)| *ratio).max(Ratio::ONE)
    }
}

/// What the topology object says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Machine {
    pub topology: Option<Topology>,
    /// What each NUMA node has, by the number Linux gives it, ascending.
    pub zones: Vec<(u16, Requests)>,
    pub policy: Option<NumaTopologyPolicy>,
    /// The kubelet gives out whole cores only.
    pub is_full_pcpus_only: bool,
    /// CPUs that no pod gets from us.
    pub reserved: CpuSet,
    /// The zones are already amplified.
    pub is_amplified: bool,
}

/// Free CPUs of a place, as each policy counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FreeCpus {
    pub any: usize,
    /// In complete cores.
    pub whole: usize,
    /// One of each core.
    pub spread: usize,
}

impl FreeCpus {
    /// What a policy can use when it is a condition; all of them when it is not.
    pub fn usable(&self, bind: Bind, required: bool) -> usize {
        match (required, bind) {
            (false, _) => self.any,
            (true, Bind::Full) => self.whole,
            (true, Bind::Spread) => self.spread,
        }
    }
}

/// One NUMA node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Zone {
    pub id: u16,
    pub amounts: Vec<Amount>,
    pub free: FreeCpus,
    /// CPUs that pods hold here.
    pub bound: i64,
    pub occupancy: Occupancy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    pub resource: ResourceId,
    pub capacity: i64,
    pub used: i64,
}

impl Zone {
    pub fn amount(&self, resource: ResourceId) -> Option<&Amount> {
        self.amounts.iter().find(|amount| amount.resource == resource)
    }
}

/// Everything about CPUs and NUMA nodes of one node.
#[derive(Debug, Clone, Default)]
pub struct State {
    settings: Settings,
    machine: Arc<Machine>,
    pods: BTreeMap<Arc<str>, Allocation>,
    /// Pods on each CPU, by position; empty while the machine is unknown.
    holders: Vec<u16>,
    free: CpuSet,
    counts: FreeCpus,
    bound: i64,
    zones: Vec<Zone>,
    masks: Arc<[Mask]>,
    version: u64,
}

impl State {
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    pub fn topology(&self) -> Option<&Topology> {
        self.machine.topology.as_ref()
    }

    /// CPUs that may be given out.
    pub fn free(&self) -> &CpuSet {
        &self.free
    }

    pub fn free_counts(&self) -> FreeCpus {
        self.counts
    }

    /// How many CPUs pods hold.
    pub fn bound(&self) -> i64 {
        self.bound
    }

    /// In order of id; masks count positions in here.
    pub fn zones(&self) -> &[Zone] {
        &self.zones
    }

    pub(super) fn masks(&self) -> &[Mask] {
        &self.masks
    }

    pub fn pods(&self) -> impl Iterator<Item = (&str, &Allocation)> {
        self.pods.iter().map(|(uid, allocation)| (&**uid, allocation))
    }

    pub fn get(&self, uid: &str) -> Option<&Allocation> {
        self.pods.get(uid)
    }

    /// Another number after every change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// How this node binds CPUs of every pod; `None` leaves it to the pod.
    pub fn forced_bind(&self) -> Option<Bind> {
        if self.machine.is_full_pcpus_only {
            return Some(Bind::Full);
        }
        match self.settings.bind {
            Some(NodeCpuBindPolicy::FullPcpusOnly) => Some(Bind::Full),
            Some(NodeCpuBindPolicy::SpreadByPcpus) => Some(Bind::Spread),
            None | Some(NodeCpuBindPolicy::None) => None,
        }
    }

    /// The label's policy, or else the kubelet's.
    pub fn policy(&self) -> Option<NumaTopologyPolicy> {
        self.settings.policy.or(self.machine.policy)
    }

    /// The label's strategy, or else that of the configuration. Even distribution counts as
    /// least-allocated.
    pub fn strategy(&self, configured: Fill) -> Fill {
        match self.settings.strategy {
            Some(NumaAllocateStrategy::MostAllocated) => Fill::Most,
            Some(NumaAllocateStrategy::LeastAllocated | NumaAllocateStrategy::DistributeEvenly) => {
                Fill::Least
            }
            None => configured,
        }
    }

    pub fn cpu_ratio(&self) -> Ratio {
        self.settings.ratios.of(ResourceId::CPU)
    }

    /// What `cpus` bound CPUs cost in amplified milli-cores.
    pub fn amplified(&self, cpus: i64) -> i64 {
        let milli = cpus.saturating_mul(1_000);
        match self.cpu_ratio() {
            Ratio::ONE => milli,
            ratio => ratio.apply(milli, Rounding::Up),
        }
    }

    /// CPUs held by pods with this wish.
    pub fn marked(&self, exclusive: Exclusive) -> CpuSet {
        let mut marked = CpuSet::new();
        if exclusive != Exclusive::None {
            let same = self.pods.values().filter(|pod| pod.exclusive == exclusive);
            same.for_each(|pod| marked.extend(pod.cpus.iter()));
        }
        marked
    }

    /// Takes over the node object; says whether anything changed.
    pub fn configure(&mut self, settings: Settings) -> bool {
        let is_changed = settings != self.settings;
        if is_changed {
            self.settings = settings;
            self.rebuild();
        }
        is_changed
    }

    /// Takes over the topology object, or forgets it; says whether anything changed.
    pub fn describe(&mut self, machine: Arc<Machine>) -> bool {
        let is_changed = machine != self.machine;
        if is_changed {
            self.machine = machine;
            self.rebuild();
        }
        is_changed
    }

    /// Records what a pod holds, in place of what it held before; says whether anything changed.
    pub fn hold(&mut self, uid: Arc<str>, allocation: Allocation) -> bool {
        if allocation.is_empty() {
            return self.release(&uid);
        }
        if self.pods.get(&uid) == Some(&allocation) {
            return false;
        }
        if let Some(before) = self.pods.remove(&uid) {
            self.count(&before, false);
        }
        self.count(&allocation, true);
        self.pods.insert(uid, allocation);
        self.refresh();
        true
    }

    /// Gives back what a pod held; says whether it held anything.
    pub fn release(&mut self, uid: &str) -> bool {
        let Some(before) = self.pods.remove(uid) else { return false };
        self.count(&before, false);
        self.refresh();
        true
    }

    /// The sums are those of the allocations.
    pub fn is_consistent(&self) -> bool {
        let mut fresh = self.clone();
        fresh.rebuild();
        fresh.free == self.free && fresh.zones == self.zones && fresh.bound == self.bound
    }

    /// Derives everything from what the three sides said.
    fn rebuild(&mut self) {
        let cpus = self.machine.topology.as_ref().map_or(0, |topology| topology.cpus().len());
        self.holders = vec![0; cpus];
        self.zones = self.empty_zones();
        if self.masks.is_empty() || self.masks.last() != Some(&Mask::first(self.zones.len())) {
            self.masks = Mask::all(self.zones.len()).into();
        }
        let pods = std::mem::take(&mut self.pods);
        for allocation in pods.values() {
            self.count(allocation, true);
        }
        self.pods = pods;
        self.refresh();
    }

    fn empty_zones(&self) -> Vec<Zone> {
        let machine = &self.machine;
        let reserved_in = |id| {
            let inside = machine.topology.as_ref().map(|topology| topology.of_node(id));
            let count = inside.map_or(0, |cpus| cpus.intersection(&machine.reserved).len());
            i64::try_from(count).unwrap_or(i64::MAX)
        };
        let zone = |(id, wire): &(u16, Requests)| {
            let amount = |(resource, mut capacity): (ResourceId, i64)| {
                if resource == ResourceId::CPU {
                    capacity = (capacity - reserved_in(*id).saturating_mul(1_000)).max(0);
                }
                if !machine.is_amplified {
                    let ratio = self.settings.ratios.of(resource);
                    capacity = ratio.apply(capacity, Rounding::Up);
                }
                Amount { resource, capacity, used: 0 }
            };
            Zone { id: *id, amounts: wire.iter().map(amount).collect(), ..Zone::default() }
        };
        machine.zones.iter().take(64).map(zone).collect()
    }

    /// Adds a pod to the sums, or takes it out.
    fn count(&mut self, allocation: &Allocation, is_added: bool) {
        if let Some(topology) = &self.machine.topology {
            for id in allocation.cpus.iter() {
                let Some((position, _)) = topology.find(id) else { continue };
                if let Some(holders) = self.holders.get_mut(position) {
                    *holders = match is_added {
                        true => holders.saturating_add(1),
                        false => holders.saturating_sub(1),
                    };
                }
            }
        }
        let has_cpus = !allocation.cpus.is_empty();
        for (id, share) in &allocation.shares {
            let Some(zone) = self.zones.iter_mut().find(|zone| zone.id == *id) else { continue };
            for (resource, given) in share.iter() {
                let is_counted_by_cpu = has_cpus && resource == ResourceId::CPU;
                let own = zone.amounts.iter_mut().find(|amount| amount.resource == resource);
                if let Some(amount) = own.filter(|_| !is_counted_by_cpu) {
                    let given = if is_added { given } else { given.saturating_neg() };
                    amount.used = amount.used.saturating_add(given);
                }
            }
        }
    }

    /// Recounts CPUs. Sums of shares are kept by [`State::count`].
    fn refresh(&mut self) {
        self.version += 1;
        let machine = Arc::clone(&self.machine);
        let Some(topology) = &machine.topology else {
            let mut held = CpuSet::new();
            self.pods.values().for_each(|pod| held.extend(pod.cpus.iter()));
            self.bound = i64::try_from(held.len()).unwrap_or(i64::MAX);
            (self.free, self.counts) = (CpuSet::new(), FreeCpus::default());
            return;
        };
        let mut nodes = vec![(FreeCpus::default(), 0_i64); topology.nodes().len()];
        self.free = CpuSet::new();
        self.bound = 0;
        for threads in topology.cores() {
            let mut open = 0;
            for position in threads {
                let cpu = topology.cpus()[*position];
                let is_held = self.holders.get(*position).is_some_and(|holders| *holders > 0);
                nodes[cpu.node].1 += i64::from(is_held);
                if !is_held && !machine.reserved.contains(cpu.id) {
                    self.free.insert(cpu.id);
                    nodes[cpu.node].0.any += 1;
                    open += 1;
                }
            }
            let Some(first) = threads.first() else { continue };
            let free = &mut nodes[topology.cpus()[*first].node].0;
            free.spread += usize::from(open > 0);
            free.whole += if open == threads.len() { open } else { 0 };
        }
        self.counts = FreeCpus::default();
        for (free, bound) in &nodes {
            self.counts.any += free.any;
            self.counts.whole += free.whole;
            self.counts.spread += free.spread;
            self.bound += bound;
        }
        self.refresh_zones(topology, &nodes);
    }

    fn refresh_zones(&mut self, topology: &Topology, nodes: &[(FreeCpus, i64)]) {
        let occupancy = self.occupancy(topology);
        for zone in &mut self.zones {
            let at = topology.nodes().iter().position(|node| node.id == zone.id);
            let found = at.and_then(|at| Some((nodes.get(at)?, occupancy.get(at)?)));
            let Some(((free, bound), occupancy)) = found else { continue };
            (zone.free, zone.bound, zone.occupancy) = (*free, *bound, *occupancy);
        }
    }

    fn occupancy(&self, topology: &Topology) -> Vec<Occupancy> {
        let mut occupancy = vec![Occupancy::Idle; topology.nodes().len()];
        for pod in self.pods.values() {
            let mut touched = Mask(0);
            for (_, cpu) in pod.cpus.iter().filter_map(|id| topology.find(id)) {
                touched.0 |= 1_u64.checked_shl(u32::try_from(cpu.node).unwrap_or(64)).unwrap_or(0);
            }
            for position in touched.iter() {
                let Some(state) = occupancy.get_mut(position) else { continue };
                if touched.len() > 1 {
                    *state = Occupancy::Shared;
                } else if *state == Occupancy::Idle {
                    *state = Occupancy::Single;
                }
            }
        }
        occupancy
    }

    /// What is taken of a zone's resource, bound CPUs counted at their amplified price.
    pub(super) fn used(&self, zone: &Zone, amount: &Amount) -> i64 {
        if amount.resource == ResourceId::CPU {
            amount.used.saturating_add(self.amplified(zone.bound))
        } else {
            amount.used
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
