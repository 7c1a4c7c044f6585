//! Why is a strategy's decision what it is? The same value for logs, `explain` and the console.

use serde::{Deserialize, Serialize};

use super::Wish;
use super::files::FileWish;

/// What a strategy wants, and why.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    pub wishes: Vec<Wish>,
    /// For files that are no control groups.
    pub files: Vec<FileWish>,
    pub whys: Vec<Why>,
}

/// The sum behind one decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    /// `node`, or `namespace/name` of a pod.
    pub about: String,
    pub resource: Resource,
    /// The outcome in one sentence.
    pub headline: String,
    /// The rule that had the last word.
    pub bound_by: String,
    /// The sum, term by term; the last one is the result.
    #[serde(default)]
    pub lines: Vec<Line>,
}

/// What a decision is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resource {
    Cpu,
    Memory,
    Cache,
    Io,
    Network,
}

/// One term of a sum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// Milli-cores or bytes; negative terms come off.
    pub amount: i64,
    pub label: String,
    /// The setting and its source, or what was measured.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl Line {
    pub fn new(amount: i64, label: &str, note: impl Into<String>) -> Self {
        Self { amount, label: label.to_owned(), note: note.into() }
    }
}

/// The whole node.
pub const NODE: &str = "node";
