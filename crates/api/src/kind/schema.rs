//! How does a Rust type become a schema the API server accepts?
//!
//! `schemars` writes JSON Schema; a CRD takes the *structural* part of it: one type on every node,
//! nothing referenced, nothing said twice. The schema describes what we write, so a field is
//! required exactly when we always write it. From there:
//!
//! - an optional field is one that may be absent, not one that may be `null`;
//! - a value of any shape becomes an object whose unknown fields are kept;
//! - a number or string is said by `x-kubernetes-int-or-string` alone;
//! - titles, our own `x-tidepool-*` marks and defaults that only say "empty" are left out.

use schemars::generate::{Contract, SchemaSettings};
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value};

const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const PRESERVE_UNKNOWN: &str = "x-kubernetes-preserve-unknown-fields";

/// The structural schema of `T`.
pub(super) fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
        settings.contract = Contract::Serialize;
    });
    let mut schema = SchemaGenerator::new(settings).into_root_schema_for::<T>().to_value();
    tidy(&mut schema);
    schema
}

fn tidy(schema: &mut Value) {
    if let Value::Bool(_) = schema {
        *schema = Value::Object(Map::from_iter([(PRESERVE_UNKNOWN.to_owned(), true.into())]));
    }
    let Value::Object(node) = schema else { return };
    node.retain(|keyword, _| {
        !matches!(keyword.as_str(), "$schema" | "title") && !keyword.starts_with("x-tidepool-")
    });
    drop_null(node);
    if node.contains_key(INT_OR_STRING) {
        node.remove("type");
        node.remove("anyOf");
    }
    if node.get("default").is_some_and(is_empty) {
        node.remove("default");
    }
    if let Some(Value::String(text)) = node.get_mut("description") {
        *text = unwrap_lines(text);
    }
    if node.get("additionalProperties") == Some(&Value::Bool(true)) {
        node.remove("additionalProperties");
        node.insert(PRESERVE_UNKNOWN.to_owned(), true.into());
    }
    if let Some(Value::Object(properties)) = node.get_mut("properties") {
        properties.values_mut().for_each(tidy);
    }
    for keyword in ["items", "additionalProperties"] {
        node.get_mut(keyword).into_iter().for_each(tidy);
    }
}

/// Takes the `null` out of a node: absence is said by not being required.
fn drop_null(node: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = node.get("type")
        && let [one, null] = types.as_slice()
        && null == "null"
    {
        let one = one.clone();
        node.insert("type".to_owned(), one);
    }
    if let Some(Value::Array(choices)) = node.get("anyOf")
        && let [Value::Object(one), Value::Object(null)] = choices.as_slice()
        && null.get("type").is_some_and(|kind| kind == "null")
    {
        let one = one.clone();
        node.remove("anyOf");
        for (keyword, value) in one {
            node.entry(keyword).or_insert(value);
        }
    }
}

fn is_empty(default: &Value) -> bool {
    match default {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Doc comments are wrapped for the source; a description is one line a paragraph.
fn unwrap_lines(text: &str) -> String {
    let paragraphs: Vec<String> =
        text.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect();
    paragraphs.join("\n")
}
