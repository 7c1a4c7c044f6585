//! Which pods want company, and which want to be left alone?
//!
//! Existing pods are counted in the domains of a topology key (`zone`, `hostname`, ...):
//!
//! ```text
//! wanted     pods that match *all* required affinity terms of the incoming pod
//! unwanted   pods that match one of its required anti-affinity terms
//! hostile    pods one of whose required anti-affinity terms matches the incoming pod
//! worth      sum of the weights of preferred terms, theirs and its own, that match
//!            (+ hardPodAffinityWeight for each of their required affinity terms that does)
//! ```
//!
//! A node passes when it has all keys of the affinity terms and, for each, `wanted > 0`, and when
//! none of its domains is `unwanted` or `hostile`. The first pod of a group that wants its own
//! kind would wait for ever, so when nobody matches anywhere and the pod matches its own terms, the
//! keys suffice. A node's raw score is the worth of its domains; scores are stretched so that the
//! lowest becomes 0 and the highest 100.
//!
//! Counts are made once for a class of pods and then follow every pod that comes or goes.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use crate::model::{Class, Labels, PodAffinity, PodTerm, Symbol};
use crate::plugin::{
    Context, Epoch, Event, Filtering, Follow, Normalise, Plugin, Prepared, Reads, Scoring, Subject,
    Work,
};
use crate::plugins::{ArgsError, read_args};
use crate::queue::{Actions, Hint, Interest, Resource, Wake};
use crate::snapshot::{Change, Headcount, NodeIx, Snapshot, What};
use crate::verdict::Verdict;

use super::domains::Domains;

pub(super) const NAME: &str = "InterPodAffinity";

/// A node takes the domains of its pods with it, so its going matters, too.
pub(super) const WAKES: Interest = Interest::Only(&[
    Wake::new(Resource::Pod, Actions::ADD.or(Actions::DELETE).or(Actions::POD_LABEL)),
    Wake::new(Resource::OwnPod, Actions::POD_LABEL),
    Wake::new(Resource::Node, Actions::ADD.or(Actions::DELETE).or(Actions::NODE_LABEL)),
    Wake::new(Resource::Namespace, Actions::ALL),
]);

const AFFINITY: u32 = 0;
const ANTI_AFFINITY: u32 = 1;
const EXISTING: u32 = 2;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Args {
    hard_pod_affinity_weight: i64,
    ignore_preferred_terms_of_existing_pods: bool,
}

impl Default for Args {
    fn default() -> Self {
        Self { hard_pod_affinity_weight: 1, ignore_preferred_terms_of_existing_pods: false }
    }
}

#[derive(Debug)]
struct InterPodAffinity {
    args: Args,
}

pub(super) fn build(args: &Value, _snapshot: &mut Snapshot) -> Result<Box<dyn Plugin>, ArgsError> {
    let args: Args = read_args(NAME, args)?;
    if !(0..=100).contains(&args.hard_pod_affinity_weight) {
        let problem = format!(
            "hardPodAffinityWeight = {}: must be between 0 and 100",
            args.hard_pod_affinity_weight
        );
        return Err(ArgsError { plugin: NAME, problem });
    }
    Ok(Box::new(InterPodAffinity { args }))
}

impl Plugin for InterPodAffinity {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prepare(&self, context: Context<'_>) -> Prepared {
        let Context { snapshot, class } = context;
        let own = &class.pod_affinity;
        let vocal: Vec<&Arc<Class>> = snapshot.extras.company.vocal().collect();
        let is_feared = vocal
            .iter()
            .any(|other| any_admits(&other.pod_affinity.anti_required, class, snapshot));
        let filters = is_feared || !own.required.is_empty() || !own.anti_required.is_empty();

        let has_wishes = !own.preferred.is_empty() || !own.anti_preferred.is_empty();
        let scores = has_wishes
            || (!self.args.ignore_preferred_terms_of_existing_pods
                && vocal.iter().any(|other| self.likes(other, class, snapshot)));
        if !filters && !scores {
            return Prepared::skip().on(DEPENDS);
        }
        let work = Company::new(context, self.args.hard_pod_affinity_weight, filters, scores);
        let mut prepared = Prepared::filter(Reads::Cluster, work).on(DEPENDS);
        if !filters {
            prepared.filter = Filtering::Skip;
        }
        if scores {
            prepared.score = Scoring::Run(Reads::Cluster, Normalise::Own);
        }
        prepared
    }

    /// Company changes for a pod when somebody it wants comes (or the last one it wanted goes,
    /// which frees the first of its kind), when somebody it shuns goes, or somebody who shuns it.
    fn hint(&self, snapshot: &Snapshot, class: &Class, event: &Event) -> Hint {
        let Some(Subject::Pod { before, after }) = &event.subject else { return Hint::Queue };
        if event.resource == Resource::OwnPod {
            return Hint::Queue;
        }
        let is_new = event.actions.overlaps(Actions::ADD);
        let before = before.as_deref().filter(|_| !is_new);
        let own = &class.pod_affinity;
        let is_wanted = |pod: Option<&Class>| {
            pod.is_some_and(|pod| own.required.iter().all(|term| admits(term, pod, snapshot)))
        };
        let is_shunned = |pod: Option<&Class>| {
            pod.is_some_and(|pod| {
                any_admits(&own.anti_required, pod, snapshot)
                    || any_admits(&pod.pod_affinity.anti_required, class, snapshot)
            })
        };
        let after = after.as_deref();
        let has_new_company = !own.required.is_empty() && is_wanted(before) != is_wanted(after);
        Hint::queue_if(has_new_company || (is_shunned(before) && !is_shunned(after)))
    }
}

const DEPENDS: &[Epoch] = &[Epoch::Company, Epoch::Namespaces];

impl InterPodAffinity {
    /// Could pods of `other` change the score of pods of `class`?
    fn likes(&self, other: &Class, class: &Class, snapshot: &Snapshot) -> bool {
        let terms = &other.pod_affinity;
        let preferred = terms.preferred.iter().chain(&terms.anti_preferred);
        let required = terms.required.iter().filter(|_| self.args.hard_pod_affinity_weight > 0);
        preferred.map(|one| &one.term).chain(required).any(|term| admits(term, class, snapshot))
    }
}

/// Has a class appeared after `version` of the company that says something about this one?
pub(crate) fn concerns(snapshot: &Snapshot, class: &Class, version: u64) -> bool {
    snapshot.extras.company.arrived_after(version).any(|other| {
        let PodAffinity { required, preferred, anti_required, anti_preferred } =
            &other.pod_affinity;
        let weighed = preferred.iter().chain(anti_preferred).map(|one| &one.term);
        let mut terms = required.iter().chain(anti_required).chain(weighed);
        terms.any(|term| admits(term, class, snapshot))
    })
}

fn any_admits(terms: &[PodTerm], class: &Class, snapshot: &Snapshot) -> bool {
    terms.iter().any(|term| admits(term, class, snapshot))
}

/// Does the term mean pods of this class?
fn admits(term: &PodTerm, class: &Class, snapshot: &Snapshot) -> bool {
    matches(term, class.namespace, &class.labels, snapshot)
}

fn matches(term: &PodTerm, namespace: Symbol, labels: &Labels, snapshot: &Snapshot) -> bool {
    covers(term, namespace, snapshot) && term.selector.matches(labels, &snapshot.names)
}

fn covers(term: &PodTerm, namespace: Symbol, snapshot: &Snapshot) -> bool {
    term.namespaces.contains(&namespace)
        || term.namespace_selector.as_ref().is_some_and(|selector| {
            let labels = snapshot.extras.workloads.namespace(namespace);
            selector.matches(labels.unwrap_or(&Labels::default()), &snapshot.names)
        })
}

/// Counts within the domains of one topology key.
#[derive(Debug)]
struct Axis {
    domains: Domains,
    /// A required affinity term has this key.
    is_required: bool,
    wanted: Vec<i64>,
    unwanted: Vec<i64>,
    hostile: Vec<i64>,
    worth: Vec<i64>,
}

impl Axis {
    fn new(key: Symbol, snapshot: &Snapshot) -> Self {
        let domains = Domains::new(key, snapshot);
        let zeros = || vec![0; domains.len()];
        let (wanted, unwanted, hostile, worth) = (zeros(), zeros(), zeros(), zeros());
        Self { domains, is_required: false, wanted, unwanted, hostile, worth }
    }
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Wanted,
    Unwanted,
    Hostile,
    Worth,
}

/// What one pod of some class adds to the counts.
#[derive(Debug, Clone, Copy)]
struct Share {
    key: Symbol,
    kind: Kind,
    amount: i64,
}

/// Prepared counts for one class of incoming pods.
#[derive(Debug)]
struct Company {
    namespace: Symbol,
    labels: Labels,
    own: PodAffinity,
    hard_weight: i64,
    filters: bool,
    scores: bool,
    matches_itself: bool,
    axes: Vec<Axis>,
    /// Sum of all `wanted`: nobody matches anywhere when zero.
    wanted: i64,
}

impl Company {
    fn new(context: Context<'_>, hard_weight: i64, filters: bool, scores: bool) -> Self {
        let Context { snapshot, class } = context;
        let own = &class.pod_affinity;
        let matches_itself = own.required.iter().all(|term| admits(term, class, snapshot));
        let mut company = Self {
            namespace: class.namespace,
            labels: class.labels.clone(),
            own: own.clone(),
            hard_weight,
            filters,
            scores,
            matches_itself,
            axes: Vec::new(),
            wanted: 0,
        };
        for term in &own.required {
            company.axis(term.topology_key, snapshot).is_required = true;
        }
        for term in &own.anti_required {
            company.axis(term.topology_key, snapshot);
        }
        company.count(snapshot);
        company
    }

    /// Counts everybody there is.
    fn count(&mut self, snapshot: &Snapshot) {
        let own = self.own.clone();
        let anti = own.anti_required.iter().chain(&own.required);
        let preferred = own.preferred.iter().chain(&own.anti_preferred).map(|one| &one.term);
        let terms: Vec<&PodTerm> = anti.chain(preferred).collect();
        let company = &snapshot.extras.company;
        let mut shares = Vec::new();
        let passes = |namespace| terms.iter().any(|term| covers(term, namespace, snapshot));
        for members in company.within(passes) {
            shares.clear();
            self.own_shares(&members.class, snapshot, &mut shares);
            self.charge_all(&shares, &members.nodes, snapshot);
        }
        for other in company.vocal() {
            let Some(members) = company.members(other) else { continue };
            shares.clear();
            self.their_shares(other, snapshot, &mut shares);
            self.charge_all(&shares, &members.nodes, snapshot);
        }
    }

    fn charge_all(
        &mut self,
        shares: &[Share],
        nodes: &std::collections::BTreeMap<NodeIx, Headcount>,
        snapshot: &Snapshot,
    ) {
        for share in shares {
            for (node, count) in nodes {
                self.charge(*share, *node, i64::from(count.all), snapshot);
            }
        }
    }

    fn axis(&mut self, key: Symbol, snapshot: &Snapshot) -> &mut Axis {
        let at = self.axes.iter().position(|axis| axis.domains.key == key);
        let at = at.unwrap_or_else(|| {
            self.axes.push(Axis::new(key, snapshot));
            self.axes.len() - 1
        });
        &mut self.axes[at]
    }

    /// What the incoming pod's own terms make of a pod of `other`.
    fn own_shares(&self, other: &Class, snapshot: &Snapshot, shares: &mut Vec<Share>) {
        let own = &self.own;
        if self.filters {
            if !own.required.is_empty()
                && own.required.iter().all(|term| admits(term, other, snapshot))
            {
                let wanted = own.required.iter();
                shares.extend(wanted.map(|term| share(term, Kind::Wanted, 1)));
            }
            let unwanted = own.anti_required.iter().filter(|term| admits(term, other, snapshot));
            shares.extend(unwanted.map(|term| share(term, Kind::Unwanted, 1)));
        }
        if self.scores {
            let liked = own.preferred.iter().map(|one| (one, one.weight));
            let disliked = own.anti_preferred.iter().map(|one| (one, -one.weight));
            let matching =
                liked.chain(disliked).filter(|(one, _)| admits(&one.term, other, snapshot));
            shares.extend(matching.map(|(one, weight)| share(&one.term, Kind::Worth, weight)));
        }
    }

    /// What the terms of a pod of `other` make of the incoming pod.
    fn their_shares(&self, other: &Class, snapshot: &Snapshot, shares: &mut Vec<Share>) {
        let theirs = &other.pod_affinity;
        let means_us = |term: &PodTerm| matches(term, self.namespace, &self.labels, snapshot);
        if self.filters {
            let hostile = theirs.anti_required.iter().filter(|term| means_us(term));
            shares.extend(hostile.map(|term| share(term, Kind::Hostile, 1)));
        }
        if self.scores {
            let required = theirs.required.iter().map(|term| (term, self.hard_weight));
            let liked = theirs.preferred.iter().map(|one| (&one.term, one.weight));
            let disliked = theirs.anti_preferred.iter().map(|one| (&one.term, -one.weight));
            let all = required.filter(|(_, weight)| *weight > 0).chain(liked).chain(disliked);
            let matching = all.filter(|(term, _)| means_us(term));
            shares.extend(matching.map(|(term, weight)| share(term, Kind::Worth, weight)));
        }
    }

    fn charge(&mut self, share: Share, node: NodeIx, times: i64, snapshot: &Snapshot) {
        let amount = share.amount.saturating_mul(times);
        let axis = self.axis(share.key, snapshot);
        let Some(domain) = axis.domains.get(node) else { return };
        let column = match share.kind {
            Kind::Wanted => &mut axis.wanted,
            Kind::Unwanted => &mut axis.unwanted,
            Kind::Hostile => &mut axis.hostile,
            Kind::Worth => &mut axis.worth,
        };
        if let Some(count) = column.get_mut(domain) {
            *count = count.saturating_add(amount);
        }
        if matches!(share.kind, Kind::Wanted) {
            self.wanted += amount;
        }
    }

    fn followed(&mut self, other: &Class, node: NodeIx, sign: i64, snapshot: &Snapshot) {
        let mut shares = Vec::new();
        if !self.own.is_empty() {
            self.own_shares(other, snapshot, &mut shares);
        }
        if !other.pod_affinity.is_empty() {
            self.their_shares(other, snapshot, &mut shares);
        }
        for share in shares {
            self.charge(share, node, sign, snapshot);
        }
    }
}

fn share(term: &PodTerm, kind: Kind, amount: i64) -> Share {
    Share { key: term.topology_key, kind, amount }
}

fn at(column: &[i64], domain: usize) -> i64 {
    column.get(domain).copied().unwrap_or(0)
}

impl Work for Company {
    fn follow(&mut self, snapshot: &Snapshot, change: &Change) -> Follow {
        match &change.what {
            What::Added { class, .. } => self.followed(class, change.node, 1, snapshot),
            What::Removed { class, .. } => self.followed(class, change.node, -1, snapshot),
            What::State => {}
            What::Node => {
                let node = snapshot.node(change.node).map(|node| &**node);
                if !self.axes.iter().all(|axis| axis.domains.holds(change.node, node)) {
                    return Follow::Stale;
                }
            }
        }
        Follow::Kept
    }

    fn filter(&self, _snapshot: &Snapshot, node: NodeIx) -> Verdict {
        let (mut has_keys, mut has_company) = (true, true);
        let (mut is_unwanted, mut is_hostile) = (false, false);
        for axis in &self.axes {
            match axis.domains.get(node) {
                None => has_keys &= !axis.is_required,
                Some(domain) => {
                    has_company &= !axis.is_required || at(&axis.wanted, domain) > 0;
                    is_unwanted |= at(&axis.unwanted, domain) > 0;
                    is_hostile |= at(&axis.hostile, domain) > 0;
                }
            }
        }
        let is_first = self.wanted == 0 && self.matches_itself;
        if !has_keys || !(has_company || is_first) {
            Verdict::unresolvable(AFFINITY)
        } else if is_unwanted {
            Verdict::unschedulable(ANTI_AFFINITY)
        } else if is_hostile {
            Verdict::unschedulable(EXISTING)
        } else {
            Verdict::OK
        }
    }

    fn reason(&self, bit: u32) -> Cow<'_, str> {
        Cow::Borrowed(match bit {
            AFFINITY => "node(s) didn't match pod affinity rules",
            ANTI_AFFINITY => "node(s) didn't match pod anti-affinity rules",
            _ => "node(s) didn't satisfy existing pods anti-affinity rules",
        })
    }

    fn score(&self, _snapshot: &Snapshot, node: NodeIx) -> i64 {
        let worth =
            |axis: &Axis| axis.domains.get(node).map_or(0, |domain| at(&axis.worth, domain));
        self.axes.iter().map(worth).fold(0, i64::saturating_add)
    }

    fn normalise(&self, _feasible: &[NodeIx], scores: &mut [i64]) {
        stretch(scores);
    }
}

/// Lowest to 0, highest to 100, in floating point as the reference does.
fn stretch(scores: &mut [i64]) {
    let (Some(&min), Some(&max)) = (scores.iter().min(), scores.iter().max()) else { return };
    let span = max.saturating_sub(min);
    for score in scores {
        *score = match span {
            0 => 0,
            #[expect(clippy::cast_possible_truncation, reason = "between 0 and 100")]
            #[expect(clippy::cast_precision_loss, reason = "the reference computes in f64")]
            _ => (100.0 * ((*score - min) as f64 / span as f64)) as i64,
        };
    }
}
