//! Everything that is checked about a custom object, in the reference's order.
//!
//! Metadata, then the JSON schema, then embedded objects, then uniqueness in sets and maps. Expression rules
//! come last and only when nothing before them leaves the object too broken to evaluate.

use serde_json::Value;

use super::cause::{Cause, Causes, Path, Reason};
use super::graph::Node;
use super::meta::{self, NameRule};
use super::object::text;
use super::{MAX_DEPTH, Schema, cel, lists, validate};

pub(super) fn validate(schema: &Schema, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Causes::default();
    let rules = meta::Rules {
        name: NameRule::Subdomain,
        namespaced: schema.namespaced,
        qualified_finalizers: false,
    };
    let path = Path::ROOT.field("metadata");
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    meta::check(metadata, rules, &path, &mut causes);
    if let Some(old) = old {
        let old = old.get("metadata").unwrap_or(&Value::Null);
        meta::check_update(metadata, old, &path, &mut causes);
    }
    let root = schema.root();
    validate::validate(root, object, old, &mut causes);
    embedded(root, object, &Path::ROOT, 0, &mut causes);
    if old.is_none_or(|old| is_unique(root, old)) {
        lists::check_unique(root, object, &mut causes);
    }
    let blocking = |cause: &Cause| {
        matches!(
            cause.reason,
            Reason::Required | Reason::TooLong | Reason::TooMany | Reason::TypeInvalid
        )
    };
    if !root.graph().has_expressions {
        return causes.into_vec();
    }
    if causes.iter().any(blocking) {
        let detail = "some validation rules were not checked because the object was invalid; correct the \
                      existing errors to complete validation";
        causes.invalid(&Path::ROOT, &Value::Null, detail);
    } else {
        cel::check(root, object, old, &mut causes);
    }
    causes.into_vec()
}

fn is_unique(root: Node<'_>, object: &Value) -> bool {
    let mut causes = Causes::default();
    lists::check_unique(root, object, &mut causes);
    causes.is_empty()
}

/// Checks objects inside the object (`x-kubernetes-embedded-resource`): they must say what they are, and
/// their metadata must be well formed, but need no name.
fn embedded(node: Node<'_>, value: &Value, path: &Path<'_>, depth: usize, causes: &mut Causes) {
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::Object(fields) => {
            if node.is_embedded_resource() && !path.is_root() {
                embedded_resource(value, path, causes);
            }
            for (name, value) in fields {
                if let Some(field) = node.field(name) {
                    embedded(field, value, &path.field(name), depth + 1, causes);
                }
            }
        }
        Value::Array(items) => {
            let Some(shape) = node.items() else { return };
            for (index, item) in items.iter().enumerate() {
                embedded(shape, item, &path.index(index), depth + 1, causes);
            }
        }
        _ => {}
    }
}

fn embedded_resource(value: &Value, path: &Path<'_>, causes: &mut Causes) {
    for field in ["apiVersion", "kind"] {
        if text(value, field).is_empty() {
            causes.required(&path.field(field), "must not be empty");
        }
    }
    let Some(metadata) = value.get("metadata") else { return };
    let mut metadata = metadata.clone();
    if let Some(fields) = metadata.as_object_mut()
        && fields.get("name").is_none_or(|name| name == "")
    {
        fields.insert("name".to_owned(), "unnamed".into());
    }
    let rules =
        meta::Rules { name: NameRule::PathSegment, namespaced: None, qualified_finalizers: false };
    meta::check(&metadata, rules, &path.field("metadata"), causes);
}
