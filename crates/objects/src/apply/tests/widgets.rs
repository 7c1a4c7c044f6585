//! Stories about fields, maps and structures of a custom kind.

use super::Event::{Apply, Conflict, Force, Update};
use super::*;

/// A kind with one field of every sort.
pub(super) fn schema() -> Schema {
    let part = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "size": {"type": "integer"},
            "color": {"type": "string"},
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "box": {"type": "object", "properties": {"width": {"type": "integer"}, "height": {"type": "integer"}}},
        },
    });
    let port = json!({
        "type": "object",
        "properties": {
            "port": {"type": "integer"},
            "protocol": {"type": "string", "default": "TCP"},
            "name": {"type": "string"},
        },
    });
    let spec = json!({
        "type": "object",
        "properties": {
            "replicas": {"type": "integer"},
            "image": {"type": "string"},
            "on": {"type": "boolean"},
            "limit": {"x-kubernetes-int-or-string": true},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "tree": {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": {"type": "string"}}},
            "settings": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
            "box": {"type": "object", "properties": {"width": {"type": "integer"}, "height": {"type": "integer"}}},
            "args": {"type": "array", "items": {"type": "string"}},
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": part},
            "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"], "items": port},
            "open": {"type": "object", "additionalProperties": true},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "template": {
                "type": "object",
                "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true,
            },
        },
    });
    let status = json!({"type": "object", "properties": {"ready": {"type": "boolean"}, "count": {"type": "integer"}}});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    Schema::custom(Gvk::new("example.com", "v1", "Widget"), &schema).expect("a good schema")
}

#[test]
fn fields_have_owners() {
    let stories = vec![
        Story {
            name: "created by apply",
            events: vec![Apply("a", json!({"spec": {"replicas": 1, "image": "i"}}))],
            object: json!({"spec": {"replicas": 1, "image": "i"}}),
            owners: vec!["a Apply: .spec.image .spec.replicas"],
        },
        Story {
            name: "created by update, structures included",
            events: vec![Update("a", json!({"spec": {"replicas": 1}}))],
            object: json!({"spec": {"replicas": 1}}),
            owners: vec!["a Update: .spec .spec.replicas"],
        },
        Story {
            name: "an intent that says nothing owns nothing",
            events: vec![Apply("a", json!({}))],
            object: json!({}),
            owners: vec![],
        },
        Story {
            name: "a field is changed by its owner",
            events: vec![
                Apply("a", json!({"spec": {"replicas": 1}})),
                Apply("a", json!({"spec": {"replicas": 2}})),
            ],
            object: json!({"spec": {"replicas": 2}}),
            owners: vec!["a Apply: .spec.replicas"],
        },
        Story {
            name: "a field that is no longer stated goes",
            events: vec![
                Apply("a", json!({"spec": {"replicas": 1, "image": "i"}})),
                Apply("a", json!({"spec": {"image": "i"}})),
            ],
            object: json!({"spec": {"image": "i"}}),
            owners: vec!["a Apply: .spec.image"],
        },
        Story {
            name: "with the last field the structure goes",
            events: vec![
                Apply("a", json!({"spec": {"image": "i", "box": {"width": 1}}})),
                Apply("a", json!({"spec": {"image": "i"}})),
            ],
            object: json!({"spec": {"image": "i"}}),
            owners: vec!["a Apply: .spec.image"],
        },
        Story {
            name: "the last manager leaves nothing behind",
            events: vec![
                Apply("a", json!({"spec": {"image": "i", "box": {"width": 1}}})),
                Apply("a", json!({})),
            ],
            object: json!({}),
            owners: vec![],
        },
        Story {
            name: "two managers state different fields",
            events: vec![
                Apply("a", json!({"spec": {"replicas": 1}})),
                Apply("b", json!({"spec": {"image": "i"}})),
            ],
            object: json!({"spec": {"replicas": 1, "image": "i"}}),
            owners: vec!["a Apply: .spec.replicas", "b Apply: .spec.image"],
        },
        Story {
            name: "equal values are shared",
            events: vec![
                Apply("a", json!({"spec": {"replicas": 1}})),
                Apply("b", json!({"spec": {"replicas": 1}})),
            ],
            object: json!({"spec": {"replicas": 1}}),
            owners: vec!["b Apply: .spec.replicas", "a Apply: .spec.replicas"],
        },
        Story {
            name: "a shared field stays when one owner drops it",
            events: vec![
                Apply("a", json!({"spec": {"replicas": 1}})),
                Apply("b", json!({"spec": {"replicas": 1, "image": "i"}})),
                Apply("a", json!({})),
            ],
            object: json!({"spec": {"replicas": 1, "image": "i"}}),
            owners: vec!["b Apply: .spec.image .spec.replicas"],
        },
        Story {
            name: "a shared field cannot be changed by either",
            events: vec![
                Apply("a", json!({"spec": {"replicas": 1}})),
                Apply("b", json!({"spec": {"replicas": 1}})),
                Conflict(
                    "a",
                    json!({"spec": {"replicas": 2}}),
                    r#"Apply failed with 1 conflict: conflict with "b": .spec.replicas"#,
                ),
            ],
            object: json!({"spec": {"replicas": 1}}),
            owners: vec!["b Apply: .spec.replicas", "a Apply: .spec.replicas"],
        },
        Story {
            name: "another value is a conflict",
            events: vec![
                Apply("a", json!({"spec": {"replicas": 1}})),
                Conflict(
                    "b",
                    json!({"spec": {"replicas": 2}}),
                    r#"Apply failed with 1 conflict: conflict with "a": .spec.replicas"#,
                ),
            ],
            object: json!({"spec": {"replicas": 1}}),
            owners: vec!["a Apply: .spec.replicas"],
        },
        Story {
            name: "force takes the field over",
            events: vec![
                Apply("a", json!({"spec": {"replicas": 1, "image": "i"}})),
                Force("b", json!({"spec": {"replicas": 2}})),
            ],
            object: json!({"spec": {"replicas": 2, "image": "i"}}),
            owners: vec!["a Apply: .spec.image", "b Apply: .spec.replicas"],
        },
        Story {
            name: "who loses the last field is forgotten",
            events: vec![
                Apply("a", json!({"spec": {"replicas": 1}})),
                Force("b", json!({"spec": {"replicas": 2}})),
            ],
            object: json!({"spec": {"replicas": 2}}),
            owners: vec!["b Apply: .spec.replicas"],
        },
        Story {
            name: "force without a difference shares",
            events: vec![
                Apply("a", json!({"spec": {"replicas": 1}})),
                Force("b", json!({"spec": {"replicas": 1}})),
            ],
            object: json!({"spec": {"replicas": 1}}),
            owners: vec!["b Apply: .spec.replicas", "a Apply: .spec.replicas"],
        },
        Story {
            name: "an update takes what it changes",
            events: vec![
                Apply("a", json!({"spec": {"replicas": 1, "image": "i"}})),
                Update("u", json!({"spec": {"replicas": 5, "image": "i"}})),
            ],
            object: json!({"spec": {"replicas": 5, "image": "i"}}),
            owners: vec!["a Apply: .spec.image", "u Update: .spec.replicas"],
        },
        Story {
            name: "an update that removes a field takes it from its owner",
            events: vec![
                Apply("a", json!({"spec": {"replicas": 1, "image": "i"}})),
                Update("u", json!({"spec": {"image": "i"}})),
            ],
            object: json!({"spec": {"image": "i"}}),
            owners: vec!["a Apply: .spec.image"],
        },
        Story {
            name: "an update that changes nothing owns nothing",
            events: vec![
                Apply("a", json!({"spec": {"replicas": 1}})),
                Update("u", json!({"spec": {"replicas": 1}})),
            ],
            object: json!({"spec": {"replicas": 1}}),
            owners: vec!["a Apply: .spec.replicas"],
        },
        Story {
            name: "applying over an update is a conflict",
            events: vec![
                Update("u", json!({"spec": {"replicas": 5}})),
                Conflict(
                    "a",
                    json!({"spec": {"replicas": 1}}),
                    r#"Apply failed with 1 conflict: conflict with "u" using example.com/v1: .spec.replicas"#,
                ),
            ],
            object: json!({"spec": {"replicas": 5}}),
            owners: vec!["u Update: .spec .spec.replicas"],
        },
        Story {
            name: "a manager that applies and updates is two managers",
            events: vec![
                Apply("a", json!({"spec": {"replicas": 1, "image": "i"}})),
                Update("a", json!({"spec": {"replicas": 2, "image": "i"}})),
            ],
            object: json!({"spec": {"replicas": 2, "image": "i"}}),
            owners: vec!["a Apply: .spec.image", "a Update: .spec.replicas"],
        },
        Story {
            name: "an applier keeps what an updater also owns",
            events: vec![
                Update("u", json!({"spec": {"replicas": 1, "image": "i"}})),
                Apply("a", json!({"spec": {"replicas": 1, "image": "i"}})),
                Apply("a", json!({"spec": {"image": "i"}})),
            ],
            object: json!({"spec": {"replicas": 1, "image": "i"}}),
            owners: vec!["a Apply: .spec.image", "u Update: .spec .spec.image .spec.replicas"],
        },
    ];
    tell(&Server::widgets(), stories);
}

#[test]
fn maps_and_atoms_have_owners() {
    let stories = vec![
        Story {
            name: "entries of a map have owners of their own",
            events: vec![
                Apply("a", json!({"spec": {"labels": {"x": "1"}}})),
                Apply("b", json!({"spec": {"labels": {"y": "2"}}})),
            ],
            object: json!({"spec": {"labels": {"x": "1", "y": "2"}}}),
            owners: vec!["a Apply: .spec.labels.x", "b Apply: .spec.labels.y"],
        },
        Story {
            name: "an entry goes with its owner",
            events: vec![
                Apply("a", json!({"spec": {"labels": {"x": "1"}}})),
                Apply("b", json!({"spec": {"labels": {"y": "2"}}})),
                Apply("a", json!({})),
            ],
            object: json!({"spec": {"labels": {"y": "2"}}}),
            owners: vec!["b Apply: .spec.labels.y"],
        },
        Story {
            name: "an empty map is owned itself",
            events: vec![Apply("a", json!({"spec": {"labels": {}}}))],
            object: json!({"spec": {"labels": {}}}),
            owners: vec!["a Apply: .spec.labels"],
        },
        Story {
            name: "null is an opinion",
            events: vec![Apply("a", json!({"spec": {"image": null}}))],
            object: json!({"spec": {"image": null}}),
            owners: vec!["a Apply: .spec.image"],
        },
        Story {
            name: "null does not empty a map",
            events: vec![
                Apply("a", json!({"spec": {"labels": {"x": "1"}}})),
                Apply("b", json!({"spec": {"labels": null}})),
            ],
            object: json!({"spec": {"labels": {"x": "1"}}}),
            owners: vec!["b Apply: .spec.labels", "a Apply: .spec.labels.x"],
        },
        Story {
            name: "maps of maps own their entries too",
            events: vec![
                Apply("a", json!({"spec": {"tree": {"x": {"y": "1"}}}})),
                Apply("b", json!({"spec": {"tree": {"x": {"z": "2"}}}})),
                Apply("a", json!({})),
            ],
            object: json!({"spec": {"tree": {"x": {"z": "2"}}}}),
            owners: vec!["b Apply: .spec.tree.x .spec.tree.x.z"],
        },
        Story {
            name: "an atomic map has one owner",
            events: vec![
                Apply("a", json!({"spec": {"settings": {"x": "1"}}})),
                Conflict(
                    "b",
                    json!({"spec": {"settings": {"y": "2"}}}),
                    r#"Apply failed with 1 conflict: conflict with "a": .spec.settings"#,
                ),
                Force("b", json!({"spec": {"settings": {"y": "2"}}})),
            ],
            object: json!({"spec": {"settings": {"y": "2"}}}),
            owners: vec!["b Apply: .spec.settings"],
        },
        Story {
            name: "an atomic list is replaced as a whole",
            events: vec![
                Apply("a", json!({"spec": {"args": ["1", "2"]}})),
                Apply("a", json!({"spec": {"args": ["3"]}})),
            ],
            object: json!({"spec": {"args": ["3"]}}),
            owners: vec!["a Apply: .spec.args"],
        },
        Story {
            name: "unknown structures divide along maps only",
            events: vec![
                Apply("a", json!({"spec": {"free": {"x": {"y": 1}, "list": [{"name": "n"}]}}})),
                Apply("b", json!({"spec": {"free": {"x": {"z": 2}}}})),
            ],
            object: json!({"spec": {"free": {"x": {"y": 1, "z": 2}, "list": [{"name": "n"}]}}}),
            owners: vec![
                "a Apply: .spec.free.list .spec.free.x .spec.free.x.y",
                "b Apply: .spec.free.x .spec.free.x.z",
            ],
        },
        Story {
            name: "an embedded object has metadata like any other",
            events: vec![Apply(
                "a",
                json!({"spec": {"template": {
                    "apiVersion": "v1", "kind": "Pod", "metadata": {"finalizers": ["f"]}, "spec": {"x": 1},
                }}}),
            )],
            object: json!({"spec": {"template": {
                "apiVersion": "v1", "kind": "Pod", "metadata": {"finalizers": ["f"]}, "spec": {"x": 1},
            }}}),
            owners: vec![
                r#"a Apply: .spec.template.apiVersion .spec.template.kind .spec.template.spec .spec.template.metadata.finalizers[="f"] .spec.template.spec.x"#,
            ],
        },
        Story {
            name: "metadata of custom objects has the usual shape",
            events: vec![
                Apply("a", json!({"metadata": {"labels": {"x": "1"}, "finalizers": ["f"]}})),
                Apply(
                    "b",
                    json!({"metadata": {"annotations": {"y": "2"}, "finalizers": ["g"],
                    "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u"}]}}),
                ),
                Apply("a", json!({})),
            ],
            object: json!({"metadata": {"annotations": {"y": "2"}, "finalizers": ["g"],
                "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u"}]}}),
            owners: vec![
                r#"b Apply: .metadata.annotations.y .metadata.finalizers[="g"] .metadata.ownerReferences[uid="u"]"#,
            ],
        },
        Story {
            name: "a value may change its kind",
            events: vec![
                Apply("a", json!({"spec": {"free": {"x": {"y": 1}}}})),
                Apply("a", json!({"spec": {"free": {"x": 5}}})),
            ],
            object: json!({"spec": {"free": {"x": 5}}}),
            owners: vec!["a Apply: .spec.free.x"],
        },
    ];
    tell(&Server::widgets(), stories);
}
