//! Which interface does the kernel offer, and which parts of it?

use serde::{Deserialize, Serialize};

/// The version whose files hold the controllers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Version {
    V1,
    V2,
}

/// The controllers we look at, by their v1 names; `Blkio` is `io` on v2, `Cpuacct` part of `cpu`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Controller {
    Cpu,
    Cpuacct,
    Cpuset,
    Memory,
    Blkio,
    Pids,
    PerfEvent,
    NetCls,
    Freezer,
}

impl Controller {
    pub const ALL: [Self; 9] = [
        Self::Cpu,
        Self::Cpuacct,
        Self::Cpuset,
        Self::Memory,
        Self::Blkio,
        Self::Pids,
        Self::PerfEvent,
        Self::NetCls,
        Self::Freezer,
    ];

    /// The v1 name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cpuacct => "cpuacct",
            Self::Cpuset => "cpuset",
            Self::Memory => "memory",
            Self::Blkio => "blkio",
            Self::Pids => "pids",
            Self::PerfEvent => "perf_event",
            Self::NetCls => "net_cls",
            Self::Freezer => "freezer",
        }
    }

    /// The word in `cgroup.controllers`; `None` when v2 has it built in or not at all.
    pub fn v2_name(self) -> Option<&'static str> {
        match self {
            Self::Cpu => Some("cpu"),
            Self::Cpuset => Some("cpuset"),
            Self::Memory => Some("memory"),
            Self::Blkio => Some("io"),
            Self::Pids => Some("pids"),
            Self::Cpuacct | Self::PerfEvent | Self::NetCls | Self::Freezer => None,
        }
    }
}
