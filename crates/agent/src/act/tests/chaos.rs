//! A kernel in a bad mood: random errors on every file, for a hundred thousand ticks.

use std::sync::atomic::Ordering;
use std::time::Duration;

use groups::Version;
use serde_json::json;

use super::super::TICK;
use super::rig::{POD, Pod, Rig, suppressing};

const TICKS: u64 = 100_000;

/// Files that may be written again and again: each at most twice a second.
const MOST_WRITES_A_SECOND: u64 = 60;

fn machine(version: Version) -> Rig {
    let mut rig = Rig::new(version);
    rig.slo(suppressing("cpuset"));
    rig.add(Pod { name: "lse", qos: "LSE", cpus: "0-1", ..POD });
    rig.add(Pod { name: "web", ..POD });
    let batch = json!({ "limits": { "kubernetes.io/batch-cpu": "2k" } });
    rig.add(Pod { name: "job", qos: "BE", resources: batch, ..POD });
    rig
}

fn settled(rig: &mut Rig) -> String {
    rig.uses("web", 2.0);
    // The longest pause after a refusal is five minutes.
    for _ in 0..400 {
        rig.tick();
    }
    rig.kernel.fake.to_fixture()
}

#[test]
fn errors_end_and_the_machine_is_as_if_there_had_been_none() {
    for (version, ticks) in [(Version::V1, TICKS / 2), (Version::V2, TICKS / 2)] {
        let mut calm = machine(version);
        let want = settled(&mut calm);

        let mut rig = machine(version);
        rig.kernel.refuses.store(100, Ordering::Relaxed);
        for tick in 0..ticks {
            if tick % 200 == 0 {
                let cores = f64::from(u32::try_from(tick / 200 % 13).unwrap());
                rig.uses("web", cores);
            }
            rig.step(TICK);
        }
        let seconds = ticks * u64::try_from(TICK.as_millis()).unwrap() / 1_000;
        let writes = rig.kernel.writes.load(Ordering::Relaxed);
        assert!(writes < seconds * MOST_WRITES_A_SECOND, "{writes} writes in {seconds} s");
        rig.kernel.refuses.store(0, Ordering::Relaxed);
        assert_eq!(settled(&mut rig), want, "{version:?}");

        rig.off_by = Some("a test".to_owned());
        rig.step(Duration::from_secs(1));
        rig.step(Duration::from_secs(1));
        let held: Vec<_> = rig.rounds.arbiter().held().iter().map(ToString::to_string).collect();
        assert_eq!(held, [""; 0], "{version:?}");
    }
}
