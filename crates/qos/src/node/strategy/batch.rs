//! Kernel limits of batch resources.
//!
//! The kubelet knows nothing of batch resources, so pods that have only those get no limits from it.
//!
//! Weights are for the tier, in which batch pods compete with each other. A batch pod elsewhere keeps
//! the weight that the kubelet gave it: there it would be measured against online pods.

use crate::batch::{Container, Limits, Node, container_limits, pod_limits};
use crate::claim::{Rank, Value};
use crate::node::{ContainerSpec, Pod};
use crate::wish::Wish;
use api::qos::QosClass;
use api::why::{Resource, Sum, Why};
use groups::{CgroupPath, Knob};
use units::MilliCpu;

use super::Decision;
use super::{number, quota, set, suppress};
use crate::node::State;

pub fn decide(state: &State) -> Decision {
    let node = Node {
        normalization: state.cluster.node.as_ref().and_then(|node| node.normalization),
        is_quota_on_tier: suppress::is_by_quota(state),
    };
    let tier = format!("{}/", state.tier().as_str());
    let mut decision = Decision::default();
    for pod in state.pods().filter(|pod| is_batch(pod)) {
        let containers: Vec<Container> = pod.specs.iter().map(asked).collect();
        let limits = pod_limits(&containers, node);
        let group = pod.cgroup.clone();
        decision.wishes.extend(wishes(&group, &limits));
        if group.as_str().starts_with(&tier) {
            decision.wishes.push(weight(&group, &limits));
        }
        if !pod.is_virtual_machine {
            for (container, asked) in pod.specs.iter().zip(&containers) {
                // The kubelet knows what a container without batch resources may use.
                let Some(group) = container.cgroup.as_ref().filter(|_| container.batch.is_some())
                else {
                    continue;
                };
                let limits = container_limits(asked, node);
                decision.wishes.extend(wishes(group, &limits));
                decision.wishes.push(weight(group, &limits));
            }
        }
        decision.whys.extend(explain(pod, &limits));
    }
    decision
}

fn is_batch(pod: &Pod) -> bool {
    pod.raw_qos == Some(QosClass::Be) && pod.specs.iter().any(|container| container.batch.is_some())
}

/// A container without batch resources counts with its own limits.
fn asked(container: &ContainerSpec) -> Container {
    let batch = container.batch.unwrap_or(container.native);
    Container {
        cpu_request: batch.cpu_request,
        cpu_limit: batch.cpu_limit,
        memory_limit: batch.memory_limit,
    }
}

const WHY: &str = "what its batch resources are worth";

fn wishes(group: &CgroupPath, limits: &Limits) -> [Wish; 2] {
    let memory = Value::Number(limits.memory.map(|memory| memory.0));
    [
        set(group, Knob::CfsQuota, Rank::POD, quota(limits.quota), WHY),
        set(group, Knob::MemoryLimit, Rank::POD, memory, WHY),
    ]
}

fn weight(group: &CgroupPath, limits: &Limits) -> Wish {
    set(group, Knob::CpuShares, Rank::POD, number(limits.shares), WHY)
}

fn explain(pod: &Pod, limits: &Limits) -> [Why; 2] {
    let about = format!("{}/{}", pod.namespace, pod.name);
    // A hundred microseconds of each 100 ms are a thousandth of a CPU.
    let most = limits.quota.map(|quota| quota.0 / 100);
    let weight = limits.shares.saturating_mul(1_000).div_euclid(1_024);
    let cpu = match most {
        Some(_) => "has a weight and a limit of CPU time, from its batch-cpu",
        None => "has a weight of CPU time, from its batch-cpu, and no limit of its own",
    };
    let memory = match limits.memory {
        Some(_) => "has a limit of memory, from its batch-memory",
        None => "has no limit of memory",
    };
    let why = |resource, headline: String, sum| Why {
        about: about.clone(),
        resource,
        headline,
        bound_by: "batch resources".to_owned(),
        sum,
    };
    let shares = format!("{} shares, from requests", limits.shares);
    let mut time = Sum::default().beside(MilliCpu(weight), "when others want CPU, too", shares);
    if let Some(most) = most {
        time = time.beside(MilliCpu(most), "at most", "quota, from limits");
    }
    let mut bytes = Sum::default();
    if let Some(most) = limits.memory {
        bytes = bytes.beside(most, "at most", "from limits");
    }
    [why(Resource::Cpu, cpu.to_owned(), time), why(Resource::Memory, memory.to_owned(), bytes)]
}
