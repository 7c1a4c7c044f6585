//! Parts of the last-level cache and of memory bandwidth, through resctrl.
//!
//! Each class that is on has a group (`LSR`, `LS`, `BE`) with the ways and the bandwidth of its
//! configuration, and the threads of its pods in it; a pod that asks for its own part has a group of its own.

use std::collections::{BTreeMap, BTreeSet};

use crate::cache::{self, CacheAllocation, Vendor, Ways, bandwidth, ways};
use crate::claim::{Bound, Rank, Value};
use crate::wish::{Target, Wish};
use api::metadata::pod::{ResctrlConfig, ResctrlShare};
use api::protocol::gate::AgentGate;
use api::qos::{QosClass, StrategyClass};
use api::strategy::ResctrlQos;
use api::why::{Amount, NODE, Resource, Sum, Unit, Why};
use groups::CgroupPath;
use groups::resctrl::{Group, Resource as Part, Schemata};
use units::Percent;

use super::Decision;
use crate::node::{CacheHardware, CacheParts, Readings, State};

/// Groups of classes, which the reference calls the same.
const CLASSES: [(StrategyClass, &str); 3] =
    [(StrategyClass::Lsr, "LSR"), (StrategyClass::Ls, "LS"), (StrategyClass::Be, "BE")];

/// Groups of single pods begin so.
const OF_POD: &str = "koordlet-";

/// A group as it should be.
struct Division {
    group: Group,
    schemata: Schemata,
    pods: BTreeSet<CgroupPath>,
    why: String,
}

fn is_on(state: &State) -> bool {
    state.is_on(AgentGate::RdtResctrl) || state.is_on(AgentGate::Resctrl)
}

pub(in crate::node) fn read(state: &State, readings: &mut Readings) {
    readings.cache = is_on(state);
}

/// `None` when the machine cannot be seen for the moment.
pub fn decide(state: &State) -> Option<Decision> {
    let machine = match &state.machine.cache {
        CacheHardware::Present(machine) if is_on(state) => machine,
        CacheHardware::Unread if is_on(state) => return None,
        _ => return Some(Decision::default()),
    };
    let divisions = divisions(state, machine);
    let mut wishes: Vec<Wish> = divisions.iter().map(Division::wish).collect();
    wishes.extend(orphans(state, machine, &divisions));
    let whys = divisions.iter().map(|division| explain(state, division)).collect();
    Some(Decision { wishes, whys })
}

fn set(group: &Group, allocation: Option<CacheAllocation>, why: &str) -> Wish {
    Wish {
        target: Target::CacheGroup(group.name().to_owned()),
        rank: Rank::POD,
        bound: Bound::Set(Value::Cache(allocation)),
        why: why.to_owned(),
    }
}

impl Division {
    fn wish(&self) -> Wish {
        let (schemata, members) = (self.schemata.to_string(), self.pods.clone());
        set(&self.group, Some(CacheAllocation { schemata, members }), &self.why)
    }
}

/// Groups of pods that are gone, whoever made them: the kernel has few.
fn orphans(state: &State, machine: &CacheParts, divisions: &[Division]) -> Vec<Wish> {
    if !state.is_on(AgentGate::Resctrl) {
        return Vec::new();
    }
    let is_wanted = |group: &Group| divisions.iter().any(|division| division.group == *group);
    let is_gone = |uid: &str| !state.cluster.pods.values().any(|pod| pod.uid == uid);
    let orphans = machine.groups.iter().filter(|group| {
        !is_wanted(group) && group.name().strip_prefix(OF_POD).is_some_and(is_gone)
    });
    orphans.map(|group| set(group, None, "its pod is gone")).collect()
}

impl CacheParts {
    /// All domains of a part with one value.
    fn everywhere(&self, part: &Part, value: u64) -> Option<BTreeMap<u32, u64>> {
        Some(self.root.get(part)?.keys().map(|id| (*id, value)).collect())
    }

    fn mask(&self, start: i64, end: i64) -> Option<u64> {
        let info = self.info.l3?;
        let least = u32::try_from(info.least_bits).unwrap_or(1);
        let cache = cache::Cache { all: Ways(info.mask), least };
        ways(cache, Percent(start), Percent(end)).ok().map(|ways| ways.0)
    }

    fn bandwidth(&self, percent: i64) -> Option<u64> {
        let vendor = if self.is_amd { Vendor::Amd } else { Vendor::Other };
        u64::try_from(bandwidth(Percent(percent), vendor)?).ok()
    }
}

fn divisions(state: &State, machine: &CacheParts) -> Vec<Division> {
    let mut all = Vec::new();
    if state.is_on(AgentGate::RdtResctrl) {
        all.extend(
            CLASSES.iter().filter_map(|(class, name)| of_class(state, machine, *class, name)),
        );
    }
    if state.is_on(AgentGate::Resctrl) {
        all.extend(state.pods().filter_map(|pod| {
            let schemata = of_pod(machine, pod.annotations.resctrl.as_ref()?)?;
            let group = Group::new(&format!("{OF_POD}{}", pod.uid))?;
            let why = format!("{}/{} asks for it", pod.namespace, pod.name);
            let pods = BTreeSet::from([pod.cgroup.clone()]);
            Some(Division { group, schemata, pods, why })
        }));
    }
    all
}

/// `None` for a class that is off.
fn of_class(
    state: &State,
    machine: &CacheParts,
    class: StrategyClass,
    name: &str,
) -> Option<Division> {
    let strategy = state.slo().resource_qos_strategy.as_ref()?;
    let config = match class {
        StrategyClass::Lsr => &strategy.lsr_class,
        StrategyClass::Ls => &strategy.ls_class,
        StrategyClass::Be => &strategy.be_class,
        StrategyClass::System => return None,
    };
    let config: &ResctrlQos = config.as_ref()?.resctrl_qos.as_ref()?;
    if config.enable != Some(true) {
        return None;
    }
    let mut schemata = Schemata::default();
    let (start, end) =
        (config.cat_range_start_percent.unwrap_or(0), config.cat_range_end_percent.unwrap_or(100));
    if let Some(values) = machine.mask(start, end).and_then(|m| machine.everywhere(&Part::L3, m)) {
        schemata.set(Part::L3, values);
    }
    let share = config.mba_percent.and_then(|percent| machine.bandwidth(percent));
    if let Some(values) = share.and_then(|share| machine.everywhere(&Part::Mb, share)) {
        schemata.set(Part::Mb, values);
    }
    let pods = state
        .pods()
        .filter(|pod| pod.annotations.resctrl.is_none() && pod.qos != QosClass::System)
        .filter(|pod| pod.qos.strategy_class() == class)
        .map(|pod| pod.cgroup.clone());
    let why = "the configuration of its class".to_owned();
    Some(Division { group: Group::new(name)?, schemata, pods: pods.collect(), why })
}

/// A line is written only when every domain has a value.
fn of_pod(machine: &CacheParts, config: &ResctrlConfig) -> Option<Schemata> {
    let mut schemata = Schemata::default();
    type Value<'m> = &'m dyn Fn(&api::metadata::pod::Schemata) -> Option<u64>;
    let mask = |wish: &api::metadata::pod::Schemata| match *wish.range.as_slice() {
        [start, end] => machine.mask(start, end),
        _ => None,
    };
    let share = |wish: &api::metadata::pod::Schemata| machine.bandwidth(wish.percent?);
    let parts: [(Part, &Option<ResctrlShare>, Value<'_>); 2] =
        [(Part::L3, &config.llc, &mask), (Part::Mb, &config.mb, &share)];
    for (part, wish, value) in parts {
        let Some((wish, root)) = wish.as_ref().zip(machine.root.get(&part)) else { continue };
        let everywhere = wish.schemata.as_ref().and_then(value);
        let of = |id: u32| {
            let own =
                wish.schemata_per_cache.iter().find(|own| u32::try_from(own.cache_id) == Ok(id));
            own.and_then(|own| value(&own.schemata)).or(everywhere)
        };
        let values: Option<BTreeMap<u32, u64>> =
            root.keys().map(|id| Some((*id, of(*id)?))).collect();
        if let Some(values) = values {
            schemata.set(part, values);
        }
    }
    (schemata != Schemata::default()).then_some(schemata)
}

fn explain(state: &State, division: &Division) -> Why {
    let name = division.group.name();
    let class = name.to_lowercase();
    let setting = format!("resource-qos-config.{class}Class.resctrlQOS.catRangeEndPercent");
    let mut sum = Sum::default();
    for part in division.schemata.resources() {
        let Some(value) = division.schemata.get(part).and_then(|values| values.values().next())
        else {
            continue;
        };
        let label = if *part == Part::L3 { "ways" } else { "bandwidth" };
        let amount = match part {
            Part::L3 => i64::from(value.count_ones()),
            _ => i64::try_from(*value).unwrap_or(i64::MAX),
        };
        let source = state.cluster.slo.setting(&setting);
        sum = sum.beside(Amount(amount, Unit::Number), label, source);
    }
    Why {
        about: NODE.to_owned(),
        resource: Resource::Cache,
        headline: format!("{name}: {}", division.schemata.to_string().trim().replace('\n', ", ")),
        bound_by: "resctrlQOS".to_owned(),
        sum,
    }
}
