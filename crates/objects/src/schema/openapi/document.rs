//! Definitions: from what k8s-openapi and CRDs carry to what Kubernetes publishes.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::Served;
use super::operations;
use crate::schema::MAX_DEPTH;
use crate::schema::object::{open, put, text};

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// The two document formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    V2,
    V3,
}

impl Dialect {
    /// Where references point.
    pub(super) fn base(self) -> &'static str {
        match self {
            Self::V2 => "#/definitions/",
            Self::V3 => "#/components/schemas/",
        }
    }
}

/// The document of one group and version.
pub(super) fn version_3(kinds: &[Served], definitions: Map<String, Value>) -> Value {
    let schemas = schemas(kinds, definitions, Dialect::V3);
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.35.0"},
        "paths": operations::paths(kinds, Dialect::V3),
        "components": {
            "schemas": schemas,
            "securitySchemes": {"BearerToken": {
                "description": "Bearer Token authentication",
                "in": "header",
                "name": "authorization",
                "type": "apiKey",
            }},
        },
    })
}

/// The document of everything.
pub(super) fn version_2(kinds: &[Served], definitions: Map<String, Value>) -> Value {
    let schemas = schemas(kinds, definitions, Dialect::V2);
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1.35.0"},
        "paths": operations::paths(kinds, Dialect::V2),
        "definitions": schemas,
        "securityDefinitions": {"BearerToken": {
            "description": "Bearer Token authentication",
            "in": "header",
            "name": "authorization",
            "type": "apiKey",
        }},
        "security": [{"BearerToken": []}],
    })
}

/// The definitions that `kinds` need, in the words of `dialect`.
fn schemas(
    kinds: &[Served],
    mut definitions: Map<String, Value>,
    dialect: Dialect,
) -> Map<String, Value> {
    definitions.entry(LIST_META).or_insert_with(list_meta);
    let mut wanted: Vec<String> = Vec::new();
    for kind in kinds {
        if let Some(definition) = definitions.get_mut(&kind.definition) {
            put(definition, "x-kubernetes-group-version-kind", json!([gvk(kind, &kind.kind)]));
        }
        wanted.push(kind.definition.clone());
        if !kind.subresource_only {
            let name = list_name(kind);
            definitions.insert(name.clone(), list_of(kind));
            wanted.push(name);
        }
    }
    let mut needed = BTreeSet::new();
    while let Some(name) = wanted.pop() {
        if let Some(definition) = definitions.get(&name)
            && needed.insert(name)
        {
            references(definition, 0, &mut wanted);
        }
    }
    definitions.retain(|name, _| needed.contains(name));
    for (name, definition) in &mut definitions {
        special(name, definition, dialect);
        translate(definition, dialect, 0);
    }
    definitions
}

/// Group, version and kind as an extension value.
pub(super) fn gvk(kind: &Served, name: &str) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": name})
}

pub(super) fn list_name(kind: &Served) -> String {
    let package = kind.definition.rsplit_once('.').map_or("", |(package, _)| package);
    format!("{package}.{}", kind.list_kind)
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("{}{name}", Dialect::V3.base())})
}

fn list_of(kind: &Served) -> Value {
    json!({
        "description": format!("{} is a list of {}", kind.list_kind, kind.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": api_version(),
            "items": {
                "description": format!("List of {}.", kind.plural),
                "type": "array",
                "items": reference(&kind.definition),
            },
            "kind": kind_field(),
            "metadata": described(reference(LIST_META), "Standard list metadata."),
        },
        "x-kubernetes-group-version-kind": [gvk(kind, &kind.list_kind)],
    })
}

fn list_meta() -> Value {
    json!({
        "description": "ListMeta describes metadata that synthetic resources must have, including lists.",
        "type": "object",
        "properties": {
            "continue": {"description": "Token for the next page.", "type": "string"},
            "remainingItemCount": {
                "description": "Number of objects that follow this page.",
                "format": "int64",
                "type": "integer",
            },
            "resourceVersion": {"description": "Version of the list.", "type": "string"},
            "selfLink": {"description": "Deprecated and never set.", "type": "string"},
        },
    })
}

fn api_version() -> Value {
    json!({"description": "Version of the schema this object is written in.", "type": "string"})
}

fn kind_field() -> Value {
    json!({"description": "Kind of the object, in CamelCase.", "type": "string"})
}

fn described(mut schema: Value, description: &str) -> Value {
    put(&mut schema, "description", description);
    schema
}

/// The definition of a custom kind.
pub(super) fn custom(kind: &Served, schema: &Value, dialect: Dialect) -> Value {
    let mut schema = schema.clone();
    if let Some(properties) = open(&mut schema, "properties") {
        put(properties, "apiVersion", api_version());
        put(properties, "kind", kind_field());
        let meta = described(reference(OBJECT_META), "Standard object's metadata.");
        put(properties, "metadata", meta);
    }
    if dialect == Dialect::V2 {
        simplify(&mut schema, 0);
    }
    put(&mut schema, "x-kubernetes-group-version-kind", json!([gvk(kind, &kind.kind)]));
    schema
}

/// Version 2 has no unions and no null; clients that read it would refuse good objects.
fn simplify(schema: &mut Value, depth: usize) {
    let free = schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    let nullable = schema.get("nullable") == Some(&Value::Bool(true));
    let Some(fields) = schema.as_object_mut() else { return };
    for keyword in
        ["oneOf", "anyOf", "allOf", "not", "nullable", "default", "x-kubernetes-validations"]
    {
        fields.remove(keyword);
    }
    if free {
        fields.remove("items");
        fields.remove("properties");
        fields.remove("additionalProperties");
    }
    if nullable || free {
        fields.remove("type");
    }
    each_inner(schema, depth, simplify);
}

/// Calls `visit` with every schema directly below `schema`.
fn each_inner(schema: &mut Value, depth: usize, visit: impl Fn(&mut Value, usize)) {
    if depth > MAX_DEPTH {
        return;
    }
    for keyword in ["items", "additionalProperties", "not"] {
        if let Some(inner) = schema.get_mut(keyword).filter(|inner| inner.is_object()) {
            visit(inner, depth + 1);
        }
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        for inner in schema.get_mut(keyword).and_then(Value::as_array_mut).into_iter().flatten() {
            visit(inner, depth + 1);
        }
    }
    for (_, inner) in
        schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten()
    {
        visit(inner, depth + 1);
    }
}

/// Names of the definitions a schema refers to.
fn references(schema: &Value, depth: usize, found: &mut Vec<String>) {
    if depth > MAX_DEPTH {
        return;
    }
    match schema {
        Value::Object(fields) => {
            if let Some(target) = fields.get("$ref").and_then(Value::as_str) {
                found.extend(target.rsplit('/').next().map(str::to_owned));
            }
            fields.values().for_each(|inner| references(inner, depth + 1, found));
        }
        Value::Array(items) => items.iter().for_each(|inner| references(inner, depth + 1, found)),
        _ => {}
    }
}

/// Types whose published form is not what their Go structure suggests.
fn special(name: &str, definition: &mut Value, dialect: Dialect) {
    let Some(fields) = definition.as_object_mut() else { return };
    let union = |types: [&str; 2]| json!([{"type": types[0]}, {"type": types[1]}]);
    match (name, dialect) {
        (QUANTITY, Dialect::V3) => {
            drop(fields.insert("oneOf".to_owned(), union(["string", "number"])))
        }
        (QUANTITY, Dialect::V2) => drop(fields.insert("type".to_owned(), json!("string"))),
        (INT_OR_STRING, Dialect::V3) => {
            fields.insert("format".to_owned(), json!("int-or-string"));
            fields.insert("oneOf".to_owned(), union(["integer", "string"]));
        }
        (INT_OR_STRING, Dialect::V2) => {
            fields.insert("format".to_owned(), json!("int-or-string"));
            fields.insert("type".to_owned(), json!("string"));
        }
        _ if name.contains(".JSONSchemaPropsOr") => drop(fields.remove("oneOf")),
        _ => {}
    }
    if name.starts_with("io.k8s.") {
        fields.remove("x-kubernetes-int-or-string");
        fields.remove("x-kubernetes-preserve-unknown-fields");
    }
}

/// Rewrites references. Version 3 does not allow anything beside `$ref`, so it moves into `allOf`.
fn translate(schema: &mut Value, dialect: Dialect, depth: usize) {
    let target = text(schema, "$ref").rsplit('/').next().unwrap_or_default().to_owned();
    if !target.is_empty() {
        let target = json!({"$ref": format!("{}{target}", dialect.base())});
        let alone = schema.as_object().is_some_and(|fields| fields.len() == 1);
        if alone || dialect == Dialect::V2 {
            put(schema, "$ref", text(&target, "$ref"));
        } else if let Some(fields) = schema.as_object_mut() {
            fields.remove("$ref");
            fields.insert("allOf".to_owned(), json!([target]));
            return;
        }
    }
    each_inner(schema, depth, |inner, depth| translate(inner, dialect, depth));
}
