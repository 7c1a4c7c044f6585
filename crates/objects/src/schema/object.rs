//! Reading and filling the fields of a [`Value`] the way Go sees them.
//!
//! Go does not tell an absent string from an empty one, nor an absent list from an empty one. These
//! functions do not either: checks and defaults read like the rules they implement.

use serde_json::{Map, Value};

static NULL: Value = Value::Null;

/// A field, null when absent.
pub(super) fn get<'a>(value: &'a Value, field: &str) -> &'a Value {
    value.get(field).unwrap_or(&NULL)
}

/// A string field, empty when absent.
pub(super) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// An integer field.
pub(super) fn int(value: &Value, field: &str) -> Option<i64> {
    value.get(field).and_then(Value::as_i64)
}

/// A boolean field, false when absent.
pub(super) fn flag(value: &Value, field: &str) -> bool {
    value.get(field).and_then(Value::as_bool).unwrap_or_default()
}

/// A list field, empty when absent.
pub(super) fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The entries of a map field.
pub(super) fn entries<'a>(
    value: &'a Value,
    field: &str,
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    value.get(field).and_then(Value::as_object).into_iter().flatten()
}

/// True when the field is there and not null.
pub(super) fn has(value: &Value, field: &str) -> bool {
    value.get(field).is_some_and(|value| !value.is_null())
}

/// Sets a field that is absent or null.
pub(super) fn fill(value: &mut Value, field: &str, default: impl Into<Value>) {
    let Some(fields) = value.as_object_mut() else { return };
    if fields.get(field).is_none_or(Value::is_null) {
        fields.insert(field.to_owned(), default.into());
    }
}

/// Sets a string field that is absent or empty.
pub(super) fn fill_text(value: &mut Value, field: &str, default: &str) {
    if value.get(field).is_none_or(|value| value.is_null() || value == "") {
        put(value, field, default);
    }
}

/// Sets a number field that is absent or zero.
pub(super) fn fill_number(value: &mut Value, field: &str, default: i64) {
    if value.get(field).is_none_or(|value| value.is_null() || value == 0) {
        put(value, field, default);
    }
}

/// Sets a field.
pub(super) fn put(value: &mut Value, field: &str, new: impl Into<Value>) {
    if let Some(fields) = value.as_object_mut() {
        fields.insert(field.to_owned(), new.into());
    }
}

/// An object field to change, created empty when absent; `None` when something else is there.
pub(super) fn open<'a>(value: &'a mut Value, field: &str) -> Option<&'a mut Value> {
    fill(value, field, Map::new());
    value.get_mut(field).filter(|value| value.is_object())
}

/// An object field to change, if it is there.
pub(super) fn child<'a>(value: &'a mut Value, field: &str) -> Option<&'a mut Value> {
    value.get_mut(field).filter(|value| value.is_object())
}

/// Calls `change` with each element of a list field.
pub(super) fn each(value: &mut Value, field: &str, change: impl FnMut(&mut Value)) {
    if let Some(items) = value.get_mut(field).and_then(Value::as_array_mut) {
        items.iter_mut().for_each(change);
    }
}
