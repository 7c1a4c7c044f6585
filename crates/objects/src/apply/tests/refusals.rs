//! Intents that cannot be applied, and the words for it.

use super::*;

#[test]
fn intents_that_do_not_fit_are_refused() {
    let cases = [
        (
            "an unknown field",
            json!({"spec": {"unknown": 1}}),
            ".spec.unknown: field not declared in schema",
        ),
        (
            "an unknown field at the top",
            json!({"unknown": {}}),
            ".unknown: field not declared in schema",
        ),
        (
            "an unknown field of metadata",
            json!({"metadata": {"unknown": 1}}),
            ".metadata.unknown: field not declared in schema",
        ),
        (
            "a string for a number",
            json!({"spec": {"replicas": "1"}}),
            ".spec.replicas: expected numeric (int or float), got string",
        ),
        (
            "a number for a string",
            json!({"spec": {"image": 1}}),
            ".spec.image: expected string, got &value.valueUnstructured{Value:1}",
        ),
        (
            "a number for a boolean",
            json!({"spec": {"on": 1}}),
            ".spec.on: expected boolean, got &{1}",
        ),
        (
            "a scalar for a map",
            json!({"spec": {"labels": 5}}),
            ".spec.labels: expected map, got &{5}",
        ),
        (
            "a map for a list",
            json!({"spec": {"tags": {"a": 1}}}),
            ".spec.tags: expected list, got &{map[a:1]}",
        ),
        (
            "a number in a map of strings",
            json!({"spec": {"labels": {"a": 1}}}),
            ".spec.labels.a: expected string, got &value.valueUnstructured{Value:1}",
        ),
        (
            "a number in a list of strings",
            json!({"spec": {"args": ["a", 1]}}),
            ".spec.args[1]: expected string, got &value.valueUnstructured{Value:1}",
        ),
        (
            "an element without its key",
            json!({"spec": {"parts": [{"size": 1}]}}),
            ".spec.parts: element 0: associative list with keys has an element that omits all key fields [\"name\"] (and doesn't have default values for any key fields)",
        ),
        (
            "an element that is no map",
            json!({"spec": {"parts": ["x"]}}),
            ".spec.parts: element 0: associative list with keys may not have non-map elements",
        ),
        (
            "a null element",
            json!({"spec": {"parts": [null]}}),
            ".spec.parts: element 0: associative list with keys may not have a null element",
        ),
        (
            "a map in a set",
            json!({"spec": {"tags": [{}]}}),
            ".spec.tags: element 0: associative list without keys has an element that's a map type",
        ),
        (
            "a list in a set",
            json!({"spec": {"tags": [[]]}}),
            ".spec.tags: element 0: not supported: associative list with lists as elements",
        ),
        (
            "a null in a set",
            json!({"spec": {"tags": [null]}}),
            ".spec.tags: element 0: associative list without keys has an element that's an explicit null",
        ),
        (
            "a key twice",
            json!({"spec": {"parts": [{"name": "x"}, {"name": "x"}]}}),
            ".spec.parts: duplicate entries for key [name=\"x\"]",
        ),
        (
            "a value twice",
            json!({"spec": {"tags": ["x", "x"]}}),
            ".spec.tags: duplicate entries for key [=\"x\"]",
        ),
        (
            "two problems",
            json!({"spec": {"image": 1, "on": 2}}),
            "errors:\n  .spec.image: expected string, got &value.valueUnstructured{Value:1}\n  .spec.on: expected boolean, got &{2}",
        ),
    ];
    for (name, intent, said) in cases {
        let error = Server::widgets().apply("a", &intent, true).expect_err(name);
        let said = format!(
            "failed to create typed patch object (/x; example.com/v1, Kind=Widget): {said}"
        );
        assert_eq!(error.to_string(), said, "{name}");
        assert_eq!((error.code(), error.reason()), (500, ""), "{name}");
    }
}

#[test]
fn neighbours_of_refused_intents_are_accepted() {
    let cases = [
        (
            "nulls fit everywhere",
            json!({"spec": {"replicas": null, "tags": null, "parts": null, "labels": null}}),
        ),
        ("a number for int-or-string", json!({"spec": {"limit": 5}})),
        ("a string for int-or-string", json!({"spec": {"limit": "5%"}})),
        (
            "anything where fields are free",
            json!({"spec": {"free": {"a": [1, "x", null], "b": {"c": {}}}}}),
        ),
        ("anything in an open map", json!({"spec": {"open": {"a": [1], "b": {"c": {}}}}})),
        ("anything in an embedded object", json!({"spec": {"template": {"spec": {"x": [1, {}]}}}})),
        ("a float for a number", json!({"spec": {"replicas": 1.5}})),
        (
            "all of metadata",
            json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["f"]}}),
        ),
    ];
    for (name, intent) in cases {
        Server::widgets()
            .apply("a", &intent, false)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn quantities_may_be_numbers_in_built_in_kinds() {
    let limits = json!({"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}}]}});
    Server::built_in("", "Pod").apply("a", &limits, false).expect("cpu: 1 is common");
    let surge = json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": [1]}}}});
    let error = Server::built_in("apps", "Deployment").apply("a", &surge, false).unwrap_err();
    assert!(error.to_string().ends_with(".maxSurge: expected any scalar, got &{[1]}"), "{error}");
    let image = json!({"spec": {"containers": [{"name": "c", "image": 1}]}});
    assert!(Server::built_in("", "Pod").apply("a", &image, false).is_err());
    let labels = json!({"metadata": {"labels": {"a": 1}}});
    assert!(Server::built_in("", "Pod").apply("a", &labels, false).is_err());
    let data = json!({"data": {"a": 1}});
    assert!(Server::built_in("", "ConfigMap").apply("a", &data, false).is_err());
}

#[test]
fn an_intent_is_of_the_kind_it_is_applied_to() {
    let server = Server::widgets();
    let cases = [
        (
            json!({"apiVersion": "example.com/v2", "kind": "Widget"}),
            "invalid object type: example.com/v2, Kind=Widget",
        ),
        (
            json!({"apiVersion": "example.com/v1", "kind": "Gadget"}),
            "invalid object type: example.com/v1, Kind=Gadget",
        ),
        (json!({}), "invalid object type: /, Kind="),
        (json!([]), "invalid object type: /, Kind="),
    ];
    let (reset, now) = (FieldSet::default(), Timestamp::UNIX_EPOCH);
    let writer = Writer { manager: "a", subresource: "", reset: &reset, now };
    for (intent, said) in cases {
        let error = apply(None, &intent, &writer, true, &server.schema).unwrap_err();
        assert_eq!((error.code(), error.reason()), (400, "BadRequest"), "{said}");
        assert_eq!(error.to_string(), said);
    }
}

#[test]
fn an_intent_may_not_bring_a_ledger() {
    for fields in [json!([]), json!([{"manager": "a"}]), json!({}), json!("x")] {
        let intent = json!({"metadata": {"managedFields": fields}});
        let error = Server::widgets().apply("a", &intent, false).unwrap_err();
        assert_eq!(
            (error.code(), error.to_string().as_str()),
            (400, "metadata.managedFields must be nil")
        );
    }
    let intent = json!({"metadata": {"managedFields": null}, "spec": {"image": "i"}});
    Server::widgets().apply("a", &intent, false).expect("null is nothing");
}

#[test]
fn a_broken_ledger_stops_an_apply() {
    let mut server = Server::widgets();
    server.live = Some(
        server
            .full(json!({"metadata": {"managedFields": [{"manager": "a", "operation": "Steal"}]}})),
    );
    let error = server.apply("a", &json!({"spec": {"image": "i"}}), false).unwrap_err();
    assert_eq!(error.code(), 500);
    assert_eq!(
        error.to_string(),
        "failed to decode managed fields: operation must be `Apply` or `Update`"
    );
}

#[test]
fn conflicts_are_listed_by_manager() {
    let mut server = Server::widgets();
    server.update("zed", &json!({"spec": {"replicas": 1, "parts": [{"name": "x", "size": 1}]}}));
    server.apply("bob", &json!({"spec": {"image": "i", "labels": {"a": "1"}}}), false).unwrap();
    let intent = json!({
        "spec": {"replicas": 2, "image": "j", "labels": {"a": "2"}, "parts": [{"name": "x", "size": 2}]},
    });
    let error = server.apply("new", &intent, false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 4 conflicts: conflicts with \"bob\":\n\
         - .spec.image\n\
         - .spec.labels.a\n\
         conflicts with \"zed\" using example.com/v1:\n\
         - .spec.replicas\n\
         - .spec.parts[name=\"x\"].size"
    );
    let ApplyError::Conflict(conflicts) = error else { panic!("{error}") };
    assert_eq!(
        conflicts.details(),
        json!({"causes": [
            {"reason": "FieldManagerConflict", "message": "conflict with \"bob\"", "field": ".spec.image"},
            {"reason": "FieldManagerConflict", "message": "conflict with \"bob\"", "field": ".spec.labels.a"},
            {"reason": "FieldManagerConflict", "message": "conflict with \"zed\" using example.com/v1", "field": ".spec.replicas"},
            {"reason": "FieldManagerConflict", "message": "conflict with \"zed\" using example.com/v1", "field": ".spec.parts[name=\"x\"].size"},
        ]})
    );
}
