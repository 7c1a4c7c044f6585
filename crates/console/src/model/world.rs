//! All facts together, and how they come in.

use std::collections::{BTreeMap, BTreeSet};

use api::config::{Config, Options};
use api::decisions::Page;
use api::finding::Finding;
use api::kind::{NodeMetric, NodeResourceTopology};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use units::MilliCpu;

use super::benefit::{Ledger, Step};
use super::cpus::Topology;
use super::decisions::{self, Log};
use super::facts::{MetricFacts, NodeFacts, PodFacts, PodKey, Thresholds};
use super::history::{self, FleetHistory, FleetSample, Limit, NodeHistory, Sample};
use super::row::{Classes, Known, NodeRow};

/// What is known of a cluster.
#[derive(Debug, Default)]
pub struct World {
    pub(super) nodes: BTreeMap<String, NodeFacts>,
    pub(super) pods: BTreeMap<PodKey, PodFacts>,
    /// Which pods are on a node.
    on_node: BTreeMap<String, BTreeSet<PodKey>>,
    pub(super) metrics: BTreeMap<String, MetricFacts>,
    pub(super) topologies: BTreeMap<String, Topology>,
    pub(super) agents: BTreeMap<String, Page>,
    pub(super) histories: BTreeMap<String, NodeHistory>,
    pub(super) fleet: FleetHistory,
    pub(super) ledger: Ledger,
    keeping: Keeping,
    pub(super) log: Log,
    pub(super) config: LoadedConfig,
}

/// Whether the ledger outlives this process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keeping {
    pub is_kept: bool,
    /// What was wrong with what was kept.
    pub finding: Option<Finding>,
}

/// The configuration as the manager reads it.
#[derive(Debug)]
pub struct LoadedConfig {
    /// Whether there is a ConfigMap at all.
    pub exists: bool,
    pub object: String,
    pub data: BTreeMap<String, String>,
    pub config: Config,
    pub findings: Vec<Finding>,
}

impl Default for LoadedConfig {
    fn default() -> Self {
        Self::load(None, "ConfigMap", None)
    }
}

impl LoadedConfig {
    fn load(map: Option<ConfigMap>, object: &str, before: Option<&Config>) -> Self {
        let exists = map.is_some();
        let data = map.and_then(|map| map.data).unwrap_or_default();
        let (config, mut findings) = Config::load(&data, before, object, Options::default());
        for finding in api::config::check(&data, object, Options::default()) {
            if !findings.contains(&finding) {
                findings.push(finding);
            }
        }
        Self { exists, object: object.to_owned(), data, config, findings }
    }
}

impl World {
    pub fn put_node(&mut self, node: Node) {
        let Some(name) = node.metadata.name.clone() else { return };
        let mut facts = NodeFacts::read(node);
        facts.thresholds = Thresholds::of(&self.config.config.for_node(&facts.meta));
        self.nodes.insert(name, facts);
    }

    pub fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
        self.agents.remove(name);
        self.histories.remove(name);
    }

    pub fn put_pod(&mut self, pod: &Pod) {
        let key = PodKey {
            namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            name: pod.metadata.name.clone().unwrap_or_default(),
        };
        self.remove_pod(&key);
        if let Some((key, facts)) = PodFacts::read(pod) {
            self.on_node.entry(facts.node.clone()).or_default().insert(key.clone());
            self.pods.insert(key, facts);
        }
    }

    pub fn remove_pod(&mut self, key: &PodKey) {
        let Some(old) = self.pods.remove(key) else { return };
        if let Some(keys) = self.on_node.get_mut(&old.node) {
            keys.remove(key);
            if keys.is_empty() {
                self.on_node.remove(&old.node);
            }
        }
    }

    /// Takes a report in: the past grows and the ledger counts.
    pub fn put_metric(&mut self, metric: NodeMetric) {
        let Some(name) = metric.metadata.name.clone() else { return };
        let facts = MetricFacts::read(metric);
        let before = self.metrics.get(&name).and_then(|metric| metric.at);
        if let Some(at) = facts.at {
            let used = Classes::of(&facts, |key| self.pods.get(key).map(|pod| pod.qos));
            if let Some((from, node)) = before.zip(self.nodes.get(&name)) {
                let step = Step {
                    from,
                    to: at,
                    capacity: node.capacity.milli_cpu,
                    used: facts.used.milli_cpu,
                    best_effort: used.be,
                    is_shared: used.lse + used.lsr + used.ls > MilliCpu::ZERO,
                };
                self.ledger.account(&step);
            }
            let share = history::share(self.nodes.len());
            self.histories.entry(name.clone()).or_default().sample(Sample { at, used }, share);
        }
        self.metrics.insert(name, facts);
    }

    pub fn remove_metric(&mut self, name: &str) {
        self.metrics.remove(name);
    }

    pub fn put_topology(&mut self, topology: &NodeResourceTopology) {
        let Some(name) = topology.metadata.name.clone() else { return };
        self.topologies.insert(name, Topology::read(topology));
    }

    pub fn remove_topology(&mut self, name: &str) {
        self.topologies.remove(name);
    }

    /// Reads the configuration anew; nodes learn their thresholds from it.
    pub fn put_config(&mut self, map: Option<ConfigMap>, object: &str) {
        self.config = LoadedConfig::load(map, object, Some(&self.config.config));
        for facts in self.nodes.values_mut() {
            facts.thresholds = Thresholds::of(&self.config.config.for_node(&facts.meta));
        }
    }

    /// Takes in what an agent says of itself.
    pub fn put_agent(&mut self, name: &str, mut page: Page) {
        name.clone_into(&mut page.node);
        if let Some((at, milli_cpu)) = decisions::limit(&page) {
            self.histories.entry(name.to_owned()).or_default().limit(Limit { at, milli_cpu });
        }
        self.log.add(&page, self.agents.get(name));
        self.agents.insert(name.to_owned(), page);
    }

    /// An agent that does not answer has decided nothing that we know of.
    pub fn remove_agent(&mut self, name: &str) {
        self.agents.remove(name);
    }

    pub fn knows_pod(&self, key: &PodKey) -> bool {
        self.pods.contains_key(key)
    }

    pub fn node_names(&self) -> impl Iterator<Item = &str> {
        self.nodes.keys().map(String::as_str)
    }

    /// Nodes and where their agents listen.
    pub fn addresses(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.nodes.iter().map(|(name, facts)| (name.as_str(), facts.address.as_deref()))
    }

    pub(super) fn pods_on(&self, node: &str) -> Vec<(&PodKey, &PodFacts)> {
        let keys = self.on_node.get(node).into_iter().flatten();
        keys.filter_map(|key| self.pods.get_key_value(key)).collect()
    }

    pub(super) fn row(&self, name: &str, node: &NodeFacts, now: Timestamp) -> NodeRow {
        let pods = self.pods_on(name);
        let known = Known {
            node,
            metric: self.metrics.get(name),
            pods: &pods,
            agent: self.agents.get(name),
        };
        known.row(name, now)
    }

    /// One row for each node, in order of name.
    pub fn rows(&self, now: Timestamp) -> Vec<NodeRow> {
        self.nodes.iter().map(|(name, node)| self.row(name, node, now)).collect()
    }

    /// Remembers how the cluster is at this moment.
    pub fn sample_fleet(&mut self, rows: &[NodeRow], now: Timestamp) {
        let measured = || rows.iter().filter(|row| row.used.is_some());
        let sum = |of: fn(&NodeRow) -> MilliCpu| measured().map(of).fold(MilliCpu(0), |a, b| a + b);
        if measured().next().is_none() {
            return;
        }
        self.fleet.sample(FleetSample {
            at: now,
            capacity: sum(|row| row.capacity.milli_cpu),
            used: sum(|row| row.used.unwrap_or_default().milli_cpu),
            best_effort: sum(|row| row.classes.unwrap_or_default().be),
        });
    }

    /// Whether the Node says that nothing shall be done there.
    pub fn is_off(&self, node: &str) -> bool {
        self.nodes.get(node).is_some_and(|facts| facts.is_off)
    }

    pub fn log(&self) -> &Log {
        &self.log
    }

    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Goes on with what was kept.
    pub fn restore(&mut self, ledger: Ledger) {
        self.ledger = ledger;
    }

    pub fn keep(&mut self, keeping: Keeping) {
        self.keeping = keeping;
    }

    pub fn keeping(&self) -> &Keeping {
        &self.keeping
    }

    pub fn agent(&self, name: &str) -> Option<&Page> {
        self.agents.get(name)
    }
}
