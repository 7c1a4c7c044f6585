//! What was measured lately, and how much may be remembered?
//!
//! A series is a [`Measure`] of a [`Subject`]. Usage of the node, the system, NUMA nodes, the
//! best-effort tier, pods and host applications is kept for half an hour, because NodeMetric reports
//! percentiles of that window; containers and throttling for two minutes, because only the newest
//! values are asked for. Objects that left the [`NodeState`](crate::node_state::NodeState) are forgotten at once.
//!
//! Memory is bounded three times: each ring by its window, all of them by the number of objects
//! on the node, and the whole by [`CollectSettings::max_points`](crate::collect::CollectSettings), beyond
//! which the oldest points of all series go first and are counted.

mod facts;
mod store;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use stats::{Sample, Summary};

use crate::collect::Task;

pub use facts::{
    CacheUse, Cpi, Facts, Health, MemoryRoom, NodeInfo, PressureSample, QosCacheUse, StorageInfo,
};
pub use store::{Store, StoreSize};

/// Whose usage a series tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subject<'a> {
    Node,
    /// The node without pods and host applications.
    System,
    /// All best-effort pods together.
    BestEffort,
    Numa(u32),
    /// A NUMA node without pods.
    NumaSystem(u32),
    /// By uid.
    Pod(&'a str),
    /// By id with the runtime's prefix.
    Container(&'a str),
    /// By name.
    HostApplication(&'a str),
    /// By minor number.
    Gpu(u32),
}

/// What a series tells of its subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Measure {
    /// Cores in use.
    Cpu,
    /// Bytes in use without page cache.
    Memory,
    /// Bytes in use with page cache.
    MemoryWithPageCache,
    /// Bytes in use with the page cache that is not cold.
    MemoryWithHotPages,
    /// Bytes of page cache nobody touched for minutes.
    ColdPages,
    /// Share of CPU bandwidth periods that were throttled, from 0 to 1.
    Throttled,
    /// Cores asked for; only of the best-effort tier.
    Request,
    /// Cores that cpusets and quotas leave; only of the best-effort tier.
    RealLimit,
    /// Percent of a device's cores in use; only of GPUs.
    DeviceCore,
    /// Bytes of a device's memory in use; only of GPUs.
    DeviceMemory,
    /// Bytes of a device's memory in all; only of GPUs.
    DeviceMemoryTotal,
}

impl Measure {
    pub(crate) const COUNT: usize = 11;

    fn index(self) -> usize {
        self as usize
    }
}

/// Everything that was measured: written by the kernel thread, read by everyone.
#[derive(Debug, Clone)]
pub struct Metrics {
    store: Arc<Mutex<Store>>,
}

impl Metrics {
    pub fn new(store: Store) -> Self {
        Self { store: Arc::new(Mutex::new(store)) }
    }

    /// Pressure of a pod or container, when it was last read.
    pub fn pressure(&self, subject: Subject<'_>) -> Option<PressureSample> {
        self.store.lock().pressure(subject)
    }

    /// Cycles and instructions of a container, when they were last counted.
    pub fn cpi(&self, subject: Subject<'_>) -> Option<Cpi> {
        self.store.lock().cpi(subject)
    }

    /// What is known about the node besides series. Cheap to clone.
    pub fn facts(&self) -> Facts {
        self.store.lock().facts.clone()
    }

    /// How a collector is doing; `None` before it ran.
    pub fn health(&self, task: Task) -> Option<Health> {
        self.store.lock().health(task).cloned()
    }

    /// The newest value of a series, however old it is.
    pub fn latest(&self, subject: Subject<'_>, measure: Measure) -> Option<Sample> {
        self.store.lock().latest(subject, measure)
    }

    /// The newest value of a series unless it is older than `window`.
    pub fn recent(
        &self,
        subject: Subject<'_>,
        measure: Measure,
        now: Duration,
        window: Duration,
    ) -> Option<f64> {
        let sample = self.latest(subject, measure)?;
        (sample.at >= now.saturating_sub(window)).then_some(sample.value)
    }

    /// The mean of a series over the last `window`; `None` without samples.
    pub fn average(
        &self,
        subject: Subject<'_>,
        measure: Measure,
        now: Duration,
        window: Duration,
    ) -> Option<f64> {
        self.store.lock().average(subject, measure, now, window)
    }

    /// All aggregates of a series over the last `window`; `None` without samples. Ask
    /// [`Summary::covers_half_of`] whether the window is full enough to be reported.
    pub fn summary(
        &self,
        subject: Subject<'_>,
        measure: Measure,
        now: Duration,
        window: Duration,
    ) -> Option<Summary> {
        self.store.lock().summary(subject, measure, now, window)
    }

    /// NUMA nodes that have samples, in the order of their ids.
    pub fn numa_nodes(&self) -> Vec<u32> {
        self.store.lock().numa_nodes()
    }

    /// How much is remembered.
    pub fn size(&self) -> StoreSize {
        self.store.lock().size()
    }

    /// The store itself; hold it for lines.
    pub fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock()
    }
}
