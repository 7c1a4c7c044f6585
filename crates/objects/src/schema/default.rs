//! Fills in what the schema of a custom kind states as `default`.
//!
//! A default applies when the field is absent, or null where null is not allowed. A null that is not allowed
//! and has no default is removed, so that `field: null` means "take the default, if any".

use serde_json::{Map, Value};

use super::MAX_DEPTH;
use super::graph::Node;

pub(super) fn default(node: Node<'_>, value: &mut Value) {
    walk(node, value, 0);
}

fn walk(node: Node<'_>, value: &mut Value, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::Object(fields) => fill(node, fields, depth),
        Value::Array(items) => {
            let Some(shape) = node.items() else { return };
            for item in items {
                if is_refused_null(shape, item)
                    && let Some(default) = shape.default_value()
                {
                    *item = default.clone();
                }
                walk(shape, item, depth + 1);
            }
        }
        _ => {}
    }
}

fn fill(node: Node<'_>, fields: &mut Map<String, Value>, depth: usize) {
    for (name, shape) in node.properties() {
        if let Some(default) = shape.default_value()
            && fields.get(name).is_none_or(|value| is_refused_null(shape, value))
        {
            fields.insert(name.to_owned(), default.clone());
        }
    }
    fields.retain(|name, value| {
        let Some(shape) = node.field(name) else { return true };
        if is_refused_null(shape, value) {
            match shape.default_value() {
                Some(default) => *value = default.clone(),
                None => return false,
            }
        }
        walk(shape, value, depth + 1);
        true
    });
}

fn is_refused_null(shape: Node<'_>, value: &Value) -> bool {
    value.is_null() && !shape.nullable()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::schema::{Gvk, Schema};

    #[test]
    fn defaults_fill_gaps_and_refused_nulls() {
        let schema = Schema::custom(
            Gvk::new("example.com", "v1", "Thing"),
            &json!({"type": "object", "properties": {
                "size": {"type": "integer", "default": 3},
                "maybe": {"type": "string", "nullable": true, "default": "x"},
                "plain": {"type": "string"},
                "inner": {"type": "object", "default": {}, "properties": {
                    "depth": {"type": "integer", "default": 7},
                }},
                "absent": {"type": "object", "properties": {"a": {"type": "string", "default": "b"}}},
                "list": {"type": "array", "items": {"type": "integer", "default": 1}},
                "map": {"type": "object", "additionalProperties": {"type": "string", "default": "d"}},
            }}),
        )
        .unwrap();
        let cases = [
            ("absent fields", json!({}), json!({"size": 3, "maybe": "x", "inner": {"depth": 7}})),
            (
                "null that is allowed stays",
                json!({"maybe": null}),
                json!({"size": 3, "maybe": null, "inner": {"depth": 7}}),
            ),
            (
                "null that is refused is replaced or removed",
                json!({"size": null, "plain": null, "list": [null, 2], "map": {"k": null}}),
                json!({"size": 3, "maybe": "x", "inner": {"depth": 7}, "list": [1, 2], "map": {"k": "d"}}),
            ),
            (
                "values that are there stay",
                json!({"size": 0, "maybe": "", "inner": {"depth": 1}, "absent": {}}),
                json!({"size": 0, "maybe": "", "inner": {"depth": 1}, "absent": {"a": "b"}}),
            ),
        ];
        for (name, mut value, want) in cases {
            schema.default(&mut value);
            assert_eq!(value, want, "{name}");
        }
    }
}
