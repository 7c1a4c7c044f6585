//! Which pod is missed least?
//!
//! The first difference decides who goes first:
//!
//! 1. not bound to a node before bound;
//! 2. pending before unknown before running;
//! 3. not ready before ready;
//! 4. lower `controller.kubernetes.io/pod-deletion-cost` before higher;
//! 5. on a node with more pods of the same workload before fewer, which spreads the rest;
//! 6. ready for a shorter time before longer;
//! 7. more restarts before fewer;
//! 8. younger before older.
//!
//! Times in 6 and 8 are compared by their order of magnitude (the binary logarithm), and the
//! unique id decides between equals: otherwise the newest pods would always be hit, and with them
//! the zone that was scaled up last.

use std::{cmp::Ordering, collections::HashMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use crate::{
    controllers::{
        key::uid,
        pod::{PodFacts, is_active},
    },
    well_known::POD_DELETION_COST,
};

/// All pods, the one that is missed least first.
pub(crate) fn by_expendability(
    pods: &[Arc<Pod>],
    neighbours: &HashMap<String, usize>,
    now: Timestamp,
) -> Vec<Arc<Pod>> {
    let mut ranked: Vec<(Rank<'_>, &Arc<Pod>)> =
        pods.iter().map(|pod| (Rank::of(pod, neighbours, now), pod)).collect();
    ranked.sort_by(|(left, _), (right, _)| left.order(right));
    ranked.into_iter().map(|(_, pod)| pod.clone()).collect()
}

/// Counts active pods by node.
pub(crate) fn by_node<'a>(pods: impl IntoIterator<Item = &'a Arc<Pod>>) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for node in pods.into_iter().filter(|pod| is_active(pod)).filter_map(|pod| pod.node()) {
        *counts.entry(node.to_owned()).or_default() += 1;
    }
    counts
}

/// What is compared, smallest first.
#[derive(Debug)]
struct Rank<'a> {
    is_bound: bool,
    phase: u8,
    is_ready: bool,
    cost: i32,
    neighbours: usize,
    ready_for: Age,
    restarts: i32,
    age: Age,
    uid: &'a str,
}

/// The binary logarithm of a time span; `None` for the future. An unknown time is the longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Age {
    Known(Option<u32>),
    Unknown,
}

impl<'a> Rank<'a> {
    fn of(pod: &'a Pod, neighbours: &HashMap<String, usize>, now: Timestamp) -> Self {
        let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        Self {
            is_bound: pod.node().is_some(),
            phase: match pod.phase() {
                "Pending" | "" => 0,
                "Unknown" => 1,
                _ => 2,
            },
            is_ready: pod.is_ready(),
            cost: deletion_cost(pod),
            neighbours: pod.node().and_then(|node| neighbours.get(node)).copied().unwrap_or(0),
            ready_for: Age::since(pod.ready_since(), now),
            restarts: restarts(pod),
            age: Age::since(created, now),
            uid: uid(pod),
        }
    }

    fn order(&self, other: &Self) -> Ordering {
        self.is_bound
            .cmp(&other.is_bound)
            .then(self.phase.cmp(&other.phase))
            .then(self.is_ready.cmp(&other.is_ready))
            .then(self.cost.cmp(&other.cost))
            .then(other.neighbours.cmp(&self.neighbours))
            .then(self.ready_for.cmp(&other.ready_for))
            .then(other.restarts.cmp(&self.restarts))
            .then(self.age.cmp(&other.age))
            .then(self.uid.cmp(other.uid))
    }
}

impl Age {
    fn since(time: Option<Timestamp>, now: Timestamp) -> Self {
        let Some(time) = time else { return Age::Unknown };
        let span = now.duration_since(time).as_nanos();
        Age::Known(u128::try_from(span).ok().and_then(u128::checked_ilog2))
    }
}

/// What the owner says it would cost; what is not a number costs nothing.
fn deletion_cost(pod: &Pod) -> i32 {
    let annotations = pod.metadata.annotations.as_ref();
    let text = annotations.and_then(|annotations| annotations.get(POD_DELETION_COST));
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    statuses.map(|container| container.restart_count).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt;
    use proptest::prelude::*;

    use super::*;
    use crate::controllers::fixture::{NOW, PodBuilder, ago, pod};

    fn first(left: PodBuilder, right: PodBuilder, neighbours: &HashMap<String, usize>) -> String {
        let pods = [Arc::new(left.build()), Arc::new(right.build())];
        let ranked = by_expendability(&pods, neighbours, NOW);
        let turned: Vec<_> = pods.iter().rev().cloned().collect();
        assert_eq!(ranked, by_expendability(&turned, neighbours, NOW), "order of input");
        ranked[0].name_any()
    }

    /// In every row `first` goes before `second`, although the later rules say otherwise.
    #[test]
    fn earlier_rules_beat_later_ones() {
        let ready = |name: &str| pod(name).on("n1").ready_since(ago(3_600)).created(ago(7_200));
        let cost = |pod: PodBuilder, cost: &str| pod.annotation(POD_DELETION_COST, cost);
        let crowded = HashMap::from([("n1".to_owned(), 3), ("n2".to_owned(), 1)]);
        let cases = [
            ("unbound", cost(pod("first"), "100"), pod("second").on("n1")),
            (
                "pending",
                cost(pod("first").on("n1"), "100"),
                pod("second").on("n1").phase("Unknown"),
            ),
            ("unknown", pod("first").on("n1").phase("Unknown"), pod("second").on("n1").running()),
            ("not ready", cost(pod("first").on("n1").running(), "9"), ready("second")),
            ("cheaper", cost(ready("first"), "-1"), ready("second").restarts(9)),
            (
                "a cost that is no number",
                ready("first").uid("a"),
                cost(ready("second").uid("b"), "x"),
            ),
            ("crowded node", ready("first"), ready("second").on("n2").restarts(9)),
            (
                "ready for less long",
                ready("first").with(|p| p.status = None).ready_since(ago(60)),
                ready("second").restarts(9),
            ),
            ("more restarts", ready("first").restarts(2), ready("second").restarts(1).created(NOW)),
            ("younger", ready("first").created(ago(60)), ready("second")),
            (
                "same magnitude: by id",
                ready("first").uid("a").created(ago(7_200)),
                ready("second").uid("b").created(ago(7_000)),
            ),
        ];
        for (name, one, other) in cases {
            assert_eq!(first(one, other, &crowded), "first", "{name}");
        }
    }

    #[test]
    fn only_active_bound_pods_are_neighbours() {
        let pods = [
            pod("a").on("n1").build(),
            pod("b").on("n1").terminating().build(),
            pod("c").on("n1").phase("Failed").build(),
            pod("d").build(),
            pod("e").on("n2").build(),
        ]
        .map(Arc::new);
        let want = HashMap::from([("n1".to_owned(), 1), ("n2".to_owned(), 1)]);
        assert_eq!(by_node(&pods), want);
    }

    proptest! {
        /// The ranking is an order: it does not depend on how the pods came in.
        #[test]
        fn the_order_of_input_does_not_matter(
            facts in prop::collection::vec((any::<bool>(), 0..3i32, 0..4_000i64, 0..3i32), 1..8),
            turn in 0..8usize,
        ) {
            let mut pods: Vec<_> = facts.into_iter().enumerate().map(|(n, (bound, cost, ready, restarts))| {
                let pod = pod(&format!("p{n}")).annotation(POD_DELETION_COST, &cost.to_string());
                let pod = if bound { pod.on("n1") } else { pod };
                let pod = if ready > 0 { pod.ready_since(ago(ready)) } else { pod };
                Arc::new(pod.restarts(restarts).build())
            }).collect();
            let ranked = by_expendability(&pods, &HashMap::new(), NOW);
            let length = pods.len();
            pods.rotate_left(turn % length);
            prop_assert_eq!(ranked, by_expendability(&pods, &HashMap::new(), NOW));
        }
    }
}
