//! Which objects are refused with 422?
//!
//! Metadata rules are the same for every kind and live here; everything below `spec` is checked by
//! the kind's schema.

use serde_json::{Value, json};

use super::call::Call;
use super::kinds::{NameRule, Served};
use super::status::{Cause, Status};
use super::write::Part;
use super::{meta, names};

/// Annotations of one object together, keys and values, in bytes.
const MAX_ANNOTATIONS: usize = 256 << 10;

/// Checks a new object.
pub(super) fn create(call: &Call, object: &Value) -> Result<(), Status> {
    let mut causes = Vec::new();
    check_name(&call.served, object, &mut causes);
    check_metadata(object, &mut causes);
    if let Some(schema) = &call.served.schema {
        causes.extend(schema.validate(object).into_iter().map(from_schema));
    }
    refuse(&call.served, meta::name(object), causes)
}

/// Checks the replacement of an object.
pub(super) fn update(call: &Call, part: Part, new: &Value, old: &Value) -> Result<(), Status> {
    let mut causes = Vec::new();
    check_metadata(new, &mut causes);
    check_new_finalizers(new, old, &mut causes);
    if let Some(schema) = &call.served.schema {
        let found = match part {
            Part::Main | Part::Status => schema.validate_update(new, old),
            Part::Other => schema.validate(new),
        };
        causes.extend(found.into_iter().map(from_schema));
    }
    refuse(&call.served, call.name(), causes)
}

fn from_schema(cause: crate::schema::Cause) -> Cause {
    Cause { reason: cause.reason.as_str().into(), message: cause.message, field: cause.field }
}

fn refuse(served: &Served, name: &str, causes: Vec<Cause>) -> Result<(), Status> {
    if causes.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&served.group, &served.kind, name, causes))
}

fn check_name(served: &Served, object: &Value, causes: &mut Vec<Cause>) {
    let rule = match served.traits.names {
        NameRule::Subdomain => names::dns_subdomain,
        NameRule::Label => names::dns_label,
        NameRule::Service => names::dns_1035_label,
        NameRule::PathSegment => names::path_segment,
    };
    let name = meta::name(object);
    let prefix = meta::generate_name(object);
    if !prefix.is_empty() {
        // A prefix may end in a dash; a letter stands for what will follow.
        let trial = format!("{}a", prefix.trim_end_matches('-'));
        for why in rule(&trial) {
            causes.push(Cause::invalid("metadata.generateName", &json!(prefix), why));
        }
    }
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
        return;
    }
    for why in rule(name) {
        causes.push(Cause::invalid("metadata.name", &json!(name), why));
    }
}

fn check_metadata(object: &Value, causes: &mut Vec<Cause>) {
    check_labels(object, causes);
    check_annotations(object, causes);
    check_owners(object, causes);
    for finalizer in meta::finalizers(object) {
        for why in names::qualified_name(finalizer) {
            causes.push(Cause::invalid("metadata.finalizers", &json!(finalizer), why));
        }
        if !finalizer.contains('/') && !is_standard_finalizer(finalizer) {
            causes.push(Cause::invalid(
                "metadata.finalizers",
                &json!(finalizer),
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
    }
    let has = |name: &str| meta::finalizers(object).contains(&name);
    if has("orphan") && has("foregroundDeletion") {
        causes.push(Cause::invalid(
            "metadata.finalizers",
            &json!(meta::finalizers(object)),
            "finalizers orphan and foregroundDeletion cannot be both set",
        ));
    }
}

fn is_standard_finalizer(name: &str) -> bool {
    matches!(name, "kubernetes" | "orphan" | "foregroundDeletion")
        // Custom resource definitions carry this one, which has no slash either.
        || name == "customresourcecleanup.apiextensions.k8s.io"
}

fn check_labels(object: &Value, causes: &mut Vec<Cause>) {
    let labels = meta::metadata(object).get("labels").and_then(Value::as_object);
    for (key, value) in labels.into_iter().flatten() {
        for why in names::qualified_name(key) {
            causes.push(Cause::invalid("metadata.labels", &json!(key), why));
        }
        for why in names::label_value(value.as_str().unwrap_or_default()) {
            causes.push(Cause::invalid("metadata.labels", value, why));
        }
    }
}

fn check_annotations(object: &Value, causes: &mut Vec<Cause>) {
    let annotations = meta::metadata(object).get("annotations").and_then(Value::as_object);
    let mut size = 0usize;
    for (key, value) in annotations.into_iter().flatten() {
        size += key.len() + value.as_str().unwrap_or_default().len();
        for why in names::qualified_name(&key.to_lowercase()) {
            causes.push(Cause::invalid("metadata.annotations", &json!(key), why));
        }
    }
    if size > MAX_ANNOTATIONS {
        causes.push(Cause {
            reason: "FieldValueTooLong".into(),
            message: format!("Too long: may not be more than {MAX_ANNOTATIONS} bytes"),
            field: "metadata.annotations".into(),
        });
    }
}

fn check_owners(object: &Value, causes: &mut Vec<Cause>) {
    let owners = meta::metadata(object).get("ownerReferences").and_then(Value::as_array);
    let mut controller: Option<&Value> = None;
    for (at, owner) in owners.into_iter().flatten().enumerate() {
        for (field, why) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "kind must not be empty"),
            ("name", "name must not be empty"),
            ("uid", "uid must not be empty"),
        ] {
            if owner.get(field).and_then(Value::as_str).unwrap_or_default().is_empty() {
                let path = format!("metadata.ownerReferences[{at}].{field}");
                causes.push(Cause::invalid(path, &json!(""), why));
            }
        }
        if owner.get("controller").and_then(Value::as_bool) != Some(true) {
            continue;
        }
        if let Some(first) = controller {
            let name = |owner: &Value| owner.get("name").and_then(Value::as_str).map(str::to_owned);
            causes.push(Cause::invalid(
                "metadata.ownerReferences",
                owners.map_or(&Value::Null, |_| &meta::metadata(object)["ownerReferences"]),
                format!(
                    "Only one reference can have Controller set to true. Found \"true\" in \
                     references for {} and {}",
                    name(first).unwrap_or_default(),
                    name(owner).unwrap_or_default()
                ),
            ));
        }
        controller = Some(owner);
    }
}

fn check_new_finalizers(new: &Value, old: &Value, causes: &mut Vec<Cause>) {
    if !meta::is_deleting(old) {
        return;
    }
    let before = meta::finalizers(old);
    let added: Vec<String> = meta::finalizers(new)
        .into_iter()
        .filter(|finalizer| !before.contains(finalizer))
        .map(|finalizer| format!("{finalizer:?}"))
        .collect();
    if !added.is_empty() {
        causes.push(Cause::forbidden(
            "metadata.finalizers",
            format!(
                "no new finalizers can be added if the object is being deleted, found new \
                 finalizers []string{{{}}}",
                added.join(", ")
            ),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_has_rejected_neighbours() {
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"});
        let boss =
            json!({"apiVersion": "v1", "kind": "P", "name": "p", "uid": "u", "controller": true});
        let cases = [
            ("plain", json!({"labels": {"a": "b"}, "annotations": {"A/b": "any thing"}}), 0),
            ("bad label key", json!({"labels": {"-": "b"}}), 1),
            ("bad label value", json!({"labels": {"a": "b c"}}), 1),
            ("bad annotation key", json!({"annotations": {"a b": ""}}), 1),
            ("too many annotations", json!({"annotations": {"a": "x".repeat(262_144)}}), 1),
            ("owner", json!({"ownerReferences": [owner]}), 0),
            ("owner without facts", json!({"ownerReferences": [{}]}), 4),
            ("one boss", json!({"ownerReferences": [boss]}), 0),
            ("two bosses", json!({"ownerReferences": [boss, boss]}), 1),
            ("finalizer", json!({"finalizers": ["example.com/done", "orphan"]}), 0),
            ("finalizer without a domain", json!({"finalizers": ["done"]}), 1),
            ("contradiction", json!({"finalizers": ["orphan", "foregroundDeletion"]}), 1),
        ];
        for (name, metadata, want) in cases {
            let mut causes = Vec::new();
            check_metadata(&json!({"metadata": metadata}), &mut causes);
            assert_eq!(causes.len(), want, "{name}: {causes:?}");
        }
    }

    #[test]
    fn finalizers_only_leave_a_dying_object() {
        let dying = |list: Value| json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": list}});
        let mut causes = Vec::new();
        check_new_finalizers(&dying(json!(["a/b"])), &dying(json!(["a/b", "c/d"])), &mut causes);
        assert_eq!(causes, []);
        check_new_finalizers(&dying(json!(["a/b", "e/f"])), &dying(json!(["a/b"])), &mut causes);
        assert_eq!(causes.len(), 1);
    }
}
