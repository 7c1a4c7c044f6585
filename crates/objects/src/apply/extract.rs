//! From objects to field sets.
//!
//! Leaves and elements of lists are members; structures are not, because having a `spec` is not an opinion
//! about it. Entries of maps are members even when they are divided further, and so are empty maps and nulls,
//! which would otherwise leave no trace. Empty lists of elements do leave none.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::field_set::{Entry, FieldSet};
use super::shape::{Elements, Form, Shape};
use super::step::Step;

/// The fields an object consists of.
pub(super) fn fields(object: &Value, shape: Shape<'_>) -> FieldSet {
    entry(object, shape).below
}

fn entry(value: &Value, shape: Shape<'_>) -> Entry {
    let below = match (shape.form(value), value) {
        (Form::Map(shape), Value::Object(map)) => Some(of_map(map, shape)),
        (Form::List(elements), Value::Array(list)) => of_list(list, elements),
        (Form::Map(_) | Form::List(_), _) => Some(FieldSet::default()),
        (Form::Leaf, _) => None,
    };
    below.map_or_else(Entry::owned, |below| Entry { owned: false, below })
}

fn of_map(map: &Map<String, Value>, shape: Shape<'_>) -> FieldSet {
    let mut set = FieldSet::default();
    for (name, value) in map {
        let field = shape.field(name);
        let mut entry = entry(value, field.shape);
        let traceless = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        entry.owned |= traceless || !field.named;
        set.put(Step::field(name), entry);
    }
    set
}

/// `None` when an element has no key, so that the list can only be owned whole.
fn of_list(list: &[Value], elements: Elements<'_>) -> Option<FieldSet> {
    let steps = elements.steps(list)?;
    let mut seen = BTreeSet::new();
    // Elements that share a key cannot be told apart, so nothing inside them has an owner.
    let repeated: BTreeSet<&Step> = steps.iter().filter(|step| !seen.insert(*step)).collect();
    let mut set = FieldSet::default();
    for (step, element) in steps.iter().zip(list) {
        let mut below = FieldSet::default();
        if !repeated.contains(step) {
            below = entry(element, elements.shape).below;
        }
        set.put(step.clone(), Entry { owned: true, below });
    }
    Some(set)
}

/// The set together with every named field on the way to its members.
///
/// Removing the last owned field of a structure should remove the structure, so for removal structures
/// count as owned by those who own something in them.
pub(super) fn with_named_parents(set: &FieldSet, shape: Shape<'_>) -> FieldSet {
    let mut result = FieldSet::default();
    for (step, entry) in set.entries() {
        let (named, inner) = match step {
            Step::Field(name) => {
                let field = shape.field(name);
                (field.named && !entry.below.is_empty(), field.shape)
            }
            Step::Key(_) => (false, shape.element()),
            Step::Value(_) | Step::Index(_) => (false, Shape::Untyped),
        };
        let below = with_named_parents(&entry.below, inner);
        result.put(step.clone(), Entry { owned: entry.owned || named, below });
    }
    result
}

/// Adapts a set that was recorded under an older schema: who owned something inside a value that is atomic
/// by now owns the value.
pub(super) fn reconciled(set: &FieldSet, shape: Shape<'_>) -> FieldSet {
    let mut result = FieldSet::default();
    for (step, entry) in set.entries() {
        let inner = match step {
            Step::Field(name) => shape.field(name).shape,
            Step::Key(_) | Step::Value(_) | Step::Index(_) => shape.element(),
        };
        let atomic = !entry.below.is_empty() && inner.is_atomic();
        let entry = if atomic {
            Entry::owned()
        } else {
            Entry { owned: entry.owned, below: reconciled(&entry.below, inner) }
        };
        result.put(step.clone(), entry);
    }
    result
}
