//! Is a schema structural?
//!
//! Structural means: every field has one place that says its type, and everything inside `allOf`, `anyOf`,
//! `oneOf` and `not` only restricts values. Then one walk along the schema is enough to prune, default and
//! merge.

use serde_json::{Map, Value, json};

use crate::schema::cause::{Causes, Path};
use crate::schema::object::{flag, list as array, text};
use crate::schema::{Gvk, MAX_DEPTH, Schema, cel, validate};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const COMBINATORS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Where a node stands, for the wording of a missing type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Field,
    Item,
}

pub(super) fn check(schema: &Value, path: &Path<'_>, causes: &mut Causes) {
    node(schema, Place::Root, path, 0, causes);
    if causes.is_empty() {
        defaults(schema, path, 0, causes);
    }
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties").and_then(Value::as_object)
}

fn node(schema: &Value, place: Place, path: &Path<'_>, depth: usize, causes: &mut Causes) {
    if depth > MAX_DEPTH {
        let detail = format!("must not be nested deeper than {MAX_DEPTH} levels");
        causes.forbidden(path, &detail);
        return;
    }
    unsupported(schema, path, causes);
    type_of(schema, place, path, causes);
    extensions(schema, path, causes);
    list_type(schema, path, causes);
    expressions(schema, path, causes);
    if place == Place::Root || flag(schema, "x-kubernetes-embedded-resource") {
        resource_fields(schema, path, causes);
    }
    let list = path.field("properties");
    for (name, property) in properties(schema).into_iter().flatten() {
        node(property, Place::Field, &list.key(name), depth + 1, causes);
    }
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
        node(values, Place::Item, &path.field("additionalProperties"), depth + 1, causes);
    }
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        node(items, Place::Item, &path.field("items"), depth + 1, causes);
    }
    let int_or_string = flag(schema, "x-kubernetes-int-or-string");
    for keyword in COMBINATORS {
        let list = path.field(keyword);
        for (index, inner) in array(schema, keyword).iter().enumerate() {
            let outer = Outer { schema, path, int_or_string };
            restriction(inner, outer, &list.index(index), depth + 1, causes);
        }
    }
    if let Some(inner) = schema.get("not") {
        let outer = Outer { schema, path, int_or_string: false };
        restriction(inner, outer, &path.field("not"), depth + 1, causes);
    }
}

/// Keywords that no schema of a definition may use.
fn unsupported(schema: &Value, path: &Path<'_>, causes: &mut Causes) {
    for keyword in ["$ref", "patternProperties", "definitions", "dependencies", "additionalItems"] {
        if schema.get(keyword).is_some() {
            causes.forbidden(&path.field(keyword), &format!("{keyword} is not supported"));
        }
    }
    if flag(schema, "uniqueItems") {
        let detail =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        causes.forbidden(&path.field("uniqueItems"), detail);
    }
    let additional = path.field("additionalProperties");
    if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
        causes.forbidden(&additional, "additionalProperties cannot be set to false");
    } else if schema.get("additionalProperties").is_some()
        && properties(schema).is_some_and(|properties| !properties.is_empty())
    {
        causes.forbidden(&additional, "additionalProperties and properties are mutual exclusive");
    }
    if schema.get("items").is_some_and(Value::is_array) {
        let detail = "items must be a schema object and not an array";
        causes.forbidden(&path.field("items"), detail);
    }
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
        && let Err(error) = regex::Regex::new(pattern)
    {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        causes.invalid_text(&path.field("pattern"), pattern, &detail);
    }
}

fn type_of(schema: &Value, place: Place, path: &Path<'_>, causes: &mut Causes) {
    let (kind, at) = (text(schema, "type"), path.field("type"));
    let free = flag(schema, "x-kubernetes-int-or-string")
        || flag(schema, "x-kubernetes-preserve-unknown-fields");
    match (kind, place) {
        ("", Place::Root) => causes.required(&at, "must not be empty at the root"),
        ("", Place::Field) if !free => {
            causes.required(&at, "must not be empty for specified object fields");
        }
        ("", Place::Item) if !free => {
            causes.required(&at, "must not be empty for specified array items");
        }
        ("", _) => {}
        ("null", _) => {
            let detail = "type cannot be set to null, use nullable as an alternative";
            causes.forbidden(&at, detail);
        }
        (kind, Place::Root) if kind != "object" => {
            causes.invalid_text(&at, kind, "must be object at the root");
        }
        (kind, _) if !TYPES.contains(&kind) => causes.not_supported(&at, &json!(kind), &TYPES),
        ("array", _) if schema.get("items").is_none() => {
            causes.required(&path.field("items"), "must be specified");
        }
        _ => {}
    }
}

fn extensions(schema: &Value, path: &Path<'_>, causes: &mut Causes) {
    let kind = text(schema, "type");
    let at = path.field("type");
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let path = path.field("x-kubernetes-preserve-unknown-fields");
        causes.invalid(&path, &Value::Bool(false), "must be true or undefined");
    }
    if flag(schema, "x-kubernetes-int-or-string") && !kind.is_empty() {
        causes.invalid_text(&at, kind, "must be empty if x-kubernetes-int-or-string is true");
    }
    if flag(schema, "x-kubernetes-embedded-resource") {
        if kind != "object" {
            let detail = "must be object if x-kubernetes-embedded-resource is true";
            causes.invalid_text(&at, kind, detail);
        }
        if properties(schema).is_none_or(Map::is_empty)
            && !flag(schema, "x-kubernetes-preserve-unknown-fields")
        {
            let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                          x-kubernetes-preserve-unknown-fields";
            causes.required(&path.field("properties"), detail);
        }
    }
    if let Some(map_type) = schema.get("x-kubernetes-map-type") {
        let at = path.field("x-kubernetes-map-type");
        match map_type.as_str().unwrap_or_default() {
            "atomic" | "granular" => {}
            _ => causes.not_supported(&at, map_type, &["atomic", "granular"]),
        }
        if kind != "object" {
            let detail = "must be object if x-kubernetes-map-type is specified";
            causes.invalid_text(&path.field("type"), kind, detail);
        }
    }
}

fn list_type(schema: &Value, path: &Path<'_>, causes: &mut Causes) {
    let keys = array(schema, "x-kubernetes-list-map-keys");
    let keys_path = path.field("x-kubernetes-list-map-keys");
    let Some(list_type) = schema.get("x-kubernetes-list-type") else {
        if !keys.is_empty() {
            let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
            causes.required(&path.field("x-kubernetes-list-type"), detail);
        }
        return;
    };
    if text(schema, "type") != "array" {
        let detail = "must be array if x-kubernetes-list-type is specified";
        causes.invalid_text(&path.field("type"), text(schema, "type"), detail);
        return;
    }
    match list_type.as_str().unwrap_or_default() {
        "map" => map_keys(schema, keys, path, causes),
        "atomic" | "set" if !keys.is_empty() => {
            let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
            causes.invalid(&path.field("x-kubernetes-list-type"), list_type, detail);
        }
        "atomic" => {}
        "set" => set_items(schema, path, causes),
        _ => {
            let at = path.field("x-kubernetes-list-type");
            causes.not_supported(&at, list_type, &["atomic", "map", "set"]);
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    for (index, key) in keys.iter().enumerate() {
        if !seen.insert(key.to_string()) {
            causes.duplicate(&keys_path.index(index), key);
        }
    }
}

fn set_items(schema: &Value, path: &Path<'_>, causes: &mut Causes) {
    let Some(items) = schema.get("items") else { return };
    let path = path.field("items");
    if flag(items, "nullable") {
        causes.forbidden(
            &path.field("nullable"),
            "cannot be nullable when x-kubernetes-list-type is set",
        );
    }
    let atomic = match text(items, "type") {
        "object" => text(items, "x-kubernetes-map-type") == "atomic",
        "array" => text(items, "x-kubernetes-list-type") == "atomic",
        _ => true,
    };
    if !atomic {
        let (field, detail) = match text(items, "type") {
            "object" => (
                "x-kubernetes-map-type",
                "must be atomic as item of a list with x-kubernetes-list-type=set",
            ),
            _ => (
                "x-kubernetes-list-type",
                "must be atomic as item of a list with x-kubernetes-list-type=set",
            ),
        };
        causes.invalid_text(&path.field(field), text(items, field), detail);
    }
}

fn map_keys(schema: &Value, keys: &[Value], path: &Path<'_>, causes: &mut Causes) {
    let keys_path = path.field("x-kubernetes-list-map-keys");
    if keys.is_empty() {
        causes.required(&keys_path, "must not be empty if x-kubernetes-list-type is map");
    }
    let Some(items) = schema.get("items") else { return };
    let items_path = path.field("items");
    if text(items, "type") != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        causes.invalid_text(&items_path.field("type"), text(items, "type"), detail);
        return;
    }
    let list = items_path.field("properties");
    let required = array(items, "required");
    for (index, key) in keys.iter().enumerate() {
        let name = key.as_str().unwrap_or_default();
        let Some(property) = properties(items).and_then(|properties| properties.get(name)) else {
            let detail = "entries must all be names of item properties";
            causes.invalid_text(&keys_path.index(index), name, detail);
            continue;
        };
        let at = list.key(name);
        if matches!(text(property, "type"), "object" | "array") {
            let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            causes.invalid_text(&at.field("type"), text(property, "type"), detail);
        }
        if flag(property, "nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            causes.forbidden(&at.field("nullable"), detail);
        }
        if property.get("default").is_none() && !required.contains(key) {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be \
                          a required property";
            causes.required(&at.field("default"), detail);
        }
    }
}

fn expressions(schema: &Value, path: &Path<'_>, causes: &mut Causes) {
    let rules = array(schema, "x-kubernetes-validations");
    let list = path.field("x-kubernetes-validations");
    for (index, rule) in rules.iter().enumerate() {
        let at = list.index(index);
        if text(rule, "rule").trim().is_empty() {
            causes.required(&at.field("rule"), "rule is not specified");
        }
        if text(rule, "message").contains('\n') {
            let detail = "message must not contain line breaks";
            causes.invalid_text(&at.field("message"), text(rule, "message"), detail);
        } else if text(rule, "rule").contains('\n') && text(rule, "message").is_empty() {
            causes.required(
                &at.field("message"),
                "message must be specified if rule contains line breaks",
            );
        }
    }
    let compiled = schema.as_object().and_then(cel::Expressions::compile);
    let errors = compiled.map(|compiled| compiled.compile_errors()).unwrap_or_default();
    for (index, (error, rule)) in errors.into_iter().zip(rules).enumerate() {
        if let Some(error) = error
            && !text(rule, "rule").trim().is_empty()
        {
            let detail = format!("compilation failed: {error}");
            causes.invalid_text(&list.index(index).field("rule"), text(rule, "rule"), &detail);
        }
    }
}

/// `apiVersion`, `kind` and `metadata` of a whole object belong to Kubernetes.
fn resource_fields(schema: &Value, path: &Path<'_>, causes: &mut Causes) {
    let list = path.field("properties");
    let property = |name| properties(schema).and_then(|properties| properties.get(name));
    for name in ["apiVersion", "kind"] {
        if let Some(property) = property(name)
            && text(property, "type") != "string"
        {
            causes.invalid_text(
                &list.key(name).field("type"),
                text(property, "type"),
                "must be string",
            );
        }
    }
    let Some(metadata) = property("metadata") else { return };
    let at = list.key("metadata");
    if text(metadata, "type") != "object" {
        causes.invalid_text(&at.field("type"), text(metadata, "type"), "must be object");
    }
    let only_names = properties(metadata).is_none_or(|properties| {
        properties.keys().all(|name| matches!(name.as_str(), "name" | "generateName"))
    });
    let only_restrictions = metadata.as_object().is_none_or(|fields| {
        fields
            .keys()
            .all(|key| matches!(key.as_str(), "type" | "properties" | "description" | "title"))
    });
    if !(only_names && only_restrictions) {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        causes.forbidden(&at, detail);
    }
}

/// The structural schema that a restriction applies to.
#[derive(Clone, Copy)]
struct Outer<'a> {
    schema: &'a Value,
    path: &'a Path<'a>,
    /// Alternatives may then name the two types.
    int_or_string: bool,
}

/// A schema inside a combinator may restrict values, not describe structure.
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
    unsupported(schema, path, causes);
    no_structure(schema, outer.int_or_string, path, causes);
    let (list, outer_list) = (path.field("properties"), outer.path.field("properties"));
    for (name, inner) in properties(schema).into_iter().flatten() {
        let (at, outer_path) = (list.key(name), outer_list.key(name));
        let values =
            || outer.schema.get("additionalProperties").filter(|values| values.is_object());
        match properties(outer.schema).and_then(|known| known.get(name)).or_else(values) {
            Some(schema) => {
                let outer = Outer { schema, path: &outer_path, int_or_string: false };
                restriction(inner, outer, &at, depth + 1, causes);
            }
            None => causes.required(&outer_path, &format!("because it is defined in {at}")),
        }
    }
    if let Some(inner) = schema.get("items") {
        let (at, outer_path) = (path.field("items"), outer.path.field("items"));
        match outer.schema.get("items") {
            Some(schema) => {
                let outer = Outer { schema, path: &outer_path, int_or_string: false };
                restriction(inner, outer, &at, depth + 1, causes);
            }
            None => causes.required(&outer_path, &format!("because it is defined in {at}")),
        }
    }
    for keyword in COMBINATORS {
        let list = path.field(keyword);
        for (index, inner) in array(schema, keyword).iter().enumerate() {
            restriction(inner, outer, &list.index(index), depth + 1, causes);
        }
    }
    if let Some(inner) = schema.get("not") {
        let outer = Outer { int_or_string: false, ..outer };
        restriction(inner, outer, &path.field("not"), depth + 1, causes);
    }
}

fn no_structure(schema: &Value, int_or_string: bool, path: &Path<'_>, causes: &mut Causes) {
    let allowed = int_or_string && matches!(text(schema, "type"), "integer" | "string");
    if !text(schema, "type").is_empty() && !allowed {
        causes.forbidden(&path.field("type"), "must be empty to be structural");
    }
    for keyword in ["additionalProperties", "default", "x-kubernetes-preserve-unknown-fields"] {
        if schema.get(keyword).is_some() {
            causes.forbidden(&path.field(keyword), "must be undefined to be structural");
        }
    }
    for keyword in ["nullable", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"] {
        if flag(schema, keyword) {
            causes.forbidden(&path.field(keyword), "must be false to be structural");
        }
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
    let list = path.field("properties");
    for (name, property) in properties(schema).into_iter().flatten() {
        defaults(property, &list.key(name), depth + 1, causes);
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
