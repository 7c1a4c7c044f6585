//! Who is killed first when memory runs out: the `oom_score_adj` of a container's processes.

use groups::CgroupPath;
use host::Reading;

use super::super::facts::Facts;
use super::super::files::{File, FileWish};
use super::super::why::Decision;

pub fn decide(facts: &Facts<'_>) -> Decision {
    let mut decision = Decision::default();
    for pod in facts.pods() {
        for container in &pod.asked.containers {
            let Some((adj, group)) = container.oom_score_adj.zip(container.cgroup.as_deref())
            else {
                continue;
            };
            let group = CgroupPath::new(group);
            let Ok(Reading::Value(processes)) = facts.tree.procs(&group) else { continue };
            decision.files.extend(processes.into_iter().map(|process| FileWish {
                file: File::whole(format!("/proc/{process}/oom_score_adj")),
                text: adj.to_string(),
                why: format!("{}/{} asks for it", pod.view.namespace, pod.view.name),
            }));
        }
    }
    decision
}
