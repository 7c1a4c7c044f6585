//! NodeResourcesFit: a node must have what the pod asks for; how full it would be is its score.
//!
//! A reason is told for every resource that is short. The node is beyond help (Unresolvable) as
//! soon as one request is larger than everything the node has.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

use super::allocation::{Load, ShapePoint, Strategy};
use super::{ArgsError, read_args};
use crate::model::{Class, ResourceId, Template};
use crate::plugin::{Context, Event, Normalise, Plugin, Prepared, Reads, Subject, Work};
use crate::queue::Hint;
use crate::snapshot::{NodeIx, Snapshot};
use crate::verdict::{Code, Verdict};

pub(super) const NAME: &str = "NodeResourcesFit";

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Args {
    ignored_resources: Vec<String>,
    ignored_resource_groups: Vec<String>,
    scoring_strategy: Option<ScoringStrategy>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ScoringStrategy {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    resources: Vec<ResourceWeight>,
    requested_to_capacity_ratio: Option<RatioArgs>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RatioArgs {
    shape: Vec<ShapePoint>,
}

/// A resource and how much it counts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResourceWeight {
    name: String,
    /// Absent or zero is one.
    #[serde(default)]
    weight: i64,
}

/// Resources with weights, the defaults being CPU and memory.
pub(super) fn weighed(list: &[ResourceWeight], snapshot: &mut Snapshot) -> Vec<(ResourceId, i64)> {
    if list.is_empty() {
        return vec![(ResourceId::CPU, 1), (ResourceId::MEMORY, 1)];
    }
    let weight = |one: &ResourceWeight| if one.weight == 0 { 1 } else { one.weight };
    list.iter().map(|one| (snapshot.resources.intern(&one.name), weight(one))).collect()
}

#[derive(Debug)]
struct NodeResourcesFit {
    ignored: Vec<String>,
    ignored_groups: Vec<String>,
    strategy: Strategy,
    resources: Vec<(ResourceId, i64)>,
}

pub(super) fn build(args: &Value, snapshot: &mut Snapshot) -> Result<Box<dyn Plugin>, ArgsError> {
    let args: Args = read_args(NAME, args)?;
    let refuse = |problem: String| ArgsError { plugin: NAME, problem };
    let (strategy, resources) = match &args.scoring_strategy {
        None => (Strategy::Least, Vec::new()),
        Some(scoring) => {
            (strategy(scoring).map_err(refuse)?, weighed(&scoring.resources, snapshot))
        }
    };
    if let Some((_, weight)) = resources.iter().find(|(_, weight)| !(1..=100).contains(weight)) {
        return Err(refuse(format!("resource weight {weight}: must be between 1 and 100")));
    }
    let resources = if resources.is_empty() { weighed(&[], snapshot) } else { resources };
    Ok(Box::new(NodeResourcesFit {
        ignored: args.ignored_resources,
        ignored_groups: args.ignored_resource_groups,
        strategy,
        resources,
    }))
}

fn strategy(scoring: &ScoringStrategy) -> Result<Strategy, String> {
    match scoring.kind.as_deref() {
        None | Some("" | "LeastAllocated") => Ok(Strategy::Least),
        Some("MostAllocated") => Ok(Strategy::Most),
        Some("RequestedToCapacityRatio") => {
            let shape = scoring.requested_to_capacity_ratio.as_ref();
            let shape = shape.map_or(&[][..], |ratio| &ratio.shape);
            check_shape(shape)?;
            let scaled = shape.iter().map(|point| ShapePoint { score: point.score * 10, ..*point });
            Ok(Strategy::Ratio(scaled.collect()))
        }
        Some(kind) => Err(format!(
            "scoringStrategy.type {kind}: must be LeastAllocated, MostAllocated or \
             RequestedToCapacityRatio"
        )),
    }
}

fn check_shape(shape: &[ShapePoint]) -> Result<(), String> {
    if shape.is_empty() {
        return Err("requestedToCapacityRatio.shape: at least one point is needed".to_owned());
    }
    if !shape.is_sorted_by(|a, b| a.utilization < b.utilization) {
        return Err("requestedToCapacityRatio.shape: utilization must rise strictly".to_owned());
    }
    for point in shape {
        if !(0..=100).contains(&point.utilization) || !(0..=10).contains(&point.score) {
            return Err(format!(
                "requestedToCapacityRatio.shape: utilization {} and score {} must be within \
                 0..100 and 0..10",
                point.utilization, point.score
            ));
        }
    }
    Ok(())
}

impl NodeResourcesFit {
    /// Only extended resources can be ignored: neither native ones nor `kubernetes.io/` names.
    fn ignores(&self, name: &str) -> bool {
        let Some((group, _)) = name.split_once('/') else { return false };
        let is_native = group == "kubernetes.io" || group.ends_with(".kubernetes.io");
        let ignores_group = self.ignored_groups.iter().any(|one| one == group);
        !is_native && (ignores_group || self.ignored.iter().any(|one| one == name))
    }
}

impl Plugin for NodeResourcesFit {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prepare(&self, context: Context<'_>) -> Prepared {
        let resources = &context.snapshot.resources;
        let requests = context.class.requests.iter();
        let wanted =
            requests.filter(|(id, _)| !id.is_scalar() || !self.ignores(resources.name(*id)));
        let wanted: Vec<(ResourceId, i64)> = wanted.collect();
        let short = wanted.iter().map(|(id, _)| format!("Insufficient {}", resources.name(*id)));
        let work = Fit {
            reasons: std::iter::once("Too many pods".to_owned()).chain(short).collect(),
            wanted,
            strategy: self.strategy.clone(),
            shares: shares(&self.resources, context.class),
        };
        Prepared::both(Reads::Usage, Normalise::None, work)
    }

    fn hint(&self, snapshot: &Snapshot, class: &Class, event: &Event) -> Hint {
        let Some(Subject::Node { before, after: Some(after) }) = &event.subject else {
            return Hint::Queue;
        };
        let resources = &snapshot.resources;
        let mut wanted = class
            .requests
            .iter()
            .filter(|(id, _)| !id.is_scalar() || !self.ignores(resources.name(*id)));
        let fits_empty = wanted.all(|(id, amount)| amount <= after.allocatable.get(id));
        let has_more = before.as_ref().is_none_or(|before| {
            let grows = |id| after.allocatable.get(id) > before.allocatable.get(id);
            after.max_pods > before.max_pods || class.requests.iter().any(|(id, _)| grows(id))
        });
        Hint::queue_if(fits_empty && has_more)
    }
}

/// What the pod adds to each weighed resource; scalars it does not ask for are left out.
fn shares(resources: &[(ResourceId, i64)], pod: &Template) -> Vec<Share> {
    let shares = resources.iter().map(|(resource, weight)| {
        let [cpu, memory] = pod.nonzero;
        let amount = match *resource {
            ResourceId::CPU => cpu,
            ResourceId::MEMORY => memory,
            other => pod.requests.get(other),
        };
        Share { resource: *resource, weight: *weight, amount }
    });
    shares.filter(|share| share.amount > 0 || !share.resource.is_scalar()).collect()
}

#[derive(Debug, Clone, Copy)]
struct Share {
    resource: ResourceId,
    weight: i64,
    /// What the pod adds.
    amount: i64,
}

#[derive(Debug)]
struct Fit {
    wanted: Vec<(ResourceId, i64)>,
    reasons: Vec<String>,
    strategy: Strategy,
    shares: Vec<Share>,
}

impl Work for Fit {
    fn filter(&self, snapshot: &Snapshot, node: NodeIx) -> Verdict {
        let rooms = snapshot.rooms();
        let room = rooms.get(node);
        let mut reasons = u64::from(room.pods + 1 > room.max_pods);
        let mut code = Code::Unschedulable;
        for (bit, (resource, amount)) in (1..).zip(&self.wanted) {
            let allocatable = rooms.allocatable(*resource, node);
            if *amount > allocatable.saturating_sub(rooms.requested(*resource, node)) {
                // More scalars than bits share the last one.
                reasons |= 1 << bit.min(61);
                if *amount > allocatable {
                    code = Code::Unresolvable;
                }
            }
        }
        if reasons == 0 { Verdict::OK } else { Verdict::rejected(code, reasons) }
    }

    fn reason(&self, bit: u32) -> Cow<'_, str> {
        self.reasons.get(bit as usize).map_or("", String::as_str).into()
    }

    fn score(&self, snapshot: &Snapshot, node: NodeIx) -> i64 {
        let rooms = snapshot.rooms();
        let room = rooms.get(node);
        let [cpu, memory] = room.nonzero;
        let loads = self.shares.iter().map(|share| {
            let taken = match share.resource {
                ResourceId::CPU => cpu,
                ResourceId::MEMORY => memory,
                other => rooms.requested(other, node),
            };
            Load {
                requested: taken.saturating_add(share.amount),
                capacity: rooms.allocatable(share.resource, node),
                weight: share.weight,
            }
        });
        self.strategy.rate(loads)
    }
}
