//! Who gets how much of the last-level cache and of the memory's bandwidth? The groups of `resctrl`.
//!
//! Intel RDT and AMD QoS share its form: every group is a directory with `schemata` (one line a
//! resource, one value a cache or memory domain), `tasks` and, where the hardware counts, `mon_data`.
//! They differ in what bandwidth means: percent on Intel, eighths of a GB/s on AMD. Ids of domains come
//! from the kernel and may have gaps.
//!
//! ```text
//! L3:0=7ff;1=7ff          with code and data apart: L3CODE, L3DATA
//! MB:0=100;1=100
//! ```

mod schemata;

use serde::{Deserialize, Serialize};

pub use self::schemata::{Resource, Schemata};

/// Directories of the file system that are no groups.
const NO_GROUPS: [&str; 3] = ["info", "mon_data", "mon_groups"];

/// A control group by its directory's name; empty for the group all tasks start in.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Group(String);

impl Group {
    pub fn root() -> Self {
        Self::default()
    }

    /// `None` for names that are no directory of their own.
    pub fn new(name: &str) -> Option<Self> {
        let is_plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\n']);
        (is_plain && !NO_GROUPS.contains(&name)).then(|| Self(name.to_owned()))
    }

    pub fn name(&self) -> &str {
        &self.0
    }
}

/// What the hardware can do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Info {
    /// One cache for code and data.
    pub l3: Option<CacheInfo>,
    /// Code and data apart (`cdp`).
    pub l3_code: Option<CacheInfo>,
    pub l3_data: Option<CacheInfo>,
    pub bandwidth: Option<BandwidthInfo>,
    /// The counters of the last-level cache: `llc_occupancy`, `mbm_total_bytes`, `mbm_local_bytes`.
    pub l3_counters: Vec<String>,
}

/// How the last-level cache can be divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheInfo {
    /// All ways.
    pub mask: u64,
    pub least_bits: u64,
    pub groups: u64,
}

/// How bandwidth can be divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BandwidthInfo {
    pub least: u64,
    pub step: u64,
    pub groups: u64,
}
