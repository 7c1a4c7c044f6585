//! Patches that cannot be followed, and the words for it.

use super::*;

#[test]
fn patches_that_make_no_sense_are_refused() {
    let one = json!({"containers": [{"name": "a", "env": [{"name": "X"}]}]});
    let cases = [
        (
            "no merge key",
            json!({"containers": [{"image": "x"}]}),
            500,
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (
            "no merge key in a deletion",
            json!({"containers": [{"$patch": "delete"}]}),
            500,
            "map: map[$patch:delete] does not contain declared merge key: name",
        ),
        (
            "an unknown directive on an element",
            json!({"containers": [{"name": "a", "$patch": "prune"}]}),
            500,
            "unknown patch type: prune in map: map[$patch:prune name:a]",
        ),
        (
            "merge on an element",
            json!({"containers": [{"name": "a", "$patch": "merge"}]}),
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        (
            "a deletion directive without a name",
            json!({"$deleteFromPrimitiveList": ["a"]}),
            400,
            "invalid patch format of primitive list",
        ),
        (
            "an order directive without a name",
            json!({"$setElementOrder": ["a"]}),
            400,
            "invalid patch format of setElementOrder list",
        ),
        (
            "an order that is no list",
            json!({"$setElementOrder/containers": {}}),
            500,
            "expected a []interface {}, but received a map[string]interface {}",
        ),
        (
            "an ordered list that is none",
            json!({"$setElementOrder/containers": [{"name": "a"}], "containers": "a"}),
            500,
            "expected a []interface {}, but received a string",
        ),
        (
            "an order that contradicts the patch",
            json!({"$setElementOrder/containers": [{"name": "a"}, {"name": "b"}], "containers": [{"name": "b"}, {"name": "a"}]}),
            500,
            "The order in patch list:\n[map[name:b] map[name:a]]\n doesn't match $setElementOrder list:\n[map[name:a] map[name:b]]\n",
        ),
        (
            "an order without a key",
            json!({"$setElementOrder/containers": [{}], "containers": [{"name": "a"}]}),
            500,
            "map: map[] does not contain declared merge key: name",
        ),
        (
            "retainKeys that is no list",
            json!({"$retainKeys": "a"}),
            400,
            "invalid patch format of retainKeys",
        ),
        (
            "retainKeys that misses a field",
            json!({"$retainKeys": ["containers"], "nodeName": "n"}),
            400,
            "invalid patch format of retainKeys",
        ),
        (
            "elements of two kinds",
            json!({"containers": ["a"]}),
            500,
            "list element types are not identical: [[map[env:[map[name:X]] name:a]] [a]]",
        ),
    ];
    for (name, patch, code, said) in cases {
        let error = spec(&one, &patch).expect_err(name);
        assert_eq!((error.code(), error.message().as_str()), (code, said), "{name}");
    }
    let selected = json!({"nodeSelector": {"a": "1"}});
    let error = spec(&selected, &json!({"nodeSelector": {"$patch": "merge"}})).unwrap_err();
    assert_eq!(error.message(), "unknown patch type: merge in map: map[$patch:merge]");
    let nested = strategic(
        &json!({"metadata": {"finalizers": [["a"]]}}),
        &json!({"metadata": {"finalizers": [["b"]]}}),
        pod(),
    );
    assert_eq!(
        nested,
        Err(PatchError::Unprocessable("lists of lists are not supported".to_owned()))
    );
    let error = strategic(&one, &json!([1]), pod()).unwrap_err();
    assert_eq!(error.code(), 400);
    let said = "json: cannot unmarshal array into Go value of type map[string]interface {}";
    assert_eq!(error.message(), said);
    assert_eq!(strategic(&one, &json!(null), pod()), Ok(one), "null is no patch at all");
}

#[test]
fn custom_kinds_do_not_take_strategic_patches() {
    let custom = Schema::untyped(Gvk::new("example.com", "v1", "Widget"));
    let error = strategic(&json!({}), &json!({}), &custom).unwrap_err();
    assert_eq!((error.code(), error.reason()), (415, "UnsupportedMediaType"));
    assert_eq!(
        error.message(),
        "the body of the request was in an unknown format - accepted media types include: \
         application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    );
}
