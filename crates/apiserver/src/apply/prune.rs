//! Removing what a manager no longer names.
//!
//! A field goes when the manager applied it last time, does not apply it now, and nobody else owns it. A field
//! that nobody owns (a default, say) goes only together with the list element or structure around it.

use serde_json::{Map, Value};

use super::extract::{fields, with_named_parents};
use super::field_set::FieldSet;
use super::shape::{Elements, Form, Shape};
use super::step::Step;

/// Takes the fields of `last` out of `merged`, except those in `owned`: what all managers own by now, the
/// applying one included.
pub(super) fn prune(merged: &Value, last: &FieldSet, owned: &FieldSet, shape: Shape<'_>) -> Value {
    let set_of = |value: &Value| with_named_parents(&fields(value, shape), shape);
    let last = with_named_parents(last, shape);
    let owned = with_named_parents(owned, shape);
    let all = set_of(merged);

    // Taking a list element out takes everything inside it, also what others own: put that back.
    let bare = without(merged, &last, shape);
    let gone = all.difference(&set_of(&bare).union(&owned));
    let kept = without(merged, &gone, shape);
    // Putting owned fields back left out what nobody owns beside them: only fields of `last` may go.
    let gone = all.difference(&set_of(&kept)).intersection(&last);
    without(merged, &gone, shape)
}

/// The value without these fields. Containers that lose everything inside stay behind, empty: whether they
/// go is a question of their own.
fn without(value: &Value, gone: &FieldSet, shape: Shape<'_>) -> Value {
    match (shape.form(value), value) {
        (Form::Map(shape), Value::Object(map)) => Value::Object(remove_from_map(map, gone, shape)),
        (Form::List(elements), Value::Array(list)) => {
            Value::Array(remove_from_list(list, gone, elements))
        }
        _ => value.clone(),
    }
}

fn remove_from_map(
    map: &Map<String, Value>,
    gone: &FieldSet,
    shape: Shape<'_>,
) -> Map<String, Value> {
    let mut rest = Map::new();
    for (name, value) in map {
        let step = Step::field(name);
        if gone.owns(&step) {
            continue;
        }
        let value = match gone.below(&step) {
            Some(gone) => without(value, gone, shape.field(name).shape),
            None => value.clone(),
        };
        rest.insert(name.clone(), value);
    }
    rest
}

fn remove_from_list(list: &[Value], gone: &FieldSet, elements: Elements<'_>) -> Vec<Value> {
    let mut rest = Vec::with_capacity(list.len());
    for element in list {
        let Ok(step) = elements.step(element) else {
            rest.push(element.clone());
            continue;
        };
        if gone.owns(&step) {
            continue;
        }
        rest.push(match gone.below(&step) {
            Some(gone) => without(element, gone, elements.shape),
            None => element.clone(),
        });
    }
    rest
}
