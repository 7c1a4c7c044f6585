//! From JSON schema text to the node graph.
//!
//! Two dialects arrive here: the `openAPIV3Schema` of a CRD (a tree without references) and the definitions
//! that k8s-openapi generates (flat, with `$ref` between them). A property that is a reference keeps its own
//! facts (merge key, default) and takes the rest from the definition it names, so that `$ref` does not exist
//! after building.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::graph::{Additional, Graph, List, MapKind, NodeData, NodeId, Patch, Type};

/// Why a schema cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    #[error("{path}: schema is nested deeper than {} levels", super::MAX_DEPTH)]
    TooDeep { path: String },
    #[error("{path}: a schema must be an object")]
    NotAnObject { path: String },
    #[error("{path}: unknown type {name:?}")]
    UnknownType { path: String, name: String },
    #[error("no definition named {name:?}")]
    UnknownDefinition { name: String },
}

/// Builds the graph of one custom kind.
pub(super) fn custom(schema: &Value) -> Result<(Graph, NodeId), BuildError> {
    let mut builder = Builder::default();
    let root = builder.node(schema, "", 0)?;
    Ok((builder.graph, root))
}

/// Builds one graph for many definitions that refer to each other; the map finds a definition's node.
pub(super) fn definitions(
    definitions: &Map<String, Value>,
) -> Result<(Graph, BTreeMap<String, NodeId>), BuildError> {
    let mut builder = Builder::default();
    let mut roots = BTreeMap::new();
    for (name, schema) in definitions {
        let id = builder.node(schema, name, 0)?;
        roots.insert(name.clone(), id);
    }
    builder.resolve(&roots)?;
    Ok((builder.graph, roots))
}

/// A node that stands for a definition.
struct Reference {
    id: NodeId,
    name: String,
    /// Stated beside the reference, and stronger than what the definition says.
    map: Option<MapKind>,
    /// The node is an alternative of an object and something else (`JSONSchemaPropsOrBool`).
    union: bool,
}

#[derive(Default)]
struct Builder {
    graph: Graph,
    references: Vec<Reference>,
}

impl Builder {
    fn node(&mut self, schema: &Value, path: &str, depth: usize) -> Result<NodeId, BuildError> {
        if depth > super::MAX_DEPTH {
            return Err(BuildError::TooDeep { path: path.to_owned() });
        }
        let Some(schema) = schema.as_object() else {
            return Err(BuildError::NotAnObject { path: path.to_owned() });
        };
        let mut data = NodeData {
            kind: kind(schema, path)?,
            required: strings(schema.get("required")),
            nullable: flag(schema, "nullable"),
            preserve_unknown: flag(schema, "x-kubernetes-preserve-unknown-fields"),
            embedded: flag(schema, "x-kubernetes-embedded-resource"),
            list: list(schema),
            map: map(schema).unwrap_or_default(),
            patch: patch(schema).map(Box::new),
            default: schema.get("default").cloned().map(Box::new),
            ..NodeData::default()
        };
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            let mut built = Vec::with_capacity(properties.len());
            for (name, property) in properties {
                let id = self.node(property, &format!("{path}.{name}"), depth + 1)?;
                built.push((name.as_str().into(), id));
            }
            built.sort_by(|a: &(Box<str>, NodeId), b| a.0.cmp(&b.0));
            data.properties = built.into();
        }
        data.additional = match schema.get("additionalProperties") {
            None | Some(Value::Bool(false)) => Additional::Closed,
            Some(Value::Bool(true)) => Additional::Open,
            Some(values) => Additional::Of(self.node(values, &format!("{path}.*"), depth + 1)?),
        };
        if let Some(items) = schema.get("items") {
            data.items = Some(self.node(items, &format!("{path}[]"), depth + 1)?);
        }
        let id = self.graph.push(data);
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            let name = definition_name(target);
            self.references.push(Reference { id, name, map: map(schema), union: false });
        }
        for alternative in schema.get("oneOf").and_then(Value::as_array).into_iter().flatten() {
            self.alternative(id, alternative, path, depth)?;
        }
        Ok(id)
    }

    /// Adds one alternative of a union: the object's fields, or the list's elements.
    fn alternative(
        &mut self,
        id: NodeId,
        schema: &Value,
        path: &str,
        depth: usize,
    ) -> Result<(), BuildError> {
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            let name = definition_name(target);
            self.references.push(Reference { id, name, map: None, union: true });
        } else if let Some(items) = schema.get("items") {
            let items = self.node(items, &format!("{path}[]"), depth + 1)?;
            self.graph.data_mut(id).items = Some(items);
        }
        Ok(())
    }

    /// Gives every reference the content of its definition. Unions go first because references to them
    /// copy what they became.
    fn resolve(&mut self, roots: &BTreeMap<String, NodeId>) -> Result<(), BuildError> {
        let mut references = std::mem::take(&mut self.references);
        references.sort_by_key(|reference| !reference.union);
        for Reference { id, name, map, union } in references {
            let Some(target) = roots.get(&name) else {
                return Err(BuildError::UnknownDefinition { name });
            };
            let own = std::mem::take(self.graph.data_mut(id));
            let mut data = self.graph.data(*target).clone();
            data.default = own.default.or(data.default);
            data.patch = own.patch;
            data.map = map.unwrap_or(data.map);
            if union {
                data.kind = Type::Any;
                data.items = own.items;
            }
            *self.graph.data_mut(id) = data;
        }
        Ok(())
    }
}

fn definition_name(reference: &str) -> String {
    reference.rsplit('/').next().unwrap_or_default().to_owned()
}

fn kind(schema: &Map<String, Value>, path: &str) -> Result<Type, BuildError> {
    if flag(schema, "x-kubernetes-int-or-string") {
        return Ok(Type::IntOrString);
    }
    let Some(name) = schema.get("type").and_then(Value::as_str) else {
        return Ok(Type::Any);
    };
    Ok(match name {
        "object" => Type::Object,
        "array" => Type::Array,
        "string" => Type::String,
        "integer" => Type::Integer,
        "number" => Type::Number,
        "boolean" => Type::Boolean,
        "" => Type::Any,
        _ => {
            return Err(BuildError::UnknownType { path: path.to_owned(), name: name.to_owned() });
        }
    })
}

fn list(schema: &Map<String, Value>) -> List {
    match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => List::Set,
        Some("map") => List::Map(strings(schema.get("x-kubernetes-list-map-keys"))),
        _ => List::Atomic,
    }
}

fn map(schema: &Map<String, Value>) -> Option<MapKind> {
    match schema.get("x-kubernetes-map-type").and_then(Value::as_str) {
        Some("atomic") => Some(MapKind::Atomic),
        Some(_) => Some(MapKind::Granular),
        None => None,
    }
}

fn patch(schema: &Map<String, Value>) -> Option<Patch> {
    let strategy = schema.get("x-kubernetes-patch-strategy").and_then(Value::as_str)?;
    let has = |name| strategy.split(',').any(|part| part == name);
    let key = schema.get("x-kubernetes-patch-merge-key").and_then(Value::as_str);
    Some(Patch {
        merge: has("merge"),
        retain_keys: has("retainKeys"),
        replace: has("replace"),
        merge_key: key.map(Into::into),
    })
}

fn flag(schema: &Map<String, Value>, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool).unwrap_or_default()
}

fn strings(value: Option<&Value>) -> Box<[Box<str>]> {
    let items = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(Value::as_str).map(Into::into).collect()
}
