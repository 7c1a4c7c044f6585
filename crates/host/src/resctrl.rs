//! Who gets how much of the last-level cache and of the memory's bandwidth? The `resctrl` file system.
//!
//! What its groups are called and hold is [`groups::resctrl`]'s.

mod monitor;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::monitor::{DomainUse, MonitorGroup};
use crate::Reading;
use crate::error::FileError;
use crate::fs::HostFs;
use crate::topology::read_optional;
use groups::resctrl::{BandwidthInfo, CacheInfo, Group, Info, Resource, Schemata};
use groups::{ParseError, scan};

const ROOT: &str = "/sys/fs/resctrl";
/// The mounted file system.
#[derive(Debug, Clone)]
pub struct Resctrl {
    fs: Arc<dyn HostFs>,
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
