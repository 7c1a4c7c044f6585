//! How does a NodeSLO become the policy of a node?
//!
//! The NodeSLO comes rendered by the manager and is still laid over the built-in defaults, leaf by leaf,
//! because an older manager leaves fields out. A value outside its limits counts as absent: the default
//! below shows through. Features that are off get neutral values, so that switching a feature off resets
//! the kernel.
//!
//! Tidepool's own sections are strict. One that cannot be read keeps the policy it had before; without
//! one, nothing is frozen or reclaimed by it. Sections of others are none of our business.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{
    BurstPolicy, NodePolicy, QosPolicy, ReactionPolicy, SystemPolicy, ThresholdPolicy, policy_of,
};
use crate::config::defaults::{as_agent_sees, built_in};
use crate::config::limits::{Rule, limits, pairs};
use crate::config::{Key, Layer, Source, check};
use crate::kind::node_slo::NodeSloSpec;
use crate::why::{SetValue, Setting};

/// The policy of a node, where its values come from, and what was refused.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedNodeSlo {
    pub policy: NodePolicy,
    /// The same sections as strategies, for whoever lays more over them.
    pub spec: NodeSloSpec,
    pub refused: Vec<RefusedField>,
    /// Where each value comes from, by ConfigMap key and path: `cpu-burst-config.policy`.
    pub sources: BTreeMap<String, SetValue>,
}

/// A field of the NodeSLO that is not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedField {
    /// The ConfigMap's key and the path below it, joined by dots.
    pub field: String,
    pub value: String,
    pub rule: String,
}

impl Default for ResolvedNodeSlo {
    fn default() -> Self {
        resolve(None, None)
    }
}

impl ResolvedNodeSlo {
    /// One setting with its value and who set it.
    pub fn setting(&self, setting: &str) -> Setting {
        let name = setting.rsplit('.').next().unwrap_or(setting);
        Setting { name: name.to_owned(), value: self.sources.get(setting).cloned() }
    }
}

/// The spec laid over the defaults; `None` is an object that is not there. `last` is what was
/// followed before.
pub fn resolve(spec: Option<&NodeSloSpec>, last: Option<&ResolvedNodeSlo>) -> ResolvedNodeSlo {
    let none = NodeSloSpec::default();
    let spec = spec.unwrap_or(&none);
    let mut refused = Vec::new();
    let mut lay = |key, section: Value| {
        let usable = usable(key, &section, &mut refused);
        usable.over(&built_in(key))
    };
    let threshold = lay(Key::Threshold, json(&spec.resource_used_threshold_with_be));
    let qos = lay(Key::Qos, json(&spec.resource_qos_strategy));
    let burst = lay(Key::Burst, json(&spec.cpu_burst_strategy));
    let system = lay(Key::System, json(&spec.system_strategy));
    let qos = as_agent_sees(&qos);
    let layers = [
        (Key::Threshold, &threshold),
        (Key::Qos, &qos),
        (Key::Burst, &burst),
        (Key::System, &system),
    ];
    let mut sources = layers.into_iter().flat_map(|(key, layer)| origins(key, layer)).collect();
    let mut own = OwnSections { spec, last, refused: &mut refused, sources: &mut sources };
    let policy = NodePolicy {
        threshold: policy_of::<ThresholdPolicy>(Key::Threshold, &threshold),
        qos: policy_of::<QosPolicy>(Key::Qos, &qos),
        burst: policy_of::<BurstPolicy>(Key::Burst, &burst),
        system: policy_of::<SystemPolicy>(Key::System, &system),
        kernel: own.resolve(Key::Kernel, |policy| policy.kernel, |built_in| built_in),
        reaction: own.resolve(
            Key::Reaction,
            |policy| policy.reaction,
            |built_in: ReactionPolicy| ReactionPolicy { enable: false, ..built_in },
        ),
        switch: own.resolve(Key::Switch, |policy| policy.switch.clone(), |built_in| built_in),
        host_applications: spec.host_applications.clone(),
    };
    ResolvedNodeSlo {
        policy,
        spec: NodeSloSpec {
            resource_used_threshold_with_be: Some(threshold.typed()),
            resource_qos_strategy: Some(qos.typed()),
            cpu_burst_strategy: Some(burst.typed()),
            system_strategy: Some(system.typed()),
            host_applications: spec.host_applications.clone(),
            extensions: None,
        },
        refused,
        sources,
    }
}

/// Tidepool's own sections of a NodeSLO, read one by one.
struct OwnSections<'r> {
    spec: &'r NodeSloSpec,
    last: Option<&'r ResolvedNodeSlo>,
    refused: &'r mut Vec<RefusedField>,
    sources: &'r mut BTreeMap<String, SetValue>,
}

impl OwnSections<'_> {
    /// A section's policy: as written, or else that of `last`, or else what `unread` makes of the
    /// built-in one.
    fn resolve<T: DeserializeOwned>(
        &mut self,
        key: Key,
        of: impl Fn(&NodePolicy) -> T,
        unread: impl Fn(T) -> T,
    ) -> T {
        let section = self.spec.extensions.as_ref().and_then(|all| all.get(key.name()));
        let layer = match section {
            None => Layer::default(),
            Some(section) => match check::read_section(key, section) {
                Ok(layer) => layer,
                Err(findings) => {
                    self.refused.extend(findings.into_iter().map(|finding| RefusedField {
                        field: match finding.path {
                            Some(path) => format!("{key}.{path}"),
                            None => key.name().to_owned(),
                        },
                        value: finding.value.unwrap_or_default(),
                        rule: format!("{}; {}", finding.rule, finding.fix),
                    }));
                    return match self.last {
                        Some(last) => {
                            let prefix = format!("{key}.");
                            let own = last.sources.iter().filter(|(k, _)| k.starts_with(&prefix));
                            self.sources.extend(own.map(|(k, v)| (k.clone(), v.clone())));
                            of(&last.policy)
                        }
                        None => unread(policy_of(key, &Layer::default())),
                    };
                }
            },
        };
        self.sources.extend(origins(key, &layer.over(&built_in(key))));
        policy_of(key, &layer)
    }
}

/// Every leaf under its full name.
fn origins(key: Key, layer: &Layer) -> Vec<(String, SetValue)> {
    let named = layer.leaves().map(|(path, leaf)| {
        let value = match &leaf.value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let set_by = match &leaf.source {
            Source::Cluster => "NodeSLO".to_owned(),
            other => other.to_string(),
        };
        (format!("{key}.{}", path.join(".")), SetValue { value, set_by })
    });
    named.collect()
}

fn json(section: &impl Serialize) -> Value {
    // These shapes have only string keys; should one not serialise, its defaults hold.
    serde_json::to_value(section)
        .ok()
        .filter(Value::is_object)
        .unwrap_or_else(|| Value::Object(Map::new()))
}

/// The leaves of a section that keep their limits.
fn usable(key: Key, section: &Value, refused: &mut Vec<RefusedField>) -> Layer {
    let given = Layer::new(key, section, &Source::Cluster);
    let mut kept = Layer::default();
    for (path, leaf) in given.leaves() {
        let broken = limits(key)
            .iter()
            .filter(|limit| reaches(limit.pattern, path))
            .find(|limit| !keeps(&limit.rule, &leaf.value));
        match broken {
            None => kept.set(path.clone(), leaf.value.clone(), leaf.source.clone()),
            Some(limit) => refused.push(RefusedField {
                field: format!("{key}.{}", path.join(".")),
                value: leaf.value.to_string(),
                rule: limit.rule.to_string(),
            }),
        }
    }
    drop_crossed(key, kept, refused)
}

/// Without lower marks that are not below their upper ones.
fn drop_crossed(key: Key, given: Layer, refused: &mut Vec<RefusedField>) -> Layer {
    let whole = given.over(&built_in(key));
    let mut kept = Layer::default();
    for (path, leaf) in given.leaves() {
        let crossed = pairs(key).iter().find(|pair| {
            reaches(pair.lower, path)
                && partner(&whole, path, pair.upper)
                    .zip(leaf.value.as_i64())
                    .is_some_and(|(upper, lower)| lower >= upper)
        });
        match crossed {
            None => kept.set(path.clone(), leaf.value.clone(), leaf.source.clone()),
            Some(pair) => refused.push(RefusedField {
                field: format!("{key}.{}", path.join(".")),
                value: leaf.value.to_string(),
                rule: format!(
                    "must be below {}",
                    pair.upper.rsplit('.').next().unwrap_or(pair.upper)
                ),
            }),
        }
    }
    kept
}

/// The number at `pattern`, with its wildcards filled in from `path`.
fn partner(layer: &Layer, path: &[String], pattern: &str) -> Option<i64> {
    let names = pattern.split('.').zip(path);
    let path: Vec<&str> =
        names.map(|(name, here)| if name == "*" { here.as_str() } else { name }).collect();
    layer.get(&path)?.value.as_i64()
}

fn reaches(pattern: &str, path: &[String]) -> bool {
    let mut names = pattern.split('.');
    path.iter().all(|name| names.next().is_some_and(|part| part == "*" || part == name))
        && names.next().is_none()
}

fn keeps(rule: &Rule, value: &Value) -> bool {
    match *rule {
        Rule::Between(min, max) => value.as_i64().is_none_or(|n| (min..=max).contains(&n)),
        Rule::AtLeast(min) => value.as_i64().is_none_or(|n| n >= min),
        Rule::AboveUpTo(min, max) => value.as_f64().is_none_or(|n| n > min && n <= max),
        Rule::Ratio(min, max) => value.as_f64().is_none_or(|n| n >= min && n <= max),
        Rule::NotEmpty => value.as_str() != Some(""),
        // An unknown policy acts as the default one, which is what reading it makes of it.
        Rule::Policy { .. } | Rule::OneOf(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use units::Percent;

    use super::*;
    use crate::policy::{BurstMode, KernelMode, SuppressMechanism};

    fn spec(value: Value) -> NodeSloSpec {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn silence_means_the_defaults_with_everything_off() {
        let merged = resolve(None, None);
        assert_eq!(merged.refused, []);
        let threshold = merged.spec.resource_used_threshold_with_be.unwrap();
        assert_eq!(threshold.enable, Some(false));
        assert_eq!(threshold.cpu_suppress_threshold_percent, Some(65));
        let burst = merged.spec.cpu_burst_strategy.unwrap();
        assert_eq!((burst.cpu_burst_percent, burst.policy.as_deref()), (Some(1000), Some("none")));
        let be = merged.spec.resource_qos_strategy.unwrap().be_class.unwrap();
        assert_eq!(be.cpu_qos.unwrap().group_identity, Some(0), "off is neutral");
    }

    #[test]
    fn a_partial_section_changes_only_its_own_fields() {
        let given = spec(json!({
            "resourceUsedThresholdWithBE": { "enable": true, "cpuSuppressThresholdPercent": 80 },
            "resourceQOSStrategy": { "beClass": { "cpuQOS": { "enable": true } } },
        }));
        let merged = resolve(Some(&given), None);
        let threshold = merged.spec.resource_used_threshold_with_be.clone().unwrap();
        assert_eq!(threshold.cpu_suppress_threshold_percent, Some(80));
        assert_eq!(threshold.memory_evict_threshold_percent, Some(70));
        assert_eq!(
            merged.setting("resource-threshold-config.cpuSuppressThresholdPercent").to_string(),
            "cpuSuppressThresholdPercent = 80 (NodeSLO)"
        );
        assert_eq!(
            merged.setting("resource-threshold-config.cpuSuppressPolicy").to_string(),
            "cpuSuppressPolicy = cpuset (built-in)"
        );
        let be = merged.spec.resource_qos_strategy.unwrap().be_class.unwrap();
        assert_eq!(be.cpu_qos.unwrap().group_identity, Some(-1));
        assert_eq!(be.memory_qos.unwrap().wmark_ratio, Some(0), "still off, still neutral");
    }

    #[test]
    fn values_outside_their_limits_are_named_and_not_followed() {
        let given = spec(json!({
            "resourceUsedThresholdWithBE": {
                "cpuSuppressThresholdPercent": 650,
                "memoryEvictThresholdPercent": 60, "memoryEvictLowerPercent": 60,
            },
            "resourceQOSStrategy": { "lsClass": { "cpuQOS": { "enable": true, "groupIdentity": 9 } } },
            "cpuBurstStrategy": { "cpuBurstPercent": 0, "sharePoolThresholdPercent": 100 },
        }));
        let merged = resolve(Some(&given), None);
        let threshold = merged.spec.resource_used_threshold_with_be.unwrap();
        assert_eq!(threshold.cpu_suppress_threshold_percent, Some(65));
        assert_eq!(threshold.memory_evict_threshold_percent, Some(60));
        assert_eq!(threshold.memory_evict_lower_percent, None);
        let burst = merged.spec.cpu_burst_strategy.unwrap();
        assert_eq!(burst.cpu_burst_percent, Some(1000));
        assert_eq!(burst.share_pool_threshold_percent, Some(100), "a good neighbour stays");
        let refused: Vec<_> = merged
            .refused
            .iter()
            .map(|r| format!("{} = {}: {}", r.field, r.value, r.rule))
            .collect();
        assert_eq!(
            refused,
            [
                "resource-threshold-config.cpuSuppressThresholdPercent = 650: must be between 0 and 100",
                "resource-threshold-config.memoryEvictLowerPercent = 60: must be below memoryEvictThresholdPercent",
                "resource-qos-config.lsClass.cpuQOS.groupIdentity = 9: must be between -1 and 2",
                "cpu-burst-config.cpuBurstPercent = 0: must be between 1 and 10000",
            ]
        );
    }

    #[test]
    fn a_policy_has_every_default() {
        let policy = resolve(None, None).policy;
        let ThresholdPolicy { cpu_suppress_threshold_percent, cpu_suppress_min_percent, .. } =
            policy.threshold;
        assert_eq!(cpu_suppress_threshold_percent, Percent(65));
        assert_eq!(cpu_suppress_min_percent, None);
        assert_eq!(policy.burst.policy, BurstMode::None);
        assert_eq!(policy.burst.cfs_quota_burst_period, None, "-1 is without end");
        assert_eq!(policy.burst.share_pool_threshold_percent, Percent(50));
        assert_eq!(policy.qos.be.resctrl.cat_range_end_percent, Percent(100), "off is neutral");
        assert_eq!(QosPolicy::class_defaults().be.memory.wmark_min_adj, Some(50));
        assert_eq!((policy.kernel.mode, policy.kernel.probe), (KernelMode::Auto, true));
        assert!(policy.reaction.enable && !policy.switch.is_off);
    }

    #[test]
    fn words_are_understood_and_unknown_ones_act_as_the_default() {
        let of = |word: &str| {
            let given = spec(json!({
                "resourceUsedThresholdWithBE": { "cpuSuppressPolicy": word },
                "cpuBurstStrategy": { "policy": word, "cfsQuotaBurstPeriodSeconds": 7 },
            }));
            resolve(Some(&given), None).policy
        };
        assert_eq!(of("cfsQuota").threshold.cpu_suppress_policy, SuppressMechanism::CfsQuota);
        assert_eq!(of("CFSQuota").threshold.cpu_suppress_policy, SuppressMechanism::Cpuset);
        assert_eq!(of("auto").burst.policy, BurstMode::Auto);
        let seconds = of("x").burst.cfs_quota_burst_period.map(|period| period.as_secs());
        assert_eq!((of("x").burst.policy, seconds), (BurstMode::None, Some(7)));
    }

    #[test]
    fn a_pod_has_the_last_word_about_its_bursts() {
        let node = resolve(None, None).policy.burst;
        let own = serde_json::from_value(json!({
            "policy": "auto", "cpuBurstPercent": 200, "cfsQuotaBurstPeriodSeconds": 30,
            "sharePoolThresholdPercent": 1,
        }));
        let pod = node.with(&own.unwrap());
        assert_eq!((pod.policy, pod.cpu_burst_percent), (BurstMode::Auto, Percent(200)));
        assert_eq!(pod.cfs_quota_burst_period, Some(std::time::Duration::from_secs(30)));
        assert_eq!(pod.cfs_quota_burst_percent, Percent(300), "the node's");
        assert_eq!(pod.share_pool_threshold_percent, Percent(50), "never the pod's");
    }

    fn own(extensions: Value) -> NodeSloSpec {
        spec(json!({ "extensions": extensions }))
    }

    #[test]
    fn own_sections_are_typed() {
        let given = own(json!({
            "tidepool-kernel-config": { "mode": "p", "probe": false },
            "tidepool-reaction-config": { "dryRun": true, "freeze": { "maxSeconds": 5 } },
            "tidepool-switch-config": { "mode": "Off", "reason": "incident" },
            "vendor": { "any": "thing" },
        }));
        let resolved = resolve(Some(&given), None);
        assert_eq!(resolved.refused, []);
        let NodePolicy { kernel, reaction, switch, .. } = &resolved.policy;
        assert_eq!((kernel.mode, kernel.probe), (KernelMode::IdlePods, false));
        assert!(reaction.enable && reaction.dry_run);
        assert_eq!(reaction.freezes_for().map(|time| time.as_secs()), Some(5));
        assert!(switch.is_off && switch.reason == "incident");
        let cited = resolved.setting("tidepool-kernel-config.mode").to_string();
        assert_eq!(cited, "mode = p (NodeSLO)");
    }

    /// A switch that freezes pods is not turned on by a mistake.
    #[test]
    fn a_bad_own_section_keeps_what_was_followed_and_turns_nothing_on() {
        let off = own(json!({ "tidepool-reaction-config": { "enable": false } }));
        let off = resolve(Some(&off), None);
        let on = own(json!({ "tidepool-reaction-config": { "freeze": { "maxSeconds": 3 } } }));
        let on = resolve(Some(&on), None);
        let cases = [
            (json!({ "enable": "false" }), "tidepool-reaction-config.enable"),
            (json!({ "freze": { "enable": false } }), "tidepool-reaction-config.freze"),
            (
                json!({ "freeze": { "maxSeconds": 60 } }),
                "tidepool-reaction-config.freeze.maxSeconds",
            ),
            (json!("off"), "tidepool-reaction-config"),
        ];
        for (bad, field) in cases {
            let given = own(json!({ "tidepool-reaction-config": bad }));
            let first = resolve(Some(&given), None);
            assert!(!first.policy.reaction.enable, "{bad}");
            let fields: Vec<&str> = first.refused.iter().map(|r| r.field.as_str()).collect();
            assert_eq!(fields, [field], "{bad}");
            for last in [&off, &on] {
                let kept = resolve(Some(&given), Some(last));
                assert_eq!(kept.policy.reaction, last.policy.reaction, "{bad}");
                let setting = "tidepool-reaction-config.freeze.maxSeconds";
                assert_eq!(kept.setting(setting), last.setting(setting), "{bad}");
            }
        }
        let typo = own(json!({ "tidepool-reaction-config": { "freze": {} } }));
        let rule = &resolve(Some(&typo), None).refused[0].rule;
        assert_eq!(rule, "unknown field; did you mean freeze?");
    }
}
