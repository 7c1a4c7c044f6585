//! What kind of CPU is this?

use std::collections::BTreeSet;
use std::path::Path;

use super::{Topology, read_optional};
use crate::error::FileError;
use crate::fs::HostFs;
use groups::scan;

const UNKNOWN: &str = "unknown";

/// Make and abilities of the CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuModel {
    /// `GenuineIntel`, `AuthenticAMD`; `unknown` where `/proc/cpuinfo` has no such line (arm64).
    pub vendor: String,
    pub model: String,
    pub flags: BTreeSet<String>,
    /// More than one thread of a core is online.
    pub smt_active: bool,
    /// May the clock rise above the nominal one? `None` where the kernel does not say.
    pub turbo: Option<bool>,
}

impl CpuModel {
    pub fn read(fs: &dyn HostFs, topology: &Topology) -> Result<Self, FileError> {
        let path = Path::new("/proc/cpuinfo");
        let text =
            fs.read(path).map_err(|source| FileError::Read { path: path.to_owned(), source })?;
        let text = String::from_utf8_lossy(&text);
        let field = |name: &str| {
            text.lines().find_map(|line| {
                let (key, value) = line.split_once(':')?;
                (key.trim_end() == name).then(|| value.trim())
            })
        };
        let number = |path: &str| read_optional(fs, Path::new(path), scan::only_number);
        let has_siblings = topology.cpus.core_count() < topology.cpus.len();
        let smt_active = number("/sys/devices/system/cpu/smt/active")?;
        let no_turbo = number("/sys/devices/system/cpu/intel_pstate/no_turbo")?;
        let boost = number("/sys/devices/system/cpu/cpufreq/boost")?;
        Ok(Self {
            vendor: field("vendor_id").unwrap_or(UNKNOWN).to_owned(),
            model: field("model name").unwrap_or(UNKNOWN).to_owned(),
            flags: field("flags").unwrap_or_default().split(' ').map(str::to_owned).collect(),
            smt_active: smt_active.map_or(has_siblings, |active| active == 1),
            turbo: no_turbo.map(|off| off == 0).or(boost.map(|on| on == 1)),
        })
    }

    pub fn has(&self, flag: &str) -> bool {
        self.flags.contains(flag)
    }
}
