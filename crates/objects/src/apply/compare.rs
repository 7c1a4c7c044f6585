//! What changed between two objects, as field sets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::field_set::{Entry, FieldSet};
use super::literal::same;
use super::shape::{Elements, Form, Shape};
use super::step::Step;

/// Three disjoint sets; all empty when the objects mean the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) removed: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) added: FieldSet,
}

impl Changes {
    /// The changes that are not at or inside a field of `reset`.
    pub(super) fn outside(self, reset: &FieldSet) -> Self {
        if reset.is_empty() {
            return self;
        }
        Self {
            removed: self.removed.outside(reset),
            modified: self.modified.outside(reset),
            added: self.added.outside(reset),
        }
    }

    /// Fields that have a value they did not have before.
    pub(super) fn taken(&self) -> FieldSet {
        self.modified.union(&self.added)
    }
}

/// Compares two whole objects.
pub(super) fn objects(old: &Value, new: &Value, shape: Shape<'_>) -> Changes {
    let delta = compare(Some(old), Some(new), shape);
    Changes {
        removed: delta.removed.below,
        modified: delta.modified.below,
        added: delta.added.below,
    }
}

/// The changes at one place, seen from its parent.
#[derive(Default)]
struct Delta {
    removed: Entry,
    modified: Entry,
    added: Entry,
}

impl Delta {
    fn put(&mut self, step: &Step, inner: Self) {
        self.removed.below.merge(step.clone(), inner.removed);
        self.modified.below.merge(step.clone(), inner.modified);
        self.added.below.merge(step.clone(), inner.added);
    }
}

fn compare(old: Option<&Value>, new: Option<&Value>, shape: Shape<'_>) -> Delta {
    let mut delta = Delta::default();
    match (old, new) {
        (None, None) => {}
        (Some(only), None) | (None, Some(only)) => {
            walk(shape.form(only), old, new, &mut delta);
        }
        (Some(a), Some(b)) => {
            let (old_form, new_form) = (shape.form(a), shape.form(b));
            // A value that changed its kind loses the fields it had and gains the ones it has now.
            if std::mem::discriminant(&old_form) != std::mem::discriminant(&new_form) {
                walk(old_form, old, new, &mut delta);
            }
            walk(new_form, old, new, &mut delta);
        }
    }
    delta
}

fn walk(form: Form<'_>, old: Option<&Value>, new: Option<&Value>, delta: &mut Delta) {
    let divided = match form {
        Form::Leaf => false,
        Form::Map(shape) => maps(old, new, shape, delta),
        Form::List(elements) => lists(items(old), items(new), elements, delta),
    };
    match (old, new) {
        (None, _) => delta.added.owned = true,
        (_, None) => delta.removed.owned = true,
        // Null and empty divide into nothing, so the difference between them shows in the value itself.
        (Some(a), Some(b)) if !divided => delta.modified.owned |= !same(a, b),
        _ => {}
    }
}

fn entries(value: Option<&Value>) -> &Map<String, Value> {
    static EMPTY: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    value.and_then(Value::as_object).unwrap_or(&EMPTY)
}

fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns false when there is nothing to divide.
fn maps(old: Option<&Value>, new: Option<&Value>, shape: Shape<'_>, delta: &mut Delta) -> bool {
    // Parts that always exist do so on both sides, unless the whole came or went.
    let standing = |name: &str| match (old, new) {
        (Some(_), Some(_)) => shape.standing(name),
        _ => None,
    };
    let (old, new) = (entries(old), entries(new));
    if old.is_empty() && new.is_empty() {
        return false;
    }
    for (name, value) in new {
        let before = old.get(name).or_else(|| standing(name));
        delta.put(&Step::field(name), compare(before, Some(value), shape.field(name).shape));
    }
    for (name, value) in old.iter().filter(|(name, _)| !new.contains_key(*name)) {
        let after = standing(name);
        delta.put(&Step::field(name), compare(Some(value), after, shape.field(name).shape));
    }
    true
}

/// Returns false when there is nothing to divide, or when an element has no key.
fn lists(old: &[Value], new: &[Value], elements: Elements<'_>, delta: &mut Delta) -> bool {
    if old.is_empty() && new.is_empty() {
        return false;
    }
    let (Some(old), Some(new)) = (by_key(old, elements), by_key(new, elements)) else {
        return false;
    };
    let steps: BTreeSet<&Step> = old.keys().chain(new.keys()).collect();
    let none = Vec::new();
    for step in steps {
        let (before, after) = (old.get(step).unwrap_or(&none), new.get(step).unwrap_or(&none));
        delta.put(step, element(before, after, elements));
    }
    true
}

/// Compares the elements with one key. Where several share it they are one value without inner fields.
fn element(old: &[&Value], new: &[&Value], elements: Elements<'_>) -> Delta {
    if old.len() <= 1 && new.len() <= 1 {
        return compare(old.first().copied(), new.first().copied(), elements.shape);
    }
    let mut delta = Delta::default();
    if old.len() >= 2 && new.len() >= 2 {
        let equal = old.len() == new.len() && old.iter().zip(new).all(|(a, b)| same(a, b));
        delta.modified.owned = !equal;
    } else if old.len() >= 2 {
        delta = compare(None, new.first().copied(), elements.shape);
        delta.removed.owned = true;
    } else {
        delta = compare(old.first().copied(), None, elements.shape);
        delta.added.owned = true;
    }
    delta
}

fn by_key<'v>(list: &'v [Value], elements: Elements<'_>) -> Option<BTreeMap<Step, Vec<&'v Value>>> {
    let mut by_key: BTreeMap<Step, Vec<&Value>> = BTreeMap::new();
    for (step, element) in elements.steps(list)?.into_iter().zip(list) {
        by_key.entry(step).or_default().push(element);
    }
    Some(by_key)
}
