//! How should this node treat its pods?
//!
//! The NodeSLO comes rendered by the manager and is still laid over the built-in defaults, field by
//! field, because an older manager leaves fields out. A value outside its limits counts as absent:
//! the default below it shows through. Features that are off get neutral values, so that switching
//! one off resets the kernel. Extensions that nobody here knows are dropped.

use std::collections::BTreeMap;

use api::config::defaults::{as_agent_sees, built_in};
use api::config::limits::{Rule, limits, pairs};
use api::config::{Key, Layer, Source};
use api::kind::node_slo::NodeSloSpec;
use api::priority::PriorityClass;
use api::qos::{KubeQos, QosClass};
use api::strategy::HostApplicationSpec;
use api::why::{SetValue, Setting};
use groups::{CgroupPath, Layout};
use serde::Serialize;
use serde_json::Value;

use crate::view::HostApplicationView;

/// Extensions we know begin so; those of others are none of our business.
const OUR_EXTENSIONS: &str = "tidepool-";

/// What the node follows, and which fields of the NodeSLO it had to leave out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Merged {
    pub spec: NodeSloSpec,
    pub refused: Vec<Refused>,
    /// Where each value comes from, by ConfigMap key and path: `cpu-burst-config.policy`.
    pub sources: BTreeMap<String, SetValue>,
}

impl Merged {
    /// One setting with its value and who set it.
    pub fn setting(&self, setting: &str) -> Setting {
        let name = setting.rsplit('.').next().unwrap_or(setting);
        Setting { name: name.to_owned(), value: self.sources.get(setting).cloned() }
    }
}

/// A field whose value breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Below `spec`, joined by dots.
    pub field: String,
    pub value: String,
    pub rule: String,
}

/// The spec laid over the defaults; `None` is an object that is not there.
pub fn merge(spec: Option<&NodeSloSpec>) -> Merged {
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
    Merged {
        sources: layers.into_iter().flat_map(|(key, layer)| origins(key, layer)).collect(),
        spec: NodeSloSpec {
            resource_used_threshold_with_be: Some(threshold.typed()),
            resource_qos_strategy: Some(qos.typed()),
            cpu_burst_strategy: Some(burst.typed()),
            system_strategy: Some(system.typed()),
            host_applications: spec.host_applications.clone(),
            extensions: spec.extensions.as_ref().map(|all| {
                let ours = all.iter().filter(|(key, _)| key.starts_with(OUR_EXTENSIONS));
                ours.map(|(key, value)| (key.clone(), value.clone())).collect()
            }),
        },
        refused,
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
        .unwrap_or_else(|| Value::Object(Default::default()))
}

/// The leaves of a section that keep their limits.
fn usable(key: Key, section: &Value, refused: &mut Vec<Refused>) -> Layer {
    let given = Layer::new(key, section, &Source::Cluster);
    let mut kept = Layer::default();
    for (path, leaf) in given.leaves() {
        let broken = limits(key)
            .iter()
            .filter(|limit| reaches(limit.pattern, path))
            .find(|limit| !keeps(&limit.rule, &leaf.value));
        match broken {
            None => kept.set(path.clone(), leaf.value.clone(), leaf.source.clone()),
            Some(limit) => refused.push(Refused {
                field: format!("{key}.{}", path.join(".")),
                value: leaf.value.to_string(),
                rule: limit.rule.to_string(),
            }),
        }
    }
    drop_crossed(key, kept, refused)
}

/// Without lower marks that are not below their upper ones.
fn drop_crossed(key: Key, given: Layer, refused: &mut Vec<Refused>) -> Layer {
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
            Some(pair) => refused.push(Refused {
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
        // An unknown policy acts as the default one; who follows it knows that.
        Rule::Policy { .. } => true,
    }
}

/// The applications outside Kubernetes, with the directories they run in.
pub fn host_applications(
    applications: &[HostApplicationSpec],
    layout: &Layout,
) -> Vec<HostApplicationView> {
    let named = applications.iter().filter_map(|application| {
        let name = application.name.as_deref().filter(|name| !name.is_empty())?;
        Some((name, application))
    });
    named
        .map(|(name, application)| {
            let qos = application.qos.as_deref().and_then(QosClass::from_word);
            HostApplicationView {
                name: name.to_owned(),
                priority: application.priority.as_deref().and_then(PriorityClass::from_word),
                qos,
                cgroup: application_cgroup(name, qos, application, layout),
            }
        })
        .collect()
}

fn application_cgroup(
    name: &str,
    qos: Option<QosClass>,
    application: &HostApplicationSpec,
    layout: &Layout,
) -> String {
    let Some(path) = &application.cgroup_path else {
        return match qos {
            Some(QosClass::Lse | QosClass::Lsr | QosClass::Ls) => {
                format!("host-latency-sensitive/{name}")
            }
            Some(QosClass::Be) => format!("host-best-effort/{name}"),
            Some(QosClass::System) | None => name.to_owned(),
        };
    };
    let base = match path.base.as_deref() {
        Some("Kubepods") => layout.kubepods(),
        Some("KubepodsBurstable") => layout.class(KubeQos::Burstable),
        Some("KubepodsBesteffort") => layout.class(KubeQos::BestEffort),
        _ => CgroupPath::root(),
    };
    let parts = [path.parent_dir.as_deref(), path.relative_path.as_deref()];
    let below = parts.into_iter().flatten().collect::<Vec<_>>().join("/");
    CgroupPath::new(&format!("{}/{below}", base.as_str())).as_str().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(value: Value) -> NodeSloSpec {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn silence_means_the_defaults_with_everything_off() {
        let merged = merge(None);
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
        let merged = merge(Some(&given));
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
        let merged = merge(Some(&given));
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
    fn applications_run_where_their_class_or_path_says() {
        let layout = Layout::new(groups::Driver::Cgroupfs);
        let cases = [
            (json!({ "name": "a", "qos": "LS" }), "host-latency-sensitive/a"),
            (json!({ "name": "a", "qos": "LSE" }), "host-latency-sensitive/a"),
            (json!({ "name": "a", "qos": "BE" }), "host-best-effort/a"),
            (json!({ "name": "a", "qos": "SYSTEM" }), "a"),
            (json!({ "name": "a" }), "a"),
            (
                json!({ "name": "a", "cgroupPath": { "base": "CgroupRoot", "parentDir": "/x/", "relativePath": "y" } }),
                "x/y",
            ),
            (
                json!({ "name": "a", "cgroupPath": { "base": "KubepodsBesteffort", "relativePath": "y" } }),
                "kubepods/besteffort/y",
            ),
            (
                json!({ "name": "a", "cgroupPath": { "base": "Kubepods", "relativePath": "../../y" } }),
                "kubepods/y",
            ),
        ];
        for (application, want) in cases {
            let spec = serde_json::from_value(application.clone()).unwrap();
            let views = host_applications(&[spec], &layout);
            assert_eq!(views[0].cgroup, want, "{application}");
        }
        let nameless = serde_json::from_value(json!({ "qos": "BE" })).unwrap();
        assert_eq!(host_applications(&[nameless], &layout), []);
    }
}
