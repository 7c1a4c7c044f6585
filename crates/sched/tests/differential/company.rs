//! Affinity between pods and spread, read off the objects. One namespace, selectors by labels.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    Node, Pod, PodAffinityTerm, TopologySpreadConstraint, WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::brute::{self, Known, Status, World};

/// The pods of every node, by the node's name.
pub(crate) type Cluster<'a> = BTreeMap<&'a str, (&'a Node, Vec<&'a Pod>)>;

impl World {
    /// All filters, with these pods on the node and everybody else where they are.
    pub(crate) fn filter(&self, known: &Known, node: &str, here: &[&Known]) -> Status {
        let local = brute::filter(known, &self.nodes[node], here);
        if local != Status::Ok {
            return local;
        }
        let mut cluster = self.cluster();
        if let Some((_, pods)) = cluster.get_mut(node) {
            *pods = here.iter().map(|one| &one.pod).collect();
        }
        filter(&known.pod, &self.nodes[node].node, &cluster)
    }

    pub(crate) fn cluster(&self) -> Cluster<'_> {
        let empty = self.nodes.iter().map(|(name, place)| (name.as_str(), (&place.node, vec![])));
        let mut cluster: Cluster<'_> = empty.collect();
        for known in self.pods.values() {
            let node = known.node.as_deref();
            if let Some((_, pods)) = node.and_then(|node| cluster.get_mut(node)) {
                pods.push(&known.pod);
            }
        }
        cluster
    }
}

fn value<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

fn selects(selector: Option<&LabelSelector>, pod: &Pod) -> bool {
    let Some(wanted) = selector.and_then(|one| one.match_labels.as_ref()) else { return false };
    let labels = pod.metadata.labels.as_ref();
    wanted.iter().all(|(key, value)| labels.and_then(|all| all.get(key)) == Some(value))
}

/// Terms of a pod: required and preferred, of affinity or of its opposite.
#[derive(Default)]
struct Terms<'a> {
    near: Vec<&'a PodAffinityTerm>,
    apart: Vec<&'a PodAffinityTerm>,
    liked: Vec<&'a WeightedPodAffinityTerm>,
    disliked: Vec<&'a WeightedPodAffinityTerm>,
}

fn terms(pod: &Pod) -> Terms<'_> {
    let Some(affinity) = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref()) else {
        return Terms::default();
    };
    let (near, apart) = (affinity.pod_affinity.as_ref(), affinity.pod_anti_affinity.as_ref());
    let near_required =
        near.and_then(|one| one.required_during_scheduling_ignored_during_execution.as_ref());
    let apart_required =
        apart.and_then(|one| one.required_during_scheduling_ignored_during_execution.as_ref());
    let liked =
        near.and_then(|one| one.preferred_during_scheduling_ignored_during_execution.as_ref());
    let disliked =
        apart.and_then(|one| one.preferred_during_scheduling_ignored_during_execution.as_ref());
    Terms {
        near: near_required.into_iter().flatten().collect(),
        apart: apart_required.into_iter().flatten().collect(),
        liked: liked.into_iter().flatten().collect(),
        disliked: disliked.into_iter().flatten().collect(),
    }
}

/// Most pods say nothing about others.
fn is_silent(pod: &Pod) -> bool {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    affinity.is_none_or(|one| one.pod_affinity.is_none() && one.pod_anti_affinity.is_none())
}

fn means(term: &PodAffinityTerm, pod: &Pod) -> bool {
    selects(term.label_selector.as_ref(), pod)
}

/// Everybody in the domain of a node.
fn around<'a>(
    cluster: &'a Cluster<'_>,
    node: &'a Node,
    key: &'a str,
) -> impl Iterator<Item = &'a Pod> {
    let own = value(node, key);
    let same = cluster.values().filter(move |(one, _)| own.is_some() && value(one, key) == own);
    same.flat_map(|(_, pods)| pods.iter().copied())
}

/// Spread, then affinity, as they stand in the order of filters.
pub(crate) fn filter(pod: &Pod, node: &Node, cluster: &Cluster<'_>) -> Status {
    let rejects = |why: &str| Status::Unschedulable(vec![why.to_owned()]);
    let forbids = |why: &str| Status::Unresolvable(vec![why.to_owned()]);
    for one in constraints(pod, "DoNotSchedule") {
        if value(node, &one.topology_key).is_none() {
            return forbids(
                "node(s) didn't match pod topology spread constraints (missing required label)",
            );
        }
        let domains: BTreeSet<&str> =
            cluster.values().filter_map(|(node, _)| value(node, &one.topology_key)).collect();
        let count = |domain: &str| count(cluster, one, domain);
        let least = domains.iter().map(|domain| count(domain)).min().unwrap_or(0);
        let own = i64::from(selects(one.label_selector.as_ref(), pod));
        let here = value(node, &one.topology_key).map_or(0, count);
        if here + own - least > i64::from(one.max_skew) {
            return rejects("node(s) didn't match pod topology spread constraints");
        }
    }
    let own = terms(pod);
    let all = |other: &Pod| own.near.iter().all(|term| means(term, other));
    let is_met = own.near.iter().all(|term| around(cluster, node, &term.topology_key).any(all));
    let nobody = !cluster.values().flat_map(|(_, pods)| pods).any(|other| all(other));
    if !(is_met || (nobody && all(pod))) {
        return forbids("node(s) didn't match pod affinity rules");
    }
    let mut shunned = own.apart.iter();
    if shunned.any(|term| around(cluster, node, &term.topology_key).any(|one| means(term, one))) {
        return rejects("node(s) didn't match pod anti-affinity rules");
    }
    let is_hostile = |other: &Pod, there: &Node| {
        !is_silent(other)
            && terms(other).apart.iter().any(|term| {
                let here = value(node, &term.topology_key);
                means(term, pod) && here.is_some() && here == value(there, &term.topology_key)
            })
    };
    if cluster.values().any(|(there, pods)| pods.iter().any(|other| is_hostile(other, there))) {
        return rejects("node(s) didn't satisfy existing pods anti-affinity rules");
    }
    Status::Ok
}

fn constraints<'a>(
    pod: &'a Pod,
    when: &'a str,
) -> impl Iterator<Item = &'a TopologySpreadConstraint> {
    let all = pod.spec.as_ref().and_then(|spec| spec.topology_spread_constraints.as_ref());
    all.into_iter().flatten().filter(move |one| one.when_unsatisfiable == when)
}

fn count(cluster: &Cluster<'_>, one: &TopologySpreadConstraint, domain: &str) -> i64 {
    let within =
        cluster.values().filter(|(node, _)| value(node, &one.topology_key) == Some(domain));
    let counted = within.flat_map(|(_, pods)| pods).filter(|pod| {
        pod.metadata.deletion_timestamp.is_none() && selects(one.label_selector.as_ref(), pod)
    });
    counted.count() as i64
}

/// Normalised scores of feasible nodes, both plugins with their weights.
pub(crate) fn scores(pod: &Pod, feasible: &[&Node], cluster: &Cluster<'_>) -> Vec<i64> {
    let spread = spread_scores(pod, feasible, cluster);
    let worth: Vec<i64> = feasible.iter().map(|node| worth(pod, node, cluster)).collect();
    let (min, max) = (worth.iter().min().copied(), worth.iter().max().copied());
    let (min, span) = (min.unwrap_or(0), max.unwrap_or(0) - min.unwrap_or(0));
    let stretched = worth.iter().map(|one| match span {
        0 => 0,
        _ => (100.0 * ((one - min) as f64 / span as f64)) as i64,
    });
    stretched.zip(spread).map(|(affinity, spread)| 2 * affinity + 2 * spread).collect()
}

fn spread_scores(pod: &Pod, feasible: &[&Node], cluster: &Cluster<'_>) -> Vec<i64> {
    let soft: Vec<_> = constraints(pod, "ScheduleAnyway").collect();
    if soft.is_empty() {
        return vec![0; feasible.len()];
    }
    let raw = |node: &Node| {
        let part = |one: &&TopologySpreadConstraint| {
            let key = &one.topology_key;
            let domains: BTreeSet<_> = feasible.iter().map(|node| value(node, key)).collect();
            let here = value(node, key).map_or(0, |domain| count(cluster, one, domain));
            here as f64 * (domains.len() as f64 + 2.0).ln() + f64::from(one.max_skew - 1)
        };
        soft.iter().map(part).sum::<f64>().round() as i64
    };
    let raws: Vec<i64> = feasible.iter().map(|node| raw(node)).collect();
    let (min, max) = (raws.iter().min().copied(), raws.iter().max().copied());
    let (min, max) = (min.unwrap_or(0), max.unwrap_or(0));
    let score = |one: &i64| if max == 0 { 100 } else { 100 * (max + min - one) / max };
    raws.iter().map(score).collect()
}

fn worth(pod: &Pod, node: &Node, cluster: &Cluster<'_>) -> i64 {
    let own = terms(pod);
    let has_wishes = !own.liked.is_empty() || !own.disliked.is_empty();
    let mut sum = 0;
    for (there, pods) in cluster.values() {
        let shares =
            |key: &str| value(node, key).is_some() && value(node, key) == value(there, key);
        for other in pods.iter().filter(|other| has_wishes || !is_silent(other)) {
            let theirs = terms(other);
            let mut add = |term: &PodAffinityTerm, of: &Pod, weight: i64| {
                if means(term, of) && shares(&term.topology_key) {
                    sum += weight;
                }
            };
            for one in &own.liked {
                add(&one.pod_affinity_term, other, i64::from(one.weight));
            }
            for one in &own.disliked {
                add(&one.pod_affinity_term, other, -i64::from(one.weight));
            }
            for one in &theirs.liked {
                add(&one.pod_affinity_term, pod, i64::from(one.weight));
            }
            for one in &theirs.disliked {
                add(&one.pod_affinity_term, pod, -i64::from(one.weight));
            }
            for term in &theirs.near {
                add(term, pod, 1);
            }
        }
    }
    sum
}
