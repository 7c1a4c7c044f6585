//! CustomResourceDefinitions: may this one be created, and what does it define?
//!
//! A definition is refused when its schema is not structural, because pruning, defaulting and merging would
//! then be ambiguous. Messages and paths are those of kube-apiserver. One oddity is kept: when all versions
//! have the same schema, the reference reports under `spec.validation`, its internal place for it.

mod keywords;
mod structural;
#[cfg(test)]
mod tests;

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
