//! Sets of fields: who owns what.
//!
//! A set is a tree over [`Step`]s in which some nodes are marked as owned. Owning a field says nothing about
//! the fields inside it: `spec` and `spec.replicas` are two members, and neither implies the other.
//!
//! On the wire (`fieldsV1`) a leaf of the tree is owned by being there; an inner node that is owned as well
//! carries an extra `"."`:
//!
//! ```text
//! {"f:labels": {".": {}, "f:app": {}}}      owns labels and labels.app
//! {"f:labels": {"f:app": {}}}               owns labels.app only
//! ```

use std::collections::BTreeMap;
use std::collections::btree_map;

use serde_json::{Map, Value};

use super::step::{Path, Step, StepError};

/// Fields nested deeper than this are not told apart on the wire: an object with its `managedFields` must
/// stay within the 128 levels that JSON parsers accept.
const MAX_PRINTED: usize = 100;

/// A set of field paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// Every entry is owned or has something owned below it.
    entries: BTreeMap<Step, Entry>,
}

/// One node of a [`FieldSet`], seen from its parent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) owned: bool,
    pub(super) below: FieldSet,
}

impl Entry {
    pub(super) fn owned() -> Self {
        Self { owned: true, below: FieldSet::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.owned && self.below.is_empty()
    }
}

/// Why a value is not `fieldsV1`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    #[error(transparent)]
    Step(#[from] StepError),
    #[error("expected a map of fields, got {0}")]
    NotAMap(Value),
}

impl FieldSet {
    /// The set of exactly these paths.
    pub fn of(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(Path::fields(path));
        }
        set
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds one path; the empty path, which means the whole object, is never owned.
    pub fn insert(&mut self, path: Path) {
        let mut steps = path.0.into_iter();
        let Some(mut step) = steps.next() else { return };
        let mut set = self;
        for next in steps {
            set = &mut set.entries.entry(step).or_default().below;
            step = next;
        }
        set.entries.entry(step).or_default().owned = true;
    }

    pub fn contains(&self, path: &Path) -> bool {
        let Some((last, parents)) = path.0.split_last() else { return false };
        let mut set = self;
        for step in parents {
            match set.entries.get(step) {
                Some(entry) => set = &entry.below,
                None => return false,
            }
        }
        set.owns(last)
    }

    /// True when the field one step away is in the set.
    pub(super) fn owns(&self, step: &Step) -> bool {
        self.entries.get(step).is_some_and(|entry| entry.owned)
    }

    /// The fields below `step`, if any.
    pub(super) fn below(&self, step: &Step) -> Option<&FieldSet> {
        let below = &self.entries.get(step)?.below;
        (!below.is_empty()).then_some(below)
    }

    pub(super) fn entries(&self) -> btree_map::Iter<'_, Step, Entry> {
        self.entries.iter()
    }

    /// Puts a subtree in place, or nothing if it is empty.
    pub(super) fn put(&mut self, step: Step, entry: Entry) {
        if !entry.is_empty() {
            self.entries.insert(step, entry);
        }
    }

    /// Adds a subtree to what is there already.
    pub(super) fn merge(&mut self, step: Step, entry: Entry) {
        if entry.is_empty() {
            return;
        }
        match self.entries.entry(step) {
            btree_map::Entry::Vacant(place) => {
                place.insert(entry);
            }
            btree_map::Entry::Occupied(mut place) => {
                let there = place.get_mut();
                there.owned |= entry.owned;
                there.below.absorb(entry.below);
            }
        }
    }

    /// Adds all fields of `other`.
    pub(super) fn absorb(&mut self, other: FieldSet) {
        for (step, entry) in other.entries {
            self.merge(step, entry);
        }
    }

    /// Fields that are in either set.
    pub fn union(&self, other: &Self) -> Self {
        let mut union = self.clone();
        union.absorb(other.clone());
        union
    }

    /// Fields that are in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        let mut both = Self::default();
        for (step, entry) in &self.entries {
            if let Some(theirs) = other.entries.get(step) {
                let below = entry.below.intersection(&theirs.below);
                both.put(step.clone(), Entry { owned: entry.owned && theirs.owned, below });
            }
        }
        both
    }

    /// Fields that are in this set and not in `other`; a field of `other` does not take the ones inside it away.
    pub fn difference(&self, other: &Self) -> Self {
        let mut rest = Self::default();
        for (step, entry) in &self.entries {
            match other.entries.get(step) {
                None => rest.put(step.clone(), entry.clone()),
                Some(theirs) => {
                    let below = entry.below.difference(&theirs.below);
                    rest.put(step.clone(), Entry { owned: entry.owned && !theirs.owned, below });
                }
            }
        }
        rest
    }

    /// Fields of this set that are neither in `other` nor inside a field of `other`.
    pub fn outside(&self, other: &Self) -> Self {
        let mut rest = Self::default();
        for (step, entry) in &self.entries {
            match other.entries.get(step) {
                None => rest.put(step.clone(), entry.clone()),
                Some(theirs) if theirs.owned => {}
                Some(theirs) => {
                    let below = entry.below.outside(&theirs.below);
                    rest.put(step.clone(), Entry { owned: entry.owned, below });
                }
            }
        }
        rest
    }

    /// Every path, in the order Kubernetes lists them: the fields of a level before those inside them.
    pub fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, prefix: &mut Vec<Step>, paths: &mut Vec<Path>) {
        for (step, _) in self.entries.iter().filter(|(_, entry)| entry.owned) {
            let mut path = prefix.clone();
            path.push(step.clone());
            paths.push(Path(path));
        }
        for (step, entry) in &self.entries {
            prefix.push(step.clone());
            entry.below.collect(prefix, paths);
            prefix.pop();
        }
    }

    /// Reads `fieldsV1`.
    pub fn from_value(fields: &Value) -> Result<Self, FieldsError> {
        match fields {
            Value::Null => Ok(Self::default()),
            Value::Object(fields) => Ok(read(fields)?.0),
            other => Err(FieldsError::NotAMap(other.clone())),
        }
    }

    /// Prints `fieldsV1`.
    pub fn to_value(&self) -> Value {
        Value::Object(self.print(0))
    }

    fn print(&self, depth: usize) -> Map<String, Value> {
        let mut fields = Map::new();
        for (step, entry) in &self.entries {
            let mut inner = Map::new();
            if entry.owned && !entry.below.is_empty() {
                inner.insert(".".to_owned(), Value::Object(Map::new()));
            }
            if depth < MAX_PRINTED {
                inner.append(&mut entry.below.print(depth + 1));
            }
            fields.insert(step.print(), Value::Object(inner));
        }
        fields
    }
}

/// The fields inside a node, and whether the node itself is owned (said by `.` or by having nothing inside).
fn read(fields: &Map<String, Value>) -> Result<(FieldSet, bool), FieldsError> {
    let mut set = FieldSet::default();
    let mut owned = false;
    for (key, value) in fields {
        if key == "." {
            owned = true;
            continue;
        }
        let Some(step) = Step::parse(key)? else { continue };
        let (below, owned) = match value {
            Value::Null => (FieldSet::default(), true),
            Value::Object(fields) => read(fields)?,
            other => return Err(FieldsError::NotAMap(other.clone())),
        };
        set.merge(step, Entry { owned, below });
    }
    owned |= set.is_empty();
    Ok((set, owned))
}

#[cfg(test)]
mod tests;
