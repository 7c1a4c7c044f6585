//! What is in force after the ConfigMap changed, for better or worse?
//!
//! A bad value never changes running behaviour: the key keeps its last good
//! strategy, the other keys take their new ones. Where there was no good one
//! yet, keys of the NodeSLO fall back to their defaults; co-location,
//! normalisation and amplification are unavailable, and what they wrote to
//! nodes earlier stays untouched.

use std::collections::BTreeMap;

use super::check::{Document, Examined, Options, examine};
use super::defaults::built_in;
use super::selector::{Labels, Selector, SelectorIndex};
use super::{Key, Layer, Source};
use crate::finding::{Code, Finding, Severity};

pub type Data = BTreeMap<String, String>;

/// Where the strategy of a key comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The ConfigMap's text is in force.
    Loaded,
    /// The key is absent; built-in defaults are in force.
    BuiltIn,
    /// The text is bad; the last good one stays in force.
    Kept,
    /// The text is bad and there was no good one; built-in defaults are in force.
    Fallback,
    /// The text is bad and there was no good one; nothing may be derived from this key.
    Unavailable,
}

/// All keys as they are in force.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    keys: BTreeMap<Key, InForce>,
}

#[derive(Debug, Clone, PartialEq)]
struct InForce {
    status: Status,
    strategies: Option<Strategies>,
}

/// The layers of one key, each entry already laid over the cluster's.
#[derive(Debug, Clone, PartialEq)]
struct Strategies {
    cluster: Layer,
    entries: Vec<NodeEntry>,
    /// Entries by their places in the list.
    index: SelectorIndex,
}

#[derive(Debug, Clone, PartialEq)]
struct NodeEntry {
    /// `None` matches no node.
    selector: Option<Selector>,
    source: Source,
    layer: Layer,
}

/// What a node gets from one key before its own annotations and labels count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Chosen<'a> {
    pub layer: &'a Layer,
    /// The entry that matched; `None` for the cluster's strategy.
    pub entry: Option<&'a Source>,
}

impl Default for Config {
    fn default() -> Self {
        Self::load(&Data::new(), None, "", Options::default()).0
    }
}

impl Config {
    /// The configuration after `data` arrived, with every finding in it.
    pub fn load(
        data: &Data,
        previous: Option<&Self>,
        object: &str,
        options: Options,
    ) -> (Self, Vec<Finding>) {
        let mut keys = BTreeMap::new();
        let mut findings = Vec::new();
        for key in Key::ALL {
            let system = data.get(Key::System.name()).map(String::as_str);
            let in_force = match data.get(key.name()) {
                None => built_in_force(key),
                Some(text) => {
                    let examined = examine(key, text, system, options);
                    let in_force = decide(key, text, &examined, previous);
                    let on_key = |f: Finding| at_load(f).on(object, Some(key.name()));
                    findings.extend(examined.findings.into_iter().map(on_key));
                    in_force
                }
            };
            keys.insert(key, in_force);
        }
        (Self { keys }, findings)
    }

    pub fn status(&self, key: Key) -> Status {
        self.keys.get(&key).map_or(Status::Unavailable, |in_force| in_force.status)
    }

    /// The cluster's strategy over the built-in defaults; `None` when unavailable.
    pub fn cluster(&self, key: Key) -> Option<&Layer> {
        Some(&self.keys.get(&key)?.strategies.as_ref()?.cluster)
    }

    /// The strategy of the first entry that selects these labels, or the cluster's.
    pub fn choose(&self, key: Key, labels: &Labels) -> Option<Chosen<'_>> {
        let strategies = self.keys.get(&key)?.strategies.as_ref()?;
        let matching = strategies.matching(labels).next();
        Some(match matching {
            Some(entry) => Chosen { layer: &entry.layer, entry: Some(&entry.source) },
            None => Chosen { layer: &strategies.cluster, entry: None },
        })
    }

    /// Every entry that selects these labels. More than one is a conflict.
    pub fn candidates(&self, key: Key, labels: &Labels) -> Vec<&Source> {
        let strategies = self.keys.get(&key).and_then(|in_force| in_force.strategies.as_ref());
        strategies.into_iter().flat_map(|s| s.matching(labels)).map(|e| &e.source).collect()
    }
}

impl Strategies {
    fn matching(&self, labels: &Labels) -> impl Iterator<Item = &NodeEntry> {
        let candidates = self.index.candidates(labels).into_iter();
        candidates
            .filter_map(|at| self.entries.get(at))
            .filter(|entry| entry.selector.as_ref().is_some_and(|s| s.matches(labels)))
    }

    fn new(key: Key, document: &Document, examined: &Examined) -> Self {
        let cluster = Layer::new(key, &document.cluster.strategy, &Source::Cluster);
        let cluster = cluster.over(&built_in(key));
        let entries = document.entries.iter().enumerate().map(|(index, entry)| {
            let source = entry.source(index);
            let own = if examined.bad_entries.contains(&index) {
                Layer::default()
            } else {
                entry_layer(key, &entry.part.strategy, &source)
            };
            let selector = entry.selector.as_ref().and_then(|s| s.as_ref().ok()).cloned();
            NodeEntry { selector, source, layer: own.over(&cluster) }
        });
        let entries: Vec<NodeEntry> = entries.collect();
        let selectors = entries.iter().enumerate();
        let index =
            SelectorIndex::new(selectors.filter_map(|(at, e)| Some((at, e.selector.as_ref()?))));
        Self { entries, cluster, index }
    }
}

fn entry_layer(key: Key, strategy: &serde_json::Value, source: &Source) -> Layer {
    let mut layer = Layer::new(key, strategy, source);
    // A matching entry replaces the cluster's host applications even when it lists none.
    if key == Key::HostApplication && layer.is_empty() {
        layer.set(vec!["applications".to_owned()], serde_json::json!([]), source.clone());
    }
    layer
}

fn built_in_force(key: Key) -> InForce {
    let index = SelectorIndex::default();
    let strategies = Strategies { cluster: built_in(key), entries: Vec::new(), index };
    InForce { status: Status::BuiltIn, strategies: Some(strategies) }
}

fn decide(key: Key, text: &str, examined: &Examined, previous: Option<&Config>) -> InForce {
    if key == Key::Colocation && text.is_empty() {
        return built_in_force(key);
    }
    let refused = match key {
        Key::Threshold
        | Key::Qos
        | Key::Burst
        | Key::System
        | Key::Kernel
        | Key::Reaction
        | Key::Switch => examined.cluster_is_bad || !examined.bad_entries.is_empty(),
        // A bad entry falls back to the cluster's strategy.
        Key::Colocation => examined.cluster_is_bad,
        // Ratios are judged where they are used.
        Key::HostApplication | Key::Normalization | Key::Amplification => false,
    };
    match &examined.document {
        Some(document) if !refused => InForce {
            status: Status::Loaded,
            strategies: Some(Strategies::new(key, document, examined)),
        },
        _ => last_good(key, previous),
    }
}

fn last_good(key: Key, previous: Option<&Config>) -> InForce {
    let kept = previous
        .and_then(|config| config.keys.get(&key))
        .filter(|in_force| in_force.status != Status::Unavailable);
    if let Some(kept) = kept {
        let never_loaded = kept.status == Status::Fallback;
        let status = if never_loaded { Status::Fallback } else { Status::Kept };
        return InForce { status, ..kept.clone() };
    }
    match key {
        Key::Colocation | Key::Normalization | Key::Amplification => {
            InForce { status: Status::Unavailable, strategies: None }
        }
        _ => InForce { status: Status::Fallback, ..built_in_force(key) },
    }
}

/// Admission refuses bad selectors; once stored, the rest of the key is still used.
fn at_load(mut finding: Finding) -> Finding {
    let harmless = [Code::EmptySelector, Code::BadSelector, Code::Overlap, Code::EntryName];
    if harmless.contains(&finding.code) {
        finding.severity = Severity::Warning;
    }
    finding
}
