//! Who is killed first when memory runs out: the `oom_score_adj` of a container's processes.

use crate::claim::Rank;
use crate::wish::{KernelFile, Wish};

use super::Decision;
use crate::node::{Readings, State};

pub(in crate::node) fn read(state: &State, readings: &mut Readings) {
    let containers = state.pods().flat_map(|pod| &pod.specs);
    let scored = containers.filter(|container| container.oom_score_adj.is_some());
    readings.processes.extend(scored.filter_map(|container| container.cgroup.clone()));
}

pub fn decide(state: &State) -> Decision {
    let mut decision = Decision::default();
    for pod in state.pods() {
        for container in &pod.specs {
            let Some((adj, group)) = container.oom_score_adj.zip(container.cgroup.as_ref()) else {
                continue;
            };
            let Some(processes) = state.machine.processes.get(group) else { continue };
            let why = format!("{}/{} asks for it", pod.namespace, pod.name);
            decision.wishes.extend(processes.iter().map(|process| {
                let file = KernelFile::whole(format!("/proc/{process}/oom_score_adj"));
                Wish::file(file, Rank::POD, adj.to_string(), &why)
            }));
        }
    }
    decision
}
