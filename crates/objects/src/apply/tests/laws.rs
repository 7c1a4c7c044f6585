//! What must hold for all objects, intents and managers.

use proptest::collection::{btree_map, btree_set, vec};
use proptest::option::of;
use proptest::prelude::*;

use super::*;
use crate::patch::any_json;

/// Puts a field in place if there is a value for it.
macro_rules! put {
    ($object:expr, $name:literal, $value:expr) => {
        if let Some(value) = $value {
            $object[$name] = json!(value);
        }
    };
}

/// A widget's spec with few names and values, so that managers often meet. Lists of elements are not empty:
/// an empty one states nothing that a manager could own, and comes and goes.
fn any_spec() -> impl Strategy<Value = Value> {
    let part = ("[a-c]", of(0..2i64), of("[r-s]"), of(btree_set("[x-z]", 1..3)));
    let parts = vec(part, 1..3).prop_map(|parts| {
        let mut seen = std::collections::BTreeSet::new();
        let fresh = parts.into_iter().filter(|(name, ..)| seen.insert(name.clone()));
        fresh
            .map(|(name, size, color, tags)| {
                let mut part = json!({ "name": name });
                put!(part, "size", size);
                put!(part, "color", color);
                put!(part, "tags", tags);
                part
            })
            .collect::<Vec<Value>>()
    });
    (
        of(0..2i64),
        of("[i-j]"),
        of(btree_map("[a-c]", "[0-1]", 0..3)),
        of(btree_set("[x-z]", 1..3)),
        of(parts),
        of(vec("[0-1]", 0..2)),
        of((of(0..2i64), of(0..2i64))),
    )
        .prop_map(|(replicas, image, labels, tags, parts, args, size)| {
            let mut spec = json!({});
            put!(spec, "replicas", replicas);
            put!(spec, "image", image);
            put!(spec, "labels", labels);
            put!(spec, "tags", tags);
            put!(spec, "parts", parts);
            put!(spec, "args", args);
            if let Some((width, height)) = size {
                let mut size = json!({});
                put!(size, "width", width);
                put!(size, "height", height);
                put!(spec, "box", Some(size));
            }
            json!({ "spec": spec })
        })
}

fn any_manager() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", "kubectl"])
}

/// A few writes by several managers.
fn any_history() -> impl Strategy<Value = Server> {
    vec((any_manager(), any_spec(), any::<bool>()), 0..4).prop_map(|writes| {
        let mut server = Server::widgets();
        for (manager, spec, applies) in writes {
            if applies {
                server.apply(manager, &spec, true).expect("forced");
            } else {
                server.update(manager, &spec);
            }
        }
        server
    })
}

/// Empty maps and lists are dropped: whether a container stays behind is not what a law is about.
fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let inner = map.iter().map(|(name, value)| (name.clone(), without_empty(value)));
            let kept = inner.filter(|(_, value)| *value != json!({}) && *value != json!([]));
            Value::Object(kept.collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(without_empty).collect()),
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// The same intent again changes nothing, not even a time.
    #[test]
    fn applying_twice_is_applying_once(server in any_history(), manager in any_manager(), intent in any_spec()) {
        let mut server = server;
        server.apply(manager, &intent, true).unwrap();
        let once = server.live.clone();
        server.apply(manager, &intent, false).unwrap();
        prop_assert_eq!(
            serde_json::to_string(&once).unwrap(),
            serde_json::to_string(&server.live).unwrap()
        );
    }

    /// What an intent states is in the object, and its manager owns it.
    #[test]
    fn a_forced_intent_is_there(server in any_history(), intent in any_spec()) {
        let mut server = server;
        server.apply("a", &intent, true).unwrap();
        let shape = Shape::of(&server.schema);
        let live = server.live.clone().unwrap();
        let stated = extract::fields(&server.full(intent.clone()), shape);
        let changes = compare::objects(&live, &merge::merge(Some(&live), &server.full(intent), shape), shape);
        prop_assert_eq!(changes, Changes::default());
        let managed = Managed::of(&live).unwrap();
        let own = managed.0.values().find(|record| record.manager == "a" && record.applied);
        let own = own.map(|record| record.fields.clone()).unwrap_or_default();
        prop_assert_eq!(own, stated.difference(&NEVER_OWNED));
    }

    /// A newcomer that withdraws leaves the object as it was.
    #[test]
    fn applying_and_withdrawing_restores_the_object(server in any_history(), intent in any_spec()) {
        let mut server = server;
        let before = server.clone();
        if before.live.is_none() || server.apply("newcomer", &intent, false).is_err() {
            return Ok(());
        }
        server.apply("newcomer", &json!({}), false).unwrap();
        prop_assert_eq!(without_empty(&server.object()), without_empty(&sorted_like(&before, &server)));
        prop_assert!(!server.owners().iter().any(|line| line.starts_with("newcomer")));
    }

    /// Managers with nothing in common may come in any order.
    #[test]
    fn disjoint_managers_commute(left in btree_map("[a-c]", "[0-9]", 0..4), right in btree_map("[d-f]", "[0-9]", 0..4)) {
        let parts = |names: &std::collections::BTreeMap<String, String>| -> Vec<Value> {
            names.iter().map(|(name, color)| json!({"name": name, "color": color})).collect()
        };
        let left = json!({"spec": {"labels": left.clone(), "parts": parts(&left)}});
        let right = json!({"spec": {"labels": right.clone(), "parts": parts(&right)}});
        let run = |first: (&str, &Value), second: (&str, &Value)| {
            let mut server = Server::widgets();
            server.apply(first.0, first.1, false).unwrap();
            server.apply(second.0, second.1, false).unwrap();
            let mut object = server.object();
            if let Some(Value::Array(parts)) = object.pointer_mut("/spec/parts") {
                parts.sort_by_key(Value::to_string);
            }
            let mut owners = server.owners();
            owners.sort();
            (object, owners)
        };
        prop_assert_eq!(run(("l", &left), ("r", &right)), run(("r", &right), ("l", &left)));
    }

    /// An update makes the object what it says, and every field that it set has an owner.
    #[test]
    fn updates_are_taken_as_they_are(server in any_history(), object in any_spec()) {
        let mut server = server;
        server.update("u", &object);
        prop_assert_eq!(server.object(), object.clone());
        let managed = Managed::of(server.live.as_ref().unwrap()).unwrap();
        let mut owned = FieldSet::default();
        managed.0.values().for_each(|record| owned.absorb(record.fields.clone()));
        let all = extract::fields(&without_empty(&object), Shape::of(&server.schema));
        let orphans = all.difference(&NEVER_OWNED).difference(&owned);
        prop_assert!(orphans.is_empty() || managed.0.is_empty(), "nobody owns {:?}", orphans.paths());
    }

    /// Whatever is in the store or in a request, there is an answer.
    #[test]
    fn nothing_panics(
        live in any_json(),
        intent in any_json(),
        fields in any_json(),
        keys in btree_map("(f|k|v|i|x|\\.):?[a-b{}\"0-1]{0,3}|\\.", any_json(), 0..4),
        force in any::<bool>(),
        deployment in any::<bool>(),
    ) {
        let mut server =
            if deployment { Server::built_in("apps", "Deployment") } else { Server::widgets() };
        let ledgers = [
            fields.clone(),
            json!([fields.clone()]),
            json!([{"manager": "a", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": keys.clone()}]),
        ];
        for ledger in ledgers {
            for object in [live.clone(), json!({"spec": live.clone(), "metadata": {"labels": live.clone()}})] {
                let mut object = server.full(object);
                if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
                    metadata.insert("managedFields".to_owned(), ledger.clone());
                }
                server.live = Some(object);
                let _ = server.apply("a", &json!({"spec": intent.clone()}), force);
                let _ = server.apply("a", &intent, force);
                server.update("u", &intent);
                server.update("u", &json!({"spec": intent.clone(), "metadata": {"managedFields": ledger.clone()}}));
            }
        }
    }
}

/// The object of `server` with its lists in the order of `other`, where a newcomer may have reordered them.
fn sorted_like(server: &Server, other: &Server) -> Value {
    let (mut object, order) = (server.object(), other.object());
    for list in ["/spec/tags", "/spec/parts"] {
        let order = order.pointer(list).and_then(Value::as_array).cloned().unwrap_or_default();
        let name = |value: &Value| value.get("name").unwrap_or(value).clone();
        let place = |value: &Value| order.iter().position(|other| name(other) == name(value));
        if let Some(Value::Array(items)) = object.pointer_mut(list) {
            items.sort_by_key(place);
        }
    }
    if let (Some(Value::Array(parts)), Some(Value::Array(order))) =
        (object.pointer_mut("/spec/parts"), order.pointer("/spec/parts"))
    {
        for (part, like) in parts.iter_mut().zip(order) {
            if let (Some(Value::Array(tags)), Some(Value::Array(order))) =
                (part.get_mut("tags"), like.get("tags"))
            {
                tags.sort_by_key(|tag| order.iter().position(|other| other == tag));
            }
        }
    }
    object
}

/// Work must grow with the object, not with its square: four times the containers take a little more than
/// four times as many comparisons of keys, and far fewer than sixteen times.
#[test]
fn large_lists_are_not_quadratic() {
    let pod = |containers: usize, image: &str| {
        let containers: Vec<Value> = (0..containers)
            .map(|number| {
                json!({
                    "name": format!("container-{number:05}"),
                    "image": image,
                    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                })
            })
            .collect();
        json!({"spec": {"containers": containers}})
    };
    let comparisons = |containers: usize| {
        let mut server = Server::built_in("", "Pod");
        let before = literal::comparisons();
        server.apply("a", &pod(containers, "1"), false).unwrap();
        server.update("u", &pod(containers, "2"));
        server.apply("a", &pod(containers / 2, "3"), true).unwrap();
        let patch = json!({"spec": pod(containers, "4")["spec"]});
        crate::patch::strategic(server.live.as_ref().unwrap(), &patch, &server.schema).unwrap();
        literal::comparisons() - before
    };
    let (small, large) = (comparisons(125), comparisons(500));
    assert!(small > 5_000, "the counter counts: {small}");
    assert!(large < small * 6, "125 containers took {small} comparisons, 500 took {large}");
}
