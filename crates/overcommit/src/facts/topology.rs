//! A node's NUMA nodes and processor, as far as lending goes.

use api::kind::node_topology::{NodeResourceTopology, Zone, ZoneResource};
use api::protocol::name::NUMA_ZONE_PREFIX;
use api::protocol::resource::{BATCH_CPU, BATCH_MEMORY, CPU, MEMORY};
use api::protocol::topology::CPU_BASIC_INFO;
use units::Quantity;

use crate::Pair;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct TopologyFacts {
    pub zones: Box<[ZoneFacts]>,
    pub processor: Option<Processor>,
}

/// What the processor is, for the choice of a ratio.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Processor {
    pub model: Box<str>,
    pub has_hyper_threads: bool,
    pub has_turbo: bool,
}

/// One NUMA node.
#[derive(Debug, Clone, PartialEq)]
pub struct ZoneFacts {
    pub name: Box<str>,
    /// The number pods know it by.
    pub number: i32,
    /// What pods may use; `None` where the zone is silent.
    pub allocatable: Pair<Option<Quantity>>,
    pub batch: Pair<Option<ZoneShown>>,
}

/// What a zone shows of one resource.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ZoneShown {
    pub capacity: Quantity,
    pub allocatable: Quantity,
    pub available: Quantity,
}

impl TopologyFacts {
    pub fn read(topology: &NodeResourceTopology) -> Self {
        let zones = topology.zones.iter().enumerate().map(|(index, zone)| read_zone(index, zone));
        let processor = CPU_BASIC_INFO.get(&topology.metadata).map(|info| Processor {
            model: info.cpu_model.into(),
            has_hyper_threads: info.hyper_thread_enabled,
            has_turbo: info.turbo_enabled,
        });
        Self { zones: zones.collect(), processor }
    }

    /// Zones are counted when at least one of them holds cpu or memory.
    pub fn is_counted(&self) -> bool {
        let holds = |zone: &ZoneFacts| zone.allocatable.cpu.or(zone.allocatable.memory).is_some();
        self.zones.iter().any(holds)
    }
}

fn read_zone(index: usize, zone: &Zone) -> ZoneFacts {
    let find = |name: &str| zone.resources.iter().find(|resource| resource.name == name);
    let allocatable = |name| find(name).map(|resource| resource.allocatable.max(Quantity::ZERO));
    let shown = |resource: &ZoneResource| ZoneShown {
        capacity: resource.capacity,
        allocatable: resource.allocatable,
        available: resource.available,
    };
    let named = zone.name.strip_prefix(NUMA_ZONE_PREFIX).and_then(|number| number.parse().ok());
    ZoneFacts {
        name: zone.name.as_str().into(),
        number: named.unwrap_or_else(|| i32::try_from(index).unwrap_or(i32::MAX)),
        allocatable: Pair::new(allocatable(CPU), allocatable(MEMORY)),
        batch: Pair::new(find(BATCH_CPU).map(shown), find(BATCH_MEMORY).map(shown)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn zones_have_the_number_of_their_name_or_their_place() {
        let topology: NodeResourceTopology = serde_json::from_value(json!({
            "metadata": {"annotations": {CPU_BASIC_INFO.name:
                r#"{"cpuModel":"X","hyperThreadEnabled":true}"#}},
            "zones": [
                {"name": "node-1", "type": "Node", "resources": [
                    {"name": "cpu", "capacity": "32", "allocatable": "31", "available": "31"}]},
                {"name": "left", "type": "Node"},
            ],
        }))
        .unwrap();
        let facts = TopologyFacts::read(&topology);
        let numbers: Vec<i32> = facts.zones.iter().map(|zone| zone.number).collect();
        assert_eq!(numbers, [1, 1]);
        assert!(facts.is_counted());
        assert_eq!(facts.zones[0].allocatable.cpu, Some("31".parse().unwrap()));
        assert_eq!(
            facts.processor,
            Some(Processor { model: "X".into(), has_hyper_threads: true, has_turbo: false })
        );
        assert!(!TopologyFacts::default().is_counted());
    }
}
