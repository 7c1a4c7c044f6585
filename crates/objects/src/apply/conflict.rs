//! The refusal to overwrite what someone else owns, in Kubernetes' words.

use std::fmt;

use serde_json::{Value, json};

use super::managed::Record;
use super::step::Path;

/// One field that the applying manager would have changed, and one owner of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The owner as messages name it: `"hpa" with subresource "scale" using autoscaling/v1`.
    pub owner: String,
    pub field: Path,
}

/// All fields in conflict, grouped by owner. The message is the one kubectl shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflicts(Vec<Conflict>);

impl Conflicts {
    /// `None` when there is nothing to report.
    pub(super) fn new(conflicts: Vec<Conflict>) -> Option<Self> {
        (!conflicts.is_empty()).then_some(Self(conflicts))
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Conflict> {
        self.0.iter()
    }

    pub(super) fn without(self, allowed: impl Fn(&Path) -> bool) -> Option<Self> {
        Self::new(self.0.into_iter().filter(|conflict| !allowed(&conflict.field)).collect())
    }

    /// `details` of the Status that answers the request.
    pub fn details(&self) -> Value {
        let causes: Vec<Value> = self
            .iter()
            .map(|Conflict { owner, field }| {
                json!({
                    "reason": "FieldManagerConflict",
                    "message": format!("conflict with {owner}"),
                    "field": field.to_string(),
                })
            })
            .collect();
        json!({ "causes": causes })
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [Conflict { owner, field }] = self.0.as_slice() {
            return write!(out, "Apply failed with 1 conflict: conflict with {owner}: {field}");
        }
        write!(out, "Apply failed with {} conflicts: ", self.0.len())?;
        for (at, group) in self.0.chunk_by(|a, b| a.owner == b.owner).enumerate() {
            let newline = if at == 0 { "" } else { "\n" };
            for (at, Conflict { owner, field }) in group.iter().enumerate() {
                if at == 0 {
                    write!(out, "{newline}conflicts with {owner}:")?;
                }
                write!(out, "\n- {field}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Conflicts {}

/// How messages name the owner of a field.
pub(super) fn name(record: &Record) -> String {
    let mut name = format!("{:?}", record.manager);
    if !record.subresource.is_empty() {
        name.push_str(&format!(" with subresource {:?}", record.subresource));
    }
    if !record.applied {
        name.push_str(&format!(" using {}", record.api_version));
    }
    name
}
