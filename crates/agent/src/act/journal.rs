//! What has the acting side decided lately, and what came of it?
//!
//! The newest decision of every strategy with its `Why`, and the last changes of kernel files. Bounded,
//! in memory; the audit log keeps more. Clones look at the same journal.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use api::protocol::metric::agent::internal::{
    BE_SUPPRESS, BE_SUPPRESS_BE_USED, BE_SUPPRESS_LS_USED,
};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use units::MilliCpu;

use super::Why;
use crate::exposition::Group;
use crate::waits::Wait;

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
    suppressed: Option<Suppressed>,
    waiting: Waiting,
}

/// Says who waits, when it is asked; nothing before the agent measures.
#[derive(Clone, Default)]
struct Waiting(Option<Arc<dyn Fn() -> Option<Vec<Wait>> + Send + Sync>>);

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Waiting").field(&self.0.is_some()).finish()
    }
}

/// Suppression in numbers, at the last decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suppressed {
    /// How best-effort is held back: `cpuset` or `cfsQuota`.
    pub policy: &'static str,
    /// What best-effort may use.
    pub granted: MilliCpu,
    /// What everyone above best-effort uses.
    pub protected: MilliCpu,
    /// What best-effort uses.
    pub used: MilliCpu,
}

impl Suppressed {
    pub fn fill(&self, group: &mut Group) {
        // Exact up to 2^53 milli-cores.
        let cores = |milli: MilliCpu| milli.0 as f64 / 1_000.0;
        group.set(&BE_SUPPRESS, &[self.policy], cores(self.granted));
        group.set(&BE_SUPPRESS_LS_USED, &[], cores(self.protected));
        group.set(&BE_SUPPRESS_BE_USED, &[], cores(self.used));
    }
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
    /// Online pods that waited, the worst first; absent where nobody measures it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<Vec<Wait>>,
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

    /// Notes what suppression came to; `None` when nothing is held back.
    pub fn suppress(&self, suppressed: Option<Suppressed>) {
        self.0.lock().suppressed = suppressed;
    }

    /// Where the page learns who waits.
    pub fn ask_who_waits(&self, ask: impl Fn() -> Option<Vec<Wait>> + Send + Sync + 'static) {
        self.0.lock().waiting = Waiting(Some(Arc::new(ask)));
    }

    pub fn suppressed(&self) -> Option<Suppressed> {
        self.0.lock().suppressed
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
        let waiting = self.0.lock().waiting.clone();
        let waits = waiting.0.and_then(|ask| ask());
        let inner = self.0.lock();
        Page {
            node: inner.node.clone(),
            switch: inner.switch.clone(),
            decisions: inner.decisions.values().flatten().cloned().collect(),
            changes: inner.changes.iter().cloned().collect(),
            waits,
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
    fn suppression_has_the_gauges_of_the_reference() {
        let journal = Journal::new("n1");
        let exposition = crate::exposition::Exposition::new("n1");
        let live = journal.clone();
        exposition.read_live(move |group| live.suppressed().iter().for_each(|one| one.fill(group)));
        assert!(!exposition.text(None).contains("be_suppress"), "nothing is held back");
        journal.suppress(Some(Suppressed {
            policy: "cpuset",
            granted: MilliCpu(5_000),
            protected: MilliCpu(4_250),
            used: MilliCpu(1_500),
        }));
        let text = exposition.text(None);
        for want in [
            r#"koordlet_be_suppress_cpu_cores{node="n1",type="cpuset"} 5"#,
            r#"koordlet_be_suppress_ls_used_cpu_cores{node="n1"} 4.25"#,
            r#"koordlet_be_suppress_be_used_cpu_cores{node="n1"} 1.5"#,
        ] {
            assert!(text.contains(want), "{want} is not in\n{text}");
        }
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
