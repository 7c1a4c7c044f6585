//! Off, and what is left behind.

use std::sync::atomic::Ordering;

use api::decisions::ChangeOutcome;
use groups::{Knob, Setting, Version};
use proptest::prelude::*;
use serde_json::json;

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
}
