//! What does this node do for its online pods in this round?

mod host_application;
mod metric_policy;
mod object;
mod pod;
mod readings;
mod round;
mod state;
pub mod strategy;
#[cfg(test)]
mod tests;

pub use self::host_application::{HostApplication, host_applications};
pub use self::metric_policy::{MemoryPolicy, MetricPolicy, metric_policy};
pub use self::object::{Node, SystemCpus};
pub use self::pod::{
    Annotations, Container, ContainerSpec, ContainerState, Eviction, LentAmount, Pod, PodPhase,
    Pods, next,
};
pub use self::readings::{Readings, readings};
pub use self::round::{CACHE, COOKIES, FastQuota, Memory, NETWORK, Post, Round, round, strategies};
pub use self::state::{
    CacheHardware, CacheParts, ContainerUsage, CpuUsage, Kernel, Machine, NodeCpus, NodeState,
    Settings, State, Usage, milli,
};
