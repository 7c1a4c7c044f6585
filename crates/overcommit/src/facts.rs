//! What of an object matters here?
//!
//! Objects are read once, when they arrive; what stays in memory is what the sums need. A pod is
//! some two hundred bytes then, whatever its spec weighs.

mod device;
mod metric;
mod node;
mod pod;
mod topology;

pub use device::DeviceFacts;
pub use metric::{HostUsage, MetricFacts, NodeUsage, PodUsage};
pub use node::{NodeFacts, Origin, Reserved, Shown, Switch, ThirdParty};
pub(crate) use pod::is_lent_to;
pub use pod::{PodFacts, PodKey, Pods};
pub use topology::{Processor, TopologyFacts, ZoneFacts, ZoneShown};
