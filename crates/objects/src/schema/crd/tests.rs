//! A good definition, and what is wrong with its neighbours.

use super::*;

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "conversion": {"strategy": "None"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}}}],
        },
    })
}

/// The definition with the value at `pointer` replaced, or removed for null.
fn with(pointer: &str, value: Value) -> Value {
    let mut object = definition();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = object.pointer_mut(parent).unwrap();
    match value {
        Value::Null => drop(parent.as_object_mut().unwrap().remove(name)),
        value => parent[name] = value,
    }
    object
}

fn found(object: &Value) -> Vec<String> {
    let mut causes = Causes::default();
    check(object, &mut causes);
    causes.iter().map(ToString::to_string).collect()
}

#[test]
fn definitions_are_refused_for_what_is_wrong() {
    assert_eq!(found(&definition()), [""; 0]);
    let schema = "/spec/versions/0/schema/openAPIV3Schema";
    let size = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size";
    let at_size = "spec.validation.openAPIV3Schema.properties[spec].properties[size]";
    let cases = [
        (
            "/metadata/name",
            json!("thing.example.com"),
            vec![
                r#"metadata.name: Invalid value: "thing.example.com": must be spec.names.plural+"."+spec.group"#
                    .to_owned(),
            ],
        ),
        ("/spec/scope", Value::Null, vec!["spec.scope: Required value".to_owned()]),
        (
            "/spec/scope",
            json!("Global"),
            vec![
                r#"spec.scope: Unsupported value: "Global": supported values: "Cluster", "Namespaced""#
                    .to_owned(),
            ],
        ),
        ("/spec/names/kind", Value::Null, vec!["spec.names.kind: Required value".to_owned()]),
        (
            "/spec/versions/0/schema",
            Value::Null,
            vec![
                "spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required"
                    .to_owned(),
            ],
        ),
        (
            schema,
            json!({"type": "string"}),
            vec![
                r#"spec.validation.openAPIV3Schema.type: Invalid value: "string": must be object at the root"#
                    .to_owned(),
            ],
        ),
        (
            size,
            json!({}),
            vec![format!(
                "{at_size}.type: Required value: must not be empty for specified object fields"
            )],
        ),
        (
            size,
            json!({"$ref": "#/x", "type": "string"}),
            vec![format!("{at_size}.$ref: Forbidden: $ref is not supported")],
        ),
        (
            size,
            json!({"type": "array"}),
            vec![format!("{at_size}.items: Required value: must be specified")],
        ),
        (
            size,
            json!({"type": "integer", "default": "x"}),
            vec![format!(
                "{at_size}.default: Invalid value: \"string\":  in body must be of type integer: \"string\""
            )],
        ),
        (
            size,
            json!({"type": "object", "properties": {"a": {"type": "string"}},
                "default": {"b": 1}}),
            vec![format!("{at_size}.default: Invalid value: {{\"b\":1}}: must not have unknown fields")],
        ),
        (
            size,
            json!({"type": "integer", "allOf": [{"type": "integer"}]}),
            vec![format!("{at_size}.allOf[0].type: Forbidden: must be empty to be structural")],
        ),
        (
            size,
            json!({"type": "object", "anyOf": [{"properties": {"x": {"minLength": 1}}}]}),
            vec![format!(
                "{at_size}.properties[x]: Required value: because it is defined in {at_size}.anyOf[0].properties[x]"
            )],
        ),
        (
            size,
            json!({"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}},
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}),
            vec![format!(
                "{at_size}.items.properties[k].default: Required value: this property is in \
                 x-kubernetes-list-map-keys, so it must have a default or be a required property"
            )],
        ),
        (
            schema,
            json!({"type": "thing"}),
            vec![
                r#"spec.validation.openAPIV3Schema.type: Invalid value: "thing": must be object at the root"#
                    .to_owned(),
                r#"spec.validation.openAPIV3Schema.type: Unsupported value: "thing": supported values: "array", "boolean", "integer", "number", "object", "string""#
                    .to_owned(),
            ],
        ),
        (
            schema,
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            vec![
                "spec.validation.openAPIV3Schema.additionalProperties: Forbidden: must not be used at the root"
                    .to_owned(),
            ],
        ),
        (
            schema,
            json!({"type": "object", "properties": {"metadata": {"type": "object",
                "properties": {"labels": {"type": "object"}}}}}),
            vec![
                "spec.validation.openAPIV3Schema.properties[metadata]: Forbidden: must not specify anything \
                 other than name and generateName, but metadata is implicitly specified"
                    .to_owned(),
            ],
        ),
        (
            size,
            json!({"type": "object", "x-kubernetes-embedded-resource": true}),
            vec![format!(
                "{at_size}.properties: Required value: must not be empty if \
                 x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
            )],
        ),
        (
            size,
            json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"}),
            vec![format!(
                "{at_size}.items.x-kubernetes-map-type: Invalid value: \"null\": must be atomic as item of \
                 a list with x-kubernetes-list-type=set"
            )],
        ),
        (
            size,
            json!({"type": "array", "items": {"type": "integer",
                "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]}}),
            vec![format!(
                "{at_size}.items.x-kubernetes-validations[0].rule: Invalid value: \"self >= oldSelf\": \
                 oldSelf cannot be used on the uncorrelatable portion of the schema within {at_size}"
            )],
        ),
        (
            "/spec/versions/0/additionalPrinterColumns",
            json!([{"name": "Size", "type": "int", "jsonPath": ".spec.size"}]),
            vec![
                r#"spec.additionalPrinterColumns[0].type: Invalid value: "int": must be one of boolean,date,integer,number,string"#
                    .to_owned(),
            ],
        ),
        (
            "/spec/versions/0/subresources",
            json!({"scale": {"specReplicasPath": ".status.size", "statusReplicasPath": ".status.size"}}),
            vec![
                r#"spec.subresources.scale.specReplicasPath: Invalid value: ".status.size": should be a json path under .spec"#
                    .to_owned(),
            ],
        ),
    ];
    for (pointer, value, want) in cases {
        let object = with(pointer, value.clone());
        assert_eq!(found(&object), want, "{pointer} = {value}");
    }
}

#[test]
fn exactly_one_version_is_stored() {
    let mut two = definition();
    let mut second = two["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    two["spec"]["versions"].as_array_mut().unwrap().push(second);
    assert!(found(&two)[0].ends_with("must have exactly one version marked as storage version"));
    two["spec"]["versions"][1]["storage"] = json!(false);
    assert_eq!(found(&two), [""; 0]);
    two["spec"]["versions"][1]["name"] = json!("v1");
    assert!(found(&two)[0].ends_with("must contain unique version names"));
}

#[test]
fn broken_expressions_are_refused() {
    let pointer =
        "/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations";
    assert_eq!(found(&with(pointer, json!([{"rule": "self.size > 1"}]))), [""; 0]);
    let causes = found(&with(pointer, json!([{"rule": "self.size >"}])));
    let path = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule";
    assert!(
        causes[0]
            .starts_with(&format!("{path}: Invalid value: \"self.size >\": compilation failed"))
    );
}

#[test]
fn identity_of_an_established_definition_is_fixed() {
    let mut old = definition();
    old["status"] = json!({"conditions": [{"type": "Established", "status": "True"}]});
    let found = |new: &Value| {
        let mut causes = Causes::default();
        check_update(new, &old, &mut causes);
        causes.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(found(&definition()), [""; 0]);
    let new = with("/spec/scope", json!("Cluster"));
    assert_eq!(found(&new), [r#"spec.scope: Invalid value: "Cluster": field is immutable"#]);
    let mut new = definition();
    new["status"] = json!({"storedVersions": ["v0"]});
    assert!(found(&new)[0].starts_with(
        "status.storedVersions[0]: Invalid value: \"v0\": missing from spec.versions"
    ));
}

#[test]
fn a_version_becomes_a_schema() {
    let schema = Schema::from_crd_version(&definition(), "v1").unwrap();
    assert_eq!(schema.gvk(), &Gvk::new("example.com", "v1", "Thing"));
    assert!(schema.root().at(&["metadata", "ownerReferences", "[]", "uid"]).is_some());
    let error = Schema::from_crd_version(&definition(), "v9").unwrap_err();
    assert_eq!(error.to_string(), "no version named \"v9\"");
}
