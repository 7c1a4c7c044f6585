//! Conservation: what nodes are charged is what their pods ask for.

use std::collections::BTreeMap;

use super::{NodeIx, Phase, Room, Snapshot};
use crate::model::ResourceId;

impl Snapshot {
    /// Violations of the laws that hold between any two changes.
    pub fn check(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for (at, _) in (0u32..).zip(&self.slots) {
            self.check_slot(NodeIx(at), &mut broken);
        }
        for (at, pod) in self.pods.iter() {
            let is_charged = pod.node.is_some_and(|node| self.pods_on(node).contains(&at));
            let wants_charge = pod.phase != Phase::Pending;
            if is_charged != wants_charge {
                broken
                    .push(format!("pod {} is {:?} but charged: {is_charged}", pod.name, pod.phase));
            }
        }
        let live = self.slots.iter().filter(|slot| slot.node.is_some()).count();
        if live != self.live as usize {
            broken.push(format!("{live} nodes, counted {}", self.live));
        }
        broken.extend(self.extras.check());
        broken
    }

    fn check_slot(&self, at: NodeIx, broken: &mut Vec<String>) {
        let mut wanted: BTreeMap<ResourceId, i64> = BTreeMap::new();
        let mut room = Room::default();
        let mut ports = Vec::new();
        for pod in self.pods_on(at) {
            let Some(pod) = self.pods.get(*pod) else {
                broken.push(format!("{} holds a pod nobody knows", self.node_name(at)));
                continue;
            };
            room.pods += 1;
            for (total, amount) in room.nonzero.iter_mut().zip(pod.class.nonzero) {
                *total += amount;
            }
            for (resource, amount) in pod.class.requests.iter() {
                *wanted.entry(resource).or_default() += amount;
            }
            ports.extend(&pod.class.host_ports);
        }
        let found = self.rooms.get(at);
        if (found.pods, found.nonzero) != (room.pods, room.nonzero) {
            broken.push(format!("{}: {found:?}, pods add up to {room:?}", self.node_name(at)));
        }
        for id in (0u16..).map(ResourceId).take(self.resources.len()) {
            let (have, want) =
                (self.rooms.requested(id, at), wanted.get(&id).copied().unwrap_or(0));
            if have != want {
                let (node, name) = (self.node_name(at), self.resources.name(id));
                broken.push(format!("{node}: {name} requested {have}, pods add up to {want}"));
            }
        }
        let mut taken = self.ports_on(at).to_vec();
        taken.sort_unstable();
        ports.sort_unstable();
        if taken != ports {
            broken.push(format!("{}: ports {taken:?}, pods have {ports:?}", self.node_name(at)));
        }
    }
}
