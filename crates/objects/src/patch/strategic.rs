//! Strategic merge patch: a merge patch that knows which lists merge, and by which key.
//!
//! Maps merge and null removes, as in a merge patch. Beyond that the schema and directives in the patch say
//! what happens:
//!
//! | directive | where | effect |
//! |---|---|---|
//! | `$patch: replace` | map | the rest of the map replaces the original |
//! | `$patch: delete` | map | the map becomes empty |
//! | `$patch: delete` | list element | elements with its key go |
//! | `$patch: replace` | list element | the other elements replace the list |
//! | `$retainKeys: [..]` | map | all other fields go |
//! | `$deleteFromPrimitiveList/x: [..]` | beside list `x` | these values go from the list |
//! | `$setElementOrder/x: [..]` | beside list `x` | these elements stand in this order |
//!
//! Only built-in kinds know their merge keys, so custom ones cannot be patched this way.

mod lists;
mod order;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::PatchError;
use super::go_text::{json_kind, plain};
use super::merge::without_nulls;
use crate::schema::{Node, Origin, Schema};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// The object after a strategic merge patch.
pub fn strategic(object: &Value, patch: &Value, schema: &Schema) -> Result<Value, PatchError> {
    if schema.origin() == Origin::Custom {
        return Err(PatchError::UnsupportedMediaType);
    }
    let patch = match patch {
        Value::Object(patch) => patch,
        Value::Null => return Ok(object.clone()),
        other => {
            let kind = json_kind(other);
            return Err(PatchError::BadRequest(format!(
                "json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
            )));
        }
    };
    let object = object.as_object().cloned().unwrap_or_default();
    merge_maps(object, patch, Some(schema.root())).map(Value::Object)
}

fn merge_maps(
    mut original: Map<String, Value>,
    patch: &Map<String, Value>,
    node: Option<Node<'_>>,
) -> Result<Map<String, Value>, PatchError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return follow_directive(directive, patch);
    }
    retain_keys(&mut original, patch)?;
    let mut done: BTreeSet<&str> = BTreeSet::new();
    for (key, order) in patch.iter().filter(|(key, _)| key.starts_with(SET_ORDER)) {
        let name = name_in(key, SET_ORDER, "invalid patch format of setElementOrder list")?;
        let field = node.and_then(|node| node.field(name));
        if order::set(&mut original, patch, name, order, field)? {
            done.insert(name);
        }
    }
    let is_field = |key: &str| {
        key != RETAIN_KEYS
            && !key.starts_with(SET_ORDER)
            && !key.starts_with(DELETE_FROM)
            && !done.contains(key)
    };
    for (name, value) in patch.iter().filter(|(key, _)| is_field(key)) {
        merge_field(&mut original, name, value, node.and_then(|node| node.field(name)))?;
    }
    for (key, values) in patch.iter().filter(|(key, _)| key.starts_with(DELETE_FROM)) {
        let name = name_in(key, DELETE_FROM, "invalid patch format of primitive list")?;
        let field = node.and_then(|node| node.field(name));
        match (original.get_mut(name), values) {
            (Some(_), Value::Null) => {
                original.remove(name);
            }
            (Some(Value::Array(list)), Value::Array(values)) => {
                *list = lists::delete(std::mem::take(list), values, field)?;
            }
            _ => {}
        }
    }
    Ok(original)
}

fn merge_field(
    original: &mut Map<String, Value>,
    name: &str,
    value: &Value,
    field: Option<Node<'_>>,
) -> Result<(), PatchError> {
    let replace = field.and_then(Node::patch).is_some_and(|facts| facts.replace);
    let merged = match (original.get_mut(name), value) {
        (_, Value::Null) => None,
        (Some(Value::Object(_)), Value::Object(_)) if replace => Some(without_nulls(value)),
        (Some(Value::Object(before)), Value::Object(patch)) => {
            let before = std::mem::take(before);
            Some(Value::Object(merge_maps(before, patch, field)?))
        }
        (Some(Value::Array(before)), Value::Array(patch)) => {
            let before = std::mem::take(before);
            Some(Value::Array(lists::merge(before, patch, field)?))
        }
        _ => without_directives(value),
    };
    match merged {
        Some(merged) => original.insert(name.to_owned(), merged),
        None => original.remove(name),
    };
    Ok(())
}

/// A map that says itself what should become of it.
fn follow_directive(
    directive: &Value,
    patch: &Map<String, Value>,
) -> Result<Map<String, Value>, PatchError> {
    match directive.as_str() {
        Some("replace") => {
            let fields =
                patch.iter().filter(|(name, value)| *name != DIRECTIVE && !value.is_null());
            Ok(fields.map(|(name, value)| (name.clone(), without_nulls(value))).collect())
        }
        Some("delete") => Ok(Map::new()),
        _ => Err(unknown_directive(directive, patch)),
    }
}

fn unknown_directive(directive: &Value, patch: &Map<String, Value>) -> PatchError {
    let (directive, patch) = (plain(directive), plain(&Value::Object(patch.clone())));
    PatchError::Other(format!("unknown patch type: {directive} in map: {patch}"))
}

fn retain_keys(
    original: &mut Map<String, Value>,
    patch: &Map<String, Value>,
) -> Result<(), PatchError> {
    let Some(keys) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let bad = || PatchError::BadRequest("invalid patch format of retainKeys".to_owned());
    let keys: BTreeSet<&str> =
        keys.as_array().ok_or_else(bad)?.iter().filter_map(Value::as_str).collect();
    let misses = |name: &str, value: &Value| {
        let directive =
            name == RETAIN_KEYS || name.starts_with(DELETE_FROM) || name.starts_with(SET_ORDER);
        !directive && !value.is_null() && !keys.contains(name)
    };
    if patch.iter().any(|(name, value)| misses(name, value)) {
        return Err(bad());
    }
    original.retain(|name, _| keys.contains(name.as_str()));
    Ok(())
}

/// The list that a directive such as `$setElementOrder/containers` is about.
fn name_in<'k>(key: &'k str, directive: &str, problem: &str) -> Result<&'k str, PatchError> {
    match key.split_once('/') {
        Some((prefix, name)) if prefix == directive => Ok(name),
        _ => Err(PatchError::BadRequest(problem.to_owned())),
    }
}

/// A value that has nothing to merge with: maps with a directive are not content, nor are nulls.
fn without_directives(value: &Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            let kept = kept.filter_map(|(name, value)| {
                without_directives(value).map(|value| (name.clone(), value))
            });
            Some(Value::Object(kept.collect()))
        }
        Value::Array(list) => {
            Some(Value::Array(list.iter().filter_map(without_directives).collect()))
        }
        scalar => Some(scalar.clone()),
    }
}

#[cfg(test)]
mod tests;
