//! Elements of lists: which are the same, and which appear twice.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::MAX_DEPTH;
use super::cause::{Causes, Path};
use super::graph::{ListKind, Node};

/// Finds for each element of a new list its counterpart in the old one. Only lists of type map have an
/// answer; elements of other lists have no identity beyond their value.
pub(super) struct Correlation<'a> {
    keys: &'a [Box<str>],
    old: HashMap<String, &'a Value>,
}

impl<'a> Correlation<'a> {
    pub(super) fn new(node: Node<'a>, old: Option<&'a Value>) -> Self {
        let ListKind::Map { keys } = node.list_kind() else {
            return Self { keys: &[], old: HashMap::new() };
        };
        let items = old.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let old = items.iter().map(|item| (identity(item, keys), item)).collect();
        Self { keys, old }
    }

    pub(super) fn old_of(&self, item: &Value) -> Option<&'a Value> {
        if self.old.is_empty() {
            return None;
        }
        self.old.get(&identity(item, self.keys)).copied()
    }
}

/// Key fields of an element as text; absent keys count as null.
fn identity(item: &Value, keys: &[Box<str>]) -> String {
    let mut text = String::new();
    for key in keys {
        text.push_str(&item.get(key.as_ref()).unwrap_or(&Value::Null).to_string());
        text.push('\0');
    }
    text
}

/// Reports elements that appear twice in lists of type set or map.
pub(super) fn check_unique(node: Node<'_>, value: &Value, causes: &mut Causes) {
    walk(node, value, &Path::ROOT, 0, causes);
}

fn walk(node: Node<'_>, value: &Value, path: &Path<'_>, depth: usize, causes: &mut Causes) {
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(field) = node.field(name) {
                    walk(field, value, &path.field(name), depth + 1, causes);
                }
            }
        }
        Value::Array(items) => {
            match node.list_kind() {
                ListKind::Atomic => {}
                ListKind::Set => set(items, path, causes),
                ListKind::Map { keys } => map(items, keys, path, causes),
            }
            let Some(shape) = node.items() else { return };
            for (index, item) in items.iter().enumerate() {
                walk(shape, item, &path.index(index), depth + 1, causes);
            }
        }
        _ => {}
    }
}

fn set(items: &[Value], path: &Path<'_>, causes: &mut Causes) {
    let mut seen = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        if !seen.insert(item.to_string()) {
            causes.duplicate(&path.index(index), item);
        }
    }
}

fn map(items: &[Value], keys: &[Box<str>], path: &Path<'_>, causes: &mut Causes) {
    let mut seen = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        let Some(fields) = item.as_object() else { continue };
        if !seen.insert(identity(item, keys)) {
            let present: Map<String, Value> = keys
                .iter()
                .filter_map(|key| Some((key.to_string(), fields.get(key.as_ref())?.clone())))
                .collect();
            causes.duplicate(&path.index(index), &Value::Object(present));
        }
    }
}
