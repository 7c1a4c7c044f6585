use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// JSON of few names, so that two documents often meet.
pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-3..3i64).prop_map(|number| json!(number)),
        "[a-c]{0,2}".prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            btree_map("[a-d]", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn patched(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    json(object, patch.to_string().as_bytes())
}

fn pod() -> Value {
    json!({"metadata": {"name": "web", "labels": {"app": "web", "a/b": "1"}}, "spec": {"args": ["a", "b", "c"]}})
}

#[test]
fn operations_change_the_object() {
    let cases = [
        (
            "add a label",
            json!([{"op": "add", "path": "/metadata/labels/new", "value": "x"}]),
            "/metadata/labels/new",
            json!("x"),
        ),
        (
            "add replaces",
            json!([{"op": "add", "path": "/metadata/labels/app", "value": "x"}]),
            "/metadata/labels/app",
            json!("x"),
        ),
        (
            "add to the front",
            json!([{"op": "add", "path": "/spec/args/0", "value": "x"}]),
            "/spec/args",
            json!(["x", "a", "b", "c"]),
        ),
        (
            "add to the end",
            json!([{"op": "add", "path": "/spec/args/-", "value": "x"}]),
            "/spec/args",
            json!(["a", "b", "c", "x"]),
        ),
        (
            "add before the last",
            json!([{"op": "add", "path": "/spec/args/-2", "value": "x"}]),
            "/spec/args",
            json!(["a", "b", "x", "c"]),
        ),
        (
            "add without a value is null",
            json!([{"op": "add", "path": "/spec/x"}]),
            "/spec/x",
            json!(null),
        ),
        (
            "an escaped name",
            json!([{"op": "replace", "path": "/metadata/labels/a~1b", "value": "2"}]),
            "/metadata/labels/a~1b",
            json!("2"),
        ),
        (
            "replace",
            json!([{"op": "replace", "path": "/metadata/name", "value": "x"}]),
            "/metadata/name",
            json!("x"),
        ),
        (
            "replace sets what is absent",
            json!([{"op": "replace", "path": "/spec/new", "value": 1}]),
            "/spec/new",
            json!(1),
        ),
        (
            "replace the last element",
            json!([{"op": "replace", "path": "/spec/args/-1", "value": "x"}]),
            "/spec/args",
            json!(["a", "b", "x"]),
        ),
        (
            "replace everything",
            json!([{"op": "replace", "path": "", "value": {"a": 1}}]),
            "",
            json!({"a": 1}),
        ),
        (
            "remove a field",
            json!([{"op": "remove", "path": "/metadata/labels"}]),
            "/metadata",
            json!({"name": "web"}),
        ),
        (
            "remove an element",
            json!([{"op": "remove", "path": "/spec/args/1"}]),
            "/spec/args",
            json!(["a", "c"]),
        ),
        (
            "move",
            json!([{"op": "move", "from": "/spec/args/0", "path": "/spec/first"}]),
            "/spec",
            json!({"args": ["b", "c"], "first": "a"}),
        ),
        (
            "copy",
            json!([{"op": "copy", "from": "/spec/args", "path": "/spec/more"}]),
            "/spec/more",
            json!(["a", "b", "c"]),
        ),
        (
            "a copy of nothing is null",
            json!([{"op": "copy", "from": "/spec/nothing", "path": "/spec/x"}]),
            "/spec/x",
            json!(null),
        ),
        (
            "test holds",
            json!([{"op": "test", "path": "/metadata/name", "value": "web"}]),
            "/metadata/name",
            json!("web"),
        ),
        (
            "test of the last element",
            json!([{"op": "test", "path": "/spec/args/-1", "value": "c"}]),
            "/spec/args/2",
            json!("c"),
        ),
        (
            "test for null on nothing",
            json!([{"op": "test", "path": "/spec/nothing", "value": null}]),
            "/metadata/name",
            json!("web"),
        ),
        ("test of everything", json!([{"op": "test", "path": "", "value": pod()}]), "", pod()),
        ("no operations", json!([]), "", pod()),
        ("null instead of operations", json!(null), "", pod()),
        (
            "operations build on each other",
            json!([
                {"op": "test", "path": "/spec/args/0", "value": "a"},
                {"op": "add", "path": "/spec/map", "value": {}},
                {"op": "move", "from": "/spec/args/0", "path": "/spec/map/a"},
                {"op": "remove", "path": "/spec/args"},
            ]),
            "/spec",
            json!({"map": {"a": "a"}}),
        ),
    ];
    for (name, patch, at, want) in cases {
        let object = patched(&pod(), &patch).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(object.pointer(at), Some(&want), "{name}");
    }
}

#[test]
fn operations_that_do_not_fit_are_unprocessable() {
    let cases = [
        ("test of another value", json!([{"op": "test", "path": "/metadata/name", "value": "x"}])),
        (
            "test for null on something",
            json!([{"op": "test", "path": "/metadata/name", "value": null}]),
        ),
        ("test below nothing", json!([{"op": "test", "path": "/nothing/here", "value": null}])),
        ("test of everything else", json!([{"op": "test", "path": "", "value": {}}])),
        (
            "add below nothing",
            json!([{"op": "add", "path": "/metadata/annotations/a", "value": "x"}]),
        ),
        ("add past the end", json!([{"op": "add", "path": "/spec/args/4", "value": "x"}])),
        ("add before the front", json!([{"op": "add", "path": "/spec/args/-5", "value": "x"}])),
        ("add at no position", json!([{"op": "add", "path": "/spec/args/x", "value": "x"}])),
        ("add below a scalar", json!([{"op": "add", "path": "/metadata/name/x", "value": "x"}])),
        ("add everything", json!([{"op": "add", "path": "", "value": {}}])),
        ("remove nothing", json!([{"op": "remove", "path": "/spec/nothing"}])),
        ("remove everything", json!([{"op": "remove", "path": ""}])),
        ("remove past the end", json!([{"op": "remove", "path": "/spec/args/3"}])),
        ("replace past the end", json!([{"op": "replace", "path": "/spec/args/3", "value": 1}])),
        ("replace everything by a scalar", json!([{"op": "replace", "path": "", "value": 1}])),
        ("move nothing", json!([{"op": "move", "from": "/nothing", "path": "/a"}])),
        ("move into itself", json!([{"op": "move", "from": "/spec", "path": "/spec/args"}])),
        ("copy from below nothing", json!([{"op": "copy", "from": "/nothing/x", "path": "/a"}])),
        ("an unknown operation", json!([{"op": "merge", "path": "/a", "value": 1}])),
        ("no operation", json!([{"path": "/a", "value": 1}])),
        ("no path", json!([{"op": "add", "value": 1}])),
        ("no source", json!([{"op": "move", "path": "/a"}])),
        ("a path without a slash", json!([{"op": "add", "path": "metadata/x", "value": 1}])),
        ("an empty operation", json!([null])),
        (
            "the second of two",
            json!([{"op": "add", "path": "/a", "value": 1}, {"op": "remove", "path": "/b"}]),
        ),
    ];
    for (name, patch) in cases {
        let error = patched(&pod(), &patch).expect_err(name);
        assert_eq!((error.code(), error.reason()), (422, "Invalid"), "{name}: {error}");
        let said = "the server rejected our request due to an error in our request";
        assert_eq!(error.message(), said, "{name}");
    }
}

#[test]
fn a_failed_test_says_which() {
    let patch = json!([{"op": "test", "path": "/metadata/name", "value": "x"}]);
    let error = patched(&pod(), &patch).unwrap_err();
    assert_eq!(error.to_string(), "testing value /metadata/name failed: test failed");
}

#[test]
fn what_is_no_patch_is_a_bad_request() {
    let cases = [
        (&b"{}"[..], "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        (b"\"add\"", "json: cannot unmarshal string into Go value of type []handlers.jsonPatchOp"),
        (b"1.5", "json: cannot unmarshal number into Go value of type []handlers.jsonPatchOp"),
        (b"[true]", "json: cannot unmarshal bool into Go value of type handlers.jsonPatchOp"),
        (b"[[]]", "json: cannot unmarshal array into Go value of type handlers.jsonPatchOp"),
        (
            b"[{\"op\":1}]",
            "json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
        ),
        (b"[{", "unexpected end of JSON input"),
        (b"", "unexpected end of JSON input"),
    ];
    for (patch, said) in cases {
        let error = json(&pod(), patch).unwrap_err();
        assert_eq!(error.code(), 400, "{said}");
        assert_eq!(error.message(), format!("error decoding patch: {said}"));
    }
}

#[test]
fn the_number_of_operations_is_limited() {
    let operation = json!({"op": "test", "path": "/metadata/name", "value": "web"});
    let most = Value::Array(vec![operation.clone(); MAX_OPERATIONS]);
    assert_eq!(patched(&pod(), &most), Ok(pod()));

    let more = Value::Array(vec![operation; MAX_OPERATIONS + 1]);
    let error = patched(&pod(), &more).unwrap_err();
    assert_eq!((error.code(), error.reason()), (413, "RequestEntityTooLarge"));
    assert_eq!(
        error.message(),
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    );
}

#[test]
fn copies_cannot_blow_an_object_up() {
    let double = |at: usize| json!({"op": "copy", "from": "/list", "path": format!("/copy{at}")});
    let patch: Vec<Value> = (0..100).map(double).collect();
    let object = json!({"list": vec!["x".repeat(1024); 64]});
    let error = patched(&object, &Value::Array(patch)).unwrap_err();
    assert_eq!(error.code(), 422);
    assert!(error.to_string().contains("exceeding the limit 3145728"), "{error}");
}

#[test]
fn a_result_cannot_be_nested_beyond_reading() {
    let mut deep = json!({});
    for _ in 0..60 {
        deep = json!({ "a": deep });
    }
    let path = "/a".repeat(60);
    let add = json!([{"op": "add", "path": path, "value": deep}]);
    let error = patched(&deep, &add).unwrap_err();
    assert_eq!(error.code(), 422);
    let copy = json!([{"op": "copy", "from": "/a", "path": format!("{path}/a")}]);
    assert_eq!(patched(&deep, &copy).unwrap_err().code(), 422);
    let shallow = json!([{"op": "copy", "from": "/a", "path": "/b"}]);
    assert!(patched(&deep, &shallow).is_ok());
}

proptest! {
    /// Any operations on any object are applied or refused, never worse.
    #[test]
    fn no_patch_panics(
        object in any_json(),
        operations in vec(
            (
                prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test", "no"]),
                "(/([a-d]|-|-?[0-3]|~1|~)){0,4}",
                "(/([a-d]|-|-?[0-3])){0,4}",
                any_json(),
            ),
            0..6,
        ),
    ) {
        let patch: Vec<Value> = operations
            .into_iter()
            .map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}))
            .collect();
        let _ = patched(&object, &Value::Array(patch));
    }
}
