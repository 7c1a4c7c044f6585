//! How the lists and structures of built-in kinds merge.
//!
//! Each row restates one marker of the Kubernetes API types: which fields identify an element for
//! server-side apply (`listType`, `listMapKey`) and what strategic merge patch does (`patchStrategy`,
//! `patchMergeKey`). The two disagree in places, on purpose: ports of a container are identified by number
//! and protocol in apply but only by number in strategic merge. Lists without a row are atomic and replaced.

use serde_json::{Map, Value, json};

enum List {
    Atomic,
    Set,
    Map(&'static [&'static str]),
}

struct Row {
    definition: &'static str,
    field: &'static str,
    list: List,
    strategy: &'static str,
    key: &'static str,
}

/// The usual case: one field identifies an element in apply and in strategic merge.
const fn keyed(definition: &'static str, field: &'static str, key: &'static [&'static str]) -> Row {
    Row { definition, field, list: List::Map(key), strategy: "merge", key: key[0] }
}

const fn row(
    definition: &'static str,
    field: &'static str,
    list: List,
    strategy: &'static str,
    key: &'static str,
) -> Row {
    Row { definition, field, list, strategy, key }
}

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const POD_SPEC: &str = "io.k8s.api.core.v1.PodSpec";
const POD_STATUS: &str = "io.k8s.api.core.v1.PodStatus";
const CONTAINER: &str = "io.k8s.api.core.v1.Container";
const EPHEMERAL: &str = "io.k8s.api.core.v1.EphemeralContainer";
const JSON: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON";
const JSON_SCHEMA: &str =
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

const FIELDS: &[Row] = &[
    keyed(META, "ownerReferences", &["uid"]),
    row(META, "finalizers", List::Set, "merge", ""),
    row(POD_SPEC, "volumes", List::Map(&["name"]), "merge,retainKeys", "name"),
    keyed(POD_SPEC, "containers", &["name"]),
    keyed(POD_SPEC, "initContainers", &["name"]),
    keyed(POD_SPEC, "ephemeralContainers", &["name"]),
    keyed(POD_SPEC, "imagePullSecrets", &["name"]),
    keyed(POD_SPEC, "hostAliases", &["ip"]),
    keyed(POD_SPEC, "schedulingGates", &["name"]),
    keyed(POD_SPEC, "topologySpreadConstraints", &["topologyKey", "whenUnsatisfiable"]),
    row(POD_SPEC, "resourceClaims", List::Map(&["name"]), "merge,retainKeys", "name"),
    keyed(POD_STATUS, "conditions", &["type"]),
    keyed(POD_STATUS, "podIPs", &["ip"]),
    row(POD_STATUS, "hostIPs", List::Atomic, "merge", "ip"),
    row(POD_STATUS, "resourceClaimStatuses", List::Map(&["name"]), "merge,retainKeys", "name"),
    keyed(CONTAINER, "env", &["name"]),
    keyed(CONTAINER, "ports", &["containerPort", "protocol"]),
    keyed(CONTAINER, "volumeMounts", &["mountPath"]),
    keyed(CONTAINER, "volumeDevices", &["devicePath"]),
    keyed(EPHEMERAL, "env", &["name"]),
    keyed(EPHEMERAL, "ports", &["containerPort", "protocol"]),
    keyed(EPHEMERAL, "volumeMounts", &["mountPath"]),
    keyed(EPHEMERAL, "volumeDevices", &["devicePath"]),
    keyed("io.k8s.api.core.v1.ContainerStatus", "allocatedResourcesStatus", &["name"]),
    keyed("io.k8s.api.core.v1.ContainerStatus", "volumeMounts", &["mountPath"]),
    row("io.k8s.api.core.v1.ContainerRestartRuleOnExitCodes", "values", List::Set, "", ""),
    row("io.k8s.api.core.v1.ResourceRequirements", "claims", List::Map(&["name"]), "", ""),
    row("io.k8s.api.core.v1.ResourceStatus", "resources", List::Map(&["resourceID"]), "", ""),
    keyed("io.k8s.api.core.v1.NamespaceStatus", "conditions", &["type"]),
    row("io.k8s.api.core.v1.NodeSpec", "podCIDRs", List::Set, "merge", ""),
    keyed("io.k8s.api.core.v1.NodeStatus", "addresses", &["type"]),
    keyed("io.k8s.api.core.v1.NodeStatus", "conditions", &["type"]),
    keyed("io.k8s.api.core.v1.PersistentVolumeClaimStatus", "conditions", &["type"]),
    keyed("io.k8s.api.core.v1.ReplicationControllerStatus", "conditions", &["type"]),
    keyed("io.k8s.api.core.v1.ServiceAccount", "secrets", &["name"]),
    keyed("io.k8s.api.core.v1.ServiceSpec", "ports", &["port", "protocol"]),
    keyed("io.k8s.api.core.v1.ServiceStatus", "conditions", &["type"]),
    row("io.k8s.api.apps.v1.DeploymentSpec", "strategy", List::Atomic, "retainKeys", ""),
    keyed("io.k8s.api.apps.v1.DaemonSetStatus", "conditions", &["type"]),
    keyed("io.k8s.api.apps.v1.DeploymentStatus", "conditions", &["type"]),
    keyed("io.k8s.api.apps.v1.ReplicaSetStatus", "conditions", &["type"]),
    keyed("io.k8s.api.apps.v1.StatefulSetStatus", "conditions", &["type"]),
    row("io.k8s.api.batch.v1.JobStatus", "conditions", List::Atomic, "merge", "type"),
    row("io.k8s.api.batch.v1.UncountedTerminatedPods", "failed", List::Set, "", ""),
    row("io.k8s.api.batch.v1.UncountedTerminatedPods", "succeeded", List::Set, "", ""),
    row("io.k8s.api.batch.v1.PodFailurePolicyOnExitCodesRequirement", "values", List::Set, "", ""),
    keyed("io.k8s.api.policy.v1.PodDisruptionBudgetStatus", "conditions", &["type"]),
    row("io.k8s.api.policy.v1.PodDisruptionBudgetSpec", "selector", List::Atomic, "replace", ""),
    keyed("io.k8s.api.admissionregistration.v1.MutatingWebhook", "matchConditions", &["name"]),
    keyed(
        "io.k8s.api.admissionregistration.v1.MutatingWebhookConfiguration",
        "webhooks",
        &["name"],
    ),
    keyed("io.k8s.api.admissionregistration.v1.ValidatingWebhook", "matchConditions", &["name"]),
    keyed(
        "io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration",
        "webhooks",
        &["name"],
    ),
    keyed(
        "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicySpec",
        "matchConditions",
        &["name"],
    ),
    keyed(
        "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicySpec",
        "variables",
        &["name"],
    ),
    row(
        "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyStatus",
        "conditions",
        List::Map(&["type"]),
        "",
        "",
    ),
    row(
        "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec",
        "validationActions",
        List::Set,
        "",
        "",
    ),
    keyed("io.k8s.api.storage.v1.CSINodeSpec", "drivers", &["name"]),
    row("io.k8s.api.storage.v1.CSIDriverSpec", "volumeLifecycleModes", List::Set, "", ""),
    row(
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionStatus",
        "conditions",
        List::Map(&["type"]),
        "",
        "",
    ),
    keyed(JSON_SCHEMA, "x-kubernetes-validations", &["rule"]),
];

/// Structures that apply treats as one value.
const ATOMIC: &[&str] = &[
    "io.k8s.api.admissionregistration.v1.MatchResources",
    "io.k8s.api.admissionregistration.v1.NamedRuleWithOperations",
    "io.k8s.api.admissionregistration.v1.ParamKind",
    "io.k8s.api.admissionregistration.v1.ParamRef",
    "io.k8s.api.core.v1.ConfigMapKeySelector",
    "io.k8s.api.core.v1.EndpointAddress",
    "io.k8s.api.core.v1.EndpointPort",
    "io.k8s.api.core.v1.FileKeySelector",
    "io.k8s.api.core.v1.LocalObjectReference",
    "io.k8s.api.core.v1.NodeSelector",
    "io.k8s.api.core.v1.NodeSelectorTerm",
    "io.k8s.api.core.v1.ObjectFieldSelector",
    "io.k8s.api.core.v1.ObjectReference",
    "io.k8s.api.core.v1.ResourceFieldSelector",
    "io.k8s.api.core.v1.ScopeSelector",
    "io.k8s.api.core.v1.ScopedResourceSelectorRequirement",
    "io.k8s.api.core.v1.SecretKeySelector",
    "io.k8s.api.core.v1.SecretReference",
    "io.k8s.api.core.v1.TopologySelectorTerm",
    "io.k8s.api.core.v1.TypedLocalObjectReference",
    "io.k8s.api.rbac.v1.RoleRef",
    "io.k8s.api.rbac.v1.Subject",
    "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector",
    "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference",
];

/// Maps and references that differ from what their type says.
const MAP_FIELDS: &[(&str, &str, &str)] = &[
    (POD_SPEC, "nodeSelector", "atomic"),
    ("io.k8s.api.core.v1.ServiceSpec", "selector", "atomic"),
    ("io.k8s.api.core.v1.ReplicationControllerSpec", "selector", "atomic"),
    ("io.k8s.api.core.v1.PersistentVolumeSpec", "claimRef", "granular"),
];

/// Key fields that have a default, so that an element without it is still identified.
const KEY_DEFAULTS: &[(&str, &str, &str)] = &[
    ("io.k8s.api.core.v1.ContainerPort", "protocol", "TCP"),
    ("io.k8s.api.core.v1.ServicePort", "protocol", "TCP"),
    ("io.k8s.api.core.v1.LocalObjectReference", "name", ""),
];

/// Types that hold any JSON.
const FREE: &[&str] = &[
    JSON,
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
    "io.k8s.apimachinery.pkg.runtime.RawExtension",
];

/// Writes the facts into the definitions as the `x-kubernetes-*` extensions Kubernetes publishes.
pub(super) fn annotate(definitions: &mut Map<String, Value>) {
    for row in FIELDS {
        let Some(field) = property(definitions, row.definition, row.field) else { continue };
        match row.list {
            List::Atomic => {}
            List::Set => set(field, "x-kubernetes-list-type", json!("set")),
            List::Map(keys) => {
                set(field, "x-kubernetes-list-type", json!("map"));
                set(field, "x-kubernetes-list-map-keys", json!(keys));
            }
        }
        if !row.strategy.is_empty() {
            set(field, "x-kubernetes-patch-strategy", json!(row.strategy));
        }
        if !row.key.is_empty() && !row.strategy.is_empty() {
            set(field, "x-kubernetes-patch-merge-key", json!(row.key));
        }
    }
    for name in ATOMIC {
        if let Some(definition) = definitions.get_mut(*name) {
            set(definition, "x-kubernetes-map-type", json!("atomic"));
        }
    }
    for (definition, field, kind) in MAP_FIELDS {
        if let Some(field) = property(definitions, definition, field) {
            set(field, "x-kubernetes-map-type", json!(kind));
        }
    }
    for (definition, field, default) in KEY_DEFAULTS {
        if let Some(field) = property(definitions, definition, field) {
            set(field, "default", json!(default));
        }
    }
    for name in FREE {
        if let Some(definition) = definitions.get_mut(*name) {
            set(definition, "x-kubernetes-preserve-unknown-fields", json!(true));
        }
    }
    if let Some(any) = definitions.get_mut(JSON).and_then(Value::as_object_mut) {
        any.remove("type");
    }
    for definition in definitions.values_mut() {
        mark_atomic_lists(definition);
    }
}

/// Kubernetes states `atomic` on every list of a built-in type that is not a set or a map.
fn mark_atomic_lists(definition: &mut Value) {
    let Some(properties) = definition.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for property in properties.values_mut() {
        let is_list = property.get("type").and_then(Value::as_str) == Some("array");
        if is_list && property.get("x-kubernetes-list-type").is_none() {
            set(property, "x-kubernetes-list-type", json!("atomic"));
        }
    }
}

fn property<'a>(
    definitions: &'a mut Map<String, Value>,
    definition: &str,
    field: &str,
) -> Option<&'a mut Value> {
    definitions.get_mut(definition)?.get_mut("properties")?.get_mut(field)
}

fn set(schema: &mut Value, name: &str, value: Value) {
    if let Some(schema) = schema.as_object_mut() {
        schema.insert(name.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::super::published;
    use super::*;

    /// A misspelt row would otherwise be skipped in silence.
    #[test]
    fn every_row_names_something_that_exists() {
        let (_, mut definitions) = published();
        for row in FIELDS {
            let field = property(&mut definitions, row.definition, row.field);
            assert!(field.is_some(), "{} {}", row.definition, row.field);
        }
        for name in ATOMIC.iter().chain(FREE) {
            assert!(definitions.contains_key(*name), "{name}");
        }
        for (definition, field, _) in MAP_FIELDS.iter().chain(KEY_DEFAULTS) {
            assert!(
                property(&mut definitions, definition, field).is_some(),
                "{definition} {field}"
            );
        }
    }
}
