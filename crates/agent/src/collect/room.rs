//! How much memory is there before somebody is killed?
//!
//! The machine's, unless one of the groups around all pods has a limit and is fuller: an agent inside
//! a container, or below a root of its own, must not wait for a machine that has plenty.

use std::time::Duration;

use groups::{CgroupPath, Limit};
use host::cgroup::CgroupReader;
use host::proc::MemInfo;
use host::{FileError, Reading};
use units::{Bytes, Percent, Rounding};

use super::group::Pass;
use crate::series::{MemoryRoom, Metrics};

/// The groups around all pods, outermost last.
#[derive(Debug)]
pub(super) struct Enclosing {
    groups: Vec<CgroupPath>,
    readers: Vec<CgroupReader>,
}

impl Enclosing {
    /// Around the group that holds the best-effort tier.
    pub(super) fn new(tier: &CgroupPath) -> Self {
        let mut groups = Vec::new();
        let mut next = tier.parent().and_then(|all_pods| all_pods.parent());
        while let Some(group) = next.filter(|group| !group.is_root()) {
            next = group.parent();
            groups.push(group);
        }
        Self { groups, readers: Vec::new() }
    }

    /// Notes the fullest of the machine and the groups.
    pub(super) fn tick(
        &mut self,
        machine: &MemInfo,
        pass: &mut Pass<'_>,
        metrics: &Metrics,
    ) -> Result<(), FileError> {
        if self.readers.is_empty() {
            self.readers = self.groups.iter().cloned().map(|g| pass.tree.reader(g)).collect();
        }
        let mut room = MemoryRoom { at: pass.now, used: machine.used(), capacity: machine.total };
        let mut is_gone = false;
        for reader in &mut self.readers {
            match inside(reader, pass, pass.now)? {
                Reading::Value(inside) if fullness(&inside) > fullness(&room) => room = inside,
                Reading::Gone => is_gone = true,
                Reading::Value(_) | Reading::Unsupported => {}
            }
        }
        if is_gone {
            // A reader does not come back, its group may: nodes make theirs after the agent has begun.
            self.readers.clear();
        }
        metrics.lock().facts.memory = Some(room);
        Ok(())
    }
}

/// Unsupported where there is no limit.
fn inside(
    reader: &mut CgroupReader,
    pass: &mut Pass<'_>,
    at: Duration,
) -> Result<Reading<MemoryRoom>, FileError> {
    let capacity = match reader.memory_limit(pass.buffer)? {
        Reading::Value(Limit::At(capacity)) => capacity,
        Reading::Gone => return Ok(Reading::Gone),
        Reading::Value(_) | Reading::Unsupported => return Ok(Reading::Unsupported),
    };
    Ok(match reader.memory_stat(pass.buffer)? {
        Reading::Value(stat) => Reading::Value(MemoryRoom { at, used: stat.used(), capacity }),
        Reading::Gone => Reading::Gone,
        Reading::Unsupported => Reading::Unsupported,
    })
}

/// In hundredths of a percent.
fn fullness(room: &MemoryRoom) -> i64 {
    let used = Bytes(room.used.0.saturating_mul(100));
    Percent::of(used, room.capacity, Rounding::Down).unwrap_or_default().0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_around_all_pods_are_those_above() {
        let around = |tier: &str| {
            let groups = Enclosing::new(&CgroupPath::new(tier)).groups;
            groups.iter().map(|group| group.as_str().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(around("tidepool/kubepods/besteffort"), ["tidepool"]);
        assert_eq!(around("a/b/kubepods/besteffort"), ["a/b", "a"]);
        assert_eq!(around("kubepods.slice/kubepods-besteffort.slice"), [""; 0]);
    }

    #[test]
    fn fullness_is_a_share() {
        let room = |used, capacity| MemoryRoom {
            at: Duration::ZERO,
            used: Bytes(used),
            capacity: Bytes(capacity),
        };
        assert!(fullness(&room(50, 100)) > fullness(&room(499, 1_000)));
        assert_eq!(fullness(&room(5, 0)), 0, "no capacity, no share");
    }
}
