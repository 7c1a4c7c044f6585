//! The situations that Kubernetes' own documentation describes, on built-in kinds.

use super::Event::{Apply, Conflict, Force, Update};
use super::*;

fn deployment(replicas: Option<i64>) -> Value {
    let mut object = json!({
        "metadata": {"labels": {"app": "nginx"}},
        "spec": {
            "selector": {"matchLabels": {"app": "nginx"}},
            "template": {
                "metadata": {"labels": {"app": "nginx"}},
                "spec": {"containers": [{"name": "nginx", "image": "nginx:1.14.2"}]},
            },
        },
    });
    if let Some(replicas) = replicas {
        object["spec"]["replicas"] = json!(replicas);
    }
    object
}

const MANIFEST: &str = r#".metadata.labels.app .spec.selector .spec.template.metadata.labels.app .spec.template.spec.containers[name="nginx"] .spec.template.spec.containers[name="nginx"].image .spec.template.spec.containers[name="nginx"].name"#;

#[test]
fn a_config_map_is_applied_and_then_updated() {
    let stories = vec![
        Story {
            name: "created by apply",
            events: vec![Apply(
                "kubectl",
                json!({"metadata": {"labels": {"test-label": "test"}}, "data": {"key": "some value"}}),
            )],
            object: json!({"metadata": {"labels": {"test-label": "test"}}, "data": {"key": "some value"}}),
            owners: vec!["kubectl Apply: .data.key .metadata.labels.test-label"],
        },
        Story {
            name: "a controller takes one value over",
            events: vec![
                Apply(
                    "kubectl",
                    json!({"metadata": {"labels": {"test-label": "test"}}, "data": {"key": "some value"}}),
                ),
                Update(
                    "kube-controller-manager",
                    json!({"metadata": {"labels": {"test-label": "test"}}, "data": {"key": "new value"}}),
                ),
            ],
            object: json!({"metadata": {"labels": {"test-label": "test"}}, "data": {"key": "new value"}}),
            owners: vec![
                "kubectl Apply: .metadata.labels.test-label",
                "kube-controller-manager Update: .data.key",
            ],
        },
        Story {
            name: "had it applied, it would have been refused",
            events: vec![
                Apply("kubectl", json!({"data": {"key": "some value"}})),
                Conflict(
                    "kube-controller-manager",
                    json!({"data": {"key": "new value"}}),
                    r#"Apply failed with 1 conflict: conflict with "kubectl": .data.key"#,
                ),
            ],
            object: json!({"data": {"key": "some value"}}),
            owners: vec!["kubectl Apply: .data.key"],
        },
        Story {
            name: "an intent of apiVersion and kind changes nothing",
            events: vec![Apply("a", json!({"data": {"k": "v"}})), Apply("b", json!({}))],
            object: json!({"data": {"k": "v"}}),
            owners: vec!["a Apply: .data.k"],
        },
    ];
    tell(&Server::built_in("", "ConfigMap"), stories);
}

#[test]
fn the_three_ways_out_of_a_conflict() {
    let conflict = || {
        Conflict(
            "user",
            json!({"data": {"mine": "1", "key": "user"}}),
            r#"Apply failed with 1 conflict: conflict with "other": .data.key"#,
        )
    };
    let stories = vec![
        Story {
            name: "overwrite the value and become its only manager",
            events: vec![
                Apply("other", json!({"data": {"key": "other"}})),
                conflict(),
                Force("user", json!({"data": {"mine": "1", "key": "user"}})),
            ],
            object: json!({"data": {"mine": "1", "key": "user"}}),
            owners: vec!["user Apply: .data.key .data.mine"],
        },
        Story {
            name: "leave the value and give up the claim",
            events: vec![
                Apply("other", json!({"data": {"key": "other"}})),
                conflict(),
                Apply("user", json!({"data": {"mine": "1"}})),
            ],
            object: json!({"data": {"mine": "1", "key": "other"}}),
            owners: vec!["other Apply: .data.key", "user Apply: .data.mine"],
        },
        Story {
            name: "take the value over and become one of its managers",
            events: vec![
                Apply("other", json!({"data": {"key": "other"}})),
                conflict(),
                Apply("user", json!({"data": {"mine": "1", "key": "other"}})),
            ],
            object: json!({"data": {"mine": "1", "key": "other"}}),
            owners: vec!["other Apply: .data.key", "user Apply: .data.key .data.mine"],
        },
    ];
    tell(&Server::built_in("", "ConfigMap"), stories);
}

#[test]
fn replicas_are_handed_over_to_an_autoscaler() {
    let mut server = Server::built_in("apps", "Deployment");
    server.run("create", &Apply("kubectl", deployment(Some(3))));
    server.run("hand over", &Apply("handover-to-hpa", json!({"spec": {"replicas": 3}})));
    server.run("drop", &Apply("kubectl", deployment(None)));
    assert_eq!(server.object(), deployment(Some(3)));
    assert_eq!(
        server.owners(),
        ["handover-to-hpa Apply: .spec.replicas".to_owned(), format!("kubectl Apply: {MANIFEST}")]
    );

    server.run("scale", &Update("hpa", deployment(Some(5))));
    assert_eq!(
        server.owners(),
        [format!("kubectl Apply: {MANIFEST}"), "hpa Update: .spec.replicas".to_owned()],
        "the temporary manager is gone"
    );
    server.run(
        "back",
        &Conflict(
            "kubectl",
            deployment(Some(3)),
            r#"Apply failed with 1 conflict: conflict with "hpa" using apps/v1: .spec.replicas"#,
        ),
    );
    server.run("unrelated", &Apply("kubectl", deployment(None)));
    assert_eq!(server.object(), deployment(Some(5)));
}

#[test]
fn a_field_is_removed_when_its_only_manager_drops_it() {
    let mut server = Server::built_in("apps", "Deployment");
    server.run("create", &Apply("kubectl", deployment(Some(3))));
    server.run("drop", &Apply("kubectl", deployment(None)));
    assert_eq!(server.object(), deployment(None), "to be defaulted again by the caller");
}

#[test]
fn a_deployment_created_by_update_has_no_owner_for_standing_structures() {
    let mut server = Server::built_in("apps", "Deployment");
    let mut object = deployment(Some(1));
    object["spec"]["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}});
    server.update("kubectl-create", &object);
    let fields = entries(server.live.as_ref().unwrap())[0]["fieldsV1"].clone();
    let want = json!({
        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
        "f:spec": {
            "f:replicas": {},
            "f:selector": {},
            "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}}, "f:type": {}},
            "f:template": {
                "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                "f:spec": {"f:containers": {"k:{\"name\":\"nginx\"}": {".": {}, "f:image": {}, "f:name": {}}}},
            },
        },
    });
    assert_eq!(fields, want);
}

#[test]
fn what_go_holds_by_value_is_never_new() {
    let mut server = Server::built_in("", "Node");
    server.update("admin", &json!({"metadata": {"labels": {"a": "b"}}}));
    let mut server = server.on("status");
    let status = json!({"nodeInfo": {"osImage": "o"}, "capacity": {"cpu": "4"}});
    server.update("kubelet", &json!({"metadata": {"labels": {"a": "b"}}, "status": status}));
    assert_eq!(
        server.owners()[1],
        "kubelet Update/status: .status.capacity .status.capacity.cpu .status.nodeInfo.osImage"
    );

    let mut server = Server::built_in("", "Pod");
    server.update("u", &json!({"spec": {"containers": [], "resources": {"limits": {"cpu": "1"}}}}));
    assert_eq!(
        server.owners(),
        ["u Update: .spec.resources .spec.resources.limits .spec.resources.limits.cpu"],
        "resources of a whole pod are held by reference, unlike those of a container"
    );
}

#[test]
fn a_status_belongs_to_who_writes_it() {
    let mut server = Server::built_in("apps", "Deployment");
    let status =
        json!({"availableReplicas": 3, "conditions": [{"type": "Available", "status": "True"}]});
    let mut with_status = deployment(Some(3));
    with_status["status"] = status.clone();
    server.run("create", &Apply("kubectl", with_status.clone()));
    assert_eq!(server.owners().len(), 1);
    assert!(!server.owners()[0].contains(".status"), "not through the object itself");

    let mut server = server.on("status");
    server.live = Some(server.full(deployment(Some(3))));
    with_status["spec"]["replicas"] = json!(9);
    server.update("controller", &with_status);
    assert_eq!(server.owners(), Vec::<String>::new(), "an object without ledger stays without");

    let mut server = Server::built_in("apps", "Deployment");
    server.update("kubectl", &deployment(Some(3)));
    let mut server = server.on("status");
    server.update("controller", &with_status);
    let of_status = r#"controller Update/status: .status.availableReplicas .status.conditions .status.conditions[type="Available"] .status.conditions[type="Available"].status .status.conditions[type="Available"].type"#;
    assert_eq!(server.owners()[1], of_status);
    let entry = entries(server.live.as_ref().unwrap())[1].clone();
    assert_eq!(entry["fieldsV1"]["f:status"]["f:availableReplicas"], json!({}));
    assert_eq!(entry["subresource"], json!("status"));
    let error =
        server.apply("other", &json!({"status": {"availableReplicas": 1}}), false).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"Apply failed with 1 conflict: conflict with "controller" with subresource "status" using apps/v1: .status.availableReplicas"#
    );
}

#[test]
fn client_side_apply_becomes_server_side_apply() {
    let annotate = |mut object: Value, manifest: &Value| {
        object["metadata"]["annotations"] =
            json!({"kubectl.kubernetes.io/last-applied-configuration": manifest.to_string()});
        object
    };
    let mut server = Server::built_in("apps", "Deployment");
    let manifest = server.full(deployment(Some(3)));
    server.update("kubectl-client-side-apply", &annotate(deployment(Some(3)), &manifest));
    let mut intent = deployment(Some(3));
    intent["spec"]["template"]["spec"]["containers"][0]["image"] = json!("nginx:1.25");

    let mut stranger = server.clone();
    assert_eq!(stranger.apply("someone", &intent, false).unwrap_err().code(), 409);

    server.apply("kubectl", &intent, false).expect("kubectl inherits from its annotation");
    let annotation = &server.live.as_ref().unwrap()["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"];
    let kept: Value = serde_json::from_str(annotation.as_str().unwrap()).unwrap();
    assert_eq!(kept, server.full(intent), "the annotation follows, so that the way back works");

    let mut scaled = Server::built_in("apps", "Deployment");
    scaled.update("kubectl-client-side-apply", &annotate(deployment(Some(3)), &manifest));
    scaled.update("scaler", &annotate(deployment(Some(100)), &manifest));
    let error = scaled.apply("kubectl", &deployment(Some(3)), false).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"Apply failed with 1 conflict: conflict with "scaler" using apps/v1: .spec.replicas"#,
        "what was changed behind the annotation is not inherited"
    );

    for bad in ["", "no json", r#"{"apiVersion":"extensions/v1beta1","kind":"Deployment"}"#] {
        let mut server = Server::built_in("apps", "Deployment");
        let mut object = deployment(Some(3));
        object["metadata"]["annotations"] =
            json!({"kubectl.kubernetes.io/last-applied-configuration": bad});
        server.update("kubectl-client-side-apply", &object);
        let intent = json!({"spec": {"replicas": 4}});
        assert_eq!(server.apply("kubectl", &intent, false).unwrap_err().code(), 409, "{bad}");
    }
}

/// A pod with one container.
fn pod(container: &Value) -> Value {
    let mut container = container.clone();
    container["name"] = json!("c");
    json!({"spec": {"containers": [container]}})
}

#[test]
fn a_port_without_protocol_is_a_tcp_port() {
    let mut server = Server::built_in("", "Pod");
    server.apply("a", &pod(&json!({"ports": [{"containerPort": 80}]})), false).unwrap();
    let two = json!({"ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80}]});
    let error = server.apply("b", &pod(&two), false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "failed to create typed patch object (/x; /v1, Kind=Pod): \
         .spec.containers[name=\"c\"].ports: duplicate entries for key [containerPort=80,protocol=\"TCP\"]"
    );
}

#[test]
fn parts_of_a_pod_have_owners() {
    let stories = vec![
        Story {
            name: "environment variables of two managers",
            events: vec![
                Apply("a", pod(&json!({"env": [{"name": "A", "value": "1"}]}))),
                Apply("b", pod(&json!({"env": [{"name": "B", "value": "2"}]}))),
                Apply("a", json!({})),
            ],
            object: pod(&json!({"env": [{"name": "B", "value": "2"}]})),
            owners: vec![
                r#"b Apply: .spec.containers[name="c"] .spec.containers[name="c"].name .spec.containers[name="c"].env[name="B"] .spec.containers[name="c"].env[name="B"].name .spec.containers[name="c"].env[name="B"].value"#,
            ],
        },
        Story {
            name: "a selector is atomic",
            events: vec![
                Apply("a", json!({"spec": {"nodeSelector": {"x": "1"}}})),
                Conflict(
                    "b",
                    json!({"spec": {"nodeSelector": {"x": "1", "y": "2"}}}),
                    r#"Apply failed with 1 conflict: conflict with "a": .spec.nodeSelector"#,
                ),
            ],
            object: json!({"spec": {"nodeSelector": {"x": "1"}}}),
            owners: vec!["a Apply: .spec.nodeSelector"],
        },
        Story {
            name: "limits are entries of a map inside an element",
            events: vec![
                Update("u", pod(&json!({"resources": {"limits": {"cpu": "1"}}}))),
                Apply("a", pod(&json!({"resources": {"limits": {"memory": "1Gi"}}}))),
            ],
            object: pod(&json!({"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}})),
            owners: vec![
                r#"a Apply: .spec.containers[name="c"] .spec.containers[name="c"].name .spec.containers[name="c"].resources.limits.memory"#,
                r#"u Update: .spec.containers[name="c"] .spec.containers[name="c"].name .spec.containers[name="c"].resources .spec.containers[name="c"].resources.limits .spec.containers[name="c"].resources.limits.cpu"#,
            ],
        },
    ];
    tell(&Server::built_in("", "Pod"), stories);
}
