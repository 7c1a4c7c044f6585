//! Off, and what is left behind.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use api::decisions::ChangeOutcome;
use groups::{Knob, Setting, Version};
use proptest::prelude::*;
use serde_json::json;

use super::super::switch::{self, Off};
use super::everything::{Everything, slo};
use super::rig::{POD, Pod, Rig, suppressing};

fn busy(version: Version) -> Rig {
    let mut rig = Rig::new(version);
    rig.slo(json!({
        "resourceUsedThresholdWithBE": { "enable": true },
        "cpuBurstStrategy": { "policy": "auto" },
        "resourceQOSStrategy": { "beClass": { "cpuQOS": { "enable": true } } },
    }));
    let batch = json!({ "limits": { "kubernetes.io/batch-cpu": "2k", "kubernetes.io/batch-memory": "1Gi" } });
    rig.add(Pod { name: "job", qos: "BE", resources: batch, ..POD });
    rig.add(Pod { name: "lse", qos: "LSE", cpus: "0-1", ..POD });
    let limit = json!({ "limits": { "cpu": "2" } });
    let web = rig.add(Pod { name: "web", resources: limit, ..POD });
    let quota = Setting::Limit(groups::Limit::At(200_000));
    for group in [web.clone(), web.child("web")] {
        rig.tree.set(&group, Knob::CfsQuota, &quota).unwrap();
    }
    rig
}

#[test]
fn off_gives_every_file_back_and_on_takes_up_again() {
    for version in [Version::V1, Version::V2] {
        let mut rig = busy(version);
        let before = rig.kernel.fake.to_fixture();
        rig.uses("web", 8.0);
        for _ in 0..5 {
            rig.tick();
        }
        let during = rig.kernel.fake.to_fixture();
        assert_ne!(during, before);
        rig.off_by = Some("a test".to_owned());
        rig.tick();
        assert_eq!(rig.kernel.fake.to_fixture(), before, "{version:?}");
        let switch = rig.journal.switch();
        assert_eq!((switch.is_on, switch.dirty), (false, 0));
        assert_eq!(rig.journal.page().decisions, []);
        for _ in 0..5 {
            rig.tick();
        }
        assert_eq!(rig.kernel.fake.to_fixture(), before, "and it stays so, {version:?}");
        rig.off_by = None;
        for _ in 0..20 {
            rig.tick();
        }
        assert_eq!(rig.kernel.fake.to_fixture(), during, "{version:?}");
    }
}

#[test]
fn a_new_agent_waits_for_the_cluster_and_keeps_what_the_last_one_left() {
    let mut rig = busy(Version::V1);
    rig.uses("web", 8.0);
    for _ in 0..5 {
        rig.tick();
    }
    let during = rig.kernel.fake.to_fixture();
    rig.restart();
    for _ in 0..3 {
        rig.tick();
    }
    assert_eq!(rig.kernel.fake.to_fixture(), during);
}

#[test]
fn a_value_set_by_hand_is_kept_and_the_rest_given_back() {
    let mut rig = busy(Version::V2);
    rig.uses("web", 8.0);
    rig.tick();
    let tier = rig.tier();
    let ours: units::CpuSet = "7".parse().unwrap();
    rig.tree.set(&tier, Knob::CpusetCpus, &Setting::Cpus(ours)).unwrap();
    for _ in 0..70 {
        rig.tick();
    }
    assert_eq!(rig.cpus(&tier), "7");
    let page = rig.journal.page();
    assert!(
        page.changes.iter().any(|change| change.outcome == ChangeOutcome::Overridden),
        "{page:?}"
    );
    rig.off_by = Some("a test".to_owned());
    rig.tick();
    assert_eq!(rig.cpus(&tier), "7");
    assert!(rig.rounds.is_clean());
}

#[test]
fn systemd_s_reset_of_the_tier_is_answered_within_two_seconds() {
    let mut rig = busy(Version::V2);
    rig.slo(suppressing("cfsQuota"));
    rig.uses("web", 4.0);
    for _ in 0..3 {
        rig.tick();
    }
    let tier = rig.tier();
    let quota = rig.text(&tier, Knob::CfsQuota);
    assert!(!quota.starts_with("max"), "{quota}");
    rig.tree.set(&tier, Knob::CfsQuota, &Setting::Limit(groups::Limit::Max)).unwrap();
    rig.tick();
    rig.tick();
    assert_eq!(rig.text(&tier, Knob::CfsQuota), quota);
}

/// What the names of held targets begin with, so that no kind is missing.
fn kinds(node: &Everything) -> BTreeSet<String> {
    let held = node.rig.rounds.arbiter().held();
    let kind = |name: String| match name.split_once(':') {
        Some((kind @ ("resctrl" | "core-cookie" | "qdisc"), _)) => kind.to_owned(),
        Some((_, "HRTICK")) => "word".to_owned(),
        Some(_) => "knob".to_owned(),
        None if name.starts_with("/var/lib/terway") => "terway".to_owned(),
        None => "file".to_owned(),
    };
    held.iter().map(|target| kind(target.to_string())).collect()
}

fn all_kinds(network: &str) -> BTreeSet<String> {
    let kinds = ["knob", "file", "word", "resctrl", "core-cookie", network];
    kinds.map(str::to_owned).into()
}

#[test]
fn off_gives_every_kind_back_and_on_takes_up_again() {
    for version in [Version::V1, Version::V2] {
        for (policy, kind) in [("tc", "qdisc"), ("terway-qos", "terway")] {
            let mut node = Everything::new(version);
            let before = node.show();
            node.rig.slo(slo(policy));
            node.work();
            assert_eq!(kinds(&node), all_kinds(kind), "{version:?} {policy}");
            let during = node.show();
            node.rig.off_by = Some("a test".to_owned());
            node.rig.tick();
            assert_eq!(node.differs(&before), [""; 0], "{version:?} {policy}");
            assert!(node.rig.rounds.is_clean(), "{version:?} {policy}");
            assert_eq!(node.rig.journal.page().decisions, []);
            node.rig.off_by = None;
            node.work();
            assert_eq!(node.differs(&during), [""; 0], "{version:?} {policy}");
        }
    }
}

#[test]
fn off_without_an_agent_restores_every_kind_from_the_ledger_alone() {
    for version in [Version::V1, Version::V2] {
        for policy in ["tc", "terway-qos"] {
            let mut node = Everything::new(version);
            let before = node.show();
            node.rig.slo(slo(policy));
            node.work();
            assert_ne!(node.differs(&before), [""; 0]);
            let (dir, held) = (node.rig.state(), node.rig.rounds.arbiter().held().len());
            let lock = dir.join("agent.lock");
            let off = Off::new("a test".to_owned());
            let devices = || node.rig.devices();
            let restored =
                switch::turn_off_with(dir, &node.rig.tree, &lock, &off, devices).unwrap();
            assert_eq!(restored.left, [], "{version:?} {policy}");
            assert_eq!((restored.held, restored.by_agent), (held, false));
            assert_eq!(node.differs(&before), [""; 0], "{version:?} {policy}");
        }
    }
}

#[test]
fn off_counts_and_names_what_is_left_of_every_kind() {
    for policy in ["tc", "terway-qos"] {
        let mut node = Everything::new(Version::V2);
        let before = node.show();
        node.rig.slo(slo(policy));
        node.work();
        let during = node.show();
        let held = node.rig.rounds.arbiter().held();
        node.rig.kernel.is_read_only.store(true, Ordering::Relaxed);
        let dir = node.rig.state();
        let (lock, off) = (dir.join("agent.lock"), Off::new("a test".to_owned()));
        let devices = || node.rig.devices();
        let restored = switch::turn_off_with(dir, &node.rig.tree, &lock, &off, devices).unwrap();
        let left: Vec<&str> = restored.left.iter().map(|left| left.place.as_str()).collect();
        let names: Vec<String> = held.iter().map(ToString::to_string).collect();
        assert_eq!((left, restored.held), (names.iter().map(String::as_str).collect(), held.len()));
        let queue = restored.left.iter().find(|left| left.place == "qdisc:eth0");
        assert_eq!(
            queue.map(|left| (left.found.as_str(), left.now.as_str())),
            (policy == "tc").then_some(("absent", "htb"))
        );
        assert_eq!(node.differs(&during), [""; 0], "nothing could be changed");

        node.rig.kernel.is_read_only.store(false, Ordering::Relaxed);
        let end = Instant::now() + Duration::from_secs(60);
        switch::restore(dir, &node.rig.tree, node.rig.devices(), end).unwrap();
        assert_eq!(node.differs(&before), [""; 0], "{policy}");
    }
}

/// What version e336159 wrote down, byte for byte, and a machine as that version left it.
#[test]
fn what_the_version_before_left_is_restored() {
    const LISTS: [(&str, &str); 5] = [
        ("ledger", include_str!("../../../../../fixtures/ledger/e336159/ledger")),
        ("files", include_str!("../../../../../fixtures/ledger/e336159/files")),
        ("files.resctrl", include_str!("../../../../../fixtures/ledger/e336159/files.resctrl")),
        ("files.cookies", include_str!("../../../../../fixtures/ledger/e336159/files.cookies")),
        ("files.network", include_str!("../../../../../fixtures/ledger/e336159/files.network")),
    ];
    let mut node = Everything::new(Version::V2);
    let tier = "sys/fs/cgroup/kubepods/besteffort";
    // A group without processes can lose its CPUs again.
    node.rig.kernel.fake.set(format!("{tier}/podjob/sandbox/cpuset.cpus"), "\n");
    let before = node.show();
    for (path, text) in [
        (format!("{tier}/cpu.max"), "1040000 100000\n"),
        (format!("{tier}/cpuset.cpus"), "0-2\n"),
        (format!("{tier}/podjob/cpuset.cpus"), "0-2\n"),
        (format!("{tier}/podjob/job/cpuset.cpus"), "0-2\n"),
        (format!("{tier}/podjob/sandbox/cpuset.cpus"), "0-2\n"),
        ("proc/sys/vm/watermark_scale_factor".to_owned(), "150\n"),
        ("sys/kernel/debug/sched/features".to_owned(), "GENTLE HRTICK WAKEUP\n"),
        ("sys/fs/resctrl/BE/schemata".to_owned(), "L3:0=f;1=f\nMB:0=100;1=100\n"),
        ("sys/fs/resctrl/BE/tasks".to_owned(), "21\n"),
        ("sys/fs/resctrl/LS/schemata".to_owned(), "L3:0=7ff;1=7ff\nMB:0=50;1=50\n"),
        ("sys/fs/resctrl/LS/tasks".to_owned(), "7\n11\n12\n"),
        ("sys/fs/resctrl/tasks".to_owned(), "1\n"),
        ("var/lib/terway/qos/global_bps_config".to_owned(), "hw_tx_bps_max 125000000\n"),
        ("var/lib/terway/qos/pod.json".to_owned(), "{\"web\":{}}"),
    ] {
        node.rig.kernel.fake.set(path, text);
    }
    for (process, cookie) in [(21, 1), (11, 2), (12, 2)] {
        node.cookies.start(process, cookie);
    }
    node.qdiscs.choose("eth0", "htb 1:");
    let state = node.rig.state();
    for (name, text) in LISTS {
        std::fs::write(state.join(name), text).unwrap();
    }
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    std::fs::write(state.join("boot"), boot).unwrap();

    let (lock, off) = (state.join("agent.lock"), Off::new("a test".to_owned()));
    let devices = || node.rig.devices();
    let restored = switch::turn_off_with(state, &node.rig.tree, &lock, &off, devices).unwrap();
    assert_eq!((restored.held, restored.left.as_slice()), (14, &[][..]));
    assert_eq!(node.differs(&before), [""; 0]);
    node.rig.restart();
    assert!(node.rig.rounds.is_clean());
}

#[test]
fn a_line_of_another_version_is_left_and_said() {
    let node = Everything::new(Version::V2);
    let line = r#"{"target":"dma-buf","card":0,"original":"1","ours":[]}"#;
    let path = node.rig.state().join("ledger");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{text}{line}\n")).unwrap();
    let (dir, lock) = (node.rig.state(), node.rig.state().join("agent.lock"));
    let off = Off::new("a test".to_owned());
    let devices = || node.rig.devices();
    let restored = switch::turn_off_with(dir, &node.rig.tree, &lock, &off, devices).unwrap();
    assert_eq!((restored.held, restored.left[0].place.as_str()), (1, line));
}

/// What may happen on a node.
#[derive(Debug, Clone)]
enum Event {
    Load(f64),
    Come(usize),
    Go(usize),
    Switch(bool),
    Policy(&'static str),
    Die,
}

const NAMES: [&str; 4] = ["p0", "p1", "p2", "p3"];

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (0.0..16.0f64).prop_map(Event::Load),
        (0..NAMES.len()).prop_map(Event::Come),
        (0..NAMES.len()).prop_map(Event::Go),
        any::<bool>().prop_map(Event::Switch),
        prop_oneof![Just("cpuset"), Just("cfsQuota"), Just("off")].prop_map(Event::Policy),
        Just(Event::Die),
    ]
}

fn happen(rig: &mut Rig, event: &Event) {
    match event {
        Event::Load(cores) => rig.uses("web", *cores),
        Event::Come(which) => {
            let name = NAMES[*which];
            rig.remove(name);
            let batch = json!({ "limits": { "kubernetes.io/batch-cpu": "500" } });
            rig.add(match which {
                0 => Pod { name, qos: "LSE", cpus: "4-5", ..POD },
                1 => Pod { name, qos: "LSR", cpus: "6-7", ..POD },
                _ => Pod { name, qos: "BE", resources: batch, ..POD },
            });
        }
        Event::Go(which) => rig.remove(NAMES[*which]),
        Event::Switch(off) => rig.off_by = off.then(|| "a test".to_owned()),
        Event::Policy("off") => rig.slo(json!({})),
        Event::Policy(policy) => rig.slo(suppressing(policy)),
        Event::Die => rig.restart(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever happened before: once nothing changes any more, nothing is written any more.
    #[test]
    fn a_node_on_which_nothing_happens_is_left_alone(
        is_v1: bool, events in proptest::collection::vec(event(), 1..12),
    ) {
        let mut rig = busy(if is_v1 { Version::V1 } else { Version::V2 });
        for event in &events {
            happen(&mut rig, event);
            rig.tick();
        }
        // Longer than everything that grows slowly, or is looked at again later, takes.
        for _ in 0..90 {
            rig.tick();
        }
        let writes = rig.kernel.writes.load(Ordering::Relaxed);
        for _ in 0..90 {
            rig.tick();
        }
        prop_assert_eq!(rig.kernel.writes.load(Ordering::Relaxed), writes);
    }

    /// Whatever happened, the kernel refused nothing, best-effort never ran on LSE's CPUs, and in the
    /// end everything is as it would have been without us.
    #[test]
    fn the_kernel_is_never_asked_for_what_it_refuses(
        is_v1: bool, events in proptest::collection::vec(event(), 1..24),
    ) {
        let version = if is_v1 { Version::V1 } else { Version::V2 };
        let mut rig = busy(version);
        rig.tick();
        for event in &events {
            happen(&mut rig, event);
            rig.tick();
            let page = rig.journal.page();
            let refused = page.changes.iter().find(|change| change.outcome == ChangeOutcome::Refused);
            prop_assert_eq!(refused, None);
            let be = rig.tier().child("podjob").child("job");
            let cpus: units::CpuSet = rig.cpus(&be).parse().unwrap();
            let lse: units::CpuSet = "0-1".parse().unwrap();
            if rig.off_by.is_none() && !cpus.is_empty() {
                prop_assert!(cpus.is_disjoint(&lse), "{} on {}", cpus, lse);
                prop_assert!(cpus.len() >= 2);
            }
        }
        rig.off_by = Some("a test".to_owned());
        rig.tick();
        rig.tick();
        prop_assert!(rig.rounds.is_clean());
        let mut plain = busy(version);
        plain.off_by = Some("a test".to_owned());
        for event in &events {
            if matches!(event, Event::Come(_) | Event::Go(_)) {
                happen(&mut plain, event);
            }
        }
        prop_assert_eq!(rig.kernel.fake.to_fixture(), plain.kernel.fake.to_fixture());
    }

    /// Whatever was changed, refused and restarted before: off leaves the machine as it was, whichever way it
    /// is turned off.
    #[test]
    fn from_each_state_off_leaves_the_machine_as_it_was(
        is_v1: bool, has_agent: bool, changes in proptest::collection::vec(change(), 1..10),
    ) {
        let mut node = Everything::new(if is_v1 { Version::V1 } else { Version::V2 });
        let before = node.show();
        for change in &changes {
            match change {
                Changing::Network(policy) => node.rig.slo(slo(policy)),
                Changing::Load(cores) => node.rig.uses("web", *cores),
                Changing::Time(seconds) => node.rig.step(Duration::from_secs(*seconds)),
                Changing::Switch(off) => {
                    node.rig.off_by = off.then(|| "a test".to_owned());
                    node.rig.tick();
                }
                Changing::Mood(refuses) => {
                    node.rig.kernel.refuses.store(*refuses, Ordering::Relaxed);
                }
                Changing::Die => node.rig.restart(),
            }
        }
        node.rig.kernel.refuses.store(0, Ordering::Relaxed);
        if has_agent {
            node.rig.off_by = Some("a test".to_owned());
            // The longest pause of what is to be restored.
            for _ in 0..12 {
                node.rig.tick();
            }
            prop_assert!(node.rig.rounds.is_clean(), "{:?}", node.rig.rounds.arbiter().held());
        } else {
            let (dir, end) = (node.rig.state(), Instant::now() + Duration::from_secs(60));
            switch::restore(dir, &node.rig.tree, node.rig.devices(), end).unwrap();
        }
        prop_assert_eq!(node.differs(&before), Vec::<String>::new());
    }
}

/// What may happen to a node on which everything is changed.
#[derive(Debug, Clone)]
enum Changing {
    Network(&'static str),
    Load(f64),
    Time(u64),
    Switch(bool),
    Mood(u64),
    Die,
}

fn change() -> impl Strategy<Value = Changing> {
    prop_oneof![
        1 => prop_oneof![Just("tc"), Just("terway-qos"), Just("none")].prop_map(Changing::Network),
        1 => (0.0..16.0f64).prop_map(Changing::Load),
        4 => (1..15u64).prop_map(Changing::Time),
        1 => any::<bool>().prop_map(Changing::Switch),
        1 => prop_oneof![Just(0), Just(300)].prop_map(Changing::Mood),
        1 => Just(Changing::Die),
    ]
}
