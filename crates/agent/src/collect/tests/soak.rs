//! A day of coming and going in a moment: nothing may grow.

use std::time::Duration;

use api::qos::KubeQos;
use groups::Version;
use qos::node::Pod;

use super::rig::{Rig, container, pod};
use crate::collect::CollectSettings;

/// Groups that pods take turns in; a name in the world is never used twice.
const PLACES: usize = 60;
/// Pods that are replaced in each step of ten seconds: five a second.
const REPLACED: usize = 50;
const STEP: Duration = Duration::from_secs(10);

fn churned(place: usize, generation: usize) -> Pod {
    let mut pod = pod(&format!("place{place}"), KubeQos::Burstable);
    pod.uid = format!("uid-{generation}");
    pod.containers[0].id = format!("containerd://{generation}");
    pod
}

/// An hour; `cargo xtask test` asks for a day.
#[test]
fn churn_leaves_nothing_behind() {
    let is_whole = std::env::var_os("TIDEPOOL_TEST_LENGTH").is_some_and(|length| length == "whole");
    churn(if is_whole { 24 } else { 1 });
}

fn churn(hours: u64) {
    let settings = CollectSettings { usage_interval: STEP, ..CollectSettings::default() };
    let mut rig = Rig::with(Version::V2, settings);
    for place in 0..PLACES {
        rig.make(container(&churned(place, 0)).cgroup.as_str());
    }
    let mut generation = 0;
    let mut pods: Vec<Pod> = Vec::new();
    let mut highest = (0, 0, 0);
    for step in 0..hours * 3600 / STEP.as_secs() {
        for at in 0..REPLACED {
            let place = (generation + at) % PLACES;
            match pods.get_mut(place) {
                Some(pod) => *pod = churned(place, generation + at),
                None => pods.push(churned(pods.len(), generation + at)),
            }
        }
        generation += REPLACED;
        rig.enter(pods.clone());
        rig.pass(STEP);
        let size = rig.metrics.size();
        let seen = (size.series, size.points, rig.meter.open_files());
        if step < 200 {
            highest = (highest.0.max(seen.0), highest.1.max(seen.1), highest.2.max(seen.2));
        } else {
            let is_within = seen.0 <= highest.0 && seen.1 <= highest.1 + 8 && seen.2 <= highest.2;
            assert!(is_within, "step {step}: {seen:?} after {highest:?}");
        }
    }
    assert_eq!(u64::try_from(generation).unwrap(), hours * 18_000, "pods came and went");
}
