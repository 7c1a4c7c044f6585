//! The finding for each row of the bad-input table for ConfigMap contents, as
//! one page that a person can tick off.

use std::collections::BTreeMap;

use api::config::{self, Config, Key, Options, Status};
use api::finding::Severity;
use serde_json::Value;

const OBJECT: &str = "ConfigMap koordinator-system/slo-controller-config";

/// The ConfigMap of the product brief, as printed there.
fn seed() -> BTreeMap<String, String> {
    let text = include_str!("../../../fixtures/wire/slo-controller-config-seed-001.yaml");
    let value: Value = serde_saphyr::from_str(text).expect("the fixture is YAML");
    config::data_of(&value, OBJECT).0
}

#[test]
fn the_seed_has_exactly_one_error() {
    let findings = config::check(&seed(), OBJECT, Options::default());
    let errors: Vec<_> = findings.iter().filter(|finding| finding.is_error()).collect();
    let [error] = errors.as_slice() else { panic!("{errors:#?}") };
    assert_eq!(error.key.as_deref(), Some("system-config"));
    assert_eq!(error.at.unwrap().to_string(), "line 7 column 3");
    assert!(error.rule.contains("expected , or }"), "{error}");
    assert!(error.rule.contains("missing comma after line 6"), "{error}");
}

#[test]
fn one_bad_key_leaves_the_others_in_force() {
    let (config, _) = Config::load(&seed(), None, OBJECT, Options::default());
    assert_eq!(config.status(Key::System), Status::Fallback);
    for key in [Key::Colocation, Key::Threshold, Key::Qos, Key::Burst, Key::HostApplication] {
        assert_eq!(config.status(key), Status::Loaded, "{key}");
    }
    for key in [Key::Normalization, Key::Amplification] {
        assert_eq!(config.status(key), Status::BuiltIn, "{key}");
    }
}

/// A row of the table: what was written under which key.
struct Row {
    name: &'static str,
    key: &'static str,
    text: &'static str,
}

const fn row(name: &'static str, key: &'static str, text: &'static str) -> Row {
    Row { name, key, text }
}

const ROWS: &[Row] = &[
    row(
        "trailing comma",
        "system-config",
        "{\"clusterStrategy\": {\"minFreeKbytesFactor\": 100,}}",
    ),
    row("comment", "system-config", "{\n  // memory\n  \"clusterStrategy\": {}\n}"),
    row("byte order mark", "system-config", "\u{feff}{}"),
    row("unquoted key", "system-config", "{clusterStrategy: {}}"),
    row("single quotes", "system-config", "{'clusterStrategy': {}}"),
    row("text after the value", "system-config", "{} and more"),
    row("empty text", "system-config", ""),
    row("empty colocation-config means absent", "colocation-config", ""),
    row(
        "boolean in quotes",
        "resource-threshold-config",
        r#"{"clusterStrategy": {"enable": "true"}}"#,
    ),
    row("integer in quotes", "colocation-config", r#"{"cpuReclaimThresholdPercent": "60"}"#),
    row("fraction for an integer", "colocation-config", r#"{"cpuReclaimThresholdPercent": 60.5}"#),
    row("exponent for an integer", "colocation-config", r#"{"cpuReclaimThresholdPercent": 6e1}"#),
    row(
        "not a duration",
        "colocation-config",
        r#"{"metricAggregatePolicy": {"durations": ["5min"]}}"#,
    ),
    row(
        "number for a duration",
        "colocation-config",
        r#"{"metricAggregatePolicy": {"durations": [300]}}"#,
    ),
    row("colocation value below its limit", "colocation-config", r#"{"degradeTimeMinutes": 0}"#),
    row("ratio above its limit", "colocation-config", r#"{"resourceDiffThreshold": 1.5}"#),
    row(
        "value out of limits in a node entry",
        "colocation-config",
        r#"{"nodeConfigs": [{"name": "a", "nodeSelector": {"matchLabels": {"a": "b"}},
             "updateTimeThresholdSeconds": 0}]}"#,
    ),
    row(
        "threshold out of limits",
        "resource-threshold-config",
        r#"{"clusterStrategy": {"cpuSuppressThresholdPercent": 650}}"#,
    ),
    row(
        "QoS value out of limits",
        "resource-qos-config",
        r#"{"clusterStrategy": {"beClass": {"memoryQOS": {"wmarkMinAdj": -50}}}}"#,
    ),
    row(
        "block IO weight out of limits",
        "resource-qos-config",
        r#"{"clusterStrategy": {"beClass": {"blkioQOS": {"blocks": [
             {"name": "sda", "type": "device", "ioCfg": {"ioWeightPercent": 0}}]}}}}"#,
    ),
    row(
        "burst out of limits",
        "cpu-burst-config",
        r#"{"clusterStrategy": {"cpuBurstPercent": 0}}"#,
    ),
    row(
        "system value out of limits",
        "system-config",
        r#"{"clusterStrategy": {"watermarkScaleFactor": 500}}"#,
    ),
    row("ratio out of limits", "cpu-normalization-config", r#"{"defaultRatio": 0.5}"#),
    row(
        "amplification below one",
        "resource-amplification-config",
        r#"{"resourceAmplificationRatio": {"cpu": 0.9}}"#,
    ),
    row(
        "memory evict bounds the wrong way round",
        "resource-threshold-config",
        r#"{"clusterStrategy": {"memoryEvictThresholdPercent": 70, "memoryEvictLowerPercent": 75}}"#,
    ),
    row(
        "lone lower bound above the default of the upper one",
        "resource-threshold-config",
        r#"{"clusterStrategy": {"memoryEvictLowerPercent": 70}}"#,
    ),
    row(
        "lone upper bound is fine",
        "resource-threshold-config",
        r#"{"clusterStrategy": {"memoryEvictThresholdPercent": 80}}"#,
    ),
    row(
        "satisfaction bounds the wrong way round",
        "resource-threshold-config",
        r#"{"clusterStrategy": {"cpuEvictBESatisfactionUpperPercent": 40,
             "cpuEvictBESatisfactionLowerPercent": 50}}"#,
    ),
    row(
        "cache range the wrong way round",
        "resource-qos-config",
        r#"{"clusterStrategy": {"beClass": {"resctrlQOS": {"catRangeStartPercent": 40}}}}"#,
    ),
    row(
        "satisfaction the agent refuses",
        "resource-threshold-config",
        r#"{"clusterStrategy": {"cpuEvictBESatisfactionUpperPercent": 100,
             "cpuEvictBESatisfactionLowerPercent": 80}}"#,
    ),
    row("unknown policies", "cpu-burst-config", r#"{"clusterStrategy": {"policy": "cpuBurst"}}"#),
    row("unknown field", "colocation-config", r#"{"cpuReclaimThresholdPercents": 60}"#),
    row("unknown data key", "colocation-configs", "{}"),
    row("name in another case", "colocation-config", r#"{"Enable": true}"#),
    row("name given twice", "colocation-config", "{\"enable\": true,\n \"enable\": false}"),
    row(
        "node entry without selector",
        "colocation-config",
        r#"{"nodeConfigs": [{"name": "a", "degradeTimeMinutes": 5}]}"#,
    ),
    row(
        "node entry with an empty selector",
        "colocation-config",
        r#"{"nodeConfigs": [{"name": "a", "nodeSelector": {}, "degradeTimeMinutes": 5}]}"#,
    ),
    row(
        "bad selector operator",
        "colocation-config",
        r#"{"nodeConfigs": [{"name": "a", "nodeSelector": {"matchExpressions": [
             {"key": "a", "operator": "Is", "values": ["b"]}]}}]}"#,
    ),
    row(
        "two entries for the same node",
        "colocation-config",
        r#"{"nodeConfigs": [
             {"name": "a", "nodeSelector": {"matchLabels": {"pool": "web"}}},
             {"name": "b", "nodeSelector": {"matchExpressions": [
               {"key": "pool", "operator": "In", "values": ["db", "web"]}]}}]}"#,
    ),
    row(
        "entry names missing and repeated, where demanded",
        "colocation-config",
        r#"{"nodeConfigs": [
             {"nodeSelector": {"matchLabels": {"pool": "a"}}},
             {"name": "x", "nodeSelector": {"matchLabels": {"pool": "b"}}},
             {"name": "x", "nodeSelector": {"matchLabels": {"pool": "c"}}}]}"#,
    ),
    row(
        "network percents over 100 in sum",
        "resource-qos-config",
        r#"{"clusterStrategy": {"lsClass": {"networkQOS": {"ingressRequest": 60}},
             "beClass": {"networkQOS": {"ingressRequest": 50}}}}"#,
    ),
    row(
        "network percents and bandwidths mixed",
        "resource-qos-config",
        r#"{"clusterStrategy": {"lsClass": {"networkQOS": {"egressRequest": 60}},
             "beClass": {"networkQOS": {"egressRequest": "50M"}}}}"#,
    ),
    row(
        "network bandwidths over the total",
        "resource-qos-config",
        r#"{"clusterStrategy": {"lsClass": {"networkQOS": {"egressRequest": "900M"}},
             "beClass": {"networkQOS": {"egressRequest": "200M"}}}}"#,
    ),
    row(
        "enabled in a node entry only",
        "colocation-config",
        r#"{"enable": false, "nodeConfigs": [
             {"name": "a", "nodeSelector": {"matchLabels": {"a": "b"}}, "enable": true}]}"#,
    ),
    row(
        "host application without priority",
        "host-application-config",
        r#"{"applications": [{"name": "nginx", "qos": "LS"}]}"#,
    ),
    row(
        "own key: unknown field is refused",
        "tidepool-reaction-config",
        r#"{"clusterStrategy": {"freze": {"enable": false}}}"#,
    ),
    row(
        "own key: boolean in quotes",
        "tidepool-reaction-config",
        r#"{"clusterStrategy": {"enable": "false"}}"#,
    ),
    row(
        "own key: value out of limits in a node entry",
        "tidepool-reaction-config",
        r#"{"nodeStrategies": [{"nodeSelector": {"matchLabels": {"a": "b"}},
             "freeze": {"maxSeconds": 60}}]}"#,
    ),
    row(
        "own key: unknown word is refused",
        "tidepool-switch-config",
        r#"{"clusterStrategy": {"mode": "of"}}"#,
    ),
    row(
        "own key: words in any case",
        "tidepool-switch-config",
        r#"{"clusterStrategy": {"mode": "Off", "reason": "incident"}}"#,
    ),
    row("own key: unknown mode", "tidepool-kernel-config", r#"{"clusterStrategy": {"mode": "Z"}}"#),
    row("own key: misspelt", "tidepool-reacton-config", "{}"),
];

#[test]
fn each_row_has_its_finding() {
    let mut page = String::new();
    for Row { name, key, text } in ROWS {
        let mut data = BTreeMap::from([((*key).to_owned(), (*text).to_owned())]);
        if name.contains("over the total") {
            let system = r#"{"clusterStrategy": {"totalNetworkBandwidth": "1G"}}"#;
            data.insert("system-config".to_owned(), system.to_owned());
        }
        let options = Options { names_required: name.contains("where demanded") };
        let findings = config::check(&data, OBJECT, options);
        page += &format!("## {name}\n{}\n", text.replace('\u{feff}', "<BOM>"));
        if findings.is_empty() {
            page += "(no finding)\n";
        }
        for finding in findings {
            page += &format!("{finding}\n");
        }
        page.push('\n');
    }
    insta::assert_snapshot!(page);
}

/// What stays in force when a value is out of limits, per kind of key.
#[test]
fn a_value_out_of_limits_never_takes_effect() {
    let load = |key: Key, text: &str, previous: Option<&Config>| {
        let data = BTreeMap::from([(key.name().to_owned(), text.to_owned())]);
        Config::load(&data, previous, OBJECT, Options::default())
    };
    let enable = |config: &Config, key: Key| {
        config.cluster(key).and_then(|layer| layer.get(&["enable"])).map(|leaf| leaf.value.clone())
    };

    // The cluster's co-location values: unavailable at first, then the last good ones.
    let bad = r#"{"enable": true, "degradeTimeMinutes": 0}"#;
    let (config, _) = load(Key::Colocation, bad, None);
    assert_eq!(config.status(Key::Colocation), Status::Unavailable);
    let (good, _) = load(Key::Colocation, r#"{"enable": true}"#, None);
    let (config, _) =
        load(Key::Colocation, r#"{"enable": false, "degradeTimeMinutes": 0}"#, Some(&good));
    assert_eq!(config.status(Key::Colocation), Status::Kept);
    assert_eq!(enable(&config, Key::Colocation), Some(true.into()));
    let (config, _) = load(Key::Colocation, "{", Some(&config));
    assert_eq!(enable(&config, Key::Colocation), Some(true.into()), "kept twice");

    // A node entry: that entry falls back to the cluster's values.
    let entry = r#"{"enable": true, "nodeConfigs": [{"nodeSelector": {"matchLabels": {"a": "b"}},
        "enable": false, "degradeTimeMinutes": 0}]}"#;
    let (config, findings) = load(Key::Colocation, entry, None);
    assert_eq!(findings.iter().filter(|finding| finding.is_error()).count(), 1);
    let labels = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
    let chosen = config.choose(Key::Colocation, &labels).unwrap();
    assert_eq!(chosen.layer.get(&["enable"]).unwrap().value, true);

    // Keys of the NodeSLO: the whole key, also for a bad entry.
    let entry = r#"{"clusterStrategy": {"enable": true}, "nodeStrategies": [
        {"nodeSelector": {"matchLabels": {"a": "b"}}, "cpuSuppressThresholdPercent": 650}]}"#;
    let (config, _) = load(Key::Threshold, entry, None);
    assert_eq!(config.status(Key::Threshold), Status::Fallback);
    assert_eq!(enable(&config, Key::Threshold), Some(false.into()));
}

/// A bad text of ours neither turns anything on nor off.
#[test]
fn a_bad_own_key_keeps_its_last_good_text() {
    let load = |text: &str, previous: Option<&Config>| {
        let data = BTreeMap::from([("tidepool-reaction-config".to_owned(), text.to_owned())]);
        Config::load(&data, previous, OBJECT, Options::default()).0
    };
    let extension = |config: &Config, old: Option<&Value>| {
        let old = old.map(|old| BTreeMap::from([(Key::Reaction.name().to_owned(), old.clone())]));
        let view = config.for_node(&Default::default());
        view.extensions(old.as_ref()).and_then(|mut all| all.remove(Key::Reaction.name()))
    };
    let good = load(r#"{"clusterStrategy": {"freeze": {"enable": false}}}"#, None);
    assert_eq!(good.status(Key::Reaction), Status::Loaded);
    let off = extension(&good, None).unwrap();
    assert_eq!(off["freeze"], serde_json::json!({"enable": false, "maxSeconds": 2}));

    let typo = r#"{"clusterStrategy": {"freze": {"enable": true}}}"#;
    let kept = load(typo, Some(&good));
    assert_eq!(kept.status(Key::Reaction), Status::Kept);
    assert_eq!(extension(&kept, Some(&off)).as_ref(), Some(&off));
    // After a restart only the NodeSLO knows the last good value.
    let restarted = load(typo, None);
    assert_eq!(restarted.status(Key::Reaction), Status::Fallback);
    assert_eq!(extension(&restarted, Some(&off)).as_ref(), Some(&off));

    let (gone, _) = Config::load(&BTreeMap::new(), Some(&kept), OBJECT, Options::default());
    assert_eq!(extension(&gone, Some(&off)), None, "no longer configured");
    let others = BTreeMap::from([("vendor".to_owned(), Value::from(1))]);
    let view = gone.for_node(&Default::default());
    assert_eq!(view.extensions(Some(&others)), Some(others), "a third party's");
    assert_eq!(view.extensions(None), None);
}

#[test]
fn a_stored_overlap_is_only_a_warning_and_the_first_entry_wins() {
    let text = r#"{"nodeConfigs": [
        {"name": "a", "nodeSelector": {"matchLabels": {"pool": "web"}}, "degradeTimeMinutes": 5},
        {"name": "b", "nodeSelector": {"matchLabels": {"pool": "web"}}, "degradeTimeMinutes": 6}]}"#;
    let data = BTreeMap::from([("colocation-config".to_owned(), text.to_owned())]);
    let (config, findings) = Config::load(&data, None, OBJECT, Options::default());
    assert!(findings.iter().all(|finding| finding.severity == Severity::Warning), "{findings:#?}");
    let labels = BTreeMap::from([("pool".to_owned(), "web".to_owned())]);
    let chosen = config.choose(Key::Colocation, &labels).unwrap();
    assert_eq!(chosen.layer.get(&["degradeTimeMinutes"]).unwrap().value, 5);
    assert_eq!(config.candidates(Key::Colocation, &labels).len(), 2);
}
