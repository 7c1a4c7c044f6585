//! What held at a moment of the past?
//!
//! The log has every decision and when it was made; replaying is to look at it up to a moment: the
//! newest decision of each strategy about each subject, the usage that was measured last, and the
//! limit that was in force. Evictions are events, not states: they are shown for a minute.

use std::collections::BTreeSet;

use api::decisions::StrategyDecision;
use jiff::Timestamp;
use serde::Serialize;
use units::MilliCpu;

use super::World;
use super::decisions::Filter;
use super::facts::Thresholds;
use super::history::{Limit, Sample};
use super::node::Mark;

/// Moments to which one can go, the newest ones.
const MOMENTS: usize = 1_000;
/// For how long an eviction is news.
const NEWS_SECONDS: i64 = 60;

/// A node at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Replay {
    pub node: String,
    pub at: Timestamp,
    /// Whether this is not the past.
    pub is_now: bool,
    /// When something was decided, oldest first.
    pub moments: Vec<Timestamp>,
    pub capacity: MilliCpu,
    pub thresholds: Thresholds,
    /// What was measured last.
    pub used: Option<Sample>,
    /// What best-effort could use.
    pub limit: Option<MilliCpu>,
    /// The newest decision of each strategy about each subject.
    pub decisions: Vec<StrategyDecision>,
    /// How many of them were made at this very moment.
    pub changed: usize,
    pub samples: Vec<Sample>,
    pub limits: Vec<Limit>,
    pub marks: Vec<Mark>,
}

impl World {
    /// `None` for a node that is not known; without a moment it is now.
    pub fn replay(&self, name: &str, at: Option<Timestamp>, now: Timestamp) -> Option<Replay> {
        let node = self.nodes.get(name)?;
        let filter = Filter { node: name.to_owned(), ..Filter::default() };
        let moments: BTreeSet<Timestamp> =
            self.log.find(&filter).map(|entry| entry.decided.since).take(MOMENTS).collect();
        let is_now = at.is_none();
        let at = at.unwrap_or(now);
        let history = self.histories.get(name);
        let samples: Vec<Sample> =
            history.into_iter().flat_map(|one| one.samples()).copied().collect();
        let limits: Vec<Limit> =
            history.into_iter().flat_map(|one| one.limits()).copied().collect();
        let decisions = self.held(&filter, at);
        Some(Replay {
            node: name.to_owned(),
            at,
            is_now,
            moments: moments.into_iter().collect(),
            capacity: node.capacity.milli_cpu,
            thresholds: node.thresholds,
            used: samples.iter().rfind(|sample| sample.at <= at).copied(),
            limit: limits.iter().rfind(|limit| limit.at <= at).map(|limit| limit.milli_cpu),
            changed: decisions.iter().filter(|decided| decided.since == at).count(),
            decisions,
            samples,
            limits,
            marks: self.marks(name),
        })
    }

    /// Decisions up to a moment that no newer one has replaced, newest first.
    fn held(&self, filter: &Filter, at: Timestamp) -> Vec<StrategyDecision> {
        let mut seen = BTreeSet::new();
        let mut held = Vec::new();
        for entry in self.log.find(filter).filter(|entry| entry.decided.since <= at) {
            let decided = &entry.decided;
            let age = at.as_second().saturating_sub(decided.since.as_second());
            if entry.is_eviction() && age > NEWS_SECONDS {
                continue;
            }
            if seen.insert((&decided.strategy, &decided.why.about, decided.why.resource)) {
                held.push(decided.clone());
            }
        }
        held
    }
}
