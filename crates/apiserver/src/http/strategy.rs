//! What does the server itself put into an object?
//!
//! Each kind has a few fields that clients cannot write through the main path: the status, the
//! generation, a namespace's phase. This module sets them on creation and keeps them on update.

mod pod;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::call::Call;
use super::kinds::Served;
use super::write::Part;
use super::{definitions, meta};

/// Completes a new object.
pub(super) fn prepare_create(call: &Call, object: &mut Value) {
    let served = &call.served;
    if served.traits.status
        && !served.is("", "nodes")
        && let Some(fields) = object.as_object_mut()
    {
        fields.remove("status");
    }
    if let Some(schema) = &served.schema {
        schema.prepare_create(object);
    }
    if let Some(status) = counters(served) {
        object["status"] = status;
    }
    match (served.group.as_str(), served.plural.as_str()) {
        ("", "pods") => pod::prepare_create(object, call.server.options().clock.now()),
        ("", "namespaces") => {
            let name = meta::name(object).to_owned();
            label_namespace(object, &name);
        }
        ("", "secrets") => fold_string_data(object),
        ("", "services") => complete_addresses(object),
        ("", "resourcequotas") => object["status"] = json!({}),
        ("batch", "jobs") => label_job(object),
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            definitions::prepare(&call.server, object, None);
        }
        _ => {}
    }
}

/// Counters that are shown even while they are zero.
fn counters(served: &Served) -> Option<Value> {
    Some(match (served.group.as_str(), served.plural.as_str()) {
        ("apps", "replicasets") => json!({"replicas": 0}),
        ("apps", "statefulsets") => json!({"replicas": 0, "availableReplicas": 0}),
        ("apps", "daemonsets") => json!({
            "currentNumberScheduled": 0,
            "desiredNumberScheduled": 0,
            "numberMisscheduled": 0,
            "numberReady": 0,
        }),
        ("policy", "poddisruptionbudgets") => json!({
            "currentHealthy": 0,
            "desiredHealthy": 0,
            "disruptionsAllowed": 0,
            "expectedPods": 0,
        }),
        _ => return None,
    })
}

fn label_namespace(object: &mut Value, name: &str) {
    let metadata = meta::metadata_mut(object);
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    if let Some(labels) = labels.as_object_mut() {
        labels.insert("kubernetes.io/metadata.name".into(), name.into());
    }
}

/// A job without labels carries those of its pods.
fn label_job(job: &mut Value) {
    let labels = job.pointer("/spec/template/metadata/labels").cloned();
    if let (None, Some(labels)) = (meta::metadata(job).get("labels"), labels) {
        meta::set(job, "labels", labels);
    }
}

/// The list of addresses begins with the single one. None is handed out: there is no network
/// behind it.
fn complete_addresses(service: &mut Value) {
    let Some(spec) = service.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(address) = spec.get("clusterIP").cloned()
        && address.as_str().is_some_and(|text| !text.is_empty())
    {
        spec.entry("clusterIPs").or_insert_with(|| json!([address]));
    }
    if spec.get("type").and_then(Value::as_str) != Some("ExternalName") {
        spec.entry("ipFamilies").or_insert_with(|| json!(["IPv4"]));
        spec.entry("ipFamilyPolicy").or_insert_with(|| json!("SingleStack"));
    }
}

/// What a service was given stays, unless the client says otherwise.
fn keep_addresses(new: &mut Value, old: &Value) {
    let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if spec.get("type").and_then(Value::as_str) == Some("ExternalName") {
        return;
    }
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if let (None, Some(given)) = (spec.get(field), old.pointer(&format!("/spec/{field}"))) {
            spec.insert(field.to_owned(), given.clone());
        }
    }
}

/// `stringData` is for writing only: it lands in `data`, encoded.
fn fold_string_data(object: &mut Value) {
    let Some(fields) = object.as_object_mut() else { return };
    let Some(Value::Object(plain)) = fields.remove("stringData") else { return };
    let data = fields.entry("data").or_insert_with(|| json!({}));
    if data.is_null() {
        *data = json!({});
    }
    if let Some(data) = data.as_object_mut() {
        for (key, value) in plain {
            let text = value.as_str().unwrap_or_default();
            data.insert(key, STANDARD.encode(text).into());
        }
    }
}

/// Keeps apart what a request may change from what it may not, and counts generations.
pub(super) fn prepare_update(call: &Call, part: Part, new: &mut Value, old: &Value) {
    let served = &call.served;
    match part {
        Part::Main => {
            if served.traits.status {
                meta::copy_part(new, "status", old);
            }
            prepare_main(call, new, old);
        }
        Part::Status => keep_all_but_status(served, new, old),
        Part::Other => {}
    }
    // Where a pod runs is not its owner's wish, so binding is no new generation.
    let counts = part != Part::Status && call.subresource() != "binding";
    if counts && served.traits.generation && specification_changed(served, new, old) {
        meta::set(new, "generation", meta::generation(old).saturating_add(1));
    }
}

fn prepare_main(call: &Call, new: &mut Value, old: &Value) {
    match (call.served.group.as_str(), call.served.plural.as_str()) {
        ("", "namespaces") => {
            // The finalizers in `spec` have a path of their own.
            meta::copy_part(new, "spec", old);
            let name = meta::name(old).to_owned();
            label_namespace(new, &name);
        }
        ("", "secrets") => fold_string_data(new),
        ("", "services") => keep_addresses(new, old),
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            definitions::prepare(&call.server, new, Some(old));
        }
        _ => {}
    }
}

fn keep_all_but_status(served: &Served, new: &mut Value, old: &Value) {
    if served.traits.custom {
        let status = new.get("status").cloned();
        let managers = meta::metadata(new).get("managedFields").cloned();
        *new = old.clone();
        if let Some(fields) = new.as_object_mut() {
            match status {
                Some(status) => fields.insert("status".into(), status),
                None => fields.remove("status"),
            };
        }
        if let Some(managers) = managers {
            meta::set(new, "managedFields", managers);
        }
        return;
    }
    let parts: Vec<String> = new
        .as_object()
        .into_iter()
        .chain(old.as_object())
        .flat_map(|fields| fields.keys().cloned())
        .filter(|name| name != "status" && name != "metadata")
        .collect();
    for name in parts {
        meta::copy_part(new, &name, old);
    }
    if served.is("apps", "deployments") {
        meta::copy(new, "labels", old);
    }
    if served.is("", "pods") {
        meta::copy(new, "ownerReferences", old);
        pod::keep_status_rules(new, old);
    }
}

fn specification_changed(served: &Served, new: &Value, old: &Value) -> bool {
    let ignored = |name: &str| {
        matches!(name, "apiVersion" | "kind" | "metadata")
            || (name == "status" && served.traits.status)
    };
    let differs = |name: &String| !ignored(name) && new.get(name) != old.get(name);
    let names = new.as_object().into_iter().chain(old.as_object()).flat_map(|map| map.keys());
    let annotations = |object: &Value| meta::metadata(object).get("annotations").cloned();
    names.into_iter().any(differs)
        || (served.is("apps", "deployments") && annotations(new) != annotations(old))
}

/// Whether storing `new` would change nothing. Times in `managedFields` do not count: they are
/// put back to what they were.
pub(super) fn is_unchanged(new: &mut Value, old: &Value) -> bool {
    objects::apply::keep_times(old, new);
    new == old
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_data_wins_over_data() {
        let mut secret = json!({"data": {"a": "b2xk", "b": "b2xk"}, "stringData": {"a": "new"}});
        fold_string_data(&mut secret);
        assert_eq!(secret, json!({"data": {"a": "bmV3", "b": "b2xk"}}));
    }

    #[test]
    fn times_of_managers_alone_are_no_change() {
        let at = |time: &str, manager: &str| json!({"metadata": {"managedFields": [{"manager": manager, "time": time}]}});
        let mut new = at("2", "a");
        assert!(is_unchanged(&mut new, &at("1", "a")));
        assert_eq!(new, at("1", "a"));
        assert!(!is_unchanged(&mut at("1", "b"), &at("1", "a")));
    }
}
