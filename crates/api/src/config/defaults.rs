//! What holds when nothing is configured.
//!
//! Two places fill gaps. The manager starts each key from its built-in default.
//! For `resource-qos-config` that default is empty, and the node agent fills in
//! class values itself, then puts neutral values where a feature is off, so
//! that switching it off resets the kernel instead of leaving the last setting.

use serde_json::{Value as Json, json};

use super::{Key, Layer, Source};

/// The manager's default of a key.
pub fn built_in(key: Key) -> Layer {
    let value = match key {
        Key::Colocation => json!({
            "enable": false,
            "metricAggregateDurationSeconds": 300,
            "metricReportIntervalSeconds": 60,
            "metricAggregatePolicy": {"durations": ["5m0s", "10m0s", "30m0s"]},
            "metricMemoryCollectPolicy": "usageWithoutPageCache",
            "cpuReclaimThresholdPercent": 60,
            "cpuCalculatePolicy": "usage",
            "memoryReclaimThresholdPercent": 65,
            "memoryCalculatePolicy": "usage",
            "degradeTimeMinutes": 15,
            "updateTimeThresholdSeconds": 300,
            "resourceDiffThreshold": 0.1,
            "midCPUThresholdPercent": 100,
            "midMemoryThresholdPercent": 100,
            "midUnallocatedPercent": 0,
            "midStaticCPUReservedPercent": 0,
            "midStaticMemoryReservedPercent": 0,
        }),
        Key::Threshold => json!({
            "enable": false,
            "cpuSuppressThresholdPercent": 65,
            "cpuSuppressPolicy": "cpuset",
            "memoryEvictThresholdPercent": 70,
            "cpuEvictPolicy": "evictByRealLimit",
        }),
        Key::Burst => json!({
            "policy": "none",
            "cpuBurstPercent": 1000,
            "cfsQuotaBurstPercent": 300,
            "cfsQuotaBurstPeriodSeconds": -1,
            "sharePoolThresholdPercent": 50,
        }),
        Key::System => json!({"totalNetworkBandwidth": "0"}),
        Key::Qos | Key::HostApplication => json!({}),
        Key::Normalization | Key::Amplification => json!({"enable": false}),
        Key::Kernel => json!({"mode": "auto", "probe": true}),
        Key::Reaction => json!({
            "enable": true,
            "dryRun": false,
            "freeze": {"enable": true, "maxSeconds": 2},
        }),
        Key::Switch => json!({"mode": "on"}),
    };
    Layer::new(key, &value, &Source::BuiltIn)
}

/// What the agent assumes for `resource-qos-config` where the NodeSLO is silent.
pub fn agent_qos() -> Layer {
    let value = json!({
        "policies": {"cpuPolicy": "groupIdentity", "netQOSPolicy": "tc"},
        "lsrClass": class(2, true, [95, 20, -25], 100),
        "lsClass": class(2, true, [95, 20, -25], 100),
        "beClass": class(-1, false, [95, 20, 50], 30),
        "systemClass": class(0, false, [0, 50, 0], 100),
    });
    Layer::new(Key::Qos, &value, &Source::AgentDefault)
}

/// The agent's neutral values of a class whose features are off.
fn neutral() -> Json {
    let mut class = class(0, false, [0, 50, 0], 100);
    if let Some(features) = class.as_object_mut() {
        features.remove("networkQOS");
        features.remove("blkioQOS");
    }
    class
}

fn class(identity: i64, expeller: bool, [ratio, scale, adj]: [i64; 3], cat_end: i64) -> Json {
    json!({
        "cpuQOS": {
            "enable": false,
            "groupIdentity": identity,
            "schedIdle": 0,
            "coreExpeller": expeller,
        },
        "memoryQOS": {
            "enable": false,
            "minLimitPercent": 0,
            "lowLimitPercent": 0,
            "throttlingPercent": 0,
            "wmarkRatio": ratio,
            "wmarkScalePermill": scale,
            "wmarkMinAdj": adj,
            "priorityEnable": 0,
            "priority": 0,
            "oomKillGroup": 0,
        },
        "resctrlQOS": {
            "enable": false,
            "catRangeStartPercent": 0,
            "catRangeEndPercent": cat_end,
            "mbaPercent": 100,
        },
        "blkioQOS": {"enable": false},
        "networkQOS": {
            "enable": false,
            "ingressRequest": 0,
            "ingressLimit": 0,
            "egressRequest": 0,
            "egressLimit": 0,
        },
    })
}

/// What the agent acts on: its defaults under the NodeSLO's strategy, and
/// neutral values for CPU, memory and resctrl features of LSR, LS and BE that
/// are off. SYSTEM, block IO and network keep what they say.
pub fn as_agent_sees(qos: &Layer) -> Layer {
    let mut seen = qos.over(&agent_qos());
    let neutral = neutral();
    for class in ["lsrClass", "lsClass", "beClass"] {
        for feature in ["cpuQOS", "memoryQOS", "resctrlQOS"] {
            let enabled = seen.get(&[class, feature, "enable"]);
            if enabled.is_some_and(|leaf| leaf.value == Json::Bool(true)) {
                continue;
            }
            let Some(values) = neutral[feature].as_object() else { continue };
            for (field, value) in values.iter().filter(|(field, _)| *field != "enable") {
                let path = vec![class.to_owned(), feature.to_owned(), field.clone()];
                let same =
                    seen.get(&[class, feature, field]).is_some_and(|leaf| leaf.value == *value);
                if !same {
                    seen.set(path, value.clone(), Source::AgentNeutral);
                }
            }
        }
    }
    seen
}
