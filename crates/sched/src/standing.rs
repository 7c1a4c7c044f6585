//! How every node stands with a class of pods: verdict, score, rank.
//!
//! Scoring every node for every pod sounds expensive. It is not, because replicas share a class
//! and between two decisions few nodes change. A standing keeps, for each node,
//!
//! ```text
//! fixed   what the node object alone decides: taints, affinity, images
//! usage   what its pods decide: resources, ports, load
//! total   the weighted sum of scores, the key of the ranking
//! ```
//!
//! and before it is used it replays the change log from where it last stopped. A pod that came
//! or went costs the usage part of one node and a few matches in the [`ranking`].
//!
//! Scores in proportion to the largest among feasible nodes keep a count of each raw value;
//! only when the largest itself changes are all totals made again. Plugins that look at the
//! whole cluster cannot be kept like this: a class that has any is decided by one
//! [pass](pass::Pass) over the nodes that are feasible so far.

mod build;
pub mod cache;
pub mod pass;
mod ranking;
mod replay;

use std::collections::BTreeMap;
use std::sync::Arc;

use ranking::{Ranking, Ties};

use crate::lap::{Ending, Laps, Timed};
use crate::model::Class;
use crate::plugin::{Epoch, Normalise, Reads, Refusal, Work};
use crate::profile::Point;
use crate::snapshot::{NodeIx, Snapshot};
use crate::verdict::{Code, Group, Verdict};

/// What one class has made of one node.
#[derive(Debug, Clone, Copy)]
struct Cell {
    fixed: Verdict,
    verdict: Verdict,
    fixed_plain: i64,
    /// The weighted sum of scores that need no normalising.
    plain: i64,
    /// The filter that rejected, by its place in [`Standing::filters`].
    fixed_by: u8,
    by: u8,
}

/// Rejected for not being in the set of nodes that PreFilter allowed.
const EXCLUDED: u8 = u8::MAX;

#[derive(Debug)]
struct FilterRun {
    plugin: &'static str,
    work: usize,
    reads: Reads,
}

#[derive(Debug)]
struct ScoreRun {
    plugin: &'static str,
    work: usize,
    reads: Reads,
    normalise: Normalise,
    weight: i64,
}

/// Raw scores of one plugin over feasible nodes, and how often each occurs.
#[derive(Debug, Default)]
struct Raws {
    /// Which of [`Standing::scores`].
    run: usize,
    reverse: bool,
    values: Vec<i64>,
    counts: BTreeMap<i64, u32>,
}

impl Raws {
    fn largest(&self) -> i64 {
        self.counts.last_key_value().map_or(0, |(value, _)| *value)
    }
}

/// In proportion to the largest, 0..=100.
pub(crate) fn proportion(raw: i64, largest: i64, reverse: bool) -> i64 {
    let share = if largest == 0 { 0 } else { raw.saturating_mul(100) / largest };
    if reverse { 100 - share } else { share }
}

/// What stopped the class before any node was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Before {
    pub plugins: Vec<&'static str>,
    pub refusal: Refusal,
}

/// The only nodes that PreFilter allowed, and who said so.
#[derive(Debug)]
struct Allowed {
    nodes: Vec<NodeIx>,
    plugins: Vec<&'static str>,
}

impl Allowed {
    /// Each plugin allows some node, but none the same.
    fn is_disjoint(&self) -> bool {
        self.nodes.is_empty() && self.plugins.len() > 1
    }
}

#[derive(Debug)]
pub struct Standing {
    class: Arc<Class>,
    /// The class's order of equal nodes, seed included.
    tie: u64,
    cursor: u64,
    epochs: Vec<(Epoch, u64)>,
    before: Option<Before>,
    allowed: Option<Allowed>,
    /// Nodes to be tried before any other, in this order.
    preferred: Vec<NodeIx>,
    works: Vec<Box<dyn Work>>,
    filters: Vec<FilterRun>,
    scores: Vec<ScoreRun>,
    /// Some filter or score looks at the whole cluster.
    is_global: bool,
    cells: Vec<Cell>,
    raws: Vec<Raws>,
    feasible: u32,
    ranking: Ranking,
    /// The largest raw score has changed: totals must be made again.
    is_dirty: bool,
    /// Since it was built, or since they were last counted.
    decisions: u64,
}

/// A verdict and the filter that gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judgement {
    pub verdict: Verdict,
    by: u8,
}

impl Judgement {
    pub const OK: Self = Self { verdict: Verdict::OK, by: 0 };
}

impl Standing {
    pub fn class(&self) -> &Arc<Class> {
        &self.class
    }

    pub fn preferred(&self) -> &[NodeIx] {
        &self.preferred
    }

    pub fn before(&self) -> Option<&Before> {
        self.before.as_ref()
    }

    /// Must it be decided by a pass over the nodes?
    pub fn is_global(&self) -> bool {
        self.is_global
    }

    /// Would the scores of other nodes change if some were not feasible?
    pub fn is_relative(&self) -> bool {
        self.raws.iter().any(|raws| raws.counts.len() > 1)
    }

    /// How many nodes pass every local filter.
    pub fn feasible(&self) -> u32 {
        self.feasible
    }

    pub fn best(&self) -> Option<(NodeIx, i64)> {
        self.ranking.best()
    }

    pub fn second(&self, snapshot: &Snapshot) -> Option<(NodeIx, i64)> {
        self.ranking.second(self.ties(snapshot))
    }

    fn ties<'a>(&self, snapshot: &'a Snapshot) -> Ties<'a> {
        Ties { class: self.tie, nodes: snapshot.ties() }
    }

    /// What is known of a node from local filters.
    pub fn judgement(&self, node: NodeIx) -> Judgement {
        let cell = self.cells.get(node.index());
        cell.map_or(Judgement { verdict: Verdict::ABSENT, by: 0 }, |cell| Judgement {
            verdict: cell.verdict,
            by: cell.by,
        })
    }

    /// Takes a node out of the ranking for one decision; undo with [`restore`](Self::restore).
    pub fn exclude(&mut self, snapshot: &Snapshot, node: NodeIx) -> Option<i64> {
        let total = self.ranking.total(node)?;
        let ties = Ties { class: self.tie, nodes: snapshot.ties() };
        self.ranking.set(node, None, ties);
        Some(total)
    }

    pub fn restore(&mut self, snapshot: &Snapshot, node: NodeIx, total: i64) {
        let ties = Ties { class: self.tie, nodes: snapshot.ties() };
        self.ranking.set(node, Some(total), ties);
    }

    /// Runs every filter on a node as things stand, keeping nothing.
    pub fn judge(&self, snapshot: &Snapshot, node: NodeIx) -> Judgement {
        if snapshot.node(node).is_none() {
            return Judgement { verdict: Verdict::ABSENT, by: 0 };
        }
        if self.allowed.as_ref().is_some_and(|allowed| !allowed.nodes.contains(&node)) {
            return Judgement { verdict: Verdict::unresolvable(0), by: EXCLUDED };
        }
        for (by, run) in (0u8..).zip(&self.filters) {
            let verdict = self.run_filter(run, snapshot, node);
            if !verdict.is_ok() {
                return Judgement { verdict, by };
            }
        }
        Judgement::OK
    }

    /// One more pod is decided by it.
    pub(crate) fn decided(&mut self) {
        self.decisions += 1;
    }

    /// Times every filter and score on one node; what they say is known already.
    pub(crate) fn time(&self, snapshot: &Snapshot, node: NodeIx, laps: &Laps) {
        for run in &self.filters {
            let begun = laps.begin();
            let verdict = self.run_filter(run, snapshot, node);
            let ending = verdict.code().map_or(Ending::Success, Ending::Rejected);
            let (plugin, point) = (run.plugin, Point::Filter);
            laps.end(begun, Timed::Plugin { plugin, point, ending });
            if !verdict.is_ok() {
                return;
            }
        }
        for run in &self.scores {
            let Some(work) = self.works.get(run.work) else { continue };
            let begun = laps.begin();
            work.score(snapshot, node);
            let (plugin, point, ending) = (run.plugin, Point::Score, Ending::Success);
            laps.end(begun, Timed::Plugin { plugin, point, ending });
        }
    }

    fn run_filter(&self, run: &FilterRun, snapshot: &Snapshot, node: NodeIx) -> Verdict {
        self.works.get(run.work).map_or(Verdict::OK, |work| work.filter(snapshot, node))
    }

    /// The plugin behind a judgement.
    pub fn plugin_of(&self, judgement: Judgement) -> &'static str {
        self.filters.get(usize::from(judgement.by)).map_or("", |run| run.plugin)
    }

    /// The words behind a judgement; `None` for a good one.
    pub fn words(&self, judgement: Judgement) -> Option<Group> {
        let code = judgement.verdict.code()?;
        if judgement.by == EXCLUDED {
            let plugins = self.allowed.as_ref().map(|one| one.plugins.clone()).unwrap_or_default();
            return Some(Group {
                plugin: plugins.first().copied().unwrap_or(""),
                code,
                reasons: vec![format!("node(s) didn't satisfy plugin(s) [{}]", plugins.join(" "))],
                nodes: 1,
            });
        }
        let run = self.filters.get(usize::from(judgement.by))?;
        let work = self.works.get(run.work)?;
        let reasons = judgement.verdict.reasons().map(|bit| work.reason(bit).into_owned());
        Some(Group { plugin: run.plugin, code, reasons: reasons.collect(), nodes: 1 })
    }

    /// Counts equal judgements. Local ones are known; a filter that looks at the cluster and
    /// stands before the one that rejected has the first word.
    pub fn diagnose(
        &self,
        snapshot: &Snapshot,
        known: &BTreeMap<NodeIx, Judgement>,
    ) -> Vec<(Group, Vec<NodeIx>)> {
        // A handful of distinct judgements: a list is faster than any map.
        let mut groups: Vec<(Judgement, Vec<NodeIx>)> = Vec::new();
        for (node, _) in snapshot.nodes() {
            let judgement = match known.get(&node) {
                Some(judgement) => *judgement,
                None if self.is_global => self.judge(snapshot, node),
                None => self.judgement(node),
            };
            if judgement.verdict.code().is_none() {
                continue;
            }
            match groups.iter_mut().find(|(one, _)| *one == judgement) {
                Some((_, nodes)) => nodes.push(node),
                None => groups.push((judgement, vec![node])),
            }
        }
        groups.sort_by_key(|(judgement, _)| (judgement.by, judgement.verdict.bits()));
        let told = groups.into_iter().filter_map(|(judgement, nodes)| {
            let mut group = self.words(judgement)?;
            group.nodes = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
            Some((group, nodes))
        });
        told.collect()
    }

    /// Could evicting pods from this node help?
    pub fn is_resolvable(judgement: Judgement) -> bool {
        judgement.verdict.code() == Some(Code::Unschedulable)
    }

    /// Weighted scores of one node by plugin, given the feasible nodes' largest raw scores.
    pub fn parts(&self, snapshot: &Snapshot, node: NodeIx) -> Vec<(&'static str, i64)> {
        let part = |(at, run): (usize, &ScoreRun)| {
            let raw = self.works.get(run.work)?.score(snapshot, node);
            let score = match run.normalise {
                Normalise::None => raw,
                Normalise::Largest { reverse } => {
                    let raws = self.raws.iter().find(|raws| raws.run == at)?;
                    proportion(raw, raws.largest(), reverse)
                }
                Normalise::Own => return None,
            };
            Some((run.plugin, score.saturating_mul(run.weight)))
        };
        self.scores.iter().enumerate().filter_map(part).collect()
    }
}
