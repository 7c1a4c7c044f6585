//! What each NUMA node holds.

use std::collections::BTreeSet;

use api::protocol::node::ENABLE_NUMA_RESERVATION;
use api::protocol::resource::{CPU, HUGEPAGES_1GI, HUGEPAGES_2MI, MEMORY};
use api::resources::{WireList, amount};
use k8s_openapi::api::core::v1::Node;
use units::{Format, Quantity};

use super::{Inputs, NumaNode, TopologyError};

/// One NUMA node: its name and what we say about it.
#[derive(Debug, Clone, PartialEq)]
pub struct NumaZone {
    pub name: String,
    /// In order of name.
    pub resources: Vec<ZoneAmount>,
}

/// What is there of one resource, and what pods may have of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ZoneAmount {
    pub name: &'static str,
    pub capacity: Quantity,
    pub allocatable: Quantity,
}

pub(super) fn zones(inputs: &Inputs<'_>) -> Result<Vec<NumaZone>, TopologyError> {
    let machine = inputs.machine;
    let nodes: BTreeSet<u16> = machine.cpus.iter().map(|cpu| cpu.numa).collect();
    let count = machine.numa.len();
    if nodes.len() != count || machine.numa.iter().any(|numa| !nodes.contains(&numa.id)) {
        return Err(TopologyError::NumaCount { cpus: nodes.len(), memory: count });
    }
    let is_reserving = ENABLE_NUMA_RESERVATION.get(&inputs.node.metadata) == Some(true);
    let kept = |name| if is_reserving { share_kept(inputs.node, name, count) } else { 0 };
    let (kept_cpu, kept_memory) = (kept(CPU), kept(MEMORY));
    let zone = |numa: &NumaNode| {
        let cpus = machine.cpus.iter().filter(|cpu| cpu.numa == numa.id).count();
        let cpus = i64::try_from(cpus).unwrap_or(i64::MAX);
        let huge = if inputs.huge_pages { (numa.huge_2mi.0, numa.huge_1gi.0) } else { (0, 0) };
        let memory = (numa.memory.0).saturating_sub(huge.0).saturating_sub(huge.1).max(0);
        let fixed = |name, value| {
            let value = Quantity::from_int(value, Format::BinarySi);
            ZoneAmount { name, capacity: value, allocatable: value }
        };
        let shrinking = |name, capacity: Quantity, kept| ZoneAmount {
            name,
            capacity,
            allocatable: if kept == 0 {
                capacity
            } else {
                let left = capacity.milli_value().saturating_sub(kept).max(0);
                Quantity::from_milli(left, capacity.format())
            },
        };
        NumaZone {
            name: format!("node-{}", numa.id),
            resources: vec![
                shrinking(CPU, Quantity::from_int(cpus, Format::DecimalSi), kept_cpu),
                fixed(HUGEPAGES_1GI, huge.1),
                fixed(HUGEPAGES_2MI, huge.0),
                shrinking(MEMORY, Quantity::from_int(memory, Format::BinarySi), kept_memory),
            ],
        }
    };
    Ok(machine.numa.iter().map(zone).collect())
}

/// What each of `count` NUMA nodes gives to what the node keeps from pods, in thousandths, rounded up.
fn share_kept(node: &Node, name: &str, count: usize) -> i64 {
    let Some(status) = &node.status else { return 0 };
    let of = |list: &Option<WireList>| list.as_ref().and_then(|list| list.get(name)).map(amount);
    let (Some(capacity), Some(allocatable)) = (of(&status.capacity), of(&status.allocatable))
    else {
        return 0;
    };
    let kept = capacity.milli_value().saturating_sub(allocatable.milli_value()).max(0);
    let count = i64::try_from(count).unwrap_or(i64::MAX).max(1);
    kept / count + i64::from(kept % count != 0)
}
