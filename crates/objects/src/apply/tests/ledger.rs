//! `managedFields` itself: entries, order, times, resets and limits.

use super::*;

#[test]
fn an_entry_looks_as_kubernetes_writes_it() {
    let mut server = Server::widgets();
    server.apply("kubectl", &json!({"spec": {"image": "i"}}), false).unwrap();
    let mut server = server.on("scale");
    server.update("hpa", &json!({"spec": {"image": "i", "replicas": 3}}));
    assert_eq!(
        server.live.as_ref().unwrap()["metadata"]["managedFields"],
        json!([
            {
                "manager": "kubectl",
                "operation": "Apply",
                "apiVersion": "example.com/v1",
                "time": "1970-01-01T00:00:01Z",
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": {"f:image": {}}},
            },
            {
                "manager": "hpa",
                "operation": "Update",
                "apiVersion": "example.com/v1",
                "time": "1970-01-01T00:00:02Z",
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": {"f:replicas": {}}},
                "subresource": "scale",
            },
        ])
    );
}

#[test]
fn entries_are_sorted_by_operation_time_and_name() {
    let entry = |manager: &str, operation: &str, time: Option<&str>, field: &str| {
        let mut entry = json!({
            "manager": manager, "operation": operation, "apiVersion": "example.com/v1",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {(format!("f:{field}")): {}}},
        });
        if let Some(time) = time {
            entry["time"] = json!(time);
        }
        entry
    };
    let mut server = Server::widgets();
    let object = json!({
        "metadata": {"managedFields": [
            entry("c", "Update", Some("2002-01-01T01:00:00Z"), "free"),
            entry("d", "Update", Some("2001-01-01T01:00:00Z"), "image"),
            entry("b", "Apply", None, "replicas"),
            entry("c", "Apply", Some("2001-01-01T01:00:00Z"), "limit"),
            entry("a", "Update", Some("2001-01-01T01:00:00.9+00:00"), "on"),
            entry("a", "Apply", None, "box"),
        ]},
    });
    server.live = Some(server.full(object.clone()));
    server.update("nobody", &object);
    let managers: Vec<String> =
        server.times().iter().map(|line| line.replace("1:00:00Z", "")).collect();
    assert_eq!(
        managers,
        [
            "a null",
            "b null",
            "c 2001-01-01T0",
            "a 2001-01-01T0",
            "d 2001-01-01T0",
            "c 2002-01-01T0"
        ]
    );
}

#[test]
fn times_move_only_with_the_object() {
    let mut server = Server::widgets();
    server.apply("a", &json!({"spec": {"image": "i"}}), false).unwrap();
    server.apply("a", &json!({"spec": {"image": "i"}}), false).unwrap();
    assert_eq!(server.times(), ["a 1970-01-01T00:00:01Z"], "the same intent again");
    server.apply("b", &json!({"spec": {"image": "i"}}), false).unwrap();
    assert_eq!(
        server.times(),
        ["b null", "a 1970-01-01T00:00:01Z"],
        "a new owner of what is there"
    );
    server.update("u", &json!({"spec": {"image": "i", "replicas": 1}}));
    assert_eq!(
        server.times(),
        ["b null", "a 1970-01-01T00:00:01Z", "u 1970-01-01T00:00:04Z"],
        "others keep theirs"
    );
    server.update("u", &json!({"spec": {"image": "i"}}));
    assert_eq!(server.times(), ["b null", "a 1970-01-01T00:00:01Z"], "removing owns nothing");
    server.apply("a", &json!({"spec": {"image": "i", "on": true}}), false).unwrap();
    assert_eq!(server.times(), ["b null", "a 1970-01-01T00:00:06Z"]);
}

#[test]
fn fields_of_the_server_are_never_owned() {
    let mut server = Server::widgets();
    server.update(
        "u",
        &json!({"metadata": {
            "namespace": "n", "uid": "1", "resourceVersion": "5", "generation": 2, "selfLink": "/x",
            "creationTimestamp": "2020-01-01T00:00:00Z", "generateName": "x-", "deletionGracePeriodSeconds": 0,
        }}),
    );
    assert_eq!(
        server.owners(),
        ["u Update: .metadata.deletionGracePeriodSeconds .metadata.generateName"]
    );

    let mut server = Server::widgets();
    server.apply("a", &json!({"metadata": {"namespace": "n", "uid": "1"}}), false).unwrap();
    assert_eq!(server.owners(), Vec::<String>::new());
    assert_eq!(server.live.unwrap()["metadata"].get("managedFields"), None);
}

#[test]
fn the_ledger_can_be_cleared() {
    for reset in [json!([]), json!([{}]), json!([{"manager": "", "time": null}])] {
        let mut server = Server::widgets();
        server.apply("a", &json!({"spec": {"image": "i"}}), false).unwrap();
        server.update("u", &json!({"metadata": {"managedFields": reset}, "spec": {"image": "j"}}));
        assert_eq!(server.owners(), Vec::<String>::new(), "{reset}");
        server.update("u", &json!({"spec": {"image": "k"}}));
        assert_eq!(
            server.owners(),
            Vec::<String>::new(),
            "{reset}: and stays clear until someone applies"
        );

        let error = server.apply("a", &json!({"spec": {"image": "x"}}), false).unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"Apply failed with 1 conflict: conflict with "before-first-apply" using example.com/v1: .spec.image"#
        );
        server.apply("a", &json!({"spec": {"image": "k"}}), false).unwrap();
        assert_eq!(
            server.owners(),
            ["a Apply: .spec.image", "before-first-apply Update: .spec .spec.image"],
            "{reset}: what was there belongs to the time before"
        );
    }
}

#[test]
fn the_ledger_is_not_cleared_by_accident() {
    for (name, fields) in [
        ("left out", None),
        ("null", Some(json!(null))),
        ("unreadable", Some(json!([{"manager": "x"}]))),
        ("no list", Some(json!("x"))),
        (
            "wrong fields",
            Some(
                json!([{"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV2"}]),
            ),
        ),
        (
            "wrong time",
            Some(
                json!([{"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "time": "noon"}]),
            ),
        ),
    ] {
        let mut server = Server::widgets();
        server.apply("a", &json!({"spec": {"image": "i"}}), false).unwrap();
        let mut object = json!({"spec": {"image": "i"}});
        if let Some(fields) = fields {
            object["metadata"] = json!({ "managedFields": fields });
        }
        server.update("u", &object);
        assert_eq!(server.owners(), ["a Apply: .spec.image"], "{name}");
    }
}

#[test]
fn the_ledger_can_be_rewritten_but_not_through_a_subresource() {
    let rewrite = json!({
        "metadata": {"managedFields": [{
            "manager": "z", "operation": "Apply", "apiVersion": "example.com/v1",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:image": {}}},
        }]},
        "spec": {"image": "i"},
    });
    let mut server = Server::widgets();
    server.apply("a", &json!({"spec": {"image": "i"}}), false).unwrap();
    let mut through_status = server.clone().on("status");
    server.update("u", &rewrite);
    assert_eq!(server.owners(), ["z Apply: .spec.image"]);
    through_status.update("u", &rewrite);
    assert_eq!(through_status.owners(), ["a Apply: .spec.image"]);
}

#[test]
fn an_object_may_be_created_with_a_ledger() {
    let mut server = Server::widgets();
    server.update(
        "restore",
        &json!({
            "metadata": {"managedFields": [{
                "manager": "z", "operation": "Update", "apiVersion": "example.com/v1",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}},
            }]},
            "spec": {"image": "i", "replicas": 1},
        }),
    );
    assert_eq!(server.owners(), ["restore Update: .spec .spec.image .spec.replicas"]);
}

#[test]
fn many_updaters_are_folded_together() {
    let mut server = Server::widgets();
    let mut labels = serde_json::Map::new();
    for number in 0..14 {
        labels.insert(format!("l{number:02}"), json!("x"));
        server.update(&format!("m{number:02}"), &json!({"spec": {"labels": labels}}));
        assert!(server.owners().len() <= 10);
    }
    let owners = server.owners();
    assert_eq!(owners.len(), 10);
    assert_eq!(
        owners[0],
        "ancient-changes Update: .spec .spec.labels .spec.labels.l00 .spec.labels.l01 .spec.labels.l02 .spec.labels.l03 .spec.labels.l04"
    );
    assert_eq!(
        server.times()[0],
        "ancient-changes 1970-01-01T00:00:05Z",
        "as old as the newest of them"
    );
    assert_eq!(owners[1], "m05 Update: .spec.labels.l05");
    assert_eq!(owners[9], "m13 Update: .spec.labels.l13");
}

#[test]
fn appliers_are_not_folded() {
    let mut server = Server::widgets();
    for number in 0..14 {
        let label = format!("l{number}");
        server.apply(&label, &json!({"spec": {"labels": {(label.clone()): "x"}}}), false).unwrap();
    }
    assert_eq!(server.owners().len(), 14);
}

#[test]
fn versions_are_folded_apart() {
    let mut entries: Vec<Value> = Vec::new();
    for (number, version) in (0..12).zip(["v1", "v2"].iter().cycle()) {
        entries.push(json!({
            "manager": format!("m{number:02}"), "operation": "Update", "apiVersion": format!("example.com/{version}"),
            "time": format!("2001-01-01T00:00:{number:02}Z"),
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:labels": {(format!("f:{number}")): {}}}},
        }));
    }
    let mut server = Server::widgets();
    let object = json!({"metadata": {"managedFields": entries}});
    server.live = Some(server.full(object.clone()));
    server.update("nobody", &object);
    let owners = server.owners();
    assert_eq!(owners.len(), 10);
    assert_eq!(
        owners[..2],
        [
            "ancient-changes Update: .spec.labels.0 .spec.labels.2".to_owned(),
            "ancient-changes Update: .spec.labels.1 .spec.labels.3".to_owned(),
        ]
    );
}

#[test]
fn a_manager_that_changes_versions_stays_one_applier() {
    let mut server = Server::widgets();
    server.apply("a", &json!({"spec": {"image": "i", "replicas": 1}}), false).unwrap();
    let old = &mut server.live.as_mut().unwrap()["metadata"]["managedFields"][0];
    old["apiVersion"] = json!("example.com/v1alpha1");
    server.apply("a", &json!({"spec": {"image": "i"}}), false).unwrap();
    assert_eq!(server.owners(), ["a Apply: .spec.image"]);
    assert_eq!(server.object(), json!({"spec": {"image": "i"}}));
    assert_eq!(entries(server.live.as_ref().unwrap())[0]["apiVersion"], json!("example.com/v1"));
}

#[test]
fn who_owned_parts_of_what_is_atomic_by_now_owns_it() {
    let mut server = Server::widgets();
    let object = json!({
        "metadata": {"managedFields": [{
            "manager": "old", "operation": "Apply", "apiVersion": "example.com/v1",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {
                "f:settings": {".": {}, "f:x": {}},
                "f:args": {"v:\"1\"": {}},
            }},
        }]},
        "spec": {"settings": {"x": "1"}, "args": ["1"]},
    });
    server.live = Some(server.full(object));
    let error = server.apply("new", &json!({"spec": {"settings": {"x": "2"}}}), false).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"Apply failed with 1 conflict: conflict with "old": .spec.settings"#
    );
    server.apply("old", &json!({"spec": {"args": ["1"]}}), false).unwrap();
    assert_eq!(server.object(), json!({"spec": {"args": ["1"]}}));
    assert_eq!(server.owners(), ["old Apply: .spec.args"]);
}

#[test]
fn who_owned_what_was_atomic_owns_only_the_whole() {
    let mut server = Server::widgets();
    let object = json!({
        "metadata": {"managedFields": [{
            "manager": "old", "operation": "Apply", "apiVersion": "example.com/v1",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:labels": {}}},
        }]},
        "spec": {"labels": {"key1": "val1", "key2": "val2"}},
    });
    server.live = Some(server.full(object));
    server.apply("new", &json!({"spec": {"labels": {"key1": "changed"}}}), false).unwrap();
    assert_eq!(server.owners(), ["old Apply: .spec.labels", "new Apply: .spec.labels.key1"]);
}

#[test]
fn a_write_that_only_moves_times_is_undone() {
    let mut server = Server::widgets();
    server.apply("a", &json!({"spec": {"image": "i"}}), false).unwrap();
    let old = server.live.clone().unwrap();
    let mut later = old.clone();
    later["metadata"]["managedFields"][0]["time"] = json!("2030-01-01T00:00:00Z");
    let mut changed = later.clone();
    changed["spec"]["image"] = json!("j");

    keep_times(&old, &mut later);
    assert_eq!(later, old);
    let mut same = changed.clone();
    keep_times(&old, &mut same);
    assert_eq!(same, changed, "times of a real change stay");
}

#[test]
fn doors_that_do_not_let_fields_through() {
    let widget = Gvk::new("example.com", "v1", "Widget");
    assert_eq!(reset_fields(&widget, "", true), FieldSet::of(&[&["status"]]));
    assert_eq!(reset_fields(&widget, "", false), FieldSet::default());
    assert_eq!(reset_fields(&widget, "status", true), FieldSet::of(&[&["spec"]]));
    assert_eq!(reset_fields(&widget, "scale", true), FieldSet::default());
    let deployment = Gvk::new("apps", "v1", "Deployment");
    assert_eq!(
        reset_fields(&deployment, "status", true),
        FieldSet::of(&[&["spec"], &["metadata", "labels"]])
    );
}

#[test]
fn a_door_neither_gives_nor_takes_ownership() {
    let mut server = Server::widgets();
    server.update("u", &json!({"spec": {"image": "i"}, "status": {"ready": true}}));
    assert_eq!(server.owners(), ["u Update: .spec .spec.image"]);

    let mut status = server.clone().on("status");
    status
        .apply("s", &json!({"spec": {"image": "other"}, "status": {"ready": true}}), false)
        .unwrap();
    assert_eq!(
        status.owners(),
        ["s Apply/status: .status.ready", "u Update: .spec .spec.image"],
        "spec is no conflict through /status, because it will be put back"
    );
}
