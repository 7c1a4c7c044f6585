//! `resource-qos-config` with class defaults: which kernel treatment each QoS class gets.

use serde::Deserialize;
use units::Percent;

use super::policy_of;
use super::words::{CpuPriorityMechanism, NetworkMechanism};
use crate::config::Key;
use crate::config::defaults::agent_qos;
use crate::qos::StrategyClass;
use crate::strategy::{BlkioQos, MemoryQos, NetworkQos};

/// Kernel treatment of each QoS class; a feature that is off has neutral values.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QosPolicy {
    pub policies: QosMechanisms,
    #[serde(rename = "lsrClass")]
    pub lsr: ClassPolicy,
    #[serde(rename = "lsClass")]
    pub ls: ClassPolicy,
    #[serde(rename = "beClass")]
    pub be: ClassPolicy,
    #[serde(rename = "systemClass")]
    pub system: ClassPolicy,
    /// Of the root cgroup only disk I/O is used; `None` leaves disks alone.
    #[serde(default)]
    pub cgroup_root: RootPolicy,
}

/// Which kernel mechanisms carry the settings of classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct QosMechanisms {
    #[serde(rename = "cpuPolicy")]
    pub cpu: CpuPriorityMechanism,
    #[serde(rename = "netQOSPolicy")]
    pub network: NetworkMechanism,
}

/// Kernel treatment of one QoS class.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ClassPolicy {
    #[serde(rename = "cpuQOS")]
    pub cpu: CpuClassPolicy,
    /// As written: a pod's own words are laid over each field, and `None` leaves the kernel's value alone.
    #[serde(rename = "memoryQOS")]
    pub memory: MemoryQos,
    /// As written: every field of a disk has its own meaning of absent.
    #[serde(rename = "blkioQOS")]
    pub blkio: BlkioQos,
    #[serde(rename = "resctrlQOS")]
    pub resctrl: ResctrlPolicy,
    /// As written: `None` bounds nothing.
    #[serde(rename = "networkQOS")]
    pub network: NetworkQos,
}

/// CPU scheduling of one QoS class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CpuClassPolicy {
    pub enable: bool,
    pub group_identity: i64,
    pub sched_idle: i64,
    pub core_expeller: bool,
}

/// Last-level cache and memory bandwidth of one QoS class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResctrlPolicy {
    pub enable: bool,
    pub cat_range_start_percent: Percent,
    pub cat_range_end_percent: Percent,
    pub mba_percent: Percent,
}

/// Settings of the root cgroup.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct RootPolicy {
    #[serde(rename = "blkioQOS", default)]
    pub blkio: BlkioQos,
}

impl QosPolicy {
    /// The class defaults of the agent, features off: what `policy: auto` of a pod starts from.
    pub fn class_defaults() -> Self {
        policy_of(Key::Qos, &agent_qos())
    }

    pub fn class(&self, class: StrategyClass) -> &ClassPolicy {
        match class {
            StrategyClass::Lsr => &self.lsr,
            StrategyClass::Ls => &self.ls,
            StrategyClass::Be => &self.be,
            StrategyClass::System => &self.system,
        }
    }
}
