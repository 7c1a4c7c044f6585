//! Where do a pod's processes live in the kernel's control groups, and with which limits?
//!
//! The tree is the one kubelet's cgroupfs driver makes, below a root of our own so that a kubelet
//! on the same machine is never touched:
//!
//! ```text
//! tidepool/                                  same weight as kubepods
//!   kubepods/                                the node's allocatable
//!     pod<uid>/<container id>                Guaranteed
//!     burstable/pod<uid>/<container id>      weight: the sum of the requests below
//!     besteffort/pod<uid>/<container id>     the least weight there is
//! ```
//!
//! On cgroup v1 every mounted controller has this tree; on v2 there is one. A machine that mounts
//! controllers on v1 beside an empty v2 (hybrid) counts as v1. Hierarchies are found, never mounted,
//! and a controller that cannot be written is left out and reported, so pods run without it.

mod amount;
mod kernel;
mod layout;
mod path;
mod setting;
mod tree;

pub(crate) use amount::oom_score_adj;
#[cfg(test)]
pub(crate) use amount::weight;
pub(crate) use kernel::{Disk, Kernel, kill_all, oom_kills};
pub(crate) use layout::Layout;
pub(crate) use path::PodGroup;
pub(crate) use setting::Settings;
pub(crate) use tree::{CgroupError, Cgroups};
