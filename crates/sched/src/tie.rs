//! Which of two equal nodes? A hash decides: fixed by seed, class and node name, so that neither
//! the order of events nor the index of a node prefers anyone.

use std::collections::BTreeMap;

/// FNV-1a, finished so that similar names end far apart.
pub fn of(bytes: &[u8]) -> u64 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    mix(hash)
}

/// The place of a node in the order of a class: higher wins.
#[inline]
pub fn between(class: u64, node: u64) -> u64 {
    mix(class ^ node)
}

/// The finaliser of splitmix64.
#[inline]
pub fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The number of a pod's replicas in the order of nodes: the same for all of them.
pub fn of_pod(namespace: &str, labels: Option<&BTreeMap<String, String>>) -> u64 {
    let seed = of(namespace.as_bytes());
    labels
        .into_iter()
        .flatten()
        .fold(seed, |seed, (key, value)| mix(mix(seed ^ of(key.as_bytes())) ^ of(value.as_bytes())))
}
