//! The cluster as decisions see it: nodes by index, what is free on each, and who is where.
//!
//! There is one snapshot and one writer. Nodes live in dense slots ([`NodeIx`]); a slot is kept
//! while the node exists or a pod is still charged to it, so a pod that arrives before its node
//! (or outlives it) is never lost. Every change is logged ([`Log`]) and whoever keeps something
//! for every node catches up from there.
//!
//! Applying the same object twice changes nothing. A dry run ([`Snapshot::lift`],
//! [`Snapshot::drop_on`]) changes the columns without logging and must undo itself.

mod check;
mod company;
mod extras;
mod log;
mod pods;
mod reports;
mod room;
mod storage;
mod workloads;

use std::collections::HashMap;
use std::sync::Arc;

pub use company::{Company, Headcount, Members};
pub use extras::Extras;
pub use log::{Change, Log, What};
pub use pods::{Phase, Pod, PodIx, Pods};
pub use room::{Room, Rooms};
pub use storage::{
    Attachment, Capacity, Claim, ClaimKey, Modes, Promise, Storage, StorageClass, Users, Volume,
};
pub use workloads::{Controller, Workloads};

use crate::model::{Classes, HostPort, Names, Node, Resources, Symbol};
use crate::plugin::Epoch;
use crate::tie;

/// A node's slot: an index into every column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIx(pub u32);

impl NodeIx {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One slot: a node, or pods that wait for one, or nothing.
#[derive(Debug, Default)]
struct Slot {
    name: Option<Symbol>,
    node: Option<Arc<Node>>,
    pods: Vec<PodIx>,
    ports: Vec<HostPort>,
}

#[derive(Debug, Default)]
pub struct Snapshot {
    pub names: Names,
    pub resources: Resources,
    pub classes: Classes,
    pub pods: Pods,
    /// State of plugins that follows pods and nodes.
    pub extras: Extras,
    rooms: Rooms,
    slots: Vec<Slot>,
    ties: Vec<u64>,
    by_name: HashMap<Symbol, NodeIx>,
    free: Vec<NodeIx>,
    /// Slots that hold a node.
    live: u32,
    /// How many nodes hold an image.
    images: HashMap<Symbol, u32>,
    epochs: [u64; Epoch::COUNT],
    log: Log,
}

impl Snapshot {
    pub fn rooms(&self) -> &Rooms {
        &self.rooms
    }

    pub fn log(&self) -> &Log {
        &self.log
    }

    /// How many slots there are, live or not: the length of every column.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// How many nodes there are.
    pub fn live(&self) -> u32 {
        self.live
    }

    pub fn node(&self, node: NodeIx) -> Option<&Arc<Node>> {
        self.slots.get(node.index())?.node.as_ref()
    }

    pub fn node_by_name(&self, name: Symbol) -> Option<NodeIx> {
        let node = *self.by_name.get(&name)?;
        self.node(node).map(|_| node)
    }

    /// The slot of a name, node or not.
    pub fn slot_named(&self, name: Symbol) -> Option<NodeIx> {
        self.by_name.get(&name).copied()
    }

    pub fn find_node(&self, name: &str) -> Option<NodeIx> {
        self.node_by_name(self.names.find(name)?)
    }

    /// The name of a slot, also of one whose node is gone.
    pub fn node_name(&self, node: NodeIx) -> &str {
        let name = self.slots.get(node.index()).and_then(|slot| slot.name);
        name.map_or("", |name| self.names.text(name))
    }

    /// All nodes, by index.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeIx, &Arc<Node>)> {
        let numbered = (0u32..).map(NodeIx).zip(&self.slots);
        numbered.filter_map(|(node, slot)| slot.node.as_ref().map(|found| (node, found)))
    }

    /// Pods charged to a node, in no order that means anything.
    pub fn pods_on(&self, node: NodeIx) -> &[PodIx] {
        self.slots.get(node.index()).map_or(&[], |slot| &slot.pods)
    }

    /// Host ports taken on a node.
    pub fn ports_on(&self, node: NodeIx) -> &[HostPort] {
        self.slots.get(node.index()).map_or(&[], |slot| &slot.ports)
    }

    /// A number that orders nodes of equal score, fixed by the node's name.
    pub fn tie(&self, node: NodeIx) -> u64 {
        self.ties.get(node.index()).copied().unwrap_or(0)
    }

    /// The same for all slots.
    pub fn ties(&self) -> &[u64] {
        &self.ties
    }

    /// How many nodes hold this image.
    pub fn holders(&self, image: Symbol) -> u32 {
        self.images.get(&image).copied().unwrap_or(0)
    }

    pub fn epoch(&self, epoch: Epoch) -> u64 {
        if epoch == Epoch::Company {
            return self.extras.company.version();
        }
        self.epochs.get(epoch as usize).copied().unwrap_or(0)
    }

    /// Says that one of the facts outside of nodes and pods has changed.
    pub fn advance(&mut self, epoch: Epoch) {
        if let Some(number) = self.epochs.get_mut(epoch as usize) {
            *number += 1;
        }
    }

    /// Says that a plugin's own state of a node has changed.
    pub fn touch(&mut self, node: NodeIx) {
        self.note(node, What::State);
    }

    /// A node came or changed. Says whether anything is different now.
    pub fn set_node(&mut self, node: Node) -> bool {
        let at = self.slot_of(node.name);
        let Some(slot) = self.slots.get_mut(at.index()) else { return false };
        if slot.node.as_deref() == Some(&node) {
            return false;
        }
        let node = Arc::new(node);
        let before = slot.node.replace(Arc::clone(&node));
        if before.is_none() {
            self.live += 1;
            self.advance(Epoch::Nodes);
            self.advance(Epoch::Images);
        } else if before.as_ref().is_some_and(|before| before.images != node.images) {
            self.advance(Epoch::Images);
        }
        self.count_images(before.as_deref(), Some(&node));
        self.rooms.set_allocatable(at, &node.allocatable, node.max_pods);
        self.extras.node_set(at, &node, &self.names, &mut self.resources);
        self.note(at, What::Node);
        true
    }

    /// A node went. Its pods stay charged until they go.
    pub fn remove_node(&mut self, name: Symbol) -> bool {
        let Some(at) = self.by_name.get(&name).copied() else { return false };
        let Some(slot) = self.slots.get_mut(at.index()) else { return false };
        let Some(before) = slot.node.take() else { return false };
        self.live -= 1;
        self.advance(Epoch::Nodes);
        self.advance(Epoch::Images);
        self.count_images(Some(&before), None);
        self.rooms.set_allocatable(at, &Default::default(), 0);
        self.extras.node_gone(at);
        self.note(at, What::Node);
        self.release_slot(at);
        true
    }

    /// Charges a pod to a node known by name, which need not exist yet.
    pub fn attach(&mut self, pod: PodIx, node: Symbol) -> NodeIx {
        let at = self.slot_of(node);
        self.drop_on(pod, at);
        if let Some(found) = self.pods.get_mut(pod) {
            found.node = Some(at);
            let (class, is_terminating) = (Arc::clone(&found.class), found.is_terminating);
            self.note(at, What::Added { class, is_terminating });
        }
        at
    }

    /// Takes a pod off the node it is charged to.
    pub fn detach(&mut self, pod: PodIx) -> Option<NodeIx> {
        let at = self.pods.get(pod)?.node?;
        self.lift(pod, at);
        if let Some(found) = self.pods.get_mut(pod) {
            found.node = None;
            let (class, is_terminating) = (Arc::clone(&found.class), found.is_terminating);
            self.note(at, What::Removed { class, is_terminating });
        }
        self.release_slot(at);
        Some(at)
    }

    /// Dry run: the pod is there. Undo with [`lift`](Self::lift).
    pub fn drop_on(&mut self, pod: PodIx, node: NodeIx) {
        let Some(found) = self.pods.get(pod) else { return };
        let Some(slot) = self.slots.get_mut(node.index()) else { return };
        slot.pods.push(pod);
        slot.ports.extend(&found.class.host_ports);
        self.rooms.charge(node, &found.class, 1);
        self.extras.attached(node, pod, found, &self.names, &self.resources);
    }

    /// Dry run: the pod is not there. Undo with [`drop_on`](Self::drop_on).
    pub fn lift(&mut self, pod: PodIx, node: NodeIx) {
        let Some(found) = self.pods.get(pod) else { return };
        let Some(slot) = self.slots.get_mut(node.index()) else { return };
        let Some(at) = slot.pods.iter().position(|one| *one == pod) else { return };
        slot.pods.swap_remove(at);
        for port in &found.class.host_ports {
            if let Some(at) = slot.ports.iter().position(|one| one == port) {
                slot.ports.swap_remove(at);
            }
        }
        self.rooms.charge(node, &found.class, -1);
        self.extras.detached(node, pod, found);
    }

    fn note(&mut self, node: NodeIx, what: What) {
        // Longer than the nodes are many, catching up costs more than starting over.
        let capacity = self.slots.len().max(1024);
        self.log.push(Change { node, what }, capacity);
    }

    fn slot_of(&mut self, name: Symbol) -> NodeIx {
        if let Some(at) = self.by_name.get(&name) {
            return *at;
        }
        let at = self.free.pop().unwrap_or_else(|| {
            let at = NodeIx(u32::try_from(self.slots.len()).unwrap_or(u32::MAX));
            self.slots.push(Slot::default());
            self.ties.push(0);
            self.rooms.grow(self.slots.len());
            self.extras.grow(self.slots.len());
            at
        });
        if let (Some(slot), Some(tie)) =
            (self.slots.get_mut(at.index()), self.ties.get_mut(at.index()))
        {
            slot.name = Some(name);
            *tie = tie::of(self.names.text(name).as_bytes());
        }
        self.by_name.insert(name, at);
        at
    }

    fn release_slot(&mut self, at: NodeIx) {
        let Some(slot) = self.slots.get_mut(at.index()) else { return };
        if slot.node.is_some() || !slot.pods.is_empty() {
            return;
        }
        if let Some(name) = slot.name.take() {
            self.by_name.remove(&name);
            self.free.push(at);
        }
    }

    fn count_images(&mut self, before: Option<&Node>, after: Option<&Node>) {
        for image in before.iter().flat_map(|node| &node.images) {
            if let Some(count) = self.images.get_mut(&image.name) {
                *count -= 1;
                if *count == 0 {
                    self.images.remove(&image.name);
                }
            }
        }
        for image in after.iter().flat_map(|node| &node.images) {
            *self.images.entry(image.name).or_default() += 1;
        }
    }
}
