//! A strategy as leaves, so that layers combine by replacing leaves.
//!
//! Objects are walked into; a scalar, a list and an entry of a free map
//! (`ratioModel`, `extensions`) are leaves. Laying `{"a": {"x": 1}}` over
//! `{"a": {"x": 0, "y": 0}}` therefore replaces `a.x` and nothing else.
//!
//! A field that is absent, `null`, an empty list, or one of the three policy
//! strings given as `""` is no leaf at all: the lower layer shows through.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use super::Key;
use crate::shape::Shape;

/// Names from the strategy's root to a leaf.
pub type Path = Vec<String>;

/// Which layer a value came from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    BuiltIn,
    Cluster,
    /// A node entry: its place in the list, and its name when it has one.
    Entry {
        index: usize,
        name: Option<String>,
    },
    NodeAnnotation(&'static str),
    NodeLabel(&'static str),
    /// Filled in by the node agent where the NodeSLO is silent.
    AgentDefault,
    /// The neutral value that the agent uses for a feature that is off.
    AgentNeutral,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built-in"),
            Self::Cluster => f.write_str("cluster"),
            Self::Entry { index, name: Some(name) } => write!(f, "node entry {index} ({name})"),
            Self::Entry { index, name: None } => write!(f, "node entry {index}"),
            Self::NodeAnnotation(key) => write!(f, "node annotation {key}"),
            Self::NodeLabel(key) => write!(f, "node label {key}"),
            Self::AgentDefault => f.write_str("agent default"),
            Self::AgentNeutral => f.write_str("agent, because disabled"),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Leaf {
    pub value: Json,
    pub source: Source,
}

/// One layer, or several laid over each other.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Layer {
    leaves: BTreeMap<Path, Leaf>,
}

impl Layer {
    /// The leaves of `value`, a strategy of `key` that already has the key's shape.
    pub fn new(key: Key, value: &Json, source: &Source) -> Self {
        let mut layer = Self::default();
        layer.collect(key, key.strategy(), value, &mut Vec::new(), source);
        layer
    }

    fn collect(&mut self, key: Key, shape: &Shape, value: &Json, at: &mut Path, source: &Source) {
        match (shape, value) {
            (Shape::Object(fields), Json::Object(members)) => {
                // An object without fields still exists: the CRD may give it defaults.
                if members.is_empty() && !at.is_empty() {
                    self.set(at.clone(), value.clone(), source.clone());
                }
                for (name, value) in members {
                    let Some(shape) = fields.get(name) else { continue };
                    at.push(name.clone());
                    self.collect(key, shape, value, at, source);
                    at.pop();
                }
            }
            (Shape::Map(_), Json::Object(members)) => {
                for (name, value) in members {
                    let path = at.iter().chain([name]).cloned().collect();
                    self.set(path, value.clone(), source.clone());
                }
            }
            _ if counts_as_absent(key, at, value) => {}
            _ => self.set(at.clone(), value.clone(), source.clone()),
        }
    }

    pub fn set(&mut self, path: Path, value: Json, source: Source) {
        self.leaves.insert(path, Leaf { value, source });
    }

    /// This layer laid over `lower`.
    #[must_use]
    pub fn over(&self, lower: &Self) -> Self {
        let mut leaves = lower.leaves.clone();
        leaves.extend(self.leaves.iter().map(|(path, leaf)| (path.clone(), leaf.clone())));
        Self { leaves }
    }

    /// Leaves in order of path, without the empty objects that others fill.
    pub fn leaves(&self) -> impl Iterator<Item = (&Path, &Leaf)> {
        self.leaves
            .iter()
            .filter(|(path, leaf)| leaf.value != Json::Object(Map::new()) || !self.has_below(path))
    }

    fn has_below(&self, path: &Path) -> bool {
        self.leaves
            .range(path.clone()..)
            .nth(1)
            .is_some_and(|(next, _)| next.len() > path.len() && next.starts_with(path))
    }

    pub fn get(&self, path: &[&str]) -> Option<&Leaf> {
        let path: Path = path.iter().map(|&name| name.to_owned()).collect();
        self.leaves.get(&path)
    }

    pub fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }

    /// The strategy as one JSON object.
    pub fn to_json(&self) -> Json {
        let mut root = Json::Object(Map::new());
        for (path, leaf) in &self.leaves {
            place(&mut root, path, &leaf.value);
        }
        root
    }

    /// The strategy as its type. Values that lost their shape since they were
    /// checked cannot occur; should they, the whole strategy is the default one.
    pub fn typed<T: DeserializeOwned + Default>(&self) -> T {
        serde_json::from_value(self.to_json()).unwrap_or_default()
    }
}

fn place(at: &mut Json, path: &[String], value: &Json) {
    let Some((name, rest)) = path.split_first() else {
        // An empty object must not undo what deeper leaves have placed.
        if !(at.is_object() && *value == Json::Object(Map::new())) {
            *at = value.clone();
        }
        return;
    };
    if !at.is_object() {
        *at = Json::Object(Map::new());
    }
    if let Json::Object(members) = at {
        place(members.entry(name.clone()).or_insert(Json::Null), rest, value);
    }
}

fn counts_as_absent(key: Key, path: &[String], value: &Json) -> bool {
    match value {
        Json::Null => true,
        // A node entry replaces the cluster's host applications even by none.
        Json::Array(items) => items.is_empty() && key != Key::HostApplication,
        Json::String(text) if text.is_empty() => {
            matches!(
                (key, path),
                (Key::Threshold, [field]) if field == "cpuSuppressPolicy" || field == "cpuEvictPolicy"
            ) || matches!((key, path), (Key::Burst, [field]) if field == "policy")
        }
        _ => false,
    }
}
