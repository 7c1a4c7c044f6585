//! What the kernel says about one process.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;

use crate::Reading;
use crate::error::FileError;
use crate::fs::HostFs;
use groups::{CgroupPath, Controller, ParseError, Version, scan};

/// `/proc/<pid>/schedstat`: how long a task ran and how long it waited for a CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SchedStat {
    pub run: Duration,
    pub wait: Duration,
    pub slices: u64,
}

impl SchedStat {
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        let mut words = scan::words(text);
        let mut next = || scan::pair_number(1, words.next().unwrap_or_default());
        Ok(Self {
            run: Duration::from_nanos(next()?),
            wait: Duration::from_nanos(next()?),
            slices: next()?,
        })
    }

    pub fn read(fs: &dyn HostFs, pid: u32) -> Result<Reading<Self>, FileError> {
        read(fs, pid, "schedstat", Self::parse)
    }
}

/// `/proc/<pid>/cgroup`: the groups a process is in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessCgroups {
    v1: Vec<(Controller, CgroupPath)>,
    v2: Option<CgroupPath>,
}

impl ProcessCgroups {
    /// Lines `4:memory:/a/b` on v1, `0::/a/b` on v2.
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        let mut groups = Self::default();
        for (at, line) in scan::lines(text) {
            let bad = || ParseError::new(at, "<id>:<controllers>:<path>", line);
            let line = str::from_utf8(line).map_err(|_| bad())?;
            let mut parts = line.splitn(3, ':');
            let (Some(_), Some(names), Some(path)) = (parts.next(), parts.next(), parts.next())
            else {
                return Err(bad());
            };
            let path = CgroupPath::new(path.trim_end_matches(" (deleted)"));
            if names.is_empty() {
                groups.v2 = Some(path.clone());
            }
            for controller in Controller::ALL {
                if names.split(',').any(|name| name == controller.name()) {
                    groups.v1.push((controller, path.clone()));
                }
            }
        }
        Ok(groups)
    }

    pub fn read(fs: &dyn HostFs, pid: u32) -> Result<Reading<Self>, FileError> {
        read(fs, pid, "cgroup", Self::parse)
    }

    pub fn group(&self, version: Version, controller: Controller) -> Option<&CgroupPath> {
        match version {
            Version::V1 => {
                let found = self.v1.iter().find(|(known, _)| *known == controller);
                found.map(|(_, path)| path)
            }
            Version::V2 => self.v2.as_ref(),
        }
    }
}

fn read<T>(
    fs: &dyn HostFs,
    pid: u32,
    file: &str,
    parse: impl FnOnce(&[u8]) -> Result<T, ParseError>,
) -> Result<Reading<T>, FileError> {
    let dir = PathBuf::from(format!("/proc/{pid}"));
    let path = dir.join(file);
    let is_gone = |error: &io::Error| {
        matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::SRCH | Errno::NODEV))
    };
    match fs.read(&path) {
        Ok(text) => parse(&text).map(Reading::Value).map_err(|error| FileError::parse(path, error)),
        Err(error) if is_gone(&error) && fs.exists(&dir) => Ok(Reading::Unsupported),
        Err(error) if is_gone(&error) => Ok(Reading::Gone),
        Err(source) => Err(FileError::Read { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::FakeFs;

    #[test]
    fn a_process_is_in_one_group_of_each_hierarchy() {
        let text = b"9:name=systemd:/\n4:memory:/m/x\n2:cpu,cpuacct:/c\n0::/u\n";
        let groups = ProcessCgroups::parse(text).unwrap();
        let at = |version, controller| groups.group(version, controller).map(CgroupPath::as_str);
        assert_eq!(at(Version::V1, Controller::Memory), Some("m/x"));
        assert_eq!(at(Version::V1, Controller::Cpuacct), Some("c"));
        assert_eq!(at(Version::V1, Controller::Blkio), None);
        assert_eq!(at(Version::V2, Controller::Memory), Some("u"));
        assert!(ProcessCgroups::parse(b"4:memory\n").is_err());
        assert!(ProcessCgroups::parse(b"4:memory:/\xff\n").is_err());
    }

    #[test]
    fn a_process_that_ended_is_gone() {
        let host =
            FakeFs::from_fixture("-- proc/7/schedstat --\n100 50 3\n-- proc/8/stat --\n").unwrap();
        let stat =
            SchedStat { run: Duration::from_nanos(100), wait: Duration::from_nanos(50), slices: 3 };
        assert_eq!(SchedStat::read(&host, 7).unwrap(), Reading::Value(stat));
        assert_eq!(SchedStat::read(&host, 8).unwrap(), Reading::Unsupported);
        assert_eq!(SchedStat::read(&host, 9).unwrap(), Reading::Gone);
        host.fail("/proc/7/schedstat", Some(Errno::SRCH));
        host.remove("/proc/8");
        assert_eq!(SchedStat::read(&host, 8).unwrap(), Reading::Gone);
        assert!(SchedStat::parse(b"1 2\n").is_err());
    }
}
