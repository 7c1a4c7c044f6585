//! Who is killed first when memory runs out: the `oom_score_adj` of a container's processes.

use host::Reading;
use qos::claim::Rank;
use qos::wish::{KernelFile, Wish};

use super::super::facts::Facts;
use super::super::why::Decision;

pub fn decide(facts: &Facts<'_>) -> Decision {
    let mut decision = Decision::default();
    for pod in facts.pods() {
        for container in &pod.specs {
            let Some((adj, group)) = container.oom_score_adj.zip(container.cgroup.as_ref()) else {
                continue;
            };
            let Ok(Reading::Value(processes)) = facts.tree.procs(group) else { continue };
            let why = format!("{}/{} asks for it", pod.namespace, pod.name);
            decision.wishes.extend(processes.into_iter().map(|process| {
                let file = KernelFile::whole(format!("/proc/{process}/oom_score_adj"));
                Wish::file(file, Rank::POD, adj.to_string(), &why)
            }));
        }
    }
    decision
}
