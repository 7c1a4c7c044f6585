//! Clearing one node, on paper.

use super::budget::Budgets;
use super::{Candidate, Cost, NO_VICTIMS};
use crate::cycle::Cycle;
use crate::snapshot::{NodeIx, PodIx};
use crate::standing::Standing;
use crate::tie;
use crate::time::Time;

#[derive(Debug)]
pub(super) struct DryRun<'a, 'b> {
    pub(super) cycle: &'a mut Cycle<'b>,
    pub(super) standing: &'a mut Standing,
    pub(super) budgets: &'a Budgets,
    pub(super) pod: PodIx,
}

impl DryRun<'_, '_> {
    /// Who would have to go, or why that would not help. The cluster is as before afterwards.
    pub(super) fn run(&mut self, node: NodeIx) -> Result<(Candidate, Cost), Vec<String>> {
        let lower = self.less_important(node);
        if lower.is_empty() {
            return Err(vec![NO_VICTIMS.to_owned()]);
        }
        for victim in &lower {
            self.cycle.try_off(self.standing, *victim, node);
        }
        let judgement = self.cycle.fits(self.standing, self.pod, node);
        if !judgement.verdict.is_ok() {
            for victim in &lower {
                self.cycle.try_on(self.standing, *victim, node);
            }
            let words = self.standing.words(judgement);
            return Err(words.map(|group| group.reasons).unwrap_or_default());
        }
        let victims = self.reprieve(node, lower);
        for (victim, _) in &victims {
            self.cycle.try_on(self.standing, *victim, node);
        }
        let cost = self.cost(&victims);
        Ok((Candidate { node, victims }, cost))
    }

    /// Pods below the priority of ours, most important first.
    fn less_important(&self, node: NodeIx) -> Vec<PodIx> {
        let snapshot = &*self.cycle.snapshot;
        let priority = self.standing.class().priority;
        let pods = snapshot.pods_on(node).iter().copied();
        let mut lower: Vec<PodIx> = pods
            .filter(|pod| snapshot.pods.get(*pod).is_some_and(|one| one.class.priority < priority))
            .collect();
        lower.sort_by_cached_key(|pod| {
            let found = snapshot.pods.get(*pod);
            let priority = found.map_or(0, |one| one.class.priority);
            let start = found.and_then(|one| one.started).unwrap_or(Time::MAX);
            let uid = found.map(|one| std::sync::Arc::clone(&one.uid));
            (std::cmp::Reverse(priority), start, uid)
        });
        lower
    }

    /// Puts pods back while ours still fits; returns who stays away, most important first.
    fn reprieve(&mut self, node: NodeIx, lower: Vec<PodIx>) -> Vec<(PodIx, bool)> {
        let violating = self.budgets.violating(self.cycle.snapshot, &lower);
        let order = |wanted: bool| {
            let both = lower.iter().zip(&violating);
            both.filter(move |(_, violates)| **violates == wanted).map(|(pod, _)| *pod)
        };
        let order: Vec<(PodIx, bool)> = order(true)
            .map(|pod| (pod, true))
            .chain(order(false).map(|pod| (pod, false)))
            .collect();
        let mut victims: Vec<(PodIx, bool)> = Vec::new();
        for (pod, violates) in order {
            self.cycle.try_on(self.standing, pod, node);
            if !self.cycle.fits(self.standing, self.pod, node).verdict.is_ok() {
                self.cycle.try_off(self.standing, pod, node);
                victims.push((pod, violates));
            }
        }
        victims.sort_by_key(|(pod, _)| lower.iter().position(|one| one == pod));
        victims
    }

    fn cost(&self, victims: &[(PodIx, bool)]) -> Cost {
        let found = || victims.iter().filter_map(|(pod, _)| self.cycle.snapshot.pods.get(*pod));
        let top = found().map(|one| one.class.priority).max().unwrap_or(i32::MIN);
        let starts = found().filter(|one| one.class.priority == top);
        let start = starts.map(|one| one.started.unwrap_or(Time::MAX)).min();
        let violations = victims.iter().filter(|(_, violates)| *violates).count();
        Cost {
            violations: u32::try_from(violations).unwrap_or(u32::MAX),
            top_priority: top,
            sum: found().map(|one| i64::from(one.class.priority) + (1 << 31)).sum(),
            victims: u32::try_from(victims.len()).unwrap_or(u32::MAX),
            start: std::cmp::Reverse(start.unwrap_or(Time::MAX)),
        }
    }

    /// The class's own order of equal nodes; lower goes first.
    pub(super) fn order(&self, node: NodeIx, seed: u64) -> u64 {
        let class = tie::mix(self.standing.class().tie ^ seed);
        !tie::between(class, self.cycle.snapshot.tie(node))
    }
}
