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

    // Taking a list element out takes everything inside it, also what others own: put that back. On the way
    // a container that loses everything becomes null, which is a trace of it even if it is a list.
    let draft = Remover { empty_becomes_null: true };
    let bare = draft.without(merged, &last, shape);
    let gone = all.difference(&set_of(&bare).union(&owned));
    let kept = draft.without(merged, &gone, shape);
    // Putting owned fields back left out what nobody owns beside them: only fields of `last` may go.
    let gone = all.difference(&set_of(&kept)).intersection(&last);
    Remover { empty_becomes_null: false }.without(merged, &gone, shape)
}

#[derive(Clone, Copy)]
struct Remover {
    empty_becomes_null: bool,
}

impl Remover {
    /// The value without these fields.
    fn without(self, value: &Value, gone: &FieldSet, shape: Shape<'_>) -> Value {
        let (rest, is_empty) = match (shape.form(value), value) {
            (Form::Map(shape), Value::Object(map)) => {
                let map = self.remove_from_map(map, gone, shape);
                let is_empty = map.is_empty();
                (Value::Object(map), is_empty)
            }
            (Form::List(elements), Value::Array(list)) => {
                let list = self.remove_from_list(list, gone, elements);
                let is_empty = list.is_empty();
                (Value::Array(list), is_empty)
            }
            _ => (value.clone(), false),
        };
        if is_empty && self.empty_becomes_null { Value::Null } else { rest }
    }

    fn remove_from_map(
        self,
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
                Some(gone) => self.without(value, gone, shape.field(name).shape),
                None => value.clone(),
            };
            rest.insert(name.clone(), value);
        }
        rest
    }

    fn remove_from_list(
        self,
        list: &[Value],
        gone: &FieldSet,
        elements: Elements<'_>,
    ) -> Vec<Value> {
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
                Some(gone) => self.without(element, gone, elements.shape),
                None => element.clone(),
            });
        }
        rest
    }
}
