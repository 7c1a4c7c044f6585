//! What the store's tests share.

use std::collections::BTreeMap;

use apiserver::store::{Collection, Event, EventKind, Key, Limits, Revision, Snapshot, Store};
use serde_json::{Value, json};

pub(crate) fn pods() -> Collection {
    Collection::new("", "pods")
}

pub(crate) fn pod(namespace: &str, name: &str) -> Key {
    Key::new(&pods(), namespace, name)
}

pub(crate) fn object(value: u64) -> Value {
    json!({ "metadata": { "labels": { "a": "b" } }, "value": value })
}

pub(crate) fn in_memory() -> Store {
    Store::in_memory(Limits::default()).unwrap()
}

/// A collection as plain data: name, revision and value of each object.
pub(crate) type Plain = BTreeMap<(String, String), (u64, u64)>;

pub(crate) fn plain(snapshot: &Snapshot) -> Plain {
    let rows: Vec<_> = snapshot.iter().collect();
    let plain: Plain = rows
        .iter()
        .map(|stored| {
            let parsed = parse(&stored.json, stored.revision);
            (name_of(&stored.key), (stored.revision.0, parsed))
        })
        .collect();
    assert_eq!(plain.len(), rows.len(), "no object is listed twice");
    plain
}

pub(crate) fn replay(plain: &mut Plain, event: &Event) {
    let name = name_of(&event.object.key);
    let revision = event.object.revision;
    let value = parse(&event.object.json, revision);
    let replaced = match event.kind {
        EventKind::Deleted => plain.remove(&name),
        EventKind::Added | EventKind::Modified => plain.insert(name, (revision.0, value)),
    };
    assert_eq!(replaced.is_none(), event.kind == EventKind::Added, "{event:?}");
    let previous = event.previous.as_ref().map(|json| {
        let value: Value = serde_json::from_slice(json).unwrap();
        let revision = value["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        (revision, value["value"].as_u64().unwrap())
    });
    assert_eq!(replaced, previous, "{event:?}");
}

fn name_of(key: &Key) -> (String, String) {
    (key.namespace.to_string(), key.name.to_string())
}

/// The value of an object whose JSON must carry its revision.
fn parse(json: &[u8], revision: Revision) -> u64 {
    let value: Value = serde_json::from_slice(json).unwrap();
    assert_eq!(value["metadata"]["resourceVersion"], revision.to_string());
    assert_eq!(value["metadata"]["labels"], json!({ "a": "b" }));
    value["value"].as_u64().unwrap()
}
