//! What is written besides CPU and memory of control groups.

use std::sync::Arc;
use std::time::Duration;

use api::protocol::gate::AgentGate;
use host::block::Disk;
use host::cgroup::{DeviceNumber, Knob, Version};
use serde_json::json;

use super::rig::{POD, Pod, Rig};
use crate::series::StorageInfo;

fn with_cache(rig: &Rig) {
    for (file, text) in [
        ("schemata", "L3:0=7ff;1=7ff\nMB:0=100;1=100\n"),
        ("tasks", ""),
        ("info/L3/cbm_mask", "7ff\n"),
        ("info/L3/min_cbm_bits", "1\n"),
        ("info/L3/num_closids", "16\n"),
        ("info/MB/min_bandwidth", "10\n"),
    ] {
        rig.kernel.fake.set(format!("sys/fs/resctrl/{file}"), text);
    }
}

#[test]
fn classes_get_their_part_of_the_cache_and_give_it_back() {
    let mut rig = Rig::new(Version::V2);
    with_cache(&rig);
    let before = rig.kernel.fake.to_fixture();
    let on = json!({ "resctrlQOS": { "enable": true, "mbaPercent": 35 } });
    rig.slo(json!({ "resourceQOSStrategy": { "beClass": on } }));
    rig.tick();
    let text = |file: &str| rig.kernel.fake.text(format!("sys/fs/resctrl/{file}"));
    // The fake keeps the last line that was written, as every other file.
    assert_eq!(text("BE/schemata").unwrap(), "MB:0=40;1=40", "30 % of the ways, 40 % of the bus");
    assert_eq!(text("LS/schemata"), None, "a class that is off has no group");
    let why = rig.journal.about("node").into_iter().find(|d| d.strategy == "cache").unwrap();
    assert_eq!(why.why.headline, "BE: L3:0=f;1=f, MB:0=40;1=40");
    rig.off_by = Some("a test".to_owned());
    rig.tick();
    assert_eq!(rig.kernel.fake.to_fixture(), before);
}

#[test]
fn a_pod_s_own_part_goes_with_the_pod() {
    let mut rig = Rig::with_gates(Version::V2, &[AgentGate::Resctrl]);
    with_cache(&rig);
    let wish = r#"{"llc":{"schemata":{"range":[0,50]},"schemataPerCache":[{"cacheID":1,"range":[50,100]}]}}"#;
    let annotations = json!({ "node.koordinator.sh/resctrl": wish });
    rig.add(Pod { name: "web", annotations, ..POD });
    rig.tick();
    let text = |rig: &Rig| rig.kernel.fake.text("sys/fs/resctrl/koordlet-web/schemata");
    assert_eq!(text(&rig).unwrap(), "L3:0=3f;1=7c0");
    rig.remove("web");
    rig.tick();
    assert_eq!(text(&rig), None);
}

#[test]
fn sysctls_follow_the_configuration_and_go_back() {
    let mut rig = Rig::with_gates(Version::V2, &[AgentGate::SystemConfig]);
    rig.kernel.fake.set("proc/sys/vm/min_free_kbytes", "67584\n");
    rig.kernel.fake.set("proc/sys/vm/watermark_scale_factor", "10\n");
    rig.slo(json!({ "systemStrategy": {
        "minFreeKbytesFactor": 100, "watermarkScaleFactor": 150, "memcgReapBackGround": 1 } }));
    rig.tick();
    let text = |rig: &Rig, file: &str| rig.kernel.fake.text(format!("proc/sys/vm/{file}"));
    assert_eq!(text(&rig, "min_free_kbytes").unwrap(), "671088", "a hundredth of 64 GiB");
    assert_eq!(text(&rig, "watermark_scale_factor").unwrap(), "150");
    rig.slo(json!({ "systemStrategy": { "watermarkScaleFactor": 1 } }));
    rig.tick();
    assert_eq!(text(&rig, "min_free_kbytes").unwrap(), "67584");
    assert_eq!(text(&rig, "watermark_scale_factor").unwrap(), "10", "1 is out of range");
    assert!(rig.rounds.is_clean());
}

#[test]
fn processes_get_the_score_that_is_asked_for() {
    let mut rig = Rig::with_gates(Version::V1, &[AgentGate::OOMScoreAdj]);
    let annotations = json!({ "koordinator.sh/oom-score-adj": "-200" });
    let web = rig.add(Pod { name: "web", annotations, ..POD });
    let procs = rig.tree.main_dir(&web.child("web")).join("cgroup.procs");
    rig.kernel.fake.set(procs, "7\n");
    rig.kernel.fake.set("proc/7/oom_score_adj", "900\n");
    rig.tick();
    assert_eq!(rig.kernel.fake.text("proc/7/oom_score_adj").unwrap(), "-200");
    rig.off_by = Some("a test".to_owned());
    rig.tick();
    assert_eq!(rig.kernel.fake.text("proc/7/oom_score_adj").unwrap(), "900");
}

#[test]
fn disks_of_best_effort_are_limited_and_freed_again() {
    let mut rig = Rig::with_gates(Version::V1, &[AgentGate::BlkIOReconcile]);
    rig.kernel.fake.set("sys/fs/cgroup/blkio/cgroup.procs", "");
    // The hierarchy is new: the machine is looked at again.
    rig.find_tree_again();
    let disk = Disk {
        name: "sda".to_owned(),
        number: DeviceNumber { major: 8, minor: 0 },
        partitions: Vec::new(),
        made_of: Vec::new(),
        mapped_name: None,
    };
    let storage = StorageInfo { at: Duration::ZERO, disks: vec![disk], mounts: Vec::new() };
    rig.metrics.lock().facts.storage = Some(Arc::new(storage));
    let block = |name: &str| json!({ "name": name, "type": "device", "ioCfg": { "readBPS": 1_048_576, "writeBPS": 0 } });
    let io = json!({ "enable": true, "blocks": [block("/dev/sda"), block("/dev/none")] });
    rig.slo(json!({ "resourceQOSStrategy": { "beClass": { "blkioQOS": io } } }));
    rig.tick();
    let tier = rig.tier();
    assert_eq!(rig.text(&tier, Knob::ReadBps), "8:0 1048576");
    assert_eq!(rig.text(&tier, Knob::WriteBps), "", "0 is no limit");
    rig.slo(json!({}));
    rig.tick();
    assert_eq!(rig.text(&tier, Knob::ReadBps), "8:0 0", "which is how v1 is told");
    assert!(rig.rounds.is_clean());
}
