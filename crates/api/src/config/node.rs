//! What does this node get, and where does each value come from?
//!
//! The node's own words count last: the `colocation-strategy` annotation over
//! its ConfigMap strategy, the four ratio labels over that; the
//! `network-bandwidth` annotation and the `cpu-normalization-enabled` label
//! each over one field. A bad word is ignored, with a finding.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value as Json, json};
use units::{Percent, Quantity};

use super::check::{Options, examine};
use super::defaults::{as_agent_sees, built_in};
use super::limits::MEMORY_POLICIES;
use super::selector::Labels;
use super::{Config, Key, Layer, Source};
use crate::finding::{Code, Finding};
use crate::kind::node_metric::CollectPolicy;
use crate::kind::node_slo::NodeSloSpec;
use crate::strategy::ColocationStrategy;

const COLOCATION_STRATEGY: &str = "node.koordinator.sh/colocation-strategy";
const NETWORK_BANDWIDTH: &str = "node.koordinator.sh/network-bandwidth";
const NORMALIZATION_ENABLED: &str = "node.koordinator.sh/cpu-normalization-enabled";

/// Ratio labels and the percent fields they override.
const RATIOS: [(&str, &str); 4] = [
    ("node.koordinator.sh/cpu-reclaim-ratio", "cpuReclaimThresholdPercent"),
    ("node.koordinator.sh/memory-reclaim-ratio", "memoryReclaimThresholdPercent"),
    ("node.koordinator.sh/mid-static-cpu-reserved-ratio", "midStaticCPUReservedPercent"),
    ("node.koordinator.sh/mid-static-memory-reserved-ratio", "midStaticMemoryReservedPercent"),
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
    pub findings: Vec<Finding>,
}

impl Config {
    /// The layers of every available key for the node with this metadata.
    pub fn for_node(&self, node: &ObjectMeta) -> NodeView {
        let none = Labels::new();
        let labels = node.labels.as_ref().unwrap_or(&none);
        let annotations = node.annotations.as_ref().unwrap_or(&none);
        let mut findings = Vec::new();
        let mut strategies = BTreeMap::new();
        let mut entries = BTreeMap::new();
        for key in Key::ALL {
            let Some(chosen) = self.choose(key, labels) else { continue };
            let own = own_words(key, labels, annotations, &mut findings);
            strategies.insert(key, own.over(chosen.layer));
            entries.extend(chosen.entry.map(|source| (key, source.clone())));
            findings.extend(conflict(key, &self.candidates(key, labels)));
        }
        let is_on = |layer: Option<&Layer>| {
            layer.and_then(|layer| layer.get(&["enable"])).is_some_and(|leaf| leaf.value == true)
        };
        let colocation_enabled =
            is_on(self.cluster(Key::Colocation)) && is_on(strategies.get(&Key::Colocation));
        let object = format!("Node {}", node.name.as_deref().unwrap_or("(unnamed)"));
        let findings = findings
            .into_iter()
            .map(|(key, finding)| finding.on(&object, key.as_deref()))
            .collect();
        NodeView { strategies, entries, colocation_enabled, findings }
    }
}

impl NodeView {
    /// The layer of a key; `None` when the key is unavailable.
    pub fn strategy(&self, key: Key) -> Option<&Layer> {
        self.strategies.get(&key)
    }

    /// What the manager computes batch and mid resources with.
    pub fn colocation(&self) -> Option<ColocationStrategy> {
        Some(self.strategy(Key::Colocation)?.typed())
    }

    /// The NodeSLO's spec, without the extensions that third parties keep in it.
    pub fn node_slo(&self) -> NodeSloSpec {
        serde_json::from_value(self.node_slo_json()).unwrap_or_default()
    }

    /// The NodeMetric's spec. A node that lends nothing is measured by the
    /// built-in policy; `None` leaves an existing spec as it is.
    pub fn metric_collect_policy(&self) -> Option<CollectPolicy> {
        let own = self.strategy(Key::Colocation)?;
        let built_in = built_in(Key::Colocation);
        let enabled = own.get(&["enable"]).is_some_and(|leaf| leaf.value == true);
        let strategy: ColocationStrategy = if enabled { own.typed() } else { built_in.typed() };
        Some(CollectPolicy {
            aggregate_duration_seconds: strategy.metric_aggregate_duration_seconds,
            report_interval_seconds: strategy.metric_report_interval_seconds,
            node_aggregate_policy: strategy.metric_aggregate_policy,
            // The NodeMetric's schema refuses other names; they act as the default.
            node_memory_collect_policy: strategy
                .metric_memory_collect_policy
                .filter(|policy| MEMORY_POLICIES.contains(&policy.as_str()))
                .or(built_in.typed::<ColocationStrategy>().metric_memory_collect_policy),
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

type Found = (Option<String>, Finding);

/// The layer that the node's own annotations and labels make for a key.
fn own_words(key: Key, labels: &Labels, annotations: &Labels, findings: &mut Vec<Found>) -> Layer {
    match key {
        Key::Colocation => {
            let annotated = colocation_annotation(annotations, findings);
            ratio_labels(labels, findings).over(&annotated)
        }
        Key::System => network_bandwidth(annotations, findings),
        Key::Normalization => normalization_label(labels, findings),
        _ => Layer::default(),
    }
}

fn colocation_annotation(annotations: &Labels, findings: &mut Vec<Found>) -> Layer {
    let Some(text) = annotations.get(COLOCATION_STRATEGY) else { return Layer::default() };
    let examined = examine(Key::Colocation, text, None, Options::default());
    let refused = examined.findings.iter().any(Finding::is_error);
    let key = Some(COLOCATION_STRATEGY.to_owned());
    findings.extend(examined.findings.into_iter().map(|finding| (key.clone(), finding)));
    match examined.document {
        Some(document) if !refused => {
            let source = Source::NodeAnnotation(COLOCATION_STRATEGY);
            Layer::new(Key::Colocation, &document.cluster.strategy, &source)
        }
        _ => Layer::default(),
    }
}

fn ratio_labels(labels: &Labels, findings: &mut Vec<Found>) -> Layer {
    let mut layer = Layer::default();
    for (label, field) in RATIOS {
        let Some(text) = labels.get(label) else { continue };
        match Percent::from_ratio_label(text) {
            Ok(percent) => {
                layer.set(vec![field.to_owned()], json!(percent.0), Source::NodeLabel(label));
            }
            Err(error) => {
                let rule = format!("ignored: {error}");
                let finding = Finding::error(Code::BadText, rule, "use a ratio such as 0.6");
                findings.push((Some(label.to_owned()), finding.value(text)));
            }
        }
    }
    layer
}

fn network_bandwidth(annotations: &Labels, findings: &mut Vec<Found>) -> Layer {
    let mut layer = Layer::default();
    let Some(text) = annotations.get(NETWORK_BANDWIDTH) else { return layer };
    match text.parse::<Quantity>() {
        Ok(bandwidth) => layer.set(
            vec!["totalNetworkBandwidth".to_owned()],
            json!(bandwidth.to_string()),
            Source::NodeAnnotation(NETWORK_BANDWIDTH),
        ),
        Err(error) => {
            let rule = format!("ignored, not a {error}");
            let fix = "use bits per second such as 10G";
            let finding = Finding::error(Code::BadText, rule, fix).value(text);
            findings.push((Some(NETWORK_BANDWIDTH.to_owned()), finding));
        }
    }
    layer
}

fn normalization_label(labels: &Labels, findings: &mut Vec<Found>) -> Layer {
    let mut layer = Layer::default();
    let Some(text) = labels.get(NORMALIZATION_ENABLED) else { return layer };
    let enabled = match text.as_str() {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => true,
        "0" | "f" | "F" | "FALSE" | "false" | "False" => false,
        _ => {
            let finding =
                Finding::error(Code::BadText, "ignored, not a boolean", "use true or false");
            findings.push((Some(NORMALIZATION_ENABLED.to_owned()), finding.value(text)));
            return layer;
        }
    };
    let source = Source::NodeLabel(NORMALIZATION_ENABLED);
    layer.set(vec!["enable".to_owned()], json!(enabled), source);
    layer
}

fn conflict(key: Key, candidates: &[&Source]) -> Option<Found> {
    let [first, others @ ..] = candidates else { return None };
    if others.is_empty() {
        return None;
    }
    let others: Vec<String> = others.iter().map(ToString::to_string).collect();
    let rule = format!("in {key}, {first} applies and also {} would", others.join(", "));
    let fix = "make the selectors exclude each other";
    Some((None, Finding::warning(Code::Overlap, rule, fix)))
}
