//! The memory of a group, by kind.

use units::Bytes;

use groups::{ParseError, Version, scan};

/// What a group's memory consists of, with that of the groups below.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryStat {
    /// `rss` on v1: anonymous memory, without what is shared.
    pub anon: Bytes,
    /// `cache` on v1: page cache, with what is shared.
    pub file: Bytes,
    pub inactive_anon: Bytes,
    pub active_anon: Bytes,
    pub inactive_file: Bytes,
    pub active_file: Bytes,
    pub unevictable: Bytes,
}

const KEYS: [[&[u8]; 2]; 7] = [
    [b"total_rss", b"anon"],
    [b"total_cache", b"file"],
    [b"total_inactive_anon", b"inactive_anon"],
    [b"total_active_anon", b"active_anon"],
    [b"total_inactive_file", b"inactive_file"],
    [b"total_active_file", b"active_file"],
    [b"total_unevictable", b"unevictable"],
];

impl MemoryStat {
    /// Reads `memory.stat`. On v1 the keys that include the groups below start with `total_`.
    pub fn parse(version: Version, text: &[u8]) -> Result<Self, ParseError> {
        let mut found = [None; KEYS.len()];
        for (at, key, value) in scan::pairs(text) {
            let keys = KEYS.iter().map(|[v1, v2]| match version {
                Version::V1 => *v1,
                Version::V2 => *v2,
            });
            for (place, wanted) in found.iter_mut().zip(keys) {
                if key == wanted {
                    *place = Some(scan::bytes(scan::pair_number(at, value)?));
                }
            }
        }
        let [
            Some(anon),
            Some(file),
            Some(inactive_anon),
            Some(active_anon),
            Some(inactive_file),
            Some(active_file),
            Some(unevictable),
        ] = found
        else {
            let expected = match version {
                Version::V1 => "total_rss, total_cache and the total_ lists",
                Version::V2 => "anon, file and the lists",
            };
            return Err(ParseError::missing(text, expected));
        };
        Ok(Self { anon, file, inactive_anon, active_anon, inactive_file, active_file, unevictable })
    }

    /// What the group needs: everything but page cache. Shared memory counts.
    pub fn used(&self) -> Bytes {
        self.inactive_anon + self.active_anon + self.unevictable
    }

    /// [`used`](Self::used) and the page cache.
    pub fn used_with_page_cache(&self) -> Bytes {
        self.used() + self.active_file + self.inactive_file
    }
}

/// How often a group met its limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryEvents {
    pub oom_kill: u64,
}

impl MemoryEvents {
    /// Reads v2 `memory.events` or v1 `memory.oom_control` (Linux 4.13).
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        let found = scan::pairs(text).find(|(_, key, _)| *key == b"oom_kill");
        let (at, _, value) = found.ok_or_else(|| ParseError::missing(text, "oom_kill"))?;
        Ok(Self { oom_kill: scan::pair_number(at, value)? })
    }
}

const PAGE: u64 = 4096;

/// Reads `memory.numa_stat` into one sum a NUMA node, by the node's number.
///
/// v1 has a line `total=pages N0=pages ...` for the group alone and, below it, one that begins with
/// `hierarchical_total=` for all groups below as well, which is what is asked for; v2 has lines
/// `anon N0=bytes ...` and `file N0=bytes ...`.
pub(super) fn parse_numa_stat(
    version: Version,
    text: &[u8],
    nodes: &mut Vec<Bytes>,
) -> Result<(), ParseError> {
    nodes.clear();
    let mut seen = 0;
    for (at, line) in scan::lines(text) {
        let mut words = scan::words(line);
        let Some(key) = words.next() else { continue };
        let (is_wanted, unit) = match version {
            Version::V1 => {
                let is_whole = key.starts_with(b"hierarchical_total=");
                if is_whole {
                    nodes.clear();
                    seen = 0;
                }
                (is_whole || key.starts_with(b"total="), PAGE)
            }
            Version::V2 => (matches!(key, b"anon" | b"file"), 1),
        };
        if !is_wanted {
            continue;
        }
        seen += 1;
        for word in words {
            let (node, count) =
                numa_word(word).ok_or_else(|| ParseError::new(at, "N<node>=<count>", word))?;
            if nodes.len() <= node {
                nodes.resize(node + 1, Bytes::ZERO);
            }
            if let Some(sum) = nodes.get_mut(node) {
                *sum += scan::bytes(count.saturating_mul(unit));
            }
        }
    }
    let wanted = if version == Version::V1 { 1 } else { 2 };
    if seen == wanted { Ok(()) } else { Err(ParseError::missing(text, "the sum of each node")) }
}

/// The largest kernels are built for 1024 nodes.
const MOST_NODES: u64 = 1 << 10;

fn numa_word(word: &[u8]) -> Option<(usize, u64)> {
    let word = word.strip_prefix(b"N")?;
    let equals = word.iter().position(|byte| *byte == b'=')?;
    let node = scan::number(word.get(..equals)?).filter(|node| *node < MOST_NODES)?;
    Some((usize::try_from(node).ok()?, scan::number(word.get(equals + 1..)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: &[u8] = b"anon 100\nfile 50\nkernel 7\ninactive_anon 60\nactive_anon 30\n\
        inactive_file 20\nactive_file 10\nunevictable 5\n";

    #[test]
    fn page_cache_is_not_needed() {
        let stat = MemoryStat::parse(Version::V2, V2).unwrap();
        assert_eq!((stat.used(), stat.used_with_page_cache()), (Bytes(95), Bytes(125)));
        assert_eq!((stat.anon, stat.file), (Bytes(100), Bytes(50)));
    }

    #[test]
    fn v1_counts_the_groups_below() {
        let text = b"cache 1\nrss 1\ninactive_anon 1\nactive_anon 1\ninactive_file 1\n\
            active_file 1\nunevictable 1\ntotal_cache 50\ntotal_rss 100\ntotal_inactive_anon 60\n\
            total_active_anon 30\ntotal_inactive_file 20\ntotal_active_file 10\ntotal_unevictable 5\n";
        let want = MemoryStat::parse(Version::V2, V2).unwrap();
        assert_eq!(MemoryStat::parse(Version::V1, text), Ok(want));
        assert!(MemoryStat::parse(Version::V2, text).is_err());
    }

    #[test]
    fn every_key_is_needed() {
        let text = str::from_utf8(V2).unwrap();
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with("kernel")) {
            let without: String = text
                .lines()
                .enumerate()
                .filter(|(n, _)| *n != at)
                .map(|(_, l)| format!("{l}\n"))
                .collect();
            let error = MemoryStat::parse(Version::V2, without.as_bytes()).unwrap_err();
            assert_eq!(error.line, 8, "{line}");
        }
    }

    #[test]
    fn numa_nodes_are_summed_in_bytes() {
        let mut nodes = vec![Bytes(9); 4];
        let v1 = b"total=30 N0=10 N1=20\nfile=1 N0=1 N1=0\nhierarchical_total=99 N0=99 N1=0\n";
        parse_numa_stat(Version::V1, v1, &mut nodes).unwrap();
        assert_eq!(nodes, [Bytes(405_504), Bytes(0)], "with the groups below");
        parse_numa_stat(Version::V1, b"total=30 N0=10 N1=20\n", &mut nodes).unwrap();
        assert_eq!(nodes, [Bytes(40_960), Bytes(81_920)], "an old kernel counts the group alone");
        let v2 = b"anon N0=1 N1=2\nfile N0=10 N1=20\nshmem N0=100 N1=100\n";
        parse_numa_stat(Version::V2, v2, &mut nodes).unwrap();
        assert_eq!(nodes, [Bytes(11), Bytes(22)]);
        for text in ["", "anon N0=1\n", "anon N0=1\nfile N0\n", "anon N99999=1\nfile N0=1\n"] {
            assert!(parse_numa_stat(Version::V2, text.as_bytes(), &mut nodes).is_err(), "{text:?}");
        }
    }

    #[test]
    fn kills_are_counted_on_both_versions() {
        let v1 = b"oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        let v2 = b"low 0\nhigh 0\nmax 0\noom 4\noom_kill 3\noom_group_kill 0\n";
        assert_eq!(MemoryEvents::parse(v1), Ok(MemoryEvents { oom_kill: 3 }));
        assert_eq!(MemoryEvents::parse(v2), Ok(MemoryEvents { oom_kill: 3 }));
        assert!(MemoryEvents::parse(b"oom 4\n").is_err());
    }
}
