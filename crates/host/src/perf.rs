//! How many cycles and instructions did a cgroup take? Counters of the CPU, through `perf_event_open`.
//!
//! A pair of counters is opened on every CPU for the tasks of the group that run there, as one event
//! group so that both count over the same time. Virtual machines often have no such counters, and
//! kernels may forbid them; then the answer is [`Reading::Unsupported`] and does not change.

#![expect(unsafe_code, reason = "rustix has no perf_event_open")]

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use units::CpuSet;

use crate::Reading;

/// The first published form of `struct perf_event_attr`, which every kernel takes.
#[repr(C)]
#[derive(Debug, Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

const HARDWARE: u32 = 0;
const CYCLES: u64 = 0;
const INSTRUCTIONS: u64 = 1;
/// Time enabled, time running, and all values of the group in one read.
const READ_FORMAT: u64 = 1 | 2 | 8;
const FOR_CGROUP: libc::c_ulong = 4;
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// Sums over all CPUs, scaled up for the time in which the counters had to be shared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cycles {
    pub cycles: u64,
    pub instructions: u64,
}

/// Counters of one cgroup, running until dropped.
#[derive(Debug)]
pub struct CgroupCounters {
    cpus: Vec<Pair>,
}

#[derive(Debug)]
struct Pair {
    cycles: OwnedFd,
    /// Read through `cycles`, the leader of the group.
    _instructions: OwnedFd,
}

impl CgroupCounters {
    /// Descriptors taken per CPU.
    pub const DESCRIPTORS: usize = 2;

    /// Starts counting for the group with this directory (of the `perf_event` hierarchy on v1).
    pub fn open(dir: &Path, cpus: &CpuSet) -> io::Result<Reading<Self>> {
        let group = match File::open(dir) {
            Ok(group) => group,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Reading::Gone),
            Err(error) => return Err(error),
        };
        let mut pairs = Vec::with_capacity(cpus.len());
        for cpu in cpus.iter() {
            match Pair::open(group.as_raw_fd(), cpu, FOR_CGROUP) {
                Ok(pair) => pairs.push(pair),
                Err(error) if is_unsupported(&error) => return Ok(Reading::Unsupported),
                Err(error) => return Err(error),
            }
        }
        Ok(Reading::Value(Self { cpus: pairs }))
    }

    /// What was counted since the start.
    pub fn read(&self) -> io::Result<Cycles> {
        let mut sum = Cycles::default();
        for pair in &self.cpus {
            let Cycles { cycles, instructions } = pair.read()?;
            sum.cycles = sum.cycles.saturating_add(cycles);
            sum.instructions = sum.instructions.saturating_add(instructions);
        }
        Ok(sum)
    }
}

/// Can this process count at all? Tries it on itself.
pub fn probe() -> io::Result<()> {
    // Any CPU, this process: no cgroup is needed to see whether there is hardware and a right.
    open_event(CYCLES, 0, -1, -1, 0).map(drop)
}

impl Pair {
    fn open(target: i32, cpu: u16, flags: libc::c_ulong) -> io::Result<Self> {
        let cpu = i32::from(cpu);
        let cycles = open_event(CYCLES, target, cpu, -1, flags)?;
        let instructions = open_event(INSTRUCTIONS, target, cpu, cycles.as_raw_fd(), flags)?;
        Ok(Self { cycles, _instructions: instructions })
    }

    fn read(&self) -> io::Result<Cycles> {
        let mut bytes = [0_u8; 5 * mem::size_of::<u64>()];
        let length = rustix::io::read(&self.cycles, &mut bytes)?;
        let mut words = [0_u64; 5];
        for (word, chunk) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_ne_bytes(*chunk);
        }
        let [count, enabled, running, cycles, instructions] = words;
        if length != bytes.len() || count != 2 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Cycles {
            cycles: scale(cycles, enabled, running),
            instructions: scale(instructions, enabled, running),
        })
    }
}

/// Counters that were shared ran only part of the time.
fn scale(value: u64, enabled: u64, running: u64) -> u64 {
    if running == 0 {
        return 0;
    }
    let scaled = u128::from(value) * u128::from(enabled) / u128::from(running);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

fn open_event(
    config: u64,
    target: i32,
    cpu: i32,
    leader: i32,
    flags: libc::c_ulong,
) -> io::Result<OwnedFd> {
    let attributes = Attributes {
        kind: HARDWARE,
        size: u32::try_from(mem::size_of::<Attributes>()).unwrap_or_default(),
        config,
        read_format: READ_FORMAT,
        ..Attributes::default()
    };
    // SAFETY: the kernel reads `size` bytes of `attributes`, which lives until after the call, and
    // keeps no pointer to it; the other arguments are numbers.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            target,
            cpu,
            leader,
            flags | CLOSE_ON_EXEC,
        )
    };
    let fd = i32::try_from(fd).unwrap_or(-1);
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// No hardware counters, or no right to them: asking again is of no use.
pub fn is_unsupported(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(
            Errno::NOENT
                | Errno::OPNOTSUPP
                | Errno::ACCESS
                | Errno::PERM
                | Errno::NODEV
                | Errno::NOSYS
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_counters_are_scaled_up() {
        assert_eq!(scale(100, 10, 10), 100);
        assert_eq!(scale(100, 10, 5), 200);
        assert_eq!(scale(100, 10, 0), 0);
        assert_eq!(scale(u64::MAX, u64::MAX, 1), u64::MAX);
    }

    #[test]
    fn the_attributes_have_the_first_published_size() {
        assert_eq!(mem::size_of::<Attributes>(), 64);
    }

    #[test]
    fn a_missing_group_is_gone() {
        let cpus = CpuSet::from_iter([0]);
        let opened = CgroupCounters::open(Path::new("/nonexistent/group"), &cpus).unwrap();
        assert!(opened.is_gone());
    }
}
