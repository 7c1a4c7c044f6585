//! The order of merged lists.
//!
//! Elements that the patch orders stand in the order of the patch, the rest in the order of the live list.
//! The two are woven so that an element of the rest comes before an ordered one only where it did so in the
//! live list. An ordered element that is new therefore comes at once: without `$setElementOrder` a patch
//! that adds a container adds it in front.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::super::PatchError;
use super::super::go_text::{plain, type_name};
use super::lists::{self, Facts, key_of, keys};
use super::{DIRECTIVE, SET_ORDER, without_directives};
use crate::apply::Literal;
use crate::schema::Node;

/// Sorts elements, given with their keys, by the order of the patch and of the live list.
pub(super) fn arrange(
    elements: Vec<(Literal, Value)>,
    wanted: &[Literal],
    live: &[Literal],
) -> Vec<Value> {
    let (wanted, live) = (ranks(wanted), ranks(live));
    let (mut ordered, mut rest): (Vec<_>, Vec<_>) =
        elements.into_iter().partition(|(key, _)| wanted.contains_key(key));
    ordered.sort_by_key(|(key, _)| wanted.get(key));
    rest.sort_by_key(|(key, _)| live.get(key));

    let mut arranged = Vec::with_capacity(ordered.len() + rest.len());
    let mut rest = rest.into_iter().peekable();
    for (key, element) in ordered {
        let place = live.get(&key);
        while let Some((_, element)) = rest.next_if(|(other, _)| {
            matches!((live.get(other), place), (Some(other), Some(place)) if other < place)
        }) {
            arranged.push(element);
        }
        arranged.push(element);
    }
    arranged.extend(rest.map(|(_, element)| element));
    arranged
}

fn ranks(keys: &[Literal]) -> BTreeMap<&Literal, usize> {
    let mut ranks = BTreeMap::new();
    for (rank, key) in keys.iter().enumerate() {
        ranks.entry(key).or_insert(rank);
    }
    ranks
}

/// Merges the list `name` and puts it into the order that `$setElementOrder/name` gives. Returns false when
/// neither the object nor the patch has the list.
pub(super) fn set(
    original: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    name: &str,
    order: &Value,
    field: Option<Node<'_>>,
) -> Result<bool, PatchError> {
    let order = list(order)?;
    let live = original.get(name).map(list).transpose()?;
    let change = patch.get(name).map(list).transpose()?;
    let key = Facts::of(field).key;
    check_order(change.unwrap_or_default(), order, key)?;
    let merged = match (live, change) {
        (None, None) => return Ok(false),
        (Some(live), None) => live.to_vec(),
        (None, Some(change)) => change.iter().filter_map(without_directives).collect(),
        (Some(live), Some(change)) => lists::merge(live.to_vec(), change, field)?,
    };
    let live = live.unwrap_or_default();
    lists::of_maps(live, change.unwrap_or_default())?;
    let arranged = match key {
        Some(key) => {
            let wanted: Vec<Literal> =
                order.iter().filter_map(|element| element.get(key).cloned().map(Literal)).collect();
            let elements = keys(&merged, key)?.into_iter().zip(merged).collect();
            let live: Vec<Literal> =
                live.iter().filter_map(|element| element.get(key).cloned().map(Literal)).collect();
            arrange(elements, &wanted, &live)
        }
        None => {
            let literals =
                |list: &[Value]| -> Vec<Literal> { list.iter().cloned().map(Literal).collect() };
            let elements = literals(&merged).into_iter().zip(merged).collect();
            arrange(elements, &literals(order), &literals(live))
        }
    };
    original.insert(name.to_owned(), Value::Array(arranged));
    Ok(true)
}

fn list(value: &Value) -> Result<&[Value], PatchError> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| {
        let kind = if value.is_null() { "%!s(<nil>)" } else { type_name(value) };
        PatchError::Other(format!("expected a []interface {{}}, but received a {kind}"))
    })
}

/// The elements of the patch must appear in the ordering list, in the same relative order.
fn check_order(change: &[Value], order: &[Value], key: Option<&str>) -> Result<(), PatchError> {
    if change.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut left = order.iter();
    for element in change.iter().filter(|element| element.get(DIRECTIVE).is_none()) {
        let mut found = false;
        for ordered in left.by_ref() {
            let equal = match key {
                None => Literal(element.clone()) == Literal(ordered.clone()),
                Some(key) => key_of(element, key)? == key_of(ordered, key)?,
            };
            if equal {
                found = true;
                break;
            }
        }
        if !found {
            let (change, order) = (Value::Array(change.to_vec()), Value::Array(order.to_vec()));
            return Err(PatchError::Other(format!(
                "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
                plain(&change),
                plain(&order)
            )));
        }
    }
    Ok(())
}
