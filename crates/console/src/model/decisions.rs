//! What did agents decide, and why?
//!
//! An agent serves its newest decisions and its last changes as one page. Pages are asked for
//! again and again; what is new in them goes into one log for all nodes, the newest first.

use std::collections::VecDeque;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use units::MilliCpu;

/// Decisions that the log keeps, of all nodes.
const LOG: usize = 4_096;

/// The subject of decisions about the whole node.
pub const NODE: &str = "node";
/// The strategy that sets the best-effort limit.
pub const SUPPRESS: &str = "suppress";
/// Strategies that end pods start with this.
const EVICT: &str = "evict";

/// What an agent serves. Fields that it does not send are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentPage {
    pub node: String,
    pub switch: Switch,
    pub decisions: Vec<Decided>,
    pub changes: Vec<Change>,
    /// Online pods that waited, the worst first; `None` where nobody measures it.
    pub waits: Option<Vec<Wait>>,
}

/// An online pod that waited for something: a hint that somebody interferes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// `namespace/name`.
    pub pod: String,
    pub resource: String,
    /// Part of the last minute in which a task of it waited, in hundredths of a percent.
    pub share: u32,
}

/// Whether the agent acts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Switch {
    pub is_on: bool,
    pub off_by: Option<String>,
    /// Kernel files that are not as they were found.
    pub dirty: usize,
}

impl Default for Switch {
    fn default() -> Self {
        Self { is_on: true, off_by: None, dirty: 0 }
    }
}

/// A decision and since when it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decided {
    pub strategy: String,
    pub since: Timestamp,
    /// `node`, or `namespace/name` of a pod.
    pub about: String,
    pub resource: String,
    /// The outcome in one sentence.
    pub headline: String,
    /// The rule that had the last word.
    pub bound_by: String,
    /// The sum, term by term; the last one is the result.
    #[serde(default)]
    pub lines: Vec<Line>,
}

/// One term of a sum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// Milli-cores or bytes; negative terms come off.
    pub amount: i64,
    pub label: String,
    #[serde(default)]
    pub note: String,
}

/// A change of one kernel file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    pub at: Timestamp,
    pub place: String,
    #[serde(default)]
    pub owner: Option<String>,
    pub outcome: String,
    #[serde(default)]
    pub old: String,
    #[serde(default)]
    pub new: String,
    #[serde(default)]
    pub why: String,
}

impl AgentPage {
    /// What best-effort pods may use, as the agent has decided.
    pub fn limit(&self) -> Option<(Timestamp, MilliCpu)> {
        let decided = self
            .decisions
            .iter()
            .find(|one| one.strategy == SUPPRESS && one.about == NODE && one.resource == "cpu")?;
        Some((decided.since, MilliCpu(decided.lines.last()?.amount)))
    }
}

/// A decision of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    pub node: String,
    #[serde(flatten)]
    pub decided: Decided,
}

impl Entry {
    /// Whether a pod was sent away. What is said of the node is how far it is from doing so.
    pub fn is_eviction(&self) -> bool {
        self.decided.strategy.starts_with(EVICT) && self.decided.about != NODE
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
        let Decided { strategy, about, headline, bound_by, .. } = &entry.decided;
        (self.node.is_empty() || self.node == entry.node)
            && (self.strategy.is_empty() || self.strategy == *strategy)
            && (text.is_empty()
                || [&entry.node, strategy, about, headline, bound_by]
                    .iter()
                    .any(|one| one.to_lowercase().contains(&text)))
    }
}

impl Log {
    /// Adds what is new in the page: what was decided after the newest of the page before.
    pub fn add(&mut self, page: &AgentPage, before: Option<&AgentPage>) {
        let is_known = |decided: &Decided| {
            before.is_some_and(|before| {
                before.decisions.iter().any(|old| {
                    old.since == decided.since
                        && old.strategy == decided.strategy
                        && old.about == decided.about
                        && old.resource == decided.resource
                })
            })
        };
        let mut new: Vec<&Decided> =
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
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn decided(strategy: &str, since: i64, headline: &str) -> Decided {
        Decided {
            strategy: strategy.to_owned(),
            since: at(since),
            about: NODE.to_owned(),
            resource: "cpu".to_owned(),
            headline: headline.to_owned(),
            bound_by: "threshold".to_owned(),
            lines: vec![Line { amount: 1_500, label: "granted".to_owned(), note: String::new() }],
        }
    }

    fn page(decisions: Vec<Decided>) -> AgentPage {
        AgentPage { node: "n1".to_owned(), decisions, ..AgentPage::default() }
    }

    #[test]
    fn what_an_agent_sends_is_read() {
        let text = r#"{"node":"n1","switch":{"isOn":false,"offBy":"local","dirty":2},
            "decisions":[{"strategy":"suppress","since":"2030-01-01T00:00:00Z","about":"node",
              "resource":"cpu","headline":"best-effort may use 1.5 of 4","boundBy":"threshold",
              "lines":[{"amount":4000,"label":"capacity"},{"amount":1500,"label":"granted"}]}],
            "changes":[{"at":"2030-01-01T00:00:00Z","place":"a:CfsQuota","owner":"suppress",
              "outcome":"written","why":"threshold"}]}"#;
        let page: AgentPage = serde_json::from_str(text).unwrap();
        assert_eq!(page.limit().map(|(_, limit)| limit), Some(MilliCpu(1_500)));
        assert!(!page.switch.is_on);
        assert_eq!(page.changes[0].owner.as_deref(), Some("suppress"));
        let empty: AgentPage = serde_json::from_str("{}").unwrap();
        assert!(empty.switch.is_on && empty.limit().is_none());
        assert!(serde_json::from_str::<AgentPage>(r#"{"decisions":[{}]}"#).is_err());
    }

    #[test]
    fn a_decision_that_stays_is_logged_once() {
        let mut log = Log::default();
        let first = page(vec![decided("suppress", 1, "a")]);
        log.add(&first, None);
        let evicted = Decided { about: "d/p".to_owned(), ..decided("evict", 3, "b") };
        let second = page(vec![decided("suppress", 1, "a"), decided("evict", 2, "r"), evicted]);
        log.add(&second, Some(&first));
        log.add(&second, Some(&second));
        let found: Vec<&str> = log.entries().map(|one| one.decided.headline.as_str()).collect();
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
