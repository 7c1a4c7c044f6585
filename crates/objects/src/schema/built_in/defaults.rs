//! What Kubernetes v1.35 fills in when an object of a built-in kind is written.
//!
//! Only what the API types default is here. Values that need the cluster (cluster IPs, priorities, service
//! account mounts, generated names) belong to the request path.

mod pod;
mod workload;

use serde_json::{Map, Value, json};

use crate::schema::Gvk;
use crate::schema::object::{
    child, each, entries, fill, fill_number, fill_text, has, open, put, text,
};

/// Fills in the defaults of `object`.
pub(in crate::schema) fn default(gvk: &Gvk, object: &mut Value) {
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("", "Pod") => pod::pod(object),
        ("", "PodTemplate") => pod::template(object),
        ("", "ReplicationController") => workload::replication_controller(object),
        ("", "Service") => service(object),
        ("", "Endpoints") => endpoints(object),
        ("", "Namespace") => namespace(object),
        ("", "Node") => node(object),
        ("", "Secret") => secret(object),
        ("", "PersistentVolume") => persistent_volume(object),
        ("", "PersistentVolumeClaim") => pod::claim(object),
        ("", "LimitRange") => limit_range(object),
        ("apps", "Deployment") => workload::deployment(object),
        ("apps", "ReplicaSet") => workload::replica_set(object),
        ("apps", "DaemonSet") => workload::daemon_set(object),
        ("apps", "StatefulSet") => workload::stateful_set(object),
        ("batch", "Job") => workload::job(object),
        ("batch", "CronJob") => workload::cron_job(object),
        ("scheduling.k8s.io", "PriorityClass") => {
            fill_text(object, "preemptionPolicy", "PreemptLowerPriority");
        }
        ("storage.k8s.io", "StorageClass") => {
            fill_text(object, "reclaimPolicy", "Delete");
            fill_text(object, "volumeBindingMode", "Immediate");
        }
        ("storage.k8s.io", "CSIDriver") => csi_driver(object),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => role_binding(object),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration") => webhooks(object, true),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration") => {
            webhooks(object, false)
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => admission_policy(object),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            if let Some(spec) = child(object, "spec")
                && let Some(resources) = child(spec, "matchResources")
            {
                match_resources(resources);
            }
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(object),
        _ => {}
    }
}

fn service(object: &mut Value) {
    let Some(spec) = open(object, "spec") else { return };
    fill_text(spec, "sessionAffinity", "None");
    match text(spec, "sessionAffinity") {
        "None" => {
            if let Some(fields) = spec.as_object_mut() {
                fields.remove("sessionAffinityConfig");
            }
        }
        "ClientIP" => {
            let config =
                open(spec, "sessionAffinityConfig").and_then(|config| open(config, "clientIP"));
            if let Some(config) = config {
                fill(config, "timeoutSeconds", 10_800);
            }
        }
        _ => {}
    }
    fill_text(spec, "type", "ClusterIP");
    each(spec, "ports", |port| {
        fill_text(port, "protocol", "TCP");
        let number = port.get("port").cloned();
        if let Some(number) = number
            && port.get("targetPort").is_none_or(|target| *target == 0 || *target == "")
        {
            put(port, "targetPort", number);
        }
    });
    let kind = text(spec, "type").to_owned();
    let is_external = matches!(kind.as_str(), "NodePort" | "LoadBalancer")
        || (kind == "ClusterIP" && has(spec, "externalIPs"));
    if is_external {
        fill_text(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer" | "ClusterIP") {
        fill_text(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        fill(spec, "allocateLoadBalancerNodePorts", true);
    }
}

fn endpoints(object: &mut Value) {
    each(object, "subsets", |subset| {
        each(subset, "ports", |port| fill_text(port, "protocol", "TCP"));
    });
}

/// The name is also a label, so that selectors can name namespaces.
fn namespace(object: &mut Value) {
    let name =
        object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    if name.is_empty() {
        return;
    }
    if let Some(labels) = child(object, "metadata").and_then(|metadata| open(metadata, "labels")) {
        put(labels, "kubernetes.io/metadata.name", name);
    }
}

fn node(object: &mut Value) {
    let Some(status) = child(object, "status") else { return };
    if let Some(capacity) = status.get("capacity").cloned() {
        fill(status, "allocatable", capacity);
    }
}

/// `stringData` is for writing only: it becomes part of `data`.
fn secret(object: &mut Value) {
    fill_text(object, "type", "Opaque");
    let Some(plain) = object.as_object_mut().and_then(|fields| fields.remove("stringData")) else {
        return;
    };
    let Some(data) = open(object, "data") else { return };
    for (key, value) in plain.as_object().into_iter().flatten() {
        put(data, key, base64(value.as_str().unwrap_or_default()));
    }
}

/// Standard base64 with padding.
fn base64(text: &str) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(text.len().div_ceil(3) * 4);
    for chunk in text.as_bytes().chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let index = (bits >> (18 - 6 * digit)) & 63;
            let known = digit <= chunk.len();
            out.push(if known { char::from(ALPHABET[index as usize]) } else { '=' });
        }
    }
    out
}

fn persistent_volume(object: &mut Value) {
    if let Some(spec) = child(object, "spec") {
        fill_text(spec, "persistentVolumeReclaimPolicy", "Retain");
        fill_text(spec, "volumeMode", "Filesystem");
        if let Some(host_path) = child(spec, "hostPath") {
            fill(host_path, "type", "");
        }
    }
    if let Some(status) = open(object, "status") {
        fill_text(status, "phase", "Pending");
    }
}

fn limit_range(object: &mut Value) {
    let Some(spec) = child(object, "spec") else { return };
    each(spec, "limits", |item| {
        if text(item, "type") != "Container" {
            return;
        }
        copy_missing(item, "max", "default");
        copy_missing(item, "default", "defaultRequest");
        copy_missing(item, "min", "defaultRequest");
    });
}

/// Copies entries of the map `from` that the map `to` does not have.
fn copy_missing(value: &mut Value, from: &str, to: &str) {
    let found: Vec<(String, Value)> =
        entries(value, from).map(|(name, value)| (name.clone(), value.clone())).collect();
    if found.is_empty() {
        return;
    }
    if let Some(target) = open(value, to) {
        for (name, value) in found {
            fill(target, &name, value);
        }
    }
}

fn csi_driver(object: &mut Value) {
    let Some(spec) = open(object, "spec") else { return };
    fill(spec, "attachRequired", true);
    fill(spec, "podInfoOnMount", false);
    fill(spec, "storageCapacity", false);
    fill(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    fill(spec, "requiresRepublish", false);
    fill(spec, "seLinuxMount", false);
    fill(spec, "volumeLifecycleModes", json!(["Persistent"]));
}

fn role_binding(object: &mut Value) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    if let Some(role) = child(object, "roleRef") {
        fill_text(role, "apiGroup", GROUP);
    }
    each(object, "subjects", |subject| {
        if matches!(text(subject, "kind"), "User" | "Group") {
            fill_text(subject, "apiGroup", GROUP);
        }
    });
}

fn webhooks(object: &mut Value, mutating: bool) {
    each(object, "webhooks", |webhook| {
        fill(webhook, "failurePolicy", "Fail");
        fill(webhook, "matchPolicy", "Equivalent");
        fill(webhook, "namespaceSelector", Map::new());
        fill(webhook, "objectSelector", Map::new());
        fill(webhook, "timeoutSeconds", 10);
        if mutating {
            fill(webhook, "reinvocationPolicy", "Never");
        }
        each(webhook, "rules", |rule| fill(rule, "scope", "*"));
        service_port(webhook);
    });
}

/// A webhook's service is reached on 443 unless it says otherwise.
fn service_port(webhook: &mut Value) {
    let config = child(webhook, "clientConfig");
    if let Some(service) = config.and_then(|config| child(config, "service")) {
        fill(service, "port", 443);
    }
}

fn admission_policy(object: &mut Value) {
    let Some(spec) = child(object, "spec") else { return };
    fill(spec, "failurePolicy", "Fail");
    if let Some(resources) = child(spec, "matchConstraints") {
        match_resources(resources);
    }
}

fn match_resources(resources: &mut Value) {
    fill(resources, "matchPolicy", "Equivalent");
    fill(resources, "namespaceSelector", Map::new());
    fill(resources, "objectSelector", Map::new());
    for field in ["resourceRules", "excludeResourceRules"] {
        each(resources, field, |rule| fill(rule, "scope", "*"));
    }
}

fn definition(object: &mut Value) {
    let Some(spec) = child(object, "spec") else { return };
    if let Some(names) = open(spec, "names") {
        let kind = text(names, "kind").to_owned();
        if !kind.is_empty() {
            fill_text(names, "singular", &kind.to_lowercase());
            fill_text(names, "listKind", &format!("{kind}List"));
        }
    }
    if let Some(conversion) = open(spec, "conversion") {
        fill_text(conversion, "strategy", "None");
        if let Some(webhook) = child(conversion, "webhook") {
            service_port(webhook);
        }
    }
}

/// Used by both files below: a probe-like HTTP request.
fn http_get(action: &mut Value) {
    if let Some(request) = child(action, "httpGet") {
        fill_text(request, "path", "/");
        fill_text(request, "scheme", "HTTP");
    }
}

/// Numbers of a probe that mean "default" when zero.
fn probe(container: &mut Value, field: &str) {
    let Some(probe) = child(container, field) else { return };
    fill_number(probe, "timeoutSeconds", 1);
    fill_number(probe, "periodSeconds", 10);
    fill_number(probe, "successThreshold", 1);
    fill_number(probe, "failureThreshold", 3);
    http_get(probe);
    if let Some(grpc) = child(probe, "grpc") {
        fill(grpc, "service", "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::built_in::Schemas;

    /// The smallest objects that bring out every default of their kind.
    fn samples() -> Vec<(&'static str, &'static str, Value)> {
        let template = json!({"metadata": {"labels": {"app": "a"}},
            "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
        vec![
            (
                "",
                "Pod",
                json!({"spec": {"hostNetwork": true, "volumes": [
                {"name": "none"}, {"name": "s", "secret": {"secretName": "s"}},
                {"name": "h", "hostPath": {"path": "/x"}},
                {"name": "d", "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
                {"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}],
                "containers": [{"name": "c", "image": "nginx",
                    "ports": [{"containerPort": 80}],
                    "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                        {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}],
                    "livenessProbe": {"httpGet": {"port": 80}},
                    "lifecycle": {"preStop": {"httpGet": {"port": 80}}},
                    "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}}]}}),
            ),
            ("apps", "Deployment", json!({"spec": {"template": template}})),
            ("apps", "ReplicaSet", json!({"spec": {"template": template}})),
            ("apps", "DaemonSet", json!({"spec": {"template": template}})),
            (
                "apps",
                "StatefulSet",
                json!({"spec": {"template": template,
                "volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": {}}]}}),
            ),
            ("batch", "Job", json!({"metadata": {}, "spec": {"template": template}})),
            (
                "batch",
                "CronJob",
                json!({"spec": {"jobTemplate": {"spec": {"template": template}}}}),
            ),
            (
                "",
                "Service",
                json!({"spec": {"type": "LoadBalancer", "sessionAffinity": "ClientIP",
                "ports": [{"port": 80}, {"port": 81, "targetPort": "web"}]}}),
            ),
            ("", "Namespace", json!({"metadata": {"name": "n"}})),
            ("", "Secret", json!({"data": {"a": "eA=="}, "stringData": {"b": "hi", "a": "hello"}})),
            ("", "PersistentVolume", json!({"spec": {"hostPath": {"path": "/x"}}})),
            ("", "PersistentVolumeClaim", json!({"spec": {}})),
            (
                "",
                "LimitRange",
                json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}},
                {"type": "Container", "min": {"cpu": "1"}}, {"type": "Pod", "max": {"cpu": "2"}}]}}),
            ),
            ("scheduling.k8s.io", "PriorityClass", json!({"value": 1})),
            ("storage.k8s.io", "StorageClass", json!({"provisioner": "p"})),
            (
                "rbac.authorization.k8s.io",
                "RoleBinding",
                json!({"roleRef": {"kind": "Role", "name": "r"},
                "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s"}]}),
            ),
            (
                "admissionregistration.k8s.io",
                "MutatingWebhookConfiguration",
                json!({"webhooks": [{"rules": [{}], "clientConfig": {"service": {}}}]}),
            ),
            (
                "apiextensions.k8s.io",
                "CustomResourceDefinition",
                json!({"spec": {"names": {"plural": "things", "kind": "Thing"}}}),
            ),
        ]
    }

    #[test]
    fn defaults_are_those_of_kubernetes() {
        for (group, kind, mut object) in samples() {
            default(&Gvk::new(group, "v1", kind), &mut object);
            insta::assert_yaml_snapshot!(format!("default-{kind}"), object);
        }
    }

    #[test]
    fn defaulting_twice_changes_nothing_and_adds_only_known_fields() {
        for (group, kind, mut object) in samples() {
            let gvk = Gvk::new(group, "v1", kind);
            let schema = Schemas::built_in().get(&gvk).unwrap();
            default(&gvk, &mut object);
            let once = object.clone();
            default(&gvk, &mut object);
            assert_eq!(object, once, "{kind}");
            assert_eq!(schema.prune(&mut object), [""; 0], "{kind}");
            assert_eq!(schema.type_error(&object), None, "{kind}");
        }
    }

    #[test]
    fn base64_has_padding() {
        for (text, want) in
            [("", ""), ("a", "YQ=="), ("ab", "YWI="), ("abc", "YWJj"), ("hello", "aGVsbG8=")]
        {
            assert_eq!(base64(text), want);
        }
    }
}
