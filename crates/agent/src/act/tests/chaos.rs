//! A kernel in a bad mood: random errors on every kind of target, for a hundred thousand ticks.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use groups::Version;

use super::super::TICK;
use super::everything::{Everything, slo};

const TICKS: u64 = 100_000;

/// Targets that may be written again and again: each at most twice a second.
const MOST_WRITES_A_SECOND: u64 = 60;

fn settled(node: &mut Everything) -> BTreeSet<String> {
    node.rig.slo(slo("tc"));
    node.rig.uses("web", 2.0);
    // The longest pause after a refusal is five minutes.
    for _ in 0..400 {
        node.rig.tick();
    }
    node.show()
}

#[test]
fn errors_end_and_the_machine_is_as_if_there_had_been_none() {
    for (version, ticks) in [(Version::V1, TICKS / 2), (Version::V2, TICKS / 2)] {
        let mut calm = Everything::new(version);
        let want = settled(&mut calm);

        let mut node = Everything::new(version);
        let before = node.show();
        assert!(before.difference(&want).count() > 20, "much is changed on {version:?}");
        node.rig.kernel.refuses.store(100, Ordering::Relaxed);
        for tick in 0..ticks {
            if tick % 200 == 0 {
                let cores = f64::from(u32::try_from(tick / 200 % 13).unwrap());
                node.rig.uses("web", cores);
            }
            if tick % 5_000 == 0 {
                let terway = tick / 5_000 % 2 == 1;
                node.rig.slo(slo(if terway { "terway-qos" } else { "tc" }));
            }
            node.rig.step(TICK);
        }
        let seconds = ticks * u64::try_from(TICK.as_millis()).unwrap() / 1_000;
        let writes = node.rig.kernel.writes.load(Ordering::Relaxed);
        assert!(writes < seconds * MOST_WRITES_A_SECOND, "{writes} writes in {seconds} s");
        node.rig.kernel.refuses.store(0, Ordering::Relaxed);
        settled(&mut node);
        assert_eq!(node.differs(&want), [""; 0], "{version:?}");

        node.rig.off_by = Some("a test".to_owned());
        for _ in 0..3 {
            node.rig.step(Duration::from_secs(1));
        }
        let held = node.rig.rounds.arbiter().held();
        let held: Vec<_> = held.iter().map(ToString::to_string).collect();
        assert_eq!(held, [""; 0], "{version:?}");
        assert_eq!(node.differs(&before), [""; 0], "{version:?}");
    }
}
