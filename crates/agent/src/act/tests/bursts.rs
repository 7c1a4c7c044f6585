//! Online containers beyond their limit.

use groups::{CgroupPath, Knob, Version};
use serde_json::{Value, json};

use super::rig::{POD, Pod, Rig};
use crate::series::{Measure, Subject};

fn limited(name: &'static str, annotations: Value) -> Pod {
    let resources = json!({ "limits": { "cpu": "2" }, "requests": { "cpu": "1" } });
    Pod { name, resources, annotations, ..POD }
}

/// As a kubelet would have made it.
fn with_quota(rig: &Rig, group: &CgroupPath, name: &str) {
    let at = |group: &CgroupPath| {
        let setting = groups::Setting::Limit(groups::Limit::At(200_000));
        rig.tree.set(group, Knob::CfsQuota, &setting).unwrap();
    };
    at(group);
    at(&group.child(name));
}

fn bursting(policy: &str) -> Value {
    json!({ "cpuBurstStrategy": { "policy": policy } })
}

fn quota(rig: &Rig, group: &CgroupPath) -> i64 {
    let text = rig.text(group, Knob::CfsQuota);
    text.split(' ').next().unwrap().parse().unwrap_or(-1)
}

#[test]
fn a_throttled_container_climbs_and_comes_down_when_the_node_is_busy() {
    for version in [Version::V1, Version::V2] {
        let mut rig = Rig::new(version);
        rig.slo(bursting("auto"));
        let group = rig.add(limited("web", Value::Null));
        with_quota(&rig, &group, "web");
        rig.uses("web", 1.0);
        let mut climb = Vec::new();
        for _ in 0..8 {
            let at = rig.now + std::time::Duration::from_secs(1);
            let subject = Subject::Container("containerd://web");
            rig.metrics.lock().push(subject, Measure::Throttled, at, 0.5);
            rig.tick();
            climb.push(quota(&rig, &group.child("web")));
        }
        let want = [240_000, 288_000, 345_600, 414_720, 497_664, 597_196, 600_000, 600_000];
        assert_eq!(climb, want, "{version:?}");
        assert_eq!(quota(&rig, &group), 600_000, "the pod follows, {version:?}");
        let burst = |group: &CgroupPath| rig.text(group, Knob::CfsBurst);
        assert_eq!(burst(&group.child("web")), "600000", "as much as mainline takes, {version:?}");

        rig.uses("web", 16.0);
        for _ in 0..15 {
            rig.tick();
        }
        assert_eq!(quota(&rig, &group.child("web")), 200_000, "{version:?}");
        assert_eq!(quota(&rig, &group), 200_000, "{version:?}");
        rig.slo(json!({}));
        rig.tick();
        assert_eq!(rig.text(&group.child("web"), Knob::CfsBurst), "0", "{version:?}");
        assert!(rig.rounds.is_clean(), "{version:?}");
    }
}

#[test]
fn a_pod_may_opt_out_or_in() {
    let mut rig = Rig::new(Version::V2);
    rig.slo(bursting("cpuBurstOnly"));
    let annotation = |text: &str| json!({ "koordinator.sh/cpuBurst": text });
    let out = rig.add(limited("out", annotation(r#"{"policy":"none"}"#)));
    let half = rig.add(limited("half", annotation(r#"{"cpuBurstPercent":50}"#)));
    let broken = rig.add(limited("broken", annotation("{")));
    for (group, name) in [(&out, "out"), (&half, "half"), (&broken, "broken")] {
        with_quota(&rig, group, name);
    }
    rig.tick();
    let burst = |group: &CgroupPath, name| rig.text(&group.child(name), Knob::CfsBurst);
    assert_eq!(burst(&out, "out"), "0");
    assert_eq!(burst(&half, "half"), "100000");
    assert_eq!(burst(&broken, "broken"), "200000", "the node's strategy holds");
}
