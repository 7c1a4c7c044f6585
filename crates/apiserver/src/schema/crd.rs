//! CustomResourceDefinitions: may this one be created, and what does it define?
//!
//! A definition is refused when its schema is not structural, because pruning, defaulting and merging would
//! then be ambiguous. Messages and paths are those of kube-apiserver. One oddity is kept: when all versions
//! have the same schema, the reference reports under `spec.validation`, its internal place for it.

mod keywords;
mod structural;

use serde_json::{Value, json};

use super::cause::{Causes, Path};
use super::meta::{self, NameRule};
use super::object::{get, has, list as items, text};
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
        let spec = get(definition, "spec");
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
    let spec = get(object, "spec");
    let path = Path::ROOT.field("spec");
    check_metadata(object, spec, causes);
    check_group(spec, &path, causes);
    check_scope(spec, &path, causes);
    let shared = Shared::of(items(spec, "versions"));
    check_versions(spec, shared, &path, causes);
    check_names(get(spec, "names"), &path.field("names"), causes);
    if let Some(first) = items(spec, "versions").first() {
        check_content(first, shared, &path, causes);
    }
    check_conversion(spec, &path, causes);
    if spec.get("preserveUnknownFields").and_then(Value::as_bool) == Some(true) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        causes.invalid(&path.field("preserveUnknownFields"), &Value::Bool(true), detail);
    }
}

fn check_metadata(object: &Value, spec: &Value, causes: &mut Causes) {
    let path = Path::ROOT.field("metadata");
    let metadata = get(object, "metadata");
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
    let annotations = get(metadata, "annotations");
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

/// Which parts all versions have in common. The reference keeps such a part once, under the spec, and
/// reports it there.
#[derive(Clone, Copy)]
struct Shared {
    schema: bool,
    subresources: bool,
    columns: bool,
}

impl Shared {
    fn of(versions: &[Value]) -> Self {
        let same = |part: &str| {
            let mut parts = versions.iter().map(|version| get(version, part));
            let first = parts.next();
            parts.all(|part| Some(part) == first)
        };
        Self {
            schema: same("schema"),
            subresources: same("subresources"),
            columns: same("additionalPrinterColumns"),
        }
    }

    fn not(self) -> Self {
        Self { schema: !self.schema, subresources: !self.subresources, columns: !self.columns }
    }
}

fn check_versions(spec: &Value, shared: Shared, path: &Path<'_>, causes: &mut Causes) {
    let list = path.field("versions");
    let versions = items(spec, "versions");
    let mut seen = std::collections::BTreeSet::new();
    let mut unique = true;
    for (index, version) in versions.iter().enumerate() {
        if version.pointer("/schema/openAPIV3Schema").is_none() {
            let at = list.index(index);
            let at = at.field("schema");
            causes.required(&at.field("openAPIV3Schema"), "schemas are required");
        }
    }
    for (index, version) in versions.iter().enumerate() {
        let (path, name) = (list.index(index), text(version, "name"));
        unique &= seen.insert(name);
        let findings = names::dns_1035_label(name);
        if !findings.is_empty() {
            causes.invalid_text(&path.field("name"), name, &findings.join(","));
        }
        check_content(version, shared.not(), &path, causes);
    }
    let value = get(spec, "versions");
    if !unique {
        causes.invalid(&list, value, "must contain unique version names");
    }
    let is_storage = |version: &&Value| get(version, "storage") == true;
    if versions.iter().filter(is_storage).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        causes.invalid(&list, value, detail);
    }
}

/// Checks the chosen parts of a version, at the version's path or at the spec's.
fn check_content(version: &Value, parts: Shared, path: &Path<'_>, causes: &mut Causes) {
    let at_spec = path.depth() == 1;
    if parts.schema
        && let Some(schema) = version.pointer("/schema/openAPIV3Schema")
    {
        let at = path.field(if at_spec { "validation" } else { "schema" });
        check_schema(schema, has(get(version, "subresources"), "status"), &at, causes);
    }
    if parts.subresources {
        check_scale(version, path, causes);
    }
    if parts.columns {
        check_columns(version, path, causes);
    }
}

fn check_schema(schema: &Value, has_status: bool, path: &Path<'_>, causes: &mut Causes) {
    let path = path.field("openAPIV3Schema");
    if has_status {
        check_root(schema, &path, causes);
    }
    if get(schema, "nullable") == true {
        causes.forbidden(&path.field("nullable"), "nullable cannot be true at the root");
    }
    let found = structural::check(schema, &path);
    let is_structural = found.is_empty();
    causes.append(found);
    causes.append(keywords::check(schema, is_structural, &path));
}

/// The schema of the status is cut out of a root that may therefore not tie fields together.
fn check_root(schema: &Value, path: &Path<'_>, causes: &mut Causes) {
    const REFUSED: [&str; 8] = [
        "additionalProperties",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "enum",
        "minProperties",
        "maxProperties",
    ];
    if REFUSED.iter().any(|keyword| has(schema, keyword)) {
        let detail = "only [Description Type Format Title Maximum ExclusiveMaximum Minimum \
                      ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems \
                      MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields \
                      XValidations] fields are allowed at the root of the schema if the status \
                      subresource is enabled";
        causes.invalid(path, schema, detail);
    }
}

fn check_scale(version: &Value, path: &Path<'_>, causes: &mut Causes) {
    let path = path.field("subresources");
    let Some(scale) = version.pointer("/subresources/scale") else { return };
    let path = path.field("scale");
    for (field, roots, required) in [
        ("specReplicasPath", ".spec", true),
        ("statusReplicasPath", ".status", true),
        ("labelSelectorPath", "either .spec or .status", false),
    ] {
        let (value, path) = (text(scale, field), path.field(field));
        if value.is_empty() {
            if required {
                causes.required(&path, "");
            }
            continue;
        }
        let under = |root: &str| value.strip_prefix(root).is_some_and(|rest| rest.starts_with('.'));
        if !value.starts_with('.') {
            causes.invalid_text(&path, value, "must be a simple json path starting with .");
        } else if !roots.split(' ').any(|root| root.starts_with('.') && under(root)) {
            let detail = format!("should be a json path under {roots}");
            causes.invalid_text(&path, value, &detail);
        }
    }
}

fn check_columns(version: &Value, path: &Path<'_>, causes: &mut Causes) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] =
        ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    let list = path.field("additionalPrinterColumns");
    for (index, column) in items(version, "additionalPrinterColumns").iter().enumerate() {
        let path = list.index(index);
        if text(column, "name").is_empty() {
            causes.required(&path.field("name"), "");
        }
        let known = format!("must be one of {}", TYPES.join(","));
        match text(column, "type") {
            "" => causes.required(&path.field("type"), &known),
            kind if TYPES.contains(&kind) => {}
            kind => causes.invalid_text(&path.field("type"), kind, &known),
        }
        let format = text(column, "format");
        if !format.is_empty() && !FORMATS.contains(&format) {
            let known = format!("must be one of {}", FORMATS.join(","));
            causes.invalid_text(&path.field("format"), format, &known);
        }
        // The reference's internal name of the field.
        let path = path.field("JSONPath");
        match text(column, "jsonPath") {
            "" => causes.required(&path, ""),
            json_path if json_path.starts_with('.') => {}
            json_path => {
                let detail = "must be a simple json path starting with .";
                causes.invalid_text(&path, json_path, detail);
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
            let webhook = get(conversion, "webhook");
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
    let established = items(get(old, "status"), "conditions")
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
    let spec = get(object, "spec");
    let status = get(object, "status");
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
            (
                schema,
                json!({"type": "thing"}),
                vec![
                    r#"spec.validation.openAPIV3Schema.type: Invalid value: "thing": must be object at the root"#
                        .to_owned(),
                    r#"spec.validation.openAPIV3Schema.type: Unsupported value: "thing": supported values: "array", "boolean", "integer", "number", "object", "string""#
                        .to_owned(),
                ],
            ),
            (
                schema,
                json!({"type": "object", "additionalProperties": {"type": "string"}}),
                vec![
                    "spec.validation.openAPIV3Schema.additionalProperties: Forbidden: must not be used at the root"
                        .to_owned(),
                ],
            ),
            (
                schema,
                json!({"type": "object", "properties": {"metadata": {"type": "object",
                    "properties": {"labels": {"type": "object"}}}}}),
                vec![
                    "spec.validation.openAPIV3Schema.properties[metadata]: Forbidden: must not specify anything \
                     other than name and generateName, but metadata is implicitly specified"
                        .to_owned(),
                ],
            ),
            (
                size,
                json!({"type": "object", "x-kubernetes-embedded-resource": true}),
                vec![format!(
                    "{at_size}.properties: Required value: must not be empty if \
                     x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
                )],
            ),
            (
                size,
                json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"}),
                vec![format!(
                    "{at_size}.items.x-kubernetes-map-type: Invalid value: \"null\": must be atomic as item of \
                     a list with x-kubernetes-list-type=set"
                )],
            ),
            (
                size,
                json!({"type": "array", "items": {"type": "integer",
                    "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]}}),
                vec![format!(
                    "{at_size}.items.x-kubernetes-validations[0].rule: Invalid value: \"self >= oldSelf\": \
                     oldSelf cannot be used on the uncorrelatable portion of the schema within {at_size}"
                )],
            ),
            (
                "/spec/versions/0/additionalPrinterColumns",
                json!([{"name": "Size", "type": "int", "jsonPath": ".spec.size"}]),
                vec![
                    r#"spec.additionalPrinterColumns[0].type: Invalid value: "int": must be one of boolean,date,integer,number,string"#
                        .to_owned(),
                ],
            ),
            (
                "/spec/versions/0/subresources",
                json!({"scale": {"specReplicasPath": ".status.size", "statusReplicasPath": ".status.size"}}),
                vec![
                    r#"spec.subresources.scale.specReplicasPath: Invalid value: ".status.size": should be a json path under .spec"#
                        .to_owned(),
                ],
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
