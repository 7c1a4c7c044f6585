//! Disruption budgets, priorities, leases, storage classes and roles.

use serde_json::{Value, json};

use super::workload::int_or_percent;
use super::{maybe_one_of, not_empty, not_negative, one_of, selector, unchanged};
use crate::schema::cause::{Causes, Path};
use crate::schema::object::{get, has, int, list, text};

pub(super) fn disruption_budget(new: &Value, causes: &mut Causes) {
    let (spec, path) = (get(new, "spec"), Path::ROOT.field("spec"));
    if has(spec, "minAvailable") && has(spec, "maxUnavailable") {
        let detail = "minAvailable and maxUnavailable cannot be both set";
        causes.invalid(&path, spec, detail);
    }
    for field in ["minAvailable", "maxUnavailable"] {
        int_or_percent(spec, field, true, &path, causes);
    }
    if has(spec, "selector") {
        selector::check(get(spec, "selector"), &path.field("selector"), causes);
    }
    let policies = ["AlwaysAllow", "IfHealthyBudget"];
    maybe_one_of(spec, "unhealthyPodEvictionPolicy", &policies, &path, causes);
}

/// Above this only the system's own classes live.
const HIGHEST_USER_PRIORITY: i64 = 1_000_000_000;
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

pub(super) fn priority_class(new: &Value, old: Option<&Value>, causes: &mut Causes) {
    let name = text(get(new, "metadata"), "name");
    let value = int(new, "value").unwrap_or_default();
    if name.starts_with("system-") {
        if !SYSTEM_CLASSES.contains(&(name, value)) {
            let detail = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: \
                 {name} is not a known system priority class"
            );
            let path = Path::ROOT.field("metadata");
            causes.forbidden(&path.field("name"), &detail);
        }
    } else if value > HIGHEST_USER_PRIORITY {
        let detail =
            format!("maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}");
        causes.forbidden(&Path::ROOT.field("value"), &detail);
    }
    let policies = ["Never", "PreemptLowerPriority"];
    maybe_one_of(new, "preemptionPolicy", &policies, &Path::ROOT, causes);
    let Some(old) = old else { return };
    if value != int(old, "value").unwrap_or_default() {
        causes.forbidden(&Path::ROOT.field("value"), "may not be changed in an update.");
    }
    let path = Path::ROOT.field("preemptionPolicy");
    unchanged(get(new, "preemptionPolicy"), get(old, "preemptionPolicy"), &path, causes);
}

pub(super) fn lease(new: &Value, causes: &mut Causes) {
    let (spec, path) = (get(new, "spec"), Path::ROOT.field("spec"));
    if let Some(seconds) = int(spec, "leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        let at = path.field("leaseDurationSeconds");
        causes.invalid(&at, &json!(seconds), "must be greater than 0");
    }
    not_negative(spec, "leaseTransitions", &path, causes);
    if spec.get("holderIdentity").and_then(Value::as_str) == Some("") && has(spec, "strategy") {
        causes.invalid_text(&path.field("holderIdentity"), "", "must not be empty");
    }
}

pub(super) fn storage_class(new: &Value, old: Option<&Value>, causes: &mut Causes) {
    not_empty(new, "provisioner", &Path::ROOT, causes);
    one_of(new, "reclaimPolicy", &["Delete", "Retain"], &Path::ROOT, causes);
    let modes = ["Immediate", "WaitForFirstConsumer"];
    one_of(new, "volumeBindingMode", &modes, &Path::ROOT, causes);
    let Some(old) = old else { return };
    for field in ["parameters", "provisioner", "reclaimPolicy"] {
        if get(new, field) != get(old, field) {
            let detail = format!("updates to {field} are forbidden.");
            causes.forbidden(&Path::ROOT.field(field), &detail);
        }
    }
    let path = Path::ROOT.field("volumeBindingMode");
    unchanged(get(new, "volumeBindingMode"), get(old, "volumeBindingMode"), &path, causes);
}

pub(super) fn role(new: &Value, namespaced: bool, causes: &mut Causes) {
    let list_path = Path::ROOT.field("rules");
    for (index, rule) in list(new, "rules").iter().enumerate() {
        let path = list_path.index(index);
        if list(rule, "verbs").is_empty() {
            causes.required(&path.field("verbs"), "verbs must contain at least one value");
        }
        if !list(rule, "nonResourceURLs").is_empty() {
            let at = path.field("nonResourceURLs");
            let urls = get(rule, "nonResourceURLs");
            if namespaced {
                let detail = "namespaced rules cannot apply to non-resource URLs";
                causes.invalid(&at, urls, detail);
            } else if ["apiGroups", "resources", "resourceNames"]
                .iter()
                .any(|field| !list(rule, field).is_empty())
            {
                let detail = "rules cannot apply to both regular resources and non-resource URLs";
                causes.invalid(&at, urls, detail);
            }
            continue;
        }
        if list(rule, "apiGroups").is_empty() {
            let detail = "resource rules must supply at least one api group";
            causes.required(&path.field("apiGroups"), detail);
        }
        if list(rule, "resources").is_empty() {
            let detail = "resource rules must supply at least one resource";
            causes.required(&path.field("resources"), detail);
        }
    }
}

pub(super) fn role_binding(
    new: &Value,
    old: Option<&Value>,
    namespaced: bool,
    causes: &mut Causes,
) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let (role, path) = (get(new, "roleRef"), Path::ROOT.field("roleRef"));
    if text(role, "apiGroup") != GROUP {
        let found = json!(text(role, "apiGroup"));
        causes.not_supported(&path.field("apiGroup"), &found, &[GROUP]);
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&text(role, "kind")) {
        causes.not_supported(&path.field("kind"), &json!(text(role, "kind")), kinds);
    }
    not_empty(role, "name", &path, causes);
    let list_path = Path::ROOT.field("subjects");
    for (index, subject) in list(new, "subjects").iter().enumerate() {
        let path = list_path.index(index);
        not_empty(subject, "name", &path, causes);
        match text(subject, "kind") {
            "ServiceAccount" => {
                if !namespaced && text(subject, "namespace").is_empty() {
                    causes.required(&path.field("namespace"), "");
                }
            }
            "User" | "Group" => {
                if text(subject, "apiGroup") != GROUP {
                    let found = json!(text(subject, "apiGroup"));
                    causes.not_supported(&path.field("apiGroup"), &found, &[GROUP]);
                }
            }
            other => {
                let supported = ["ServiceAccount", "User", "Group"];
                causes.not_supported(&path.field("kind"), &json!(other), &supported);
            }
        }
    }
    if let Some(old) = old
        && role != get(old, "roleRef")
    {
        causes.invalid(&path, role, "cannot change roleRef");
    }
}
