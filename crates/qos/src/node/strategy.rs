//! What does each strategy want of the kernel?
//!
//! A strategy is a function of the [`State`](super::State) and of what it remembers. It calls the engine
//! of its name and turns the answer into wishes; it writes nothing. `None` keeps what was wanted last, which
//! is what a strategy says when it cannot see. `read` names what it looks at on the machine.
//!
//! | file | gate | wants |
//! |---|---|---|
//! | [`suppress`] | `BECPUSuppress` | CPUs and quota of the best-effort tier |
//! | [`batch`] | `BatchResource` | shares, quota and memory of batch pods |
//! | [`bind`] | `CPUSetAllocator` | CPUs of everybody else |
//! | [`identity`] | `GroupIdentity` | who goes first on a CPU |
//! | [`burst`] | `CPUBurst` | room above the limit of online pods |
//! | [`normalize`] | `CPUNormalization` | quotas that do the same work on faster cores |
//! | [`memory`] | `CgroupReconcile` | protection and brakes of memory |
//! | [`block`] | `BlkIOReconcile` | limits and weights of disks |
//! | [`system`] | `SystemConfig` | sysctls and switches of the whole node |
//! | [`oom`] | `OOMScoreAdj` | who is killed first when memory runs out |
//! | [`cold`] | `ColdPageCollector` | the scanner of cold pages |
//! | [`cache`] | `RdtResctrl`, `Resctrl` | parts of the cache and of memory bandwidth |
//! | [`cookies`] | `CoreSched` | who shares a core |
//! | [`network`] | `TerwayQoS`, `TCNetworkQoS` | shares of the network |

pub mod batch;
pub mod bind;
pub mod block;
pub mod burst;
pub mod cache;
pub mod cold;
pub mod cookies;
pub mod identity;
pub mod memory;
pub mod network;
pub mod normalize;
pub mod oom;
pub mod suppress;
pub mod system;

use api::why::Why;
use groups::{CgroupPath, Knob};
use units::{CpuSet, Micros};

use crate::claim::{Bound, Rank, Value};
use crate::wish::{Target, Wish};

/// What a strategy wants, and why.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    pub wishes: Vec<Wish>,
    pub whys: Vec<Why>,
}

fn set(group: &CgroupPath, knob: Knob, rank: Rank, value: Value, why: &str) -> Wish {
    let target = Target::knob(group.clone(), knob);
    Wish { target, rank, bound: Bound::Set(value), why: why.to_owned() }
}

fn number(value: i64) -> Value {
    Value::Number(Some(value))
}

fn cpus(cpus: &CpuSet) -> Value {
    Value::Cpus(cpus.clone())
}

fn quota(quota: Option<Micros>) -> Value {
    Value::Number(quota.map(|quota| quota.0))
}
