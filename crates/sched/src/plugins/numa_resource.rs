//! NodeNUMAResource: CPUs of their own for pods that need them, and resources on NUMA nodes that
//! belong together. [`crate::numa`] has the arithmetic.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};

use api::metadata::Wire;
use api::metadata::pod::{
    CpuBindPolicy, NumaTopologySpec, ResourceSpec, ResourceStatus, SchedulingHint,
};
use api::protocol::pod::{
    NUMA_TOPOLOGY_SPEC, OLD_SCHEDULING_HINT, RESOURCE_SPEC, RESOURCE_STATUS, SCHEDULING_HINT,
};
use serde::Deserialize;
use serde_json::Value;

use super::{ArgsError, read_args};
use crate::model::{Class, Names, ResourceId, Resources};
use crate::numa::{
    Allocation, Bind, Demand, Exclusive, Fill, Mask, Refusal, Rules, Scoring, Source, Totals,
};
use crate::plugin::{
    self, Context, Event, Normalise, Patch, Plugin, Prepared, Reads, Subject, Work,
};
use crate::queue::Hint;
use crate::snapshot::{NodeIx, PodIx, Snapshot};
use crate::verdict::{Code, Verdict};

pub(super) const NAME: &str = "NodeNUMAResource";

/// `NodeNUMAResourceArgs`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Args {
    #[serde(rename = "defaultCPUBindPolicy")]
    default_cpu_bind_policy: Option<CpuBindPolicy>,
    scoring_strategy: Option<StrategyArgs>,
    numa_scoring_strategy: Option<StrategyArgs>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct StrategyArgs {
    #[serde(rename = "type")]
    kind: StrategyKind,
    resources: Vec<Weighted>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
enum StrategyKind {
    #[default]
    LeastAllocated,
    MostAllocated,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Weighted {
    name: String,
    #[serde(default)]
    weight: i64,
}

impl StrategyArgs {
    fn scoring(&self, resources: &mut Resources) -> Result<Scoring, ArgsError> {
        let strategy = match self.kind {
            StrategyKind::LeastAllocated => Fill::Least,
            StrategyKind::MostAllocated => Fill::Most,
        };
        if self.resources.is_empty() {
            return Ok(Scoring { strategy, ..Scoring::default() });
        }
        let mut weights = Vec::new();
        for Weighted { name, weight } in &self.resources {
            let weight = if *weight == 0 { 1 } else { *weight };
            if !(1..=100).contains(&weight) {
                let problem = format!("the weight of {name} is {weight}, not from 1 to 100");
                return Err(ArgsError { plugin: NAME, problem });
            }
            weights.push((resources.intern(name), weight));
        }
        Ok(Scoring { strategy, weights })
    }
}

#[derive(Debug)]
struct NumaResource {
    rules: Rules,
    default_bind: Option<Bind>,
}

pub(super) fn build(args: &Value, snapshot: &mut Snapshot) -> Result<Box<dyn Plugin>, ArgsError> {
    let args = read_args::<Args>(NAME, args)?;
    let scoring = |given: &Option<StrategyArgs>, resources: &mut Resources| {
        given.as_ref().map_or_else(|| Ok(Scoring::default()), |given| given.scoring(resources))
    };
    let rules = Rules {
        node: scoring(&args.scoring_strategy, &mut snapshot.resources)?,
        numa: scoring(&args.numa_scoring_strategy, &mut snapshot.resources)?,
    };
    let default_bind = match args.default_cpu_bind_policy {
        None | Some(CpuBindPolicy::Default | CpuBindPolicy::FullPcpus) => Some(Bind::Full),
        Some(CpuBindPolicy::SpreadByPcpus) => Some(Bind::Spread),
        Some(CpuBindPolicy::ConstrainedBurst) => None,
    };
    Ok(Box::new(NumaResource { rules, default_bind }))
}

/// An annotation's text, and its value where it can be read.
fn annotation<T: Wire + Default>(class: &Class, names: &Names, name: &str) -> Result<T, String> {
    let Some(value) = names.find(name).and_then(|key| class.annotations.get(key)) else {
        return Ok(T::default());
    };
    match T::parse(names.text(value)) {
        (Some(value), _) => Ok(value),
        (None, findings) => {
            let rule = findings.first().map_or("unreadable", |finding| finding.rule.as_str());
            Err(format!("annotation {name}: {rule}"))
        }
    }
}

impl NumaResource {
    /// What pods of a class want; `None` for pods this plugin has nothing to do with.
    fn demand(&self, class: &Class, snapshot: &Snapshot) -> Result<Option<Demand>, String> {
        let names = &snapshot.names;
        let spec: ResourceSpec = annotation(class, names, RESOURCE_SPEC.name)?;
        let numa: NumaTopologySpec = annotation(class, names, NUMA_TOPOLOGY_SPEC.name)?;
        let designated = self.designated(class, snapshot);
        let source = Source {
            requests: class.requests.clone(),
            qos: class.qos,
            class: Some(class.effective_priority_class),
            spec,
            numa,
            default_bind: self.default_bind,
            designated,
        };
        Demand::read(source).map_err(|fractional| fractional.to_string())
    }

    /// A planner that names this plugin in its hint has chosen the CPUs already.
    fn designated(&self, class: &Class, snapshot: &Snapshot) -> Option<Allocation> {
        let names = &snapshot.names;
        let text = |name| {
            let value = class.annotations.get(names.find(name)?)?;
            Some(names.text(value))
        };
        let hint = text(SCHEDULING_HINT.name).or_else(|| text(OLD_SCHEDULING_HINT.name))?;
        let hint = SchedulingHint::parse(hint).0?;
        hint.extensions.get(NAME)?;
        let status = ResourceStatus::parse(text(RESOURCE_STATUS.name)?).0?;
        Some(Allocation::known(&status, Exclusive::None, &snapshot.resources))
    }
}

impl Plugin for NumaResource {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prepare(&self, context: Context<'_>) -> Prepared {
        match self.demand(context.class, context.snapshot) {
            Err(reason) => Prepared::reject(Code::Unresolvable, reason),
            Ok(None) => Prepared::skip(),
            Ok(Some(demand)) => {
                let work = Fitting {
                    demand,
                    rules: self.rules.clone(),
                    texts: RefCell::default(),
                    latest: Cell::default(),
                };
                Prepared::both(Reads::Usage, Normalise::None, work)
            }
        }
    }

    /// A report concerns its own node: does the pod pass there now?
    fn hint(&self, snapshot: &Snapshot, class: &Class, event: &Event) -> Hint {
        let Some(Subject::Report(node)) = event.subject else { return Hint::Queue };
        let work = self.prepare(Context { snapshot, class }).work;
        Hint::queue_if(work.is_some_and(|work| work.filter(snapshot, node).is_ok()))
    }

    fn reserve(
        &self,
        snapshot: &mut Snapshot,
        pod: PodIx,
        node: NodeIx,
    ) -> Result<(), plugin::Refusal> {
        let Some(found) = snapshot.pods.get(pod) else { return Ok(()) };
        let refused = |reason| plugin::Refusal { code: Code::Unschedulable, reason };
        let Some(demand) = self.demand(&found.class, snapshot).map_err(refused)? else {
            return Ok(());
        };
        let reserved = snapshot.extras.numa.reserve(node, pod, &found.uid, &demand, &self.rules);
        reserved.map_err(|refusal| refused(refusal.text(|id| snapshot.resources.name(id))))
    }

    fn unreserve(&self, snapshot: &mut Snapshot, pod: PodIx, node: NodeIx) {
        if let Some(found) = snapshot.pods.get(pod) {
            snapshot.extras.numa.unreserve(node, pod, &found.uid);
        }
    }

    fn patch(&self, snapshot: &Snapshot, pod: PodIx, node: NodeIx, patch: &mut Patch) {
        let numa = &snapshot.extras.numa;
        let Some(held) = numa.held(pod) else { return };
        if let Some(status) = held.status(&snapshot.resources) {
            patch.annotations.insert(RESOURCE_STATUS.name.to_owned(), status.print());
        }
        let Some(found) = snapshot.pods.get(pod).filter(|_| !held.cpus.is_empty()) else { return };
        let spec = annotation::<ResourceSpec>(&found.class, &snapshot.names, RESOURCE_SPEC.name);
        let Ok(mut spec) = spec else { return };
        let is_open = |policy| matches!(policy, None | Some(CpuBindPolicy::Default));
        if is_open(spec.required_cpu_bind_policy) && is_open(spec.preferred_cpu_bind_policy) {
            let demand = self.demand(&found.class, snapshot).ok().flatten();
            let state = numa.state(node);
            let bind = demand.zip(state).and_then(|(demand, state)| state.effective_bind(&demand));
            spec.preferred_cpu_bind_policy = bind.map(|bind| match bind {
                Bind::Full => CpuBindPolicy::FullPcpus,
                Bind::Spread => CpuBindPolicy::SpreadByPcpus,
            });
            patch.annotations.insert(RESOURCE_SPEC.name.to_owned(), spec.print());
        }
    }
}

#[derive(Debug)]
struct Fitting {
    demand: Demand,
    rules: Rules,
    /// Refusals that name resources or NUMA nodes, as they were met.
    texts: RefCell<Vec<(Refusal, String)>>,
    /// Where the pod would go on the node that was filtered last, for the score that follows.
    latest: Cell<Option<Found>>,
}

/// What a filter found on a node in a state.
#[derive(Debug, Clone, Copy)]
struct Found {
    node: NodeIx,
    version: u64,
    mask: Option<Mask>,
}

/// Reasons with a text of their own start here.
const FIRST_MET: u32 = 16;
const LAST_MET: u32 = 60;
/// More different ones than a verdict can tell apart.
const OTHER: u32 = 61;

/// Reasons whose text is always the same.
const FIXED: [Refusal; 10] = {
    use crate::numa::Shortage::{Failed, NotEnough};
    [
        Refusal::InvalidTopology,
        Refusal::InvalidRatio,
        Refusal::Fractional,
        Refusal::BindConflict,
        Refusal::NotWholeCores,
        Refusal::PolicyMismatch,
        Refusal::NoNumaResources,
        Refusal::AmplifiedCpu,
        Refusal::Cpus(NotEnough),
        Refusal::Cpus(Failed),
    ]
};

impl Fitting {
    fn bit(&self, refusal: Refusal, resources: &Resources) -> u32 {
        let index = |at: usize| u32::try_from(at).unwrap_or(OTHER);
        if let Some(at) = FIXED.iter().position(|fixed| *fixed == refusal) {
            return index(at);
        }
        let mut texts = self.texts.borrow_mut();
        let at = texts.iter().position(|(met, _)| *met == refusal).unwrap_or_else(|| {
            let text = refusal.text(|id| resources.name(id));
            texts.push((refusal, text));
            texts.len() - 1
        });
        let bit = index(at).saturating_add(FIRST_MET);
        if bit > LAST_MET {
            texts.truncate((LAST_MET - FIRST_MET + 1) as usize);
            return OTHER;
        }
        bit
    }
}

/// One node's totals.
struct Room<'a> {
    snapshot: &'a Snapshot,
    node: NodeIx,
}

impl Totals for Room<'_> {
    fn allocatable(&self, resource: ResourceId) -> i64 {
        self.snapshot.rooms().allocatable(resource, self.node)
    }

    fn requested(&self, resource: ResourceId) -> i64 {
        self.snapshot.rooms().requested(resource, self.node)
    }
}

impl Work for Fitting {
    fn filter(&self, snapshot: &Snapshot, node: NodeIx) -> Verdict {
        let Some(state) = snapshot.extras.numa.state(node) else { return Verdict::OK };
        match state.filter(&self.demand, &self.rules, &Room { snapshot, node }) {
            Ok(mask) => {
                self.latest.set(Some(Found { node, version: state.version(), mask }));
                Verdict::OK
            }
            Err(refusal) => {
                let is_final = refusal.is_final();
                let bit = self.bit(refusal, &snapshot.resources);
                if is_final { Verdict::unresolvable(bit) } else { Verdict::unschedulable(bit) }
            }
        }
    }

    fn reason(&self, bit: u32) -> Cow<'_, str> {
        if let Some(fixed) = FIXED.get(bit as usize) {
            return fixed.text(|_| "").into();
        }
        let texts = self.texts.borrow();
        let met = bit.checked_sub(FIRST_MET).and_then(|at| texts.get(at as usize));
        let text = met.map(|(_, text)| text.clone());
        text.unwrap_or_else(|| "node(s) NUMA resources do not fit".to_owned()).into()
    }

    fn score(&self, snapshot: &Snapshot, node: NodeIx) -> i64 {
        let Some(state) = snapshot.extras.numa.state(node) else { return 0 };
        let room = Room { snapshot, node };
        let latest = self.latest.get();
        match latest.filter(|found| found.node == node && found.version == state.version()) {
            Some(found) => state.score_at(found.mask, &self.demand, &self.rules, &room),
            None => state.score(&self.demand, &self.rules, &room),
        }
    }
}

#[cfg(test)]
mod tests;
