//! Stories about lists whose elements have owners.

use super::Event::{Apply, Conflict, Force, Update};
use super::*;

#[test]
fn elements_have_owners() {
    let stories = vec![
        Story {
            name: "elements by key",
            events: vec![
                Apply("a", json!({"spec": {"parts": [{"name": "x", "size": 1}]}})),
                Apply("b", json!({"spec": {"parts": [{"name": "y"}]}})),
            ],
            object: json!({"spec": {"parts": [{"name": "x", "size": 1}, {"name": "y"}]}}),
            owners: vec![
                r#"a Apply: .spec.parts[name="x"] .spec.parts[name="x"].name .spec.parts[name="x"].size"#,
                r#"b Apply: .spec.parts[name="y"] .spec.parts[name="y"].name"#,
            ],
        },
        Story {
            name: "an element goes with its owner",
            events: vec![
                Apply("a", json!({"spec": {"parts": [{"name": "x"}, {"name": "z"}]}})),
                Apply("b", json!({"spec": {"parts": [{"name": "y"}]}})),
                Apply("a", json!({"spec": {"parts": [{"name": "z"}]}})),
            ],
            object: json!({"spec": {"parts": [{"name": "z"}, {"name": "y"}]}}),
            owners: vec![
                r#"b Apply: .spec.parts[name="y"] .spec.parts[name="y"].name"#,
                r#"a Apply: .spec.parts[name="z"] .spec.parts[name="z"].name"#,
            ],
        },
        Story {
            name: "the list goes with its last element",
            events: vec![
                Apply("a", json!({"spec": {"image": "i", "parts": [{"name": "x"}]}})),
                Apply("a", json!({"spec": {"image": "i"}})),
            ],
            object: json!({"spec": {"image": "i"}}),
            owners: vec!["a Apply: .spec.image"],
        },
        Story {
            name: "two managers work on one element",
            events: vec![
                Apply("a", json!({"spec": {"parts": [{"name": "x", "size": 1}]}})),
                Apply("b", json!({"spec": {"parts": [{"name": "x", "color": "red"}]}})),
                Apply("a", json!({})),
            ],
            object: json!({"spec": {"parts": [{"name": "x", "color": "red"}]}}),
            owners: vec![
                r#"b Apply: .spec.parts[name="x"] .spec.parts[name="x"].color .spec.parts[name="x"].name"#,
            ],
        },
        Story {
            name: "what nobody owns goes with the element around it",
            events: vec![
                Apply("a", json!({"spec": {"parts": [{"name": "x"}, {"name": "z"}]}})),
                Update("u", json!({"spec": {"parts": [{"name": "x", "size": 3}, {"name": "z"}]}})),
                Apply("a", json!({"spec": {"parts": [{"name": "z"}]}})),
            ],
            object: json!({"spec": {"parts": [{"name": "z"}]}}),
            owners: vec![r#"a Apply: .spec.parts[name="z"] .spec.parts[name="z"].name"#],
        },
        Story {
            name: "what another applier owns holds the element",
            events: vec![
                Apply("a", json!({"spec": {"parts": [{"name": "x", "tags": ["1"]}]}})),
                Apply("b", json!({"spec": {"parts": [{"name": "x", "tags": ["2"]}]}})),
                Update("u", json!({"spec": {"parts": [{"name": "x", "tags": ["1", "2", "3"]}]}})),
                Apply("a", json!({})),
            ],
            object: json!({"spec": {"parts": [{"name": "x", "tags": ["2", "3"]}]}}),
            owners: vec![
                r#"b Apply: .spec.parts[name="x"] .spec.parts[name="x"].name .spec.parts[name="x"].tags[="2"]"#,
                r#"u Update: .spec.parts[name="x"].tags[="3"]"#,
            ],
        },
        Story {
            name: "a conflict inside an element",
            events: vec![
                Apply("a", json!({"spec": {"parts": [{"name": "x", "size": 1}]}})),
                Conflict(
                    "b",
                    json!({"spec": {"parts": [{"name": "x", "size": 2}]}}),
                    r#"Apply failed with 1 conflict: conflict with "a": .spec.parts[name="x"].size"#,
                ),
                Force("b", json!({"spec": {"parts": [{"name": "x", "size": 2}]}})),
            ],
            object: json!({"spec": {"parts": [{"name": "x", "size": 2}]}}),
            owners: vec![
                r#"a Apply: .spec.parts[name="x"] .spec.parts[name="x"].name"#,
                r#"b Apply: .spec.parts[name="x"] .spec.parts[name="x"].name .spec.parts[name="x"].size"#,
            ],
        },
        Story {
            name: "keys of several fields, one of them by default",
            events: vec![
                Apply("a", json!({"spec": {"ports": [{"port": 80, "name": "web"}]}})),
                Apply("b", json!({"spec": {"ports": [{"port": 80, "protocol": "UDP"}]}})),
                Conflict(
                    "b",
                    json!({"spec": {"ports": [{"port": 80, "protocol": "UDP"}, {"port": 80, "name": "b"}]}}),
                    r#"Apply failed with 1 conflict: conflict with "a": .spec.ports[port=80,protocol="TCP"].name"#,
                ),
            ],
            object: json!({"spec": {"ports": [{"port": 80, "name": "web"}, {"port": 80, "protocol": "UDP"}]}}),
            owners: vec![
                r#"a Apply: .spec.ports[port=80,protocol="TCP"] .spec.ports[port=80,protocol="TCP"].name .spec.ports[port=80,protocol="TCP"].port"#,
                r#"b Apply: .spec.ports[port=80,protocol="UDP"] .spec.ports[port=80,protocol="UDP"].port .spec.ports[port=80,protocol="UDP"].protocol"#,
            ],
        },
        Story {
            name: "elements of a set",
            events: vec![
                Apply("a", json!({"spec": {"tags": ["x", "y"]}})),
                Apply("b", json!({"spec": {"tags": ["y", "z"]}})),
                Apply("a", json!({"spec": {"tags": ["x"]}})),
                Apply("b", json!({"spec": {"tags": ["z"]}})),
            ],
            object: json!({"spec": {"tags": ["x", "z"]}}),
            owners: vec![r#"a Apply: .spec.tags[="x"]"#, r#"b Apply: .spec.tags[="z"]"#],
        },
        Story {
            name: "an empty list of elements is no opinion",
            events: vec![Apply("a", json!({"spec": {"tags": []}}))],
            object: json!({"spec": {"tags": []}}),
            owners: vec![],
        },
        Story {
            name: "reordering a list is free",
            events: vec![
                Apply("a", json!({"spec": {"tags": ["x", "y"]}})),
                Apply("b", json!({"spec": {"tags": ["y", "x"]}})),
            ],
            object: json!({"spec": {"tags": ["y", "x"]}}),
            owners: vec![
                r#"a Apply: .spec.tags[="x"] .spec.tags[="y"]"#,
                r#"b Apply: .spec.tags[="x"] .spec.tags[="y"]"#,
            ],
        },
        Story {
            name: "an updater's element is kept",
            events: vec![
                Apply("a", json!({"spec": {"tags": ["x"]}})),
                Update("u", json!({"spec": {"tags": ["x", "u"]}})),
                Apply("a", json!({"spec": {"image": "i"}})),
            ],
            object: json!({"spec": {"image": "i", "tags": ["u"]}}),
            owners: vec!["a Apply: .spec.image", r#"u Update: .spec.tags[="u"]"#],
        },
        Story {
            name: "an update may leave elements with one key",
            events: vec![
                Apply("a", json!({"spec": {"parts": [{"name": "x", "size": 1}]}})),
                Update(
                    "u",
                    json!({"spec": {"parts": [{"name": "x", "size": 1}, {"name": "x", "size": 2}]}}),
                ),
            ],
            object: json!({"spec": {"parts": [{"name": "x", "size": 1}, {"name": "x", "size": 2}]}}),
            owners: vec![r#"u Update: .spec.parts[name="x"]"#],
        },
        Story {
            name: "an apply replaces elements with one key",
            events: vec![
                Update(
                    "u",
                    json!({"spec": {"parts": [{"name": "x", "size": 1}, {"name": "x", "size": 2}]}}),
                ),
                Force("a", json!({"spec": {"parts": [{"name": "x", "color": "red"}]}})),
            ],
            object: json!({"spec": {"parts": [{"name": "x", "color": "red"}]}}),
            owners: vec![
                r#"a Apply: .spec.parts[name="x"] .spec.parts[name="x"].color .spec.parts[name="x"].name"#,
                "u Update: .spec .spec.parts",
            ],
        },
    ];
    tell(&Server::widgets(), stories);
}

#[test]
fn merged_lists_keep_an_order_both_sides_can_live_with() {
    let cases = [
        ("the live order", "abc", "ab", "abc"),
        ("additions at the end", "ab", "abc", "abc"),
        ("nothing stated", "abc", "", "abc"),
        ("nothing there", "", "abc", "abc"),
        ("the stated order", "ab", "ba", "ba"),
        ("strangers at the end", "abc", "def", "abcdef"),
        ("additions after the shared one", "abc", "cdef", "abcdef"),
        ("additions between shared ones", "abcgf", "cdef", "abcgdef"),
        ("additions before shared ones", "cdef", "ace", "acdef"),
        ("additions before a shared tail", "abcxyz", "defxyz", "abcdefxyz"),
        ("a reordered middle", "cagf", "cfag", "cfag"),
        ("a shared pair turned round", "abcd", "defa", "bcdefa"),
        ("many at once", "cdefghij", "2h3e4kl", "cdfg2hij3e4kl"),
        ("more at once", "abcdefghij", "1b2h3e4kl", "a1bcdfg2hij3e4kl"),
        ("the rest stays", "abc", "ca", "bca"),
    ];
    let schema = widgets::schema();
    let spec = |tags: &str| {
        let tags: Vec<String> = tags.chars().map(String::from).collect();
        json!({"spec": {"tags": tags}})
    };
    for (name, live, intent, want) in cases {
        let merged = merge::merge(Some(&spec(live)), &spec(intent), Shape::of(&schema));
        assert_eq!(merged, spec(want), "{name}: {live} + {intent}");
    }
}
