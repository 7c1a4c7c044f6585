//! Columns of the built-in kinds, in the order and wording of kubectl.

mod cluster;
mod data;
mod event;
mod pod;
mod service;
mod workload;

use jiff::Timestamp;
use serde_json::{Value, json};

pub(super) use self::pod::completed;
use super::age;
use crate::http::meta;

/// One column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    /// Above zero only `-o wide` shows it.
    pub(super) priority: i64,
}

/// How a kind is shown.
#[derive(Clone, Copy)]
pub(super) struct Sheet {
    pub(super) columns: &'static [Head],
    pub(super) cells: fn(&Value, Timestamp) -> Vec<Value>,
}

const fn text(name: &'static str) -> Head {
    Head { name, kind: "string", priority: 0 }
}

const fn wide(name: &'static str) -> Head {
    Head { name, kind: "string", priority: 1 }
}

const fn number(name: &'static str) -> Head {
    Head { name, kind: "integer", priority: 0 }
}

const fn date(name: &'static str) -> Head {
    Head { name, kind: "date", priority: 0 }
}

const fn boolean(name: &'static str) -> Head {
    Head { name, kind: "boolean", priority: 0 }
}

const PLAIN: Sheet = Sheet {
    columns: &[text("Name"), text("Age")],
    cells: |object, now| vec![name(object), created(object, now)],
};

/// The sheet of a kind; kinds nobody described show name and age.
pub(super) fn of(group: &str, plural: &str) -> Sheet {
    match (group, plural) {
        ("", "pods") => pod::PODS,
        ("", "podtemplates") => workload::POD_TEMPLATES,
        ("", "nodes") => cluster::NODES,
        ("", "namespaces") => cluster::NAMESPACES,
        ("", "services") => service::SERVICES,
        ("", "endpoints") => service::ENDPOINTS,
        ("", "configmaps") => data::CONFIG_MAPS,
        ("", "secrets") => data::SECRETS,
        ("", "limitranges") => data::CREATED_AT,
        ("", "resourcequotas") => data::RESOURCE_QUOTAS,
        ("", "persistentvolumes") => data::PERSISTENT_VOLUMES,
        ("", "persistentvolumeclaims") => data::PERSISTENT_VOLUME_CLAIMS,
        ("", "events") | ("events.k8s.io", "events") => event::EVENTS,
        ("apps", "deployments") => workload::DEPLOYMENTS,
        ("apps", "replicasets") => workload::REPLICA_SETS,
        ("apps", "statefulsets") => workload::STATEFUL_SETS,
        ("apps", "daemonsets") => workload::DAEMON_SETS,
        ("apps", "controllerrevisions") => workload::CONTROLLER_REVISIONS,
        ("batch", "jobs") => workload::JOBS,
        ("batch", "cronjobs") => workload::CRON_JOBS,
        ("policy", "poddisruptionbudgets") => cluster::DISRUPTION_BUDGETS,
        ("scheduling.k8s.io", "priorityclasses") => cluster::PRIORITY_CLASSES,
        ("coordination.k8s.io", "leases") => cluster::LEASES,
        ("admissionregistration.k8s.io", _) => cluster::WEBHOOKS,
        ("apiextensions.k8s.io", "customresourcedefinitions") => data::CREATED_AT,
        ("rbac.authorization.k8s.io", "roles" | "clusterroles") => data::CREATED_AT,
        ("rbac.authorization.k8s.io", _) => data::ROLE_BINDINGS,
        ("storage.k8s.io", "storageclasses") => data::STORAGE_CLASSES,
        ("storage.k8s.io", "csinodes") => data::CSI_NODES,
        ("storage.k8s.io", "csidrivers") => data::CSI_DRIVERS,
        ("storage.k8s.io", "volumeattachments") => data::VOLUME_ATTACHMENTS,
        ("storage.k8s.io", "csistoragecapacities") => data::CREATED_AT,
        _ => PLAIN,
    }
}

fn name(object: &Value) -> Value {
    json!(meta::name(object))
}

fn created(object: &Value, now: Timestamp) -> Value {
    json!(ago(meta::metadata(object).get("creationTimestamp"), now))
}

/// How long ago a timestamp was; `<unknown>` without one.
fn ago(moment: Option<&Value>, now: Timestamp) -> String {
    match moment.and_then(Value::as_str) {
        Some(text) => age::since(text, now),
        None => "<unknown>".to_owned(),
    }
}

fn str_at<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn int_at(object: &Value, path: &str) -> i64 {
    object.pointer(path).and_then(Value::as_i64).unwrap_or(0)
}

fn list_at<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    object.pointer(path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Text, or `<none>` where there is nothing to show.
fn or_none(text: impl Into<String>) -> Value {
    let text = text.into();
    if text.is_empty() { json!("<none>") } else { json!(text) }
}

fn joined<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.collect::<Vec<_>>().join(",")
}

/// `a=b,c=d`
fn pairs(map: Option<&Value>) -> Value {
    let map = map.and_then(Value::as_object);
    let list: Vec<String> = map
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    or_none(list.join(","))
}

/// A label selector as one line.
fn selector(object: Option<&Value>) -> Value {
    let Some(object) = object.filter(|value| value.is_object()) else { return json!("<none>") };
    let mut parts: Vec<String> = Vec::new();
    if let Some(map) = object.get("matchLabels").and_then(Value::as_object) {
        parts.extend(map.iter().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())));
    }
    for expression in list_at(object, "/matchExpressions") {
        let key = str_at(expression, "/key");
        let values = joined(list_at(expression, "/values").iter().filter_map(Value::as_str));
        parts.push(match str_at(expression, "/operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        });
    }
    or_none(parts.join(","))
}

/// Names and images of a template's containers, for wide output.
fn containers(object: &Value, path: &str) -> [Value; 2] {
    let list = list_at(object, path);
    [
        json!(joined(list.iter().map(|container| str_at(container, "/name")))),
        json!(joined(list.iter().map(|container| str_at(container, "/image")))),
    ]
}
