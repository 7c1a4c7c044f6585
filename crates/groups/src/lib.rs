//! How are control groups called, and what can they be told?
//!
//! Values only: the kernel is read and written by `host`, decisions are made by `qos`. v1 and v2 are two
//! back ends of one vocabulary: CPU time is a duration, memory is bytes, limits are [`Limit`]s, and
//! shares stand for weights, whatever the file looks like.
//!
//! | type | says |
//! |---|---|
//! | [`CgroupPath`] | where a group is below its hierarchy |
//! | [`Layout`] | how the groups of pods are named, and whose a group is |
//! | [`ContainerId`] | which container, of which runtime |
//! | [`Knob`], [`Setting`] | one setting of a group, and its words on v1 and v2 |
//! | [`Disk`] | a block device, and what it is made of |
//! | [`mod@resctrl`] | the groups of caches and memory bandwidth, and their lines |
//! | [`Shares`], [`Weight`] | a group's part of the CPU among its siblings |

mod container;
mod controller;
mod device;
mod disk;
mod error;
mod knob;
mod layout;
mod limit;
mod path;
pub mod resctrl;
pub mod scan;
mod weight;

pub use self::container::{ContainerId, ContainerIdError, Runtime};
pub use self::controller::{Controller, Version};
pub use self::device::DeviceNumber;
pub use self::disk::{Disk, Partition, disk_of};
pub use self::error::ParseError;
pub use self::knob::{Knob, KnobError, KnobFile, Setting};
pub use self::layout::{Driver, Group, Layout, PodUid};
pub use self::limit::{Limit, parse_memory_limit};
pub use self::path::CgroupPath;
pub use self::weight::{Shares, Weight, WeightMap};
