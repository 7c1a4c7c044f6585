//! What happens on this node?

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use api::config::Key;
use api::decisions::strategy::SUPPRESS;
use api::decisions::{PodWait, StrategyDecision, Switch};
use api::qos::QosClass;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::World;
use super::cpus::CpuMap;
use super::decisions::{Entry, Filter, is_lower};
use super::facts::{PodFacts, PodKey, Thresholds, Usage};
use super::history::{Limit, Sample};
use super::row::NodeRow;

/// Marks on the chart, the newest ones.
const MARKS: usize = 60;

/// The page of one node.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePage {
    #[serde(flatten)]
    pub row: NodeRow,
    pub thresholds: Thresholds,
    pub samples: Vec<Sample>,
    pub limits: Vec<Limit>,
    pub marks: Vec<Mark>,
    pub cpu_map: CpuMap,
    pub pod_rows: Vec<PodRow>,
    /// Whether the agent's decisions are known at all.
    pub has_agent: bool,
    pub switch: Switch,
    /// What holds now.
    pub decisions: Vec<StrategyDecision>,
    /// Online pods that waited; `None` where nobody measures it.
    pub waits: Option<Vec<PodWait>>,
    pub settings: Vec<Setting>,
}

/// Something that happened to best-effort pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Mark {
    pub at: Timestamp,
    pub kind: MarkKind,
    pub about: String,
    pub headline: String,
    pub bound_by: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MarkKind {
    Suppressed,
    Evicted,
}

/// One pod in a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodRow {
    pub key: PodKey,
    pub node: String,
    pub qos: String,
    pub priority: String,
    pub phase: String,
    pub requested: Usage,
    pub batch_requested: Usage,
    /// `None` when nothing was reported of it.
    pub used: Option<Usage>,
    pub cpus: String,
    pub created: Option<Timestamp>,
    pub owner: Option<String>,
}

/// A value in force and where it comes from.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Setting {
    pub key: &'static str,
    pub field: String,
    pub value: Value,
    pub source: String,
}

impl World {
    /// `None` for a node that is not known.
    pub fn node_page(&self, name: &str, now: Timestamp) -> Option<NodePage> {
        let node = self.nodes.get(name)?;
        let pods = self.pods_on(name);
        let history = self.histories.get(name);
        let agent = self.agents.get(name);
        let none = super::cpus::Topology::default();
        let topology = self.topologies.get(name).unwrap_or(&none);
        Some(NodePage {
            row: self.row(name, node, now),
            thresholds: node.thresholds,
            samples: history.into_iter().flat_map(|one| one.samples()).copied().collect(),
            limits: history.into_iter().flat_map(|one| one.limits()).copied().collect(),
            marks: self.marks(name),
            cpu_map: CpuMap::of(topology, &pods),
            pod_rows: pods.iter().filter_map(|(key, _)| self.pod_row(key)).collect(),
            has_agent: agent.is_some(),
            switch: agent.map_or_else(Switch::on, |page| page.switch.clone()),
            decisions: agent.map(|page| page.decisions.clone()).unwrap_or_default(),
            waits: agent.and_then(|page| page.waits.clone()),
            settings: self.settings(name),
        })
    }

    pub fn pod_row(&self, key: &PodKey) -> Option<PodRow> {
        let (key, pod) = self.pods.get_key_value(key)?;
        let metric = self.metrics.get(&pod.node);
        Some(PodRow {
            key: key.clone(),
            node: pod.node.clone(),
            qos: pod.qos.to_string(),
            priority: pod.priority.to_string(),
            phase: pod.phase.clone(),
            requested: pod.requested,
            batch_requested: pod.batch_requested,
            used: metric.and_then(|metric| metric.pods.get(key)).map(|(_, used)| *used),
            cpus: pod.cpus.to_string(),
            created: pod.created,
            owner: pod.owner.clone(),
        })
    }

    /// Every pod, the busiest first.
    pub fn pod_rows(&self) -> Vec<PodRow> {
        self.busiest_pods(|_, _| true, 0..usize::MAX).1
    }

    /// How many pods are wanted, and one part of them, the busiest first.
    pub fn busiest_pods(
        &self,
        wanted: impl Fn(&PodKey, &PodFacts) -> bool,
        part: Range<usize>,
    ) -> (usize, Vec<PodRow>) {
        let used = |key: &PodKey, pod: &PodFacts| {
            let metric = self.metrics.get(&pod.node)?;
            metric.pods.get(key).map(|(_, used)| used.milli_cpu)
        };
        let pods = self.pods.iter().filter(|(key, pod)| wanted(key, pod));
        let mut pods: Vec<_> = pods.map(|(key, pod)| (Reverse(used(key, pod)), key)).collect();
        pods.sort_unstable();
        let rows = pods.iter().skip(part.start).take(part.len());
        (pods.len(), rows.filter_map(|(_, key)| self.pod_row(key)).collect())
    }

    /// Times at which best-effort lost something: a lower limit, or a pod.
    pub(super) fn marks(&self, name: &str) -> Vec<Mark> {
        let filter = Filter { node: name.to_owned(), ..Filter::default() };
        let entries: Vec<&Entry> = self.log.find(&filter).collect();
        // The log is newest first: what was decided before stands behind.
        let is_lower = |index: usize, decided: &StrategyDecision| {
            let mut older = entries.iter().skip(index + 1).map(|entry| &entry.decided);
            let before =
                older.find(|one| one.strategy == SUPPRESS && one.why.about == decided.why.about);
            before.is_some_and(|before| is_lower(decided, before))
        };
        let marks = entries.iter().enumerate().filter_map(|(index, entry)| {
            let StrategyDecision { since, strategy, why, .. } = &entry.decided;
            let kind = match entry.is_eviction() {
                true => MarkKind::Evicted,
                false if strategy == SUPPRESS && is_lower(index, &entry.decided) => {
                    MarkKind::Suppressed
                }
                false => return None,
            };
            Some(Mark {
                at: *since,
                kind,
                about: why.about.clone(),
                headline: why.headline.clone(),
                bound_by: why.bound_by.clone(),
            })
        });
        marks.take(MARKS).collect()
    }

    /// What the configuration says about a node, leaf by leaf.
    pub fn settings(&self, name: &str) -> Vec<Setting> {
        let Some(node) = self.nodes.get(name) else { return Vec::new() };
        let view = self.config.config.for_node(&node.meta);
        let mut settings = Vec::new();
        for key in Key::ALL {
            for (path, leaf) in view.strategy(key).into_iter().flat_map(|layer| layer.leaves()) {
                settings.push(Setting {
                    key: key.name(),
                    field: path.join("."),
                    value: leaf.value.clone(),
                    source: leaf.source.to_string(),
                });
            }
        }
        settings
    }

    /// Pods by class.
    pub fn pods_by_class(&self) -> BTreeMap<QosClass, usize> {
        let mut counts = BTreeMap::new();
        for pod in self.pods.values() {
            *counts.entry(pod.qos).or_default() += 1;
        }
        counts
    }
}
