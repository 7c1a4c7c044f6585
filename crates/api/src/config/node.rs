//! What does this node get, and where does each value come from?
//!
//! The node's own words count last: the `colocation-strategy` annotation over
//! its ConfigMap strategy, the four ratio labels over that; the
//! `network-bandwidth` annotation and the `cpu-normalization-enabled` label
//! each over one field. A word that cannot be used is ignored here and reported
//! by [`check_node`](crate::check::check_node).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value as Json, json};
use units::Percent;

use super::check::{Options, examine};
use super::defaults::as_agent_sees;
use super::limits::MEMORY_POLICIES;
use super::selector::Labels;
use super::{Config, Key, Layer, Source, Status};
use crate::finding::{Code, Finding};
use crate::kind::node_metric::CollectPolicy;
use crate::kind::node_slo::NodeSloSpec;
use crate::metadata::Key as Label;
use crate::policy::ColocationPolicy;
use crate::protocol::node::{
    COLOCATION_STRATEGY, CPU_NORMALIZATION_ENABLED, CPU_RECLAIM_RATIO, MEMORY_RECLAIM_RATIO,
    MID_STATIC_CPU_RATIO, MID_STATIC_MEMORY_RATIO, NETWORK_BANDWIDTH,
};
use crate::strategy::AggregatePolicy;

/// What a NodeSLO carries besides the reference's fields, by name.
pub type Extensions = BTreeMap<String, Json>;

/// Ratio labels and the percent fields they override.
const RATIOS: [(Label<Percent>, &str); 4] = [
    (CPU_RECLAIM_RATIO, "cpuReclaimThresholdPercent"),
    (MEMORY_RECLAIM_RATIO, "memoryReclaimThresholdPercent"),
    (MID_STATIC_CPU_RATIO, "midStaticCPUReservedPercent"),
    (MID_STATIC_MEMORY_RATIO, "midStaticMemoryReservedPercent"),
];

/// Fields of the NodeSLO and the keys that fill them.
const NODE_SLO: [(Key, &str); 5] = [
    (Key::Threshold, "resourceUsedThresholdWithBE"),
    (Key::Qos, "resourceQOSStrategy"),
    (Key::Burst, "cpuBurstStrategy"),
    (Key::System, "systemStrategy"),
    (Key::HostApplication, "hostApplications"),
];

/// Everything the configuration says about one node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeView {
    strategies: BTreeMap<Key, Layer>,
    /// Which node entry applies, for each key that has one.
    pub entries: BTreeMap<Key, Source>,
    /// Batch and mid resources are computed only when cluster and node agree.
    pub colocation_enabled: bool,
    /// Keys of which several node entries select this node.
    pub conflicts: Vec<Finding>,
    /// How each of Tidepool's own keys came into force.
    own: BTreeMap<Key, Status>,
}

impl Config {
    /// The layers of every available key for the node with this metadata.
    pub fn for_node(&self, node: &ObjectMeta) -> NodeView {
        let none = Labels::new();
        let labels = node.labels.as_ref().unwrap_or(&none);
        let mut conflicts = Vec::new();
        let mut strategies = BTreeMap::new();
        let mut entries = BTreeMap::new();
        for key in Key::ALL {
            let Some(chosen) = self.choose(key, labels) else { continue };
            strategies.insert(key, own_words(key, node).over(chosen.layer));
            entries.extend(chosen.entry.map(|source| (key, source.clone())));
            conflicts.extend(conflict(key, &self.candidates(key, labels)));
        }
        let is_on = |layer: Option<&Layer>| {
            layer.and_then(|layer| layer.get(&["enable"])).is_some_and(|leaf| leaf.value == true)
        };
        let colocation_enabled =
            is_on(self.cluster(Key::Colocation)) && is_on(strategies.get(&Key::Colocation));
        let object = format!("Node {}", node.name.as_deref().unwrap_or("(unnamed)"));
        let conflicts = conflicts.into_iter().map(|finding| finding.on(&object, None)).collect();
        let own = Key::OWN.into_iter().map(|key| (key, self.status(key))).collect();
        NodeView { strategies, entries, colocation_enabled, conflicts, own }
    }
}

impl NodeView {
    /// The layer of a key; `None` when the key is unavailable.
    pub fn strategy(&self, key: Key) -> Option<&Layer> {
        self.strategies.get(&key)
    }

    /// What the manager computes batch and mid resources with.
    pub fn colocation(&self) -> Option<ColocationPolicy> {
        self.strategy(Key::Colocation).map(ColocationPolicy::of)
    }

    /// The NodeSLO's spec, without the extensions that third parties keep in it.
    pub fn node_slo(&self) -> NodeSloSpec {
        serde_json::from_value(self.node_slo_json()).unwrap_or_default()
    }

    /// The NodeSLO's extensions after `old`: our keys as they are configured, and whatever others keep
    /// there. A key of ours that is not configured goes; one whose text was never good stays as it is.
    pub fn extensions(&self, old: Option<&Extensions>) -> Option<Extensions> {
        let mut new = old.cloned().unwrap_or_default();
        for (key, status) in &self.own {
            match (status, self.strategy(*key)) {
                (Status::Loaded | Status::Kept, Some(layer)) => {
                    new.insert(key.name().to_owned(), layer.to_json());
                }
                (Status::BuiltIn, _) => {
                    new.remove(key.name());
                }
                _ => {}
            }
        }
        (old.is_some() || !new.is_empty()).then_some(new)
    }

    /// The NodeMetric's spec. A node that lends nothing is measured by the
    /// built-in policy; `None` leaves an existing spec as it is.
    pub fn metric_collect_policy(&self) -> Option<CollectPolicy> {
        let built_in = ColocationPolicy::default();
        let policy = self.colocation()?;
        let policy = if policy.enable { policy } else { built_in.clone() };
        // The NodeMetric's schema refuses other names; they act as the default.
        let is_known = MEMORY_POLICIES.contains(&policy.metric_memory_collect_policy.as_str());
        let memory = if is_known { &policy } else { &built_in };
        Some(CollectPolicy {
            aggregate_duration_seconds: Some(policy.metric_aggregate_duration_seconds),
            report_interval_seconds: Some(policy.metric_report_interval_seconds),
            node_memory_collect_policy: Some(memory.metric_memory_collect_policy.clone()),
            node_aggregate_policy: Some(AggregatePolicy {
                durations: Some(policy.metric_aggregate_policy.durations),
            }),
        })
    }

    pub fn node_slo_json(&self) -> Json {
        let mut spec = serde_json::Map::new();
        for (key, field) in NODE_SLO {
            let Some(layer) = self.strategy(key) else { continue };
            let value = layer.to_json();
            match key {
                Key::HostApplication if layer.is_empty() => {}
                Key::HostApplication => {
                    spec.insert(field.to_owned(), value["applications"].clone());
                }
                _ => {
                    spec.insert(field.to_owned(), value);
                }
            }
        }
        if let Some(extensions) = self.extensions(None) {
            spec.insert("extensions".to_owned(), json!(extensions));
        }
        spec.into()
    }

    /// The same node as its agent sees it, with class defaults filled in.
    #[must_use]
    pub fn as_agent_sees(mut self) -> Self {
        if let Some(qos) = self.strategies.get_mut(&Key::Qos) {
            *qos = as_agent_sees(qos);
        }
        self
    }
}

/// The layer that the node's own annotations and labels make for a key.
fn own_words(key: Key, node: &ObjectMeta) -> Layer {
    let mut layer = Layer::default();
    let mut set = |field: &str, value: Json, source| {
        layer.set(vec![field.to_owned()], value, source);
    };
    match key {
        Key::Colocation => {
            for (label, field) in RATIOS {
                if let Some(percent) = label.get(node) {
                    set(field, json!(percent.0), Source::NodeLabel(label.name));
                }
            }
            return layer.over(&colocation_annotation(node));
        }
        Key::System => {
            if let Some(bandwidth) = NETWORK_BANDWIDTH.get(node) {
                let source = Source::NodeAnnotation(NETWORK_BANDWIDTH.name);
                set("totalNetworkBandwidth", json!(bandwidth), source);
            }
        }
        Key::Normalization => {
            if let Some(enabled) = CPU_NORMALIZATION_ENABLED.get(node) {
                let source = Source::NodeLabel(CPU_NORMALIZATION_ENABLED.name);
                set("enable", json!(enabled.0), source);
            }
        }
        _ => {}
    }
    layer
}

/// The annotation has the limits of the ConfigMap; out of them it counts as absent.
fn colocation_annotation(node: &ObjectMeta) -> Layer {
    let Some(text) = COLOCATION_STRATEGY.raw(node) else { return Layer::default() };
    let examined = examine(Key::Colocation, text, None, Options::default());
    match examined.document {
        Some(document) if !examined.findings.iter().any(Finding::is_error) => {
            let source = Source::NodeAnnotation(COLOCATION_STRATEGY.name);
            Layer::new(Key::Colocation, &document.cluster.strategy, &source)
        }
        _ => Layer::default(),
    }
}

fn conflict(key: Key, candidates: &[&Source]) -> Option<Finding> {
    let [first, others @ ..] = candidates else { return None };
    if others.is_empty() {
        return None;
    }
    let others: Vec<String> = others.iter().map(ToString::to_string).collect();
    let rule = format!("in {key}, {first} applies and also {} would", others.join(", "));
    Some(Finding::warning(Code::Overlap, rule, "make the selectors exclude each other"))
}
