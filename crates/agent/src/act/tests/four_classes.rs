//! The picture everybody draws of co-location: sixteen CPUs, LSE on two, LSR on two, LS on the rest,
//! best-effort on all but those of LSE, less of them the more the others use.

use std::collections::BTreeSet;

use api::why::Sign::{Equals, Minus, Plus, Then};
use groups::{CgroupPath, Version};
use units::CpuSet;

use super::rig::{POD, Pod, Rig, suppressing};
use crate::act::{Journal, Why};

struct Four {
    rig: Rig,
    lse: CgroupPath,
    lsr: CgroupPath,
    ls: CgroupPath,
    be: CgroupPath,
}

fn four(version: Version) -> Four {
    let mut rig = Rig::new(version);
    rig.slo(suppressing("cpuset"));
    let lse = rig.add(Pod { name: "lse", qos: "LSE", cpus: "0-1", ..POD });
    let lsr = rig.add(Pod { name: "lsr", qos: "LSR", cpus: "2-3", ..POD });
    let ls = rig.add(Pod { name: "ls", qos: "LS", ..POD });
    let be = rig.add(Pod { name: "be", qos: "BE", ..POD });
    Four { rig, lse, lsr, ls, be }
}

fn set(text: &str) -> CpuSet {
    text.parse().unwrap()
}

/// Why best-effort has the CPUs it has.
fn suppressed(journal: &Journal) -> Why {
    let decided = journal.about("node").into_iter().find(|one| one.strategy == "suppress");
    decided.unwrap().why
}

#[test]
fn each_class_runs_where_the_picture_says() {
    for version in [Version::V1, Version::V2] {
        let Four { mut rig, lse, lsr, ls, be } = four(version);
        rig.uses("ls", 0.5);
        for _ in 0..5 {
            rig.tick();
        }
        let at = |group: &CgroupPath, child: &str| rig.cpus(&group.child(child));
        assert_eq!(at(&lse, "lse"), "0-1", "{version:?}");
        assert_eq!(at(&lse, "sandbox"), "0-1", "the sandbox is part of the pod: {version:?}");
        assert_eq!(at(&lsr, "lsr"), "2-3", "{version:?}");
        assert_eq!(at(&ls, "ls"), "4-15", "{version:?}");
        // 65 % of 16 less half a CPU: ten CPUs, one of LSR's.
        for group in [rig.tier(), be.clone(), be.child("be"), be.child("sandbox")] {
            assert_eq!(rig.cpus(&group), "2,4-12", "{group} {version:?}");
        }
        let why = suppressed(&rig.journal);
        assert_eq!(why.headline, "best-effort may use 10 of 16 CPUs", "{version:?}");
        let shown = rig.journal.suppressed().unwrap();
        assert_eq!((shown.policy, shown.granted.0, shown.protected.0), ("cpuset", 10_000, 500));
        let sum: Vec<_> = why.sum.terms.iter().map(|term| (term.sign, term.amount)).collect();
        let want = [
            (Plus, 16_000),
            (Then, 10_400),
            (Minus, 500),
            (Minus, 0),
            (Equals, 9_900),
            (Plus, 100),
            (Equals, 10_000),
        ];
        assert_eq!(sum, want, "whole CPUs are rounded up to");
        let threshold = why.sum.terms[1].source.to_string();
        assert_eq!(threshold, "cpuSuppressThresholdPercent = 65 (built-in)");
    }
}

#[test]
fn best_effort_shrinks_at_once_and_grows_slowly() {
    for version in [Version::V1, Version::V2] {
        let Four { mut rig, be, .. } = four(version);
        rig.uses("ls", 0.5);
        rig.tick();
        rig.tick();
        rig.uses("ls", 8.0);
        rig.tick();
        let main = be.child("be");
        assert_eq!(set(&rig.cpus(&main)).len(), 3, "one round: 10.4 - 8 CPUs, {version:?}");
        rig.uses("ls", 0.0);
        let mut sizes = Vec::new();
        for _ in 0..6 {
            rig.tick();
            sizes.push(set(&rig.cpus(&main)).len());
        }
        assert_eq!(sizes, [5, 7, 9, 11, 11, 11], "a tenth of the machine a round, {version:?}");
        assert!(set(&rig.cpus(&main)).is_disjoint(&set("0-1")), "never on LSE's");
    }
}

#[test]
fn a_full_machine_leaves_two_cpus() {
    let Four { mut rig, be, .. } = four(Version::V2);
    rig.uses("ls", 16.0);
    rig.tick();
    assert_eq!(set(&rig.cpus(&be.child("be"))).len(), 2);
    assert_eq!(suppressed(&rig.journal).bound_by, "floor");
}

#[test]
fn cpus_follow_pods_that_come_and_go() {
    for version in [Version::V1, Version::V2] {
        let Four { mut rig, ls, be, .. } = four(version);
        rig.tick();
        let late = rig.add(Pod { name: "late", qos: "LSE", cpus: "4-5", ..POD });
        rig.tick();
        assert_eq!(rig.cpus(&late.child("late")), "4-5", "{version:?}");
        assert_eq!(rig.cpus(&ls.child("ls")), "6-15", "{version:?}");
        assert!(set(&rig.cpus(&be.child("be"))).is_disjoint(&set("0-1,4-5")), "{version:?}");
        rig.remove("late");
        rig.remove("lse");
        rig.tick();
        assert_eq!(rig.cpus(&ls.child("ls")), "0-1,4-15", "{version:?}");
    }
}

/// A group made under suppression starts with what its parent has at that moment.
#[test]
fn a_best_effort_pod_that_comes_late_is_given_what_it_would_have_had() {
    let Four { mut rig, .. } = four(Version::V1);
    rig.uses("ls", 8.0);
    rig.tick();
    let late = rig.add(Pod { name: "late", qos: "BE", ..POD });
    rig.tick();
    assert_eq!(set(&rig.cpus(&late.child("late"))).len(), 3);
    rig.off_by = Some("a test".to_owned());
    rig.tick();
    for group in [rig.tier(), late.clone(), late.child("late"), late.child("sandbox")] {
        assert_eq!(rig.cpus(&group), "0-15", "{group}");
    }
    assert!(rig.rounds.is_clean());
}

/// v2 does not let go of CPUs once a group with processes has been given some.
#[test]
fn where_none_cannot_be_written_all_are() {
    let Four { mut rig, be, .. } = four(Version::V2);
    let procs = rig.tree.main_dir(&be.child("be")).join("cgroup.procs");
    rig.kernel.fake.set(procs, "7\n");
    rig.uses("ls", 8.0);
    rig.tick();
    rig.off_by = Some("a test".to_owned());
    rig.tick();
    for group in [rig.tier(), be.clone(), be.child("be")] {
        assert_eq!(rig.cpus(&group), "0-15", "{group}");
    }
    assert_eq!(rig.cpus(&be.child("sandbox")), "", "nobody is in there");
    assert!(rig.rounds.is_clean());
}

#[test]
fn without_samples_nothing_moves() {
    let Four { mut rig, be, .. } = four(Version::V2);
    rig.uses("ls", 8.0);
    rig.tick();
    let before = rig.cpus(&be.child("be"));
    rig.metrics = crate::series::Metrics::new(crate::series::Store::new(
        std::time::Duration::from_secs(1),
        1_000,
    ));
    rig.step(std::time::Duration::from_millis(900));
    for _ in 0..30 {
        // No new sample is taken in steps that do not cross a second.
        rig.now += std::time::Duration::from_millis(950);
        rig.step(std::time::Duration::from_millis(1));
    }
    assert_eq!(rig.cpus(&be.child("be")), before);
}

#[test]
fn with_suppression_off_best_effort_still_keeps_off_lse() {
    let Four { mut rig, be, .. } = four(Version::V2);
    rig.slo(serde_json::json!({}));
    rig.tick();
    assert_eq!(rig.cpus(&be.child("be")), "2-15");
    rig.remove("lse");
    rig.tick();
    assert_eq!(rig.cpus(&be.child("be")), "", "and where there is none, all is as it was found");
}

#[test]
fn a_pod_that_is_set_by_hand_is_left_alone() {
    let mut rig = Rig::new(Version::V2);
    rig.slo(suppressing("cpuset"));
    let annotations = serde_json::json!({ "tidepool.io/hands-off": "true" });
    let own = rig.add(Pod { name: "own", qos: "BE", annotations, ..POD });
    let other = rig.add(Pod { name: "other", qos: "BE", ..POD });
    rig.uses("own", 1.0);
    rig.tick();
    assert_eq!(rig.cpus(&own.child("own")), "");
    assert_ne!(rig.cpus(&other.child("other")), "");
}

#[test]
fn every_sum_adds_up_whatever_the_load_does() {
    for (policy, least) in [("cpuset", 0), ("cfsQuota", 0), ("cpuset", 30), ("cfsQuota", 30)] {
        let Four { mut rig, .. } = four(Version::V2);
        let mut slo = suppressing(policy);
        slo["resourceUsedThresholdWithBE"]["cpuSuppressMinPercent"] = least.into();
        slo["resourceUsedThresholdWithBE"]["memoryEvictThresholdPercent"] = 70.into();
        rig.slo(slo);
        let mut bounds = BTreeSet::new();
        for round in 0..200_u32 {
            // Loads jump about, and now and then stay for long enough to let best-effort grow.
            let load = f64::from(round / 8 * 7_919 % 17_003) / 1_000.0;
            rig.uses("ls", load + f64::from(round % 8) * 0.013);
            rig.tick();
            for decided in rig.journal.page().decisions {
                assert_eq!(decided.why.sum.mistake(), None, "{policy} {round}: {decided:?}");
                if decided.strategy == "suppress" {
                    bounds.insert(decided.why.bound_by);
                }
            }
        }
        let low = if least > 0 { "minimum" } else { "floor" };
        for bound in [low, "step", "threshold"] {
            assert!(bounds.contains(bound), "{policy}: {bound} is not in {bounds:?}");
        }
    }
}
