//! Which CPUs and NUMA nodes does this machine have, and who is told?
//!
//! The machine is read here ([`machine`]) and the node's NodeResourceTopology is kept as
//! [`qos::topology`] says ([`publish`]).

pub mod machine;
pub mod publish;

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use qos::topology::Topology;

/// The newest topology for those who act on it; none before the machine and the Node are known.
pub type SharedTopology = Arc<ArcSwapOption<Topology>>;
