use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::apply::literal::Literal;

fn set(fields: Value) -> FieldSet {
    FieldSet::from_value(&fields).unwrap()
}

fn shown(set: &FieldSet) -> Vec<String> {
    set.paths().iter().map(Path::to_string).collect()
}

#[test]
fn wire_forms_read_and_print() {
    let cases = [
        ("nothing", json!({}), vec![]),
        ("one field", json!({"f:data": {}}), vec![".data"]),
        ("a nested field", json!({"f:spec": {"f:replicas": {}}}), vec![".spec.replicas"]),
        (
            "a parent with its child",
            json!({"f:labels": {".": {}, "f:app": {}}}),
            vec![".labels", ".labels.app"],
        ),
        (
            "list elements by key",
            json!({"f:ports": {"k:{\"port\":80}": {".": {}, "f:port": {}}}}),
            vec![".ports[port=80]", ".ports[port=80].port"],
        ),
        (
            "list elements by value",
            json!({"f:finalizers": {"v:\"a\"": {}}}),
            vec![r#".finalizers[="a"]"#],
        ),
        ("list elements by position", json!({"f:args": {"i:0": {}}}), vec![".args[0]"]),
    ];
    for (name, fields, paths) in cases {
        assert_eq!(shown(&set(fields.clone())), paths, "{name}");
        assert_eq!(set(fields.clone()).to_value(), fields, "{name}");
    }
}

#[test]
fn loose_forms_are_read_too() {
    assert_eq!(set(json!(null)), FieldSet::default());
    assert_eq!(set(json!({"f:a": null})), FieldSet::of(&[&["a"]]));
    assert_eq!(set(json!({"f:a": {".": {}}})), FieldSet::of(&[&["a"]]));
    assert_eq!(set(json!({"f:a": {"x:later": {}}})), FieldSet::of(&[&["a"]]));
    assert_eq!(set(json!({"x:later": {"f:a": {}}})), FieldSet::default());
}

#[test]
fn what_is_no_field_set_is_refused() {
    for fields in
        [json!(1), json!([]), json!("f:a"), json!({"f:a": 1}), json!({"a": {}}), json!({"k:{": {}})]
    {
        assert!(FieldSet::from_value(&fields).is_err(), "{fields}");
    }
}

#[test]
fn a_level_is_listed_before_what_is_inside() {
    let fields = set(json!({"f:a": {"f:x": {}}, "f:b": {}, "f:c": {".": {}, "f:y": {}}}));
    assert_eq!(shown(&fields), [".b", ".c", ".a.x", ".c.y"]);
}

#[test]
fn sets_combine() {
    let a = set(json!({"f:a": {".": {}, "f:x": {}}, "f:b": {}}));
    let b = set(json!({"f:a": {"f:x": {}, "f:y": {}}, "f:c": {}}));
    assert_eq!(shown(&a.union(&b)), [".a", ".b", ".c", ".a.x", ".a.y"]);
    assert_eq!(shown(&a.intersection(&b)), [".a.x"]);
    assert_eq!(shown(&a.difference(&b)), [".a", ".b"]);
    assert_eq!(shown(&b.difference(&a)), [".c", ".a.y"]);
    let parent = FieldSet::of(&[&["a"]]);
    assert_eq!(shown(&a.difference(&parent)), [".b", ".a.x"], "a parent is not its children");
    assert_eq!(shown(&a.outside(&parent)), [".b"], "unless asked for");
    assert_eq!(shown(&b.outside(&FieldSet::of(&[&["a", "x"]]))), [".c", ".a.y"]);
}

#[test]
fn the_whole_object_is_never_owned() {
    let mut fields = FieldSet::default();
    fields.insert(Path::default());
    assert!(fields.is_empty());
    assert!(!FieldSet::of(&[&["a"]]).contains(&Path::default()));
}

#[test]
fn printing_stops_before_it_cannot_be_read_again() {
    let names = vec!["a"; 200];
    let deep = FieldSet::of(&[&names]);
    let text = json!({"metadata": {"managedFields": [{"fieldsV1": deep.to_value()}]}}).to_string();
    let read: Value = serde_json::from_str(&text).expect("shallow enough for the parser");
    let fields = read.pointer("/metadata/managedFields/0/fieldsV1").unwrap();
    assert_eq!(set(fields.clone()).paths().len(), 1);
}

fn any_step() -> impl Strategy<Value = Step> {
    let literal = prop_oneof![
        "[a-c<&\"]{0,2}".prop_map(|text| json!(text)),
        (-2..3i64).prop_map(|number| json!(number)),
        any::<bool>().prop_map(|yes| json!(yes)),
    ]
    .prop_map(Literal);
    prop_oneof![
        4 => "[a-c./:\"]{0,2}".prop_map(Step::Field),
        1 => vec(("[a-b]", literal.clone()), 1..3).prop_map(|mut fields| {
            fields.dedup_by(|a, b| a.0 == b.0);
            fields.sort();
            fields.dedup_by(|a, b| a.0 == b.0);
            Step::key(fields)
        }),
        1 => literal.prop_map(Step::Value),
        1 => (-1..3i64).prop_map(Step::Index),
    ]
}

fn any_set() -> impl Strategy<Value = FieldSet> {
    vec(vec(any_step(), 1..4), 0..8).prop_map(|paths| {
        let mut set = FieldSet::default();
        paths.into_iter().for_each(|path| set.insert(Path(path)));
        set
    })
}

proptest! {
    #[test]
    fn printed_sets_read_back(set in any_set()) {
        let text = set.to_value().to_string();
        let read: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(FieldSet::from_value(&read).unwrap(), set);
    }

    #[test]
    fn sets_obey_the_laws_of_sets(a in any_set(), b in any_set(), c in any_set()) {
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.union(&b).union(&c), a.union(&b.union(&c)));
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert_eq!(a.difference(&b).intersection(&b), FieldSet::default());
        prop_assert_eq!(a.difference(&b.union(&c)), a.difference(&b).difference(&c));
        prop_assert!(a.outside(&b).difference(&a).is_empty());
        prop_assert!(a.outside(&b).intersection(&b).is_empty());
    }

    #[test]
    fn membership_is_what_paths_list(set in any_set()) {
        for path in set.paths() {
            prop_assert!(set.contains(&path));
            let without = set.difference(&{
                let mut one = FieldSet::default();
                one.insert(path.clone());
                one
            });
            prop_assert!(!without.contains(&path));
            prop_assert_eq!(without.paths().len() + 1, set.paths().len());
        }
    }
}
