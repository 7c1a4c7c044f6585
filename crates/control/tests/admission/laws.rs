//! What holds for every pod and every profile.

use api::protocol::gate::ManagerGate;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::world::{World, world};

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("app".to_owned()),
        Just("tier".to_owned()),
        Just("koordinator.sh/qosClass".to_owned()),
        Just("koordinator.sh/priority-class".to_owned()),
        Just("koordinator.sh/priority".to_owned()),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("web".to_owned()),
        Just("BE".to_owned()),
        Just("LS".to_owned()),
        Just("koord-batch".to_owned()),
        Just("koord-mid".to_owned()),
        Just("7".to_owned()),
    ]
}

fn texts() -> impl Strategy<Value = Value> {
    btree_map(key(), text(), 0..4).prop_map(|map| json!(map))
}

fn amounts() -> impl Strategy<Value = Value> {
    let name = prop_oneof![
        Just("cpu"),
        Just("memory"),
        Just("kubernetes.io/batch-cpu"),
        Just("koordinator.sh/gpu"),
        Just("koordinator.sh/gpu-core"),
        Just("ephemeral-storage"),
    ];
    let amount =
        prop_oneof![Just("0"), Just("1500m"), Just("2"), Just("200"), Just("3Gi"), Just("1e3")];
    btree_map(name, amount, 0..4).prop_map(|map| json!(map))
}

fn container() -> impl Strategy<Value = Value> {
    (option::of(amounts()), option::of(amounts())).prop_map(|(requests, limits)| {
        let mut resources = Map::new();
        resources.extend(requests.map(|list| ("requests".to_owned(), list)));
        resources.extend(limits.map(|list| ("limits".to_owned(), list)));
        json!({"image": "i", "resources": resources, "futureField": {"kept": true}})
    })
}

fn named(mut containers: Vec<Value>, prefix: &str) -> Value {
    for (index, container) in containers.iter_mut().enumerate() {
        container["name"] = json!(format!("{prefix}{index}"));
    }
    json!(containers)
}

fn pod() -> impl Strategy<Value = Value> {
    let priority = option::of(prop_oneof![Just(5500), Just(7000), Just(9000), Just(0), Just(-7)]);
    (
        texts(),
        option::of(texts()),
        priority,
        vec(container(), 0..3),
        vec(container(), 0..2),
        option::of(amounts()),
    )
        .prop_map(|(labels, annotations, priority, containers, init, overhead)| {
            let mut pod = json!({
                "metadata": {"name": "p", "labels": labels},
                "spec": {"containers": named(containers, "c"), "initContainers": named(init, "i"),
                    "future": [1]},
            });
            if let Some(annotations) = annotations {
                pod["metadata"]["annotations"] = annotations;
            }
            if let Some(priority) = priority {
                pod["spec"]["priority"] = json!(priority);
            }
            if let Some(overhead) = overhead {
                pod["spec"]["overhead"] = overhead;
            }
            pod
        })
}

fn profile(name: &'static str) -> impl Strategy<Value = Value> {
    let patch = option::of(prop_oneof![
        Just(
            json!({"spec": {"containers": [{"name": "c0", "env": [{"name": "A", "value": "1"}]}]}})
        ),
        Just(json!({"metadata": {"labels": {"tier": "web"}, "annotations": {"app": null}}})),
    ]);
    let parts = (
        option::of(texts()),
        texts(),
        texts(),
        btree_map(key(), key(), 0..2),
        btree_map(key(), text(), 0..2),
        option::of(prop_oneof![Just("BE"), Just("LS")]),
        option::of(prop_oneof![Just("koord-batch"), Just("koord-prod")]),
        option::of(0..101),
        patch,
    );
    parts.prop_map(
        move |(
            selector,
            labels,
            annotations,
            mapping,
            suffixes,
            qos,
            class,
            probability,
            patch,
        )| {
            let mut spec = json!({
                "labels": labels, "annotations": annotations, "labelKeysMapping": mapping,
                "annotationKeysMapping": mapping, "labelSuffixes": suffixes,
            });
            let optional = [
                ("selector", selector.map(|labels| json!({"matchLabels": labels}))),
                ("qosClass", qos.map(|class| json!(class))),
                ("priorityClassName", class.map(|class| json!(class))),
                ("probability", probability.map(|percent| json!(percent))),
                ("patch", patch),
            ];
            for (name, value) in optional {
                if let Some(value) = value {
                    spec[name] = value;
                }
            }
            json!({"metadata": {"name": name}, "spec": spec})
        },
    )
}

fn worlds() -> impl Strategy<Value = World> {
    (profile("a"), profile("b"), 0u8..100, 0u8..100).prop_map(|(a, b, first, second)| {
        let mut world = world(&[&a.to_string(), &b.to_string()]).with(ManagerGate::MultiQuotaTree);
        world.rolls = [("a".to_owned(), first), ("b".to_owned(), second)].into();
        world
    })
}

/// Every value of the object with its place.
fn leaves(value: &Value, path: String, out: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(name, value)| leaves(value, format!("{path}/{name}"), out));
        }
        Value::Array(list) => {
            list.iter()
                .enumerate()
                .for_each(|(at, value)| leaves(value, format!("{path}/{at}"), out));
        }
        scalar => out.push(format!("{path}={scalar}")),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Asked twice, the webhook has nothing to add.
    #[test]
    fn mutation_settles_at_once(world in worlds(), pod in pod()) {
        if world.mutate(&pod).is_ok() {
            let once = world.mutated(&pod);
            prop_assert_eq!(world.mutated(&once), once);
        }
    }

    /// Chance decides once: other rolls make no difference to a pod that was decided about.
    #[test]
    fn chance_decides_once(mut world in worlds(), pod in pod(), rolls in (0u8..100, 0u8..100)) {
        if world.mutate(&pod).is_ok() {
            let once = world.mutated(&pod);
            world.rolls = [("a".to_owned(), rolls.0), ("b".to_owned(), rolls.1)].into();
            prop_assert_eq!(world.mutated(&once), once);
        }
    }

    /// Fields nobody here has heard of survive.
    #[test]
    fn unknown_fields_survive(world in worlds(), pod in pod()) {
        if world.mutate(&pod).is_ok() {
            let (mut before, mut after) = (Vec::new(), Vec::new());
            leaves(&pod, String::new(), &mut before);
            leaves(&world.mutated(&pod), String::new(), &mut after);
            let kept = |leaf: &&String| leaf.contains("future");
            prop_assert_eq!(
                before.iter().filter(kept).collect::<Vec<_>>(),
                after.iter().filter(kept).collect::<Vec<_>>()
            );
        }
    }

    /// Whatever is sent, there is an answer.
    #[test]
    fn there_is_always_an_answer(world in worlds(), text in ".{0,60}", pod in pod(), at in 0usize..6) {
        let places = ["/metadata", "/metadata/labels", "/spec", "/spec/containers",
            "/spec/containers/0/resources", "/spec/overhead"];
        for value in [Value::Null, json!(text), json!([text]), json!({"cpu": text}), json!(7)] {
            let mut broken = pod.clone();
            if let Some(place) = places.get(at).and_then(|place| broken.pointer_mut(place)) {
                *place = value;
            }
            let _ = world.mutate(&broken);
            let _ = world.validate(Some(&pod), &broken);
            let _ = world.validate(None, &broken);
        }
    }
}
