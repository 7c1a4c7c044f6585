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
//! Descriptions are not kept: they weigh megabytes and only the documents in [`openapi`] show them.
//! No function here panics on any JSON; recursion is bounded by [`MAX_DEPTH`].

mod build;
pub mod built_in;
mod cause;
mod cel;
pub mod crd;
mod custom;
mod decode;
mod default;
mod format;
mod graph;
mod lists;
mod meta;
pub mod names;
mod object;
pub mod openapi;
mod prune;
#[cfg(test)]
mod tests;
mod validate;

use std::sync::Arc;

use serde_json::Value;

pub use build::BuildError;
pub use built_in::Schemas;
pub use cause::{Cause, Reason};
pub use decode::duplicate_fields;
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

    /// Drops fields the schema does not know and returns their paths (`spec.containers[0].foo`). Built-in
    /// objects also get the form they are stored in: no nulls, no empty optional lists and maps, canonical
    /// quantities.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let dropped = prune::prune(self.root(), object);
        if self.origin == Origin::BuiltIn {
            built_in::normalize(self.root(), object);
        }
        dropped
    }

    /// The 400 message for fields that a strict client asked to refuse: those that [`Schema::prune`] dropped
    /// and those that [`duplicate_fields`] found. `None` when there are none.
    pub fn strict_error(&self, unknown: &[String], duplicate: &[String]) -> Option<String> {
        let duplicate = duplicate.iter().map(|field| format!("duplicate field \"{field}\""));
        let unknown = unknown.iter().map(|field| format!("unknown field \"{field}\""));
        let found: Vec<String> = duplicate.chain(unknown).collect();
        if found.is_empty() {
            return None;
        }
        Some(self.undecodable(&format!("strict decoding error: {}", found.join(", "))))
    }

    fn undecodable(&self, why: &str) -> String {
        let Gvk { version, kind, .. } = &self.gvk;
        format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {why}")
    }

    /// Fills in defaults: the schema's for custom kinds, Kubernetes' own for built-in ones.
    pub fn default(&self, object: &mut Value) {
        match self.origin {
            Origin::Custom => default::default(self.root(), object),
            Origin::BuiltIn => built_in::default(&self.gvk, object),
        }
    }

    /// Sets what creation decides after the object has its name and uid, for example a Job's selector; the
    /// status starts afresh.
    pub fn prepare_create(&self, object: &mut Value) {
        if self.origin == Origin::BuiltIn {
            built_in::prepare(&self.gvk, object);
        }
    }

    /// The 400 message for a value whose JSON type does not fit its field, worded as the reference's decoder
    /// does (`... json: cannot unmarshal string into Go struct field ...`). Custom kinds are only read into
    /// structures as far as `metadata` goes; the rest of them reports wrong types in [`Schema::validate`].
    pub fn type_error(&self, object: &Value) -> Option<String> {
        let why = match self.origin {
            Origin::BuiltIn => decode::type_error(self.root(), object)?,
            Origin::Custom => decode::type_error(built_in::object_meta(), object.get("metadata")?)?,
        };
        Some(self.undecodable(&why))
    }

    /// What is wrong with a new object; empty when it is acceptable.
    pub fn validate(&self, object: &Value) -> Vec<Cause> {
        match self.origin {
            Origin::Custom => custom::validate(self, object, None),
            Origin::BuiltIn => built_in::check(self, object, None),
        }
    }

    /// What is wrong with replacing `old` by `new`: everything [`Schema::validate`] finds, except in custom
    /// objects for parts that did not change, and changes of fields that may not change. Requests that are
    /// allowed to change what an update is not (binding a pod, adding ephemeral containers) call
    /// [`Schema::validate`] instead.
    pub fn validate_update(&self, new: &Value, old: &Value) -> Vec<Cause> {
        match self.origin {
            Origin::Custom => custom::validate(self, new, Some(old)),
            Origin::BuiltIn => built_in::check(self, new, Some(old)),
        }
    }
}
