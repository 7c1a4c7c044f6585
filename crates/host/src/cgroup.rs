//! What do the control groups of this host say?
//!
//! [`Tree`] is the host's hierarchies, v1 or v2, found and never mounted. A [`CgroupReader`] keeps the files
//! of one group open and reads them as typed values. Names, settings and their words on both versions are
//! values of the crate `groups`.

mod cpu;
mod io;
mod memory;
mod pids;
mod reader;
mod tree;

pub use self::cpu::{CpuMax, CpuStat, Throttling};
pub use self::io::DeviceIo;
pub use self::memory::{MemoryEvents, MemoryStat};
pub use self::pids::Pids;
pub use self::reader::CgroupReader;
pub use self::tree::{SetError, Tree, TreeError};
