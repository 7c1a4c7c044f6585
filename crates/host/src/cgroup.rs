//! What do the control groups of this host say?
//!
//! [`Tree`] is the host's hierarchies, v1 or v2, found and never mounted. A group has a [`CgroupPath`]
//! below the hierarchy's root; [`Layout`] names the groups of pods and recognises them. A
//! [`CgroupReader`] keeps the files of one group open and reads them as typed values; a [`Knob`] is one
//! setting that can be written.
//!
//! v1 and v2 are two back ends of one vocabulary: CPU time is a duration, memory is bytes, limits are
//! [`Limit`](crate::Limit)s, and shares stand for weights, whatever the file looks like.

mod container;
mod cpu;
mod io;
mod knob;
mod layout;
mod memory;
mod path;
mod pids;
mod reader;
mod tree;
mod weight;

pub use self::container::{ContainerId, ContainerIdError, Runtime};
pub use self::cpu::{CpuMax, CpuStat, Throttling};
pub use self::io::{DeviceIo, DeviceNumber};
pub use self::knob::{Knob, KnobError, KnobFile, Setting};
pub use self::layout::{Driver, Group, KubeQos, Layout, PodUid};
pub use self::memory::{MemoryEvents, MemoryStat};
pub use self::path::CgroupPath;
pub use self::pids::Pids;
pub use self::reader::CgroupReader;
pub use self::tree::{Controller, Tree, TreeError, Version};
pub use self::weight::{Shares, Weight, WeightMap};
