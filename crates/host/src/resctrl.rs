//! Who gets how much of the last-level cache and of the memory's bandwidth? The `resctrl` file system.
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

mod monitor;
mod schemata;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::monitor::{DomainUse, MonitorGroup};
pub use self::schemata::{Resource, Schemata};
use crate::Reading;
use crate::error::FileError;
use crate::fs::HostFs;
use crate::topology::read_optional;
use groups::{ParseError, scan};

const ROOT: &str = "/sys/fs/resctrl";
/// Directories of the file system that are no groups.
const NO_GROUPS: [&str; 3] = ["info", "mon_data", "mon_groups"];

/// The mounted file system.
#[derive(Debug, Clone)]
pub struct Resctrl {
    fs: Arc<dyn HostFs>,
}

/// A control group by its directory's name; empty for the group all tasks start in.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheInfo {
    /// All ways.
    pub mask: u64,
    pub least_bits: u64,
    pub groups: u64,
}

/// How bandwidth can be divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BandwidthInfo {
    pub least: u64,
    pub step: u64,
    pub groups: u64,
}

impl Resctrl {
    /// Unsupported when it is not mounted, for want of hardware or of someone to mount it.
    pub fn find(fs: Arc<dyn HostFs>) -> Reading<Self> {
        if fs.exists(&Path::new(ROOT).join("schemata")) {
            Reading::Value(Self { fs })
        } else {
            Reading::Unsupported
        }
    }

    pub fn info(&self) -> Result<Info, FileError> {
        let features = Path::new(ROOT).join("info/L3_MON/mon_features");
        let counters = read_optional(&*self.fs, &features, |text| {
            Ok(String::from_utf8_lossy(text).split_whitespace().map(str::to_owned).collect())
        })?;
        Ok(Info {
            l3: self.cache("L3")?,
            l3_code: self.cache("L3CODE")?,
            l3_data: self.cache("L3DATA")?,
            bandwidth: self.bandwidth()?,
            l3_counters: counters.unwrap_or_default(),
        })
    }

    fn cache(&self, name: &str) -> Result<Option<CacheInfo>, FileError> {
        let dir = Path::new(ROOT).join("info").join(name);
        let Some(mask) = read_optional(&*self.fs, &dir.join("cbm_mask"), mask)? else {
            return Ok(None);
        };
        let number = |file| read_optional(&*self.fs, &dir.join(file), scan::only_number);
        Ok(Some(CacheInfo {
            mask,
            least_bits: number("min_cbm_bits")?.unwrap_or(1),
            groups: number("num_closids")?.unwrap_or_default(),
        }))
    }

    fn bandwidth(&self) -> Result<Option<BandwidthInfo>, FileError> {
        let dir = Path::new(ROOT).join("info/MB");
        let number = |file| read_optional(&*self.fs, &dir.join(file), scan::only_number);
        let Some(least) = number("min_bandwidth")? else { return Ok(None) };
        Ok(Some(BandwidthInfo {
            least,
            step: number("bandwidth_gran")?.unwrap_or(1),
            groups: number("num_closids")?.unwrap_or_default(),
        }))
    }

    /// The control groups beside the root, sorted.
    pub fn groups(&self) -> Result<Vec<Group>, FileError> {
        let entries = self
            .fs
            .list(Path::new(ROOT))
            .map_err(|source| FileError::Read { path: ROOT.into(), source })?;
        let dirs = entries.iter().filter(|entry| entry.is_dir);
        Ok(dirs.filter_map(|entry| Group::new(&entry.name)).collect())
    }

    pub fn make(&self, group: &Group) -> Result<(), FileError> {
        let path = self.dir(group);
        match self.fs.make_dir(&path) {
            Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
                Err(FileError::Make { path, source })
            }
            _ => Ok(()),
        }
    }

    /// Removes a group; its tasks go back to the root.
    pub fn remove(&self, group: &Group) -> Result<(), FileError> {
        let path = self.dir(group);
        match self.fs.remove_dir(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(FileError::Remove { path, source })
            }
            _ => Ok(()),
        }
    }

    pub fn schemata(&self, group: &Group) -> Result<Reading<Schemata>, FileError> {
        self.read(self.dir(group).join("schemata"), Schemata::parse)
    }

    /// Writes one resource of a group; the kernel takes a line at a time.
    pub fn set(
        &self,
        group: &Group,
        resource: &Resource,
        schemata: &Schemata,
    ) -> Result<(), FileError> {
        let Some(line) = schemata.line(resource) else { return Ok(()) };
        self.write(self.dir(group).join("schemata"), line)
    }

    /// The threads of a group.
    pub fn tasks(&self, group: &Group) -> Result<Reading<Vec<u32>>, FileError> {
        self.read(self.dir(group).join("tasks"), |text| {
            let id = |(at, line): (usize, &[u8])| {
                let id = scan::number(line.trim_ascii()).and_then(|id| u32::try_from(id).ok());
                id.ok_or_else(|| ParseError::new(at, "a thread id", line))
            };
            scan::lines(text).map(id).collect()
        })
    }

    /// Moves a thread into a group.
    pub fn add_task(&self, group: &Group, thread: u32) -> Result<Reading<()>, FileError> {
        match self.write(self.dir(group).join("tasks"), thread.to_string()) {
            Err(FileError::Write { source, .. })
                if rustix::io::Errno::from_io_error(&source) == Some(rustix::io::Errno::SRCH) =>
            {
                Ok(Reading::Gone)
            }
            other => other.map(Reading::Value),
        }
    }

    /// A reader of the group's counters.
    pub fn monitor(&self, group: &Group) -> Result<Reading<MonitorGroup>, FileError> {
        MonitorGroup::open(&*self.fs, &self.dir(group).join("mon_data"))
    }

    fn dir(&self, group: &Group) -> PathBuf {
        Path::new(ROOT).join(group.name())
    }

    fn write(&self, path: PathBuf, value: String) -> Result<(), FileError> {
        // The kernel wants the newline here.
        let value = value + "\n";
        self.fs.write(&path, &value).map_err(|source| FileError::Write { path, value, source })
    }

    fn read<T>(
        &self,
        path: PathBuf,
        parse: impl FnOnce(&[u8]) -> Result<T, ParseError>,
    ) -> Result<Reading<T>, FileError> {
        Ok(read_optional(&*self.fs, &path, parse)?.map_or(Reading::Gone, Reading::Value))
    }
}

fn mask(text: &[u8]) -> Result<u64, ParseError> {
    let word = text.trim_ascii();
    scan::hex(word).ok_or_else(|| ParseError::new(1, "a hexadecimal mask", word))
}
