//! Is a schema structural?
//!
//! Structural means: every field has one place that says its type, and everything inside `allOf`, `anyOf`,
//! `oneOf` and `not` only restricts values. Then one walk along the schema is enough to prune, default and
//! merge.

use serde_json::{Map, Value, json};

use crate::schema::cause::{Causes, Path};
use crate::schema::object::{flag, has, list, text};
use crate::schema::{Gvk, MAX_DEPTH, Schema, validate};

const COMBINATORS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Where a node stands, for the wording of a missing type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Field,
    Item,
}

/// Checks structure first, and defaults only in a schema that is structural.
pub(super) fn check(schema: &Value, path: &Path<'_>) -> Causes {
    let mut causes = Causes::default();
    node(schema, Place::Root, path, 0, &mut causes);
    causes.sort();
    if causes.is_empty() {
        defaults(schema, path, 0, &mut causes);
    }
    causes
}

pub(super) fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties").and_then(Value::as_object)
}

fn node(schema: &Value, place: Place, path: &Path<'_>, depth: usize, causes: &mut Causes) {
    if depth > MAX_DEPTH {
        let detail = format!("must not be nested deeper than {MAX_DEPTH} levels");
        causes.forbidden(path, &detail);
        return;
    }
    type_of(schema, place, path, causes);
    extensions(schema, path, causes);
    pattern(schema, path, causes);
    resource_fields(schema, place, path, causes);
    let fields = path.field("properties");
    for (name, property) in properties(schema).into_iter().flatten() {
        node(property, Place::Field, &fields.key(name), depth + 1, causes);
    }
    if let Some(values) = schema.get("additionalProperties") {
        let at = path.field("additionalProperties");
        if place == Place::Root {
            causes.forbidden(&at, "must not be used at the root");
        }
        if values.is_object() {
            node(values, Place::Field, &at, depth + 1, causes);
        }
    }
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        node(items, Place::Item, &path.field("items"), depth + 1, causes);
    }
    combinators(schema, Outer { schema, path }, path, depth, causes);
}

fn type_of(schema: &Value, place: Place, path: &Path<'_>, causes: &mut Causes) {
    let (kind, at) = (text(schema, "type"), path.field("type"));
    let free = flag(schema, "x-kubernetes-int-or-string")
        || flag(schema, "x-kubernetes-preserve-unknown-fields");
    if flag(schema, "x-kubernetes-embedded-resource") && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        match kind {
            "" => causes.required(&at, detail),
            kind => causes.invalid_text(&at, kind, detail),
        }
    } else if kind.is_empty() && !free {
        let detail = match place {
            Place::Root => "must not be empty at the root",
            Place::Field => "must not be empty for specified object fields",
            Place::Item => "must not be empty for specified array items",
        };
        causes.required(&at, detail);
    }
    if place == Place::Root && !matches!(kind, "" | "object") {
        causes.invalid_text(&at, kind, "must be object at the root");
    }
    if kind == "array" && schema.get("items").is_none() {
        causes.required(&path.field("items"), "must be specified");
    }
}

fn extensions(schema: &Value, path: &Path<'_>, causes: &mut Causes) {
    const EMBEDDED: &str = "x-kubernetes-embedded-resource";
    const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
    if flag(schema, "x-kubernetes-int-or-string") {
        for extension in [PRESERVE, EMBEDDED] {
            if flag(schema, extension) {
                let detail = "must be false if x-kubernetes-int-or-string is true";
                causes.invalid(&path.field(extension), &json!(true), detail);
            }
        }
    }
    if flag(schema, EMBEDDED) {
        if schema.get("additionalProperties").is_some() {
            let detail = "must not be used if x-kubernetes-embedded-resource is set";
            causes.forbidden(&path.field("additionalProperties"), detail);
        }
        if properties(schema).is_none_or(Map::is_empty) && !flag(schema, PRESERVE) {
            let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                          x-kubernetes-preserve-unknown-fields";
            causes.required(&path.field("properties"), detail);
        }
    }
}

fn pattern(schema: &Value, path: &Path<'_>, causes: &mut Causes) {
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
        && let Err(error) = regex::Regex::new(pattern)
    {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        causes.invalid_text(&path.field("pattern"), pattern, &detail);
    }
}

/// `apiVersion`, `kind` and `metadata` of a whole object belong to Kubernetes.
fn resource_fields(schema: &Value, place: Place, path: &Path<'_>, causes: &mut Causes) {
    if place != Place::Root && !flag(schema, "x-kubernetes-embedded-resource") {
        return;
    }
    let fields = path.field("properties");
    let property = |name| properties(schema).and_then(|properties| properties.get(name));
    for name in ["kind", "apiVersion"] {
        if let Some(property) = property(name)
            && text(property, "type") != "string"
        {
            let kind = text(property, "type");
            causes.invalid_text(&fields.key(name).field("type"), kind, "must be string");
        }
    }
    let Some(metadata) = property("metadata") else { return };
    let at = fields.key("metadata");
    if text(metadata, "type") != "object" {
        causes.invalid_text(&at.field("type"), text(metadata, "type"), "must be object");
    }
    if place == Place::Root && !restricts_only_names(metadata) {
        let detail = "must not specify anything other than name and generateName, but metadata is \
                      implicitly specified";
        causes.forbidden(&at, detail);
    }
}

fn restricts_only_names(metadata: &Value) -> bool {
    let fields = metadata.as_object().into_iter().flatten();
    let only_properties =
        fields.clone().all(|(key, _)| matches!(key.as_str(), "type" | "properties" | "default"));
    let names = properties(metadata).into_iter().flatten();
    only_properties
        && names.clone().all(|(name, _)| matches!(name.as_str(), "name" | "generateName"))
}

/// The structural schema that a restriction applies to.
#[derive(Clone, Copy)]
struct Outer<'a> {
    schema: &'a Value,
    path: &'a Path<'a>,
}

/// `[{type: integer}, {type: string}]`, the idiom for a port by number or name.
fn is_int_or_string(any_of: &[Value]) -> bool {
    any_of == [json!({"type": "integer"}), json!({"type": "string"})]
}

/// Checks the combinators of a node or of a restriction; `outer` is what they restrict.
fn combinators(
    schema: &Value,
    outer: Outer<'_>,
    path: &Path<'_>,
    depth: usize,
    causes: &mut Causes,
) {
    for keyword in COMBINATORS {
        let inner = list(schema, keyword);
        if keyword == "anyOf" && is_int_or_string(inner) {
            continue;
        }
        let at = path.field(keyword);
        for (index, inner) in inner.iter().enumerate() {
            restriction(inner, outer, &at.index(index), depth + 1, causes);
        }
    }
    if let Some(inner) = schema.get("not") {
        restriction(inner, outer, &path.field("not"), depth + 1, causes);
    }
}

/// A schema inside a combinator may restrict values, not describe structure, and may only speak of fields
/// that the structure has.
fn restriction(
    schema: &Value,
    outer: Outer<'_>,
    path: &Path<'_>,
    depth: usize,
    causes: &mut Causes,
) {
    if depth > MAX_DEPTH {
        let detail = format!("must not be nested deeper than {MAX_DEPTH} levels");
        causes.forbidden(path, &detail);
        return;
    }
    pattern(schema, path, causes);
    no_structure(schema, path, causes);
    let (fields, outer_fields) = (path.field("properties"), outer.path.field("properties"));
    for (name, inner) in properties(schema).into_iter().flatten() {
        let (at, outer_path) = (fields.key(name), outer_fields.key(name));
        let known = properties(outer.schema).and_then(|known| known.get(name));
        complete(inner, known, &at, &outer_path, depth, causes);
    }
    if let Some(inner) = schema.get("items") {
        let (at, outer_path) = (path.field("items"), outer.path.field("items"));
        complete(inner, outer.schema.get("items"), &at, &outer_path, depth, causes);
    }
    combinators(schema, outer, path, depth, causes);
}

fn complete(
    inner: &Value,
    known: Option<&Value>,
    at: &Path<'_>,
    outer_path: &Path<'_>,
    depth: usize,
    causes: &mut Causes,
) {
    match known {
        Some(schema) => {
            restriction(inner, Outer { schema, path: outer_path }, at, depth + 1, causes);
        }
        None => causes.required(outer_path, &format!("because it is defined in {at}")),
    }
}

fn no_structure(schema: &Value, path: &Path<'_>, causes: &mut Causes) {
    for keyword in ["type", "title", "description"] {
        if !text(schema, keyword).is_empty() {
            causes.forbidden(&path.field(keyword), "must be empty to be structural");
        }
    }
    for keyword in ["x-kubernetes-list-map-keys", "x-kubernetes-validations"] {
        if !list(schema, keyword).is_empty() {
            causes.forbidden(&path.field(keyword), "must be empty to be structural");
        }
    }
    for keyword in
        ["additionalProperties", "default", "x-kubernetes-list-type", "x-kubernetes-map-type"]
    {
        if has(schema, keyword) {
            causes.forbidden(&path.field(keyword), "must be undefined to be structural");
        }
    }
    for keyword in [
        "nullable",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
    ] {
        if flag(schema, keyword) {
            causes.forbidden(&path.field(keyword), "must be false to be structural");
        }
    }
    if properties(schema).is_some_and(|properties| properties.contains_key("metadata")) {
        let at = path.field("properties");
        causes.forbidden(&at.key("metadata"), "must not be specified in a nested context");
    }
}

/// Every default must itself be valid and free of unknown fields.
fn defaults(schema: &Value, path: &Path<'_>, depth: usize, causes: &mut Causes) {
    if depth > MAX_DEPTH {
        return;
    }
    if let Some(default) = schema.get("default") {
        check_default(schema, default, &path.field("default"), causes);
    }
    let fields = path.field("properties");
    for (name, property) in properties(schema).into_iter().flatten() {
        defaults(property, &fields.key(name), depth + 1, causes);
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get(keyword).filter(|inner| inner.is_object()) {
            defaults(inner, &path.field(keyword), depth + 1, causes);
        }
    }
}

fn check_default(schema: &Value, default: &Value, path: &Path<'_>, causes: &mut Causes) {
    let Ok(graph) = Schema::fragment(Gvk::new("", "", ""), schema) else { return };
    let mut pruned = default.clone();
    if !graph.prune(&mut pruned).is_empty() {
        causes.invalid(path, default, "must not have unknown fields");
        return;
    }
    graph.default(&mut pruned);
    let mut found = Causes::default();
    validate::validate(graph.root(), &pruned, None, &mut found);
    causes.append_below(path, found);
}
