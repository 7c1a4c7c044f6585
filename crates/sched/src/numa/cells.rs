//! The CPUs and NUMA nodes of every node, as pods come and go.
//!
//! A pod's allocation is remembered with the pod, whether we made it or its annotation says so, and
//! counts while the pod is charged to a node. A dry run that lifts a pod and puts it back thus
//! finds the same CPUs again. Topology objects are remembered by node name: they may come before
//! their node.

use std::collections::HashMap;
use std::sync::Arc;

use api::kind::NodeResourceTopology;
use api::metadata::pod::CpuExclusivePolicy;
use api::protocol::pod::{RESOURCE_SPEC, RESOURCE_STATUS};
use k8s_openapi::api::core::v1 as wire;

use super::demand::Demand;
use super::refusal::Refusal;
use super::scoring::Rules;
use super::state::{Allocation, Machine, Settings, State};
use super::take::Exclusive;
use super::wire::Texts;
use crate::model::{Names, Node, Resources, Symbol};
use crate::snapshot::{NodeIx, Pod, PodIx};

/// What a pod holds, and where it is charged.
#[derive(Debug, Clone, Default)]
struct Seat {
    held: Option<Box<Allocation>>,
    at: Option<NodeIx>,
}

#[derive(Debug, Default)]
pub struct Cells {
    states: Vec<State>,
    seats: Vec<Seat>,
    machines: HashMap<Symbol, Arc<Machine>>,
    /// Nodes that changed without a pod coming or going.
    dirty: Vec<NodeIx>,
}

impl Cells {
    pub fn state(&self, at: NodeIx) -> Option<&State> {
        self.states.get(at.index())
    }

    /// What a pod holds.
    pub fn held(&self, pod: PodIx) -> Option<&Allocation> {
        self.seats.get(pod.index())?.held.as_deref()
    }

    pub fn grow(&mut self, slots: usize) {
        self.states.resize_with(slots, State::default);
    }

    pub fn set_node(&mut self, at: NodeIx, node: &Node, names: &Names, resources: &mut Resources) {
        let Some(state) = self.states.get_mut(at.index()) else { return };
        state.configure(Settings::read(&Meta { node, names }, resources));
        state.describe(self.machines.get(&node.name).cloned().unwrap_or_default());
    }

    pub fn remove_node(&mut self, at: NodeIx) {
        if let Some(state) = self.states.get_mut(at.index()) {
            state.configure(Settings::default());
            state.describe(Arc::default());
        }
    }

    /// A topology object came, or went. `at` is the node's place, when the node is there.
    pub fn set_topology(
        &mut self,
        node: Symbol,
        object: Option<&NodeResourceTopology>,
        at: Option<NodeIx>,
        resources: &mut Resources,
    ) -> bool {
        let machine = object.map(|object| Arc::new(Machine::read(object, resources)));
        match &machine {
            Some(machine) => self.machines.insert(node, Arc::clone(machine)),
            None => self.machines.remove(&node),
        };
        let state = at.and_then(|at| self.states.get_mut(at.index()));
        state.is_some_and(|state| state.describe(machine.unwrap_or_default()))
    }

    pub fn attached(&mut self, at: NodeIx, index: PodIx, pod: &Pod) {
        let seat = self.seat(index);
        seat.at = Some(at);
        let Some(held) = seat.held.as_deref().cloned() else { return };
        if let Some(state) = self.states.get_mut(at.index()) {
            state.hold(Arc::clone(&pod.uid), held);
        }
    }

    pub fn detached(&mut self, at: NodeIx, index: PodIx, pod: &Pod) {
        let seat = self.seat(index);
        seat.at = None;
        if seat.held.is_some()
            && let Some(state) = self.states.get_mut(at.index())
        {
            state.release(&pod.uid);
        }
    }

    /// A pod that has a node says in its annotation what it holds there. Without the annotation
    /// what we gave it stays: the pod may be on its way to the API server.
    pub fn pod_seen(&mut self, index: PodIx, object: &wire::Pod, resources: &mut Resources) {
        let node = object.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let is_placed = node.is_some_and(|node| !node.is_empty());
        let status = RESOURCE_STATUS.get(&object.metadata).filter(|_| is_placed);
        let Some(status) = status else { return };
        let spec = RESOURCE_SPEC.get(&object.metadata).unwrap_or_default();
        let exclusive = match spec.preferred_cpu_exclusive_policy {
            None | Some(CpuExclusivePolicy::None) => Exclusive::None,
            Some(CpuExclusivePolicy::PcpuLevel) => Exclusive::Core,
            Some(CpuExclusivePolicy::NumaNodeLevel) => Exclusive::Node,
        };
        let allocation = Allocation::read(&status, exclusive, resources);
        let uid = object.metadata.uid.as_deref().or(object.metadata.name.as_deref());
        self.give(index, uid.unwrap_or_default(), allocation);
    }

    fn give(&mut self, index: PodIx, uid: &str, allocation: Allocation) {
        let seat = self.seat(index);
        if seat.held.as_deref() == Some(&allocation) {
            return;
        }
        seat.held = Some(Box::new(allocation.clone())).filter(|held| !held.is_empty());
        let Some(at) = seat.at else { return };
        if let Some(state) = self.states.get_mut(at.index())
            && state.hold(uid.into(), allocation)
        {
            self.dirty.push(at);
        }
    }

    pub fn pod_gone(&mut self, index: PodIx) {
        if let Some(seat) = self.seats.get_mut(index.index()) {
            *seat = Seat::default();
        }
    }

    /// Gives a pod that was just placed its CPUs and NUMA resources.
    pub fn reserve(
        &mut self,
        at: NodeIx,
        index: PodIx,
        uid: &Arc<str>,
        demand: &Demand,
        rules: &Rules,
    ) -> Result<(), Refusal> {
        let Some(state) = self.states.get_mut(at.index()) else { return Ok(()) };
        let allocation = state.allocate(demand, rules)?;
        state.hold(Arc::clone(uid), allocation.clone());
        let held = Some(Box::new(allocation)).filter(|held| !held.is_empty());
        self.seat(index).held = held;
        Ok(())
    }

    /// Takes back what [`Cells::reserve`] gave.
    pub fn unreserve(&mut self, at: NodeIx, index: PodIx, uid: &str) {
        self.seat(index).held = None;
        if let Some(state) = self.states.get_mut(at.index()) {
            state.release(uid);
        }
    }

    /// Moves out the nodes that changed on their own.
    pub fn drain(&mut self, touched: &mut Vec<NodeIx>) {
        touched.append(&mut self.dirty);
    }

    /// CPUs and shares that are not those of the pods charged there.
    pub fn check(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut expected = vec![0_usize; self.states.len()];
        for seat in &self.seats {
            if let (Some(at), Some(held)) = (seat.at, &seat.held) {
                let found = self
                    .states
                    .get(at.index())
                    .is_some_and(|state| state.pods().any(|(_, own)| own == &**held));
                if !found {
                    wrong.push(format!("slot {}: an allocation is not counted: {held:?}", at.0));
                }
                if let Some(count) = expected.get_mut(at.index()) {
                    *count += 1;
                }
            }
        }
        for (at, (state, expected)) in self.states.iter().zip(expected).enumerate() {
            let counted = state.pods().count();
            if counted != expected {
                wrong.push(format!("slot {at}: {counted} allocations for {expected} pods"));
            }
            if !state.is_consistent() {
                wrong.push(format!("slot {at}: sums differ from the allocations"));
            }
        }
        wrong
    }

    fn seat(&mut self, index: PodIx) -> &mut Seat {
        if self.seats.len() <= index.index() {
            self.seats.resize(index.index() + 1, Seat::default());
        }
        &mut self.seats[index.index()]
    }
}

/// Labels and annotations of a node.
struct Meta<'a> {
    node: &'a Node,
    names: &'a Names,
}

impl Texts for Meta<'_> {
    fn label(&self, name: &str) -> Option<&str> {
        let value = self.node.labels.get(self.names.find(name)?)?;
        Some(self.names.text(value))
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        let value = self.node.annotations.get(self.names.find(name)?)?;
        Some(self.names.text(value))
    }
}
