//! Do unknown fields survive a change to the known ones, wherever they are?
//!
//! The oracle is a type that knows everything: [`Full`] holds the known fields and a map for all
//! others. A random `Full` is the document; known fields of it are changed at random. [`Known`]
//! has the known fields only, so reading the document as `Known`, making the same changes and
//! asking [`Kept`] for the result must give exactly the changed `Full`.

#![expect(clippy::unwrap_used, reason = "the types here always have a JSON form")]

use std::collections::BTreeMap;

use api::kind::Kept;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Full {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default)]
    always: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    words: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    amounts: BTreeMap<String, i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inner: Option<Box<Full>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    named: Vec<Full>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    plain: Vec<Full>,
    #[serde(flatten)]
    unknown: BTreeMap<String, Value>,
    /// Something without identity was removed here; something new in its place would be taken
    /// for it, so there must be nothing new.
    #[serde(skip)]
    shrunk: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Known {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default)]
    always: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    words: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    amounts: BTreeMap<String, i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inner: Option<Box<Known>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    named: Vec<Known>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    plain: Vec<Known>,
}

fn unknown_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,3}", inner, 0..3)
                .prop_map(|fields| Value::Object(Map::from_iter(fields))),
        ]
    })
}

fn full() -> impl Strategy<Value = Full> {
    let unknown = || prop::collection::btree_map("x-[a-c]", unknown_value(), 0..3);
    let leaf = (
        0..9_i64,
        prop::option::of(0..9_i64),
        prop::collection::vec("[a-c]{1,2}", 0..3),
        prop::collection::btree_map("[a-c]", 0..9_i64, 0..3),
        unknown(),
    )
        .prop_map(|(always, number, words, amounts, unknown)| Full {
            always,
            number,
            words,
            amounts,
            unknown,
            ..Full::default()
        });
    leaf.prop_recursive(3, 24, 3, |child| {
        (
            child.clone(),
            prop::option::of(child.clone()),
            prop::collection::vec(child.clone(), 0..4),
            prop::collection::vec(child, 0..4),
        )
            .prop_map(|(own, inner, mut named, plain)| {
                for (at, element) in named.iter_mut().enumerate() {
                    element.name = Some(format!("n{at}"));
                }
                Full { inner: inner.map(Box::new), named, plain, ..own }
            })
    })
}

/// A change to known fields of one object of the tree.
#[derive(Debug, Clone)]
enum Change {
    Always,
    Number,
    NoNumber,
    Words,
    Amount(String),
    NoAmounts,
    NewInner,
    NoInner,
    /// Adds a named element at a position.
    Join(usize),
    /// Removes the named element at a position.
    Leave(usize),
    Reverse,
    Push,
    Pop,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        Just(Change::Always),
        Just(Change::Number),
        Just(Change::NoNumber),
        Just(Change::Words),
        "[a-c]".prop_map(Change::Amount),
        Just(Change::NoAmounts),
        Just(Change::NewInner),
        Just(Change::NoInner),
        (0..4_usize).prop_map(Change::Join),
        (0..4_usize).prop_map(Change::Leave),
        Just(Change::Reverse),
        Just(Change::Push),
        Just(Change::Pop),
    ]
}

/// Walks down by `way` and makes the change there. `fresh` is a number no document has, so that
/// no element turns into the likeness of another.
fn apply(tree: &mut Full, way: &[usize], change: &Change, fresh: i64) {
    if let Some((&step, way)) = way.split_first() {
        let inner = tree.inner.iter_mut().map(|inner| &mut **inner);
        let mut children: Vec<&mut Full> =
            inner.chain(&mut tree.named).chain(&mut tree.plain).collect();
        if !children.is_empty() {
            let step = step % children.len();
            return apply(children[step], way, change, fresh);
        }
    }
    let new = || Full { always: fresh, ..Full::default() };
    match change {
        Change::Always => tree.always = fresh,
        Change::Number => tree.number = Some(fresh),
        Change::NoNumber => (tree.number, tree.always) = (None, fresh),
        Change::Words => (tree.words, tree.always) = (vec![format!("w{fresh}")], fresh),
        Change::Amount(name) => {
            tree.amounts.insert(name.clone(), fresh);
        }
        Change::NoAmounts => (tree.amounts, tree.always) = (BTreeMap::new(), fresh),
        Change::NewInner if tree.inner.is_none() && !tree.shrunk => {
            tree.inner = Some(Box::new(new()));
        }
        Change::NoInner => (tree.inner, tree.always, tree.shrunk) = (None, fresh, true),
        Change::Join(at) => {
            let element = Full { name: Some(format!("n{fresh}")), ..new() };
            tree.named.insert((*at).min(tree.named.len()), element);
        }
        Change::Leave(at) if *at < tree.named.len() => {
            tree.named.remove(*at);
            tree.always = fresh;
        }
        Change::Reverse => {
            (tree.named, tree.always) = (tree.named.drain(..).rev().collect(), fresh)
        }
        Change::Push if !tree.shrunk => tree.plain.push(new()),
        Change::Pop => {
            tree.plain.pop();
            (tree.always, tree.shrunk) = (fresh, true);
        }
        Change::NewInner | Change::Leave(_) | Change::Push => {}
    }
}

/// RFC 7396, section 2.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let fields = target.as_object_mut().unwrap();
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

fn known(full: &Full) -> Known {
    serde_json::from_value(serde_json::to_value(full).unwrap()).unwrap()
}

proptest! {
    #[test]
    fn changes_to_known_fields_keep_unknown_ones(
        before in full(),
        changes in prop::collection::vec(
            (prop::collection::vec(0..8_usize, 0..4), change()),
            0..6,
        ),
    ) {
        let document = serde_json::to_value(&before).unwrap();
        let mut after = before.clone();
        for (fresh, (way, change)) in (1000..).zip(&changes) {
            apply(&mut after, way, change, fresh);
        }

        let mut kept = Kept::<Known>::read(document.clone()).unwrap();
        prop_assert_eq!(kept.to_value().unwrap(), document.clone());
        prop_assert_eq!(kept.merge_patch().unwrap(), json!({}));
        prop_assert!(!kept.is_changed().unwrap());

        *kept = known(&after);
        let result = kept.to_value().unwrap();
        prop_assert_eq!(&result, &serde_json::to_value(&after).unwrap());
        prop_assert_eq!(kept.is_changed().unwrap(), known(&before) != known(&after));

        let mut patched = document;
        merge(&mut patched, &kept.merge_patch().unwrap());
        prop_assert_eq!(patched, result);
    }
}
