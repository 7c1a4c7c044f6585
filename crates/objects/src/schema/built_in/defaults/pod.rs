//! Pods and the templates that become pods.

use serde_json::{Map, Value};

use super::{copy_missing, http_get, probe};
use crate::schema::object::{child, each, fill, fill_number, fill_text, flag, open, put, text};

/// Kinds of container lists in a pod.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

pub(super) fn pod(object: &mut Value) {
    let Some(spec) = open(object, "spec") else { return };
    pod_spec(spec);
    fill(spec, "enableServiceLinks", true);
    for field in ["containers", "initContainers"] {
        each(spec, field, requests_follow_limits);
    }
    if let Some(resources) = child(spec, "resources") {
        copy_missing(resources, "limits", "requests");
    }
    if flag(spec, "hostNetwork") {
        for field in CONTAINERS {
            each(spec, field, host_ports);
        }
    }
}

/// A `PodTemplate` object.
pub(super) fn template(object: &mut Value) {
    if let Some(template) = open(object, "template") {
        pod_template(template);
    }
}

/// The `template` field of a workload's spec.
pub(super) fn pod_template(template: &mut Value) {
    if let Some(spec) = open(template, "spec") {
        pod_spec(spec);
    }
}

fn requests_follow_limits(container: &mut Value) {
    if let Some(resources) = child(container, "resources") {
        copy_missing(resources, "limits", "requests");
    }
}

/// On the host network a container port is a host port.
fn host_ports(container: &mut Value) {
    each(container, "ports", |port| {
        if let Some(number) = port.get("containerPort").and_then(Value::as_i64) {
            fill_number(port, "hostPort", number);
        }
    });
}

fn pod_spec(spec: &mut Value) {
    fill_text(spec, "restartPolicy", "Always");
    fill_text(spec, "dnsPolicy", "ClusterFirst");
    fill(spec, "terminationGracePeriodSeconds", 30);
    fill(spec, "securityContext", Map::new());
    fill_text(spec, "schedulerName", "default-scheduler");
    for field in CONTAINERS {
        each(spec, field, container);
    }
    each(spec, "volumes", volume);
    let account = text(spec, "serviceAccountName").to_owned();
    if !account.is_empty() {
        fill_text(spec, "serviceAccount", &account);
    } else if let Some(account) =
        spec.get("serviceAccount").and_then(Value::as_str).map(str::to_owned)
    {
        fill_text(spec, "serviceAccountName", &account);
    }
}

fn container(container: &mut Value) {
    let policy = pull_policy(text(container, "image"));
    fill_text(container, "imagePullPolicy", policy);
    fill_text(container, "terminationMessagePath", "/dev/termination-log");
    fill_text(container, "terminationMessagePolicy", "File");
    fill(container, "resources", Map::new());
    each(container, "ports", |port| fill_text(port, "protocol", "TCP"));
    each(container, "env", |variable| {
        if let Some(source) = child(variable, "valueFrom") {
            field_source(source);
            if let Some(file) = child(source, "fileKeyRef") {
                fill(file, "optional", false);
            }
        }
    });
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        probe(container, field);
    }
    if let Some(lifecycle) = child(container, "lifecycle") {
        for field in ["postStart", "preStop"] {
            if let Some(hook) = child(lifecycle, field) {
                http_get(hook);
            }
        }
    }
}

/// References from an environment variable or a file to a field of the pod.
fn field_source(source: &mut Value) {
    if let Some(field) = child(source, "fieldRef") {
        fill_text(field, "apiVersion", "v1");
    }
    if let Some(field) = child(source, "resourceFieldRef") {
        fill_text(field, "divisor", "0");
    }
}

/// Images that may change under their name are pulled every time.
pub(super) fn pull_policy(image: &str) -> &'static str {
    if tag(image) == Some("latest") { "Always" } else { "IfNotPresent" }
}

/// The tag of an image; `latest` when it names neither tag nor digest, `None` with a digest only.
fn tag(image: &str) -> Option<&str> {
    let (name, digest) = match image.split_once('@') {
        Some((name, _)) => (name, true),
        None => (image, false),
    };
    let last = name.rsplit('/').next().unwrap_or(name);
    match last.split_once(':') {
        Some((_, tag)) => Some(tag),
        None if digest || image.is_empty() => None,
        None => Some("latest"),
    }
}

fn volume(volume: &mut Value) {
    let is_sourceless =
        volume.as_object().is_some_and(|fields| fields.keys().all(|key| key == "name"));
    if is_sourceless {
        put(volume, "emptyDir", Map::new());
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = child(volume, source) {
            fill(source, "defaultMode", 0o644);
            downward_items(source);
            each(source, "sources", projection);
        }
    }
    if let Some(host_path) = child(volume, "hostPath") {
        fill(host_path, "type", "");
    }
    if let Some(iscsi) = child(volume, "iscsi") {
        fill_text(iscsi, "iscsiInterface", "default");
    }
    if let Some(rbd) = child(volume, "rbd") {
        fill_text(rbd, "pool", "rbd");
        fill_text(rbd, "user", "admin");
        fill_text(rbd, "keyring", "/etc/ceph/keyring");
    }
    if let Some(disk) = child(volume, "azureDisk") {
        fill(disk, "cachingMode", "ReadWrite");
        fill(disk, "kind", "Shared");
        fill(disk, "fsType", "ext4");
        fill(disk, "readOnly", false);
    }
    if let Some(scale_io) = child(volume, "scaleIO") {
        fill_text(scale_io, "storageMode", "ThinProvisioned");
        fill_text(scale_io, "fsType", "xfs");
    }
    if let Some(template) = child(volume, "ephemeral").and_then(|e| child(e, "volumeClaimTemplate"))
        && let Some(spec) = child(template, "spec")
    {
        fill(spec, "volumeMode", "Filesystem");
    }
    if let Some(image) = child(volume, "image") {
        let policy = pull_policy(text(image, "reference"));
        fill_text(image, "pullPolicy", policy);
    }
}

fn downward_items(source: &mut Value) {
    each(source, "items", field_source);
}

fn projection(source: &mut Value) {
    if let Some(token) = child(source, "serviceAccountToken") {
        fill(token, "expirationSeconds", 3_600);
    }
    if let Some(fields) = child(source, "downwardAPI") {
        downward_items(fields);
    }
}

/// A `PersistentVolumeClaim`, alone or as a template of a StatefulSet.
pub(super) fn claim(object: &mut Value) {
    if let Some(spec) = child(object, "spec") {
        fill(spec, "volumeMode", "Filesystem");
    }
    if let Some(status) = open(object, "status") {
        fill_text(status, "phase", "Pending");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_without_a_fixed_version_are_always_pulled() {
        let cases = [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("nginx:1.25", "IfNotPresent"),
            ("localhost:5000/nginx", "Always"),
            ("localhost:5000/nginx:1", "IfNotPresent"),
            ("nginx@sha256:abc", "IfNotPresent"),
            ("nginx:latest@sha256:abc", "Always"),
            ("", "IfNotPresent"),
        ];
        for (image, want) in cases {
            assert_eq!(pull_policy(image), want, "{image}");
        }
    }
}
