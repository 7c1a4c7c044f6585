//! The last rung: the processes of a pod end at once.
//!
//! For memory that runs out while a pod was asked to leave and did not, and only where the operator said
//! so. Each process is held by a descriptor first and looked up in its group again before it is
//! killed, so that a number that was given to another process in between hits nobody.

use groups::CgroupPath;
use host::Reading;
use host::cgroup::Tree;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Kills all processes below a group; how many.
pub(super) fn kill(tree: &Tree, group: &CgroupPath) -> usize {
    let mut groups = vec![group.clone()];
    let mut killed = 0;
    while let Some(group) = groups.pop() {
        if let Ok(Reading::Value(children)) = tree.children(&group) {
            groups.extend(children.iter().map(|child| group.child(child)));
        }
        let Ok(Reading::Value(processes)) = tree.procs(&group) else { continue };
        let held: Vec<_> = processes
            .into_iter()
            .filter_map(|id| {
                let pid = Pid::from_raw(i32::try_from(id).ok()?)?;
                Some((id, pidfd_open(pid, PidfdFlags::empty()).ok()?))
            })
            .collect();
        let Ok(Reading::Value(still)) = tree.procs(&group) else { continue };
        let ours = held.iter().filter(|(id, _)| still.contains(id));
        killed += ours.filter(|(_, held)| pidfd_send_signal(held, Signal::KILL).is_ok()).count();
    }
    killed
}
