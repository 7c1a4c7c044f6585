//! Explanations: the decision once more, told in full.

use std::collections::BTreeMap;

use super::Scheduler;
use crate::cycle::{Cycle, Decision};
use crate::explain::{Explanation, State, Waiting};
use crate::snapshot::{Phase, PodIx};
use crate::verdict::Code;

/// How many rejected nodes are told by name.
const NEAREST: usize = 5;

impl Scheduler {
    /// Why a pod waits, or why it is where it is. Decides again for a waiting pod, and leaves
    /// everything as it was.
    pub fn explain(&mut self, namespace: &str, name: &str) -> Option<Explanation> {
        let pod = self.find_pod(namespace, name)?;
        let state = self.state(pod)?;
        Some(Explanation { namespace: namespace.to_owned(), name: name.to_owned(), state })
    }

    fn state(&mut self, pod: PodIx) -> Option<State> {
        let found = self.snapshot.pods.get(pod)?;
        let uid = std::sync::Arc::clone(&found.uid);
        if let Some(node) = found.node.filter(|_| found.phase != Phase::Pending) {
            let kept = self.placements.by_uid.get(&uid);
            let kept = kept.filter(|kept| kept.choice.node == node);
            let why = kept.map(|kept| Box::new(self.placement(&kept.choice)));
            return Some(State::Placed { node: self.snapshot.node_name(node).to_owned(), why });
        }
        let nominated = found.nominated.map(|name| self.snapshot.names.text(name).to_owned());
        let (_, policy) = self.queue_and_policy();
        if let Some((plugin, reason)) = policy.gating(&uid, None) {
            return Some(State::Gated { plugin, reason });
        }
        let profile = self.profile_of(pod);
        let Self { snapshot, frameworks, nominator, standings, pass, .. } = self;
        let framework = frameworks.get(profile)?;
        let refused = match (Cycle { snapshot, framework, nominator }).decide(standings, pass, pod)
        {
            Decision::Place(choice) => {
                return Some(State::Ready(Box::new(self.placement(&choice))));
            }
            Decision::Reject(refused) => refused,
        };
        let mut nearest: Vec<_> = refused.nodes.iter().collect();
        nearest.sort_by_key(|(group, _)| (group.code == Code::Unresolvable, group.reasons.len()));
        let named = nearest.into_iter().flat_map(|(group, nodes)| {
            let mut one = group.clone();
            one.nodes = 1;
            nodes.iter().map(move |node| (*node, one.clone()))
        });
        let nearest = named
            .take(NEAREST)
            .map(|(node, group)| (self.snapshot.node_name(node).to_owned(), group))
            .collect();
        Some(State::Waiting(Box::new(Waiting { why: refused.rejection, nearest, nominated })))
    }

    /// Weighted scores of every feasible node for a waiting pod, best first.
    pub fn ranking(&mut self, namespace: &str, name: &str) -> Option<Vec<(String, i64)>> {
        let pod = self.find_pod(namespace, name)?;
        let profile = self.profile_of(pod);
        let class = std::sync::Arc::clone(&self.snapshot.pods.get(pod)?.class);
        let Self { snapshot, frameworks, standings, pass, .. } = self;
        let standing = standings.current(frameworks.get(profile)?, snapshot, &class);
        standing.pass(snapshot, &[], pass);
        let mut totals: BTreeMap<(i64, String), i64> = BTreeMap::new();
        for (node, total) in pass.totals() {
            totals.insert((-total, snapshot.node_name(node).to_owned()), total);
        }
        Some(totals.into_iter().map(|((_, node), total)| (node, total)).collect())
    }
}
