//! Pods and pod templates.

mod affinity;

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::container::{self, Pod};
use super::{maybe_one_of, named, one_of, quantity, volume};
use crate::schema::cause::{Causes, Path};
use crate::schema::object::{flag, get, has, int, list, put, text};
use crate::schema::{meta, names};

pub(super) fn check(new: &Value, old: Option<&Value>, causes: &mut Causes) {
    let path = Path::ROOT.field("spec");
    let spec = get(new, "spec");
    check_spec(spec, &path, causes);
    if !list(spec, "schedulingGates").is_empty()
        && !text(spec, "nodeName").is_empty()
        && old.is_none()
    {
        let detail = "cannot be set until all schedulingGates have been cleared";
        causes.forbidden(&path.field("nodeName"), detail);
    }
    if let Some(old) = old {
        check_change(spec, get(old, "spec"), &path, causes);
    }
}

/// Checks labels, annotations and spec of a template.
pub(super) fn check_template(template: &Value, path: &Path<'_>, causes: &mut Causes) {
    let metadata = path.field("metadata");
    let labels = get(template, "metadata");
    meta::labels(labels.get("labels"), &metadata.field("labels"), causes);
    meta::annotations(labels.get("annotations"), &metadata.field("annotations"), causes);
    check_spec(get(template, "spec"), &path.field("spec"), causes);
}

fn check_spec(spec: &Value, path: &Path<'_>, causes: &mut Causes) {
    let volumes = volume::check_all(spec, path, causes);
    let mut pod = Pod { names: BTreeSet::new(), volumes, host_network: flag(spec, "hostNetwork") };
    if list(spec, "containers").is_empty() {
        causes.required(&path.field("containers"), "");
    }
    for field in ["containers", "initContainers", "ephemeralContainers"] {
        container::check_all(spec, field, &mut pod, path, causes);
    }
    one_of(spec, "restartPolicy", &["Always", "OnFailure", "Never"], path, causes);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    one_of(spec, "dnsPolicy", &policies, path, causes);
    meta::labels(spec.get("nodeSelector"), &path.field("nodeSelector"), causes);
    container::check_security(get(spec, "securityContext"), &path.field("securityContext"), causes);
    check_names(spec, path, causes);
    check_numbers(spec, path, causes);
    check_tolerations(spec, path, causes);
    check_spread(spec, path, causes);
    check_gates(spec, path, causes);
    affinity::check(get(spec, "affinity"), &path.field("affinity"), causes);
    quantity::check_list(spec, "overhead", path, causes);
    let aliases = path.field("hostAliases");
    for (index, alias) in list(spec, "hostAliases").iter().enumerate() {
        let ip = text(alias, "ip");
        if ip.parse::<IpAddr>().is_err() {
            let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            causes.invalid_text(&aliases.index(index).field("ip"), ip, detail);
        }
    }
}

fn check_names(spec: &Value, path: &Path<'_>, causes: &mut Causes) {
    type Rule = fn(&str) -> Vec<String>;
    const FIELDS: [(&str, Rule); 6] = [
        ("serviceAccountName", names::dns_subdomain),
        ("nodeName", names::dns_subdomain),
        ("hostname", names::dns_label),
        ("subdomain", names::dns_label),
        ("priorityClassName", names::dns_subdomain),
        ("runtimeClassName", names::dns_subdomain),
    ];
    for (field, rule) in FIELDS {
        let value = text(spec, field);
        if !value.is_empty() {
            named(&rule(value), value, &path.field(field), causes);
        }
    }
    maybe_one_of(spec, "preemptionPolicy", &["Never", "PreemptLowerPriority"], path, causes);
}

fn check_numbers(spec: &Value, path: &Path<'_>, causes: &mut Causes) {
    if let Some(seconds) = int(spec, "activeDeadlineSeconds")
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let detail = "must be between 1 and 2147483647, inclusive";
        causes.invalid(&path.field("activeDeadlineSeconds"), &json!(seconds), detail);
    }
}

fn check_tolerations(spec: &Value, path: &Path<'_>, causes: &mut Causes) {
    let list_path = path.field("tolerations");
    for (index, toleration) in list(spec, "tolerations").iter().enumerate() {
        let path = list_path.index(index);
        let (key, operator) = (text(toleration, "key"), text(toleration, "operator"));
        let (effect, value) = (text(toleration, "effect"), text(toleration, "value"));
        if !key.is_empty() {
            named(&names::qualified_name(key), key, &path.field("key"), causes);
        } else if operator != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and \
                          all keys\"";
            causes.invalid_text(&path.field("operator"), operator, detail);
        }
        if has(toleration, "tolerationSeconds") && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            causes.invalid_text(&path.field("effect"), effect, detail);
        }
        match operator {
            "" | "Equal" => {
                for finding in names::label_value(value) {
                    causes.invalid_text(&path.field("operator"), value, &finding);
                }
            }
            "Exists" if !value.is_empty() => {
                let detail = "value must be empty when `operator` is 'Exists'";
                causes.invalid(&path.field("operator"), toleration, detail);
            }
            "Exists" => {}
            _ => {
                let supported = ["Equal", "Exists"];
                causes.not_supported(&path.field("operator"), &json!(operator), &supported);
            }
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        maybe_one_of(toleration, "effect", &effects, &path, causes);
    }
}

fn check_spread(spec: &Value, path: &Path<'_>, causes: &mut Causes) {
    let list_path = path.field("topologySpreadConstraints");
    let mut seen = BTreeSet::new();
    for (index, constraint) in list(spec, "topologySpreadConstraints").iter().enumerate() {
        let path = list_path.index(index);
        let skew = int(constraint, "maxSkew").unwrap_or_default();
        if skew <= 0 {
            causes.invalid(&path.field("maxSkew"), &json!(skew), "must be greater than zero");
        }
        let (key, when) = (text(constraint, "topologyKey"), text(constraint, "whenUnsatisfiable"));
        if key.is_empty() {
            causes.required(&path.field("topologyKey"), "can not be empty");
        }
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        if !actions.contains(&when) {
            causes.not_supported(&path.field("whenUnsatisfiable"), &json!(when), &actions);
        }
        if !seen.insert((key, when)) {
            let at = path.field("{topologyKey, whenUnsatisfiable}");
            causes.duplicate(&at, &json!(format!("{{{key}, {when}}}")));
        }
        if has(constraint, "labelSelector") {
            let at = path.field("labelSelector");
            super::selector::check(get(constraint, "labelSelector"), &at, causes);
        }
    }
}

fn check_gates(spec: &Value, path: &Path<'_>, causes: &mut Causes) {
    let list_path = path.field("schedulingGates");
    let mut seen = BTreeSet::new();
    for (index, gate) in list(spec, "schedulingGates").iter().enumerate() {
        let path = list_path.index(index);
        let name = text(gate, "name");
        named(&names::qualified_name(name), name, &path, causes);
        if !seen.insert(name) {
            causes.duplicate(&path, &json!(name));
        }
    }
}

/// A running pod is nearly immutable: new images, a shorter deadline, more tolerations, fewer gates.
fn check_change(new: &Value, old: &Value, path: &Path<'_>, causes: &mut Causes) {
    for field in ["containers", "initContainers"] {
        if list(new, field).len() != list(old, field).len() {
            causes.forbidden(&path.field(field), "pod updates may not add or remove containers");
            return;
        }
    }
    check_deadline(new, old, path, causes);
    check_gate_removal(new, old, path, causes);
    check_added_tolerations(new, old, path, causes);
    let mut allowed = new.clone();
    let gated = !list(old, "schedulingGates").is_empty();
    for field in ["containers", "initContainers"] {
        copy_images(&mut allowed, old, field);
    }
    let mut take_old = vec!["activeDeadlineSeconds", "tolerations", "schedulingGates"];
    if gated {
        take_old.extend(["nodeSelector", "affinity"]);
    }
    let grace = |spec: &Value| int(spec, "terminationGracePeriodSeconds");
    if grace(new) == Some(1) && grace(old).is_some_and(|seconds| seconds < 0) {
        take_old.push("terminationGracePeriodSeconds");
    }
    for field in take_old {
        match old.get(field) {
            Some(value) => put(&mut allowed, field, value.clone()),
            None => drop(allowed.as_object_mut().and_then(|fields| fields.remove(field))),
        }
    }
    if allowed != *old {
        let detail = "pod updates may not change fields other than `spec.containers[*].image`,\
                      `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only \
                      additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to \
                      be set to 1 if it was previously negative)";
        let detail = format!("{detail}\n{}", difference(&allowed, old));
        causes.forbidden(path, &detail);
    }
}

/// Names the fields that differ, one a line.
fn difference(new: &Value, old: &Value) -> String {
    let fields = |value: &Value| -> BTreeSet<String> {
        value.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect()
    };
    let changed = fields(new).into_iter().chain(fields(old)).collect::<BTreeSet<_>>();
    let lines: Vec<String> = changed
        .into_iter()
        .filter(|name| new.get(name) != old.get(name))
        .map(|name| format!("- {name}: {}\n+ {name}: {}", get(old, &name), get(new, &name)))
        .collect();
    lines.join("\n")
}

fn copy_images(new: &mut Value, old: &Value, field: &str) {
    let Some(containers) = new.get_mut(field).and_then(Value::as_array_mut) else { return };
    for (container, old) in containers.iter_mut().zip(list(old, field)) {
        put(container, "image", text(old, "image"));
    }
}

fn check_deadline(new: &Value, old: &Value, path: &Path<'_>, causes: &mut Causes) {
    let path = path.field("activeDeadlineSeconds");
    match (int(new, "activeDeadlineSeconds"), int(old, "activeDeadlineSeconds")) {
        (Some(new), Some(old)) if new > old => {
            causes.invalid(&path, &json!(new), "must be less than or equal to previous value");
        }
        (None, Some(_)) => {
            let detail = "must not update from a positive integer to nil value";
            causes.invalid(&path, &Value::Null, detail);
        }
        _ => {}
    }
}

fn check_gate_removal(new: &Value, old: &Value, path: &Path<'_>, causes: &mut Causes) {
    let known: Vec<&str> =
        list(old, "schedulingGates").iter().map(|gate| text(gate, "name")).collect();
    let list_path = path.field("schedulingGates");
    for (index, gate) in list(new, "schedulingGates").iter().enumerate() {
        let name = text(gate, "name");
        if !known.contains(&name) {
            let detail =
                format!("only deletion is allowed, but found new scheduling gate '{name}'");
            causes.forbidden(&list_path.index(index), &detail);
        }
    }
}

fn check_added_tolerations(new: &Value, old: &Value, path: &Path<'_>, causes: &mut Causes) {
    let same = |a: &Value, b: &Value| {
        ["key", "operator", "value", "effect"].iter().all(|field| text(a, field) == text(b, field))
    };
    let kept = list(old, "tolerations")
        .iter()
        .all(|old| list(new, "tolerations").iter().any(|new| same(new, old)));
    if !kept {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        causes.forbidden(&path.field("tolerations"), detail);
    }
}
