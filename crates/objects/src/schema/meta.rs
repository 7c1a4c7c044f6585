//! `metadata`: the part every object has, with the same rules for all of them.

use serde_json::Value;

use super::cause::{Causes, Path};
use super::names::{self, Findings};
use super::object::text;

const ANNOTATIONS_LIMIT: u64 = 256 * 1024;
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// Rule for `metadata.name`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameRule {
    Subdomain,
    Label,
    Dns1035Label,
    PathSegment,
}

impl NameRule {
    fn check(self, name: &str) -> Findings {
        match self {
            Self::Subdomain => names::dns_subdomain(name),
            Self::Label => names::dns_label(name),
            Self::Dns1035Label => names::dns_1035_label(name),
            Self::PathSegment => names::path_segment(name),
        }
    }
}

/// What the kind says about its metadata.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) name: NameRule,
    /// `None`: the kind's scope is not known here, the namespace is not judged.
    pub(super) namespaced: Option<bool>,
    /// Finalizers need a domain, unless they are Kubernetes' own.
    pub(super) qualified_finalizers: bool,
}

/// Checks `metadata` of a whole object or of an embedded one.
pub(super) fn check(metadata: &Value, rules: Rules, path: &Path<'_>, causes: &mut Causes) {
    check_name(metadata, rules, path, causes);
    if let Some(generation) = metadata.get("generation").filter(|value| is_negative(value)) {
        let path = path.field("generation");
        causes.invalid(&path, generation, "must be greater than or equal to 0");
    }
    labels(metadata.get("labels"), &path.field("labels"), causes);
    annotations(metadata.get("annotations"), &path.field("annotations"), causes);
    owners(metadata, path, causes);
    finalizers(metadata, rules, path, causes);
}

fn check_name(metadata: &Value, rules: Rules, path: &Path<'_>, causes: &mut Causes) {
    let prefix = text(metadata, "generateName");
    if !prefix.is_empty() {
        let field = path.field("generateName");
        for finding in rules.name.check(&without_trailing_dash(prefix)) {
            causes.invalid_text(&field, prefix, &finding);
        }
    }
    let (name, field) = (text(metadata, "name"), path.field("name"));
    if name.is_empty() {
        causes.required(&field, "name or generateName is required");
    } else {
        for finding in rules.name.check(name) {
            causes.invalid_text(&field, name, &finding);
        }
    }
    let (namespace, field) = (text(metadata, "namespace"), path.field("namespace"));
    match rules.namespaced {
        Some(true) if namespace.is_empty() => causes.required(&field, ""),
        Some(true) => {
            for finding in names::dns_label(namespace) {
                causes.invalid_text(&field, namespace, &finding);
            }
        }
        Some(false) if !namespace.is_empty() => {
            causes.forbidden(&field, "not allowed on this type");
        }
        Some(false) | None => {}
    }
}

/// A prefix may end with a dash because the generated suffix follows it.
fn without_trailing_dash(prefix: &str) -> String {
    match prefix.strip_suffix('-') {
        Some(head) if !head.is_empty() => format!("{head}a"),
        _ => prefix.to_owned(),
    }
}

fn is_negative(value: &Value) -> bool {
    value.as_i64().is_some_and(|number| number < 0)
}

/// Checks a map of labels.
pub(super) fn labels(labels: Option<&Value>, path: &Path<'_>, causes: &mut Causes) {
    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        for finding in names::qualified_name(key) {
            causes.invalid_text(path, key, &finding);
        }
        let value = value.as_str().unwrap_or_default();
        for finding in names::label_value(value) {
            causes.invalid_text(path, value, &finding);
        }
    }
}

/// Checks a map of annotations.
pub(super) fn annotations(annotations: Option<&Value>, path: &Path<'_>, causes: &mut Causes) {
    let mut size = 0_u64;
    for (key, value) in annotations.and_then(Value::as_object).into_iter().flatten() {
        for finding in names::qualified_name(&key.to_lowercase()) {
            causes.invalid_text(path, key, &finding);
        }
        size += key.len() as u64 + value.as_str().map_or(0, str::len) as u64;
    }
    if size > ANNOTATIONS_LIMIT {
        causes.too_long(path, ANNOTATIONS_LIMIT);
    }
}

fn owners(metadata: &Value, path: &Path<'_>, causes: &mut Causes) {
    let path = path.field("ownerReferences");
    let Some(owners) = metadata.get("ownerReferences") else { return };
    let mut controller: Option<&str> = None;
    for owner in owners.as_array().into_iter().flatten() {
        let api_version = text(owner, "apiVersion");
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        if version.is_empty() {
            let field = path.field("apiVersion");
            causes.invalid_text(&field, api_version, "version must not be empty");
        }
        for field in ["kind", "name", "uid"] {
            if text(owner, field).is_empty() {
                causes.invalid_text(&path.field(field), "", "must not be empty");
            }
        }
        if (group, version, text(owner, "kind")) == ("", "v1", "Event") {
            causes.invalid(&path, owner, "/v1, Kind=Event is disallowed from being an owner");
        }
        if owner.get("controller").and_then(Value::as_bool) == Some(true) {
            let name = text(owner, "name");
            match controller {
                Some(first) => {
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in \
                         references for {first} and {name}"
                    );
                    causes.invalid(&path, owners, &detail);
                }
                None => controller = Some(name),
            }
        }
    }
}

fn finalizers(metadata: &Value, rules: Rules, path: &Path<'_>, causes: &mut Causes) {
    let path = path.field("finalizers");
    let finalizers = metadata.get("finalizers").and_then(Value::as_array);
    let finalizers: Vec<&str> =
        finalizers.into_iter().flatten().filter_map(Value::as_str).collect();
    for finalizer in &finalizers {
        for finding in names::qualified_name(finalizer) {
            causes.invalid_text(&path, finalizer, &finding);
        }
    }
    if finalizers.contains(&"orphan") && finalizers.contains(&"foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        causes.invalid(&path, &Value::from(finalizers.clone()), detail);
    }
    for (index, finalizer) in finalizers.iter().enumerate() {
        if rules.qualified_finalizers
            && !finalizer.contains('/')
            && !STANDARD_FINALIZERS.contains(finalizer)
        {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            causes.invalid_text(&path.index(index), finalizer, detail);
        }
    }
}

/// Checks what may not change in `metadata`.
pub(super) fn check_update(new: &Value, old: &Value, path: &Path<'_>, causes: &mut Causes) {
    no_new_finalizers(new, old, path, causes);
    const IMMUTABLE: [&str; 6] = [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ];
    for field in IMMUTABLE {
        let (new, old) = (new.get(field), old.get(field));
        let (new, old) = (new.unwrap_or(&Value::Null), old.unwrap_or(&Value::Null));
        if new != old {
            causes.invalid(&path.field(field), new, "field is immutable");
        }
    }
    let generation = |value: &Value| value.get("generation").and_then(Value::as_i64).unwrap_or(0);
    if generation(new) < generation(old) {
        let value = Value::from(generation(new));
        causes.invalid(&path.field("generation"), &value, "must not be decremented");
    }
}

fn no_new_finalizers(new: &Value, old: &Value, path: &Path<'_>, causes: &mut Causes) {
    if old.get("deletionTimestamp").is_none_or(Value::is_null) {
        return;
    }
    let list = |value: &Value| -> Vec<String> {
        let finalizers = value.get("finalizers").and_then(Value::as_array);
        finalizers.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let known = list(old);
    let added: Vec<String> = list(new)
        .into_iter()
        .filter(|name| !known.contains(name))
        .map(|name| format!("{name:?}"))
        .collect();
    if !added.is_empty() {
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers \
             []string{{{}}}",
            added.join(", ")
        );
        causes.forbidden(&path.field("finalizers"), &detail);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const RULES: Rules =
        Rules { name: NameRule::Subdomain, namespaced: Some(true), qualified_finalizers: true };

    fn found(metadata: &Value) -> Vec<String> {
        let mut causes = Causes::default();
        check(metadata, RULES, &Path::ROOT.field("metadata"), &mut causes);
        causes.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn metadata_is_checked_field_by_field() {
        let good = json!({"name": "a", "namespace": "b"});
        let with = |field: &str, value: Value| {
            let mut metadata = good.clone();
            metadata[field] = value;
            metadata
        };
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"});
        let controller = |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": true});
        let cases = [
            ("plain", good.clone(), vec![]),
            (
                "no name",
                json!({"namespace": "b"}),
                vec!["metadata.name: Required value: name or generateName is required"],
            ),
            ("no namespace", json!({"name": "a"}), vec!["metadata.namespace: Required value"]),
            ("prefix with a dash", with("generateName", json!("a-")), vec![]),
            ("label", with("labels", json!({"a/b": "c"})), vec![]),
            ("owner", with("ownerReferences", json!([owner])), vec![]),
            (
                "empty owner",
                with("ownerReferences", json!([{}])),
                vec![
                    r#"metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty"#,
                    r#"metadata.ownerReferences.kind: Invalid value: "": must not be empty"#,
                    r#"metadata.ownerReferences.name: Invalid value: "": must not be empty"#,
                    r#"metadata.ownerReferences.uid: Invalid value: "": must not be empty"#,
                ],
            ),
            ("one controller", with("ownerReferences", json!([controller("a")])), vec![]),
            ("finalizer", with("finalizers", json!(["a.b/c", "orphan"])), vec![]),
            (
                "bare finalizer",
                with("finalizers", json!(["c"])),
                vec![
                    "metadata.finalizers[0]: Invalid value: \"c\": name is neither a standard finalizer \
                     name nor is it fully qualified",
                ],
            ),
            ("annotations fit", with("annotations", json!({"a": "x".repeat(262_143)})), vec![]),
            (
                "annotations too long",
                with("annotations", json!({"a": "x".repeat(262_144)})),
                vec!["metadata.annotations: Too long: may not be more than 262144 bytes"],
            ),
        ];
        for (name, metadata, want) in cases {
            assert_eq!(found(&metadata), want, "{name}");
        }
        let two = with("ownerReferences", json!([controller("a"), controller("b")]));
        assert!(found(&two)[0].contains("Only one reference can have Controller set to true"));
        let label = with("labels", json!({"a": "b c"}));
        assert!(
            found(&label)[0].starts_with("metadata.labels: Invalid value: \"b c\": a valid label")
        );
    }

    #[test]
    fn identity_does_not_change() {
        let old = json!({"name": "a", "uid": "1", "deletionTimestamp": "t", "finalizers": ["a/b"]});
        let found = |new: Value| {
            let mut causes = Causes::default();
            check_update(&new, &old, &Path::ROOT.field("metadata"), &mut causes);
            causes.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(found(old.clone()), [""; 0]);
        let mut new = old.clone();
        new["name"] = json!("b");
        new["finalizers"] = json!(["a/b", "c/d"]);
        assert_eq!(
            found(new),
            [
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being \
                 deleted, found new finalizers []string{\"c/d\"}",
                "metadata.name: Invalid value: \"b\": field is immutable",
            ]
        );
    }
}
