//! Memory of the host and of each NUMA node.

use units::Bytes;

use groups::{ParseError, scan};

/// `/proc/meminfo`, as far as it is needed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemInfo {
    pub total: Bytes,
    pub free: Bytes,
    pub available: Bytes,
    pub swap_total: Bytes,
    pub swap_free: Bytes,
}

impl MemInfo {
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        let keys: [&[u8]; 5] =
            [b"MemTotal:", b"MemFree:", b"MemAvailable:", b"SwapTotal:", b"SwapFree:"];
        let [total, free, available, swap_total, swap_free] = kib(scan::pairs(text), keys)?;
        let missing = |key| move || ParseError::missing(text, key);
        Ok(Self {
            total: total.ok_or_else(missing("MemTotal"))?,
            free: free.ok_or_else(missing("MemFree"))?,
            available: available.ok_or_else(missing("MemAvailable"))?,
            swap_total: swap_total.unwrap_or_default(),
            swap_free: swap_free.unwrap_or_default(),
        })
    }

    /// What cannot be had without taking it from someone.
    pub fn used(&self) -> Bytes {
        (self.total - self.available).max(Bytes::ZERO)
    }

    /// [`used`](Self::used) and all page cache.
    pub fn used_with_page_cache(&self) -> Bytes {
        (self.total - self.free).max(Bytes::ZERO)
    }
}

/// `/sys/devices/system/node/node<n>/meminfo`: `Node 0 MemTotal: 16 kB`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeMemInfo {
    pub total: Bytes,
    pub free: Bytes,
    pub active_file: Bytes,
    pub inactive_file: Bytes,
    pub slab_reclaimable: Bytes,
}

impl NodeMemInfo {
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        let keys: [&[u8]; 5] =
            [b"MemTotal:", b"MemFree:", b"Active(file):", b"Inactive(file):", b"SReclaimable:"];
        let pairs = scan::lines(text).filter_map(|(at, line)| {
            let mut words = scan::words(line).skip(2);
            Some((at, words.next()?, words.next().unwrap_or_default()))
        });
        let [total, free, active_file, inactive_file, slab] = kib(pairs, keys)?;
        let missing = |key| move || ParseError::missing(text, key);
        Ok(Self {
            total: total.ok_or_else(missing("MemTotal"))?,
            free: free.ok_or_else(missing("MemFree"))?,
            active_file: active_file.ok_or_else(missing("Active(file)"))?,
            inactive_file: inactive_file.ok_or_else(missing("Inactive(file)"))?,
            slab_reclaimable: slab.ok_or_else(missing("SReclaimable"))?,
        })
    }

    /// What is neither free nor page cache nor a cache of the kernel.
    pub fn used(&self) -> Bytes {
        let spare = self.free + self.active_file + self.inactive_file + self.slab_reclaimable;
        (self.total - spare).max(Bytes::ZERO)
    }
}

/// The values of some keys, which are in KiB. Stops reading when all are found.
fn kib<'t, const N: usize>(
    pairs: impl Iterator<Item = (usize, &'t [u8], &'t [u8])>,
    keys: [&[u8]; N],
) -> Result<[Option<Bytes>; N], ParseError> {
    let mut found = [None; N];
    let mut left = N;
    for (at, key, value) in pairs {
        let Some(place) = keys.iter().position(|wanted| *wanted == key) else { continue };
        let value = scan::bytes(scan::pair_number(at, value)?.saturating_mul(1 << 10));
        if let Some(slot) = found.get_mut(place)
            && slot.replace(value).is_none()
        {
            left -= 1;
        }
        if left == 0 {
            break;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_memory_is_what_is_not_available() {
        let text = b"MemTotal:       100 kB\nMemFree:         10 kB\nMemAvailable:    60 kB\n";
        let info = MemInfo::parse(text).unwrap();
        assert_eq!((info.used(), info.used_with_page_cache()), (Bytes(40_960), Bytes(92_160)));
        assert_eq!(info.swap_total, Bytes::ZERO);
    }

    #[test]
    fn a_node_counts_reclaimable_memory_as_spare() {
        let text = b"Node 1 MemTotal:   100 kB\nNode 1 MemFree:  10 kB\nNode 1 MemUsed: 90 kB\n\
            Node 1 Active(file):  20 kB\nNode 1 Inactive(file): 5 kB\nNode 1 SReclaimable: 1 kB\n";
        assert_eq!(NodeMemInfo::parse(text).unwrap().used(), Bytes::from_kib(64));
    }

    #[test]
    fn missing_and_broken_values_are_refused() {
        assert!(MemInfo::parse(b"").is_err());
        assert!(MemInfo::parse(b"MemTotal: 1 kB\nMemFree: 1 kB\n").is_err());
        assert!(MemInfo::parse(b"MemTotal: x kB\n").is_err());
        assert!(NodeMemInfo::parse(b"Node 0 MemTotal: 1 kB\n").is_err());
        let huge = b"MemTotal: 18446744073709551615 kB\nMemFree: 0 kB\nMemAvailable: 0 kB\n";
        assert_eq!(MemInfo::parse(huge).unwrap().total, Bytes(i64::MAX));
    }
}
