//! The files of one group, kept open.
//!
//! A file is opened when it is first asked for and read from the start ever after: one system call and
//! no allocation a value. What the group does not have is learned once. After [`Reading::Gone`] the
//! reader stays gone, even if a group of the same name is made again: take a new one.

use std::path::PathBuf;
use std::time::Duration;

use units::{Bytes, CpuSet};

use super::io::{self, DeviceIo};
use super::memory::{self, MemoryEvents, MemoryStat};
use super::{CpuMax, CpuStat, Pids, Throttling, Tree, pids};
use crate::Reading;
use crate::cold::IdlePages;
use crate::error::FileError;
use crate::fs::{Buffer, Source};
use crate::psi::{Pressure, Resource};
use groups::{CgroupPath, Controller, Limit, ParseError, Version, scan};

/// Reads one group.
#[derive(Debug)]
pub struct CgroupReader {
    tree: Tree,
    group: CgroupPath,
    is_gone: bool,
    /// Few of the many files are ever asked for.
    slots: Vec<(File, Slot)>,
    cpus: Option<Box<KnownCpus>>,
}

#[derive(Debug)]
enum Slot {
    Open(Box<dyn Source>),
    Unsupported,
}

/// The last CPU set with its text, so that an unchanged one need not be built again.
#[derive(Debug, Default)]
struct KnownCpus {
    text: Vec<u8>,
    cpus: CpuSet,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum File {
    CpuUsage,
    CpuStat,
    CfsQuota,
    CfsPeriod,
    Cpus,
    MemoryStat,
    MemoryUsage,
    MemoryLimit,
    MemoryEvents,
    NumaStat,
    IdlePages,
    Pressure(Resource),
    PidsCurrent,
    PidsMax,
    Io(&'static str),
    Procs,
}

impl File {
    fn place(self, version: Version) -> (Controller, &'static str) {
        use Controller::{Blkio, Cpu, Cpuacct, Cpuset, Memory};
        match (self, version) {
            (Self::CpuUsage, Version::V1) => (Cpuacct, "cpuacct.usage"),
            (Self::CpuStat, Version::V1) => (Cpu, "cpu.stat"),
            // On v2 this file is there without the controller.
            (Self::CpuUsage | Self::CpuStat, Version::V2) => (Cpuacct, "cpu.stat"),
            (Self::CfsQuota, Version::V1) => (Cpu, "cpu.cfs_quota_us"),
            (Self::CfsPeriod, Version::V1) => (Cpu, "cpu.cfs_period_us"),
            (Self::CfsQuota | Self::CfsPeriod, Version::V2) => (Cpu, "cpu.max"),
            (Self::Cpus, Version::V1) => (Cpuset, "cpuset.cpus"),
            (Self::Cpus, Version::V2) => (Cpuset, "cpuset.cpus.effective"),
            (Self::MemoryStat, _) => (Memory, "memory.stat"),
            (Self::MemoryUsage, Version::V1) => (Memory, "memory.usage_in_bytes"),
            (Self::MemoryUsage, Version::V2) => (Memory, "memory.current"),
            (Self::MemoryLimit, Version::V1) => (Memory, "memory.limit_in_bytes"),
            (Self::MemoryLimit, Version::V2) => (Memory, "memory.max"),
            (Self::MemoryEvents, Version::V1) => (Memory, "memory.oom_control"),
            (Self::MemoryEvents, Version::V2) => (Memory, "memory.events"),
            (Self::NumaStat, _) => (Memory, "memory.numa_stat"),
            (Self::IdlePages, _) => (Memory, "memory.idle_page_stats"),
            // v1 has pressure files on Anolis only, and there all are with cpuacct.
            (Self::Pressure(resource), _) => (Cpuacct, resource.cgroup_file()),
            (Self::PidsCurrent, _) => (Controller::Pids, "pids.current"),
            (Self::PidsMax, _) => (Controller::Pids, "pids.max"),
            (Self::Io(name), _) => (Blkio, name),
            (Self::Procs, _) => (Cpu, "cgroup.procs"),
        }
    }
}

type Outcome<T> = Result<Reading<T>, FileError>;

impl CgroupReader {
    pub(super) fn new(tree: Tree, group: CgroupPath) -> Self {
        Self { tree, group, is_gone: false, slots: Vec::new(), cpus: None }
    }

    pub fn group(&self) -> &CgroupPath {
        &self.group
    }

    /// CPU time since the group was made.
    pub fn cpu_usage(&mut self, buffer: &mut Buffer) -> Outcome<Duration> {
        match self.tree.version() {
            Version::V1 => self.parse(File::CpuUsage, buffer, |text| {
                Ok(Duration::from_nanos(scan::only_number(text)?))
            }),
            Version::V2 => {
                self.parse(File::CpuUsage, buffer, |text| Ok(CpuStat::parse_v2(text)?.usage))
            }
        }
    }

    /// CPU time and throttling: one file on v2, two on v1.
    pub fn cpu_stat(&mut self, buffer: &mut Buffer) -> Outcome<CpuStat> {
        if self.tree.version() == Version::V2 {
            return self.parse(File::CpuUsage, buffer, CpuStat::parse_v2);
        }
        let usage = match self.cpu_usage(buffer)? {
            Reading::Value(usage) => usage,
            Reading::Unsupported => return Ok(Reading::Unsupported),
            Reading::Gone => return Ok(Reading::Gone),
        };
        Ok(match self.parse(File::CpuStat, buffer, Throttling::parse_v1)? {
            Reading::Value(throttling) => {
                Reading::Value(CpuStat { usage, throttling: Some(throttling) })
            }
            Reading::Unsupported => Reading::Value(CpuStat { usage, throttling: None }),
            Reading::Gone => Reading::Gone,
        })
    }

    pub fn cpu_max(&mut self, buffer: &mut Buffer) -> Outcome<CpuMax> {
        if self.tree.version() == Version::V2 {
            return self.parse(File::CfsQuota, buffer, CpuMax::parse_v2);
        }
        let quota = match self.parse(File::CfsQuota, buffer, scan::only_signed)? {
            Reading::Value(quota) => quota,
            Reading::Unsupported => return Ok(Reading::Unsupported),
            Reading::Gone => return Ok(Reading::Gone),
        };
        self.parse(File::CfsPeriod, buffer, |period| CpuMax::from_v1(quota, period))
    }

    /// The CPUs the group runs on.
    ///
    /// On v1 this is the group's own set, which the kernel keeps within its parent's; on v2 the
    /// effective one.
    pub fn cpus(&mut self, buffer: &mut Buffer) -> Outcome<&CpuSet> {
        let mut known = self.cpus.take().unwrap_or_default();
        let read = self.parse(File::Cpus, buffer, |text| {
            if known.text == text {
                return Ok(());
            }
            known.cpus = parse_cpus(text)?;
            known.text.clear();
            known.text.extend_from_slice(text);
            Ok(())
        });
        let cpus = &self.cpus.insert(known).cpus;
        Ok(read?.map(|()| cpus))
    }

    pub fn memory_stat(&mut self, buffer: &mut Buffer) -> Outcome<MemoryStat> {
        let version = self.tree.version();
        self.parse(File::MemoryStat, buffer, |text| MemoryStat::parse(version, text))
    }

    /// All memory charged to the group, with page cache.
    pub fn memory_usage(&mut self, buffer: &mut Buffer) -> Outcome<Bytes> {
        self.parse(File::MemoryUsage, buffer, |text| Ok(scan::bytes(scan::only_number(text)?)))
    }

    pub fn memory_limit(&mut self, buffer: &mut Buffer) -> Outcome<Limit<Bytes>> {
        self.parse(File::MemoryLimit, buffer, groups::parse_memory_limit)
    }

    pub fn memory_events(&mut self, buffer: &mut Buffer) -> Outcome<MemoryEvents> {
        self.parse(File::MemoryEvents, buffer, MemoryEvents::parse)
    }

    /// Memory on each NUMA node, by the node's number.
    pub fn numa_memory(&mut self, buffer: &mut Buffer, nodes: &mut Vec<Bytes>) -> Outcome<()> {
        let version = self.tree.version();
        self.parse(File::NumaStat, buffer, |text| memory::parse_numa_stat(version, text, nodes))
    }

    /// What kidled found idle; only on kernels that have it.
    pub fn idle_pages(&mut self, buffer: &mut Buffer) -> Outcome<IdlePages> {
        self.parse(File::IdlePages, buffer, IdlePages::parse)
    }

    pub fn pressure(&mut self, resource: Resource, buffer: &mut Buffer) -> Outcome<Pressure> {
        self.parse(File::Pressure(resource), buffer, Pressure::parse)
    }

    pub fn pids(&mut self, buffer: &mut Buffer) -> Outcome<Pids> {
        let current = match self.parse(File::PidsCurrent, buffer, scan::only_number)? {
            Reading::Value(current) => current,
            Reading::Unsupported => return Ok(Reading::Unsupported),
            Reading::Gone => return Ok(Reading::Gone),
        };
        self.parse(File::PidsMax, buffer, |max| Pids::new(current, max))
    }

    /// What was read from and written to each block device, sorted by device.
    pub fn io(&mut self, buffer: &mut Buffer, devices: &mut Vec<DeviceIo>) -> Outcome<()> {
        devices.clear();
        let version = self.tree.version();
        for (at, name) in io::files(version).iter().enumerate() {
            let read = self.parse(File::Io(name), buffer, |text| match version {
                Version::V1 => io::add_v1(text, at == 0, devices),
                Version::V2 => io::parse_v2(text, devices),
            })?;
            if read != Reading::Value(()) {
                return Ok(read);
            }
        }
        Ok(Reading::Value(()))
    }

    /// The processes of the group, not those of the groups below.
    pub fn procs(&mut self, buffer: &mut Buffer, ids: &mut Vec<u32>) -> Outcome<()> {
        self.parse(File::Procs, buffer, |text| pids::parse_ids(text, ids))
    }

    fn parse<T>(
        &mut self,
        file: File,
        buffer: &mut Buffer,
        parse: impl FnOnce(&[u8]) -> Result<T, ParseError>,
    ) -> Outcome<T> {
        if self.is_gone {
            return Ok(Reading::Gone);
        }
        let at = match self.slots.iter().position(|(known, _)| *known == file) {
            Some(at) => at,
            None => match self.open(file)? {
                Reading::Value(at) => at,
                Reading::Unsupported => return Ok(Reading::Unsupported),
                Reading::Gone => return Ok(Reading::Gone),
            },
        };
        let Some((_, Slot::Open(source))) = self.slots.get(at) else {
            return Ok(Reading::Unsupported);
        };
        let read = match file {
            File::Procs => buffer.read_all(&**source),
            _ => buffer.read_record(&**source),
        };
        match read {
            Ok(text) => parse(text)
                .map(Reading::Value)
                .map_err(|error| FileError::parse(self.path(file).unwrap_or_default(), error)),
            Err(source) => {
                let path = self.path(file).unwrap_or_default();
                let absent = self.tree.absent(&self.group, &path, &source);
                self.is_gone = matches!(absent, Some(Reading::Gone));
                absent.ok_or(FileError::Read { path, source })
            }
        }
    }

    /// Opens a file and says in which slot it is.
    fn open(&mut self, file: File) -> Outcome<usize> {
        let slot = match self.path(file) {
            None => Slot::Unsupported,
            Some(path) => match self.tree.fs().open(&path) {
                Ok(source) => Slot::Open(source),
                Err(source) => match self.tree.absent::<()>(&self.group, &path, &source) {
                    Some(Reading::Gone) => {
                        self.is_gone = true;
                        return Ok(Reading::Gone);
                    }
                    Some(_) => Slot::Unsupported,
                    None => return Err(FileError::Read { path, source }),
                },
            },
        };
        self.slots.push((file, slot));
        Ok(Reading::Value(self.slots.len() - 1))
    }

    fn path(&self, file: File) -> Option<PathBuf> {
        let (controller, name) = file.place(self.tree.version());
        Some(self.tree.dir(controller, &self.group)?.join(name))
    }
}

fn parse_cpus(text: &[u8]) -> Result<CpuSet, ParseError> {
    let bad = || ParseError::new(1, "a list of cpus", text.trim_ascii());
    str::from_utf8(text).ok().and_then(|list| list.parse().ok()).ok_or_else(bad)
}
