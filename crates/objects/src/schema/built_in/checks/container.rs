//! Containers of a pod: names, ports, environment, mounts, probes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{maybe_one_of, named, not_empty, not_negative, one_of, port_range, quantity};
use crate::schema::cause::{Causes, Path};
use crate::schema::names;
use crate::schema::object::{flag, get, has, int, list, text};

/// What the containers of one pod share.
pub(super) struct Pod<'a> {
    /// Names used so far, over all kinds of containers.
    pub(super) names: BTreeSet<&'a str>,
    pub(super) volumes: BTreeSet<&'a str>,
    pub(super) host_network: bool,
}

/// Fields of the pod that `fieldRef` may name in an environment variable.
const ENV_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

const ENV_RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Checks one list of containers.
pub(super) fn check_all<'a>(
    spec: &'a Value,
    field: &'a str,
    pod: &mut Pod<'a>,
    path: &Path<'_>,
    causes: &mut Causes,
) {
    let list_path = path.field(field);
    for (index, container) in list(spec, field).iter().enumerate() {
        let path = list_path.index(index);
        check_name(container, pod, &path, causes);
        check_image(container, &path, causes);
        if field != "ephemeralContainers" {
            let resources = get(container, "resources");
            quantity::check_resources(resources, &path.field("resources"), causes);
        }
        check_ports(container, pod.host_network, &path, causes);
        check_env(container, &path, causes);
        check_env_from(container, &path, causes);
        check_mounts(container, &pod.volumes, &path, causes);
        check_probes(container, &path, causes);
        check_security(get(container, "securityContext"), &path.field("securityContext"), causes);
        if field == "initContainers" {
            check_init(container, &path, causes);
        }
    }
}

fn check_name<'a>(container: &'a Value, pod: &mut Pod<'a>, path: &Path<'_>, causes: &mut Causes) {
    let (name, path) = (text(container, "name"), path.field("name"));
    if name.is_empty() {
        causes.required(&path, "");
        return;
    }
    named(&names::dns_label(name), name, &path, causes);
    if !pod.names.insert(name) {
        causes.duplicate(&path, &json!(name));
    }
}

fn check_image(container: &Value, path: &Path<'_>, causes: &mut Causes) {
    let image = text(container, "image");
    if image.is_empty() {
        causes.required(&path.field("image"), "");
    } else if image.trim() != image {
        let detail = "must not have leading or trailing whitespace";
        causes.invalid_text(&path.field("image"), image, detail);
    }
    one_of(container, "imagePullPolicy", &["Always", "IfNotPresent", "Never"], path, causes);
    let policies = ["FallbackToLogsOnError", "File"];
    one_of(container, "terminationMessagePolicy", &policies, path, causes);
    not_empty(container, "terminationMessagePath", path, causes);
}

/// Init containers end before the pod starts, unless they restart always.
fn check_init(container: &Value, path: &Path<'_>, causes: &mut Causes) {
    maybe_one_of(container, "restartPolicy", &["Always", "Never", "OnFailure"], path, causes);
    if text(container, "restartPolicy") == "Always" {
        return;
    }
    for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        if has(container, field) {
            let detail = "may not be set for init containers without restartPolicy=Always";
            causes.forbidden(&path.field(field), detail);
        }
    }
}

fn check_ports(container: &Value, host_network: bool, path: &Path<'_>, causes: &mut Causes) {
    let list_path = path.field("ports");
    let mut seen = BTreeSet::new();
    for (index, port) in list(container, "ports").iter().enumerate() {
        let path = list_path.index(index);
        let name = text(port, "name");
        if !name.is_empty() {
            let findings = names::port_name(name);
            named(&findings, name, &path.field("name"), causes);
            if findings.is_empty() && !seen.insert(name) {
                causes.duplicate(&path.field("name"), &json!(name));
            }
        }
        match int(port, "containerPort") {
            None | Some(0) => causes.required(&path.field("containerPort"), ""),
            Some(number) => port_range(number, &path.field("containerPort"), causes),
        }
        if let Some(number) = int(port, "hostPort").filter(|number| *number != 0) {
            port_range(number, &path.field("hostPort"), causes);
            if host_network && Some(number) != int(port, "containerPort") {
                let detail = "must match `hostPort` when `hostNetwork` is true";
                let number = int(port, "containerPort").unwrap_or_default();
                causes.invalid(&path.field("containerPort"), &json!(number), detail);
            }
        }
        one_of(port, "protocol", &["SCTP", "TCP", "UDP"], &path, causes);
    }
}

fn check_env(container: &Value, path: &Path<'_>, causes: &mut Causes) {
    let list_path = path.field("env");
    for (index, variable) in list(container, "env").iter().enumerate() {
        let path = list_path.index(index);
        let name = text(variable, "name");
        if name.is_empty() {
            causes.required(&path.field("name"), "");
        } else {
            named(&names::env_name(name), name, &path.field("name"), causes);
        }
        if has(variable, "valueFrom") {
            check_env_source(variable, &path.field("valueFrom"), causes);
        }
    }
}

fn check_env_source(variable: &Value, path: &Path<'_>, causes: &mut Causes) {
    const SOURCES: [&str; 5] =
        ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    let source = get(variable, "valueFrom");
    let given = SOURCES.iter().filter(|name| has(source, name)).count();
    if given == 0 {
        let detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`";
        causes.invalid_text(path, "", detail);
    } else if !text(variable, "value").is_empty() {
        causes.invalid_text(path, "", "may not be specified when `value` is not empty");
    } else if given > 1 {
        causes.invalid_text(path, "", "may not have more than one field specified at a time");
    }
    if has(source, "fieldRef") {
        check_field(get(source, "fieldRef"), &path.field("fieldRef"), causes);
    }
    if has(source, "resourceFieldRef") {
        let (field, path) = (get(source, "resourceFieldRef"), path.field("resourceFieldRef"));
        let resource = text(field, "resource");
        if resource.is_empty() {
            causes.required(&path.field("resource"), "");
        } else if !ENV_RESOURCES.contains(&resource) && !resource.contains(".hugepages-") {
            causes.not_supported(&path.field("resource"), &json!(resource), &ENV_RESOURCES);
        }
    }
    for name in ["configMapKeyRef", "secretKeyRef"] {
        if has(source, name) {
            let (selector, path) = (get(source, name), path.field(name));
            not_empty(selector, "name", &path, causes);
            let key = text(selector, "key");
            if key.is_empty() {
                causes.required(&path.field("key"), "");
            } else {
                named(&names::config_key(key), key, &path.field("key"), causes);
            }
        }
    }
}

fn check_field(field: &Value, path: &Path<'_>, causes: &mut Causes) {
    not_empty(field, "apiVersion", path, causes);
    let name = text(field, "fieldPath");
    let path = path.field("fieldPath");
    if name.is_empty() {
        causes.required(&path, "");
    } else if let Some((map, _)) = name.split_once("['") {
        if !matches!(map, "metadata.annotations" | "metadata.labels") {
            causes.invalid_text(&path, name, "does not support subscript");
        }
    } else if !ENV_FIELDS.contains(&name) {
        let detail = format!("error converting fieldPath: field label not supported: {name}");
        causes.invalid_text(&path, name, &detail);
    }
}

fn check_env_from(container: &Value, path: &Path<'_>, causes: &mut Causes) {
    let list_path = path.field("envFrom");
    for (index, source) in list(container, "envFrom").iter().enumerate() {
        let path = list_path.index(index);
        let given: Vec<&str> =
            ["configMapRef", "secretRef"].into_iter().filter(|name| has(source, name)).collect();
        match given.as_slice() {
            [] => {
                let detail = "must specify one of: `configMapRef` or `secretRef`";
                causes.invalid_text(&path, "", detail);
            }
            [one] => not_empty(get(source, one), "name", &path.field(one), causes),
            _ => causes.invalid_text(
                &path,
                "",
                "may not have more than one field specified at a time",
            ),
        }
    }
}

fn check_mounts(container: &Value, volumes: &BTreeSet<&str>, path: &Path<'_>, causes: &mut Causes) {
    let list_path = path.field("volumeMounts");
    let mut seen = BTreeSet::new();
    for (index, mount) in list(container, "volumeMounts").iter().enumerate() {
        let path = list_path.index(index);
        let name = text(mount, "name");
        if name.is_empty() {
            causes.required(&path.field("name"), "");
        } else if !volumes.contains(name) {
            causes.not_found(&path.field("name"), &json!(name));
        }
        let target = text(mount, "mountPath");
        if target.is_empty() {
            causes.required(&path.field("mountPath"), "");
        } else if !seen.insert(target) {
            causes.invalid_text(&path.field("mountPath"), target, "must be unique");
        }
        for field in ["subPath", "subPathExpr"] {
            relative(text(mount, field), &path.field(field), causes);
        }
        if !text(mount, "subPath").is_empty() && !text(mount, "subPathExpr").is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            causes.invalid_text(&path.field("subPathExpr"), text(mount, "subPathExpr"), detail);
        }
    }
}

/// A path below the volume.
pub(super) fn relative(target: &str, path: &Path<'_>, causes: &mut Causes) {
    if target.starts_with('/') {
        causes.invalid_text(path, target, "must be a relative path");
    }
    if target.split('/').any(|part| part == "..") {
        causes.invalid_text(path, target, "must not contain '..'");
    }
}

fn check_probes(container: &Value, path: &Path<'_>, causes: &mut Causes) {
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = get(container, field);
        if probe.is_null() {
            continue;
        }
        let path = path.field(field);
        check_handler(probe, &["exec", "httpGet", "tcpSocket", "grpc"], &path, causes);
        for number in [
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        ] {
            not_negative(probe, number, &path, causes);
        }
        if let Some(seconds) = int(probe, "terminationGracePeriodSeconds") {
            let at = path.field("terminationGracePeriodSeconds");
            if field == "readinessProbe" {
                let detail = "must not be set for readinessProbes";
                causes.invalid(&at, &json!(seconds), detail);
            } else if seconds <= 0 {
                causes.invalid(&at, &json!(seconds), "must be greater than 0");
            }
        }
        if let Some(number) = int(probe, "successThreshold").filter(|number| *number != 1)
            && field != "readinessProbe"
        {
            causes.invalid(&path.field("successThreshold"), &json!(number), "must be 1");
        }
    }
    let lifecycle = get(container, "lifecycle");
    for field in ["postStart", "preStop"] {
        if has(lifecycle, field) {
            let path = path.field("lifecycle");
            let hooks = ["exec", "httpGet", "tcpSocket", "sleep"];
            check_handler(get(lifecycle, field), &hooks, &path.field(field), causes);
        }
    }
}

/// Exactly one way to act, and that one complete.
fn check_handler(handler: &Value, kinds: &[&str], path: &Path<'_>, causes: &mut Causes) {
    let given: Vec<&str> = kinds.iter().copied().filter(|kind| has(handler, kind)).collect();
    if given.is_empty() {
        causes.required(path, "must specify a handler type");
    }
    for extra in given.iter().skip(1) {
        causes.forbidden(&path.field(extra), "may not specify more than 1 handler type");
    }
    for kind in given {
        let (action, path) = (get(handler, kind), path.field(kind));
        match kind {
            "exec" if list(action, "command").is_empty() => {
                causes.required(&path.field("command"), "")
            }
            "httpGet" => {
                not_empty(action, "path", &path, causes);
                check_target_port(get(action, "port"), &path.field("port"), causes);
                one_of(action, "scheme", &["HTTP", "HTTPS"], &path, causes);
            }
            "tcpSocket" => check_target_port(get(action, "port"), &path.field("port"), causes),
            "grpc" => {
                port_range(int(action, "port").unwrap_or_default(), &path.field("port"), causes)
            }
            _ => {}
        }
    }
}

/// A port by number or by name.
pub(super) fn check_target_port(port: &Value, path: &Path<'_>, causes: &mut Causes) {
    match port {
        Value::String(name) => named(&names::port_name(name), name, path, causes),
        port => port_range(port.as_i64().unwrap_or_default(), path, causes),
    }
}

/// Checks what a pod's and a container's security context have in common, and the container's own.
pub(super) fn check_security(context: &Value, path: &Path<'_>, causes: &mut Causes) {
    for field in ["runAsUser", "runAsGroup", "fsGroup"] {
        if let Some(id) = int(context, field).filter(|id| !(0..=i64::from(i32::MAX)).contains(id)) {
            let detail = "must be between 0 and 2147483647, inclusive";
            causes.invalid(&path.field(field), &json!(id), detail);
        }
    }
    let escalation = context.get("allowPrivilegeEscalation").and_then(Value::as_bool);
    if escalation == Some(false) && flag(context, "privileged") {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        causes.invalid(path, context, detail);
    }
}
