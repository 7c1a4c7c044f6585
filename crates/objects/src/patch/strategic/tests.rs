mod refusals;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::patch::any_json;
use crate::schema::Gvk;
use crate::schema::built_in::Schemas;

fn schema(group: &str, kind: &str) -> &'static Schema {
    Schemas::built_in().get(&Gvk::new(group, "v1", kind)).expect("a built-in kind")
}

fn pod() -> &'static Schema {
    schema("", "Pod")
}

/// Patches the spec of a pod.
fn spec(original: &Value, patch: &Value) -> Result<Value, PatchError> {
    let patched = strategic(&json!({ "spec": original }), &json!({ "spec": patch }), pod())?;
    Ok(patched.get("spec").cloned().unwrap_or(Value::Null))
}

#[test]
fn fields_and_lists_of_a_pod_merge() {
    let cases = [
        (
            "a scalar is replaced",
            json!({"nodeName": "a"}),
            json!({"nodeName": "b"}),
            json!({"nodeName": "b"}),
        ),
        (
            "a scalar is added",
            json!({"nodeName": "a"}),
            json!({"hostname": "h"}),
            json!({"nodeName": "a", "hostname": "h"}),
        ),
        (
            "null removes",
            json!({"nodeName": "a", "hostname": "h"}),
            json!({"nodeName": null}),
            json!({"hostname": "h"}),
        ),
        (
            "null removes nothing",
            json!({"hostname": "h"}),
            json!({"nodeName": null}),
            json!({"hostname": "h"}),
        ),
        (
            "maps merge",
            json!({"nodeSelector": {"a": "1"}}),
            json!({"nodeSelector": {"b": "2"}}),
            json!({"nodeSelector": {"a": "1", "b": "2"}}),
        ),
        (
            "null removes from a map",
            json!({"nodeSelector": {"a": "1", "b": "2"}}),
            json!({"nodeSelector": {"a": null}}),
            json!({"nodeSelector": {"b": "2"}}),
        ),
        (
            "a new map comes without its nulls",
            json!({}),
            json!({"nodeSelector": {"a": "1", "b": null}}),
            json!({"nodeSelector": {"a": "1"}}),
        ),
        (
            "structures merge",
            json!({"securityContext": {"runAsUser": 1}}),
            json!({"securityContext": {"fsGroup": 2}}),
            json!({"securityContext": {"runAsUser": 1, "fsGroup": 2}}),
        ),
        (
            "the empty patch changes nothing",
            json!({"nodeName": "a"}),
            json!({}),
            json!({"nodeName": "a"}),
        ),
        (
            "a value of another kind is taken",
            json!({"nodeSelector": {"a": "1"}}),
            json!({"nodeSelector": "odd"}),
            json!({"nodeSelector": "odd"}),
        ),
        (
            "an atomic list is replaced",
            json!({"containers": [{"name": "a", "args": ["1", "2"]}]}),
            json!({"containers": [{"name": "a", "args": ["3"]}]}),
            json!({"containers": [{"name": "a", "args": ["3"]}]}),
        ),
        (
            "an atomic list of structures is replaced",
            json!({"tolerations": [{"key": "a"}, {"key": "b"}]}),
            json!({"tolerations": [{"key": "c"}]}),
            json!({"tolerations": [{"key": "c"}]}),
        ),
        (
            "an atomic list is emptied",
            json!({"tolerations": [{"key": "a"}]}),
            json!({"tolerations": []}),
            json!({"tolerations": []}),
        ),
        (
            "a container merges by name",
            json!({"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]}),
            json!({"containers": [{"name": "b", "image": "b:2"}]}),
            json!({"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:2"}]}),
        ),
        (
            "a new container comes first",
            json!({"containers": [{"name": "a"}, {"name": "b"}]}),
            json!({"containers": [{"name": "c"}]}),
            json!({"containers": [{"name": "c"}, {"name": "a"}, {"name": "b"}]}),
        ),
        (
            "the order of the patch wins",
            json!({"containers": [{"name": "a"}, {"name": "b", "image": "1"}, {"name": "c"}]}),
            json!({"containers": [{"name": "c"}, {"name": "a"}, {"name": "b", "tty": true}]}),
            json!({"containers": [{"name": "c"}, {"name": "a"}, {"name": "b", "image": "1", "tty": true}]}),
        ),
        (
            "the rest stays around the patch",
            json!({"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}),
            json!({"containers": [{"name": "c"}, {"name": "a"}]}),
            json!({"containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}]}),
        ),
        (
            "lists in lists merge",
            json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]}]}),
            json!({"containers": [{"name": "a", "env": [{"name": "Y", "value": "3"}]}]}),
            json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "3"}]}]}),
        ),
        (
            "ports merge by number alone",
            json!({"containers": [{"name": "a", "ports": [{"containerPort": 80, "protocol": "TCP"}]}]}),
            json!({"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "web"}]}]}),
            json!({"containers": [{"name": "a", "ports": [{"containerPort": 80, "protocol": "TCP", "name": "web"}]}]}),
        ),
        (
            "null removes a field of an element",
            json!({"containers": [{"name": "a", "image": "1", "tty": true}]}),
            json!({"containers": [{"name": "a", "tty": null}]}),
            json!({"containers": [{"name": "a", "image": "1"}]}),
        ),
        (
            "a list appears",
            json!({"nodeName": "n"}),
            json!({"containers": [{"name": "a", "tty": null}]}),
            json!({"nodeName": "n", "containers": [{"name": "a"}]}),
        ),
        (
            "null removes a list",
            json!({"nodeName": "n", "containers": [{"name": "a"}]}),
            json!({"containers": null}),
            json!({"nodeName": "n"}),
        ),
        (
            "empty lists merge",
            json!({"containers": []}),
            json!({"containers": []}),
            json!({"containers": []}),
        ),
        (
            "an empty patch list changes nothing",
            json!({"containers": [{"name": "a"}]}),
            json!({"containers": []}),
            json!({"containers": [{"name": "a"}]}),
        ),
        (
            "a repeated element of the patch merges twice",
            json!({"containers": []}),
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "a", "tty": true}]}),
            json!({"containers": [{"name": "a", "image": "1", "tty": true}]}),
        ),
    ];
    for (name, original, patch, want) in cases {
        assert_eq!(spec(&original, &patch), Ok(want), "{name}");
    }
}

#[test]
fn directives_are_followed() {
    let two = json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]});
    let cases = [
        (
            "$patch: replace on a map",
            json!({"nodeSelector": {"a": "1", "b": "2"}}),
            json!({"nodeSelector": {"$patch": "replace", "c": "3", "d": null}}),
            json!({"nodeSelector": {"c": "3"}}),
        ),
        (
            "$patch: replace with nothing",
            json!({"nodeSelector": {"a": "1"}}),
            json!({"nodeSelector": {"$patch": "replace"}}),
            json!({"nodeSelector": {}}),
        ),
        (
            "$patch: delete on a map",
            json!({"nodeSelector": {"a": "1"}}),
            json!({"nodeSelector": {"$patch": "delete"}}),
            json!({"nodeSelector": {}}),
        ),
        (
            "$patch: delete on a map that is not there",
            json!({"nodeName": "n"}),
            json!({"nodeSelector": {"$patch": "delete"}}),
            json!({"nodeName": "n"}),
        ),
        (
            "$patch: delete on an element",
            two.clone(),
            json!({"containers": [{"name": "a", "$patch": "delete"}]}),
            json!({"containers": [{"name": "b", "image": "1"}]}),
        ),
        (
            "$patch: delete on an element that is not there",
            two.clone(),
            json!({"containers": [{"name": "c", "$patch": "delete"}]}),
            two.clone(),
        ),
        (
            "$patch: delete on every element",
            two.clone(),
            json!({"containers": [{"name": "a", "$patch": "delete"}, {"name": "b", "$patch": "delete"}]}),
            json!({"containers": []}),
        ),
        (
            "$patch: delete takes all elements with the key",
            json!({"containers": [{"name": "a"}, {"name": "b"}, {"name": "a"}]}),
            json!({"containers": [{"name": "a", "$patch": "delete"}]}),
            json!({"containers": [{"name": "b"}]}),
        ),
        (
            "$patch: delete beside a change",
            two.clone(),
            json!({"containers": [{"name": "b", "image": "2"}, {"name": "a", "$patch": "delete"}]}),
            json!({"containers": [{"name": "b", "image": "2"}]}),
        ),
        (
            "$patch: delete in a list that is not there",
            json!({"nodeName": "n"}),
            json!({"containers": [{"name": "a", "$patch": "delete"}, {"name": "b"}]}),
            json!({"nodeName": "n", "containers": [{"name": "b"}]}),
        ),
        (
            "$patch: replace on a list",
            two.clone(),
            json!({"containers": [{"name": "c"}, {"$patch": "replace"}]}),
            json!({"containers": [{"name": "c"}]}),
        ),
        (
            "$patch: replace empties a list",
            two.clone(),
            json!({"containers": [{"$patch": "replace"}]}),
            json!({"containers": []}),
        ),
        (
            "$patch: replace ignores deletions beside it",
            two.clone(),
            json!({"containers": [{"name": "b", "$patch": "delete"}, {"name": "b", "tty": true}, {"$patch": "replace"}]}),
            json!({"containers": [{"name": "b", "tty": true}]}),
        ),
        (
            "$retainKeys clears a union",
            json!({"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}]}),
            json!({"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}),
            json!({"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}),
        ),
        (
            "$retainKeys keeps what it names",
            json!({"securityContext": {"runAsUser": 1, "fsGroup": 2}}),
            json!({"securityContext": {"$retainKeys": ["fsGroup"]}}),
            json!({"securityContext": {"fsGroup": 2}}),
        ),
        (
            "$retainKeys with nulls beside it",
            json!({"securityContext": {"runAsUser": 1, "fsGroup": 2}}),
            json!({"securityContext": {"$retainKeys": ["fsGroup"], "runAsUser": null, "fsGroup": 3}}),
            json!({"securityContext": {"fsGroup": 3}}),
        ),
    ];
    for (name, original, patch, want) in cases {
        assert_eq!(spec(&original, &patch), Ok(want), "{name}");
    }
}

#[test]
fn the_order_of_elements_can_be_set() {
    let abc = json!({"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]});
    let cases = [
        (
            "reordered",
            abc.clone(),
            json!({"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}, {"name": "b"}]}),
            json!({"containers": [{"name": "c"}, {"name": "a"}, {"name": "b"}]}),
        ),
        (
            "a new element goes where it should",
            json!({"containers": [{"name": "a"}, {"name": "b"}]}),
            json!({
                "$setElementOrder/containers": [{"name": "a"}, {"name": "b"}, {"name": "new"}],
                "containers": [{"name": "new", "image": "n"}],
            }),
            json!({"containers": [{"name": "a"}, {"name": "b"}, {"name": "new", "image": "n"}]}),
        ),
        (
            "elements nobody orders stay around",
            abc.clone(),
            json!({"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]}),
            json!({"containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}]}),
        ),
        (
            "orders may name what is not there",
            json!({"containers": [{"name": "a"}, {"name": "c"}]}),
            json!({
                "$setElementOrder/containers": [{"name": "c"}, {"name": "b"}, {"name": "a"}],
                "containers": [{"name": "c", "tty": true}, {"name": "a", "tty": true}],
            }),
            json!({"containers": [{"name": "c", "tty": true}, {"name": "a", "tty": true}]}),
        ),
        (
            "deleted and reordered",
            abc.clone(),
            json!({
                "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
                "containers": [{"name": "b", "$patch": "delete"}],
            }),
            json!({"containers": [{"name": "c"}, {"name": "a"}]}),
        ),
        (
            "an order for a list that is not there",
            json!({"nodeName": "n"}),
            json!({"$setElementOrder/containers": [{"name": "a"}]}),
            json!({"nodeName": "n"}),
        ),
        (
            "an order for a list that appears",
            json!({"nodeName": "n"}),
            json!({
                "$setElementOrder/containers": [{"name": "a"}, {"name": "b"}],
                "containers": [{"name": "a"}, {"name": "b"}],
            }),
            json!({"nodeName": "n", "containers": [{"name": "a"}, {"name": "b"}]}),
        ),
    ];
    for (name, original, patch, want) in cases {
        assert_eq!(spec(&original, &patch), Ok(want), "{name}");
    }
}

#[test]
fn finalizers_are_a_set() {
    let cases = [
        ("added in front", json!(["a", "b"]), json!({"finalizers": ["c"]}), json!(["c", "a", "b"])),
        (
            "without repetition",
            json!(["a", "b"]),
            json!({"finalizers": ["b", "c"]}),
            json!(["a", "b", "c"]),
        ),
        (
            "in the order of the patch",
            json!(["a", "b", "c"]),
            json!({"finalizers": ["c", "a"]}),
            json!(["b", "c", "a"]),
        ),
        (
            "deleted",
            json!(["a", "b", "c"]),
            json!({"$deleteFromPrimitiveList/finalizers": ["b", "x"]}),
            json!(["a", "c"]),
        ),
        (
            "deleted with repetitions",
            json!(["a", "b", "b"]),
            json!({"$deleteFromPrimitiveList/finalizers": ["b"]}),
            json!(["a"]),
        ),
        (
            "ordered",
            json!(["a", "b", "c"]),
            json!({"$setElementOrder/finalizers": ["c", "b", "a"]}),
            json!(["c", "b", "a"]),
        ),
        (
            "added, deleted and ordered",
            json!(["a", "b", "live"]),
            json!({
                "$setElementOrder/finalizers": ["a", "new"],
                "$deleteFromPrimitiveList/finalizers": ["b"],
                "finalizers": ["new"],
            }),
            json!(["a", "new", "live"]),
        ),
        (
            "nulled through the directive",
            json!(["a"]),
            json!({"$deleteFromPrimitiveList/finalizers": null}),
            json!(null),
        ),
    ];
    for (name, original, patch, want) in cases {
        let object = json!({"metadata": {"name": "x", "finalizers": original}});
        let patched = strategic(&object, &json!({ "metadata": patch }), pod()).unwrap();
        assert_eq!(
            patched.pointer("/metadata/finalizers").unwrap_or(&Value::Null),
            &want,
            "{name}"
        );
        assert_eq!(patched.pointer("/metadata/name"), Some(&json!("x")), "{name}");
    }
}

#[test]
fn deleting_from_what_is_not_a_set() {
    let absent = json!({"metadata": {}});
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}});
    assert_eq!(strategic(&absent, &patch, pod()), Ok(absent));

    // The reference takes the deletions for the new list where a list does not merge.
    let patch = json!({"containers": [{"name": "a", "$deleteFromPrimitiveList/args": ["1"]}]});
    let original = json!({"containers": [{"name": "a", "args": ["1", "2"]}]});
    let want = json!({"containers": [{"name": "a", "args": ["1"]}]});
    assert_eq!(spec(&original, &patch), Ok(want));
}

#[test]
fn other_kinds_have_other_keys() {
    let service = json!({"spec": {"ports": [{"port": 80, "targetPort": 8080}, {"port": 443}]}});
    let patch = json!({"spec": {"ports": [{"port": 80, "targetPort": 9090}]}});
    let want = json!({"spec": {"ports": [{"port": 80, "targetPort": 9090}, {"port": 443}]}});
    assert_eq!(strategic(&service, &patch, schema("", "Service")), Ok(want));

    let owned = json!({"metadata": {"ownerReferences": [{"uid": "1", "name": "a"}]}});
    let patch = json!({"metadata": {"ownerReferences": [{"uid": "2", "name": "b"}]}});
    let want = json!({"metadata": {"ownerReferences": [{"uid": "2", "name": "b"}, {"uid": "1", "name": "a"}]}});
    assert_eq!(strategic(&owned, &patch, pod()), Ok(want));

    let rolling =
        json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    let want = json!({"spec": {"strategy": {"type": "Recreate"}}});
    assert_eq!(strategic(&rolling, &patch, schema("apps", "Deployment")), Ok(want));

    let node = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let patch = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let want = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    assert_eq!(strategic(&node, &patch, schema("", "Node")), Ok(want));
}

/// A patch of few containers whose fields often meet.
fn containers() -> impl Strategy<Value = Value> {
    let container =
        ("[a-d]", 0..3i64).prop_map(|(name, image)| json!({"name": name, "image": image}));
    prop::collection::vec(container, 0..5).prop_map(|list| json!({ "containers": list }))
}

proptest! {
    #[test]
    fn no_patch_panics(object in any_json(), patch in any_json()) {
        let _ = strategic(&json!({"spec": object, "metadata": object}), &json!({"spec": patch, "metadata": patch}), pod());
    }

    /// Patching twice is patching once.
    #[test]
    fn merging_is_idempotent(original in containers(), patch in containers()) {
        let once = spec(&original, &patch).unwrap();
        prop_assert_eq!(spec(&once, &patch).unwrap(), once);
    }

    /// No element is lost and none is invented.
    #[test]
    fn merging_keeps_every_name(original in containers(), patch in containers()) {
        let names = |value: &Value| -> BTreeSet<String> {
            let list = value.get("containers").and_then(Value::as_array).cloned().unwrap_or_default();
            list.iter().filter_map(|item| item["name"].as_str().map(str::to_owned)).collect()
        };
        let merged = spec(&original, &patch).unwrap();
        prop_assert_eq!(names(&merged), &names(&original) | &names(&patch));
    }
}
