//! What a node has and what is taken of it.

use crate::model::{Requests, ResourceId, Template};

use super::NodeIx;

const NATIVE: usize = ResourceId::NATIVE as usize;

/// Native resources of one node, together on two cache lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Room {
    pub allocatable: [i64; NATIVE],
    pub requested: [i64; NATIVE],
    /// CPU and memory with defaults for containers that declare none; scores use it.
    pub nonzero: [i64; 2],
    pub pods: i64,
    pub max_pods: i64,
}

/// All other resources, one column each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Column {
    allocatable: Vec<i64>,
    requested: Vec<i64>,
}

#[derive(Debug, Default)]
pub struct Rooms {
    rooms: Vec<Room>,
    scalars: Vec<Column>,
}

impl Rooms {
    pub fn get(&self, node: NodeIx) -> Room {
        self.rooms.get(node.index()).copied().unwrap_or_default()
    }

    pub fn allocatable(&self, resource: ResourceId, node: NodeIx) -> i64 {
        if resource.is_scalar() {
            let column = self.scalars.get(resource.index() - NATIVE);
            return column.and_then(|one| one.allocatable.get(node.index())).copied().unwrap_or(0);
        }
        let room = self.rooms.get(node.index());
        room.and_then(|room| room.allocatable.get(resource.index())).copied().unwrap_or(0)
    }

    pub fn requested(&self, resource: ResourceId, node: NodeIx) -> i64 {
        if resource.is_scalar() {
            let column = self.scalars.get(resource.index() - NATIVE);
            return column.and_then(|one| one.requested.get(node.index())).copied().unwrap_or(0);
        }
        let room = self.rooms.get(node.index());
        room.and_then(|room| room.requested.get(resource.index())).copied().unwrap_or(0)
    }

    /// Makes place for nodes up to this one.
    pub(super) fn grow(&mut self, nodes: usize) {
        if self.rooms.len() < nodes {
            self.rooms.resize(nodes, Room::default());
            for column in &mut self.scalars {
                column.allocatable.resize(nodes, 0);
                column.requested.resize(nodes, 0);
            }
        }
    }

    pub(super) fn set_allocatable(&mut self, node: NodeIx, amounts: &Requests, max_pods: i64) {
        if let Some(room) = self.rooms.get_mut(node.index()) {
            room.allocatable = [0; NATIVE];
            room.max_pods = max_pods;
        }
        for column in &mut self.scalars {
            if let Some(cell) = column.allocatable.get_mut(node.index()) {
                *cell = 0;
            }
        }
        for (resource, amount) in amounts.iter() {
            if let Some(cell) = self.allocatable_mut(resource, node) {
                *cell = amount;
            }
        }
    }

    /// Adds a pod, or takes it away with `sign` −1.
    pub(super) fn charge(&mut self, node: NodeIx, pod: &Template, sign: i64) {
        if let Some(room) = self.rooms.get_mut(node.index()) {
            room.pods += sign;
            for (total, amount) in room.nonzero.iter_mut().zip(pod.nonzero) {
                *total = total.saturating_add(sign.saturating_mul(amount));
            }
        }
        for (resource, amount) in pod.requests.iter() {
            if let Some(cell) = self.requested_mut(resource, node) {
                *cell = cell.saturating_add(sign.saturating_mul(amount));
            }
        }
    }

    fn column(&mut self, resource: ResourceId) -> Option<&mut Column> {
        let at = resource.index() - NATIVE;
        let nodes = self.rooms.len();
        while self.scalars.len() <= at {
            self.scalars.push(Column { allocatable: vec![0; nodes], requested: vec![0; nodes] });
        }
        self.scalars.get_mut(at)
    }

    fn allocatable_mut(&mut self, resource: ResourceId, node: NodeIx) -> Option<&mut i64> {
        if resource.is_scalar() {
            return self.column(resource)?.allocatable.get_mut(node.index());
        }
        self.rooms.get_mut(node.index())?.allocatable.get_mut(resource.index())
    }

    fn requested_mut(&mut self, resource: ResourceId, node: NodeIx) -> Option<&mut i64> {
        if resource.is_scalar() {
            return self.column(resource)?.requested.get_mut(node.index());
        }
        self.rooms.get_mut(node.index())?.requested.get_mut(resource.index())
    }
}
