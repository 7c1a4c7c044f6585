//! The files about the whole host, kept open.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use units::Bytes;

use super::{MemInfo, NodeMemInfo, Stat};
use crate::Reading;
use crate::error::FileError;
use crate::fs::{Buffer, HostFs, Source};
use crate::psi::{Pressure, Resource};
use crate::topology::{NumaNode, Topology};
use groups::{ParseError, scan};

/// Reads the host's own numbers, one system call each.
#[derive(Debug)]
pub struct NodeReader {
    fs: Arc<dyn HostFs>,
    /// Few; the path says which. `None` for one that this kernel does not have.
    files: Vec<(PathBuf, Option<Box<dyn Source>>)>,
}

impl NodeReader {
    pub fn new(fs: Arc<dyn HostFs>) -> Self {
        Self { fs, files: Vec::new() }
    }

    /// How long one clock tick of [`Stat`] is on this machine.
    pub fn tick() -> Duration {
        let ticks = rustix::param::clock_ticks_per_second();
        Duration::from_secs(1) / u32::try_from(ticks).unwrap_or(100).max(1)
    }

    pub fn stat(&mut self, buffer: &mut Buffer, stat: &mut Stat) -> Result<(), FileError> {
        self.parse(Path::new("/proc/stat"), buffer, |text| stat.fill(text))
    }

    pub fn memory(&mut self, buffer: &mut Buffer) -> Result<MemInfo, FileError> {
        self.parse(Path::new("/proc/meminfo"), buffer, MemInfo::parse)
    }

    /// Memory of a NUMA node, given the path of its `meminfo` (see [`Topology`](crate::topology::Topology)).
    pub fn node_memory(
        &mut self,
        meminfo: &Path,
        buffer: &mut Buffer,
    ) -> Result<NodeMemInfo, FileError> {
        self.parse(meminfo, buffer, NodeMemInfo::parse)
    }

    /// How much memory a NUMA node has for processes.
    ///
    /// A virtual machine may accept its memory piece by piece as it is first used: the node's own file
    /// counts what was accepted so far, `/proc/meminfo` all of it. So the only node of a host has what
    /// the host has. Where there are several, nobody says which of them the rest belongs to, and each has
    /// what its own file says.
    pub fn node_capacity(
        &mut self,
        topology: &Topology,
        node: &NumaNode,
        buffer: &mut Buffer,
    ) -> Result<Bytes, FileError> {
        match topology.nodes.as_slice() {
            [_] => Ok(self.memory(buffer)?.total),
            _ => Ok(self.node_memory(&node.meminfo, buffer)?.total),
        }
    }

    pub fn load(&mut self, buffer: &mut Buffer) -> Result<LoadAverage, FileError> {
        self.parse(Path::new("/proc/loadavg"), buffer, LoadAverage::parse)
    }

    pub fn vmstat(&mut self, buffer: &mut Buffer) -> Result<VmStat, FileError> {
        self.parse(Path::new("/proc/vmstat"), buffer, VmStat::parse)
    }

    /// The host's pressure; unsupported on kernels without PSI or with it switched off.
    pub fn pressure(
        &mut self,
        resource: Resource,
        buffer: &mut Buffer,
    ) -> Result<Reading<Pressure>, FileError> {
        self.parse_optional(Path::new(resource.host_file()), buffer, Pressure::parse)
    }

    fn parse<T>(
        &mut self,
        path: &Path,
        buffer: &mut Buffer,
        parse: impl FnOnce(&[u8]) -> Result<T, ParseError>,
    ) -> Result<T, FileError> {
        let value = self.parse_optional(path, buffer, parse)?.value();
        value.ok_or_else(|| FileError::Read {
            path: path.to_owned(),
            source: io::ErrorKind::NotFound.into(),
        })
    }

    fn parse_optional<T>(
        &mut self,
        path: &Path,
        buffer: &mut Buffer,
        parse: impl FnOnce(&[u8]) -> Result<T, ParseError>,
    ) -> Result<Reading<T>, FileError> {
        let failed = |source| FileError::Read { path: path.to_owned(), source };
        let known = self.files.iter().find(|(known, _)| known == path);
        let text = match known {
            Some((_, None)) => return Ok(Reading::Unsupported),
            Some((_, Some(source))) => buffer.read_record(&**source),
            None => match self.fs.open(path) {
                Ok(source) => {
                    let text = buffer.read_record(&*source);
                    self.files.push((path.to_owned(), Some(source)));
                    text
                }
                Err(error) => Err(error),
            },
        };
        match text {
            Ok(text) => parse(text)
                .map(Reading::Value)
                .map_err(|error| FileError::parse(path.to_owned(), error)),
            Err(error) if is_unsupported(&error) => {
                self.files.retain(|(known, _)| known != path);
                self.files.push((path.to_owned(), None));
                Ok(Reading::Unsupported)
            }
            Err(error) => Err(failed(error)),
        }
    }
}

/// These files come and go only with the kernel.
fn is_unsupported(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::OPNOTSUPP))
}

/// `/proc/loadavg`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadAverage {
    /// Over one minute, in hundredths.
    pub one_hundredths: u64,
    /// Tasks that run or want to.
    pub runnable: u64,
    pub tasks: u64,
}

impl LoadAverage {
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        let bad = || ParseError::new(1, "load averages and tasks", text.trim_ascii());
        let mut words = scan::words(text);
        let one = words.next().ok_or_else(bad)?;
        let tasks = words.nth(2).ok_or_else(bad)?;
        let pair = |word: &[u8], between: u8| {
            let at = word.iter().position(|byte| *byte == between)?;
            Some((scan::number(word.get(..at)?)?, scan::number(word.get(at + 1..)?)?))
        };
        let (whole, part) = pair(one, b'.').filter(|(_, part)| *part < 100).ok_or_else(bad)?;
        let (runnable, tasks) = pair(tasks, b'/').ok_or_else(bad)?;
        Ok(Self { one_hundredths: whole.saturating_mul(100).saturating_add(part), runnable, tasks })
    }
}

/// `/proc/vmstat`, as far as it is needed. Counters of pages since boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VmStat {
    pub pswpin: u64,
    pub pswpout: u64,
    pub pgmajfault: u64,
    pub oom_kill: u64,
}

impl VmStat {
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        let mut stat = Self::default();
        let mut is_vmstat = false;
        for (at, key, value) in scan::pairs(text) {
            let place = match key {
                b"pswpin" => &mut stat.pswpin,
                b"pswpout" => &mut stat.pswpout,
                b"pgmajfault" => &mut stat.pgmajfault,
                b"oom_kill" => &mut stat.oom_kill,
                _ => continue,
            };
            *place = scan::pair_number(at, value)?;
            is_vmstat = true;
        }
        if is_vmstat { Ok(stat) } else { Err(ParseError::missing(text, "pgmajfault")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_counts_tasks() {
        let load = LoadAverage::parse(b"1.59 0.40 0.10 3/412 12345\n").unwrap();
        let want = LoadAverage { one_hundredths: 159, runnable: 3, tasks: 412 };
        assert_eq!(load, want);
        for text in ["", "1.59", "x 0 0 1/2 3", "1.590 0 0 1/2 3", "1.59 0 0 12 3"] {
            assert!(LoadAverage::parse(text.as_bytes()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn vmstat_takes_what_is_there() {
        let stat = VmStat::parse(b"nr_free_pages 1\npgmajfault 5\noom_kill 2\n").unwrap();
        assert_eq!(stat, VmStat { pgmajfault: 5, oom_kill: 2, ..VmStat::default() });
        assert!(VmStat::parse(b"").is_err());
        assert!(VmStat::parse(b"pgmajfault x\n").is_err());
    }
}
