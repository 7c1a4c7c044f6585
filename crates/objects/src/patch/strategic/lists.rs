//! Merging lists by key or by value.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::PatchError;
use super::super::go_text::{plain, type_name};
use super::super::merge::without_nulls;
use super::{DIRECTIVE, merge_maps, order, unknown_directive};
use crate::apply::Literal;
use crate::schema::{Node, Patch};

/// What merging lists needs to know about the field.
pub(super) struct Facts<'n> {
    pub(super) merge: bool,
    pub(super) key: Option<&'n str>,
    items: Option<Node<'n>>,
}

impl<'n> Facts<'n> {
    pub(super) fn of(field: Option<Node<'n>>) -> Self {
        let patch: Option<&'n Patch> = field.and_then(Node::patch);
        Self {
            merge: patch.is_some_and(|patch| patch.merge),
            key: patch.and_then(|patch| patch.merge_key.as_deref()).filter(|key| !key.is_empty()),
            items: field.and_then(Node::items),
        }
    }
}

/// The list after the patch.
pub(super) fn merge(
    original: Vec<Value>,
    patch: &[Value],
    field: Option<Node<'_>>,
) -> Result<Vec<Value>, PatchError> {
    let facts = Facts::of(field);
    if !facts.merge {
        return Ok(patch.iter().map(without_nulls).collect());
    }
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    if of_maps(&original, patch)? {
        merge_keyed(original, patch, &facts)
    } else {
        Ok(merge_scalars(original, patch))
    }
}

/// The list without these values. On a list that does not merge the reference takes the values for the new
/// list, and so do we.
pub(super) fn delete(
    original: Vec<Value>,
    values: &[Value],
    field: Option<Node<'_>>,
) -> Result<Vec<Value>, PatchError> {
    let facts = Facts::of(field);
    if !facts.merge || (original.is_empty() && values.is_empty()) || of_maps(&original, values)? {
        return merge(original, values, field);
    }
    let values: BTreeSet<Literal> = values.iter().cloned().map(Literal).collect();
    Ok(original.into_iter().filter(|value| !values.contains(&Literal(value.clone()))).collect())
}

/// Whether elements are maps; all must be of one kind.
pub(super) fn of_maps(original: &[Value], patch: &[Value]) -> Result<bool, PatchError> {
    let mut kinds = original.iter().chain(patch).map(type_name);
    let Some(first) = kinds.next() else {
        return Err(PatchError::Other("no elements in any of the given slices".to_owned()));
    };
    if original.iter().chain(patch).next().is_some_and(Value::is_array) {
        return Err(PatchError::Unprocessable("lists of lists are not supported".to_owned()));
    }
    if kinds.any(|kind| kind != first) {
        let lists = Value::Array(vec![original.to_vec().into(), patch.to_vec().into()]);
        let lists = plain(&lists);
        return Err(PatchError::Other(format!("list element types are not identical: {lists}")));
    }
    Ok(original.iter().chain(patch).next().is_some_and(Value::is_object))
}

fn merge_scalars(original: Vec<Value>, patch: &[Value]) -> Vec<Value> {
    let literals = |list: &[Value]| -> Vec<Literal> { list.iter().cloned().map(Literal).collect() };
    let (before, wanted) = (literals(&original), literals(patch));
    let mut seen = BTreeSet::new();
    let all = before.iter().chain(&wanted).filter(|value| seen.insert(*value));
    let all = all.map(|value| (value.clone(), value.0.clone())).collect();
    order::arrange(all, &wanted, &before)
}

fn merge_keyed(
    mut original: Vec<Value>,
    patch: &[Value],
    facts: &Facts<'_>,
) -> Result<Vec<Value>, PatchError> {
    let Some(key) = facts.key else {
        let problem = "cannot merge lists without merge key for type struct";
        return Err(PatchError::Other(problem.to_owned()));
    };
    let Plan { content, deleted, replace } = plan(patch, key)?;
    if replace {
        let fresh: Vec<Value> = content.into_iter().map(without_nulls).collect();
        let order = keys(&fresh, key)?;
        return Ok(order::arrange(order.iter().cloned().zip(fresh).collect(), &[], &order));
    }
    if !deleted.is_empty() {
        original.retain(|element| {
            element.get(key).is_none_or(|value| !deleted.contains(&Literal(value.clone())))
        });
    }
    let before = keys(&original, key)?;
    let mut places: BTreeMap<Literal, usize> = BTreeMap::new();
    for (at, literal) in before.iter().enumerate() {
        places.entry(literal.clone()).or_insert(at);
    }
    let mut merged: Vec<(Literal, Value)> = before.iter().cloned().zip(original).collect();
    let mut wanted = Vec::with_capacity(content.len());
    for element in content {
        let literal = key_of(element, key)?;
        wanted.push(literal.clone());
        let place = places.get(&literal).and_then(|at| merged.get_mut(*at));
        match (place, element) {
            (Some((_, Value::Object(below))), Value::Object(patch)) => {
                *below = merge_maps(std::mem::take(below), patch, facts.items)?;
            }
            // A new element is taken as it is; directives inside it are left to the check for unknown fields.
            _ => {
                places.insert(literal.clone(), merged.len());
                merged.push((literal, without_nulls(element)));
            }
        }
    }
    Ok(order::arrange(merged, &wanted, &before))
}

/// What the elements of a patch list ask for.
struct Plan<'p> {
    content: Vec<&'p Value>,
    deleted: BTreeSet<Literal>,
    replace: bool,
}

fn plan<'p>(patch: &'p [Value], key: &str) -> Result<Plan<'p>, PatchError> {
    let mut plan = Plan { content: Vec::new(), deleted: BTreeSet::new(), replace: false };
    for element in patch {
        let Some(directive) = element.get(DIRECTIVE) else {
            plan.content.push(element);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                plan.deleted.insert(key_of(element, key)?);
            }
            Some("replace") => plan.replace = true,
            Some("merge") => {
                let problem = "merging lists cannot yet be specified in the patch";
                return Err(PatchError::Other(problem.to_owned()));
            }
            _ => {
                let map = element.as_object().cloned().unwrap_or_default();
                return Err(unknown_directive(directive, &map));
            }
        }
    }
    Ok(plan)
}

/// The value of the merge key of an element.
pub(super) fn key_of(element: &Value, key: &str) -> Result<Literal, PatchError> {
    match element.get(key) {
        Some(value) => Ok(Literal(value.clone())),
        None => {
            let map = plain(element);
            let problem = format!("map: {map} does not contain declared merge key: {key}");
            Err(PatchError::Other(problem))
        }
    }
}

pub(super) fn keys(list: &[Value], key: &str) -> Result<Vec<Literal>, PatchError> {
    list.iter().map(|element| key_of(element, key)).collect()
}
