//! Memory is called short: who leaves, and with which words?
//!
//! The machine's memory is never at risk: the threshold comes down to what is used, not the other way
//! round.

use std::fs;

use serde_json::{Value, json};

use crate::existing::threshold;
use crate::rig::{Rig, WORK};
use crate::seen::{brief, events, pods, ready, until};

const HELD: u32 = 200;

fn pod(name: &str, qos: &str, class: &str, mib: u32) -> String {
    let script = format!("dd if=/dev/zero bs={mib}M count=1 | sleep 100000");
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": WORK,
            "labels": {"app": name, "koordinator.sh/qosClass": qos}},
        "spec": {
            "schedulerName": "koord-scheduler", "priorityClassName": class,
            "terminationGracePeriodSeconds": 5,
            "containers": [{"name": "c", "image": "localhost/busybox:dev",
                "command": ["sh", "-c", script]}],
        },
    })
    .to_string()
}

/// Percent of the machine's memory that is used.
fn used() -> i64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap();
    let kib = |key: &str| -> i64 {
        let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim_start_matches(':').trim_end_matches("kB").trim().parse().unwrap()
    };
    (kib("MemTotal") - kib("MemAvailable")) * 100 / kib("MemTotal")
}

pub(crate) fn hog(rig: &Rig) {
    rig.clear();
    let both = [pod("hog", "BE", "koord-batch", HELD), pod("web", "LS", "koord-prod", 20)];
    rig.apply(&both.join("\n---\n"));
    ready(rig, WORK, "app=hog", 1);
    let web = ready(rig, WORK, "app=web", 1).remove(0);
    let percent = (used() - 3).max(2);
    let tight = json!({"clusterStrategy": {"enable": true,
        "memoryEvictThresholdPercent": percent, "memoryEvictLowerPercent": percent - 1}});
    rig.configure("resource-threshold-config", &tight.to_string());

    until(rig, "the hog has left", || {
        let left = pods(rig, WORK, "app=hog")?;
        let is_leaving = |pod: &Value| !pod["metadata"]["deletionTimestamp"].is_null();
        if left.iter().all(is_leaving) { Ok(()) } else { Err(left.iter().map(brief).collect()) }
    });
    rig.configure("resource-threshold-config", &threshold().to_string());
    until(rig, "it was told, and others heard of it", || {
        let told = events(rig, WORK, "hog");
        let has = |reason: &str| told.iter().any(|event| event.starts_with(reason));
        if has("EvictionNotice: ") && has("evictPodSuccess: ") {
            Ok(())
        } else {
            Err(told.join("\n"))
        }
    });
    let stays = ready(rig, WORK, "app=web", 1).remove(0);
    assert_eq!(stays["metadata"]["uid"], web["metadata"]["uid"]);
    assert_eq!(stays["status"]["containerStatuses"][0]["restartCount"], 0);
    let told = events(rig, WORK, "web");
    assert!(!told.iter().any(|event| event.to_lowercase().contains("evict")), "{told:?}");
}
