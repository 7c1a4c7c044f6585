//! What is left of each NUMA node for batch work?
//!
//! The node's formula on each zone. What belongs to no zone is divided evenly: the system's use,
//! the reserve, pods without a placement, and reports of pods that are gone. A pod that was placed
//! on some zones is divided among those.

use std::num::NonZero;

use crate::batch::{Terms, left};
use crate::facts::{PodUsage, Pods, TopologyFacts, ZoneFacts, ZoneShown};
use crate::load::{Charge, Line, lines};
use crate::publish::is_worth_writing;
use crate::strategy::{CpuCalculation, Lending, MemoryCalculation};
use crate::{Amounts, Pair};
use units::{Quantity, Rounding, Scale};

/// What a zone should show of batch resources; `None` leaves a resource as it is.
#[derive(Debug, Clone, PartialEq)]
pub struct ZoneWrite {
    pub zone: Box<str>,
    /// CPU in milli-cores, memory in bytes.
    pub batch: Pair<Option<Quantity>>,
}

/// What every zone has left, exactly, in the order of the zones.
pub fn zones(
    topology: &TopologyFacts,
    system: Amounts,
    reserved: Amounts,
    pods: &Pods,
    reports: &[PodUsage],
    lending: &Lending,
) -> Vec<Amounts> {
    let Some(count) = i64::try_from(topology.zones.len()).ok().and_then(NonZero::new) else {
        return Vec::new();
    };
    let mut charged = vec![Amounts::ZERO; topology.zones.len()];
    for line in lines(pods, reports) {
        let Some(charge) = line.charge() else { continue };
        let whole = chosen(charge, lending);
        let placed = match line {
            Line::Present(pod, _) => &*pod.numa_nodes,
            _ => &[],
        };
        spread(&mut charged, &topology.zones, placed, whole, count);
    }
    let (system, reserved) = (system.split(count), reserved.split(count));
    let zones = topology.zones.iter().zip(charged);
    zones
        .map(|(zone, charged)| {
            let terms = Terms {
                capacity: zone.allocatable.map(Option::unwrap_or_default),
                system,
                hosts: Amounts::ZERO,
                reserved,
                request: charged,
                usage: charged,
                larger: charged,
            };
            left(&terms, lending).left
        })
        .collect()
}

/// The one of a pod's three charges that the policies look at.
fn chosen(charge: Charge, lending: &Lending) -> Amounts {
    Pair::new(
        match lending.cpu_policy {
            CpuCalculation::Usage => charge.usage.cpu,
            CpuCalculation::MaxUsageRequest => charge.larger.cpu,
        },
        match lending.memory_policy {
            MemoryCalculation::Usage => charge.usage.memory,
            MemoryCalculation::Request => charge.request.memory,
            MemoryCalculation::MaxUsageRequest => charge.larger.memory,
        },
    )
}

fn spread(
    charged: &mut [Amounts],
    zones: &[ZoneFacts],
    placed: &[i32],
    whole: Amounts,
    count: NonZero<i64>,
) {
    let is_placed = |zone: &ZoneFacts| placed.contains(&zone.number);
    let valid = zones.iter().filter(|zone| is_placed(zone)).count();
    let on_some = i64::try_from(valid).ok().and_then(NonZero::new);
    let part = whole.split(on_some.unwrap_or(count));
    for (zone, sum) in zones.iter().zip(charged) {
        if on_some.is_none() || is_placed(zone) {
            *sum += part;
        }
    }
}

/// What a zone shows for `left`: milli-cores times the normalization ratio, not rounded to whole
/// ones, and exact bytes.
pub fn shown(left: Amounts, factor: Option<f64>) -> Amounts {
    const ONE: NonZero<i64> = NonZero::new(1).unwrap();
    let cpu = match factor {
        Some(factor) => {
            let micros = left.cpu.to_int(Scale::Micro, Rounding::Up);
            Quantity::from_milli(crate::pair::truncated(micros, factor), left.cpu.format())
        }
        None => left.cpu.scale(1_000, ONE, Rounding::Up),
    };
    Amounts::new(cpu, left.memory)
}

/// Which zones must be written so that they show `wanted`; without it they lend nothing.
pub fn writes(
    topology: &TopologyFacts,
    wanted: Option<&[Amounts]>,
    threshold: f64,
) -> Vec<ZoneWrite> {
    let mut all = Vec::new();
    for (index, zone) in topology.zones.iter().enumerate() {
        let wanted = match wanted {
            Some(wanted) => wanted.get(index).map(|wanted| wanted.map(Some)).unwrap_or_default(),
            // Zeros end what was lent; where nothing was, there is nothing to end.
            None => zone.batch.map(|shown| shown.map(|_| Quantity::ZERO)),
        };
        let batch = wanted
            .zip(zone.batch)
            .map(|(wanted, shown)| wanted.filter(|wanted| must_write(shown, *wanted, threshold)));
        if batch.cpu.or(batch.memory).is_some() {
            all.push(ZoneWrite { zone: zone.name.clone(), batch });
        }
    }
    all
}

fn must_write(shown: Option<ZoneShown>, wanted: Quantity, threshold: f64) -> bool {
    let Some(shown) = shown else { return true };
    [shown.capacity, shown.allocatable, shown.available]
        .into_iter()
        .any(|old| is_worth_writing(Some(old), Some(wanted), threshold))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{N, gib};

    fn left_of(node: &N) -> Vec<Pair<i64>> {
        let why = node.batch();
        let system = why.terms.system + why.terms.hosts;
        let lending = &node.strategies.lending;
        let topology = node.topology.as_ref().unwrap();
        zones(topology, system, why.terms.reserved, &node.pods, &node.metric.pods, lending)
            .into_iter()
            .map(Amounts::counts)
            .collect()
    }

    #[test]
    fn zones_of_the_example_sum_to_the_node() {
        let node = N::new().with_zones();
        let found = left_of(&node);
        assert_eq!(found, [Pair::new(8_200, 33_500_744_909), Pair::new(6_200, 44_238_163_149)]);
        assert_eq!(found.iter().map(|zone| zone.cpu).sum::<i64>(), 14_400);
        assert_eq!(found.iter().map(|zone| zone.memory).sum::<i64>(), 77_738_908_058);
    }

    #[test]
    fn zones_are_found_by_name_not_by_place() {
        let mut node = N::new().with_zones();
        let before = left_of(&node);
        if let Some(topology) = &mut node.topology {
            topology.zones.reverse();
        }
        let mut after = left_of(&node);
        after.reverse();
        assert_eq!(before, after);
    }

    #[test]
    fn policies_choose_what_zones_charge() {
        let mut node = N::new().with_zones();
        node.strategies.lending.memory_policy = MemoryCalculation::Request;
        let found = left_of(&node);
        assert_eq!(found.iter().map(|zone| zone.memory).sum::<i64>(), 58_411_555_226);
        node.strategies.lending.cpu_policy = CpuCalculation::MaxUsageRequest;
        node.strategies.lending.memory_policy = MemoryCalculation::MaxUsageRequest;
        let found = left_of(&node);
        let cpus: Vec<i64> = found.iter().map(|zone| zone.cpu).collect();
        assert_eq!(cpus, [0, 6_200], "a full zone takes nothing from its neighbour");
        assert_eq!(found.iter().map(|zone| zone.memory).sum::<i64>(), 49_821_620_634);
    }

    #[test]
    fn b11_zones_keep_their_fraction() {
        let left = Amounts::from_counts(Pair::new(14_401, 5));
        assert_eq!(shown(left, Some(1.15)).cpu.to_string(), "16561149m");
        assert_eq!(shown(left, None).cpu.to_string(), "14401");
        assert_eq!(shown(left, Some(1.15)).memory.to_string(), "5");
    }

    #[test]
    fn zones_are_written_when_a_field_moved_by_more_than_the_threshold() {
        let amount = |count: i64| Quantity::from_int(count, units::Format::DecimalSi);
        let same = |count| ZoneShown {
            capacity: amount(count),
            allocatable: amount(count),
            available: amount(count),
        };
        let cases = [
            ("absent", None, true),
            ("close", Some(same(1_000)), false),
            ("far", Some(same(900)), true),
            ("one field far", Some(ZoneShown { available: amount(0), ..same(1_000) }), true),
        ];
        for (name, shown, want) in cases {
            assert_eq!(must_write(shown, amount(1_050), 0.1), want, "{name}");
        }
    }

    #[test]
    fn a_node_that_lends_nothing_zeroes_its_zones() {
        let mut node = N::new().with_zones();
        let topology = node.topology.as_mut().unwrap();
        assert!(writes(topology, None, 0.1).is_empty(), "nothing was lent");
        let lent = Quantity::from_int(gib(1), units::Format::BinarySi);
        let lent = Some(ZoneShown { capacity: lent, allocatable: lent, available: lent });
        topology.zones[1].batch.memory = lent;
        let found = writes(topology, None, 0.1);
        let want =
            ZoneWrite { zone: "node-1".into(), batch: Pair::new(None, Some(Quantity::ZERO)) };
        assert_eq!(found, [want]);
    }
}
