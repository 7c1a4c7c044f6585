//! Nodes, ConfigMaps, quotas and reservations.

use std::collections::BTreeMap;

use api::config::Options;
use api::kind::{ClusterColocationProfile, ElasticQuota};
use api::protocol::gate::{Gates, ManagerGate};
use control::admission::profile::{Dice, Profile};
use control::admission::{Verdict, charge, config_map, node, quota, reservation};
use serde_json::{Value, json};

use crate::world::{from_yaml, pod, world};

fn apply(object: &Value, verdict: Verdict) -> Value {
    let mut next = object.clone();
    json_patch::patch(&mut next, &verdict.expect("admitted").patch).expect("the patch applies");
    next
}

fn a_node(ratio: &str, raw: Option<&str>, cpu: &str, memory: &str) -> Value {
    let mut annotations = json!({});
    if !ratio.is_empty() {
        annotations["node.koordinator.sh/resource-amplification-ratio"] = json!(ratio);
    }
    if let Some(raw) = raw {
        annotations["node.koordinator.sh/raw-allocatable"] = json!(raw);
    }
    json!({"metadata": {"name": "n1", "annotations": annotations},
        "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": "110"}}})
}

#[test]
fn nodes_advertise_raw_times_ratio() {
    const KUBELET: &str = "system:node:n1";
    const MANAGER: &str = "system:serviceaccount:koordinator-system:koord-manager";
    const RAW: &str = r#"{"cpu":"62","memory":"248Gi"}"#;
    let ratio = r#"{"cpu":1.20}"#;
    let plain = a_node(ratio, None, "62", "248Gi");
    let amplified = a_node(ratio, Some(RAW), "74400m", "248Gi");
    let cases = [
        (
            "the kubelet reports",
            &plain,
            &plain,
            KUBELET,
            a_node(ratio, Some(RAW), "74400m", "248Gi"),
        ),
        ("the manager repeats", &amplified, &amplified, MANAGER, amplified.clone()),
        (
            "the kubelet reports again",
            &amplified,
            &a_node(ratio, Some(RAW), "62", "248Gi"),
            KUBELET,
            amplified.clone(),
        ),
        (
            "the machine grew",
            &amplified,
            &a_node(ratio, Some(RAW), "126", "248Gi"),
            KUBELET,
            a_node(ratio, Some(r#"{"cpu":"126","memory":"248Gi"}"#), "151200m", "248Gi"),
        ),
        (
            "a program claims that it grew",
            &amplified,
            &a_node(ratio, Some(RAW), "126", "248Gi"),
            MANAGER,
            amplified.clone(),
        ),
        (
            "memory too",
            &plain,
            &a_node(r#"{"cpu":1.00,"memory":1.5}"#, None, "62", "248Gi"),
            KUBELET,
            a_node(r#"{"cpu":1.00,"memory":1.5}"#, Some(RAW), "62", "372Gi"),
        ),
        (
            "the ratio is gone",
            &amplified,
            &a_node("", Some(RAW), "74400m", "248Gi"),
            MANAGER,
            a_node("", None, "74400m", "248Gi"),
        ),
    ];
    for (name, old, new, user, want) in cases {
        assert_eq!(apply(new, node::mutate_status(old, new, user)), want, "{name}");
    }
    let broken = a_node("{cpu", None, "62", "248Gi");
    assert!(node::mutate_status(&plain, &broken, KUBELET).is_err());
    let broken = a_node(ratio, Some("{"), "74400m", "248Gi");
    assert!(node::mutate_status(&broken, &broken, KUBELET).is_err());
}

fn data(key: &str, text: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(key.to_owned(), text.to_owned())])
}

#[test]
fn bad_configuration_is_refused_in_the_consoles_form() {
    let two = |a: &str, b: &str| {
        format!(
            r#"{{"enable":true,"nodeConfigs":[
                {{"name":"a","nodeSelector":{{"matchLabels":{a}}},"enable":true}},
                {{"name":"b","nodeSelector":{{"matchLabels":{b}}},"enable":false}}]}}"#
        )
    };
    let disjoint = two(r#"{"pool":"x"}"#, r#"{"pool":"y"}"#);
    let crossing = two(r#"{"pool":"x"}"#, r#"{"zone":"y"}"#);
    let nodes = config_map::Nodes::from([(
        "n1".to_owned(),
        [("pool".to_owned(), "x".to_owned()), ("zone".to_owned(), "y".to_owned())].into(),
    )]);
    let cases = [
        ("good", disjoint, "admitted"),
        ("syntax", "{\"enable\": tru".to_owned(), "ParseConfigFail"),
        ("type", r#"{"enable": "yes"}"#.to_owned(), "ParseConfigFail"),
        ("range", r#"{"cpuReclaimThresholdPercent": -1}"#.to_owned(), "ConfigParamInvalid"),
        ("overlap", two(r#"{"pool":"x"}"#, r#"{"pool":"x"}"#), "NodeStrategiesOverlap"),
        ("a real node", crossing.clone(), "ExistNodeConfict"),
    ];
    let validate = |old: Option<&BTreeMap<String, String>>, text: &str| {
        let new = data("colocation-config", text);
        config_map::validate(old, &new, "ConfigMap a/b", Options::default(), &nodes)
    };
    for (name, text, want) in cases {
        let got = match validate(None, &text) {
            Ok(_) => "admitted".to_owned(),
            Err(denied) => {
                assert_eq!(denied.code, 400);
                let body = denied.message.strip_prefix("___").and_then(|t| t.strip_suffix("___"));
                let body: Value = serde_json::from_str(body.expect(name)).expect(name);
                assert!(!body["message"].as_str().expect(name).is_empty());
                body["reason"].as_str().expect(name).to_owned()
            }
        };
        assert_eq!(got, want, "{name}");
        let old = data("colocation-config", &text);
        assert!(validate(Some(&old), &text).is_ok(), "{name}: what is there already is not judged");
    }
    let shares = r#"{"clusterStrategy":{"beClass":{"networkQOS":{"ingressRequest":"50a"}}}}"#;
    let new = data("resource-qos-config", shares);
    let denied = config_map::validate(None, &new, "ConfigMap a/b", Options::default(), &nodes);
    let message = denied.unwrap_err().message;
    assert!(message.contains("ConfigParamInvalid"), "a text that can be read: {message}");

    let (old, mut new) = (json!({"metadata": {"name": "n"}}), json!({"metadata": {"name": "n"}}));
    new["metadata"]["labels"] = json!({"pool": "x", "zone": "y"});
    let denied = node::validate(&old, &new, &data("colocation-config", &crossing)).unwrap_err();
    assert!(denied.message.contains("ExistNodeConfict") && denied.message.contains("\\\"n\\\""));
    assert!(node::validate(&new, &new, &data("colocation-config", &crossing)).is_ok());
}

fn a_quota(name: &str, parent: &str, labels: &str, min: &str, max: &str) -> Value {
    from_yaml(&format!(
        "
metadata:
  name: {name}
  namespace: default
  labels: {{quota.scheduling.koordinator.sh/parent: '{parent}'{labels}}}
spec: {{min: {{cpu: {min}}}, max: {{cpu: {max}}}}}
"
    ))
}

const IS_PARENT: &str = ", quota.scheduling.koordinator.sh/is-parent: 'true', quota.scheduling.koordinator.sh/tree-id: t";

#[test]
fn new_quotas_are_completed() {
    let parent: ElasticQuota =
        serde_json::from_value(a_quota("top", "", IS_PARENT, "10", "20")).unwrap();
    let child = a_quota("child", "top", "", "1", "2");
    let after = apply(&child, quota::mutate(&child, std::slice::from_ref(&parent)));
    insta::assert_yaml_snapshot!(after["metadata"]);
    assert_eq!(apply(&after, quota::mutate(&after, std::slice::from_ref(&parent))), after);
    let free = json!({"metadata": {"name": "q", "annotations": {
        "quota.scheduling.koordinator.sh/shared-weight": "{\"gpu\":\"1\"}"}},
        "spec": {"max": {"cpu": "4"}}});
    let after = apply(&free, quota::mutate(&free, &[]));
    assert_eq!(
        after["metadata"]["labels"]["quota.scheduling.koordinator.sh/parent"],
        "koordinator-root-quota"
    );
    assert_eq!(
        after["metadata"]["annotations"]["quota.scheduling.koordinator.sh/shared-weight"],
        "{\"cpu\":\"4\"}"
    );
    assert!(quota::mutate(&a_quota("child", "nobody", "", "1", "2"), &[]).is_err());
}

#[test]
fn quotas_fit_into_their_trees() {
    let typed = |quota: Value| -> ElasticQuota { serde_json::from_value(quota).unwrap() };
    let child = |name: &str, min: &str| {
        a_quota(name, "top", ", quota.scheduling.koordinator.sh/tree-id: t", min, "20")
    };
    let told = [typed(a_quota("top", "", IS_PARENT, "10", "20")), typed(child("a", "6"))];
    let gates = Gates::default();
    let judge = |recent: &[ElasticQuota], new: &Value| {
        let around = quota::Surroundings { quotas: &told, recent, pods: &[], gates: &gates };
        quota::validate(None, new, &around).map_err(|denied| denied.message)
    };
    assert!(judge(&[], &child("b", "4")).is_ok());
    let error = judge(&[], &child("b", "5")).unwrap_err();
    assert!(error.contains("add up to 11 cpu"), "{error}");
    let recent = [typed(child("b", "4"))];
    assert!(judge(&recent, &child("c", "1")).is_err(), "what was just admitted counts");
    assert!(judge(&recent, &child("b", "4")).is_ok(), "but its name is not taken yet");
    assert!(judge(&[], &child("a", "1")).unwrap_err().contains("unique"));
    let delete = |name: &str, pods: &[String]| {
        let around = quota::Surroundings { quotas: &told, recent: &[], pods, gates: &gates };
        quota::validate_delete(&a_quota(name, "top", "", "1", "2"), &around)
    };
    assert!(delete("a", &[]).is_ok());
    assert!(delete("a", &["default/p".to_owned()]).unwrap_err().message.contains("default/p"));
    assert!(delete("top", &[]).is_err());
    assert!(delete("koordinator-default-quota", &[]).is_err());
}

#[test]
fn pods_are_charged_to_their_quota() {
    let gates = Gates::<ManagerGate>::default();
    let mut quota: ElasticQuota =
        serde_json::from_value(a_quota("team", "", "", "1", "4")).unwrap();
    quota.metadata.annotations = Some(
        [(
            "quota.scheduling.koordinator.sh/child-request".to_owned(),
            "{\"cpu\":\"3\"}".to_owned(),
        )]
        .into(),
    );
    let a_pod = |cpu: &str| {
        let labels = json!({"quota.scheduling.koordinator.sh/name": "team"});
        serde_json::from_value(pod(labels, None, json!({"cpu": cpu, "memory": "1Gi"}))).unwrap()
    };
    let small = a_pod("1");
    let found = charge::target(None, &small, std::slice::from_ref(&quota), &gates).unwrap();
    assert_eq!(found, Some(&quota));
    let used = charge::charge(&small, &quota, &gates).unwrap().expect("something was asked for");
    assert_eq!(used["cpu"].to_string(), "4");
    assert!(!used.contains_key("memory"), "only resources of the quota count");
    let denied = charge::charge(&a_pod("1500m"), &quota, &gates).unwrap_err();
    assert_eq!(
        denied.message,
        "exceeded quota: default/team, requested: cpu=1500m, used: cpu=3, limited: cpu=4"
    );
    assert_eq!(denied.code, 400);
    assert!(charge::target(None, &small, &[], &gates).is_err());
}

/// What a running pod is charged to matters when it moves, and only behind a gate.
#[test]
fn a_change_of_a_pod_is_charged_only_when_it_moves_to_another_quota() {
    let quotas: Vec<ElasticQuota> = ["team", "other"]
        .map(|name| serde_json::from_value(a_quota(name, "", "", "1", "4")).unwrap())
        .into();
    let of = |quota: &str| {
        let labels = json!({"quota.scheduling.koordinator.sh/name": quota});
        serde_json::from_value::<k8s_openapi::api::core::v1::Pod>(pod(labels, None, json!({})))
            .unwrap()
    };
    let mut on_update = Gates::<ManagerGate>::default();
    on_update.set(ManagerGate::EnableQuotaAdmissionOnUpdate, true);
    let cases = [
        ("it stays", "team", "team", true, Ok(None)),
        ("it moves", "team", "other", true, Ok(Some("other"))),
        ("it moves, and nobody minds", "team", "other", false, Ok(None)),
        ("its quota is gone", "gone", "gone", true, Ok(None)),
        ("it moves to a quota that is not there", "team", "gone", true, Err(400)),
        ("the same, and nobody minds", "team", "gone", false, Ok(None)),
    ];
    for (name, old, new, is_gated, want) in cases {
        let gates = if is_gated { &on_update } else { &Gates::default() };
        let found = charge::target(Some(&of(old)), &of(new), &quotas, gates);
        let found = found.map(|quota| quota.and_then(|quota| quota.metadata.name.as_deref()));
        assert_eq!(found.map_err(|denied| denied.code), want, "{name}");
    }
}

#[test]
fn quotas_that_nobody_knows_are_refused() {
    let known: ElasticQuota = serde_json::from_value(a_quota("a", "", "", "1", "4")).unwrap();
    let gates = Gates::default();
    let around = |recent| quota::Surroundings { quotas: &[], recent, pods: &[], gates: &gates };
    let (old, new) = (a_quota("a", "", "", "1", "4"), a_quota("a", "", "", "1", "5"));
    let code = |verdict: Verdict| verdict.map(|_| ()).map_err(|denied| denied.code);
    assert_eq!(code(quota::validate(Some(&old), &new, &around(&[]))), Err(400));
    assert_eq!(code(quota::validate_delete(&old, &around(&[]))), Err(400));
    let recent = [known];
    assert_eq!(code(quota::validate(Some(&old), &new, &around(&recent))), Ok(()), "just admitted");
    assert_eq!(code(quota::validate_delete(&old, &around(&recent))), Ok(()));
    assert_eq!(code(quota::validate(Some(&old), &old, &around(&[]))), Ok(()), "nothing changed");
}

#[test]
fn profiles_meet_reservations() {
    let profile = |text: &str| Profile::new(from_yaml::<ClusterColocationProfile>(text));
    let profiles = [
        profile(
            "{metadata: {name: a}, spec: {namespaceSelector: {matchLabels: {x: y}}, schedulerName: never}}",
        ),
        profile(
            "{metadata: {name: b}, spec: {selector: {matchLabels: {app: web}}, schedulerName: koord-scheduler, qosClass: LS, priorityClassName: koord-prod}}",
        ),
    ];
    let classes = world(&[]).priority_classes;
    let mut gates = Gates::default();
    gates.set(ManagerGate::ReservationMutatingWebhook, true);
    let around = reservation::Surroundings {
        profiles: &profiles,
        priority_classes: &classes,
        gates: &gates,
        dice: Dice(&|_| 0),
    };
    let before: Value = from_yaml(
        "
metadata: {name: r, labels: {app: web}}
spec:
  owners: [{labelSelector: {matchLabels: {app: web}}}]
  template: {spec: {containers: [{name: c, resources: {requests: {cpu: '1'}}}]}}
",
    );
    let after = apply(&before, reservation::mutate(&before, &around));
    insta::assert_yaml_snapshot!(after);
    let mut migration = before.clone();
    migration["metadata"]["labels"]["app.kubernetes.io/created-by"] = json!("koord-descheduler");
    assert!(reservation::mutate(&migration, &around).unwrap().patch.is_empty());
}
