//! What is known about the node besides series: the newest value of each, with the time it is from.

use std::sync::Arc;
use std::time::Duration;

use api::qos::QosClass;
use groups::Disk;
use host::block::Mount;
use host::psi::Pressure;
use host::topology::{CpuModel, Topology};
use units::Bytes;

/// The newest objects; `None` until their collector ran.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    pub node: Option<Arc<NodeInfo>>,
    pub storage: Option<Arc<StorageInfo>>,
    /// By QoS class; empty without cache monitoring.
    pub cache: Arc<Vec<QosCacheUse>>,
    pub memory: Option<MemoryRoom>,
}

/// The memory that runs out first: the machine's, or that of a group around all pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryRoom {
    pub at: Duration,
    /// Without page cache that can be given up.
    pub used: Bytes,
    pub capacity: Bytes,
}

/// CPUs, caches and memory nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeInfo {
    pub at: Duration,
    pub topology: Topology,
    /// `None` when only the topology could be read.
    pub model: Option<CpuModel>,
}

/// Disks and what is mounted from them.
#[derive(Debug, Clone, PartialEq)]
pub struct StorageInfo {
    pub at: Duration,
    pub disks: Arc<Vec<Disk>>,
    pub mounts: Vec<Mount>,
}

/// Cache and bandwidth of all pods of a class.
#[derive(Debug, Clone, PartialEq)]
pub struct QosCacheUse {
    pub at: Duration,
    pub class: QosClass,
    pub caches: Vec<CacheUse>,
}

/// Use of one last-level cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CacheUse {
    pub id: u32,
    /// Bytes in the cache.
    pub occupancy: Option<u64>,
    /// Bytes moved since the group was made.
    pub local_bytes: Option<u64>,
    pub total_bytes: Option<u64>,
    /// Bytes a second since the last reading.
    pub local_rate: Option<f64>,
    pub total_rate: Option<f64>,
}

/// Pressure of a group; what its kernel does not have is `None`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PressureSample {
    pub at: Duration,
    pub cpu: Option<Pressure>,
    pub memory: Option<Pressure>,
    pub io: Option<Pressure>,
}

/// What a container's CPUs did in one counting window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cpi {
    pub at: Duration,
    pub cycles: u64,
    pub instructions: u64,
}

/// How a collector is doing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// It had a round that worked, or found that it has nothing to do here.
    pub is_started: bool,
    /// This host cannot offer what it collects.
    pub is_unsupported: bool,
    pub last_success: Option<Duration>,
    /// Rounds that failed as a whole.
    pub failures: u64,
    pub last_error: Option<String>,
    /// Objects that are there and cannot be read now.
    pub failing_objects: usize,
}
