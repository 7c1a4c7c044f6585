//! Laws that hold for every schema and any JSON.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::built_in::Schemas;
use super::{Gvk, Schema, duplicate_fields};

/// JSON of a few levels, with field names that occur in real objects so that walks go deep.
fn any_json() -> impl Strategy<Value = Value> {
    let name = prop_oneof![
        Just("spec"),
        Just("metadata"),
        Just("containers"),
        Just("name"),
        Just("template"),
        Just("labels"),
        Just("resources"),
        Just("limits"),
        Just("cpu"),
        Just("ports"),
        Just("volumes"),
        Just("selector"),
        Just("matchLabels"),
        Just("env"),
        Just("webhooks"),
        Just("versions"),
        Just("schema"),
        Just("openAPIV3Schema"),
        Just("properties"),
        Just("type"),
        Just("items"),
        Just("default"),
        Just("status"),
        Just("tolerations"),
        Just("affinity"),
        Just("livenessProbe"),
        Just("httpGet"),
        Just("data"),
        Just("rules"),
        Just("names"),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop_oneof![Just("object"), Just("array"), Just("1Gi"), Just("a b"), Just("é/")]
            .prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(8, 64, 6, move |inner| {
        let fields = prop::collection::vec((name.clone(), inner.clone()), 0..6);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            fields.prop_map(|fields| {
                fields
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect::<Map<_, _>>()
                    .into()
            }),
        ]
    })
}

/// A structural schema with defaults that fit their types.
fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string", "default": "x", "minLength": 1})),
        Just(json!({"type": "integer", "default": 3, "minimum": 1})),
        Just(json!({"type": "boolean", "default": false})),
        Just(json!({"type": "string", "nullable": true})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
        Just(json!({"type": "object", "additionalProperties": {"type": "string", "default": "y"}})),
        Just(json!({"type": "array", "items": {"type": "integer", "default": 1}})),
    ];
    let node = leaf.prop_recursive(4, 24, 4, |inner| {
        let names =
            prop_oneof![Just("spec"), Just("name"), Just("ports"), Just("items"), Just("type")];
        prop::collection::btree_map(names, inner, 1..4).prop_map(
            |properties| json!({"type": "object", "default": {}, "properties": properties}),
        )
    });
    prop::collection::btree_map(prop_oneof![Just("spec"), Just("status"), Just("data")], node, 1..3)
        .prop_map(|properties| json!({"type": "object", "properties": properties}))
}

fn custom(schema: &Value) -> Schema {
    Schema::custom(Gvk::new("example.com", "v1", "Thing"), schema).unwrap()
}

/// Everything that is done to an object from outside.
fn process(schema: &Schema, object: &Value) {
    let _ = schema.type_error(object);
    let _ = schema.validate(object);
    let mut changed = object.clone();
    schema.prune(&mut changed);
    schema.default(&mut changed);
    schema.prepare_create(&mut changed);
    let _ = schema.validate(&changed);
    let _ = schema.validate_update(&changed, object);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_json_breaks_a_built_in_kind(object in any_json()) {
        let schemas = Schemas::built_in();
        for kind in schemas.kinds() {
            let gvk = Gvk::new(kind.group, kind.version, kind.kind);
            if let Some(schema) = schemas.get(&gvk) {
                process(schema, &object);
            }
        }
    }

    #[test]
    fn no_json_breaks_a_custom_kind(schema in any_schema(), object in any_json()) {
        process(&custom(&schema), &object);
    }

    #[test]
    fn any_schema_builds_or_is_refused(schema in any_json(), object in any_json()) {
        if let Ok(schema) = Schema::custom(Gvk::new("example.com", "v1", "Thing"), &schema) {
            process(&schema, &object);
        }
    }

    #[test]
    fn pruning_and_defaulting_settle(schema in any_schema(), mut object in any_json()) {
        let schema = custom(&schema);
        schema.prune(&mut object);
        let pruned = object.clone();
        prop_assert_eq!(schema.prune(&mut object), Vec::<String>::new());
        prop_assert_eq!(&object, &pruned);
        schema.default(&mut object);
        let defaulted = object.clone();
        schema.default(&mut object);
        prop_assert_eq!(&object, &defaulted);
        prop_assert_eq!(schema.prune(&mut object), Vec::<String>::new(), "defaults are known fields");
    }

    #[test]
    fn defaults_never_make_a_good_object_bad(schema in any_schema(), object in any_json()) {
        let schema = custom(&schema);
        let Value::Object(mut fields) = object else { return Ok(()) };
        fields.insert("metadata".to_owned(), json!({"name": "a"}));
        let mut object = Value::Object(fields);
        schema.prune(&mut object);
        let before: Vec<_> = schema.validate(&object);
        if before.is_empty() {
            schema.default(&mut object);
            prop_assert_eq!(schema.validate(&object), Vec::new());
        }
    }

    #[test]
    fn built_in_forms_settle(mut object in any_json()) {
        for (group, kind) in [("", "Pod"), ("apps", "Deployment"), ("", "Secret"), ("", "Service")] {
            let schema = Schemas::built_in().get(&Gvk::new(group, "v1", kind)).unwrap();
            schema.prune(&mut object);
            let once = object.clone();
            prop_assert_eq!(schema.prune(&mut object), Vec::<String>::new());
            prop_assert_eq!(&object, &once);
            schema.default(&mut object);
            let once = object.clone();
            schema.default(&mut object);
            prop_assert_eq!(&object, &once);
        }
    }

    #[test]
    fn duplicates_are_found_in_any_text(text in ".*", object in any_json()) {
        duplicate_fields(text.as_bytes());
        prop_assert_eq!(duplicate_fields(object.to_string().as_bytes()), Vec::<String>::new());
    }
}

#[test]
fn answers_of_400_name_the_kind() {
    let deployment = Schemas::built_in().get(&Gvk::new("apps", "v1", "Deployment")).unwrap();
    assert_eq!(
        deployment.type_error(&json!({"spec": {"replicas": "two"}})).as_deref(),
        Some(
            "Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot unmarshal string \
             into Go struct field DeploymentSpec.spec.replicas of type int32"
        )
    );
    let unknown = deployment.prune(&mut json!({"spec": {"replica": 1, "template": {"spc": {}}}}));
    assert_eq!(unknown, ["spec.replica", "spec.template.spc"]);
    assert_eq!(
        deployment.strict_error(&unknown, &["metadata.name".to_owned()]).as_deref(),
        Some(
            "Deployment in version \"v1\" cannot be handled as a Deployment: strict decoding error: \
             duplicate field \"metadata.name\", unknown field \"spec.replica\", \
             unknown field \"spec.template.spc\""
        )
    );
    assert_eq!(deployment.strict_error(&[], &[]), None);
    let thing = custom(&json!({"type": "object", "properties": {"spec": {"type": "object"}}}));
    assert_eq!(thing.type_error(&json!({"spec": "reported by validation"})), None);
    assert_eq!(
        thing.type_error(&json!({"metadata": {"labels": {"a": 1}}})).as_deref(),
        Some(
            "Thing in version \"v1\" cannot be handled as a Thing: json: cannot unmarshal number into Go \
             struct field ObjectMeta.labels of type string"
        )
    );
}

#[test]
fn custom_objects_are_pruned_by_their_schema() {
    let schema = custom(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "a": {"type": "string"},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"known": {"type": "object"}}},
            "open": {"type": "object", "additionalProperties": true},
            "pod": {"type": "object", "x-kubernetes-embedded-resource": true,
                "properties": {"spec": {"type": "object"}}},
            "list": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "string"}}}},
        }},
    }}));
    let mut object = json!({
        "apiVersion": "example.com/v1", "kind": "Thing", "extra": 1,
        "metadata": {"name": "a", "labels": {"x": "y"}, "colour": "red"},
        "spec": {
            "a": "kept", "b": "dropped",
            "free": {"anything": {"goes": 1}, "known": {"but": "not here"}},
            "open": {"x": {"y": 1}},
            "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "size": 1}, "status": {}},
            "list": [{"n": "x"}, {"m": "y"}],
        },
    });
    let dropped = schema.prune(&mut object);
    assert_eq!(
        dropped,
        [
            "extra",
            "metadata.colour",
            "spec.b",
            "spec.free.known.but",
            "spec.list[1].m",
            "spec.pod.metadata.size",
            "spec.pod.status",
        ]
    );
    assert_eq!(object["spec"]["free"], json!({"anything": {"goes": 1}, "known": {}}));
    assert_eq!(object["spec"]["open"], json!({"x": {"y": 1}}));
    assert_eq!(object["spec"]["pod"]["metadata"], json!({"name": "p"}));
}

#[test]
fn deep_nesting_is_bounded() {
    let mut deep = json!("leaf");
    for _ in 0..500 {
        deep = json!({"properties": {"a": deep}});
    }
    let object = json!({"metadata": {"name": "a"}, "spec": {"versions": [{"schema": {"openAPIV3Schema": deep}}]}});
    let gvk = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let schema = Schemas::built_in().get(&gvk).unwrap();
    assert!(schema.type_error(&object).is_some());
    schema.prune(&mut object.clone());
    assert!(!schema.validate(&object).is_empty());
    assert!(
        Schema::custom(gvk, &object["spec"]["versions"][0]["schema"]["openAPIV3Schema"]).is_err()
    );
}
