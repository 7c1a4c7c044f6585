//! The online side waits for memory.

use std::time::Duration;

use groups::{CgroupPath, Knob, Version};
use serde_json::json;
use units::Bytes;

use super::rig::{POD, Pod, Rig};
use crate::series::MemoryRoom;

const QUARTER: Duration = Duration::from_millis(250);

struct Node {
    rig: Rig,
    job: CgroupPath,
    better: CgroupPath,
    stalled: Duration,
}

impl Node {
    fn new(version: Version, extensions: serde_json::Value) -> Self {
        let mut rig = Rig::new(version);
        rig.slo(json!({
            "resourceUsedThresholdWithBE": { "enable": true },
            "extensions": extensions,
        }));
        let mut add = |name, priority| {
            rig.add_with(Pod { name, qos: "BE", ..POD }, &json!({}), Some(priority))
        };
        let (job, better) = (add("job", 5_000), add("better", 5_999));
        rig.add(Pod { name: "web", ..POD });
        let tier = rig.tree.main_dir(&rig.tier()).join("memory.reclaim");
        if version == Version::V2 {
            rig.kernel.fake.set(tier, "");
        }
        let mut node = Self { rig, job, better, stalled: Duration::ZERO };
        for _ in 0..8 {
            node.look(0);
        }
        node
    }

    /// A quarter of a second in which the online side stood still for so many milliseconds.
    fn look(&mut self, stalled: u64) {
        self.stalled += Duration::from_millis(stalled);
        let total = self.stalled.as_micros();
        let group = self.rig.layout.class(api::qos::KubeQos::Burstable);
        let file = self.rig.tree.main_dir(&group).join("memory.pressure");
        let line = format!("avg10=0.00 avg60=0.00 avg300=0.00 total={total}\n");
        self.rig.kernel.fake.set(file, format!("some {line}full {line}"));
        self.rig.step(QUARTER);
    }

    fn room(&mut self, used: i64) {
        let room =
            MemoryRoom { at: self.rig.now, used: Bytes(used), capacity: Bytes::from_gib(64) };
        self.rig.metrics.lock().facts.memory = Some(room);
    }

    fn reclaimed(&self) -> Option<String> {
        let page = self.rig.journal.page();
        let mut all = page.changes.iter().filter(|change| change.file.ends_with("memory-reclaim"));
        all.next().map(|change| change.new.clone())
    }

    fn headline(&self) -> Option<String> {
        let all = self.rig.journal.about("node");
        all.into_iter().find(|one| one.strategy == "emergency").map(|one| one.why.headline)
    }

    fn frozen(&self) -> [String; 2] {
        [&self.job, &self.better].map(|group| self.rig.text(group, Knob::Frozen))
    }
}

#[test]
fn memory_is_reclaimed_then_the_lowest_stand_still_and_thaw_by_themselves() {
    let mut node = Node::new(Version::V2, json!({}));
    assert_eq!(node.headline(), None, "calm");
    node.look(40);
    assert_eq!(node.reclaimed().as_deref(), Some("1374389534"), "2 % of 64 GiB");
    let why = "best-effort gives memory back: the online side stood still for 40 of 1000 ms";
    assert_eq!(node.headline().as_deref(), Some(why));
    for _ in 0..3 {
        node.look(40);
        assert_eq!(node.frozen(), ["0", "0"]);
    }
    node.look(40);
    assert_eq!(node.frozen(), ["1", "0"], "only the lowest priority");
    for _ in 0..7 {
        node.look(40);
        assert_eq!(node.frozen(), ["1", "0"]);
    }
    node.look(40);
    assert_eq!(node.frozen(), ["0", "0"], "two seconds are the most");
    for _ in 0..8 {
        node.look(0);
    }
    assert_eq!((node.headline(), node.frozen()), (None, ["0".to_owned(), "0".to_owned()]));
}

#[test]
fn off_and_a_new_life_leave_nobody_frozen() {
    let mut node = Node::new(Version::V2, json!({}));
    let before =
        node.rig.kernel.fake.text("sys/fs/cgroup/kubepods/besteffort/podjob/cgroup.freeze");
    for _ in 0..5 {
        node.look(40);
    }
    assert_eq!(node.frozen(), ["1", "0"]);
    node.rig.restart();
    node.look(0);
    node.look(0);
    assert_eq!(node.frozen(), ["0", "0"], "the ledger knew");
    for _ in 0..5 {
        node.look(100);
    }
    assert_eq!(node.frozen(), ["1", "0"]);
    node.rig.off_by = Some("a test".to_owned());
    node.look(100);
    assert_eq!(node.frozen(), ["0", "0"]);
    let after = node.rig.kernel.fake.text("sys/fs/cgroup/kubepods/besteffort/podjob/cgroup.freeze");
    assert_eq!(after, before);
    assert!(node.rig.rounds.is_clean());
}

#[test]
fn without_pressure_only_memory_that_ran_out_counts() {
    let mut node = Node::new(Version::V1, json!({}));
    node.rig.kernel.fake.set("sys/fs/cgroup/freezer/cgroup.procs", "");
    node.rig.find_tree_again();
    for pod in ["podjob", "podbetter"] {
        let group = node.rig.tier().child(pod);
        node.rig.tree.make(&group).unwrap();
    }
    node.room(62 << 30);
    node.look(0);
    assert_eq!(node.headline(), None, "2 of 64 GiB are enough");
    node.room(63 << 30);
    node.look(0);
    assert_eq!(node.frozen(), ["FROZEN", "THAWED"]);
    let why = "1 best-effort pods stand still: the online side stood still for 0 of 1000 ms, \
               1Gi are available";
    assert_eq!(node.headline().as_deref(), Some(why));
    node.room(32 << 30);
    node.look(0);
    assert_eq!(node.frozen(), ["THAWED", "THAWED"]);
}

#[test]
fn operators_turn_it_off_or_only_look() {
    let cases = [
        ("off", json!({ "enable": false }), false, false),
        ("a dry run", json!({ "dryRun": true }), false, true),
        ("no freezing", json!({ "freeze": { "enable": false } }), false, true),
        ("as it is", json!({}), true, true),
    ];
    for (name, config, freezes, tells) in cases {
        let mut node = Node::new(Version::V2, json!({ "tidepool-reaction-config": config }));
        for _ in 0..5 {
            node.look(40);
        }
        assert_eq!(node.frozen()[0] == "1", freezes, "{name}");
        assert_eq!(node.headline().is_some(), tells, "{name}");
        assert_eq!(node.reclaimed().is_some(), tells && name != "a dry run", "{name}");
    }
}
