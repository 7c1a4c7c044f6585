//! What has the acting side decided lately, and what came of it?
//!
//! The newest decision of every strategy with its `Why`, and the last changes of kernel files. Bounded,
//! in memory; the audit log keeps more. Clones look at the same journal.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::Why;

/// Changes that are kept.
const CHANGES: usize = 1_024;

/// The journal of one agent.
#[derive(Debug, Clone, Default)]
pub struct Journal(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    node: String,
    switch: Switch,
    decisions: BTreeMap<&'static str, Vec<Decided>>,
    changes: VecDeque<Noted>,
}

/// Whether the agent acts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Switch {
    pub is_on: bool,
    /// Who turned it off: `local`, `node annotation`, `cluster`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_by: Option<String>,
    /// Kernel files that are not as they were found.
    pub dirty: usize,
}

/// A decision and since when it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    pub strategy: String,
    pub since: Timestamp,
    /// When it was last decided so.
    #[serde(default)]
    pub at: Timestamp,
    #[serde(flatten)]
    pub why: Why,
}

/// A change of one kernel file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Noted {
    pub at: Timestamp,
    /// Group and knob.
    pub place: String,
    /// `None` when it went back to what was found.
    pub owner: Option<String>,
    /// `written`, `refused`, `unsupported`, `taken over`, `unledgered`, `asked` (for memory).
    pub outcome: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub old: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub new: String,
    pub why: String,
}

/// Everything, as it is served at `/decisions`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    pub node: String,
    pub switch: Switch,
    pub decisions: Vec<Decided>,
    /// Newest first.
    pub changes: Vec<Noted>,
}

impl Journal {
    pub fn new(node: &str) -> Self {
        let journal = Self::default();
        node.clone_into(&mut journal.0.lock().node);
        journal
    }

    /// Replaces what a strategy decided; a decision with the same outcome keeps its age.
    pub fn decided(&self, strategy: &'static str, whys: Vec<Why>, now: Timestamp) {
        let mut inner = self.0.lock();
        let old = inner.decisions.remove(strategy).unwrap_or_default();
        let since = |why: &Why| {
            let same = old.iter().find(|old| {
                old.why.about == why.about
                    && old.why.resource == why.resource
                    && old.why.headline == why.headline
            });
            same.map_or(now, |old| old.since)
        };
        let new = whys
            .into_iter()
            .map(|why| Decided { strategy: strategy.to_owned(), since: since(&why), at: now, why })
            .collect::<Vec<_>>();
        if !new.is_empty() {
            inner.decisions.insert(strategy, new);
        }
    }

    pub fn note(&self, change: Noted) {
        let mut inner = self.0.lock();
        if inner.changes.len() >= CHANGES {
            inner.changes.pop_back();
        }
        inner.changes.push_front(change);
    }

    pub fn switched(&self, switch: Switch) {
        let mut inner = self.0.lock();
        inner.switch = switch;
    }

    pub fn switch(&self) -> Switch {
        self.0.lock().switch.clone()
    }

    /// Decisions about one subject, those of all strategies.
    pub fn about(&self, about: &str) -> Vec<Decided> {
        let inner = self.0.lock();
        let all = inner.decisions.values().flatten();
        all.filter(|decided| decided.why.about == about).cloned().collect()
    }

    pub fn page(&self) -> Page {
        let inner = self.0.lock();
        Page {
            node: inner.node.clone(),
            switch: inner.switch.clone(),
            decisions: inner.decisions.values().flatten().cloned().collect(),
            changes: inner.changes.iter().cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::why::{NODE, Resource};
    use super::*;

    fn why(headline: &str) -> Why {
        Why {
            about: NODE.to_owned(),
            resource: Resource::Cpu,
            headline: headline.to_owned(),
            bound_by: "threshold".to_owned(),
            lines: Vec::new(),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_decision_that_stays_keeps_its_age() {
        let journal = Journal::new("n1");
        journal.decided("suppress", vec![why("5 CPUs")], at(1));
        journal.decided("suppress", vec![why("5 CPUs")], at(2));
        assert_eq!(journal.about(NODE)[0].since, at(1));
        journal.decided("suppress", vec![why("4 CPUs")], at(3));
        assert_eq!(journal.about(NODE)[0].since, at(3));
        assert_eq!(journal.about("d/web"), []);
        journal.decided("suppress", Vec::new(), at(4));
        assert_eq!(journal.page().decisions, [], "a strategy that is off has no opinion");
    }

    #[test]
    fn old_changes_are_forgotten() {
        let journal = Journal::new("n1");
        for second in 0..=i64::try_from(CHANGES).unwrap() {
            journal.note(Noted {
                at: at(second),
                place: "a:CfsQuota".to_owned(),
                owner: None,
                outcome: "written".to_owned(),
                old: String::new(),
                new: String::new(),
                why: String::new(),
            });
        }
        let changes = journal.page().changes;
        assert_eq!((changes.len(), changes[0].at), (CHANGES, at(1_024)));
        assert_eq!(changes.last().unwrap().at, at(1), "newest first");
    }
}
