//! Parts of the last-level cache and of memory bandwidth, through resctrl.
//!
//! Each class that is on has a group (`LSR`, `LS`, `BE`) with the ways and the bandwidth of its
//! configuration, and the threads of its pods in it; a pod with a wish of its own has a group of its own.
//! New threads start in their parent's group, so a round only has to look for pods that are new.
//!
//! A group that we made and nobody wants any more is removed, and its threads fall back into the root's;
//! one that was there before us gets back what it had. Which is which is on disk before it is touched.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::metadata::pod::{ResctrlConfig, ResctrlShare};
use api::protocol::gate::AgentGate;
use api::qos::{QosClass, StrategyClass};
use api::strategy::ResctrlQos;
use api::why::{Amount, NODE, Resource, Sum, Unit, Why};
use groups::{CgroupPath, Controller, Version};
use host::fs::HostFs;
use host::resctrl::{Group, Info, Resctrl, Resource as Part, Schemata};
use host::{FileError, Reading};
use qos::cache::{self, Vendor, Ways, bandwidth, ways};
use serde::{Deserialize, Serialize};
use tracing::warn;
use units::Percent;

use super::facts::Facts;
use crate::durable;
use crate::object::chain;

/// Groups of classes, which the reference calls the same.
const CLASSES: [(StrategyClass, &str); 3] =
    [(StrategyClass::Lsr, "LSR"), (StrategyClass::Ls, "LS"), (StrategyClass::Be, "BE")];

/// Groups of single pods begin so.
const OF_POD: &str = "koordlet-";

/// What was there before us; the names are ours to use, not ours alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    group: String,
    /// `None` for a group that we made.
    found: Option<Found>,
}

/// A group as somebody else left it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Found {
    schemata: String,
    tasks: BTreeSet<u32>,
}

/// What is remembered from round to round.
#[derive(Debug)]
pub(super) struct Cache {
    path: PathBuf,
    kept: BTreeMap<String, Kept>,
    /// What was told already.
    told: BTreeSet<String>,
}

/// Why a group is not as it should be.
#[derive(Debug, thiserror::Error)]
enum CacheError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("what was found cannot be kept in {}", path.display())]
    Unkept { path: PathBuf, source: io::Error },
}

/// A group as it should be.
#[derive(Debug, PartialEq)]
struct Wanted {
    group: Group,
    schemata: Schemata,
    pods: Vec<CgroupPath>,
}

/// What the machine can do.
struct Machine {
    resctrl: Resctrl,
    info: Info,
    /// The root's lines, with every domain there is.
    root: Schemata,
    vendor: Vendor,
}

impl Cache {
    /// Reads what an earlier life found; a list that cannot be read is begun anew.
    pub(super) fn open(path: PathBuf) -> Self {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let kept: Vec<Kept> = serde_json::from_str(&text).unwrap_or_default();
        let kept = kept.into_iter().map(|kept| (kept.group.clone(), kept)).collect();
        Self { path, kept, told: BTreeSet::new() }
    }

    /// How many groups are not as they were found.
    pub(super) fn held(&self) -> usize {
        self.kept.len()
    }

    /// Brings the groups where they should be; what they get, and why.
    pub(super) fn round(&mut self, facts: &Facts<'_>) -> Vec<Why> {
        let Some(machine) = Machine::find(facts) else { return Vec::new() };
        let wanted = wanted(facts, &machine);
        for wanted in &wanted {
            let brought = self.bring(facts, &machine.resctrl, wanted);
            self.tell(wanted.group.name(), brought);
        }
        let names: BTreeSet<&str> = wanted.iter().map(|wanted| wanted.group.name()).collect();
        self.return_but(&machine.resctrl, &names);
        if facts.is_on(AgentGate::Resctrl) {
            self.remove_orphans(facts, &machine.resctrl, &names);
        }
        wanted.iter().map(|wanted| explain(facts, wanted)).collect()
    }

    /// Gives every group back.
    pub(super) fn give_back(&mut self, fs: &Arc<dyn HostFs>) {
        match Resctrl::find(fs.clone()) {
            Reading::Value(resctrl) => self.return_but(&resctrl, &BTreeSet::new()),
            // Whoever took the file system away took the groups with it.
            Reading::Unsupported | Reading::Gone => self.forget(|_| false),
        }
    }

    /// Makes the group, and writes what differs.
    fn bring(
        &mut self,
        facts: &Facts<'_>,
        resctrl: &Resctrl,
        wanted: &Wanted,
    ) -> Result<(), CacheError> {
        let Wanted { group, schemata, pods } = wanted;
        let found = resctrl.schemata(group)?.value();
        self.keep(resctrl, group, found.as_ref())?;
        let now = match found {
            Some(now) => now,
            None => {
                resctrl.make(group)?;
                resctrl.schemata(group)?.value().unwrap_or_default()
            }
        };
        for part in schemata.resources() {
            if now.get(part) != schemata.get(part) {
                resctrl.set(group, part, schemata)?;
            }
        }
        let inside = tasks(resctrl, group)?;
        for pod in pods {
            for container in facts.children(pod) {
                for thread in threads(facts, &container) {
                    if !inside.contains(&thread) {
                        // One that ended meanwhile is gone, which is fine.
                        resctrl.add_task(group, thread)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Remembers a group before it is touched for the first time.
    fn keep(
        &mut self,
        resctrl: &Resctrl,
        group: &Group,
        found: Option<&Schemata>,
    ) -> Result<(), CacheError> {
        let name = group.name();
        if self.kept.contains_key(name) {
            return Ok(());
        }
        let found = match found {
            Some(schemata) => {
                let tasks = tasks(resctrl, group)?;
                Some(Found { schemata: schemata.to_string(), tasks })
            }
            None => None,
        };
        self.kept.insert(name.to_owned(), Kept { group: name.to_owned(), found });
        self.save().map_err(|source| {
            self.kept.remove(name);
            CacheError::Unkept { path: self.path.clone(), source }
        })
    }

    /// Gives back every group that is not wanted.
    fn return_but(&mut self, resctrl: &Resctrl, wanted: &BTreeSet<&str>) {
        let unwanted: Vec<Kept> = self
            .kept
            .values()
            .filter(|kept| !wanted.contains(kept.group.as_str()))
            .cloned()
            .collect();
        let mut returned = BTreeSet::new();
        for kept in unwanted {
            let Some(group) = Group::new(&kept.group) else { continue };
            let result = give_back(resctrl, &group, kept.found.as_ref()).map_err(CacheError::from);
            if result.is_ok() {
                returned.insert(kept.group.clone());
            }
            self.tell(&kept.group, result);
        }
        self.forget(|name| !returned.contains(name));
    }

    /// Groups of pods that are gone, whoever made them: the kernel has few.
    fn remove_orphans(&mut self, facts: &Facts<'_>, resctrl: &Resctrl, wanted: &BTreeSet<&str>) {
        let groups = resctrl.groups().unwrap_or_default();
        let is_gone = |uid: &str| !facts.cluster.pods.values().any(|pod| pod.uid == uid);
        for group in groups.iter().filter(|group| !wanted.contains(group.name())) {
            if group.name().strip_prefix(OF_POD).is_some_and(is_gone) {
                self.tell(group.name(), resctrl.remove(group).map_err(CacheError::from));
            }
        }
    }

    fn forget(&mut self, stays: impl Fn(&str) -> bool) {
        let before = self.kept.len();
        self.kept.retain(|name, _| stays(name));
        if self.kept.len() != before {
            // What is listed too long is looked at when it is given back once more.
            let _ = self.save();
        }
    }

    fn save(&self) -> io::Result<()> {
        let kept: Vec<&Kept> = self.kept.values().collect();
        durable::replace(&self.path, serde_json::to_string(&kept)?.as_bytes())
    }

    /// A failure is said once; the kernel has few groups, and they may be used up.
    fn tell(&mut self, group: &str, result: Result<(), CacheError>) {
        match result {
            Ok(()) => {
                self.told.remove(group);
            }
            Err(error) => {
                if self.told.insert(group.to_owned()) {
                    warn!(group, error = chain(&error), "cannot divide the cache as configured");
                }
            }
        }
    }
}

/// A group of ours goes; somebody else's gets its lines back and loses the threads that we put in.
fn give_back(resctrl: &Resctrl, group: &Group, found: Option<&Found>) -> Result<(), FileError> {
    let Some(found) = found else { return resctrl.remove(group) };
    let Some(now) = resctrl.schemata(group)?.value() else { return Ok(()) };
    let before = Schemata::parse(found.schemata.as_bytes()).unwrap_or_default();
    for part in before.resources() {
        if now.get(part) != before.get(part) {
            resctrl.set(group, part, &before)?;
        }
    }
    for thread in tasks(resctrl, group)?.difference(&found.tasks) {
        resctrl.add_task(&Group::root(), *thread)?;
    }
    Ok(())
}

fn tasks(resctrl: &Resctrl, group: &Group) -> Result<BTreeSet<u32>, FileError> {
    Ok(resctrl.tasks(group)?.value().unwrap_or_default().into_iter().collect())
}

impl Machine {
    fn find(facts: &Facts<'_>) -> Option<Self> {
        let resctrl = Resctrl::find(facts.tree.shared_fs()).value()?;
        let info = resctrl.info().ok()?;
        let root = resctrl.schemata(&Group::root()).ok()?.value()?;
        let model = facts.metrics.facts().node.and_then(|node| node.model.clone());
        let is_amd = model.is_some_and(|model| model.vendor.contains("AMD"));
        let vendor = if is_amd { Vendor::Amd } else { Vendor::Other };
        Some(Self { resctrl, info, root, vendor })
    }

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
        u64::try_from(bandwidth(Percent(percent), self.vendor)?).ok()
    }
}

fn wanted(facts: &Facts<'_>, machine: &Machine) -> Vec<Wanted> {
    let mut all = Vec::new();
    if facts.is_on(AgentGate::RdtResctrl) {
        all.extend(
            CLASSES.iter().filter_map(|(class, name)| of_class(facts, machine, *class, name)),
        );
    }
    if facts.is_on(AgentGate::Resctrl) {
        all.extend(facts.pods().filter_map(|pod| {
            let schemata = of_pod(machine, pod.annotations.resctrl.as_ref()?)?;
            let group = Group::new(&format!("{OF_POD}{}", pod.uid))?;
            Some(Wanted { group, schemata, pods: vec![pod.cgroup.clone()] })
        }));
    }
    all
}

/// `None` for a class that is off.
fn of_class(
    facts: &Facts<'_>,
    machine: &Machine,
    class: StrategyClass,
    name: &str,
) -> Option<Wanted> {
    let strategy = facts.slo().resource_qos_strategy.as_ref()?;
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
    let pods = facts
        .pods()
        .filter(|pod| pod.annotations.resctrl.is_none() && pod.qos != QosClass::System)
        .filter(|pod| pod.qos.strategy_class() == class)
        .map(|pod| pod.cgroup.clone());
    Some(Wanted { group: Group::new(name)?, schemata, pods: pods.collect() })
}

/// A line is written only when every domain has a value.
fn of_pod(machine: &Machine, config: &ResctrlConfig) -> Option<Schemata> {
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

/// The threads of a group.
fn threads(facts: &Facts<'_>, group: &CgroupPath) -> Vec<u32> {
    let file = match facts.kernel.version {
        Version::V1 => "tasks",
        Version::V2 => "cgroup.threads",
    };
    let Some(dir) = facts.tree.dir(Controller::Cpu, group) else { return Vec::new() };
    let text = facts.tree.fs().read(Path::new(&dir.join(file))).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

fn explain(facts: &Facts<'_>, wanted: &Wanted) -> Why {
    let name = wanted.group.name();
    let class = name.to_lowercase();
    let setting = format!("resource-qos-config.{class}Class.resctrlQOS.catRangeEndPercent");
    let mut sum = Sum::default();
    for part in wanted.schemata.resources() {
        let Some(value) = wanted.schemata.get(part).and_then(|values| values.values().next())
        else {
            continue;
        };
        let label = if *part == Part::L3 { "ways" } else { "bandwidth" };
        let amount = match part {
            Part::L3 => i64::from(value.count_ones()),
            _ => i64::try_from(*value).unwrap_or(i64::MAX),
        };
        let source = facts.cluster.slo.setting(&setting);
        sum = sum.beside(Amount(amount, Unit::Number), label, source);
    }
    Why {
        about: NODE.to_owned(),
        resource: Resource::Cache,
        headline: format!("{name}: {}", wanted.schemata.to_string().trim().replace('\n', ", ")),
        bound_by: "resctrlQOS".to_owned(),
        sum,
    }
}
