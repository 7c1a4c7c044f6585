//! Each keyword with a value it accepts and one it refuses.

use serde_json::{Value, json};

use crate::schema::{Gvk, Schema};

/// Validates `spec` against the schema of one field named `f`.
fn found(field: Value, value: Value) -> Vec<String> {
    let schema = json!({"type": "object", "properties": {"spec": {
        "type": "object", "properties": {"f": field}}}});
    let schema = Schema::custom(Gvk::new("example.com", "v1", "Thing"), &schema).unwrap();
    let object = json!({"apiVersion": "example.com/v1", "kind": "Thing",
        "metadata": {"name": "a"}, "spec": {"f": value}});
    schema.validate(&object).iter().map(ToString::to_string).collect()
}

#[test]
fn each_keyword_accepts_and_refuses() {
    let cases = [
        (
            json!({"type": "integer"}),
            json!(1.0),
            json!("x"),
            r#"spec.f: Invalid value: "string": spec.f in body must be of type integer: "string""#,
        ),
        (
            json!({"type": "integer"}),
            json!(1),
            json!(1.5),
            r#"spec.f: Invalid value: "number": spec.f in body must be of type integer: "number""#,
        ),
        (
            json!({"type": "string", "nullable": true}),
            json!(null),
            json!(1),
            r#"spec.f: Invalid value: "integer": spec.f in body must be of type string: "integer""#,
        ),
        (
            json!({"type": "string"}),
            json!(""),
            json!(null),
            r#"spec.f: Invalid value: "null": spec.f in body must be of type string: "null""#,
        ),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!("5%"),
            json!(true),
            r#"spec.f: Invalid value: "boolean": spec.f in body must be of type integer,string: "boolean""#,
        ),
        (
            json!({"type": "string", "enum": ["a", "b"]}),
            json!("a"),
            json!("c"),
            r#"spec.f: Unsupported value: "c": supported values: "a", "b""#,
        ),
        (
            json!({"type": "integer", "enum": [1, 2]}),
            json!(2),
            json!(3),
            r#"spec.f: Unsupported value: 3: supported values: "1", "2""#,
        ),
        (
            json!({"type": "string", "pattern": "^a+$"}),
            json!("aa"),
            json!("ab"),
            r#"spec.f: Invalid value: "ab": spec.f in body should match '^a+$'"#,
        ),
        (
            json!({"type": "string", "minLength": 2}),
            json!("éé"),
            json!("é"),
            r#"spec.f: Invalid value: "é": spec.f in body should be at least 2 chars long"#,
        ),
        (
            json!({"type": "string", "maxLength": 2}),
            json!("éé"),
            json!("abc"),
            "spec.f: Too long: may not be more than 2 bytes",
        ),
        (
            json!({"type": "string", "format": "date-time"}),
            json!("2024-01-01T00:00:00Z"),
            json!("now"),
            r#"spec.f: Invalid value: "now": spec.f in body must be of type date-time: "now""#,
        ),
        (
            json!({"type": "integer", "minimum": 1}),
            json!(1),
            json!(0),
            "spec.f: Invalid value: 0: spec.f in body should be greater than or equal to 1",
        ),
        (
            json!({"type": "integer", "maximum": 9, "exclusiveMaximum": true}),
            json!(8),
            json!(9),
            "spec.f: Invalid value: 9: spec.f in body should be less than 9",
        ),
        (
            json!({"type": "number", "multipleOf": 0.5}),
            json!(1.5),
            json!(1.6),
            "spec.f: Invalid value: 1.6: spec.f in body should be a multiple of 0.5",
        ),
        (
            json!({"type": "integer", "format": "int32"}),
            json!(2147483647),
            json!(2147483648_i64),
            "<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in spec.f",
        ),
        (
            json!({"type": "array", "minItems": 1, "items": {"type": "string"}}),
            json!(["a"]),
            json!([]),
            "spec.f: Invalid value: 0: spec.f in body should have at least 1 items",
        ),
        (
            json!({"type": "array", "maxItems": 1, "items": {"type": "string"}}),
            json!(["a"]),
            json!(["a", "b"]),
            "spec.f: Too many: 2: must have at most 1 items",
        ),
        (
            json!({"type": "array", "items": {"type": "object", "required": ["n"],
                "properties": {"n": {"type": "string"}}}}),
            json!([{"n": ""}]),
            json!([{"n": ""}, {}]),
            "spec.f[1].n: Required value",
        ),
        (
            json!({"type": "object", "maxProperties": 1, "additionalProperties": {"type": "string"}}),
            json!({"a": ""}),
            json!({"a": "", "b": ""}),
            "spec.f: Too many: 2: must have at most 1 items",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "boolean"}}),
            json!({"a.b": true}),
            json!({"a": 1}),
            r#"spec.f.a: Invalid value: "integer": spec.f.a in body must be of type boolean: "integer""#,
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}),
            json!(["a", "b"]),
            json!(["a", "b", "a"]),
            r#"spec.f[2]: Duplicate value: "a""#,
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object",
                "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}}),
            json!([{"k": "a"}, {"k": "b"}]),
            json!([{"k": "a", "v": 1}, {"k": "a", "v": 2}]),
            r#"spec.f[1]: Duplicate value: {"k":"a"}"#,
        ),
        (
            json!({"type": "object", "not": {"required": ["a"]},
                "properties": {"a": {"type": "string"}}}),
            json!({}),
            json!({"a": ""}),
            r#"<nil>: Invalid value: "": "spec.f" must not validate the schema (not)"#,
        ),
    ];
    for (field, good, bad, want) in cases {
        assert_eq!(found(field.clone(), good), [""; 0], "{field}");
        assert_eq!(found(field.clone(), bad), [want], "{field}");
    }
}

#[test]
fn unions_name_the_rule_and_the_nearest_alternative() {
    let one_of = json!({"type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
    assert_eq!(found(one_of.clone(), json!({"a": "x"})), [""; 0]);
    assert_eq!(
        found(one_of.clone(), json!({})),
        [
            r#"<nil>: Invalid value: "": "spec.f" must validate one and only one schema (oneOf). Found none valid"#,
            "spec.f.a: Required value",
        ]
    );
    assert_eq!(
        found(one_of, json!({"a": "x", "b": "y"})),
        [
            r#"<nil>: Invalid value: "": "spec.f" must validate one and only one schema (oneOf). Found 2 valid alternatives"#
        ]
    );
    let any_of = json!({"x-kubernetes-int-or-string": true,
        "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^[0-9]+%$"});
    assert_eq!(found(any_of.clone(), json!(4)), [""; 0]);
    assert_eq!(
        found(any_of, json!("4")),
        [r#"spec.f: Invalid value: "4": spec.f in body should match '^[0-9]+%$'"#]
    );
    let all_of = json!({"type": "integer", "allOf": [{"minimum": 1}, {"maximum": 5}]});
    assert_eq!(
        found(all_of, json!(9)),
        [
            "spec.f: Invalid value: 9: spec.f in body should be less than or equal to 5",
            r#"<nil>: Invalid value: "": "spec.f" must validate all the schemas (allOf)"#,
        ]
    );
}

#[test]
fn unchanged_parts_are_not_judged_again() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "a": {"type": "string", "maxLength": 1}, "b": {"type": "string", "maxLength": 1}}}}});
    let schema = Schema::custom(Gvk::new("example.com", "v1", "Thing"), &schema).unwrap();
    let object = |a: &str, b: &str| json!({"metadata": {"name": "n"}, "spec": {"a": a, "b": b}});
    let old = object("long", "x");
    assert!(schema.validate_update(&object("long", "y"), &old).is_empty());
    let causes = schema.validate_update(&object("longer", "y"), &old);
    assert_eq!(causes[0].to_string(), "spec.a: Too long: may not be more than 1 bytes");
}

#[test]
fn embedded_objects_say_what_they_are() {
    let field = json!({"type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true});
    let good = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": "b"}}});
    assert_eq!(found(field.clone(), good), [""; 0]);
    assert_eq!(
        found(field, json!({"kind": "Pod"})),
        ["spec.f.apiVersion: Required value: must not be empty"]
    );
}
