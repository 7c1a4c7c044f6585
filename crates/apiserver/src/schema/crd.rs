//! CustomResourceDefinitions: may this one be created, and what does it define?
//!
//! A definition is refused when its schema is not structural, because pruning, defaulting and merging would
//! then be ambiguous. Messages and paths are those of kube-apiserver. One oddity is kept: when all versions
//! have the same schema, the reference reports under `spec.validation`, its internal place for it.

mod structural;

use serde_json::{Value, json};

use super::cause::{Causes, Path};
use super::meta::{self, NameRule};
use super::object::{list as items, text};
use super::{BuildError, Gvk, Schema, names};

/// Why a version of a definition has no usable schema.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CrdError {
    #[error("no version named {version:?}")]
    NoVersion { version: String },
    #[error("version {version:?} has no schema")]
    NoSchema { version: String },
    #[error("version {version:?} has an unusable schema")]
    Schema { version: String, source: BuildError },
}

impl Schema {
    /// The schema of one version that a CustomResourceDefinition (v1) declares.
    pub fn from_crd_version(definition: &Value, version: &str) -> Result<Self, CrdError> {
        let spec = definition.get("spec").unwrap_or(&Value::Null);
        let declared = items(spec, "versions").iter().find(|one| text(one, "name") == version);
        let Some(declared) = declared else {
            return Err(CrdError::NoVersion { version: version.to_owned() });
        };
        let Some(schema) = declared.pointer("/schema/openAPIV3Schema") else {
            return Err(CrdError::NoSchema { version: version.to_owned() });
        };
        let kind = spec.pointer("/names/kind").and_then(Value::as_str).unwrap_or_default();
        let gvk = Gvk::new(text(spec, "group"), version, kind);
        let mut built = Self::custom(gvk, schema)
            .map_err(|source| CrdError::Schema { version: version.to_owned(), source })?;
        built.namespaced = Some(text(spec, "scope") == "Namespaced");
        Ok(built)
    }
}

/// What is wrong with a definition; the object has its defaults.
pub(super) fn check(object: &Value, causes: &mut Causes) {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let path = Path::ROOT.field("spec");
    check_metadata(object, spec, causes);
    check_group(spec, &path, causes);
    check_scope(spec, &path, causes);
    check_versions(spec, &path, causes);
    check_names(spec.get("names").unwrap_or(&Value::Null), &path.field("names"), causes);
    check_conversion(spec, &path, causes);
    if spec.get("preserveUnknownFields").and_then(Value::as_bool) == Some(true) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        causes.invalid(&path.field("preserveUnknownFields"), &Value::Bool(true), detail);
    }
}

fn check_metadata(object: &Value, spec: &Value, causes: &mut Causes) {
    let path = Path::ROOT.field("metadata");
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    let rules = meta::Rules {
        name: NameRule::Subdomain,
        namespaced: Some(false),
        qualified_finalizers: false,
    };
    meta::check(metadata, rules, &path, causes);
    let group = text(spec, "group");
    let plural = spec.pointer("/names/plural").and_then(Value::as_str).unwrap_or_default();
    let name = text(metadata, "name");
    if !name.is_empty() && name != format!("{plural}.{group}") {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        causes.invalid_text(&path.field("name"), name, detail);
    }
    const APPROVAL: &str = "api-approved.kubernetes.io";
    let community = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group == *domain || group.ends_with(&format!(".{domain}")));
    let annotations = metadata.get("annotations").unwrap_or(&Value::Null);
    if community && text(annotations, APPROVAL).is_empty() {
        let detail = format!(
            "protected groups must have approval annotation \"{APPROVAL}\", see \
             https://github.com/kubernetes/enhancements/pull/1111"
        );
        causes.required(&path.field("annotations").key(APPROVAL), &detail);
    }
}

fn check_group(spec: &Value, path: &Path<'_>, causes: &mut Causes) {
    let (group, path) = (text(spec, "group"), path.field("group"));
    if group.is_empty() {
        causes.required(&path, "");
        return;
    }
    let findings = names::dns_subdomain(group);
    if !findings.is_empty() {
        causes.invalid_text(&path, group, &findings.join(","));
    } else if !group.contains('.') {
        causes.invalid_text(&path, group, "should be a domain with at least one dot");
    }
}

fn check_scope(spec: &Value, path: &Path<'_>, causes: &mut Causes) {
    match text(spec, "scope") {
        "" => causes.required(&path.field("scope"), ""),
        "Cluster" | "Namespaced" => {}
        other => {
            let supported = ["Cluster", "Namespaced"];
            causes.not_supported(&path.field("scope"), &Value::from(other), &supported);
        }
    }
}

fn check_versions(spec: &Value, path: &Path<'_>, causes: &mut Causes) {
    let list = path.field("versions");
    let versions = items(spec, "versions");
    let mut seen = std::collections::BTreeSet::new();
    let mut unique = true;
    for (index, version) in versions.iter().enumerate() {
        let (path, name) = (list.index(index), text(version, "name"));
        unique &= seen.insert(name);
        let findings = names::dns_1035_label(name);
        if !findings.is_empty() {
            causes.invalid_text(&path.field("name"), name, &findings.join(","));
        }
    }
    let value = spec.get("versions").unwrap_or(&Value::Null);
    if !unique {
        causes.invalid(&list, value, "must contain unique version names");
    }
    let is_storage = |version: &&Value| version.get("storage") == Some(&Value::Bool(true));
    if versions.iter().filter(is_storage).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        causes.invalid(&list, value, detail);
    }
    check_version_content(versions, path, causes);
}

/// Schema, subresources and columns: reported once when all versions agree.
fn check_version_content(versions: &[Value], path: &Path<'_>, causes: &mut Causes) {
    const PARTS: [&str; 3] = ["schema", "subresources", "additionalPrinterColumns"];
    let Some(first) = versions.first() else { return };
    let same = PARTS.iter().all(|part| versions.iter().all(|one| one.get(part) == first.get(part)));
    let list = path.field("versions");
    for (index, version) in versions.iter().enumerate() {
        let own = list.index(index);
        let base = if same { path } else { &own };
        let schema_path = base.field(if same { "validation" } else { "schema" });
        let schema_path = schema_path.field("openAPIV3Schema");
        match version.pointer("/schema/openAPIV3Schema") {
            Some(schema) => structural::check(schema, &schema_path, causes),
            None => {
                let path = own.field("schema");
                causes.required(&path.field("openAPIV3Schema"), "schemas are required");
            }
        }
        check_subresources(version, base, causes);
        check_columns(version, base, causes);
        if same {
            break;
        }
    }
}

fn check_subresources(version: &Value, path: &Path<'_>, causes: &mut Causes) {
    let path = path.field("subresources");
    let path = path.field("scale");
    let Some(scale) = version.pointer("/subresources/scale") else { return };
    for (field, root, required) in [
        ("specReplicasPath", ".spec", true),
        ("statusReplicasPath", ".status", true),
        ("labelSelectorPath", ".status or .spec", false),
    ] {
        let (value, path) = (text(scale, field), path.field(field));
        if value.is_empty() {
            if required {
                causes.required(&path, "");
            }
            continue;
        }
        let below = |root: &str| value.starts_with(&format!("{root}."));
        let fits = root.split(" or ").any(below);
        if !fits || value.contains('[') {
            let detail = format!("should be a json path under {root}");
            causes.invalid_text(&path, value, &detail);
        }
    }
}

fn check_columns(version: &Value, path: &Path<'_>, causes: &mut Causes) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    let list = path.field("additionalPrinterColumns");
    for (index, column) in items(version, "additionalPrinterColumns").iter().enumerate() {
        let path = list.index(index);
        if text(column, "name").is_empty() {
            causes.required(&path.field("name"), "");
        }
        match text(column, "type") {
            "" => causes
                .required(&path.field("type"), "must be one of boolean,date,integer,number,string"),
            kind if TYPES.contains(&kind) => {}
            kind => causes.not_supported(&path.field("type"), &json!(kind), &TYPES),
        }
        match text(column, "jsonPath") {
            "" => causes.required(&path.field("jsonPath"), ""),
            json_path if json_path.starts_with('.') => {}
            json_path => {
                let detail = "must be a simple json path starting with .";
                causes.invalid_text(&path.field("jsonPath"), json_path, detail);
            }
        }
    }
}

fn check_names(declared: &Value, path: &Path<'_>, causes: &mut Causes) {
    let label = |field: &str, value: &str, mixed: bool, causes: &mut Causes| {
        let path = path.field(field);
        if value.is_empty() {
            causes.required(&path, "");
            return;
        }
        let findings =
            names::dns_1035_label(&if mixed { value.to_lowercase() } else { value.to_owned() });
        if !findings.is_empty() {
            let rule = findings.join(",");
            let detail = if mixed {
                format!("may have mixed case, but should otherwise match: {rule}")
            } else {
                rule
            };
            causes.invalid_text(&path, value, &detail);
        }
    };
    label("plural", text(declared, "plural"), false, causes);
    label("singular", text(declared, "singular"), false, causes);
    label("kind", text(declared, "kind"), true, causes);
    label("listKind", text(declared, "listKind"), true, causes);
    for field in ["shortNames", "categories"] {
        let list = path.field(field);
        for (index, name) in items(declared, field).iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            let findings = names::dns_1035_label(name);
            if !findings.is_empty() {
                causes.invalid_text(&list.index(index), name, &findings.join(","));
            }
        }
    }
    let kind = text(declared, "kind");
    if !kind.is_empty() && kind == text(declared, "listKind") {
        let detail = "kind and listKind may not be the same";
        causes.invalid_text(&path.field("listKind"), kind, detail);
    }
}

fn check_conversion(spec: &Value, path: &Path<'_>, causes: &mut Causes) {
    let path = path.field("conversion");
    let Some(conversion) = spec.get("conversion") else { return };
    match text(conversion, "strategy") {
        "None" => {
            if conversion.get("webhook").is_some() {
                let detail = "should not be set when strategy is not set to Webhook";
                causes.forbidden(&path.field("webhookClientConfig"), detail);
            }
        }
        "Webhook" => {
            let webhook = conversion.get("webhook").unwrap_or(&Value::Null);
            if webhook.get("clientConfig").is_none() {
                let detail = "required when strategy is set to Webhook";
                causes.required(&path.field("webhookClientConfig"), detail);
            }
            if items(webhook, "conversionReviewVersions").is_empty() {
                causes.required(&path.field("conversionReviewVersions"), "");
            }
        }
        "" => causes.required(&path.field("strategy"), ""),
        other => {
            let supported = ["None", "Webhook"];
            causes.not_supported(&path.field("strategy"), &json!(other), &supported);
        }
    }
}

/// What may not change once a definition is in use.
pub(super) fn check_update(new: &Value, old: &Value, causes: &mut Causes) {
    let established = items(old.get("status").unwrap_or(&Value::Null), "conditions")
        .iter()
        .any(|one| (text(one, "type"), text(one, "status")) == ("Established", "True"));
    let path = Path::ROOT.field("spec");
    let names = path.field("names");
    let mut pinned =
        vec![("/spec/group", path.field("group")), ("/spec/names/plural", names.field("plural"))];
    if established {
        pinned.push(("/spec/scope", path.field("scope")));
        pinned.push(("/spec/names/kind", names.field("kind")));
    }
    for (pointer, path) in pinned {
        let value = new.pointer(pointer).unwrap_or(&Value::Null);
        if Some(value) != old.pointer(pointer) {
            causes.invalid(&path, value, "field is immutable");
        }
    }
    check_stored_versions(new, causes);
}

fn check_stored_versions(object: &Value, causes: &mut Causes) {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let status = object.get("status").unwrap_or(&Value::Null);
    let path = Path::ROOT.field("status");
    let path = path.field("storedVersions");
    let served: Vec<&str> = items(spec, "versions").iter().map(|one| text(one, "name")).collect();
    for (index, version) in items(status, "storedVersions").iter().enumerate() {
        let version = version.as_str().unwrap_or_default();
        if !served.contains(&version) {
            let detail = format!(
                "missing from spec.versions; {version} was previously a storage version, and must remain \
                 in spec.versions until a storage migration ensures no data remains persisted in {version} \
                 and removes {version} from status.storedVersions"
            );
            causes.invalid_text(&path.index(index), version, &detail);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition() -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
                "conversion": {"strategy": "None"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}}}],
            },
        })
    }

    /// The definition with the value at `pointer` replaced, or removed for null.
    fn with(pointer: &str, value: Value) -> Value {
        let mut object = definition();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let parent = object.pointer_mut(parent).unwrap();
        match value {
            Value::Null => drop(parent.as_object_mut().unwrap().remove(name)),
            value => parent[name] = value,
        }
        object
    }

    fn found(object: &Value) -> Vec<String> {
        let mut causes = Causes::default();
        check(object, &mut causes);
        causes.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn definitions_are_refused_for_what_is_wrong() {
        assert_eq!(found(&definition()), [""; 0]);
        let schema = "/spec/versions/0/schema/openAPIV3Schema";
        let size = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size";
        let at_size = "spec.validation.openAPIV3Schema.properties[spec].properties[size]";
        let cases = [
            (
                "/metadata/name",
                json!("thing.example.com"),
                vec![
                    r#"metadata.name: Invalid value: "thing.example.com": must be spec.names.plural+"."+spec.group"#
                        .to_owned(),
                ],
            ),
            ("/spec/scope", Value::Null, vec!["spec.scope: Required value".to_owned()]),
            (
                "/spec/scope",
                json!("Global"),
                vec![
                    r#"spec.scope: Unsupported value: "Global": supported values: "Cluster", "Namespaced""#
                        .to_owned(),
                ],
            ),
            ("/spec/names/kind", Value::Null, vec!["spec.names.kind: Required value".to_owned()]),
            (
                "/spec/versions/0/schema",
                Value::Null,
                vec![
                    "spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required"
                        .to_owned(),
                ],
            ),
            (
                schema,
                json!({"type": "string"}),
                vec![
                    r#"spec.validation.openAPIV3Schema.type: Invalid value: "string": must be object at the root"#
                        .to_owned(),
                ],
            ),
            (
                size,
                json!({}),
                vec![format!(
                    "{at_size}.type: Required value: must not be empty for specified object fields"
                )],
            ),
            (
                size,
                json!({"$ref": "#/x", "type": "string"}),
                vec![format!("{at_size}.$ref: Forbidden: $ref is not supported")],
            ),
            (
                size,
                json!({"type": "array"}),
                vec![format!("{at_size}.items: Required value: must be specified")],
            ),
            (
                size,
                json!({"type": "integer", "default": "x"}),
                vec![format!(
                    "{at_size}.default: Invalid value: \"string\":  in body must be of type integer: \"string\""
                )],
            ),
            (
                size,
                json!({"type": "object", "properties": {"a": {"type": "string"}},
                    "default": {"b": 1}}),
                vec![format!("{at_size}.default: Invalid value: {{\"b\":1}}: must not have unknown fields")],
            ),
            (
                size,
                json!({"type": "integer", "allOf": [{"type": "integer"}]}),
                vec![format!("{at_size}.allOf[0].type: Forbidden: must be empty to be structural")],
            ),
            (
                size,
                json!({"type": "object", "anyOf": [{"properties": {"x": {"minLength": 1}}}]}),
                vec![format!(
                    "{at_size}.properties[x]: Required value: because it is defined in {at_size}.anyOf[0].properties[x]"
                )],
            ),
            (
                size,
                json!({"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}},
                    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}),
                vec![format!(
                    "{at_size}.items.properties[k].default: Required value: this property is in \
                     x-kubernetes-list-map-keys, so it must have a default or be a required property"
                )],
            ),
        ];
        for (pointer, value, want) in cases {
            let object = with(pointer, value.clone());
            assert_eq!(found(&object), want, "{pointer} = {value}");
        }
    }

    #[test]
    fn exactly_one_version_is_stored() {
        let mut two = definition();
        let mut second = two["spec"]["versions"][0].clone();
        second["name"] = json!("v2");
        two["spec"]["versions"].as_array_mut().unwrap().push(second);
        assert!(
            found(&two)[0].ends_with("must have exactly one version marked as storage version")
        );
        two["spec"]["versions"][1]["storage"] = json!(false);
        assert_eq!(found(&two), [""; 0]);
        two["spec"]["versions"][1]["name"] = json!("v1");
        assert!(found(&two)[0].ends_with("must contain unique version names"));
    }

    #[test]
    fn broken_expressions_are_refused() {
        let pointer =
            "/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations";
        assert_eq!(found(&with(pointer, json!([{"rule": "self.size > 1"}]))), [""; 0]);
        let causes = found(&with(pointer, json!([{"rule": "self.size >"}])));
        let path =
            "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule";
        assert!(
            causes[0].starts_with(&format!(
                "{path}: Invalid value: \"self.size >\": compilation failed"
            ))
        );
    }

    #[test]
    fn identity_of_an_established_definition_is_fixed() {
        let mut old = definition();
        old["status"] = json!({"conditions": [{"type": "Established", "status": "True"}]});
        let found = |new: &Value| {
            let mut causes = Causes::default();
            check_update(new, &old, &mut causes);
            causes.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(found(&definition()), [""; 0]);
        let new = with("/spec/scope", json!("Cluster"));
        assert_eq!(found(&new), [r#"spec.scope: Invalid value: "Cluster": field is immutable"#]);
        let mut new = definition();
        new["status"] = json!({"storedVersions": ["v0"]});
        assert!(found(&new)[0].starts_with(
            "status.storedVersions[0]: Invalid value: \"v0\": missing from spec.versions"
        ));
    }

    #[test]
    fn a_version_becomes_a_schema() {
        let schema = Schema::from_crd_version(&definition(), "v1").unwrap();
        assert_eq!(schema.gvk(), &Gvk::new("example.com", "v1", "Thing"));
        assert!(schema.root().at(&["metadata", "ownerReferences", "[]", "uid"]).is_some());
        let error = Schema::from_crd_version(&definition(), "v9").unwrap_err();
        assert_eq!(error.to_string(), "no version named \"v9\"");
    }
}
