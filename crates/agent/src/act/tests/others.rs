//! What is written besides CPU and memory of control groups.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::protocol::gate::AgentGate;
use groups::Disk;
use groups::{DeviceNumber, Knob, Version};
use serde_json::json;

use super::super::switch;
use super::super::writer::Devices;
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
    let parts = "L3:0=f;1=f\nMB:0=40;1=40";
    assert_eq!(text("BE/schemata").unwrap(), parts, "30 % of the ways, 40 % of the bus");
    assert_eq!(text("LS/schemata"), None, "a class that is off has no group");
    let why = rig.journal.about("node").into_iter().find(|d| d.strategy == "cache").unwrap();
    assert_eq!(why.why.headline, "BE: L3:0=f;1=f, MB:0=40;1=40");
    rig.off_by = Some("a test".to_owned());
    rig.tick();
    assert_eq!(rig.kernel.fake.to_fixture(), before);
}

fn dividing() -> serde_json::Value {
    let on = json!({ "resctrlQOS": { "enable": true, "mbaPercent": 35 } });
    json!({ "resourceQOSStrategy": { "beClass": on } })
}

/// A best-effort pod with a thread.
fn add_job(rig: &mut Rig) {
    let job = rig.add(Pod { name: "job", qos: "BE", ..POD });
    let threads = rig.tree.main_dir(&job.child("job")).join("cgroup.threads");
    rig.kernel.fake.set(threads, "9\n");
    rig.kernel.fake.set("sys/fs/resctrl/tasks", "1\n9\n");
}

#[test]
fn a_group_that_somebody_else_made_gets_back_what_it_had() {
    let mut rig = Rig::new(Version::V2);
    with_cache(&rig);
    add_job(&mut rig);
    rig.kernel.fake.set("sys/fs/resctrl/BE/schemata", "L3:0=7f0;1=7f0\nMB:0=50;1=50\n");
    rig.kernel.fake.set("sys/fs/resctrl/BE/tasks", "7\n");
    let before = rig.kernel.fake.to_fixture();
    let resctrl = |rig: &Rig| {
        let text = rig.kernel.fake.to_fixture();
        let at = text.find("-- sys/fs/resctrl").unwrap();
        text[at..].to_owned()
    };
    let untouched = resctrl(&rig);
    rig.tick();
    assert_eq!(resctrl(&rig), untouched, "nobody asked for the cache to be divided");
    rig.slo(dividing());
    rig.tick();
    let text = |rig: &Rig, file: &str| rig.kernel.fake.text(format!("sys/fs/resctrl/{file}"));
    assert_eq!(text(&rig, "BE/schemata").unwrap(), "L3:0=f;1=f\nMB:0=40;1=40");
    assert_eq!(text(&rig, "BE/tasks").unwrap(), "7\n9");
    rig.restart();
    rig.tick();
    rig.off_by = Some("a test".to_owned());
    rig.tick();
    assert_eq!(rig.kernel.fake.to_fixture(), before);
    assert!(rig.rounds.is_clean());
}

#[test]
fn off_without_an_agent_gives_the_cache_back_too() {
    for made_by_us in [true, false] {
        let mut rig = Rig::new(Version::V2);
        with_cache(&rig);
        add_job(&mut rig);
        if !made_by_us {
            rig.kernel.fake.set("sys/fs/resctrl/BE/schemata", "L3:0=7f0;1=7f0\nMB:0=50;1=50\n");
            rig.kernel.fake.set("sys/fs/resctrl/BE/tasks", "");
        }
        let before = rig.kernel.fake.to_fixture();
        rig.slo(dividing());
        rig.tick();
        assert_ne!(rig.kernel.fake.to_fixture(), before);
        let end = Instant::now() + Duration::from_secs(5);
        switch::restore(rig.state(), &rig.tree, Devices::of(&rig.tree), end).unwrap();
        assert_eq!(rig.kernel.fake.to_fixture(), before, "made by us: {made_by_us}");
    }
}

#[test]
fn a_group_is_not_touched_when_that_cannot_be_remembered() {
    let mut rig = Rig::new(Version::V2);
    with_cache(&rig);
    rig.fill_disk();
    let before = rig.kernel.fake.to_fixture();
    rig.slo(dividing());
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
    assert_eq!(text(&rig).unwrap(), "L3:0=3f;1=7c0\nMB:0=100;1=100");
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
    let storage =
        StorageInfo { at: Duration::ZERO, disks: Arc::new(vec![disk]), mounts: Vec::new() };
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
