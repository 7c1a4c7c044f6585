//! The form in which a built-in object is stored.
//!
//! kube-apiserver decodes into Go structures and encodes again, which changes the text: null disappears, so
//! do empty lists and maps of optional fields, and quantities become canonical (`0.5` is `500m`).

use serde_json::Value;
use units::Quantity;

use crate::schema::MAX_DEPTH;
use crate::schema::format::Format;
use crate::schema::graph::{Node, Type};

pub(in crate::schema) fn normalize(node: Node<'_>, value: &mut Value) {
    walk(node, value, 0);
}

fn walk(node: Node<'_>, value: &mut Value, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    let data = node.data();
    if data.format == Format::Quantity {
        canonical(value);
        return;
    }
    match value {
        Value::Object(fields) => {
            let is_map = node.is_map();
            fields.retain(|name, value| {
                let Some(field) = node.field(name) else { return true };
                if value.is_null() {
                    // A null in a map of strings is an empty string in Go.
                    let is_text = is_map && field.kind() == Type::String;
                    if is_text {
                        *value = Value::String(String::new());
                    }
                    return is_text || field.data().preserve_unknown;
                }
                walk(field, value, depth + 1);
                is_map
                    || !is_empty_collection(field, value)
                    || data.required.iter().any(|r| **r == **name)
            });
        }
        Value::Array(items) => {
            if let Some(shape) = node.items() {
                items.iter_mut().for_each(|item| walk(shape, item, depth + 1));
            }
        }
        _ => {}
    }
}

fn is_empty_collection(node: Node<'_>, value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty() && node.kind() == Type::Array,
        Value::Object(fields) => fields.is_empty() && node.is_map(),
        _ => false,
    }
}

fn canonical(value: &mut Value) {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return,
    };
    if let Ok(canonical) = Quantity::wire_text(&text) {
        *value = Value::String(canonical.into_owned());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::Gvk;
    use crate::schema::built_in::Schemas;

    #[test]
    fn objects_are_stored_as_go_would_write_them() {
        let pod = Schemas::built_in().get(&Gvk::new("", "v1", "Pod")).unwrap();
        let mut object = json!({
            "metadata": {"name": "a", "creationTimestamp": null, "labels": {}, "annotations": {"a": null}},
            "spec": {
                "containers": [{
                    "name": "c", "args": [], "env": null,
                    "resources": {"limits": {"cpu": 0.5, "memory": "1024Mi"}, "requests": {}},
                }],
                "volumes": [{"name": "v", "emptyDir": {}}],
                "nodeSelector": null,
            },
        });
        normalize(pod.root(), &mut object);
        assert_eq!(
            object,
            json!({
                "metadata": {"name": "a", "annotations": {"a": ""}},
                "spec": {
                    "containers": [{"name": "c",
                        "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}}}],
                    "volumes": [{"name": "v", "emptyDir": {}}],
                },
            })
        );
    }

    #[test]
    fn required_lists_stay_when_empty() {
        let pod = Schemas::built_in().get(&Gvk::new("", "v1", "Pod")).unwrap();
        let mut object = json!({"spec": {"containers": []}});
        normalize(pod.root(), &mut object);
        assert_eq!(object, json!({"spec": {"containers": []}}));
    }
}
