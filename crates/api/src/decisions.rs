//! The page that an agent serves at `/decisions`: what it decided last, and what came of it.
//!
//! The console and `explain` read the page; an older reader finds the fields it knows under the names
//! it knows, and an older page is read with what it has.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::why::{Resource, Why};

/// The form of the page; a page without a version is of the first one, whose terms have no signs.
pub const VERSION: u32 = 2;

/// Names of strategies that readers of the page tell apart.
pub mod strategy {
    /// Sets the CPUs or the quota of best-effort, once a second.
    pub const SUPPRESS: &str = "suppress";
    /// Sets the quota of best-effort many times a second.
    pub const FAST_QUOTA: &str = "fast_quota";
    /// Ends pods. Names of strategies that do so begin with this.
    pub const EVICT: &str = "evict";
}

/// Everything that the agent of one node says of its decisions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Page {
    #[serde(default = "first_version")]
    pub version: u32,
    #[serde(default)]
    pub node: String,
    #[serde(default = "Switch::on")]
    pub switch: Switch,
    #[serde(default)]
    pub decisions: Vec<StrategyDecision>,
    /// Newest first.
    #[serde(default)]
    pub changes: Vec<KernelChange>,
    /// Online pods that waited, the worst first; absent where nobody measures that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<Vec<PodWait>>,
}

fn first_version() -> u32 {
    1
}

/// Whether the agent acts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Switch {
    pub is_on: bool,
    /// Who turned the agent off: `local`, `node annotation`, `cluster`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_by: Option<String>,
    /// Kernel files that are not as they were found.
    #[serde(default)]
    pub dirty: usize,
}

impl Switch {
    /// An agent that acts and has changed nothing.
    pub fn on() -> Self {
        Self { is_on: true, off_by: None, dirty: 0 }
    }

    /// An agent that has not acted yet, though nobody turned it off.
    pub fn starting() -> Self {
        Self { is_on: false, ..Self::on() }
    }
}

/// A strategy's decision and since when it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StrategyDecision {
    pub strategy: String,
    /// Since when the outcome is the same.
    pub since: Timestamp,
    /// When the strategy last decided so.
    #[serde(default)]
    pub at: Option<Timestamp>,
    #[serde(flatten)]
    pub why: Why,
}

/// A change of one kernel file, or an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelChange {
    pub at: Timestamp,
    /// The control group and its knob, or a path.
    #[serde(rename = "place")]
    pub file: String,
    /// The strategy; `None` when the file went back to its original value.
    #[serde(default)]
    pub owner: Option<String>,
    pub outcome: ChangeOutcome,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub old: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub new: String,
    #[serde(default)]
    pub why: String,
}

/// How a change of a kernel file went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeOutcome {
    Written,
    /// The kernel did not take the value.
    Refused,
    /// This kernel has no such file.
    Unsupported,
    /// Somebody else changed the file, which stays as they left it.
    #[serde(alias = "taken over")]
    Overridden,
    /// The original value could not be noted, so nothing was written.
    #[serde(alias = "unledgered")]
    LedgerFailed,
    /// The kernel was asked to reclaim memory.
    Asked,
}

impl ChangeOutcome {
    pub fn name(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Refused => "refused",
            Self::Unsupported => "unsupported",
            Self::Overridden => "overridden",
            Self::LedgerFailed => "ledger-failed",
            Self::Asked => "asked",
        }
    }
}

/// An online pod that waited for a resource: a hint that another pod interferes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodWait {
    /// `namespace/name`.
    pub pod: String,
    pub resource: Resource,
    /// Part of the last minute in which a task of the pod waited, in hundredths of a percent.
    pub share: u32,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_page_of_the_first_version_is_read() {
        let page: Page = serde_json::from_value(json!({
            "node": "n1",
            "switch": { "isOn": false, "offBy": "local", "dirty": 2 },
            "decisions": [{ "strategy": "suppress", "since": "2030-01-01T00:00:00Z",
                "about": "node", "resource": "cpu", "headline": "h", "boundBy": "threshold",
                "lines": [{ "amount": 4000, "label": "capacity" }, { "amount": -500, "label": "used" }] }],
            "changes": [
                { "at": "2030-01-01T00:00:00Z", "place": "a:CfsQuota", "outcome": "taken over", "why": "" },
                { "at": "2030-01-01T00:00:00Z", "place": "a:CfsQuota", "outcome": "unledgered", "why": "" },
            ],
        }))
        .unwrap();
        assert_eq!((page.version, page.decisions[0].at), (1, None));
        assert_eq!(page.decisions[0].why.sum.result(), Some(-500));
        let outcomes: Vec<_> = page.changes.iter().map(|change| change.outcome).collect();
        assert_eq!(outcomes, [ChangeOutcome::Overridden, ChangeOutcome::LedgerFailed]);
    }

    #[test]
    fn an_empty_page_is_that_of_an_agent_that_acts() {
        let page: Page = serde_json::from_value(json!({})).unwrap();
        assert_eq!((page.switch, page.waits), (Switch::on(), None));
        assert!(serde_json::from_value::<Page>(json!({ "decisions": [{}] })).is_err());
    }

    #[test]
    fn outcomes_are_called_the_same_everywhere() {
        for outcome in [
            ChangeOutcome::Written,
            ChangeOutcome::Refused,
            ChangeOutcome::Unsupported,
            ChangeOutcome::Overridden,
            ChangeOutcome::LedgerFailed,
            ChangeOutcome::Asked,
        ] {
            assert_eq!(json!(outcome), outcome.name());
        }
    }
}
