//! Pods, new and changed.

use serde_json::{Value, json};

use super::{found_update, refuses, refuses_update, schema, with};

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n", "labels": {"app": "a"}},
        "spec": {
            "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}],
                "env": [{"name": "A", "value": "b"}],
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                "livenessProbe": {"httpGet": {"port": 80}},
                "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "tolerations": [{"key": "k", "operator": "Exists"}],
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
        },
    })
}

#[test]
fn pods_are_refused_for_what_is_wrong() {
    let cases = [
        ("/spec/containers", json!([]), "spec.containers: Required value"),
        ("/spec/containers/0/name", json!(""), "spec.containers[0].name: Required value"),
        ("/spec/containers/0/image", Value::Null, "spec.containers[0].image: Required value"),
        (
            "/spec/containers/0/image",
            json!(" i"),
            r#"spec.containers[0].image: Invalid value: " i": must not have leading or trailing whitespace"#,
        ),
        (
            "/spec/containers/-",
            json!({"name": "c", "image": "i"}),
            r#"spec.containers[1].name: Duplicate value: "c""#,
        ),
        (
            "/spec/initContainers",
            json!([{"name": "c", "image": "i"}]),
            r#"spec.initContainers[0].name: Duplicate value: "c""#,
        ),
        (
            "/spec/containers/0/imagePullPolicy",
            json!("Sometimes"),
            r#"spec.containers[0].imagePullPolicy: Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", "Never""#,
        ),
        (
            "/spec/containers/0/ports/0/containerPort",
            json!(70000),
            "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        (
            "/spec/containers/0/ports/0/containerPort",
            Value::Null,
            "spec.containers[0].ports[0].containerPort: Required value",
        ),
        (
            "/spec/containers/0/ports/0/protocol",
            json!("tcp"),
            r#"spec.containers[0].ports[0].protocol: Unsupported value: "tcp": supported values: "SCTP", "TCP", "UDP""#,
        ),
        (
            "/spec/containers/0/env/0/name",
            json!(""),
            "spec.containers[0].env[0].name: Required value",
        ),
        (
            "/spec/containers/0/env/0",
            json!({"name": "A", "value": "b", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}),
            r#"spec.containers[0].env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty"#,
        ),
        (
            "/spec/containers/0/volumeMounts/0/name",
            json!("w"),
            r#"spec.containers[0].volumeMounts[0].name: Not found: "w""#,
        ),
        (
            "/spec/containers/0/volumeMounts/-",
            json!({"name": "v", "mountPath": "/v"}),
            r#"spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/v": must be unique"#,
        ),
        (
            "/spec/containers/0/livenessProbe",
            json!({}),
            "spec.containers[0].livenessProbe: Required value: must specify a handler type",
        ),
        (
            "/spec/containers/0/livenessProbe/successThreshold",
            json!(2),
            "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
        ),
        (
            "/spec/containers/0/livenessProbe/httpGet/port",
            json!(0),
            "spec.containers[0].livenessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive",
        ),
        (
            "/spec/containers/0/resources/requests/cpu",
            json!("3"),
            r#"spec.containers[0].resources.requests: Invalid value: "3": must be less than or equal to cpu limit of 2"#,
        ),
        ("/spec/volumes/-", json!({"name": "v"}), r#"spec.volumes[1].name: Duplicate value: "v""#),
        (
            "/spec/volumes/-",
            json!({"name": "w", "secret": {}}),
            "spec.volumes[1].secret.secretName: Required value",
        ),
        (
            "/spec/volumes/-",
            json!({"name": "w", "emptyDir": {}, "hostPath": {"path": "/x"}}),
            "spec.volumes[1].hostPath: Forbidden: may not specify more than 1 volume type",
        ),
        (
            "/spec/restartPolicy",
            json!("Maybe"),
            r#"spec.restartPolicy: Unsupported value: "Maybe": supported values: "Always", "OnFailure", "Never""#,
        ),
        (
            "/spec/tolerations/0",
            json!({"operator": "Equal"}),
            r#"spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, which means "match all values and all keys""#,
        ),
        (
            "/spec/tolerations/0",
            json!({"key": "k", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 1}),
            r#"spec.tolerations[0].effect: Invalid value: "NoSchedule": effect must be 'NoExecute' when `tolerationSeconds` is set"#,
        ),
        (
            "/spec/topologySpreadConstraints/0/maxSkew",
            json!(0),
            "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
        ),
        (
            "/spec/affinity",
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}),
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: \
             Required value: must have at least one node selector term",
        ),
        (
            "/spec/activeDeadlineSeconds",
            json!(0),
            "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
        ),
        (
            "/metadata/name",
            Value::Null,
            "metadata.name: Required value: name or generateName is required",
        ),
    ];
    refuses(schema("", "Pod"), &pod(), &cases);
    let gated = with(&pod(), "/spec/schedulingGates", json!([{"name": "a/b"}]));
    let cases = [(
        "/spec/nodeName",
        json!("n1"),
        "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
    )];
    refuses(schema("", "Pod"), &gated, &cases);
}

#[test]
fn a_pod_keeps_its_spec_but_for_the_few_fields_that_may_change() {
    let schema = schema("", "Pod");
    let may_not = "spec: Forbidden: pod updates may not change fields other than";
    let old = with(&pod(), "/spec/activeDeadlineSeconds", json!(10));
    let cases = [
        ("/spec/nodeName", json!("other"), may_not),
        ("/spec/containers/0/command", json!(["x"]), may_not),
        ("/spec/restartPolicy", json!("Never"), may_not),
        (
            "/spec/containers/-",
            json!({"name": "d", "image": "i"}),
            "spec.containers: Forbidden: pod updates may not add or remove containers",
        ),
        (
            "/spec/tolerations",
            json!([]),
            "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
        ),
        (
            "/spec/activeDeadlineSeconds",
            json!(11),
            "spec.activeDeadlineSeconds: Invalid value: 11: must be less than or equal to previous value",
        ),
        (
            "/spec/schedulingGates",
            json!([{"name": "a/b"}]),
            "spec.schedulingGates[0]: Forbidden: only deletion is allowed, but found new scheduling gate 'a/b'",
        ),
        ("/metadata/name", json!("q"), "metadata.name: Invalid value: \"q\": field is immutable"),
    ];
    refuses_update(schema, &old, &cases);
    let allowed = [
        ("/spec/containers/0/image", json!("j")),
        ("/spec/activeDeadlineSeconds", json!(9)),
        ("/spec/tolerations/-", json!({"key": "l", "operator": "Exists"})),
        ("/metadata/labels/app", json!("b")),
    ];
    for (pointer, value) in allowed {
        let new = with(&old, pointer, value);
        assert_eq!(found_update(schema, &new, &old), [""; 0], "{pointer}");
    }
    let gated = with(&old, "/spec/schedulingGates", json!([{"name": "a/b"}]));
    assert_eq!(found_update(schema, &old, &gated), [""; 0], "gates may go");
}
