//! JSON merge patch.
//!
//! RFC 7396 with one addition of the reference: nulls in objects inside lists are dropped too, except where
//! the list replaces a map.

use serde_json::{Map, Value};

use super::PatchError;
use super::go_text::json_kind;

/// The object after a merge patch.
pub fn merge(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    let patch = match patch {
        Value::Object(patch) => patch,
        Value::Null => return Err(PatchError::BadRequest("Invalid JSON Patch".to_owned())),
        other => {
            let kind = json_kind(other);
            return Err(PatchError::BadRequest(format!(
                "error decoding patch: json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
            )));
        }
    };
    let object = match object {
        Value::Object(object) => object.clone(),
        _ => Map::new(),
    };
    Ok(Value::Object(merge_maps(object, patch)))
}

fn merge_maps(mut target: Map<String, Value>, patch: &Map<String, Value>) -> Map<String, Value> {
    for (name, value) in patch {
        if value.is_null() {
            target.remove(name);
            continue;
        }
        let merged = match (target.remove(name), value) {
            (Some(Value::Object(target)), Value::Object(patch)) => {
                Value::Object(merge_maps(target, patch))
            }
            // Where something else takes the place of a map the reference looks no further.
            (Some(Value::Object(_)), value) => value.clone(),
            (_, value) => without_nulls(value),
        };
        target.insert(name.clone(), merged);
    }
    target
}

/// A copy without null fields at any depth; null elements of lists stay.
pub(super) fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name.clone(), without_nulls(value))).collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(without_nulls).collect()),
        scalar => scalar.clone(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::patch::any_json;

    #[test]
    fn a_merge_patch_adds_replaces_and_removes() {
        let cases = [
            ("a value is replaced", json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            ("a field is added", json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            ("null removes", json!({"a": "b"}), json!({"a": null}), json!({})),
            ("null leaves the rest", json!({"a": 1, "b": 2}), json!({"a": null}), json!({"b": 2})),
            ("null removes nothing", json!({"b": 2}), json!({"a": null}), json!({"b": 2})),
            (
                "a list is replaced",
                json!({"a": ["b"]}),
                json!({"a": ["c", "d"]}),
                json!({"a": ["c", "d"]}),
            ),
            (
                "a scalar becomes a list",
                json!({"a": "c"}),
                json!({"a": ["b"]}),
                json!({"a": ["b"]}),
            ),
            ("a list becomes a scalar", json!({"a": ["c"]}), json!({"a": "b"}), json!({"a": "b"})),
            (
                "maps merge",
                json!({"a": {"b": 1}}),
                json!({"a": {"c": 2}}),
                json!({"a": {"b": 1, "c": 2}}),
            ),
            (
                "null inside a map",
                json!({"a": {"b": 1, "c": 2}}),
                json!({"a": {"b": null}}),
                json!({"a": {"c": 2}}),
            ),
            (
                "nulls of a new map vanish",
                json!({}),
                json!({"a": {"bb": {"ccc": null}}}),
                json!({"a": {"bb": {}}}),
            ),
            (
                "a map replaces a list",
                json!({"a": [1]}),
                json!({"a": {"b": null}}),
                json!({"a": {}}),
            ),
            ("nulls in lists stay", json!({}), json!({"a": [null, 1]}), json!({"a": [null, 1]})),
            (
                "unless the list replaces a map",
                json!({"a": {"x": 1}}),
                json!({"a": [{"b": null}]}),
                json!({"a": [{"b": null}]}),
            ),
            (
                "nulls of objects in lists vanish",
                json!({}),
                json!({"a": [{"b": null, "c": 1}]}),
                json!({"a": [{"c": 1}]}),
            ),
            ("the empty patch changes nothing", json!({"a": 1}), json!({}), json!({"a": 1})),
        ];
        for (name, object, patch, want) in cases {
            assert_eq!(merge(&object, &patch), Ok(want), "{name}");
        }
    }

    #[test]
    fn only_an_object_is_a_merge_patch() {
        let misfit = "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}";
        for (patch, said) in [(json!(null), "Invalid JSON Patch"), (json!([1]), misfit)] {
            let error = merge(&json!({"a": 1}), &patch).unwrap_err();
            assert_eq!((error.code(), error.message().as_str()), (400, said));
        }
        for patch in [json!("a"), json!(1), json!(true)] {
            assert_eq!(merge(&json!({"a": 1}), &patch).unwrap_err().code(), 400);
        }
    }

    proptest! {
        /// Patching twice is patching once, up to the nulls that a list may bring where a map was.
        #[test]
        fn a_merge_patch_is_idempotent(object in any_json(), patch in any_json()) {
            if let Ok(once) = merge(&object, &patch) {
                let twice = merge(&once, &patch).unwrap();
                prop_assert_eq!(without_nulls(&twice), without_nulls(&once));
            }
        }
    }
}
