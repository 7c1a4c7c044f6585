//! The cluster as the manager remembers it.
//!
//! Everything is filed under the node it concerns: an event touches one node, and all a decision
//! needs of that node lies together. Objects are read once and kept as facts; equal specs and
//! strategies are kept once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use api::kind::node_metric::NodeMetricSpec;
use api::kind::node_slo::NodeSloSpec;
use api::kind::{Device, NodeMetric, NodeResourceTopology, NodeSlo};
use api::protocol::node::{COLOCATION_STRATEGY, NETWORK_BANDWIDTH};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use overcommit::device::Devices;
use overcommit::facts::{
    DeviceFacts, MetricFacts, NodeFacts, PodFacts, PodKey, Pods, TopologyFacts,
};
use overcommit::plan::Options;
use overcommit::{Inputs, Plan, Strategies};

use crate::intake::InForce;

/// Name of a node, and of the objects that carry it.
pub type NodeName = Arc<str>;

/// What is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Node,
    Pod,
    Metric,
    Slo,
    Topology,
    Device,
}

impl Kind {
    pub const ALL: [Self; 6] =
        [Self::Node, Self::Pod, Self::Metric, Self::Slo, Self::Topology, Self::Device];
}

/// Which controllers must look at a node again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Touch {
    pub metric: bool,
    pub slo: bool,
    pub resource: bool,
}

/// A node, as far as the controllers go.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeRecord {
    pub facts: NodeFacts,
    /// Name, UID, labels and the annotations that configure the node.
    pub meta: Arc<ObjectMeta>,
    /// What is wrong with the node's own words.
    pub findings: Box<[String]>,
    pub resource_version: Box<str>,
}

/// A NodeMetric: how the node is measured, and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricRecord {
    pub spec: Arc<NodeMetricSpec>,
    pub facts: Option<MetricFacts>,
}

/// Everything known under one node's name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Entry {
    pub node: Option<NodeRecord>,
    pub pods: Pods,
    pub metric: Option<MetricRecord>,
    pub slo: Option<Arc<NodeSloSpec>>,
    pub topology: Option<TopologyFacts>,
    pub device: Option<DeviceFacts>,
    /// Strategies and the configuration they were derived from.
    strategies: Option<(u64, Arc<Strategies>)>,
    last_sync: Option<Timestamp>,
}

impl Entry {
    fn is_empty(&self) -> bool {
        self.node.is_none()
            && self.pods.is_empty()
            && self.metric.is_none()
            && self.slo.is_none()
            && self.topology.is_none()
            && self.device.is_none()
    }

    /// The text that a pod or a report is known by already.
    fn known_key(&self, key: &PodKey) -> Option<PodKey> {
        let pod = self.pods.get(key).map(|pod| pod.key.clone());
        let report = || self.metric.as_ref()?.facts.as_ref()?.pod(key).map(|pod| pod.key.clone());
        pod.or_else(report)
    }

    fn forget(&mut self, kind: Kind) -> Touch {
        let was = match kind {
            Kind::Node => {
                self.strategies = None;
                self.last_sync = None;
                self.node.take().is_some()
            }
            Kind::Metric => {
                // The next report is written at once, however little it moves.
                self.last_sync = None;
                self.metric.take().is_some()
            }
            Kind::Slo => self.slo.take().is_some(),
            Kind::Topology => self.topology.take().is_some(),
            Kind::Device => self.device.take().is_some(),
            Kind::Pod => false,
        };
        Touch {
            metric: was && matches!(kind, Kind::Node | Kind::Metric),
            slo: was && matches!(kind, Kind::Node | Kind::Slo),
            resource: was && matches!(kind, Kind::Node | Kind::Metric | Kind::Device),
        }
    }
}

/// Equal values, kept once.
#[derive(Debug)]
struct Shelf<T>(Vec<Arc<T>>);

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: PartialEq> Shelf<T> {
    /// A configuration makes a handful of different values, so a search from the start is short.
    fn put(&mut self, value: T) -> Arc<T> {
        if let Some(found) = self.0.iter().find(|kept| ***kept == value) {
            return found.clone();
        }
        self.0.retain(|kept| Arc::strong_count(kept) > 1);
        let kept = Arc::new(value);
        self.0.push(kept.clone());
        kept
    }
}

/// All nodes.
#[derive(Debug, Default)]
pub struct World {
    entries: HashMap<NodeName, Entry>,
    /// What a list in progress has named so far.
    listing: HashMap<Kind, HashSet<Box<str>>>,
    has_devices: bool,
    count_mid_requests: bool,
    strategies: Shelf<Strategies>,
    metric_specs: Shelf<NodeMetricSpec>,
    slo_specs: Shelf<NodeSloSpec>,
}

impl World {
    pub fn new(count_mid_requests: bool) -> Self {
        Self { count_mid_requests, ..Self::default() }
    }

    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// Names of nodes, and of objects whose node is gone.
    pub fn names(&self) -> impl Iterator<Item = &NodeName> {
        self.entries.keys()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A list of this kind begins: whatever it does not name is gone at its end.
    pub fn begin(&mut self, kind: Kind) {
        self.listing.insert(kind, HashSet::new());
    }

    /// The list is complete.
    pub fn finish(&mut self, kind: Kind) -> Vec<(NodeName, Touch)> {
        self.has_devices |= kind == Kind::Device;
        let Some(seen) = self.listing.remove(&kind) else { return Vec::new() };
        let mut touched = Vec::new();
        for (name, entry) in &mut self.entries {
            if kind == Kind::Pod {
                let gone: Vec<PodKey> = entry
                    .pods
                    .iter()
                    .filter(|pod| !seen.contains(&*on_node(name, pod.key.as_str())))
                    .map(|pod| pod.key.clone())
                    .collect();
                for key in gone {
                    entry.pods.remove(&key);
                }
            } else if !seen.contains(&**name) {
                let touch = entry.forget(kind);
                if touch != Touch::default() {
                    touched.push((name.clone(), touch));
                }
            }
        }
        self.entries.retain(|_, entry| !entry.is_empty());
        touched
    }

    fn see(&mut self, kind: Kind, key: &str) {
        if let Some(seen) = self.listing.get_mut(&kind) {
            seen.insert(key.into());
        }
    }

    fn entry(&mut self, name: &str) -> &mut Entry {
        self.entries.entry(NodeName::from(name)).or_default()
    }

    fn forget(&mut self, kind: Kind, name: &str) -> Touch {
        let Some(entry) = self.entries.get_mut(name) else { return Touch::default() };
        let touch = entry.forget(kind);
        if entry.is_empty() {
            self.entries.remove(name);
        }
        touch
    }

    fn apply_pod(&mut self, node: &str, pod: &Pod, is_deleted: bool) {
        let facts = PodFacts::read(pod, self.count_mid_requests).filter(|_| !is_deleted);
        match facts {
            Some(mut facts) => {
                self.see(Kind::Pod, &on_node(node, facts.key.as_str()));
                let entry = self.entry(node);
                if let Some(key) = entry.known_key(&facts.key) {
                    facts.key = key;
                }
                entry.pods.insert(facts);
            }
            None => {
                let meta = &pod.metadata;
                let namespace = meta.namespace.as_deref().unwrap_or_default();
                let key = PodKey::new(namespace, name_of(meta));
                if let Some(entry) = self.entries.get_mut(node) {
                    entry.pods.remove(&key);
                    if entry.is_empty() {
                        self.entries.remove(node);
                    }
                }
            }
        }
    }

    fn apply_node(&mut self, node: &Node) -> Touch {
        let version = node.metadata.resource_version.as_deref().unwrap_or_default();
        let uid = node.metadata.uid.as_deref();
        self.see(Kind::Node, name_of(&node.metadata));
        let entry = self.entry(name_of(&node.metadata));
        // Our own writes come back before the watch shows what was there earlier.
        if let Some(known) = &entry.node
            && known.meta.uid.as_deref() == uid
            && is_older(version, &known.resource_version)
        {
            return Touch::default();
        }
        let meta = trimmed(&node.metadata);
        let is_same = entry.node.as_ref().is_some_and(|known| *known.meta == meta);
        let meta = match &entry.node {
            Some(known) if is_same => known.meta.clone(),
            _ => Arc::new(meta),
        };
        if !is_same {
            entry.strategies = None;
        }
        let findings = api::check::check_node(node);
        entry.node = Some(NodeRecord {
            facts: NodeFacts::read(node),
            meta,
            findings: findings.iter().map(ToString::to_string).collect(),
            resource_version: version.into(),
        });
        Touch { metric: !is_same, slo: !is_same, resource: true }
    }

    /// What the configuration says about lending on the node, worked out once a configuration.
    fn strategies(
        &mut self,
        name: &str,
        in_force: &InForce,
        options: &Options,
    ) -> Option<Arc<Strategies>> {
        let entry = self.entries.get_mut(name)?;
        if let Some((generation, strategies)) = &entry.strategies
            && *generation == in_force.generation
        {
            return Some(strategies.clone());
        }
        let view = in_force.config.for_node(&entry.node.as_ref()?.meta);
        let strategies = if options.node_enable_overrides {
            Strategies::of_overriding(&view)
        } else {
            Strategies::of(&view)
        };
        let strategies = self.strategies.put(strategies?);
        entry.strategies = Some((in_force.generation, strategies.clone()));
        Some(strategies)
    }

    /// What should be written to the node; nothing without a node or a usable configuration.
    pub fn plan(
        &mut self,
        name: &str,
        in_force: &InForce,
        options: &Options,
        now: Timestamp,
    ) -> Option<Plan> {
        let strategies = self.strategies(name, in_force, options)?;
        let entry = self.entries.get(name)?;
        let inputs = Inputs {
            node: &entry.node.as_ref()?.facts,
            pods: &entry.pods,
            metric: entry.metric.as_ref().and_then(|metric| metric.facts.as_ref()),
            topology: entry.topology.as_ref(),
            devices: if self.has_devices {
                Devices::Known(entry.device.as_ref())
            } else {
                Devices::Unknown
            },
            strategies: &strategies,
            options,
            last_sync: entry.last_sync,
            now,
        };
        Some(overcommit::plan(&inputs))
    }

    /// The node's status was written, or did not need to be.
    pub fn synced(&mut self, name: &str, now: Timestamp) {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.last_sync = Some(now);
        }
    }

    /// Did this process write the node's status before?
    pub fn is_synced(&self, name: &str) -> bool {
        self.get(name).is_some_and(|entry| entry.last_sync.is_some())
    }
}

fn on_node(node: &str, pod: &str) -> Box<str> {
    format!("{node} {pod}").into_boxed_str()
}

fn name_of(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}

/// Versions are opaque by the book and numbers in every server there is; others are never older.
fn is_older(version: &str, than: &str) -> bool {
    match (version.parse::<u64>(), than.parse::<u64>()) {
        (Ok(version), Ok(than)) => version < than,
        _ => false,
    }
}

fn trimmed(meta: &ObjectMeta) -> ObjectMeta {
    let kept = [COLOCATION_STRATEGY.name, NETWORK_BANDWIDTH.name];
    let annotations =
        meta.annotations.iter().flatten().filter(|(key, _)| kept.contains(&key.as_str()));
    ObjectMeta {
        name: meta.name.clone(),
        uid: meta.uid.clone(),
        labels: meta.labels.clone(),
        annotations: Some(annotations.map(|(key, text)| (key.clone(), text.clone())).collect()),
        ..ObjectMeta::default()
    }
}

/// An object that the world files under a node.
pub trait Filed: Resource {
    const KIND: Kind;

    /// The node it concerns; a pod may have none yet.
    fn node(&self) -> Option<&str> {
        self.meta().name.as_deref()
    }

    fn apply(&self, world: &mut World) -> Touch;

    fn remove(&self, world: &mut World) -> Touch {
        self.node().map(|node| world.forget(Self::KIND, node)).unwrap_or_default()
    }
}

impl Filed for Node {
    const KIND: Kind = Kind::Node;

    fn apply(&self, world: &mut World) -> Touch {
        world.apply_node(self)
    }
}

impl Filed for Pod {
    const KIND: Kind = Kind::Pod;

    fn node(&self) -> Option<&str> {
        self.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
    }

    /// Pods are read when something else happens to their node.
    fn apply(&self, world: &mut World) -> Touch {
        if let Some(node) = self.node() {
            world.apply_pod(node, self, false);
        }
        Touch::default()
    }

    fn remove(&self, world: &mut World) -> Touch {
        if let Some(node) = self.node() {
            world.apply_pod(node, self, true);
        }
        Touch::default()
    }
}

impl Filed for NodeMetric {
    const KIND: Kind = Kind::Metric;

    fn apply(&self, world: &mut World) -> Touch {
        let name = name_of(&self.metadata);
        world.see(Kind::Metric, name);
        let spec = world.metric_specs.put(self.spec.clone());
        let mut facts = self.status.as_ref().map(MetricFacts::read);
        let entry = world.entry(name);
        if let Some(facts) = &mut facts {
            facts.share_keys(&entry.pods);
        }
        let known = entry.metric.as_ref();
        let touch = Touch {
            metric: known.is_none_or(|known| known.spec != spec),
            slo: false,
            resource: known.is_none_or(|known| known.facts != facts),
        };
        entry.metric = Some(MetricRecord { spec, facts });
        touch
    }
}

impl Filed for NodeSlo {
    const KIND: Kind = Kind::Slo;

    fn apply(&self, world: &mut World) -> Touch {
        let name = name_of(&self.metadata);
        world.see(Kind::Slo, name);
        let spec = Some(world.slo_specs.put(self.spec.clone()));
        let entry = world.entry(name);
        let touch = Touch { slo: entry.slo != spec, ..Touch::default() };
        entry.slo = spec;
        touch
    }
}

impl Filed for NodeResourceTopology {
    const KIND: Kind = Kind::Topology;

    fn apply(&self, world: &mut World) -> Touch {
        let name = name_of(&self.metadata);
        world.see(Kind::Topology, name);
        let facts = Some(TopologyFacts::read(self));
        let entry = world.entry(name);
        let touch = Touch { resource: entry.topology != facts, ..Touch::default() };
        entry.topology = facts;
        touch
    }
}

impl Filed for Device {
    const KIND: Kind = Kind::Device;

    fn apply(&self, world: &mut World) -> Touch {
        let name = name_of(&self.metadata);
        world.see(Kind::Device, name);
        let facts = Some(DeviceFacts::read(self));
        let entry = world.entry(name);
        let touch = Touch { resource: entry.device != facts, ..Touch::default() };
        entry.device = facts;
        touch
    }
}
