//! Accepted objects and their rejected neighbours, kind by kind.

mod pod;

use serde_json::{Value, json};

use crate::schema::built_in::Schemas;
use crate::schema::{Gvk, Schema};

fn schema(group: &str, kind: &str) -> &'static Schema {
    Schemas::built_in().get(&Gvk::new(group, "v1", kind)).unwrap()
}

/// `object` with the value at `pointer` replaced, added, or removed for null.
fn with(object: &Value, pointer: &str, value: Value) -> Value {
    let mut object = object.clone();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = object.pointer_mut(parent).unwrap_or_else(|| panic!("no {pointer}"));
    match (parent, value) {
        (Value::Object(fields), Value::Null) => drop(fields.remove(name)),
        (Value::Array(items), value) if name == "-" => items.push(value),
        (Value::Array(items), value) => items[name.parse::<usize>().unwrap()] = value,
        (parent, value) => parent[name] = value,
    }
    object
}

/// Findings about a new object, after defaulting as the server does.
fn found(schema: &Schema, object: &Value) -> Vec<String> {
    let mut object = object.clone();
    schema.default(&mut object);
    schema.validate(&object).iter().map(ToString::to_string).collect()
}

fn found_update(schema: &Schema, new: &Value, old: &Value) -> Vec<String> {
    let (mut new, mut old) = (new.clone(), old.clone());
    schema.default(&mut new);
    schema.default(&mut old);
    schema.validate_update(&new, &old).iter().map(ToString::to_string).collect()
}

/// Checks that `good` is accepted and that each change of it is refused with exactly `want`.
fn refuses(schema: &Schema, good: &Value, cases: &[(&str, Value, &str)]) {
    assert_eq!(found(schema, good), [""; 0]);
    for (pointer, value, want) in cases {
        let object = with(good, pointer, value.clone());
        assert_eq!(found(schema, &object), [*want], "{pointer} = {value}");
    }
}

/// Like [`refuses`], for changes of an existing object.
fn refuses_update(schema: &Schema, good: &Value, cases: &[(&str, Value, &str)]) {
    assert_eq!(found_update(schema, good, good), [""; 0]);
    for (pointer, value, want) in cases {
        let object = with(good, pointer, value.clone());
        let found = found_update(schema, &object, good);
        assert_eq!(found.len(), 1, "{pointer} = {value}: {found:?}");
        assert!(found[0].starts_with(want), "{pointer} = {value}: {found:?}");
    }
}

fn workload(kind: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": kind,
        "metadata": {"name": "w", "namespace": "n"},
        "spec": {
            "selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    })
}

#[test]
fn revisions_hold_an_object_for_ever() {
    let revision =
        json!({"metadata": {"name": "r", "namespace": "n"}, "data": {"a": 1}, "revision": 1});
    let cases = [
        ("/data", Value::Null, "data: Required value: data is mandatory"),
        ("/revision", json!(-1), "revision: Invalid value: -1: must be greater than or equal to 0"),
    ];
    refuses(schema("apps", "ControllerRevision"), &revision, &cases);
    let cases = [("/data/a", json!(2), r#"data: Invalid value: {"a":2}: field is immutable"#)];
    refuses_update(schema("apps", "ControllerRevision"), &revision, &cases);
}

#[test]
fn workloads_select_their_own_pods_for_ever() {
    let common = [
        ("/spec/selector", Value::Null, "spec.selector: Required value"),
        (
            "/spec/selector/matchLabels/app",
            json!("b"),
            r#"spec.template.metadata.labels: Invalid value: {"app":"a"}: `selector` does not match template `labels`"#,
        ),
        (
            "/spec/template/spec/restartPolicy",
            json!("Never"),
            r#"spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always""#,
        ),
        (
            "/spec/template/spec/containers",
            json!([]),
            "spec.template.spec.containers: Required value",
        ),
        (
            "/spec/minReadySeconds",
            json!(-1),
            "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
        ),
    ];
    for kind in ["Deployment", "ReplicaSet", "DaemonSet", "StatefulSet"] {
        refuses(schema("apps", kind), &workload(kind), &common);
        let old = workload(kind);
        let mut new = with(&old, "/spec/selector/matchLabels", json!({"app": "b"}));
        new["spec"]["template"]["metadata"]["labels"] = json!({"app": "b"});
        let found = found_update(schema("apps", kind), &new, &old);
        let want = match kind {
            "StatefulSet" => "spec: Forbidden: updates to statefulset spec for fields other than",
            _ => r#"spec.selector: Invalid value: {"matchLabels":{"app":"b"}}: field is immutable"#,
        };
        assert_eq!(found.len(), 1, "{kind} {found:?}");
        assert!(found[0].starts_with(want), "{kind} {found:?}");
        let new = with(&old, "/spec/template/spec/containers/0/image", json!("j"));
        assert_eq!(found_update(schema("apps", kind), &new, &old), [""; 0], "{kind}");
    }
    let deployment = [
        (
            "/spec/strategy",
            json!({"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
            "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
        ),
        (
            "/spec/strategy",
            json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
        ),
        (
            "/spec/strategy",
            json!({"rollingUpdate": {"maxUnavailable": "200%"}}),
            r#"spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "200%": must not be greater than 100%"#,
        ),
        (
            "/spec/progressDeadlineSeconds",
            json!(0),
            "spec.progressDeadlineSeconds: Invalid value: 0: must be greater than minReadySeconds",
        ),
    ];
    refuses(schema("apps", "Deployment"), &workload("Deployment"), &deployment);
}

#[test]
fn jobs_end_and_keep_their_template() {
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "n"},
        "spec": {"template": {"metadata": {}, "spec": {"restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i"}]}}},
    });
    let cases = [
        (
            "/spec/template/spec/restartPolicy",
            json!("Always"),
            r#"spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never""#,
        ),
        (
            "/spec/completionMode",
            json!("Indexed"),
            "spec.completions: Required value: when completion mode is Indexed",
        ),
        (
            "/spec/parallelism",
            json!(-1),
            "spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
        ),
    ];
    let with_parallelism = with(&job, "/spec/parallelism", json!(1));
    refuses(schema("batch", "Job"), &with_parallelism, &cases);
    let cases = [
        ("/spec/template/spec/containers/0/image", json!("j"), "spec.template: Invalid value: {"),
        ("/spec/completions", json!(5), "spec.completions: Invalid value: 5: field is immutable"),
    ];
    refuses_update(schema("batch", "Job"), &job, &cases);
    let waiting = with(&job, "/spec/suspend", json!(true));
    let steered = with(&waiting, "/spec/template/spec/nodeSelector", json!({"a": "b"}));
    assert_eq!(found_update(schema("batch", "Job"), &steered, &waiting), [""; 0]);

    let cron = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c", "namespace": "n"},
        "spec": {"schedule": "*/5 1-3 * * MON", "jobTemplate": {"spec": job["spec"]}},
    });
    let cases = [
        ("/spec/schedule", json!(""), "spec.schedule: Required value"),
        (
            "/spec/schedule",
            json!("daily"),
            r#"spec.schedule: Invalid value: "daily": expected exactly 5 fields, found 1: [daily]"#,
        ),
        (
            "/spec/schedule",
            json!("61 * * * *"),
            r#"spec.schedule: Invalid value: "61 * * * *": end of range (61) above maximum (59): 61"#,
        ),
        (
            "/spec/concurrencyPolicy",
            json!("Queue"),
            r#"spec.concurrencyPolicy: Unsupported value: "Queue": supported values: "Allow", "Forbid", "Replace""#,
        ),
    ];
    refuses(schema("batch", "CronJob"), &cron, &cases);
}

#[test]
fn services_need_ports_with_names() {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "n"},
        "spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]},
    });
    let cases = [
        ("/spec/ports", json!([]), "spec.ports: Required value"),
        (
            "/spec/ports/0/port",
            json!(99999),
            "spec.ports[0].port: Invalid value: 99999: must be between 1 and 65535, inclusive",
        ),
        (
            "/spec/ports/0/nodePort",
            json!(30000),
            "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
        ),
        (
            "/spec/type",
            json!("Internal"),
            r#"spec.type: Unsupported value: "Internal": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort""#,
        ),
        ("/metadata/name", json!("1s"), DNS_1035),
    ];
    let port = with(&service, "/spec/ports/0/targetPort", json!(80));
    refuses(schema("", "Service"), &port, &cases);
    let two = with(&service, "/spec/ports/-", json!({"port": 81}));
    assert_eq!(
        found(schema("", "Service"), &two),
        ["spec.ports[0].name: Required value", "spec.ports[1].name: Required value"]
    );
    let old = with(&service, "/spec/clusterIP", json!("10.0.0.1"));
    let cases = [(
        "/spec/clusterIP",
        json!("10.0.0.2"),
        r#"spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set"#,
    )];
    refuses_update(schema("", "Service"), &old, &cases);
}

const DNS_1035: &str = "metadata.name: Invalid value: \"1s\": a DNS-1035 label must consist of lower case \
    alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character \
    (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

#[test]
fn config_and_secrets_have_clean_keys_and_may_freeze() {
    let meta = json!({"name": "a", "namespace": "n"});
    let config = json!({"metadata": meta, "data": {"k": "v"}, "immutable": true});
    let schema_of = |kind| schema("", kind);
    let bad = found(schema_of("ConfigMap"), &with(&config, "/data", json!({"a b": ""})));
    assert!(bad[0].starts_with("data[a b]: Invalid value: \"a b\": a valid config key"), "{bad:?}");
    let cases = [
        ("/data/k", json!("w"), "data: Forbidden: field is immutable when `immutable` is set"),
        (
            "/immutable",
            Value::Null,
            "immutable: Forbidden: field is immutable when `immutable` is set",
        ),
    ];
    refuses_update(schema_of("ConfigMap"), &config, &cases);
    let big = with(&config, "/data/k", json!("x".repeat(1024 * 1024 + 1)));
    assert_eq!(
        found(schema_of("ConfigMap"), &big),
        ["[]: Too long: may not be more than 1048576 bytes"]
    );

    let secret = json!({"metadata": meta, "type": "kubernetes.io/tls",
        "data": {"tls.crt": "", "tls.key": ""}});
    let cases = [("/data/tls.key", Value::Null, "data[tls.key]: Required value")];
    refuses(schema_of("Secret"), &secret, &cases);
    let cases =
        [("/type", json!("Opaque"), r#"type: Invalid value: "Opaque": field is immutable"#)];
    refuses_update(schema_of("Secret"), &secret, &cases);
}

#[test]
fn policy_kinds_are_checked() {
    let budget = json!({"metadata": {"name": "b", "namespace": "n"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}});
    let cases = [
        (
            "/spec/maxUnavailable",
            json!("10%"),
            r#"spec: Invalid value: {"maxUnavailable":"10%","minAvailable":1,"selector":{"matchLabels":{"a":"b"}}}: minAvailable and maxUnavailable cannot be both set"#,
        ),
        (
            "/spec/minAvailable",
            json!(-1),
            "spec.minAvailable: Invalid value: -1: must be greater than or equal to 0",
        ),
    ];
    refuses(schema("policy", "PodDisruptionBudget"), &budget, &cases);

    let class = json!({"metadata": {"name": "c"}, "value": 1_000_000_000});
    let kind = schema("scheduling.k8s.io", "PriorityClass");
    let cases = [
        (
            "/value",
            json!(1_000_000_001),
            "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
        ),
        (
            "/preemptionPolicy",
            json!("Always"),
            r#"preemptionPolicy: Unsupported value: "Always": supported values: "Never", "PreemptLowerPriority""#,
        ),
        (
            "/metadata/namespace",
            json!("n"),
            "metadata.namespace: Forbidden: not allowed on this type",
        ),
    ];
    refuses(kind, &class, &cases);
    let cases = [
        ("/value", json!(5), "value: Forbidden: may not be changed in an update."),
        (
            "/preemptionPolicy",
            json!("Never"),
            r#"preemptionPolicy: Invalid value: "Never": field is immutable"#,
        ),
    ];
    refuses_update(kind, &class, &cases);
    let system = json!({"metadata": {"name": "system-node-critical"}, "value": 2_000_001_000});
    assert_eq!(found(kind, &system), [""; 0]);
    let other = with(&system, "/metadata/name", json!("system-mine"));
    assert!(
        found(kind, &other)[0].starts_with("metadata.name: Forbidden: priority class names with")
    );

    let lease = json!({"metadata": {"name": "l", "namespace": "n"},
        "spec": {"leaseDurationSeconds": 15}});
    let cases = [(
        "/spec/leaseDurationSeconds",
        json!(0),
        "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
    )];
    refuses(schema("coordination.k8s.io", "Lease"), &lease, &cases);
}

#[test]
fn roles_and_bindings_are_checked() {
    let role = json!({"metadata": {"name": "system:x", "namespace": "n"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    let rbac = "rbac.authorization.k8s.io";
    let cases = [
        (
            "/rules/0/verbs",
            json!([]),
            "rules[0].verbs: Required value: verbs must contain at least one value",
        ),
        (
            "/rules/0/resources",
            json!([]),
            "rules[0].resources: Required value: resource rules must supply at least one resource",
        ),
        (
            "/metadata/name",
            json!("a/b"),
            r#"metadata.name: Invalid value: "a/b": may not contain '/'"#,
        ),
    ];
    refuses(schema(rbac, "Role"), &role, &cases);
    let binding = json!({"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "n"}]});
    let cases = [
        ("/roleRef/name", json!(""), "roleRef.name: Required value"),
        (
            "/roleRef/kind",
            json!("Role"),
            r#"roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole""#,
        ),
        ("/subjects/0/namespace", Value::Null, "subjects[0].namespace: Required value"),
        (
            "/subjects/0/kind",
            json!("Robot"),
            r#"subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group""#,
        ),
    ];
    refuses(schema(rbac, "ClusterRoleBinding"), &binding, &cases);
    let cases = [("/roleRef/name", json!("other"), "roleRef: Invalid value: {")];
    refuses_update(schema(rbac, "ClusterRoleBinding"), &binding, &cases);
}

#[test]
fn webhooks_say_how_to_call_them() {
    let configuration = json!({"metadata": {"name": "w"}, "webhooks": [{
        "name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://localhost:1/x"},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
    }]});
    let cases = [
        (
            "/webhooks/0/name",
            json!("a.b"),
            r#"webhooks[0].name: Invalid value: "a.b": should be a domain with at least three segments separated by dots"#,
        ),
        (
            "/webhooks/0/sideEffects",
            Value::Null,
            "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
        ),
        (
            "/webhooks/0/admissionReviewVersions",
            json!([]),
            "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1",
        ),
        (
            "/webhooks/0/clientConfig",
            json!({}),
            "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
        ),
        (
            "/webhooks/0/clientConfig/url",
            json!("http://a/b"),
            r#"webhooks[0].clientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]"#,
        ),
        (
            "/webhooks/0/timeoutSeconds",
            json!(31),
            "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
        ),
        (
            "/webhooks/0/rules/0/operations",
            json!([]),
            "webhooks[0].rules[0].operations: Required value",
        ),
    ];
    let group = "admissionregistration.k8s.io";
    for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
        refuses(schema(group, kind), &configuration, &cases);
    }
}

#[test]
fn volumes_and_nodes_are_checked() {
    let claim = json!({"metadata": {"name": "c", "namespace": "n"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let cases = [
        (
            "/spec/accessModes",
            json!([]),
            "spec.accessModes: Required value: at least 1 access mode is required",
        ),
        ("/spec/resources", json!({}), "spec.resources[storage]: Required value"),
    ];
    refuses(schema("", "PersistentVolumeClaim"), &claim, &cases);
    let cases = [(
        "/spec/accessModes",
        json!(["ReadOnlyMany"]),
        "spec: Forbidden: spec is immutable after",
    )];
    refuses_update(schema("", "PersistentVolumeClaim"), &claim, &cases);
    let bound = with(&claim, "/spec/volumeName", json!("v"));
    assert_eq!(found_update(schema("", "PersistentVolumeClaim"), &bound, &claim), [""; 0]);

    let node = json!({"metadata": {"name": "n"}, "spec": {"providerID": "p",
        "taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "4", "kubernetes.io/batch-cpu": "3"}}});
    let cases = [
        (
            "/spec/taints/0/effect",
            json!("Never"),
            r#"spec.taints[0].effect: Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute""#,
        ),
        (
            "/spec/taints/-",
            json!({"key": "a", "effect": "NoSchedule"}),
            r#"spec.taints[1]: Duplicate value: {"effect":"NoSchedule","key":"a"}"#,
        ),
        (
            "/metadata/namespace",
            json!("x"),
            "metadata.namespace: Forbidden: not allowed on this type",
        ),
    ];
    refuses(schema("", "Node"), &node, &cases);
    let cases = [(
        "/spec/providerID",
        json!("q"),
        "spec.providerID: Forbidden: node updates may not change",
    )];
    refuses_update(schema("", "Node"), &node, &cases);
}
