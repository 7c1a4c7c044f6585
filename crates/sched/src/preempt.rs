//! Whom would we have to evict to make room, and where does it hurt least?
//!
//! On a node where eviction may help, all less important pods are taken away in a dry run. If the
//! pod fits then, they are put back one by one, most important first, while it still fits: first
//! those whose eviction would break a disruption budget, then the others. Who cannot be put back
//! is a victim. Of all nodes the least painful one is chosen:
//!
//! ```text
//! fewest broken budgets -> lowest top priority -> smallest sum of priorities -> fewest victims
//!   -> latest start of the earliest-started among the top victims -> the class's order of nodes
//! ```
//!
//! What a node would cost depends on that node's pods and nominations alone, so costs are kept
//! by class and follow the change log like everything else: all nodes are candidates, not a
//! sample. Only for classes with plugins that look at the whole cluster is a sample dry-run.

mod budget;
mod dry_run;
mod ledger;

pub use budget::Budgets;
pub use ledger::Ledgers;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::Value;

use crate::cycle::{Cycle, Refused};
use crate::plugins::{ArgsError, DEFAULT_PREEMPTION, read_args};
use crate::snapshot::{NodeIx, PodIx};
use crate::standing::cache::Standings;
use crate::time::Time;
use crate::verdict::Code;
use dry_run::DryRun;

/// A node and the pods that would have to go, most important first; true when a budget breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub node: NodeIx,
    pub victims: Vec<(PodIx, bool)>,
}

/// What clearing a node costs; less is better, field by field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cost {
    violations: u32,
    top_priority: i32,
    /// Each priority moved above zero, so that more victims cost more.
    sum: i64,
    victims: u32,
    /// Earlier is worse, hence turned around; a pod that has not started counts as latest.
    start: std::cmp::Reverse<Time>,
}

#[derive(Debug)]
pub enum Found {
    Room(Candidate),
    /// Victims of an earlier preemption for this pod are still going.
    Waiting {
        message: String,
    },
    Nothing {
        message: Option<String>,
    },
}

/// What a search for room looks at besides the cluster.
#[derive(Debug)]
pub struct Search<'a> {
    pub budgets: &'a Budgets,
    pub ledgers: &'a mut Ledgers,
    pub seed: u64,
}

const NO_VICTIMS: &str = "No preemption victims found for incoming pod";
const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";

/// How many candidates are enough when not all are looked at: args of DefaultPreemption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Sample {
    min_candidate_nodes_percentage: usize,
    min_candidate_nodes_absolute: usize,
}

impl Default for Sample {
    fn default() -> Self {
        Self { min_candidate_nodes_percentage: 10, min_candidate_nodes_absolute: 100 }
    }
}

impl Sample {
    pub fn read(args: &Value) -> Result<Self, ArgsError> {
        let sample: Self = read_args(DEFAULT_PREEMPTION, args)?;
        let refuse = |problem: &str| {
            Err(ArgsError { plugin: DEFAULT_PREEMPTION, problem: problem.to_owned() })
        };
        match (sample.min_candidate_nodes_percentage, sample.min_candidate_nodes_absolute) {
            (101.., _) => refuse("minCandidateNodesPercentage: must be between 0 and 100"),
            (0, 0) => refuse("minCandidateNodesPercentage and -Absolute cannot both be 0"),
            _ => Ok(sample),
        }
    }

    fn size(self, nodes: usize) -> usize {
        let share = nodes.saturating_mul(self.min_candidate_nodes_percentage) / 100;
        nodes.min(share.max(self.min_candidate_nodes_absolute))
    }
}

impl Search<'_> {
    pub fn find(
        &mut self,
        cycle: &mut Cycle<'_>,
        standings: &mut Standings,
        pod: PodIx,
        refused: &Refused,
    ) -> Found {
        let Some(found) = cycle.snapshot.pods.get(pod) else {
            return Found::Nothing { message: None };
        };
        if !found.class.may_preempt {
            let message = "preemption: not eligible due to preemptionPolicy=Never.".to_owned();
            return Found::Nothing { message: Some(message) };
        }
        if self.is_waiting(cycle, pod, refused) {
            let why = "preemption: not eligible due to a terminating pod on the nominated node.";
            return Found::Waiting { message: why.to_owned() };
        }
        let class = std::sync::Arc::clone(&found.class);
        let standing = standings.current(cycle.framework, cycle.snapshot, &class);
        let mut dry = DryRun { cycle, standing, budgets: self.budgets, pod };
        let (best, failures) = if dry.standing.before().is_some() {
            // What is against the pod is not on any node.
            (None, BTreeMap::new())
        } else if dry.standing.is_global() {
            self.sample(&mut dry, &refused.resolvable)
        } else {
            self.ledgers.cheapest(&mut dry, &refused.resolvable, self.seed)
        };
        match best.and_then(|node| dry.run(node).ok()) {
            Some((candidate, _)) => Found::Room(candidate),
            None => Found::Nothing { message: Some(self.message(cycle, refused, &failures)) },
        }
    }

    /// Every node that could be cleared, cheapest first; enough of them where not all are
    /// looked at.
    pub fn all(
        &mut self,
        cycle: &mut Cycle<'_>,
        standings: &mut Standings,
        pod: PodIx,
        refused: &Refused,
    ) -> Vec<Candidate> {
        let Some(found) = cycle.snapshot.pods.get(pod) else { return Vec::new() };
        if !found.class.may_preempt || self.is_waiting(cycle, pod, refused) {
            return Vec::new();
        }
        let class = std::sync::Arc::clone(&found.class);
        let standing = standings.current(cycle.framework, cycle.snapshot, &class);
        if standing.before().is_some() {
            return Vec::new();
        }
        let enough = cycle.framework.sample.size(refused.resolvable.len());
        let mut dry = DryRun { cycle, standing, budgets: self.budgets, pod };
        let mut found: Vec<(Cost, u64, Candidate)> = Vec::new();
        for node in &refused.resolvable {
            if let Ok((candidate, cost)) = dry.run(*node) {
                found.push((cost, dry.order(*node, self.seed), candidate));
            }
            if found.len() >= enough {
                break;
            }
        }
        found.sort_by_key(|(cost, order, _)| (*cost, *order));
        found.into_iter().map(|(_, _, candidate)| candidate).collect()
    }

    /// The pod's own node is still being cleared.
    fn is_waiting(&self, cycle: &Cycle<'_>, pod: PodIx, refused: &Refused) -> bool {
        let snapshot = &*cycle.snapshot;
        let Some(found) = snapshot.pods.get(pod) else { return false };
        let Some(node) = found.nominated.and_then(|name| snapshot.node_by_name(name)) else {
            return false;
        };
        let is_beyond_help = refused
            .nodes
            .iter()
            .any(|(group, nodes)| group.code == Code::Unresolvable && nodes.contains(&node));
        let mut pods = snapshot.pods_on(node).iter().filter_map(|one| snapshot.pods.get(*one));
        !is_beyond_help
            && pods.any(|one| {
                one.is_terminating && one.is_preempted && one.class.priority < found.class.priority
            })
    }

    /// Looks at nodes from a fixed place on until there are enough candidates.
    fn sample(
        &self,
        dry: &mut DryRun<'_, '_>,
        nodes: &[NodeIx],
    ) -> (Option<NodeIx>, BTreeMap<String, u32>) {
        let tie = dry.standing.class().tie ^ self.seed;
        let start = usize::try_from(tie % nodes.len().max(1) as u64).unwrap_or(0);
        let enough = dry.cycle.framework.sample.size(nodes.len());
        let mut failures = BTreeMap::new();
        let mut best: Option<(Cost, u64, NodeIx)> = None;
        let mut found = 0;
        for node in nodes.iter().cycle().skip(start).take(nodes.len()) {
            match dry.run(*node) {
                Ok((_, cost)) => {
                    found += 1;
                    let key = (cost, dry.order(*node, self.seed), *node);
                    best = Some(best.map_or(key, |best| best.min(key)));
                }
                Err(reasons) => count(&mut failures, &reasons, 1),
            }
            let has_clean = best.is_some_and(|(cost, ..)| cost.violations == 0);
            if found >= enough && has_clean {
                break;
            }
        }
        (best.map(|(_, _, node)| node), failures)
    }

    fn message(
        &self,
        cycle: &Cycle<'_>,
        refused: &Refused,
        failures: &BTreeMap<String, u32>,
    ) -> String {
        let nodes = cycle.snapshot.live();
        let is_before = refused.rejection.before.is_some();
        let tried = if is_before { 0 } else { refused.resolvable.len() };
        let tried = u32::try_from(tried).unwrap_or(u32::MAX);
        let mut counts = failures.clone();
        if nodes > tried {
            count(&mut counts, &[NOT_HELPFUL.to_owned()], nodes - tried);
        }
        let mut parts: Vec<String> =
            counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        parts.sort();
        let mut text = format!("preemption: 0/{nodes} nodes are available: ");
        let _ = write!(text, "{}.", parts.join(", "));
        text
    }
}

fn count(counts: &mut BTreeMap<String, u32>, reasons: &[String], nodes: u32) {
    for reason in reasons {
        *counts.entry(reason.clone()).or_default() += nodes;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// F5 of the specification.
    #[test]
    fn a_tenth_of_the_nodes_and_at_least_a_hundred_is_enough() {
        let sample = Sample::default();
        for (nodes, want) in [(50, 50), (500, 100), (3000, 300), (0, 0)] {
            assert_eq!(sample.size(nodes), want, "{nodes} nodes");
        }
    }

    #[test]
    fn args_are_read_strictly() {
        let cases = [
            ("absent", Value::Null, true),
            (
                "both",
                json!({"minCandidateNodesPercentage": 5, "minCandidateNodesAbsolute": 7}),
                true,
            ),
            ("unknown", json!({"minCandidates": 5}), false),
            ("too many", json!({"minCandidateNodesPercentage": 101}), false),
            ("negative", json!({"minCandidateNodesAbsolute": -1}), false),
            (
                "none",
                json!({"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0}),
                false,
            ),
        ];
        for (name, args, want) in cases {
            assert_eq!(Sample::read(&args).is_ok(), want, "{name}");
        }
    }
}
