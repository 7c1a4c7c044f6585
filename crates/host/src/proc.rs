//! What does `/proc` say about the whole host and about single processes?

mod meminfo;
mod process;
mod stat;
mod system;

pub use self::meminfo::{MemInfo, NodeMemInfo};
pub use self::process::{ProcessCgroups, SchedStat};
pub use self::stat::{CpuTimes, Stat};
pub use self::system::{LoadAverage, NodeReader, VmStat};
