//! How is this pod treated?

use api::decisions::StrategyDecision;
use api::why::NODE;
use jiff::Timestamp;
use serde::Serialize;

use super::World;
use super::decisions::{Entry, Filter};
use super::facts::PodKey;
use super::node::PodRow;
use super::row::State;

/// Past decisions that are shown.
const PAST: usize = 50;

/// The page of one pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodPage {
    /// The answer in one sentence.
    pub headline: String,
    #[serde(flatten)]
    pub row: PodRow,
    pub node_state: Option<State>,
    pub node_why: String,
    /// What holds now: about the pod, and about its node for best-effort pods.
    pub decisions: Vec<StrategyDecision>,
    pub past: Vec<Entry>,
}

impl World {
    /// `None` for a pod that is not known.
    pub fn pod_page(&self, key: &PodKey, now: Timestamp) -> Option<PodPage> {
        let row = self.pod_row(key)?;
        let about = key.to_string();
        let node = self.nodes.get(&row.node).map(|node| self.row(&row.node, node, now));
        let agent = self.agents.get(&row.node);
        let is_best_effort = row.qos == "BE";
        let concerns = |subject: &str| subject == about || (is_best_effort && subject == NODE);
        let decisions: Vec<StrategyDecision> = agent
            .into_iter()
            .flat_map(|page| &page.decisions)
            .filter(|decided| concerns(&decided.why.about))
            .cloned()
            .collect();
        let filter = Filter { node: row.node.clone(), ..Filter::default() };
        let past = self.log.find(&filter).filter(|entry| entry.decided.why.about == about);
        Some(PodPage {
            headline: headline(&row),
            past: past.take(PAST).cloned().collect(),
            node_state: node.as_ref().map(|node| node.state),
            node_why: node.map(|node| node.why).unwrap_or_default(),
            decisions,
            row,
        })
    }
}

fn headline(row: &PodRow) -> String {
    let treated = match row.qos.as_str() {
        "LSE" => "has CPUs that nobody else may use",
        "LSR" => "has CPUs of its own, which lend idle time to best-effort work",
        "LS" => "shares the latency-sensitive pool and comes before best-effort work",
        "BE" => "uses what others leave, and yields when they need it",
        _ => "is a daemon of the node",
    };
    format!("This {} pod {treated}", row.qos)
}
