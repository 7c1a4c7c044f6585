//! Does a pod fit the CPUs and NUMA nodes of a node, and which would it get?
//!
//! [`State::filter`], [`State::score`] and [`State::allocate`] share one path: filter and score ask
//! what allocate would do. A node without a NUMA policy is asked for CPUs alone:
//!
//! | | filter | allocate |
//! |---|---|---|
//! | pod without CPUs of its own | nothing to check | nothing |
//! | policy is a wish | as many free CPUs | [`take`] |
//! | policy is a condition | as many usable CPUs | [`take`] |
//!
//! With a NUMA policy the topology manager ([`hint`]) picks nodes first, every resource is shared
//! out over them ([`share`]), and CPUs are taken node by node.
//!
//! Counting is enough for the filter because `take` gives as much as there is to use; a property
//! test holds the two together.

use api::metadata::pod::NumaTopologyPolicy;
use units::{CpuSet, Rounding};

use super::demand::Demand;
use super::hint::{self, Hint, Mask, Misfit, Offer, Question};
use super::share::{Part, share};
use super::state::{Allocation, Amount, Ratios, State};
use super::take::{Ask, Bind, Fill, Shortage, take};
use super::topology::Topology;
use crate::model::{Requests, ResourceId};

/// Why a node does not suit a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    InvalidTopology,
    InvalidRatio,
    Fractional,
    BindConflict,
    NotWholeCores,
    PolicyMismatch,
    NoNumaResources,
    AmplifiedCpu,
    Cpus(Shortage),
    Insufficient(ResourceId),
    Misfit(Misfit),
}

impl Refusal {
    /// Pods leaving the node would not help.
    pub fn is_final(&self) -> bool {
        match self {
            Self::InvalidTopology
            | Self::InvalidRatio
            | Self::Fractional
            | Self::BindConflict
            | Self::NotWholeCores
            | Self::PolicyMismatch
            | Self::NoNumaResources => true,
            Self::AmplifiedCpu | Self::Cpus(_) | Self::Insufficient(_) | Self::Misfit(_) => false,
        }
    }

    /// As people read it, with `name` giving the names of resources.
    pub fn text<'a>(&self, name: impl Fn(ResourceId) -> &'a str) -> String {
        let text = match self {
            Self::InvalidTopology => "node(s) invalid CPU Topology",
            Self::InvalidRatio => "node(s) invalid CPU amplification ratio",
            Self::Fractional => "the requested CPUs must be integer",
            Self::BindConflict => {
                "node(s) cpu bind policy conflicts with pod's required cpu bind policy"
            }
            Self::NotWholeCores => "node(s) requested cpus not multiple cpus per core",
            Self::PolicyMismatch => "node(s) NUMA Topology policy not match",
            Self::NoNumaResources => "node(s) missing NUMA resources",
            Self::AmplifiedCpu => "Insufficient amplified cpu",
            Self::Cpus(shortage) => return shortage.to_string(),
            Self::Insufficient(resource) => {
                return format!("Insufficient NUMA {}", name(*resource));
            }
            Self::Misfit(misfit) => return misfit.text(name),
        };
        text.to_owned()
    }
}

/// Which resources a score looks at, and which end of a node it likes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scoring {
    pub strategy: Fill,
    pub weights: Vec<(ResourceId, i64)>,
}

impl Default for Scoring {
    fn default() -> Self {
        let weights = vec![(ResourceId::CPU, 1), (ResourceId::MEMORY, 1)];
        Self { strategy: Fill::Least, weights }
    }
}

impl Scoring {
    /// From 0 to 100. `room` gives capacity and what would be used with the pod; a resource the
    /// place does not have is left out.
    pub fn score(&self, room: impl Fn(ResourceId) -> (i64, i64)) -> i64 {
        let (mut sum, mut weights) = (0_i64, 0_i64);
        for (resource, weight) in &self.weights {
            let (capacity, used) = room(*resource);
            if capacity <= 0 {
                continue;
            }
            let counted = match self.strategy {
                Fill::Least if used > capacity => 0,
                Fill::Least => capacity - used,
                Fill::Most => used.min(capacity),
            };
            let score = counted.saturating_mul(100) / capacity;
            sum = sum.saturating_add(score.saturating_mul(*weight));
            weights = weights.saturating_add(*weight);
        }
        if weights == 0 { 0 } else { sum / weights }
    }
}

/// How the configuration wants scores.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules {
    /// Over whole nodes.
    pub node: Scoring,
    /// Over NUMA nodes; also says which of them is filled first.
    pub numa: Scoring,
}

/// What a node has and has given, all pods together.
pub trait Totals {
    fn allocatable(&self, resource: ResourceId) -> i64;
    fn requested(&self, resource: ResourceId) -> i64;
}

/// No machine has more.
const MOST_CPUS: i64 = 1 << 16;

/// CPUs a pod gets on a particular node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Binding {
    count: usize,
    bind: Bind,
    required: bool,
}

/// How much of each resource every NUMA node could give to a pod.
struct Wants {
    rows: [Want; Self::MOST],
    len: usize,
}

#[derive(Clone, Copy, Default)]
struct Want {
    quantity: i64,
    /// By position.
    left: [i64; Wants::ZONES],
}

impl Wants {
    const MOST: usize = 6;
    const ZONES: usize = 8;

    /// `None` for machines and pods that take the long way.
    fn new(state: &State, demand: &Demand, binding: Option<Binding>) -> Option<Self> {
        let zones = state.zones();
        if demand.numa_is_exclusive || zones.len() > Self::ZONES {
            return None;
        }
        let mut wants = Self { rows: [Want::default(); Self::MOST], len: 0 };
        for (resource, quantity) in demand.requests.iter() {
            let owners = zones.iter().filter(|zone| zone.amount(resource).is_some()).count();
            if owners == 0 && resource != ResourceId::CPU {
                continue;
            }
            let row = wants.rows.get_mut(wants.len).filter(|_| owners == zones.len())?;
            let binding = binding.filter(|_| resource == ResourceId::CPU);
            let unit = binding.map_or(1, |binding| state.portion(binding));
            row.quantity = binding.map_or(quantity, |_| quantity / 1_000);
            for (position, left) in row.left.iter_mut().enumerate().take(zones.len()) {
                *left = state.left(position, resource, binding).max(0) / unit * unit;
            }
            wants.len += 1;
        }
        Some(wants)
    }

    /// What [`share`] would find: it gives all there is, in whole portions.
    fn fit(&self, mask: Mask) -> bool {
        self.rows.iter().take(self.len).all(|row| {
            let given = mask.iter().map(|position| row.left.get(position).copied().unwrap_or(0));
            given.fold(0, i64::saturating_add) >= row.quantity
        })
    }
}

impl State {
    /// May the pod go here, and to which NUMA nodes? `None` is any.
    pub fn filter(
        &self,
        demand: &Demand,
        rules: &Rules,
        totals: &impl Totals,
    ) -> Result<Option<Mask>, Refusal> {
        let policy = self.policy_for(demand)?;
        if let Some(designated) = &demand.designated {
            return self.verify(designated, demand).map(|()| None);
        }
        self.check_amplified(demand, totals)?;
        let binding = self.binding(demand)?;
        match policy {
            None => self.check_count(binding).map(|()| None),
            Some(policy) => self.admit(policy, demand, binding, rules),
        }
    }

    /// From 0 to 100; 0 where the pod could not go.
    pub fn score(&self, demand: &Demand, rules: &Rules, totals: &impl Totals) -> i64 {
        match self.filter(demand, rules, totals) {
            Ok(mask) => self.score_at(mask, demand, rules, totals),
            Err(_) => 0,
        }
    }

    /// As [`State::score`], for the NUMA nodes the filter has found.
    pub fn score_at(
        &self,
        mask: Option<Mask>,
        demand: &Demand,
        rules: &Rules,
        totals: &impl Totals,
    ) -> i64 {
        let Ok(policy) = self.policy_for(demand) else { return 0 };
        let Ok(binding) = self.binding(demand) else { return 0 };
        let asked = |resource| self.price(demand, binding, resource);
        // What a best-effort pod will get is not decided before it is placed.
        let mask = mask.filter(|_| policy != Some(NumaTopologyPolicy::BestEffort));
        let Some(mask) = mask else {
            return rules.node.score(|resource| {
                let requested = match resource {
                    ResourceId::CPU => self.amplified_requests(totals),
                    _ => totals.requested(resource),
                };
                (totals.allocatable(resource), requested.saturating_add(asked(resource)))
            });
        };
        self.numa_score(mask, demand, binding, rules)
    }

    /// What the pod gets here. Nothing is recorded.
    pub fn allocate(&self, demand: &Demand, rules: &Rules) -> Result<Allocation, Refusal> {
        if let Some(designated) = &demand.designated {
            self.verify(designated, demand)?;
            return Ok(designated.clone());
        }
        let policy = self.policy_for(demand)?;
        let binding = self.binding(demand)?;
        let mask = match policy {
            None => None,
            Some(policy) => self.admit(policy, demand, binding, rules)?,
        };
        let strategy = self.strategy(rules.numa.strategy);
        match mask {
            None => self.allocate_anywhere(demand, binding, strategy),
            Some(mask) => self.allocate_inside(demand, binding, strategy, mask),
        }
    }

    /// The way this pod's CPUs are chosen here; `None` for a pod without CPUs of its own.
    pub fn effective_bind(&self, demand: &Demand) -> Option<Bind> {
        self.forced_bind().or(demand.bind).filter(|_| demand.cpu() > 0)
    }

    /// The one policy of node and pod.
    fn policy_for(&self, demand: &Demand) -> Result<Option<NumaTopologyPolicy>, Refusal> {
        match (self.policy(), demand.policy) {
            (Some(node), Some(pod)) if node != pod => Err(Refusal::PolicyMismatch),
            (node, pod) => Ok(node.or(pod)),
        }
    }

    fn binding(&self, demand: &Demand) -> Result<Option<Binding>, Refusal> {
        let Some(bind) = self.effective_bind(demand) else { return Ok(None) };
        let forced = self.forced_bind();
        if demand.cpu() % 1_000 != 0 {
            return Err(Refusal::Fractional);
        }
        let topology = self.topology().ok_or(Refusal::InvalidTopology)?;
        if demand.bind_is_required && demand.bind != Some(bind) {
            return Err(Refusal::BindConflict);
        }
        let required = forced.is_some() || demand.bind_is_required;
        let count = usize::try_from(demand.cpu() / 1_000).unwrap_or(usize::MAX);
        if required && bind == Bind::Full && count % topology.cpus_per_core() != 0 {
            return Err(Refusal::NotWholeCores);
        }
        Ok(Some(Binding { count, bind, required }))
    }

    /// What the pod costs of a resource here.
    fn price(&self, demand: &Demand, binding: Option<Binding>, resource: ResourceId) -> i64 {
        let asked = demand.requests.get(resource);
        if resource == ResourceId::CPU && binding.is_some() {
            self.cpu_ratio().apply(asked, Rounding::Up)
        } else {
            asked
        }
    }

    /// Requested CPU of the node with bound CPUs at their amplified price.
    fn amplified_requests(&self, totals: &impl Totals) -> i64 {
        let requested = totals.requested(ResourceId::CPU);
        let bound = self.bound().saturating_mul(1_000);
        if requested < bound {
            return requested;
        }
        (requested - bound).saturating_add(self.amplified(self.bound()))
    }

    fn check_amplified(&self, demand: &Demand, totals: &impl Totals) -> Result<(), Refusal> {
        if self.settings().ratios == Ratios::Unreadable {
            return Err(Refusal::InvalidRatio);
        }
        let ratio = self.cpu_ratio();
        if ratio <= units::Ratio::ONE || demand.cpu() == 0 {
            return Ok(());
        }
        let asked = match self.effective_bind(demand) {
            Some(_) => ratio.apply(demand.cpu(), Rounding::Up),
            None => demand.cpu(),
        };
        let left =
            totals.allocatable(ResourceId::CPU).saturating_sub(self.amplified_requests(totals));
        if asked > left { Err(Refusal::AmplifiedCpu) } else { Ok(()) }
    }

    fn check_count(&self, binding: Option<Binding>) -> Result<(), Refusal> {
        let Some(Binding { count, bind, required }) = binding else { return Ok(()) };
        if self.free_counts().usable(bind, required) < count {
            return Err(Refusal::Cpus(Shortage::NotEnough));
        }
        Ok(())
    }

    /// Is what an outside planner chose still there?
    fn verify(&self, chosen: &Allocation, demand: &Demand) -> Result<(), Refusal> {
        let has_enough = chosen.cpus.is_empty()
            || i64::try_from(chosen.cpus.len()).is_ok_and(|cpus| cpus * 1_000 >= demand.cpu());
        if !has_enough || !chosen.cpus.is_subset(self.free()) {
            return Err(Refusal::Cpus(Shortage::NotEnough));
        }
        for (id, share) in &chosen.shares {
            let zone = self.zones().iter().find(|zone| zone.id == *id);
            let zone = zone.ok_or(Refusal::NoNumaResources)?;
            for (resource, wanted) in share.iter() {
                let left =
                    zone.amount(resource).map_or(0, |own| own.capacity - self.used(zone, own));
                if wanted > left {
                    return Err(Refusal::Insufficient(resource));
                }
            }
        }
        Ok(())
    }

    /// Asks the topology manager for the NUMA nodes of a pod; `None` is any.
    fn admit(
        &self,
        policy: NumaTopologyPolicy,
        demand: &Demand,
        binding: Option<Binding>,
        rules: &Rules,
    ) -> Result<Option<Mask>, Refusal> {
        if self.zones().is_empty() {
            return Err(Refusal::NoNumaResources);
        }
        if let Some(mask) = self.smallest(demand, binding, rules) {
            let is_single = policy == NumaTopologyPolicy::SingleNumaNode;
            let is_whole = mask == Mask::first(self.zones().len());
            if !is_single || mask.len() == 1 {
                return Ok(Some(mask).filter(|_| !(is_single && is_whole)));
            }
        }
        let offers = self.offers(policy, demand, binding, rules);
        let occupancy: Vec<_> = match demand.numa_is_exclusive {
            true => self.zones().iter().map(|zone| zone.occupancy).collect(),
            false => Vec::new(),
        };
        let all = Mask::first(self.zones().len());
        let question = Question { policy, all, offers: &offers, occupancy: &occupancy };
        let mask = hint::admit(&question).map_err(Refusal::Misfit)?;
        if let Some(mask) = mask {
            self.shares(demand, binding, mask)?;
        }
        Ok(mask)
    }

    /// The answer in short, where the topology manager has nothing to weigh: every NUMA node has
    /// every resource and none is to be avoided. All resources then offer the same sets, and the
    /// best is among the smallest that fit. `None` where it has, or where nothing fits.
    fn smallest(&self, demand: &Demand, binding: Option<Binding>, rules: &Rules) -> Option<Mask> {
        let wants = Wants::new(self, demand, binding)?;
        let mut best: Option<(Mask, i64)> = None;
        for mask in self.masks().iter().filter(|mask| wants.fit(**mask)) {
            if best.is_some_and(|(best, _)| mask.len() > best.len()) {
                break;
            }
            let score = self.numa_score(*mask, demand, binding, rules);
            let is_better = |(best, highest): (Mask, i64)| *mask < best || score > highest;
            if best.is_none_or(is_better) {
                best = Some((*mask, score));
            }
        }
        best.map(|(mask, _)| mask)
    }

    /// Every set of NUMA nodes that could serve the pod, smallest first.
    fn offers(
        &self,
        policy: NumaTopologyPolicy,
        demand: &Demand,
        binding: Option<Binding>,
        rules: &Rules,
    ) -> Vec<Offer> {
        let is_numa = |id: ResourceId| self.zones().iter().any(|zone| zone.amount(id).is_some());
        let mut offers: Vec<Offer> = demand
            .requests
            .iter()
            .filter(|(resource, _)| is_numa(*resource))
            .map(|(resource, _)| Offer { resource, hints: Vec::new() })
            .collect();
        let mut smallest = u32::MAX;
        for mask in self.masks() {
            if self.shares(demand, binding, *mask).is_err() {
                continue;
            }
            smallest = smallest.min(mask.len());
            let preferred = mask.len() == smallest || policy == NumaTopologyPolicy::Restricted;
            let score = self.numa_score(*mask, demand, binding, rules);
            for offer in &mut offers {
                let lacks = |at: usize| self.amount_at(at, offer.resource).is_none();
                if !mask.iter().any(lacks) {
                    offer.hints.push(Hint { mask: Some(*mask), preferred, score });
                }
            }
        }
        offers
    }

    fn numa_score(
        &self,
        mask: Mask,
        demand: &Demand,
        binding: Option<Binding>,
        rules: &Rules,
    ) -> i64 {
        rules.numa.score(|resource| {
            let (capacity, used) = self.room(mask, resource);
            (capacity, used.saturating_add(self.price(demand, binding, resource)))
        })
    }

    fn amount_at(&self, position: usize, resource: ResourceId) -> Option<&Amount> {
        self.zones().get(position)?.amount(resource)
    }

    /// Capacity and usage of the NUMA nodes of a mask together.
    fn room(&self, mask: Mask, resource: ResourceId) -> (i64, i64) {
        let mut room = (0_i64, 0_i64);
        for zone in mask.iter().filter_map(|position| self.zones().get(position)) {
            if let Some(amount) = zone.amount(resource) {
                room.0 = room.0.saturating_add(amount.capacity);
                room.1 = room.1.saturating_add(self.used(zone, amount));
            }
        }
        room
    }

    /// What each NUMA node of a mask gives; the parts of each resource in order of node.
    fn shares(
        &self,
        demand: &Demand,
        binding: Option<Binding>,
        mask: Mask,
    ) -> Result<Vec<(ResourceId, Vec<Part>)>, Refusal> {
        let mut shares = Vec::with_capacity(4);
        for (resource, quantity) in demand.requests.iter() {
            let is_numa = self.zones().iter().any(|zone| zone.amount(resource).is_some());
            let binding = binding.filter(|_| resource == ResourceId::CPU);
            if !is_numa && binding.is_none() {
                continue;
            }
            let mut parts: Vec<Part> = mask
                .iter()
                .map(|position| Part::of(position, self.left(position, resource, binding)))
                .collect();
            let rest = match binding {
                None => share(&mut parts, quantity, 1),
                Some(binding) => {
                    let count = i64::try_from(binding.count).unwrap_or(i64::MAX);
                    share(&mut parts, count, self.portion(binding))
                }
            };
            if rest > 0 {
                return Err(Refusal::Insufficient(resource));
            }
            parts.sort_unstable_by_key(|part| part.zone);
            shares.push((resource, parts));
        }
        Ok(shares)
    }

    /// Bound CPUs are given out in whole cores where the policy demands it.
    fn portion(&self, binding: Binding) -> i64 {
        let per_core = self.topology().map_or(1, Topology::cpus_per_core);
        let is_whole = binding.required && binding.bind == Bind::Full;
        if is_whole { i64::try_from(per_core).unwrap_or(1) } else { 1 }
    }

    /// What a NUMA node could give: in CPUs for a pod that binds them, else in units.
    fn left(&self, position: usize, resource: ResourceId, binding: Option<Binding>) -> i64 {
        let Some(zone) = self.zones().get(position) else { return 0 };
        let left =
            zone.amount(resource).map(|own| own.capacity.saturating_sub(self.used(zone, own)));
        let Some(Binding { bind, required, .. }) = binding else { return left.unwrap_or(0) };
        let free = i64::try_from(zone.free.usable(bind, required)).unwrap_or(i64::MAX);
        // A zone that does not say how much CPU it has is as large as its CPUs.
        left.map_or(free, |left| free.min(self.affordable(left)))
    }

    /// How many CPUs amplified milli-cores pay for.
    fn affordable(&self, milli: i64) -> i64 {
        if milli <= 0 {
            return 0;
        }
        let mut cpus = (milli / self.amplified(1).max(1)).min(MOST_CPUS);
        // The price of many is rounded once, that of one each time.
        while cpus < MOST_CPUS && self.amplified(cpus + 1) <= milli {
            cpus += 1;
        }
        cpus
    }

    fn allocate_anywhere(
        &self,
        demand: &Demand,
        binding: Option<Binding>,
        strategy: Fill,
    ) -> Result<Allocation, Refusal> {
        let Some(binding) = binding else { return Ok(Allocation::default()) };
        let cpus = self.take(demand, binding, strategy, self.free(), binding.count)?;
        Ok(Allocation { cpus, exclusive: demand.exclusive, shares: Vec::new() })
    }

    fn allocate_inside(
        &self,
        demand: &Demand,
        binding: Option<Binding>,
        strategy: Fill,
        mask: Mask,
    ) -> Result<Allocation, Refusal> {
        let shares = self.shares(demand, binding, mask)?;
        let mut cpus = CpuSet::new();
        let mut given: Vec<(u16, Requests)> = Vec::with_capacity(4);
        for position in mask.iter() {
            let Some(zone) = self.zones().get(position) else { continue };
            let mut amounts = Vec::with_capacity(shares.len());
            for (resource, parts) in &shares {
                let Some(part) = parts.iter().find(|part| part.zone == position) else { continue };
                let bound = binding.filter(|_| *resource == ResourceId::CPU);
                if let Some(binding) = bound {
                    let topology = self.topology().ok_or(Refusal::InvalidTopology)?;
                    let inside = self.free().intersection(&topology.of_node(zone.id));
                    let count = usize::try_from(part.given).unwrap_or(usize::MAX);
                    let taken = self.take(demand, binding, strategy, &inside, count)?;
                    cpus.extend(taken.iter());
                }
                let scale = if bound.is_some() { 1_000 } else { 1 };
                amounts.push((*resource, part.given.saturating_mul(scale)));
            }
            let amounts: Requests = amounts.into_iter().collect();
            if !amounts.is_empty() {
                given.push((zone.id, amounts));
            }
        }
        Ok(Allocation { cpus, exclusive: demand.exclusive, shares: given })
    }

    fn take(
        &self,
        demand: &Demand,
        binding: Binding,
        strategy: Fill,
        available: &CpuSet,
        count: usize,
    ) -> Result<CpuSet, Refusal> {
        let topology = self.topology().ok_or(Refusal::InvalidTopology)?;
        let Binding { bind, required, .. } = binding;
        let ask = Ask { count, bind, required, exclusive: demand.exclusive, strategy };
        let marked = self.marked(demand.exclusive);
        take(topology, available, &marked, &ask).map_err(Refusal::Cpus)
    }
}

#[cfg(test)]
mod tests;
