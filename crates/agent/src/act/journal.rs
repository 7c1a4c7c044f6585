//! What has the acting side decided lately, and what came of it?
//!
//! The newest decision of every strategy with its `Why`, and the last changes of kernel files. Bounded,
//! in memory; the audit log keeps more. Clones look at the same journal.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use api::decisions::{KernelChange, Page, PodWait, StrategyDecision, Switch, VERSION};
use api::protocol::metric::agent::internal::{
    BE_SUPPRESS, BE_SUPPRESS_BE_USED, BE_SUPPRESS_LS_USED,
};
use jiff::Timestamp;
use parking_lot::Mutex;
use qos::node::strategy::suppress::Suppressed;
use units::MilliCpu;

use super::Why;
use crate::exposition::Group;

/// Changes that are kept.
const CHANGES: usize = 1_024;

/// The journal of one agent.
#[derive(Debug, Clone)]
pub struct Journal(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    node: String,
    switch: Switch,
    decisions: BTreeMap<&'static str, Vec<StrategyDecision>>,
    changes: VecDeque<KernelChange>,
    suppressed: Option<Suppressed>,
    waiting: Waiting,
}

/// Says who waits, when it is asked; nothing before the agent measures.
#[derive(Clone, Default)]
struct Waiting(Option<Arc<dyn Fn() -> Option<Vec<PodWait>> + Send + Sync>>);

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Waiting").field(&self.0.is_some()).finish()
    }
}

/// Suppression in numbers, at the last decision.
pub fn fill(suppressed: &Suppressed, group: &mut Group) {
    // Exact up to 2^53 milli-cores.
    let cores = |milli: MilliCpu| milli.0 as f64 / 1_000.0;
    group.set(&BE_SUPPRESS, &[suppressed.policy], cores(suppressed.granted));
    group.set(&BE_SUPPRESS_LS_USED, &[], cores(suppressed.protected));
    group.set(&BE_SUPPRESS_BE_USED, &[], cores(suppressed.used));
}

impl Journal {
    pub fn new(node: &str) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            node: node.to_owned(),
            switch: Switch::starting(),
            decisions: BTreeMap::new(),
            changes: VecDeque::new(),
            suppressed: None,
            waiting: Waiting::default(),
        })))
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
            .map(|why| StrategyDecision {
                strategy: strategy.to_owned(),
                since: since(&why),
                at: Some(now),
                why,
            })
            .collect::<Vec<_>>();
        if !new.is_empty() {
            inner.decisions.insert(strategy, new);
        }
    }

    pub fn note(&self, change: KernelChange) {
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
    pub fn ask_who_waits(&self, ask: impl Fn() -> Option<Vec<PodWait>> + Send + Sync + 'static) {
        self.0.lock().waiting = Waiting(Some(Arc::new(ask)));
    }

    pub fn suppressed(&self) -> Option<Suppressed> {
        self.0.lock().suppressed
    }

    pub fn switch(&self) -> Switch {
        self.0.lock().switch.clone()
    }

    /// Decisions about one subject, those of all strategies.
    pub fn about(&self, about: &str) -> Vec<StrategyDecision> {
        let inner = self.0.lock();
        let all = inner.decisions.values().flatten();
        all.filter(|decided| decided.why.about == about).cloned().collect()
    }

    pub fn page(&self) -> Page {
        let waiting = self.0.lock().waiting.clone();
        let waits = waiting.0.and_then(|ask| ask());
        let inner = self.0.lock();
        Page {
            version: VERSION,
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
    use api::decisions::ChangeOutcome;
    use api::why::{NODE, Resource, Sum};

    use super::*;

    fn why(headline: &str) -> Why {
        Why {
            about: NODE.to_owned(),
            resource: Resource::Cpu,
            headline: headline.to_owned(),
            bound_by: "threshold".to_owned(),
            sum: Sum::default(),
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
        exposition
            .read_live(move |group| live.suppressed().iter().for_each(|one| fill(one, group)));
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
            journal.note(KernelChange {
                at: at(second),
                file: "a:CfsQuota".to_owned(),
                owner: None,
                outcome: ChangeOutcome::Written,
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
