//! How evenly should the replicas of a workload lie over zones, racks or nodes?
//!
//! A constraint names a label (the domains), a selector (which pods of the namespace count) and
//! how far domains may differ. Pods on their way out do not count. A node counts if it has the
//! keys of all constraints and, as far as the constraint honours them, passes the pod's node
//! affinity and the pod tolerates its taints.
//!
//! ```text
//! filter   count(domain) + (1 if the pod counts itself) - least > maxSkew      rejects
//!          least = fewest pods in any domain, 0 while there are fewer than minDomains
//! score    raw = round( sum of  count * ln(domains + 2) + maxSkew - 1 )         lower is better
//!          100 * (highest + lowest - raw) / highest
//! ```
//!
//! For `kubernetes.io/hostname` the score counts on the node itself, and `domains` is the number of
//! nodes scored. A pod without constraints gets the cluster's default ones, applied to the pods
//! that its services and its controller select. Counts are made once for a class of pods and
//! then follow every pod that comes or goes.

mod ledger;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

use crate::model::{Class, Selector, SpreadConstraint, Symbol, Unsatisfiable};
use crate::plugin::{
    Context, Epoch, Event, Filtering, Follow, Normalise, Plugin, Prepared, Reads, Scoring, Subject,
    Work,
};
use crate::plugins::{ArgsError, read_args};
use crate::queue::{Actions, Hint, Interest, Resource, Wake};
use crate::snapshot::{Change, NodeIx, Snapshot, What};
use crate::verdict::Verdict;

use ledger::{Incoming, Ledger};

pub(super) const NAME: &str = "PodTopologySpread";

const COUNTED: Actions =
    Actions::ADD.or(Actions::DELETE).or(Actions::POD_LABEL).or(Actions::POD_TERMINATING);
const DIVIDED: Actions =
    Actions::ADD.or(Actions::DELETE).or(Actions::NODE_LABEL).or(Actions::NODE_TAINT);

pub(super) const WAKES: Interest = Interest::Only(&[
    Wake::new(Resource::Pod, COUNTED),
    Wake::new(Resource::OwnPod, Actions::POD_LABEL.or(Actions::POD_TOLERATION)),
    Wake::new(Resource::Node, DIVIDED),
    Wake::new(Resource::Workload, Actions::ALL),
]);

const SKEWED: u32 = 0;
const MISSING: u32 = 1;

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Args {
    default_constraints: Vec<Default_>,
    defaulting_type: Defaulting,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
enum Defaulting {
    #[default]
    System,
    List,
}

/// A default constraint; its selector is found for each pod.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Default_ {
    max_skew: i64,
    topology_key: String,
    when_unsatisfiable: When,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum When {
    DoNotSchedule,
    ScheduleAnyway,
}

#[derive(Debug)]
struct PodTopologySpread {
    defaults: Vec<SpreadConstraint>,
    /// The defaults are the built-in ones, which forgive nodes that lack a key.
    is_system: bool,
    hostname: Symbol,
}

pub(super) fn build(args: &Value, snapshot: &mut Snapshot) -> Result<Box<dyn Plugin>, ArgsError> {
    let args: Args = read_args(NAME, args)?;
    let is_system = args.defaulting_type == Defaulting::System;
    if is_system && !args.default_constraints.is_empty() {
        let problem = "defaultConstraints: must be empty unless defaultingType is List".to_owned();
        return Err(ArgsError { plugin: NAME, problem });
    }
    if let Some(bad) = args.default_constraints.iter().find(|one| one.max_skew < 1) {
        let problem =
            format!("maxSkew = {} of {}: must be positive", bad.max_skew, bad.topology_key);
        return Err(ArgsError { plugin: NAME, problem });
    }
    let anyway = |max_skew, key| (max_skew, key, Unsatisfiable::ScheduleAnyway);
    let defaults: Vec<(i64, &str, Unsatisfiable)> = if is_system {
        vec![anyway(3, HOSTNAME), anyway(5, ZONE)]
    } else {
        let listed = args.default_constraints.iter().map(|one| {
            let when = match one.when_unsatisfiable {
                When::DoNotSchedule => Unsatisfiable::DoNotSchedule,
                When::ScheduleAnyway => Unsatisfiable::ScheduleAnyway,
            };
            (one.max_skew, one.topology_key.as_str(), when)
        });
        listed.collect()
    };
    let names = &mut snapshot.names;
    let defaults = defaults.into_iter().map(|(max_skew, key, when)| SpreadConstraint {
        max_skew,
        topology_key: names.intern(key),
        when,
        selector: Selector::nothing(),
        min_domains: 1,
        honours_affinity: true,
        honours_taints: false,
    });
    let defaults = defaults.collect();
    let hostname = names.intern(HOSTNAME);
    Ok(Box::new(PodTopologySpread { defaults, is_system, hostname }))
}

impl Plugin for PodTopologySpread {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prepare(&self, context: Context<'_>) -> Prepared {
        let Context { snapshot, class } = context;
        let is_defaulted = class.spread.is_empty();
        let constraints = match is_defaulted {
            false => class.spread.to_vec(),
            true => self.defaults_for(context),
        };
        let (hard, soft): (Vec<_>, Vec<_>) =
            constraints.into_iter().partition(|one| one.when == Unsatisfiable::DoNotSchedule);
        let depends: &[Epoch] = if is_defaulted { &[Epoch::Workloads] } else { &[] };
        if hard.is_empty() && soft.is_empty() {
            return Prepared::skip().on(depends);
        }
        let needs_all = !(is_defaulted && self.is_system);
        let (filters, scores) = (!hard.is_empty(), !soft.is_empty());
        let incoming = Incoming::new(class);
        let ledgers = |constraints, needs_all| {
            Ledger::all(constraints, needs_all, &incoming, self.hostname, snapshot)
        };
        let (hard, soft) = (ledgers(hard, true), ledgers(soft, needs_all));
        let work = Spread { incoming, hard, soft, needs_all };
        let mut prepared = Prepared::filter(Reads::Cluster, work).on(depends);
        if !filters {
            prepared.filter = Filtering::Skip;
        }
        if scores {
            prepared.score = Scoring::Run(Reads::Cluster, Normalise::Own);
        }
        prepared
    }

    /// Counts change when a pod that some constraint counts comes, goes, or changes its labels.
    fn hint(&self, snapshot: &Snapshot, class: &Class, event: &Event) -> Hint {
        let Some(Subject::Pod { before, after }) = &event.subject else { return Hint::Queue };
        if event.resource == Resource::OwnPod || class.spread.is_empty() {
            return Hint::Queue;
        }
        let (is_new, is_going) = (
            event.actions.overlaps(Actions::ADD),
            event.actions.overlaps(Actions::POD_TERMINATING),
        );
        let before = before.as_deref().filter(|_| !is_new);
        let after = after.as_deref().filter(|_| !is_going);
        let counts = |pod: Option<&Class>, one: &SpreadConstraint| {
            pod.is_some_and(|pod| {
                pod.namespace == class.namespace
                    && one.selector.matches(&pod.labels, &snapshot.names)
            })
        };
        let mut constraints = class.spread.iter();
        Hint::queue_if(constraints.any(|one| counts(before, one) != counts(after, one)))
    }
}

impl PodTopologySpread {
    fn defaults_for(&self, context: Context<'_>) -> Vec<SpreadConstraint> {
        let Context { snapshot, class } = context;
        if self.defaults.is_empty() {
            return Vec::new();
        }
        let selector = snapshot.extras.workloads.selector_of(class, &snapshot.names);
        let Some(selector) = selector else { return Vec::new() };
        let with =
            |one: &SpreadConstraint| SpreadConstraint { selector: selector.clone(), ..one.clone() };
        self.defaults.iter().map(with).collect()
    }
}

/// Prepared counts for one class of incoming pods.
#[derive(Debug)]
struct Spread {
    incoming: Incoming,
    hard: Vec<Ledger>,
    soft: Vec<Ledger>,
    /// A node that lacks a key of a soft constraint is worth nothing at all.
    needs_all: bool,
}

impl Spread {
    fn ledgers(&mut self) -> impl Iterator<Item = &mut Ledger> {
        self.hard.iter_mut().chain(&mut self.soft)
    }

    fn is_scored(&self, node: NodeIx) -> bool {
        !self.needs_all || self.soft.iter().all(|ledger| ledger.domains.get(node).is_some())
    }

    fn holds(&self, at: NodeIx, snapshot: &Snapshot) -> bool {
        let all_hard = Ledger::holds_all(&self.hard, true, at, &self.incoming, snapshot);
        all_hard && Ledger::holds_all(&self.soft, self.needs_all, at, &self.incoming, snapshot)
    }
}

impl Work for Spread {
    fn follow(&mut self, snapshot: &Snapshot, change: &Change) -> Follow {
        let (class, is_terminating, sign) = match &change.what {
            What::Added { class, is_terminating } => (class, *is_terminating, 1),
            What::Removed { class, is_terminating } => (class, *is_terminating, -1),
            What::State => return Follow::Kept,
            What::Node if self.holds(change.node, snapshot) => return Follow::Kept,
            What::Node => return Follow::Stale,
        };
        if !is_terminating && class.namespace == self.incoming.namespace {
            for ledger in self.ledgers().filter(|ledger| ledger.counts(class, snapshot)) {
                ledger.charge(change.node, sign);
            }
        }
        Follow::Kept
    }

    fn filter(&self, _snapshot: &Snapshot, node: NodeIx) -> Verdict {
        for ledger in &self.hard {
            let Some(domain) = ledger.domains.get(node) else {
                return Verdict::unresolvable(MISSING);
            };
            if ledger.is_skewed(domain) {
                return Verdict::unschedulable(SKEWED);
            }
        }
        Verdict::OK
    }

    fn reason(&self, bit: u32) -> Cow<'_, str> {
        Cow::Borrowed(match bit {
            MISSING => {
                "node(s) didn't match pod topology spread constraints (missing required label)"
            }
            _ => "node(s) didn't match pod topology spread constraints",
        })
    }

    fn score_all(&mut self, _snapshot: &Snapshot, feasible: &[NodeIx], scores: &mut [i64]) {
        let scored: Vec<NodeIx> =
            feasible.iter().copied().filter(|node| self.is_scored(*node)).collect();
        let weights: Vec<f64> = self.soft.iter().map(|ledger| ledger.weight(&scored)).collect();
        for (node, score) in feasible.iter().zip(scores) {
            *score = match self.is_scored(*node) {
                true => raw(&self.soft, &weights, *node),
                false => 0,
            };
        }
    }

    fn normalise(&self, feasible: &[NodeIx], scores: &mut [i64]) {
        let scored = || feasible.iter().map(|node| self.is_scored(*node));
        let valid =
            scores.iter().zip(scored()).filter_map(|(score, counts)| counts.then_some(*score));
        let (lowest, highest) =
            valid.fold((i64::MAX, 0), |(lowest, highest), one| (one.min(lowest), one.max(highest)));
        for (score, counts) in scores.iter_mut().zip(scored()) {
            *score = match (counts, highest) {
                (false, _) => 0,
                (true, 0) => 100,
                (true, _) => {
                    100_i64.saturating_mul(highest.saturating_add(lowest) - *score) / highest
                }
            };
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "saturates; real sums are far below")]
fn raw(soft: &[Ledger], weights: &[f64], node: NodeIx) -> i64 {
    let parts = soft.iter().zip(weights).map(|(ledger, weight)| ledger.part(node, *weight));
    parts.sum::<f64>().round() as i64
}
