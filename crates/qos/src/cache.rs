//! Which part of the last-level cache and of the memory bandwidth may a class use?
//!
//! The kernel takes the cache as a mask of ways, which must be contiguous, and bandwidth as a percentage
//! (Intel) or in eighths of a GB/s (AMD). Configuration has percentages for both.

use std::collections::BTreeSet;

use groups::CgroupPath;
use units::Percent;

/// What a group of resctrl divides, and the threads of which control groups are in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CacheAllocation {
    /// Lines of `schemata` as the kernel prints them; resources without a line stay as they are.
    pub schemata: String,
    /// Groups of pods; the groups below them are meant as well.
    pub members: BTreeSet<CgroupPath>,
}

/// A range of ways as a mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ways(pub u64);

/// What the machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cache {
    /// All ways, as the kernel shows them.
    pub all: Ways,
    /// How many ways a class must have at least.
    pub least: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CacheError {
    #[error("cache mask {mask:#x}: expected the lowest ways, without gaps")]
    Mask { mask: u64 },
    #[error("cache range {start} to {end}: expected 0 <= start < end <= 100")]
    Range { start: i64, end: i64 },
}

/// The ways between two percentages of the cache, at least as many as the kernel asks for.
pub fn ways(cache: Cache, start: Percent, end: Percent) -> Result<Ways, CacheError> {
    let Cache { all: Ways(mask), least } = cache;
    if mask == 0 || mask & mask.wrapping_add(1) != 0 {
        return Err(CacheError::Mask { mask });
    }
    let (Percent(start), Percent(end)) = (start, end);
    if !(0..end).contains(&start) || end > 100 {
        return Err(CacheError::Range { start, end });
    }
    let count = mask.count_ones();
    let way = |percent: i64| {
        let percent = u32::try_from(percent).unwrap_or_default();
        (count * percent).div_ceil(100)
    };
    let (first, past) = (way(start), way(end));
    // Rounding may leave fewer ways than the kernel takes: widen upwards, then downwards.
    let past = past.max(first + least.max(1)).min(count);
    let first = first.min(past.saturating_sub(least.max(1)));
    Ok(Ways(lowest(past) & !lowest(first)))
}

fn lowest(count: u32) -> u64 {
    1u64.checked_shl(count).map_or(u64::MAX, |bit| bit - 1)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vendor {
    Amd,
    /// Intel, and whoever counts like it.
    Other,
}

/// What AMD's kernel takes for no limit.
const AMD_UNLIMITED: i64 = 2_048;

/// What was measured as the whole bandwidth of a common AMD part, in eighths of a GB/s.
const AMD_WHOLE: i64 = 160;

/// A share of the bandwidth in the machine's units; `None` leaves it alone.
pub fn bandwidth(share: Percent, vendor: Vendor) -> Option<i64> {
    if !(1..=100).contains(&share.0) {
        return None;
    }
    Some(match vendor {
        Vendor::Amd if share == Percent::HUNDRED => AMD_UNLIMITED,
        Vendor::Amd => AMD_WHOLE * share.0 / 100,
        Vendor::Other => share.0.div_euclid(10) * 10 + if share.0 % 10 == 0 { 0 } else { 10 },
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cache(ways: u32) -> Cache {
        Cache { all: Ways(lowest(ways)), least: 1 }
    }

    #[test]
    fn percentages_become_ways() {
        let cases = [
            ("the first third of 11", cache(11), 0, 30, 0xf),
            ("a middle part of 11", cache(11), 10, 50, 0x3c),
            ("most of 10", cache(10), 10, 80, 0xfe),
            ("all of 20", cache(20), 0, 100, 0xf_ffff),
            ("all of 64", cache(64), 0, 100, u64::MAX),
            ("too thin a slice is widened", cache(11), 1, 2, 0x2),
            ("at the end downwards", cache(11), 99, 100, 0x400),
            ("to what the kernel wants", Cache { least: 2, ..cache(11) }, 99, 100, 0x600),
        ];
        for (name, cache, start, end, want) in cases {
            assert_eq!(ways(cache, Percent(start), Percent(end)), Ok(Ways(want)), "{name}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let range = |start, end| Err(CacheError::Range { start, end });
        for (start, end) in [(-1, 50), (50, 50), (60, 50), (0, 101)] {
            assert_eq!(ways(cache(11), Percent(start), Percent(end)), range(start, end));
        }
        for mask in [0, 0b101, 0b110] {
            let cache = Cache { all: Ways(mask), least: 1 };
            let refused = ways(cache, Percent(0), Percent(100));
            assert_eq!(refused, Err(CacheError::Mask { mask }));
        }
    }

    #[test]
    fn bandwidth_has_the_vendors_units() {
        let cases = [
            ("a round share", 50, Vendor::Other, Some(50)),
            ("is rounded up otherwise", 51, Vendor::Other, Some(60)),
            ("AMD counts in eighths", 50, Vendor::Amd, Some(80)),
            ("AMD without a limit", 100, Vendor::Amd, Some(2_048)),
            ("nothing is not a share", 0, Vendor::Other, None),
            ("nor is more than all", 101, Vendor::Amd, None),
        ];
        for (name, share, vendor, want) in cases {
            assert_eq!(bandwidth(Percent(share), vendor), want, "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_mask_is_contiguous_and_wide_enough(
            count in 1..=64u32, least in 0..4u32, start in 0..100i64, length in 1..=100i64,
        ) {
            let end = (start + length).min(100);
            let cache = Cache { all: Ways(lowest(count)), least };
            let Ways(mask) = ways(cache, Percent(start), Percent(end)).unwrap();
            prop_assert_eq!(mask & !lowest(count), 0);
            let run = mask >> mask.trailing_zeros();
            prop_assert_eq!(run & run.wrapping_add(1), 0, "gaps in {:b}", mask);
            prop_assert!(mask.count_ones() >= least.clamp(1, count));
        }
    }
}
