//! Settings of the whole node: `systemStrategy` of the NodeSLO.

use std::ops::RangeInclusive;

use crate::claim::Rank;
use crate::wish::{KernelFile, Wish};
use units::Bytes;

use super::Decision;
use crate::node::State;

/// What the reference takes for sane, in KiB.
const MIN_FREE: RangeInclusive<i64> = 10_240..=10_485_760;
const SCALE_FACTOR: RangeInclusive<i64> = 10..=400;

/// Where switches of the scheduler are, on older kernels and on newer ones.
const FEATURES: [&str; 2] =
    ["/sys/kernel/debug/sched_features", "/sys/kernel/debug/sched/features"];

pub fn decide(state: &State) -> Decision {
    let Some(system) = &state.slo().system_strategy else { return Decision::default() };
    let memory = state.cluster.node.as_ref().map(|node| node.capacity.memory);
    let free = system
        .min_free_kbytes_factor
        .zip(memory)
        .map(|(factor, Bytes(memory))| (memory / 1_024).saturating_mul(factor) / 10_000);
    let within = |value: Option<i64>, range: RangeInclusive<i64>| {
        value.filter(|value| range.contains(value))
    };
    let numbers = [
        ("/proc/sys/vm/min_free_kbytes", within(free, MIN_FREE)),
        (
            "/proc/sys/vm/watermark_scale_factor",
            within(system.watermark_scale_factor, SCALE_FACTOR),
        ),
        (
            "/sys/kernel/mm/memcg_reaper/reap_background",
            within(system.memcg_reap_back_ground, 0..=1),
        ),
        (
            "/proc/sys/kernel/sched_group_identity_enabled",
            within(system.sched_group_identity_enabled, 0..=1),
        ),
        (
            "/proc/sys/kernel/sched_idle_saver_wmark",
            within(system.sched_idle_saver_wmark, 0..=i64::MAX),
        ),
        ("/sys/kernel/mm/pagecache_limit/enabled", within(system.page_cache_limit_enabled, 0..=1)),
    ];
    let why = "system-config of the NodeSLO";
    let numbers = numbers.into_iter().filter_map(|(path, value)| {
        Some(Wish::file(KernelFile::whole(path), Rank::POD, value?.to_string(), why))
    });
    let features = system.sched_features.iter().flatten().flat_map(|(name, is_on)| {
        let text = if *is_on { name.clone() } else { format!("NO_{name}") };
        FEATURES.map(|path| Wish::file(KernelFile::word(path, name), Rank::POD, text.clone(), why))
    });
    Decision { wishes: numbers.chain(features).collect(), ..Decision::default() }
}
