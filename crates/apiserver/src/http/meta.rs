//! How is an object's `metadata` read and changed?
//!
//! Objects in flight are plain JSON values; these functions are the only place that knows where
//! the common fields are and what they hold when absent.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::status::Status;

static NO_FIELDS: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

pub(super) fn metadata(object: &Value) -> &Map<String, Value> {
    object.get("metadata").and_then(Value::as_object).unwrap_or(&NO_FIELDS)
}

/// The metadata to be changed; an object without one gets it.
pub(super) fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let fields = object.as_object_mut().expect("it was made an object just now");
    let metadata = fields.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    metadata.as_object_mut().expect("it was made an object just now")
}

/// Refuses what is no object or whose metadata is none; `null` metadata is empty.
pub(super) fn check_shape(object: &mut Value) -> Result<(), Status> {
    if !object.is_object() {
        return Err(Status::bad_request("the object provided is not a JSON object"));
    }
    match object.get("metadata") {
        None | Some(Value::Null) => {
            metadata_mut(object);
            Ok(())
        }
        Some(Value::Object(_)) => Ok(()),
        Some(_) => Err(Status::bad_request("the object provided has metadata that is no object")),
    }
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    metadata(object).get(field).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn name(object: &Value) -> &str {
    text(object, "name")
}

pub(super) fn generate_name(object: &Value) -> &str {
    text(object, "generateName")
}

pub(super) fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

pub(super) fn uid(object: &Value) -> &str {
    text(object, "uid")
}

pub(super) fn resource_version(object: &Value) -> &str {
    text(object, "resourceVersion")
}

pub(super) fn api_version(object: &Value) -> &str {
    object.get("apiVersion").and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn kind(object: &Value) -> &str {
    object.get("kind").and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn is_deleting(object: &Value) -> bool {
    metadata(object).get("deletionTimestamp").is_some_and(|value| !value.is_null())
}

pub(super) fn grace_period(object: &Value) -> Option<i64> {
    metadata(object).get("deletionGracePeriodSeconds").and_then(Value::as_i64)
}

pub(super) fn generation(object: &Value) -> i64 {
    metadata(object).get("generation").and_then(Value::as_i64).unwrap_or(0)
}

pub(super) fn finalizers(object: &Value) -> Vec<&str> {
    let list = metadata(object).get("finalizers").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

pub(super) fn set_finalizers(object: &mut Value, finalizers: &[String]) {
    let metadata = metadata_mut(object);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), finalizers.into());
    }
}

pub(super) fn set(object: &mut Value, field: &str, value: impl Into<Value>) {
    metadata_mut(object).insert(field.to_owned(), value.into());
}

pub(super) fn unset(object: &mut Value, field: &str) {
    metadata_mut(object).remove(field);
}

/// Takes a metadata field from another object, absence included.
pub(super) fn copy(object: &mut Value, field: &str, from: &Value) {
    match metadata(from).get(field) {
        Some(value) => set(object, field, value.clone()),
        None => unset(object, field),
    }
}

pub(super) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    metadata(object).get("annotations")?.get(key)?.as_str()
}

/// Takes a top-level field from another object, absence included.
pub(super) fn copy_part(object: &mut Value, field: &str, from: &Value) {
    let Some(fields) = object.as_object_mut() else { return };
    match from.get(field) {
        Some(value) => {
            fields.insert(field.to_owned(), value.clone());
        }
        None => {
            fields.remove(field);
        }
    }
}
