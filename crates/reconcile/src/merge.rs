//! Which merge patch turns one value into another?
//!
//! Controllers compute the object they want from the object they saw and send the difference. No
//! difference, no write.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::key::ObjectVersion;

/// The JSON merge patch from `before` to `after`; `None` when they are equal.
pub fn diff(before: &Value, after: &Value) -> Option<Value> {
    if before == after {
        return None;
    }
    let (Value::Object(before), Value::Object(after)) = (before, after) else {
        return Some(after.clone());
    };
    let mut patch = Map::new();
    for (field, new) in after {
        let change = match before.get(field) {
            Some(old) => diff(old, new),
            None => Some(new.clone()),
        };
        if let Some(change) = change {
            patch.insert(field.clone(), change);
        }
    }
    for field in before.keys().filter(|field| !after.contains_key(*field)) {
        patch.insert(field.clone(), Value::Null);
    }
    Some(Value::Object(patch))
}

/// The patch for the status of the object that was seen; `None` when nothing changes.
pub fn status<S: Serialize>(seen: &ObjectVersion, before: Option<&S>, after: &S) -> Option<Value> {
    let before = before.map_or_else(|| json!({}), value);
    let change = diff(&before, &value(after))?;
    Some(json!({ "metadata": precondition(seen), "status": change }))
}

/// The patch between two versions of an object that was seen; `None` when nothing changes.
pub fn object<K: Serialize>(seen: &ObjectVersion, before: &K, after: &K) -> Option<Value> {
    let mut change = diff(&value(before), &value(after))?;
    let fields = change.as_object_mut()?;
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    metadata.as_object_mut()?.extend(precondition(seen));
    Some(change)
}

/// What makes the server refuse the patch when the object is not the one that was seen.
pub fn precondition(seen: &ObjectVersion) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("uid".into(), seen.uid.clone().into());
    fields.insert("resourceVersion".into(), seen.version.clone().into());
    fields
}

fn value(object: &impl Serialize) -> Value {
    // Kubernetes types have string keys and no foreign numbers, so this cannot fail; null would
    // at worst be refused by the server.
    serde_json::to_value(object).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn apply(target: &Value, patch: &Value) -> Value {
        let Value::Object(patch) = patch else { return patch.clone() };
        let mut object = target.as_object().cloned().unwrap_or_default();
        for (field, change) in patch {
            if change.is_null() {
                object.remove(field);
            } else {
                let old = object.get(field).cloned().unwrap_or_default();
                object.insert(field.clone(), apply(&old, change));
            }
        }
        Value::Object(object)
    }

    #[test]
    fn only_what_differs_is_sent() {
        let cases = [
            ("equal", json!({"a": 1}), json!({"a": 1}), None),
            ("changed", json!({"a": 1, "b": 2}), json!({"a": 1, "b": 3}), Some(json!({"b": 3}))),
            ("removed", json!({"a": 1, "b": 2}), json!({"a": 1}), Some(json!({"b": null}))),
            (
                "nested",
                json!({"a": {"x": 1, "y": 2}}),
                json!({"a": {"x": 1, "y": 3}}),
                Some(json!({"a": {"y": 3}})),
            ),
            ("list", json!({"a": [1, 2]}), json!({"a": [1]}), Some(json!({"a": [1]}))),
        ];
        for (name, before, after, want) in cases {
            assert_eq!(diff(&before, &after), want, "{name}");
        }
    }

    #[test]
    fn a_patch_names_the_object_it_was_made_for() {
        let seen = ObjectVersion {
            key: crate::key::Key::new("a", "b"),
            uid: "u".into(),
            version: "7".into(),
        };
        let patch = status(&seen, Some(&json!({"x": 1})), &json!({"x": 2}));
        let want = json!({"metadata": {"uid": "u", "resourceVersion": "7"}, "status": {"x": 2}});
        assert_eq!(patch, Some(want));
        assert_eq!(status(&seen, Some(&json!({"x": 1})), &json!({"x": 1})), None);
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![any::<bool>().prop_map(Value::from), (0..5i64).prop_map(Value::from)];
        leaf.prop_recursive(3, 16, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[abc]", inner, 0..3)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// A merge patch made from two objects turns the first into the second.
        #[test]
        fn applying_the_difference_gives_the_other(
            before in prop::collection::btree_map("[abc]", json_value(), 0..4),
            after in prop::collection::btree_map("[abc]", json_value(), 0..4),
        ) {
            let before = Value::Object(before.into_iter().collect());
            let after = Value::Object(after.into_iter().collect());
            match diff(&before, &after) {
                None => prop_assert_eq!(before, after),
                Some(patch) => prop_assert_eq!(apply(&before, &patch), after),
            }
        }
    }
}
