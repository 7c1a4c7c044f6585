//! Which objects of built-in kinds does Kubernetes refuse?
//!
//! The published schema only knows types. What people run into are the rules behind it: names, ranges,
//! references inside the object, fields that exclude each other, fields that may not change. The rules that
//! are met in practice are here, in the reference's words; the object has been decoded and defaulted, so
//! types are known to fit. Kinds that are only stored as data get their metadata checked and little more.

mod admission;
mod container;
mod pod;
mod policy;
mod quantity;
mod selector;
mod service;
mod small_kinds;
#[cfg(test)]
mod tests;
mod volume;
mod workload;

use serde_json::{Value, json};

use crate::schema::cause::{Cause, Causes, Path};
use crate::schema::crd;
use crate::schema::meta::{self, NameRule};
use crate::schema::object::{get, int, text};
use crate::schema::{Gvk, Schema};

/// Checks a new object (`old` is `None`) or a change.
pub(in crate::schema) fn check(schema: &Schema, new: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Causes::default();
    let Gvk { group, kind, .. } = schema.gvk();
    if (group.as_str(), kind.as_str()) == ("apiextensions.k8s.io", "CustomResourceDefinition") {
        crd::check(new, &mut causes);
    } else {
        let path = Path::ROOT.field("metadata");
        let rules = meta::Rules {
            name: name_rule(group, kind),
            namespaced: schema.namespaced,
            qualified_finalizers: true,
        };
        if schema.namespaced.is_some() && !is_review(group) {
            meta::check(get(new, "metadata"), rules, &path, &mut causes);
        }
    }
    if let Some(old) = old {
        let path = Path::ROOT.field("metadata");
        meta::check_update(get(new, "metadata"), get(old, "metadata"), &path, &mut causes);
    }
    content(group, kind, new, old, &mut causes);
    causes.into_vec()
}

/// Questions to the server, which have no name.
fn is_review(group: &str) -> bool {
    matches!(group, "authentication.k8s.io" | "authorization.k8s.io")
}

fn name_rule(group: &str, kind: &str) -> NameRule {
    match (group, kind) {
        ("", "Namespace") => NameRule::Label,
        ("", "Service") => NameRule::Dns1035Label,
        ("rbac.authorization.k8s.io", _) => NameRule::PathSegment,
        _ => NameRule::Subdomain,
    }
}

fn content(group: &str, kind: &str, new: &Value, old: Option<&Value>, causes: &mut Causes) {
    match (group, kind) {
        ("", "Pod") => pod::check(new, old, causes),
        ("", "PodTemplate") => {
            let path = Path::ROOT.field("template");
            pod::check_template(get(new, "template"), &path, causes);
        }
        ("", "Service") => service::check(new, old, causes),
        ("", "ConfigMap") => small_kinds::config_map(new, old, causes),
        ("", "Secret") => small_kinds::secret(new, old, causes),
        ("", "Node") => small_kinds::node(new, old, causes),
        ("", "Event") => small_kinds::event(new, causes),
        ("", "PersistentVolumeClaim") => small_kinds::claim(new, old, causes),
        ("", "PersistentVolume") => small_kinds::volume(new, causes),
        ("", "ResourceQuota") => small_kinds::resource_quota(new, causes),
        ("", "LimitRange") => small_kinds::limit_range(new, causes),
        ("", "Binding") => small_kinds::binding(new, causes),
        ("", "ReplicationController") => workload::replication_controller(new, causes),
        ("apps", "ControllerRevision") => workload::controller_revision(new, old, causes),
        ("apps", "Deployment") => workload::deployment(new, old, causes),
        ("apps", "ReplicaSet") => workload::replica_set(new, old, causes),
        ("apps", "DaemonSet") => workload::daemon_set(new, old, causes),
        ("apps", "StatefulSet") => workload::stateful_set(new, old, causes),
        ("batch", "Job") => workload::job(new, old, causes),
        ("batch", "CronJob") => workload::cron_job(new, causes),
        ("autoscaling", "Scale") => workload::scale(new, causes),
        ("policy", "PodDisruptionBudget") => policy::disruption_budget(new, causes),
        ("scheduling.k8s.io", "PriorityClass") => policy::priority_class(new, old, causes),
        ("coordination.k8s.io", "Lease") => policy::lease(new, causes),
        ("storage.k8s.io", "StorageClass") => policy::storage_class(new, old, causes),
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => {
            policy::role(new, kind == "Role", causes);
        }
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            policy::role_binding(new, old, kind == "RoleBinding", causes);
        }
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration") => {
            admission::webhooks(new, true, causes);
        }
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration") => {
            admission::webhooks(new, false, causes);
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            if let Some(old) = old {
                crd::check_update(new, old, causes);
            }
        }
        _ => {}
    }
}

/// Refuses a negative number.
fn not_negative(value: &Value, field: &str, path: &Path<'_>, causes: &mut Causes) {
    if let Some(number) = int(value, field).filter(|number| *number < 0) {
        causes.invalid(&path.field(field), &json!(number), "must be greater than or equal to 0");
    }
}

/// Refuses a number outside of the ports' range.
fn port_range(number: i64, path: &Path<'_>, causes: &mut Causes) {
    if !(1..=65_535).contains(&number) {
        causes.invalid(path, &json!(number), "must be between 1 and 65535, inclusive");
    }
}

/// Refuses a string that is not one of `supported`; an empty one is missing.
fn one_of(value: &Value, field: &str, supported: &[&str], path: &Path<'_>, causes: &mut Causes) {
    let path = path.field(field);
    match text(value, field) {
        "" => causes.required(&path, ""),
        found if supported.contains(&found) => {}
        found => causes.not_supported(&path, &json!(found), supported),
    }
}

/// Like [`one_of`], for a field that may be absent.
fn maybe_one_of(
    value: &Value,
    field: &str,
    supported: &[&str],
    path: &Path<'_>,
    causes: &mut Causes,
) {
    if !text(value, field).is_empty() {
        one_of(value, field, supported, path, causes);
    }
}

/// Refuses an absent or empty string.
fn not_empty(value: &Value, field: &str, path: &Path<'_>, causes: &mut Causes) {
    if text(value, field).is_empty() {
        causes.required(&path.field(field), "");
    }
}

/// Refuses a change.
fn unchanged(new: &Value, old: &Value, path: &Path<'_>, causes: &mut Causes) {
    if new != old {
        causes.invalid(path, new, "field is immutable");
    }
}

/// Refuses a text that breaks a naming rule.
fn named(found: &[String], value: &str, path: &Path<'_>, causes: &mut Causes) {
    for finding in found {
        causes.invalid_text(path, value, finding);
    }
}
