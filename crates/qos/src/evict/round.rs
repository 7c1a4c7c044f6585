//! Who is asked to go, one at a time, until every need is met?
//!
//! Needs come in order. A departure counts for all needs of its target: sending away a pod for its CPU
//! frees the memory too, and nobody leaves twice for one round. Pods that left earlier and are still
//! listed count as gone, so that slow terminations do not cost a second victim. A pod that refuses
//! (a budget of disruptions, an error) frees nothing, and the next one is asked.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::Why;

/// What a need counts: use, or requests of what is lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    CpuUsed,
    BatchCpu,
    MidCpu,
    MemoryUsed,
    BatchMemory,
    MidMemory,
}

impl Target {
    pub fn resource(self) -> Resource {
        match self {
            Self::CpuUsed | Self::BatchCpu | Self::MidCpu => Resource::Cpu,
            Self::MemoryUsed | Self::BatchMemory | Self::MidMemory => Resource::Memory,
        }
    }
}

/// What is short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    Cpu,
    Memory,
}

/// So much must be freed, by these pods in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need<Id> {
    /// Which rule asks; it is named to the pod's owner.
    pub feature: &'static str,
    pub target: Target,
    pub release: i64,
    /// Each pod and what its end frees, first to go first; `None` when nobody knows.
    pub pods: Vec<(Id, Option<i64>)>,
    /// How many may leave for it in one round.
    pub most: Option<usize>,
    /// What is short runs out any moment.
    pub is_critical: bool,
    pub why: Why,
}

/// A pod to ask now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask<Id> {
    pub id: Id,
    pub feature: &'static str,
    pub target: Target,
    /// What was still missing when it was chosen.
    pub missing: i64,
    /// `None` when nobody knows.
    pub frees: Option<i64>,
    pub is_critical: bool,
    pub why: Why,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Leaves,
    Refuses,
}

/// One round of asking.
#[derive(Debug)]
pub struct Round<'a, Id> {
    needs: &'a [Need<Id>],
    released: BTreeMap<Target, i64>,
    handled: BTreeSet<Id>,
    asked: Option<Ask<Id>>,
    /// How many leave for each feature.
    leave: BTreeMap<&'static str, usize>,
    /// For what somebody leaves of whom nobody knows what that frees.
    unknown: BTreeSet<Target>,
}

impl<'a, Id: Ord + Clone> Round<'a, Id> {
    /// `leaving` were asked earlier and are still there.
    pub fn new(needs: &'a [Need<Id>], leaving: &BTreeSet<Id>) -> Self {
        let mut round = Self {
            needs,
            released: BTreeMap::new(),
            handled: BTreeSet::new(),
            asked: None,
            leave: BTreeMap::new(),
            unknown: BTreeSet::new(),
        };
        for id in leaving {
            round.count(id);
            round.handled.insert(id.clone());
        }
        round
    }

    /// The next pod to ask; its outcome goes to [`Round::take`] before the next one is chosen.
    pub fn choose(&mut self) -> Option<Ask<Id>> {
        for need in self.needs {
            let missing =
                need.release - self.released.get(&need.target).copied().unwrap_or_default();
            let leave = self.leave.get(need.feature).copied().unwrap_or_default();
            if missing <= 0 || need.most.is_some_and(|most| leave >= most) {
                continue;
            }
            // Whoever frees nothing is left in peace. Of those of whom nobody knows, one leaves at a time:
            // then it is known what came of it.
            let is_one_gone = self.unknown.contains(&need.target);
            let willing = need.pods.iter().find(|(id, frees)| {
                frees.map_or(!is_one_gone, |frees| frees > 0) && !self.handled.contains(id)
            });
            if let Some((id, frees)) = willing {
                let ask = Ask {
                    id: id.clone(),
                    feature: need.feature,
                    target: need.target,
                    missing,
                    frees: *frees,
                    is_critical: need.is_critical,
                    why: need.why,
                };
                self.asked = Some(ask.clone());
                return Some(ask);
            }
        }
        None
    }

    pub fn take(&mut self, outcome: Outcome) {
        let Some(ask) = self.asked.take() else { return };
        if outcome == Outcome::Leaves {
            self.count(&ask.id);
            *self.leave.entry(ask.feature).or_default() += 1;
        }
        self.handled.insert(ask.id);
    }

    /// Counts a departure once for each target, with the most any need expects of it.
    fn count(&mut self, leaving: &Id) {
        let mut freed: BTreeMap<Target, i64> = BTreeMap::new();
        for need in self.needs {
            if let Some((_, frees)) = need.pods.iter().find(|(id, _)| id == leaving) {
                let most = freed.entry(need.target).or_default();
                *most = (*most).max(frees.unwrap_or_default());
                if frees.is_none() {
                    self.unknown.insert(need.target);
                }
            }
        }
        for (target, frees) in freed {
            let released = self.released.entry(target).or_default();
            *released = released.saturating_add(frees);
        }
    }
}

#[cfg(test)]
mod tests {
    use units::{MilliCpu, Percent};

    use super::*;
    use crate::evict::cpu::Band;

    fn need(target: Target, release: i64, pods: &[(&'static str, i64)]) -> Need<&'static str> {
        let band = Band { threshold: Percent(70), lower: Percent(68) };
        let why = Why::Cpu { used: MilliCpu(0), capacity: MilliCpu(0), band };
        let pods = pods.iter().map(|(id, frees)| (*id, Some(*frees))).collect();
        Need { feature: "Test", target, release, pods, most: None, is_critical: false, why }
    }

    /// Runs a round in which these pods refuse; who left.
    fn run(
        needs: &[Need<&'static str>],
        leaving: &[&'static str],
        refusing: &[&'static str],
    ) -> Vec<&'static str> {
        let mut round = Round::new(needs, &leaving.iter().copied().collect());
        let mut left = Vec::new();
        while let Some(ask) = round.choose() {
            let refuses = refusing.contains(&ask.id);
            round.take(if refuses { Outcome::Refuses } else { Outcome::Leaves });
            if !refuses {
                left.push(ask.id);
            }
        }
        left
    }

    #[test]
    fn as_many_leave_as_needed() {
        use Target::{CpuUsed, MemoryUsed};
        let three = [("a", 3), ("b", 3), ("c", 3)];
        let at_most = |most| Need { most: Some(most), ..need(CpuUsed, 99, &three) };
        let cases: [(&str, Vec<_>, &[_], &[_], &[_]); 11] = [
            ("nothing needed", vec![need(CpuUsed, 0, &three)], &[], &[], &[]),
            ("one is enough", vec![need(CpuUsed, 3, &three)], &[], &[], &["a"]),
            ("two are", vec![need(CpuUsed, 4, &three)], &[], &[], &["a", "b"]),
            ("no more than allowed", vec![at_most(2)], &[], &[], &["a", "b"]),
            ("who refuses is not one of them", vec![at_most(1)], &[], &["a"], &["b"]),
            ("all are not", vec![need(CpuUsed, 99, &three)], &[], &[], &["a", "b", "c"]),
            ("a refusal costs the next", vec![need(CpuUsed, 3, &three)], &[], &["a"], &["b"]),
            ("who leaves already counts", vec![need(CpuUsed, 4, &three)], &["b"], &[], &["a"]),
            (
                "needs of one target share",
                vec![need(CpuUsed, 3, &[("a", 3)]), need(CpuUsed, 3, &three)],
                &[],
                &[],
                &["a"],
            ),
            (
                "needs of two targets share a pod",
                vec![need(CpuUsed, 3, &three), need(MemoryUsed, 5, &[("a", 9), ("b", 9)])],
                &[],
                &[],
                &["a"],
            ),
            (
                "who frees nothing stays",
                vec![need(CpuUsed, 3, &[("idle", 0), ("a", 3)])],
                &[],
                &[],
                &["a"],
            ),
        ];
        for (name, needs, leaving, refusing, want) in cases {
            assert_eq!(run(&needs, leaving, refusing), want, "{name}");
        }
    }

    #[test]
    fn who_has_no_sample_leaves_last_and_one_at_a_time() {
        let mut need = need(Target::MemoryUsed, 99, &[("a", 3)]);
        need.pods.extend([("new", None), ("newer", None)]);
        let needs = [need];
        assert_eq!(run(&needs, &[], &[]), ["a", "new"]);
        assert_eq!(run(&needs, &[], &["new"]), ["a", "newer"], "a refusal costs the next");
        assert_eq!(run(&needs, &["a", "new"], &[]), [""; 0], "it is still there");
        assert_eq!(run(&needs, &["a"], &[]), ["new"]);
    }
}
