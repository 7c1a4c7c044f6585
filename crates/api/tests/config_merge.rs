//! How layers combine: defaults as goldens, merge rules as tables and laws.

use std::collections::BTreeMap;

use api::config::defaults::{agent_qos, as_agent_sees, built_in};
use api::config::{Config, Key, Layer, Options, Source};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use proptest::prelude::*;
use serde_json::{Value, json};

fn layer(key: Key, value: &Value) -> Layer {
    Layer::new(key, value, &Source::Cluster)
}

fn load(data: &[(&str, &str)]) -> Config {
    let data = data.iter().map(|&(key, text)| (key.to_owned(), text.to_owned())).collect();
    let (config, findings) = Config::load(&data, None, "", Options::default());
    assert!(findings.iter().all(|finding| !finding.is_error()), "{findings:#?}");
    config
}

fn node(labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> ObjectMeta {
    let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    };
    ObjectMeta {
        name: Some("n1".to_owned()),
        labels: Some(map(labels)),
        annotations: Some(map(annotations)),
        ..ObjectMeta::default()
    }
}

#[test]
fn defaults_of_all_keys() {
    let defaults: BTreeMap<&str, Value> =
        Key::ALL.into_iter().map(|key| (key.name(), built_in(key).to_json())).collect();
    insta::assert_yaml_snapshot!("built_in", defaults);
    insta::assert_yaml_snapshot!("agent_class_defaults", agent_qos().to_json());
    insta::assert_yaml_snapshot!(
        "agent_with_everything_off",
        as_agent_sees(&Layer::default()).to_json()
    );
}

#[test]
fn one_merge_follows_the_rules_of_the_wire() {
    let cases = [
        (
            "absent keeps the lower value",
            Key::Burst,
            json!({"policy": "auto"}),
            json!({}),
            json!({"policy": "auto"}),
        ),
        (
            "null keeps the lower value",
            Key::Burst,
            json!({"policy": "auto"}),
            json!({"policy": null}),
            json!({"policy": "auto"}),
        ),
        (
            "zero and false count",
            Key::Threshold,
            json!({"enable": true, "cpuSuppressMinPercent": 5}),
            json!({"enable": false, "cpuSuppressMinPercent": 0}),
            json!({"enable": false, "cpuSuppressMinPercent": 0}),
        ),
        (
            "an empty burst policy does not",
            Key::Burst,
            json!({"policy": "auto"}),
            json!({"policy": ""}),
            json!({"policy": "auto"}),
        ),
        (
            "nor empty threshold policies",
            Key::Threshold,
            json!({"cpuSuppressPolicy": "cfsQuota", "cpuEvictPolicy": "evictByAllocatable"}),
            json!({"cpuSuppressPolicy": "", "cpuEvictPolicy": ""}),
            json!({"cpuSuppressPolicy": "cfsQuota", "cpuEvictPolicy": "evictByAllocatable"}),
        ),
        (
            "other empty strings do",
            Key::Colocation,
            json!({"cpuCalculatePolicy": "usage"}),
            json!({"cpuCalculatePolicy": ""}),
            json!({"cpuCalculatePolicy": ""}),
        ),
        (
            "nested objects merge by field",
            Key::Qos,
            json!({"beClass": {"memoryQOS": {"wmarkRatio": 95, "priority": 1}}}),
            json!({"beClass": {"memoryQOS": {"wmarkRatio": 90}}}),
            json!({"beClass": {"memoryQOS": {"wmarkRatio": 90, "priority": 1}}}),
        ),
        (
            "an empty object stays an object",
            Key::Qos,
            json!({}),
            json!({"beClass": {"networkQOS": {}}}),
            json!({"beClass": {"networkQOS": {}}}),
        ),
        (
            "an empty object takes nothing away",
            Key::Qos,
            json!({"beClass": {"cpuQOS": {"enable": true}}}),
            json!({"beClass": {}}),
            json!({"beClass": {"cpuQOS": {"enable": true}}}),
        ),
        (
            "lists are replaced",
            Key::Colocation,
            json!({"metricAggregatePolicy": {"durations": ["5m", "10m"]}}),
            json!({"metricAggregatePolicy": {"durations": ["1m"]}}),
            json!({"metricAggregatePolicy": {"durations": ["1m"]}}),
        ),
        (
            "an empty list counts as absent",
            Key::Colocation,
            json!({"metricAggregatePolicy": {"durations": ["5m"]}}),
            json!({"metricAggregatePolicy": {"durations": []}}),
            json!({"metricAggregatePolicy": {"durations": ["5m"]}}),
        ),
        (
            "maps merge by key",
            Key::Amplification,
            json!({"resourceAmplificationRatio": {"cpu": 2.0}}),
            json!({"resourceAmplificationRatio": {"memory": 1.5}}),
            json!({"resourceAmplificationRatio": {"cpu": 2.0, "memory": 1.5}}),
        ),
        (
            "a CPU model is replaced whole",
            Key::Normalization,
            json!({"ratioModel": {"X": {"baseRatio": 1.0, "turboEnabledRatio": 1.2}}}),
            json!({"ratioModel": {"X": {"baseRatio": 1.5}}}),
            json!({"ratioModel": {"X": {"baseRatio": 1.5}}}),
        ),
        (
            "an absent bandwidth resets nothing",
            Key::System,
            json!({"totalNetworkBandwidth": "10G"}),
            json!({"minFreeKbytesFactor": 100}),
            json!({"totalNetworkBandwidth": "10G", "minFreeKbytesFactor": 100}),
        ),
    ];
    for (name, key, lower, upper, want) in cases {
        assert_eq!(layer(key, &upper).over(&layer(key, &lower)).to_json(), want, "{name}");
    }
}

#[test]
fn the_node_has_the_last_word() {
    let config = load(&[
        (
            "colocation-config",
            r#"{"enable": true, "cpuReclaimThresholdPercent": 61, "nodeConfigs": [
                 {"name": "web", "nodeSelector": {"matchLabels": {"pool": "web"}},
                  "memoryReclaimThresholdPercent": 62, "degradeTimeMinutes": 20}]}"#,
        ),
        ("system-config", r#"{"clusterStrategy": {"totalNetworkBandwidth": "1G"}}"#),
    ]);
    let view = config.for_node(&node(
        &[
            ("pool", "web"),
            ("node.koordinator.sh/cpu-reclaim-ratio", "0.29"),
            ("node.koordinator.sh/cpu-normalization-enabled", "T"),
        ],
        &[
            (
                "node.koordinator.sh/colocation-strategy",
                r#"{"cpuReclaimThresholdPercent": 70, "degradeTimeMinutes": 25}"#,
            ),
            ("node.koordinator.sh/network-bandwidth", "10G"),
        ],
    ));
    let colocation = view.strategy(Key::Colocation).unwrap();
    let at = |field: &str| {
        let leaf = colocation.get(&[field]).unwrap();
        (leaf.value.clone(), leaf.source.to_string())
    };
    assert_eq!(at("enable"), (json!(true), "cluster".to_owned()));
    assert_eq!(at("metricReportIntervalSeconds"), (json!(60), "built-in".to_owned()));
    assert_eq!(at("memoryReclaimThresholdPercent"), (json!(62), "node entry 0 (web)".to_owned()));
    assert_eq!(
        at("degradeTimeMinutes"),
        (json!(25), "node annotation node.koordinator.sh/colocation-strategy".to_owned())
    );
    assert_eq!(
        at("cpuReclaimThresholdPercent"),
        (json!(28), "node label node.koordinator.sh/cpu-reclaim-ratio".to_owned())
    );
    assert_eq!(view.node_slo_json()["systemStrategy"]["totalNetworkBandwidth"], "10G");
    let normalization = view.strategy(Key::Normalization).unwrap();
    assert_eq!(normalization.get(&["enable"]).unwrap().value, true);
    assert!(view.conflicts.is_empty(), "{:#?}", view.conflicts);
}

#[test]
fn bad_words_of_a_node_are_ignored() {
    let config = load(&[("colocation-config", r#"{"enable": true}"#)]);
    let cases = [
        ("not JSON", "{"),
        ("wrong type", r#"{"degradeTimeMinutes": "5"}"#),
        ("out of limits", r#"{"degradeTimeMinutes": 0}"#),
    ];
    for (name, text) in cases {
        let view =
            config.for_node(&node(&[], &[("node.koordinator.sh/colocation-strategy", text)]));
        let leaf = view.strategy(Key::Colocation).unwrap().get(&["degradeTimeMinutes"]).unwrap();
        assert_eq!((&leaf.value, &leaf.source), (&json!(15), &Source::BuiltIn), "{name}");
    }
    for bad in ["60%", "abc", "-0.1", "NaN", "inf"] {
        let view = config.for_node(&node(&[("node.koordinator.sh/cpu-reclaim-ratio", bad)], &[]));
        let colocation = view.strategy(Key::Colocation).unwrap();
        assert_eq!(colocation.get(&["cpuReclaimThresholdPercent"]).unwrap().value, 60, "{bad}");
    }
}

#[test]
fn a_node_entry_can_switch_colocation_off_but_not_on() {
    let entry = |cluster: bool, entry: bool| {
        let text = json!({"enable": cluster, "nodeConfigs": [
            {"nodeSelector": {"matchLabels": {"a": "b"}}, "enable": entry}]});
        let config = load(&[("colocation-config", &text.to_string())]);
        config.for_node(&node(&[("a", "b")], &[])).colocation_enabled
    };
    assert!(entry(true, true));
    assert!(!entry(true, false));
    assert!(!entry(false, true));
    assert!(!entry(false, false));
}

/// A node that lends nothing is measured by the built-in policy.
#[test]
fn the_collect_policy_follows_the_node_that_lends() {
    let policy = |text: &str| {
        let view = load(&[("colocation-config", text)]).for_node(&node(&[], &[]));
        let policy = view.metric_collect_policy().unwrap();
        (policy.report_interval_seconds, policy.node_memory_collect_policy)
    };
    let default = Some("usageWithoutPageCache".to_owned());
    let cases = [
        ("off", r#"{"metricReportIntervalSeconds": 30}"#, (Some(60), default.clone())),
        (
            "on",
            r#"{"enable": true, "metricReportIntervalSeconds": 30}"#,
            (Some(30), default.clone()),
        ),
        ("unknown", r#"{"enable": true, "metricMemoryCollectPolicy": "rss"}"#, (Some(60), default)),
    ];
    for (name, text, want) in cases {
        assert_eq!(policy(text), want, "{name}");
    }
}

#[test]
fn host_applications_are_replaced_even_by_none() {
    let text = r#"{"applications": [{"name": "a", "priority": "koord-prod", "qos": "LS"}],
        "nodeConfigs": [
          {"nodeSelector": {"matchLabels": {"pool": "none"}}},
          {"nodeSelector": {"matchLabels": {"pool": "empty"}}, "applications": []},
          {"nodeSelector": {"matchLabels": {"pool": "own"}},
           "applications": [{"name": "b", "priority": "koord-prod"}]}]}"#;
    let config = load(&[("host-application-config", text)]);
    let names = |pool: &str| {
        let spec = config.for_node(&node(&[("pool", pool)], &[])).node_slo_json();
        let apps = spec["hostApplications"].as_array().cloned().unwrap_or_default();
        apps.iter().map(|app| app["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("other"), ["a"]);
    assert_eq!(names("own"), ["b"]);
    assert_eq!(names("none"), Vec::<String>::new());
    assert_eq!(names("empty"), Vec::<String>::new());
}

/// Any partial threshold strategy, and any partial QoS class.
fn partial() -> impl Strategy<Value = (Key, Value)> {
    let threshold = (
        prop::option::of(any::<bool>()),
        prop::option::of(0..100i64),
        prop::option::of("cpuset|cfsQuota|"),
    )
        .prop_map(|(enable, percent, policy)| {
            let value = json!({"enable": enable, "cpuSuppressThresholdPercent": percent,
                "cpuSuppressPolicy": policy});
            (Key::Threshold, value)
        });
    let qos = (prop::option::of(-1..2i64), prop::option::of(0..100i64), any::<bool>()).prop_map(
        |(identity, ratio, empty)| {
            let cpu = if empty { json!({}) } else { json!({"groupIdentity": identity}) };
            let value = json!({"beClass": {"cpuQOS": cpu, "memoryQOS": {"wmarkRatio": ratio}}});
            (Key::Qos, value)
        },
    );
    prop_oneof![threshold, qos]
}

proptest! {
    #[test]
    fn merging_is_idempotent((key, upper) in partial(), (_, lower) in partial()) {
        let (upper, lower) = (layer(key, &upper), layer(key, &lower));
        let once = upper.over(&lower);
        prop_assert_eq!(upper.over(&once), once.clone());
        prop_assert_eq!(once.over(&lower), once);
    }

    #[test]
    fn merging_is_associative(
        (key, a) in partial(), (_, b) in partial(), (_, c) in partial()
    ) {
        let [a, b, c] = [a, b, c].map(|value| layer(key, &value));
        prop_assert_eq!(a.over(&b).over(&c), a.over(&b.over(&c)));
    }

    /// A partial entry changes the fields it gives and no other.
    #[test]
    fn a_partial_entry_changes_only_its_own_fields((key, upper) in partial()) {
        let lower = built_in(key).over(&agent_qos());
        let upper = layer(key, &upper);
        let merged = upper.over(&lower);
        for (path, leaf) in merged.leaves() {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            let want = upper.get(&path).or(lower.get(&path));
            prop_assert_eq!(want, Some(leaf));
        }
    }

    /// The round trip through JSON and back keeps a layer as it is.
    #[test]
    fn a_layer_is_its_json((key, value) in partial()) {
        let layer = layer(key, &value);
        prop_assert_eq!(Layer::new(key, &layer.to_json(), &Source::Cluster), layer);
    }

    #[test]
    fn checking_never_panics(key in 0..8usize, text in ".{0,80}", node in ".{0,20}") {
        let data = BTreeMap::from([(Key::ALL[key].name().to_owned(), text)]);
        let (config, _) = Config::load(&data, None, "", Options { names_required: true });
        config.for_node(&self::node(
            &[("node.koordinator.sh/cpu-reclaim-ratio", &node)],
            &[("node.koordinator.sh/colocation-strategy", &node)],
        ));
    }
}
