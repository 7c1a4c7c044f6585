//! The graph of nodes behind a schema.
//!
//! Kubernetes types refer to each other and, in one case (`JSONSchemaProps`), to themselves, so a schema is
//! an arena of nodes with indices rather than a tree. All built-in kinds share one arena. [`Node`] is the
//! cursor callers walk with:
//!
//! ```text
//! schema.root().field("spec")?.field("containers")?.list_kind()      -> Map { keys: ["name"] }
//! ```

use std::sync::Arc;

use regex::Regex;
use serde_json::Value;

use super::cel;
use super::format::Format;

/// Index of a node in its graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct NodeId(u32);

/// How a list merges in server-side apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind<'a> {
    /// One owner for the whole list.
    Atomic,
    /// Elements are scalars and their own keys.
    Set,
    /// Elements are objects, identified by these fields.
    Map { keys: &'a [Box<str>] },
}

/// How an object or map merges in server-side apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MapKind {
    #[default]
    Granular,
    Atomic,
}

/// What strategic merge patch does with a field (`x-kubernetes-patch-strategy` and `-merge-key`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Patch {
    /// Lists merge element by element instead of being replaced.
    pub merge: bool,
    /// Fields that the patch does not name are removed from the object.
    pub retain_keys: bool,
    /// The object is replaced, not merged.
    pub replace: bool,
    /// Field that identifies an element of a merged list; absent for lists of scalars.
    pub merge_key: Option<Box<str>>,
}

/// JSON type of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Type {
    #[default]
    Any,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    IntOrString,
}

impl Type {
    /// The name in a JSON schema; empty for [`Type::Any`] and [`Type::IntOrString`], which have none.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Any | Self::IntOrString => "",
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// What a schema says about fields it does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Additional {
    /// Unknown fields are pruned.
    #[default]
    Closed,
    /// `additionalProperties: true`: anything may be there.
    Open,
    /// A map: every value has this shape.
    Of(NodeId),
}

#[derive(Debug, Clone, Default)]
pub(super) enum List {
    #[default]
    Atomic,
    Set,
    Map(Box<[Box<str>]>),
}

#[derive(Debug, Clone, Default)]
pub(super) struct NodeData {
    pub(super) kind: Type,
    /// Sorted by name.
    pub(super) properties: Box<[(Box<str>, NodeId)]>,
    pub(super) additional: Additional,
    pub(super) items: Option<NodeId>,
    pub(super) required: Box<[Box<str>]>,
    pub(super) nullable: bool,
    pub(super) preserve_unknown: bool,
    pub(super) embedded: bool,
    pub(super) list: List,
    pub(super) map: MapKind,
    pub(super) patch: Option<Box<Patch>>,
    pub(super) default: Option<Box<Value>>,
    pub(super) format: Format,
    /// Checks on the value itself; only custom kinds have them.
    pub(super) rules: Option<Arc<Rules>>,
    /// Name of the published definition this node was copied from.
    pub(super) definition: Option<Arc<str>>,
}

/// Value validations of a JSON schema.
#[derive(Debug, Default)]
pub(super) struct Rules {
    pub(super) allowed: Option<Box<[Value]>>,
    pub(super) pattern: Option<Regex>,
    pub(super) minimum: Option<Bound>,
    pub(super) maximum: Option<Bound>,
    pub(super) multiple_of: Option<f64>,
    pub(super) min_length: Option<u64>,
    pub(super) max_length: Option<u64>,
    pub(super) min_items: Option<u64>,
    pub(super) max_items: Option<u64>,
    pub(super) unique_items: bool,
    pub(super) min_properties: Option<u64>,
    pub(super) max_properties: Option<u64>,
    pub(super) all_of: Box<[NodeId]>,
    pub(super) any_of: Box<[NodeId]>,
    pub(super) one_of: Box<[NodeId]>,
    pub(super) not: Option<NodeId>,
    pub(super) expressions: Option<cel::Expressions>,
}

/// A limit of a number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    pub(super) value: f64,
    pub(super) exclusive: bool,
}

#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: Vec<NodeData>,
    /// Some node has expression rules.
    pub(super) has_expressions: bool,
}

impl Graph {
    pub(super) fn untyped() -> (Self, NodeId) {
        let mut graph = Self::default();
        let root = graph.push(NodeData { preserve_unknown: true, ..NodeData::default() });
        (graph, root)
    }

    pub(super) fn push(&mut self, node: NodeData) -> NodeId {
        let id = NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(node);
        id
    }

    pub(super) fn data_mut(&mut self, id: NodeId) -> &mut NodeData {
        &mut self.nodes[id.0 as usize]
    }

    pub(super) fn data(&self, id: NodeId) -> &NodeData {
        &self.nodes[id.0 as usize]
    }

    pub(super) fn node(&self, id: NodeId) -> Node<'_> {
        Node { graph: self, id }
    }

    pub(super) fn property(&self, id: NodeId, name: &str) -> Option<NodeId> {
        let properties = &self.data(id).properties;
        let at = properties.binary_search_by(|(known, _)| known.as_ref().cmp(name)).ok()?;
        properties.get(at).map(|(_, id)| *id)
    }

    /// Adds or replaces a property.
    pub(super) fn set_property(&mut self, id: NodeId, name: &str, property: NodeId) {
        let data = self.data_mut(id);
        let mut properties = std::mem::take(&mut data.properties).into_vec();
        properties.retain(|(known, _)| known.as_ref() != name);
        properties.push((name.into(), property));
        properties.sort_by(|a, b| a.0.cmp(&b.0));
        data.properties = properties.into();
    }

    /// Copies the tree below `node`, which must not contain itself.
    pub(super) fn import(&mut self, node: Node<'_>) -> NodeId {
        let mut data = node.data().clone();
        data.properties =
            node.properties().map(|(name, node)| (name.into(), self.import(node))).collect();
        data.items = node.items().map(|items| self.import(items));
        if let Some(values) = node.values() {
            data.additional = Additional::Of(self.import(values));
        }
        self.push(data)
    }
}

/// A place in a schema.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    graph: &'a Graph,
    id: NodeId,
}

impl std::fmt::Debug for Node<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.data().fmt(out)
    }
}

impl<'a> Node<'a> {
    pub(super) fn data(self) -> &'a NodeData {
        self.graph.data(self.id)
    }

    /// The graph this node belongs to.
    pub(super) fn graph(self) -> &'a Graph {
        self.graph
    }

    pub fn kind(self) -> Type {
        self.data().kind
    }

    /// The shape of the field or map entry `name`; `None` where the schema knows nothing about it.
    pub fn field(self, name: &str) -> Option<Node<'a>> {
        self.property(name).or_else(|| self.values())
    }

    /// The shape of a named property; map entries do not count.
    pub fn property(self, name: &str) -> Option<Node<'a>> {
        self.graph.property(self.id, name).map(|id| self.graph.node(id))
    }

    /// Names and shapes of all properties, sorted by name.
    pub fn properties(self) -> impl Iterator<Item = (&'a str, Node<'a>)> {
        self.data().properties.iter().map(move |(name, id)| (name.as_ref(), self.graph.node(*id)))
    }

    /// The shape of the values of a map.
    pub fn values(self) -> Option<Node<'a>> {
        match self.data().additional {
            Additional::Of(id) => Some(self.graph.node(id)),
            Additional::Open | Additional::Closed => None,
        }
    }

    /// True for `additionalProperties: true`: a map of anything.
    pub fn is_open(self) -> bool {
        self.data().additional == Additional::Open
    }

    /// The shape of the elements of a list.
    pub fn items(self) -> Option<Node<'a>> {
        self.data().items.map(|id| self.graph.node(id))
    }

    /// Walks several fields; `[]` steps into the elements of a list.
    pub fn at(self, path: &[&str]) -> Option<Node<'a>> {
        path.iter().try_fold(self, |node, step| match *step {
            "[]" => node.items(),
            name => node.field(name),
        })
    }

    pub fn list_kind(self) -> ListKind<'a> {
        match &self.data().list {
            List::Atomic => ListKind::Atomic,
            List::Set => ListKind::Set,
            List::Map(keys) => ListKind::Map { keys },
        }
    }

    pub fn map_kind(self) -> MapKind {
        self.data().map
    }

    /// Strategic merge facts; `None` means the plain rules (objects merge, lists are replaced).
    pub fn patch(self) -> Option<&'a Patch> {
        self.data().patch.as_deref()
    }

    /// Default of this field as the schema states it (`protocol` of a port: `TCP`).
    pub fn default_value(self) -> Option<&'a Value> {
        self.data().default.as_deref()
    }

    pub fn nullable(self) -> bool {
        self.data().nullable
    }

    pub fn preserves_unknown_fields(self) -> bool {
        self.data().preserve_unknown
    }

    pub fn is_embedded_resource(self) -> bool {
        self.data().embedded
    }

    /// True when objects here are maps with free keys rather than structures.
    pub fn is_map(self) -> bool {
        self.data().properties.is_empty() && self.values().is_some()
    }
}
