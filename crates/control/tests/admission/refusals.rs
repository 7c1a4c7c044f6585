//! Goldens: what refused requests read like.

use std::fmt::Write as _;

use api::protocol::gate::ManagerGate;
use control::admission::validate::Demands;
use serde_json::{Value, json};

use crate::world::{World, from_yaml, pod, world};

const QOS: &str = "koordinator.sh/qosClass";

#[test]
fn pods_that_may_not_be_created() {
    let batch = json!({"kubernetes.io/batch-cpu": "1k"});
    let cpu = |text: &str| json!({"cpu": text});
    let mut marked = pod(json!({}), None, json!({}));
    marked["metadata"]["annotations"] = json!({"scheduling.koordinator.sh/reserve-pod": "true"});
    let mut world = world(&[]);
    world.quotas = vec![from_yaml(
        "{metadata: {name: parent, namespace: x, labels: {quota.scheduling.koordinator.sh/is-parent: 'true'}}, spec: {}}",
    )];
    let cases = [
        ("LS may", pod(json!({QOS: "LS"}), Some(9000), cpu("500m"))),
        ("BE at prod", pod(json!({QOS: "BE"}), Some(9000), json!({}))),
        ("BE without priority", pod(json!({QOS: "BE"}), None, json!({}))),
        ("BE at batch may", pod(json!({QOS: "BE"}), Some(5000), batch.clone())),
        ("LSR at batch", pod(json!({QOS: "LSR"}), Some(5000), cpu("1"))),
        ("batch resources without BE", pod(json!({}), Some(5000), batch)),
        ("LSR with half a core", pod(json!({QOS: "LSR"}), Some(9000), cpu("1500m"))),
        ("LSE without cpu", pod(json!({QOS: "LSE"}), Some(9000), json!({}))),
        ("LSR with two cores may", pod(json!({QOS: "LSR"}), Some(9000), cpu("2"))),
        ("the scheduler's mark", marked),
        (
            "a parent's quota",
            pod(json!({"quota.scheduling.koordinator.sh/name": "parent"}), None, json!({})),
        ),
    ];
    let mut text = String::new();
    for (name, pod) in cases {
        let _ = writeln!(text, "{name}:\n  {}", world.refusal(None, &pod));
    }
    insta::assert_snapshot!(text);
}

#[test]
fn pods_that_may_not_be_changed() {
    let world = world(&[]);
    let old =
        pod(json!({QOS: "LS", "koordinator.sh/priority": "1"}), Some(9000), json!({"cpu": "1"}));
    let change = |at: &str, value: Value| {
        let mut new = old.clone();
        *new.pointer_mut(at).unwrap() = value;
        new
    };
    let labels = |value: Value| change("/metadata/labels", value);
    let cases = [
        ("an image may", change("/spec/containers/0/image", json!("other"))),
        ("the class", labels(json!({QOS: "BE", "koordinator.sh/priority": "1"}))),
        ("the priority", change("/spec/priority", json!(7000))),
        ("the sub-priority", labels(json!({QOS: "LS"}))),
        (
            "preemptible",
            labels(json!({QOS: "LS", "koordinator.sh/priority": "1",
                "quota.scheduling.koordinator.sh/preemptible": "false"})),
        ),
    ];
    let mut text = String::new();
    for (name, new) in cases {
        let _ = writeln!(text, "{name}:\n  {}", world.refusal(Some(&old), &new));
    }
    insta::assert_snapshot!(text);
}

#[test]
fn an_old_offender_can_lose_its_finalizer() {
    let world = world(&[]);
    let offender = pod(json!({QOS: "BE"}), Some(9000), json!({}));
    let mut freed = offender.clone();
    freed["metadata"]["finalizers"] = json!([]);
    assert_eq!(world.refusal(Some(&offender), &freed), "admitted");
    let mut worse = freed.clone();
    worse["spec"]["containers"][0]["resources"]["requests"] = json!({"cpu": "1"});
    assert_ne!(world.refusal(Some(&offender), &worse), "admitted");
    worse["metadata"]["deletionTimestamp"] = json!("2030-01-01T00:00:00Z");
    assert_eq!(world.refusal(Some(&offender), &worse), "admitted");
}

/// Rules came after pods: what a change does not touch is not its fault.
#[test]
fn a_change_is_judged_by_what_it_touches() {
    let world = world(&[]).with(ManagerGate::ValidatePodDeviceResource);
    let offender = pod(json!({QOS: "LSR", "team": "a"}), Some(9000), json!({"cpu": "1500m"}));
    let mut relabelled = offender.clone();
    relabelled["metadata"]["labels"]["team"] = json!("b");
    assert_eq!(world.refusal(Some(&offender), &relabelled), "admitted");
    let mut grown = offender.clone();
    grown["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("2500m");
    assert_ne!(world.refusal(Some(&offender), &grown), "admitted");
    let gpu = pod(json!({"team": "a"}), None, json!({"koordinator.sh/gpu": "150"}));
    let mut relabelled = gpu.clone();
    relabelled["metadata"]["labels"]["team"] = json!("b");
    assert_eq!(world.refusal(Some(&gpu), &relabelled), "admitted");
}

#[test]
fn labels_are_demanded_of_whoever_takes_them_off() {
    let mut world = world(&[]).with(ManagerGate::EnablePodEnhancedValidator);
    let rules = r#"[{"name":"owner","requiredLabels":["team","cost"]}]"#;
    let data = [("enable", "true"), ("rules", rules)].map(|(k, v)| (k.to_owned(), v.to_owned()));
    world.demands = Demands::parse(&data.into()).unwrap();
    let of = |labels: Value| pod(labels, None, json!({}));
    let old = of(json!({"team": "a"}));
    assert_eq!(world.refusal(Some(&old), &of(json!({"team": "b", "x": "y"}))), "admitted");
    let refusal = world.refusal(Some(&old), &of(json!({"x": "y"})));
    assert!(refusal.contains("lacks: team") && !refusal.contains("cost"), "{refusal}");
}

#[test]
fn any_text_is_a_sub_priority() {
    let odd = pod(json!({"koordinator.sh/priority": "abc"}), Some(9000), json!({}));
    let admitted = world(&[]).validate(None, &odd).expect("the reference takes it");
    assert!(admitted.warnings[0].contains("TP1216"), "{admitted:?}");
}

#[test]
fn gates_add_rules() {
    let gpu = pod(json!({}), None, json!({"koordinator.sh/gpu": "150"}));
    assert_eq!(world(&[]).refusal(None, &gpu), "admitted");
    let strict = world(&[]).with(ManagerGate::ValidatePodDeviceResource);
    assert!(strict.refusal(None, &gpu).contains("150 must be from 1 to 100"));

    let mut demanding = world(&[]).with(ManagerGate::EnablePodEnhancedValidator);
    let data = [
        ("enable".to_owned(), "True".to_owned()),
        (
            "rules".to_owned(),
            r#"[{"name":"owner","requiredLabels":["team"],"namespaceWhitelist":["kube-system"]}]"#
                .to_owned(),
        ),
    ];
    demanding.demands = Demands::parse(&data.into()).unwrap();
    let plain = pod(json!({}), None, json!({}));
    assert!(demanding.refusal(None, &plain).contains("lacks: team"));
    assert_eq!(demanding.refusal(None, &pod(json!({"team": "a"}), None, json!({}))), "admitted");
    let skips =
        pod(json!({"pod.koordinator.sh/skip-enhanced-validation": "true"}), None, json!({}));
    assert_eq!(demanding.refusal(None, &skips), "admitted");
    let mut excused = plain;
    excused["metadata"]["namespace"] = json!("kube-system");
    assert_eq!(demanding.refusal(None, &excused), "admitted");
}

#[test]
fn the_strict_matrix_refuses_more() {
    let cases = [
        ("LSE at mid", pod(json!({QOS: "LSE"}), Some(7000), json!({"cpu": "1"}))),
        ("LS at batch", pod(json!({QOS: "LS"}), Some(5000), json!({}))),
        ("SYSTEM at prod", pod(json!({QOS: "SYSTEM"}), Some(9000), json!({}))),
    ];
    let strict = World { is_strict: true, ..world(&[]) };
    for (name, pod) in cases {
        assert_eq!(world(&[]).refusal(None, &pod), "admitted", "{name}");
        let refusal = strict.refusal(None, &pod);
        assert!(refusal.contains("combination forbidden"), "{name}: {refusal}");
    }
    let fine = pod(json!({QOS: "LS"}), Some(9000), json!({}));
    assert_eq!(strict.refusal(None, &fine), "admitted");
}

#[test]
fn what_is_suspicious_is_said() {
    let world = world(&[]);
    let mut lsr = pod(json!({QOS: "LSR"}), Some(9000), json!({"cpu": "2"}));
    lsr["spec"]["containers"][0]["resources"]["limits"] = json!({"cpu": "4"});
    let unknown = pod(json!({QOS: "be"}), Some(5000), json!({}));
    for (pod, want) in [(lsr, "request and limit to be equal"), (unknown, "no QoS class")] {
        let admitted = world.validate(None, &pod).unwrap();
        assert!(admitted.warnings.join(";").contains(want), "{:?}", admitted.warnings);
    }
}

#[test]
fn profiles_that_cannot_be_followed_refuse_their_pods() {
    let cases = [
        (
            "{metadata: {name: p}, spec: {priorityClassName: gone}}",
            "500 ClusterColocationProfile p: spec.priorityClassName: there is no PriorityClass gone; create it, or name another one",
        ),
        (
            "{metadata: {name: p}, spec: {patch: {spec: {containers: [{image: x}]}}}}",
            "500 ClusterColocationProfile p: spec.patch.spec.containers[0]: an element without \"name\" cannot be merged",
        ),
        (
            "{metadata: {name: p}, spec: {patch: {spec: {containers: 7}}}}",
            "500 a profile's patch does not fit the pod",
        ),
    ];
    for (profile, want) in cases {
        let denied = world(&[profile]).mutate(&pod(json!({}), None, json!({}))).unwrap_err();
        let text = format!("{} {}", denied.code, denied.message);
        assert!(text.starts_with(want), "{text}");
    }
    let mut unreadable = pod(json!({}), None, json!({}));
    unreadable["metadata"]["annotations"] =
        json!({"node.koordinator.sh/extended-resource-spec": "{"});
    assert_eq!(world(&[]).mutate(&unreadable).unwrap_err().code, 500);
    let harmless = "{metadata: {name: p}, spec: {probability: abc, priorityClassName: gone}}";
    assert!(world(&[harmless]).mutate(&pod(json!({}), None, json!({}))).is_ok());
    let broken = "{metadata: {name: p}, spec: {selector: {matchLabels: {'a b': c}}, qosClass: BE}}";
    assert!(world(&[broken]).mutate(&pod(json!({}), None, json!({}))).unwrap().patch.is_empty());
}
