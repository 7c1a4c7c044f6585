//! What must stand in the webhook configurations?
//!
//! An installer writes them; this program fills in where it is and whom to
//! trust. The installer's list is kept in an annotation, and the list in force
//! is always made from that one: entries that this binary does not serve are
//! left out and come back when their gate is switched on.
//!
//! When the installer writes a new list over ours, the fingerprint beside the
//! annotation no longer fits what is there, and the new list becomes the
//! template. An install that still has the reference's annotation has no
//! fingerprint; its template counts while it knows every entry in force.

use api::protocol::name::config_map;
use api::protocol::object::{
    CONFIG_MAP_TYPE, CONTROL_PLANE, NAMESPACE_NAME, WEBHOOK_FINGERPRINT, WEBHOOK_TEMPLATE,
};
use api::protocol::pod::MUTATING_UPDATE;
use api::protocol::webhook::{
    FailurePolicy, MUTATE_POD, MUTATING_CONFIGURATION, SERVICE, SERVICE_PORT, Stage,
    TIMEOUT_SECONDS, VALIDATE_CONFIG_MAP, VALIDATE_POD, VALIDATING_CONFIGURATION, WEBHOOKS,
    Webhook,
};
use serde_json::{Map, Value, json};

use crate::fingerprint;

/// How the API server reaches the webhooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Service {
        namespace: String,
        name: String,
    },
    /// Scheme, host and port, such as `https://127.0.0.1:9876`.
    Url(String),
}

/// What this replica offers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offer<'a> {
    pub(super) target: &'a Target,
    /// Paths that are served.
    pub(super) paths: &'a [&'static str],
    /// Authorities to trust, as PEM, in the wire's base64.
    pub(super) authorities: &'a str,
}

/// The merge patch that brings a configuration up to date; `None` when it is.
pub(super) fn plan(object: &Value, offer: &Offer<'_>) -> Option<Value> {
    let live = object["webhooks"].as_array().cloned().unwrap_or_default();
    let annotation = |name: &str| object["metadata"]["annotations"][name].as_str();
    let stored: Option<Vec<Value>> = annotation(WEBHOOK_TEMPLATE.name)
        .and_then(|text| serde_json::from_str(text).ok())
        .filter(|list: &Vec<Value>| !list.is_empty());
    let template = match (stored, annotation(WEBHOOK_FINGERPRINT.name)) {
        (Some(template), Some(print)) if print == fingerprint_of(&live) => template,
        (Some(template), None) if knows(&template, &live) => template,
        _ => live.clone(),
    };
    let wanted: Vec<Value> = template.iter().filter_map(|entry| complete(entry, offer)).collect();
    let print = fingerprint_of(&wanted);
    let template = json!(template).to_string();
    let is_current = live == wanted
        && annotation(WEBHOOK_TEMPLATE.name) == Some(&template)
        && annotation(WEBHOOK_FINGERPRINT.name) == Some(&print);
    (!is_current).then(|| {
        json!({
            "metadata": {
                "resourceVersion": object["metadata"]["resourceVersion"],
                "annotations": {
                    WEBHOOK_TEMPLATE.name: template,
                    WEBHOOK_FINGERPRINT.name: print,
                },
            },
            "webhooks": wanted,
        })
    })
}

/// The path an entry is called at.
fn path_of(entry: &Value) -> Option<&str> {
    let client = &entry["clientConfig"];
    if let Some(path) = client["service"]["path"].as_str() {
        return Some(path);
    }
    let (_, rest) = client["url"].as_str()?.split_once("://")?;
    rest.find('/').and_then(|at| rest.get(at..))
}

/// The entry with our address; `None` when we do not serve its path.
fn complete(entry: &Value, offer: &Offer<'_>) -> Option<Value> {
    let path = path_of(entry).filter(|path| offer.paths.contains(path))?.to_owned();
    let client = match offer.target {
        Target::Service { namespace, name } => {
            let port = entry["clientConfig"]["service"]["port"].as_u64();
            json!({
                "service": {
                    "namespace": namespace, "name": name, "path": path,
                    "port": port.unwrap_or(SERVICE_PORT.into()),
                },
                "caBundle": offer.authorities,
            })
        }
        Target::Url(base) => {
            json!({ "url": format!("{base}{path}"), "caBundle": offer.authorities })
        }
    };
    let mut entry = entry.clone();
    entry["clientConfig"] = client;
    Some(entry)
}

/// An entry without what we fill in.
fn bare(entry: &Value) -> Value {
    let mut bare = entry.clone();
    bare["clientConfig"] = json!(path_of(entry));
    bare
}

fn fingerprint_of(entries: &[Value]) -> String {
    let bare: Vec<Value> = entries.iter().map(bare).collect();
    format!("{:016x}", fingerprint::of(json!(bare).to_string().as_bytes()))
}

fn knows(template: &[Value], live: &[Value]) -> bool {
    let known: Vec<Value> = template.iter().map(bare).collect();
    live.iter().all(|entry| known.contains(&bare(entry)))
}

/// Authorities that a configuration trusts now, as base64 of PEM.
pub(super) fn trusted(object: &Value) -> Option<&str> {
    let entries = object["webhooks"].as_array()?;
    entries.iter().find_map(|entry| entry["clientConfig"]["caBundle"].as_str())
}

/// Both configurations as an installer writes them, for webhooks in `namespace`.
/// Pods of that namespace are left alone, so that the webhooks can come back by
/// themselves.
pub fn install(namespace: &str) -> [Value; 2] {
    let configuration = |kind: &str, name: &str, stage: Stage| {
        let entries = WEBHOOKS.iter().filter(|webhook| webhook.stage == stage);
        let entries: Vec<Value> = entries.map(|webhook| entry(webhook, namespace)).collect();
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": { "name": name },
            "webhooks": entries,
        })
    };
    [
        configuration("MutatingWebhookConfiguration", MUTATING_CONFIGURATION, Stage::Mutating),
        configuration(
            "ValidatingWebhookConfiguration",
            VALIDATING_CONFIGURATION,
            Stage::Validating,
        ),
    ]
}

fn entry(webhook: &Webhook, namespace: &str) -> Value {
    let (group, version, resource) = webhook.resource;
    let policy = match webhook.failure_policy {
        FailurePolicy::Fail => "Fail",
        FailurePolicy::Ignore => "Ignore",
    };
    let mut entry = json!({
        "name": webhook.name,
        "admissionReviewVersions": ["v1", "v1beta1"],
        "sideEffects": "None",
        "failurePolicy": policy,
        "timeoutSeconds": TIMEOUT_SECONDS,
        "rules": [{
            "apiGroups": [group], "apiVersions": [version], "resources": [resource],
            "operations": webhook.operations,
        }],
        "clientConfig": { "service": {
            "namespace": namespace, "name": SERVICE, "path": webhook.path, "port": SERVICE_PORT,
        }},
    });
    if [MUTATE_POD, VALIDATE_POD].contains(&webhook.path) {
        entry["namespaceSelector"] = json!({ "matchExpressions": [
            { "key": CONTROL_PLANE.name, "operator": "DoesNotExist" },
            { "key": NAMESPACE_NAME.name, "operator": "NotIn", "values": [namespace] },
        ]});
    }
    let label = match (webhook.path, webhook.operations) {
        (MUTATE_POD, ["UPDATE"]) => Some((MUTATING_UPDATE.name, "true")),
        (VALIDATE_CONFIG_MAP, _) => Some((CONFIG_MAP_TYPE.name, config_map::SLO)),
        _ => None,
    };
    if let Some((key, value)) = label {
        let labels = Map::from_iter([(key.to_owned(), json!(value))]);
        entry["objectSelector"] = json!({ "matchLabels": labels });
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer<'a>(target: &'a Target, paths: &'a [&'static str], authorities: &'a str) -> Offer<'a> {
        Offer { target, paths, authorities }
    }

    fn service() -> Target {
        Target::Service { namespace: "ns".to_owned(), name: "svc".to_owned() }
    }

    /// Brings the object up to date, which must be due.
    fn fill(object: &mut Value, offer: &Offer<'_>) {
        let patch = plan(object, offer).expect("something is to be filled in");
        json_patch::merge(object, &patch);
    }

    fn names(object: &Value) -> Vec<&str> {
        object["webhooks"].as_array().unwrap().iter().map(|e| e["name"].as_str().unwrap()).collect()
    }

    #[test]
    fn an_address_is_filled_in_once() {
        let [mut object, _] = install("ns");
        let service = service();
        let mutate = offer(&service, &[MUTATE_POD], "Y2E=");
        fill(&mut object, &mutate);
        insta::assert_yaml_snapshot!(object);
        assert_eq!(plan(&object, &mutate), None);
        let rotated = offer(&service, &[MUTATE_POD], "bmV3");
        fill(&mut object, &rotated);
        assert_eq!(object["webhooks"][0]["clientConfig"]["caBundle"], "bmV3");
    }

    #[test]
    fn a_gate_that_is_switched_on_brings_its_entry_back() {
        let [mut object, _] = install("ns");
        let all = names(&object).len();
        let service = service();
        let few = offer(&service, &[MUTATE_POD], "Y2E=");
        fill(&mut object, &few);
        assert_eq!(names(&object), ["mpod-create.koordinator.sh", "mpod-update.koordinator.sh"]);
        let paths: Vec<&'static str> = WEBHOOKS.iter().map(|webhook| webhook.path).collect();
        fill(&mut object, &offer(&service, &paths, "Y2E="));
        assert_eq!(names(&object).len(), all);
    }

    #[test]
    fn a_new_list_of_the_installer_counts() {
        let [mut object, _] = install("ns");
        let service = service();
        let offer = offer(&service, &[MUTATE_POD], "Y2E=");
        fill(&mut object, &offer);
        let annotations = object["metadata"]["annotations"].clone();
        let [mut upgraded, _] = install("ns");
        upgraded["metadata"]["annotations"] = annotations;
        upgraded["webhooks"][0]["timeoutSeconds"] = json!(5);
        let patch = plan(&upgraded, &offer).expect("the list changed");
        assert_eq!(patch["webhooks"][0]["timeoutSeconds"], 5);
    }

    #[test]
    fn the_reference_s_template_is_taken_over() {
        let [installed, _] = install("ns");
        let mut object = installed.clone();
        object["metadata"]["annotations"] =
            json!({ WEBHOOK_TEMPLATE.name: installed["webhooks"].to_string() });
        let kept: Vec<Value> = installed["webhooks"].as_array().unwrap()[..1].to_vec();
        object["webhooks"] = json!(kept);
        let service = service();
        let patch = plan(&object, &offer(&service, &[MUTATE_POD], "Y2E=")).unwrap();
        assert_eq!(names(&patch).len(), 2, "what the reference had left out is back");
    }

    #[test]
    fn a_url_stands_in_for_a_service_and_back() {
        let [mut object, _] = install("ns");
        let url = Target::Url("https://127.0.0.1:9876".to_owned());
        fill(&mut object, &offer(&url, &[MUTATE_POD], "Y2E="));
        let client = &object["webhooks"][0]["clientConfig"];
        assert_eq!(
            client,
            &json!({"url": "https://127.0.0.1:9876/mutate-pod", "caBundle": "Y2E="})
        );
        assert_eq!(plan(&object, &offer(&url, &[MUTATE_POD], "Y2E=")), None);
        let service = service();
        let patch = plan(&object, &offer(&service, &[MUTATE_POD], "Y2E=")).unwrap();
        assert_eq!(patch["webhooks"][0]["clientConfig"]["service"]["path"], MUTATE_POD);
    }
}
