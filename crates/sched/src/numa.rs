//! Which CPUs and NUMA nodes does a pod get? (plugin NodeNUMAResource)
//!
//! LSE and LSR pods get logical CPUs of their own; the scheduler picks them, the node agent
//! applies them. On nodes with a NUMA policy every pod's resources are kept together as the policy
//! says. All of it is arithmetic over one node:
//!
//! | module | question |
//! |---|---|
//! | [`topology`] | where does each CPU sit? |
//! | [`take`] | which CPUs, of those that are free? |
//! | [`share`] | how much falls on each NUMA node? |
//! | [`hint`] | on which NUMA nodes do all resources meet? |
//! | [`demand`] | what does a pod want, wherever it goes? |
//! | [`state`] | what of a node is taken, and by whom? |
//! | [`allocate`] | does the pod fit, how well, and what does it get? |
//! | [`refusal`], [`scoring`] | in which words, on which scale? |
//! | [`wire`] | how do objects and annotations say so? |
//! | [`cells`] | how does all of it follow pods and nodes? |
//! | [`dump`] | what does the debug endpoint show? |

mod allocate;
mod cells;
mod demand;
mod dump;
mod hint;
mod refusal;
mod scoring;
mod share;
mod state;
mod take;
mod topology;
mod wire;

pub use allocate::Totals;
pub use cells::Cells;
pub use demand::{Demand, Fractional, Source};
pub use dump::dump;
pub use hint::{Hint, Mask, Misfit, Occupancy, Offer};
pub use refusal::Refusal;
pub use scoring::{Rules, Scoring};
pub use state::{Allocation, Amount, FreeCpus, Machine, Ratios, Settings, State, Zone};
pub use take::{Ask, Bind, Exclusive, Fill, Shortage, take};
pub use topology::Topology;
pub use wire::Texts;
