//! What does the kernel of this machine say? One typed value for each of its files; nothing is decided here.
//!
//! | module | holds |
//! |---|---|
//! | [`fs`] | [`HostFs`](fs::HostFs), [`RealFs`](fs::RealFs), [`FakeFs`](fs::FakeFs); files kept open and a [`Buffer`](fs::Buffer) to read them into |
//! | [`cgroup`] | [`Tree`](cgroup::Tree) (v1, v2) to read and write, [`CgroupReader`](cgroup::CgroupReader) for counters |
//! | [`proc`] | [`NodeReader`](proc::NodeReader) for the host, scheduling and groups of a process |
//! | [`psi`] | pressure of the host and of groups |
//! | [`topology`] | CPUs, cores, sockets, caches, NUMA nodes, make of the CPU |
//! | [`resctrl`] | cache and bandwidth of groups: schemata, tasks, counters |
//! | [`perf`] | cycles and instructions of a group |
//! | [`cold`] | idle memory found by kidled |
//! | [`block`] | disks, partitions, volumes and mounts |
//! | [`probe`] | what this kernel offers, what its lacks cost, and how to mend them |
//! | [`cookies`] | who may share a core: core scheduling |
//! | [`qdisc`] | how packets of a device queue: the program `tc` |
//! | [`durable`] | small files of our own |
//! | [`wake`] | a program that measures how late threads wake up |
//! | [`record`] | a real machine as one text file for [`FakeFs`](fs::FakeFs) |
//!
//! A value that may be missing is a [`Reading`]; everything else that goes wrong is an error with the
//! file's path. In the steady state a read is one system call and no allocation.

pub mod block;
pub mod cgroup;
pub mod cold;
pub mod cookies;
pub mod durable;
mod error;
pub mod fs;
pub mod perf;
pub mod probe;
pub mod proc;
pub mod psi;
pub mod qdisc;
mod reading;
pub mod record;
pub mod resctrl;
pub mod topology;
pub mod wake;

pub use self::error::FileError;
pub use self::reading::Reading;
