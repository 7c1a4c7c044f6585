//! What has a round to know of the machine?
//!
//! Most of a round follows what the cluster says. The little that only the kernel knows is named here before
//! it is read, so that deciding stays a function of values and reading stays as small as what is on.

use std::collections::BTreeSet;
use std::time::Duration;

use groups::CgroupPath;

use super::round::{Memory, TURNS};
use super::{State, strategy};

/// Kernel files and samples that the next round looks at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Readings {
    /// Groups whose children are looked at.
    pub children: BTreeSet<CgroupPath>,
    /// Groups whose children and grandchildren are looked at.
    pub grandchildren: BTreeSet<CgroupPath>,
    pub quotas: BTreeSet<CgroupPath>,
    /// Groups whose CPUs are looked at.
    pub cpus: BTreeSet<CgroupPath>,
    pub processes: BTreeSet<CgroupPath>,
    pub files: BTreeSet<&'static str>,
    pub directories: BTreeSet<&'static str>,
    /// Whether resctrl is looked at.
    pub cache: bool,
    /// Over which time CPU in use is averaged.
    pub mean_over: Option<Duration>,
    /// Ids of containers whose samples are looked at, and how old a throttled period may be.
    pub containers: BTreeSet<String>,
}

/// What the next round looks at. `state` needs neither usage nor machine for that.
pub fn readings(state: &State, memory: &Memory) -> Readings {
    let mut readings = Readings::default();
    let is_slow_due = memory.is_slow_due(state);
    for turn in TURNS.iter().filter(|turn| !turn.is_slow || is_slow_due) {
        if turn.is_on(state) {
            (turn.read)(state, memory, &mut readings);
        }
    }
    if is_slow_due {
        strategy::cache::read(state, &mut readings);
        strategy::cookies::read(&mut readings);
        strategy::network::read(state, &mut readings);
    }
    readings
}
