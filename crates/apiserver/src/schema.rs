//! What does an object of this kind look like, and what does the server do about it?
//!
//! Everything that must know the shape of objects lives here, as functions over [`serde_json::Value`]:
//! which fields exist, which are missing, which get a default, how lists merge. The facts come from two
//! places and end up in one form, a graph of nodes ([`Schema`]):
//!
//! - **custom kinds**: the structural schema inside the CustomResourceDefinition ([`crd`]);
//! - **built-in kinds**: the published OpenAPI types that k8s-openapi carries, completed with a table of
//!   what that copy leaves out (list types, merge keys) and with Kubernetes' own defaults and checks
//!   written as functions ([`built_in`]).
//!
//! A request for an object passes through in this order:
//!
//! ```text
//! bytes ─duplicate_fields─> Value ─type_error─> prune ─> default ─> (admission) ─> validate
//!         400 if Strict             400            └ unknown fields: 400 if Strict      422 with causes
//! ```
//!
//! No function here panics on any JSON; recursion is bounded by [`MAX_DEPTH`].

mod build;
pub mod built_in;
mod cause;
mod cel;
pub mod crd;
mod custom;
mod default;
mod format;
mod graph;
mod lists;
mod meta;
mod names;
mod prune;
mod validate;

use std::sync::Arc;

use serde_json::Value;

pub use build::BuildError;
pub use cause::{Cause, Reason};
pub use graph::{ListKind, MapKind, Node, Patch, Type};

use graph::{Graph, NodeId};

/// Nesting beyond this many levels is not looked at: deeper values are neither pruned nor defaulted, and
/// validation refuses them. serde_json itself refuses to parse more than 128 levels.
pub const MAX_DEPTH: usize = 128;

/// Group, version and kind of an object; the group of core kinds is empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gvk {
    pub group: String,
    pub version: String,
    pub kind: String,
}

impl Gvk {
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        Self { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() }
    }

    /// The `apiVersion` field of objects of this kind.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

/// The shape of one version of one kind. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Schema {
    graph: Arc<Graph>,
    root: NodeId,
    gvk: Gvk,
    origin: Origin,
    /// Whether objects live in namespaces; `None` where the schema is not told.
    namespaced: Option<bool>,
}

/// Where the shape comes from; it decides how a wrong type is answered and which defaults apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    BuiltIn,
    Custom,
}

impl Schema {
    /// A schema that knows nothing: lists are atomic, maps granular, nothing is pruned.
    pub fn untyped(gvk: Gvk) -> Self {
        let (graph, root) = Graph::untyped();
        Self { graph: Arc::new(graph), root, gvk, origin: Origin::Custom, namespaced: None }
    }

    /// A custom kind from the `openAPIV3Schema` of one CRD version.
    pub fn custom(gvk: Gvk, open_api_v3_schema: &Value) -> Result<Self, BuildError> {
        let (graph, root) = build::custom(open_api_v3_schema)?;
        Ok(Self { graph: Arc::new(graph), root, gvk, origin: Origin::Custom, namespaced: None })
    }

    /// A piece of a schema, whose root is a value and not an object with metadata.
    fn fragment(gvk: Gvk, schema: &Value) -> Result<Self, BuildError> {
        let (graph, root) = build::fragment(schema)?;
        Ok(Self { graph: Arc::new(graph), root, gvk, origin: Origin::Custom, namespaced: None })
    }

    pub fn gvk(&self) -> &Gvk {
        &self.gvk
    }

    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Where walks along an object start.
    pub fn root(&self) -> Node<'_> {
        self.graph.node(self.root)
    }

    /// Drops fields the schema does not know and returns their paths (`spec.containers[0].foo`), in
    /// document order of the schema walk.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune(self.root(), object)
    }

    /// Fills in defaults: the schema's for custom kinds, Kubernetes' own for built-in ones.
    pub fn default(&self, object: &mut Value) {
        match self.origin {
            Origin::Custom => default::default(self.root(), object),
            Origin::BuiltIn => {}
        }
    }

    /// What a built-in kind answers with 400: the first value whose JSON type does not fit its field, worded
    /// as the reference's decoder does (`json: cannot unmarshal string into Go struct field ...`). Custom
    /// kinds report wrong types in [`Schema::validate`].
    pub fn type_error(&self, _object: &Value) -> Option<String> {
        None
    }

    /// What is wrong with a new object; empty when it is acceptable.
    pub fn validate(&self, object: &Value) -> Vec<Cause> {
        match self.origin {
            Origin::Custom => custom::validate(self, object, None),
            Origin::BuiltIn => Vec::new(),
        }
    }

    /// What is wrong with replacing `old` by `new`: everything [`Schema::validate`] finds, except in custom
    /// objects for parts that did not change, and changes of fields that may not change.
    pub fn validate_update(&self, new: &Value, old: &Value) -> Vec<Cause> {
        match self.origin {
            Origin::Custom => custom::validate(self, new, Some(old)),
            Origin::BuiltIn => Vec::new(),
        }
    }
}
