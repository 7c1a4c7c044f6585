//! A recording says the same about a host as the host itself.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

use std::sync::Arc;

use host::fs::{FakeFs, HostFs, Mounts, RealFs};
use host::probe::{Answer, Facts, Live, Met, Tier, requirements};
use host::record::record;
use host::topology::Topology;

const HOSTS: [(&str, &str, Tier); 4] = [
    ("v1-32cpu-2numa", include_str!("../../../fixtures/hosts/v1-32cpu-2numa.txt"), Tier::Weight),
    ("v2-16cpu", include_str!("../../../fixtures/hosts/v2-16cpu.txt"), Tier::PodIdle),
    (
        "v2-64cpu-resctrl",
        include_str!("../../../fixtures/hosts/v2-64cpu-resctrl.txt"),
        Tier::PodIdle,
    ),
    ("v1-anolis-bvt", include_str!("../../../fixtures/hosts/v1-anolis-bvt.txt"), Tier::Identity),
];

fn host(text: &str) -> (Arc<dyn HostFs>, Live) {
    let fake = FakeFs::from_fixture(text).unwrap();
    let live = Live::recorded(&fake);
    (Arc::new(fake), live)
}

#[test]
fn recording_a_host_loses_nothing_that_matters() {
    for (name, text, tier) in HOSTS {
        let (fs, live) = host(text);
        let facts = Facts::gather(&fs, live.clone());
        let (again, live_again) = host(&record(&*fs, &live));
        assert_eq!(live, live_again, "{name}");
        let facts_again = Facts::gather(&again, live_again);
        assert_eq!(requirements(&facts), requirements(&facts_again), "{name}");
        assert_eq!(Topology::read(&*fs).unwrap(), Topology::read(&*again).unwrap(), "{name}");
        assert_eq!(Tier::of(&facts), tier, "{name}");
        assert!(!requirements(&facts).iter().any(|row| row.is_fatal()), "{name}");
    }
}

#[test]
fn this_machine_can_be_recorded() {
    let real: Arc<dyn HostFs> = Arc::new(RealFs::new(Mounts::host()));
    let live = Live::ask();
    assert_ne!(live.perf, Answer::Unknown);
    let text = record(&*real, &live);
    assert!(text.len() < 1 << 20, "{} bytes are too many to review", text.len());
    let (fake, recorded) = host(&text);
    assert_eq!(recorded, live);
    assert_eq!(Topology::read(&*fake).unwrap(), Topology::read(&*real).unwrap());
    let rows = |fs: &Arc<dyn HostFs>| -> Vec<_> {
        let rows = requirements(&Facts::gather(fs, live.clone()));
        rows.into_iter().map(|row| (row.name, row.met)).collect()
    };
    assert_eq!(rows(&fake), rows(&real));
}

#[test]
fn what_cannot_be_seen_is_unknown_and_not_missing() {
    let text = "-- sys/fs/cgroup/cgroup.controllers --\ncpuset cpu io memory pids\n";
    let (fs, live) = host(text);
    let rows = requirements(&Facts::gather(&fs, live));
    let met = |name: &str| rows.iter().find(|row| row.name == name).unwrap().met;
    assert_eq!(met("cpu controller"), Met::Yes);
    assert_eq!(met("idle groups (cpu.idle)"), Met::Unknown, "no group to look at");
    assert_eq!(met("kernel 4.18 or newer"), Met::Unknown);
    assert_eq!(met("hardware counters (PMU)"), Met::Unknown);
    assert_eq!(met("root"), Met::No);
    assert_eq!(met("CPU topology"), Met::No);
}
