//! What did agents decide, and why?
//!
//! An agent serves its newest decisions and its last changes as one page. Pages are asked for
//! again and again; what is new in them goes into one log for all nodes, the newest first.

use std::collections::VecDeque;

use api::decisions::strategy::{EVICT, FAST_QUOTA, SUPPRESS};
use api::decisions::{Page, StrategyDecision};
use api::why::{NODE, Resource};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use units::MilliCpu;

/// Decisions that the log keeps, of all nodes.
const LOG: usize = 4_096;

/// Whether a decision is the limit that a strategy sets for best-effort as a whole.
fn is_limit(decided: &StrategyDecision, strategy: &str) -> bool {
    decided.strategy == strategy
        && decided.why.about == NODE
        && decided.why.resource == Resource::Cpu
}

fn result(decided: &StrategyDecision) -> Option<MilliCpu> {
    decided.why.sum.result().map(MilliCpu)
}

/// Whether a decision leaves less to best-effort as a whole than an earlier one did.
pub fn is_lower(decided: &StrategyDecision, before: &StrategyDecision) -> bool {
    is_limit(decided, SUPPRESS) && is_limit(before, SUPPRESS) && result(decided) < result(before)
}

/// What best-effort pods may use, as the agent has decided: the smaller of the CPUs they have and the
/// time they get on these CPUs.
pub fn limit(page: &Page) -> Option<(Timestamp, MilliCpu)> {
    let of = |strategy: &str| {
        let decided = page.decisions.iter().find(|one| is_limit(one, strategy))?;
        Some((decided.at.unwrap_or(decided.since), result(decided)?))
    };
    match (of(SUPPRESS), of(FAST_QUOTA)) {
        (Some((first, cpus)), Some((second, time))) => Some((first.max(second), cpus.min(time))),
        (one, other) => one.or(other),
    }
}

/// A decision of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    pub node: String,
    #[serde(flatten)]
    pub decided: StrategyDecision,
}

impl Entry {
    /// Whether a pod was sent away. What is said of the node is how far it is from doing so.
    pub fn is_eviction(&self) -> bool {
        self.decided.strategy.starts_with(EVICT) && self.decided.why.about != NODE
    }
}

/// Decisions of all nodes, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Log(VecDeque<Entry>);

/// Which decisions are wanted. Empty wants all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Filter {
    pub node: String,
    pub strategy: String,
    /// Anywhere in subject, headline or rule; letters of either case.
    pub text: String,
}

impl Filter {
    pub fn admits(&self, entry: &Entry) -> bool {
        let text = self.text.to_lowercase();
        let StrategyDecision { strategy, why, .. } = &entry.decided;
        (self.node.is_empty() || self.node == entry.node)
            && (self.strategy.is_empty() || self.strategy == *strategy)
            && (text.is_empty()
                || [&entry.node, strategy, &why.about, &why.headline, &why.bound_by]
                    .iter()
                    .any(|one| one.to_lowercase().contains(&text)))
    }
}

impl Log {
    /// Adds what is new in the page: what was decided after the newest of the page before.
    pub fn add(&mut self, page: &Page, before: Option<&Page>) {
        let is_known = |decided: &StrategyDecision| {
            before.is_some_and(|before| {
                before.decisions.iter().any(|old| {
                    old.since == decided.since
                        && old.strategy == decided.strategy
                        && old.why.about == decided.why.about
                        && old.why.resource == decided.why.resource
                })
            })
        };
        let mut new: Vec<&StrategyDecision> =
            page.decisions.iter().filter(|decided| !is_known(decided)).collect();
        new.sort_by_key(|decided| decided.since);
        for decided in new {
            let entry = Entry { node: page.node.clone(), decided: decided.clone() };
            let newer = self.0.iter().take_while(|one| one.decided.since > decided.since).count();
            self.0.insert(newer, entry);
        }
        self.0.truncate(LOG);
    }

    pub fn find<'a>(&'a self, filter: &'a Filter) -> impl Iterator<Item = &'a Entry> {
        self.0.iter().filter(|entry| filter.admits(entry))
    }

    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use api::decisions::{Switch, VERSION};
    use api::why::{Sum, Why};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn decided(strategy: &str, since: i64, headline: &str) -> StrategyDecision {
        StrategyDecision {
            strategy: strategy.to_owned(),
            since: at(since),
            at: None,
            why: Why {
                about: NODE.to_owned(),
                resource: Resource::Cpu,
                headline: headline.to_owned(),
                bound_by: "threshold".to_owned(),
                sum: Sum::default().equals(MilliCpu(1_500), "granted", ""),
            },
        }
    }

    fn page(decisions: Vec<StrategyDecision>) -> Page {
        Page {
            version: VERSION,
            node: "n1".to_owned(),
            switch: Switch::on(),
            decisions,
            changes: Vec::new(),
            waits: None,
        }
    }

    #[test]
    fn what_an_agent_sends_is_read() {
        let text = r#"{"node":"n1","switch":{"isOn":false,"offBy":"local","dirty":2},
            "decisions":[{"strategy":"suppress","since":"2030-01-01T00:00:00Z","about":"node",
              "resource":"cpu","headline":"best-effort may use 1.5 of 4","boundBy":"threshold",
              "lines":[{"amount":4000,"label":"capacity"},{"amount":1500,"label":"granted"}]}],
            "changes":[{"at":"2030-01-01T00:00:00Z","place":"a:CfsQuota","owner":"suppress",
              "outcome":"written","why":"threshold"}]}"#;
        let page: Page = serde_json::from_str(text).unwrap();
        assert_eq!(limit(&page).map(|(_, limit)| limit), Some(MilliCpu(1_500)));
        assert!(!page.switch.is_on);
        assert_eq!(page.changes[0].owner.as_deref(), Some("suppress"));
        let empty: Page = serde_json::from_str("{}").unwrap();
        assert!(empty.switch.is_on && limit(&empty).is_none());
        assert!(serde_json::from_str::<Page>(r#"{"decisions":[{}]}"#).is_err());
    }

    #[test]
    fn the_limit_is_what_is_less() {
        let with = |strategy: &str, amount: i64| {
            let mut decided = decided(strategy, 1, "x");
            decided.at = Some(at(9));
            decided.why.sum.terms[0].amount = amount;
            decided
        };
        let limit =
            |decisions| limit(&page(decisions)).map(|(at, limit)| (at.as_second(), limit.0));
        assert_eq!(limit(vec![with("suppress", 2_000)]), Some((9, 2_000)));
        assert_eq!(limit(vec![with("suppress", 2_000), with("fast_quota", 200)]), Some((9, 200)));
        assert_eq!(limit(vec![with("suppress", 100), with("fast_quota", 200)]), Some((9, 100)));
        assert_eq!(limit(vec![with("burst", 100)]), None);
    }

    #[test]
    fn a_decision_that_stays_is_logged_once() {
        let mut log = Log::default();
        let first = page(vec![decided("suppress", 1, "a")]);
        log.add(&first, None);
        let mut evicted = decided("evict", 3, "b");
        evicted.why.about = "d/p".to_owned();
        let second = page(vec![decided("suppress", 1, "a"), decided("evict", 2, "r"), evicted]);
        log.add(&second, Some(&first));
        log.add(&second, Some(&second));
        let found: Vec<&str> = log.entries().map(|one| one.decided.why.headline.as_str()).collect();
        assert_eq!(found, ["b", "r", "a"], "newest first");
        let evictions: Vec<bool> = log.entries().map(Entry::is_eviction).collect();
        assert_eq!(evictions, [true, false, false], "room on the node is no eviction");
    }

    #[test]
    fn filters_admit_what_they_name() {
        let entry =
            Entry { node: "n1".to_owned(), decided: decided("suppress", 1, "May use 2 CPUs") };
        let filter = |node: &str, strategy: &str, text: &str| Filter {
            node: node.to_owned(),
            strategy: strategy.to_owned(),
            text: text.to_owned(),
        };
        for (name, filter, want) in [
            ("nothing named", filter("", "", ""), true),
            ("its node", filter("n1", "", ""), true),
            ("another node", filter("n", "", ""), false),
            ("its strategy", filter("", "suppress", ""), true),
            ("another strategy", filter("", "burst", ""), false),
            ("a word of any case", filter("", "", "mAy"), true),
            ("the rule", filter("", "", "thresh"), true),
            ("a word that is nowhere", filter("", "", "memory"), false),
        ] {
            assert_eq!(filter.admits(&entry), want, "{name}");
        }
    }

    #[test]
    fn the_log_is_bounded() {
        let mut log = Log::default();
        for second in 0..5_000 {
            log.add(&page(vec![decided("suppress", second, "x")]), None);
        }
        assert_eq!(log.entries().count(), LOG);
        assert_eq!(log.entries().next().unwrap().decided.since, at(4_999));
    }
}
