//! From JSON schema text to the node graph.
//!
//! Two dialects arrive here: the `openAPIV3Schema` of a CRD (a tree without references) and the definitions
//! that k8s-openapi generates (flat, with `$ref` between them). A property that is a reference keeps its own
//! facts (merge key, default) and takes the rest from the definition it names, so that `$ref` does not exist
//! after building.

use std::collections::BTreeMap;
use std::sync::Arc;

use regex::Regex;
use serde_json::{Map, Value};

use super::built_in;
use super::cel;
use super::format::Format;
use super::graph::{Additional, Bound, Graph, List, MapKind, NodeData, NodeId, Patch, Rules, Type};

/// Why a schema cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BuildError {
    #[error("{path}: schema is nested deeper than {} levels", super::MAX_DEPTH)]
    TooDeep { path: String },
    #[error("{path}: a schema must be an object")]
    NotAnObject { path: String },
    #[error("{path}: unknown type {name:?}")]
    UnknownType { path: String, name: String },
    #[error("no definition named {name:?}")]
    UnknownDefinition { name: String },
    #[error("{path}: pattern {pattern:?} is not a regular expression")]
    Pattern { path: String, pattern: String, source: regex::Error },
}

/// Builds the graph of one custom kind.
pub(super) fn custom(schema: &Value) -> Result<(Graph, NodeId), BuildError> {
    let mut builder = Builder::default();
    let root = builder.node(schema, "", 0)?;
    builder.make_resource(root);
    for id in std::mem::take(&mut builder.embedded) {
        builder.make_resource(id);
    }
    Ok((builder.graph, root))
}

/// Builds the graph of a schema that does not describe a whole object.
pub(super) fn fragment(schema: &Value) -> Result<(Graph, NodeId), BuildError> {
    let mut builder = Builder::default();
    let root = builder.node(schema, "", 0)?;
    Ok((builder.graph, root))
}

/// Builds one graph for many definitions that refer to each other; the map finds a definition's node.
pub(super) fn definitions(
    definitions: &Map<String, Value>,
) -> Result<(Graph, BTreeMap<String, NodeId>), BuildError> {
    let mut builder = Builder { published: true, ..Builder::default() };
    let mut roots = BTreeMap::new();
    for (name, schema) in definitions {
        let id = builder.node(schema, name, 0)?;
        let data = builder.graph.data_mut(id);
        data.definition = Some(name.as_str().into());
        if name.ends_with(".resource.Quantity") {
            data.format = Format::Quantity;
        }
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
    /// The schemas are Kubernetes' own definitions, not those of a CRD.
    published: bool,
    /// Nodes that hold whole objects.
    embedded: Vec<NodeId>,
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
            format: format(schema),
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
        if !self.published {
            data.rules = self.rules(schema, path, depth)?.map(Arc::new);
        }
        let id = self.graph.push(data);
        if flag(schema, "x-kubernetes-embedded-resource") {
            self.embedded.push(id);
        }
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            let name = definition_name(target);
            self.references.push(Reference { id, name, map: map(schema), union: false });
        }
        if self.published {
            for alternative in array(schema, "oneOf") {
                self.alternative(id, alternative, path, depth)?;
            }
        }
        Ok(id)
    }

    /// Adds `apiVersion`, `kind` and `metadata`, which every object has whether the schema says so or not.
    /// A schema may restrict the two names in `metadata`; those checks are kept.
    fn make_resource(&mut self, id: NodeId) {
        let text = NodeData { kind: Type::String, ..NodeData::default() };
        let meta = self.graph.import(built_in::object_meta());
        let stated = self.graph.property(id, "metadata");
        for name in ["name", "generateName"] {
            let own = stated.and_then(|stated| self.graph.property(stated, name));
            let rules = own.and_then(|own| self.graph.data(own).rules.clone());
            if let Some(target) = self.graph.property(meta, name) {
                self.graph.data_mut(target).rules = rules;
            }
        }
        for (name, new) in [("apiVersion", None), ("kind", None), ("metadata", Some(meta))] {
            let new = match (new, self.graph.property(id, name)) {
                (Some(new), _) => new,
                (None, Some(_)) => continue,
                (None, None) => self.graph.push(text.clone()),
            };
            self.graph.set_property(id, name, new);
        }
    }

    /// The checks of a CRD node, if it has any.
    fn rules(
        &mut self,
        schema: &Map<String, Value>,
        path: &str,
        depth: usize,
    ) -> Result<Option<Rules>, BuildError> {
        const KEYWORDS: [&str; 18] = [
            "enum",
            "pattern",
            "minimum",
            "maximum",
            "multipleOf",
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "uniqueItems",
            "minProperties",
            "maxProperties",
            "allOf",
            "anyOf",
            "oneOf",
            "not",
            "x-kubernetes-validations",
            "format",
        ];
        if !KEYWORDS.iter().any(|keyword| schema.contains_key(*keyword)) {
            return Ok(None);
        }
        let count = |name: &str| schema.get(name).and_then(Value::as_u64);
        let expressions = cel::Expressions::compile(schema);
        self.graph.has_expressions |= expressions.is_some();
        Ok(Some(Rules {
            allowed: schema.get("enum").and_then(Value::as_array).map(|values| values[..].into()),
            pattern: pattern(schema, path)?,
            minimum: bound(schema, "minimum", "exclusiveMinimum"),
            maximum: bound(schema, "maximum", "exclusiveMaximum"),
            multiple_of: schema.get("multipleOf").and_then(Value::as_f64),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            unique_items: flag(schema, "uniqueItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            all_of: self.nodes(schema, "allOf", path, depth)?,
            any_of: self.nodes(schema, "anyOf", path, depth)?,
            one_of: self.nodes(schema, "oneOf", path, depth)?,
            not: match schema.get("not") {
                Some(not) => Some(self.node(not, &format!("{path}.not"), depth + 1)?),
                None => None,
            },
            expressions,
        }))
    }

    fn nodes(
        &mut self,
        schema: &Map<String, Value>,
        keyword: &str,
        path: &str,
        depth: usize,
    ) -> Result<Box<[NodeId]>, BuildError> {
        array(schema, keyword)
            .map(|schema| self.node(schema, &format!("{path}.{keyword}"), depth + 1))
            .collect()
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

fn format(schema: &Map<String, Value>) -> Format {
    schema.get("format").and_then(Value::as_str).map(Format::from_name).unwrap_or_default()
}

fn pattern(schema: &Map<String, Value>, path: &str) -> Result<Option<Regex>, BuildError> {
    let Some(pattern) = schema.get("pattern").and_then(Value::as_str) else { return Ok(None) };
    match Regex::new(pattern) {
        Ok(regex) => Ok(Some(regex)),
        Err(source) => {
            Err(BuildError::Pattern { path: path.to_owned(), pattern: pattern.to_owned(), source })
        }
    }
}

fn bound(schema: &Map<String, Value>, limit: &str, exclusive: &str) -> Option<Bound> {
    let value = schema.get(limit)?.as_f64()?;
    Some(Bound { value, exclusive: flag(schema, exclusive) })
}

fn array<'a>(schema: &'a Map<String, Value>, name: &str) -> impl Iterator<Item = &'a Value> {
    schema.get(name).and_then(Value::as_array).into_iter().flatten()
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
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(Into::into).collect()
}
