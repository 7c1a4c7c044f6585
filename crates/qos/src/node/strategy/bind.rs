//! On which CPUs everybody but best-effort runs.
//!
//! LSE and LSR pods have CPUs of their own, which the scheduler chose; LS pods share what is left. Every
//! group below a pod is bound, the sandbox too: a pause container on all CPUs breaks exclusivity.
//!
//! Nobody is bound where the shared pool is the whole machine: that says nothing.

use std::collections::BTreeMap;

use crate::assign::{Assignment, Class, Placement, Pools, Reason, assign};
use crate::claim::{Rank, Value};
use crate::node::Pod;
use crate::wish::Wish;
use api::metadata::topology::CpuSharedPools;
use api::protocol::gate::AgentGate;
use api::qos::QosClass;
use api::why::{Resource, Sum, Why};
use groups::Knob;
use units::CpuSet;

use super::Decision;
use super::{cpus, set};
use crate::node::{NodeCpus, Readings, State};

/// The groups below pods.
pub(in crate::node) fn read(state: &State, readings: &mut Readings) {
    if state.cpus.is_some() {
        let pods = state.pods().filter(|pod| !pod.is_virtual_machine);
        readings.children.extend(pods.map(|pod| pod.cgroup.clone()));
    }
}

/// `None` before the machine's CPUs are known.
pub fn decide(state: &State) -> Option<Decision> {
    let machine = state.cpus.as_deref()?;
    let online = machine.layout.online();
    let pools = pools(state, machine);
    let mut decision = Decision::default();
    for pod in state.pods().filter(|pod| !pod.is_virtual_machine) {
        let class = class(pod.raw_qos);
        if class == Class::Be && !pools.is_best_effort_placed {
            continue;
        }
        let placement = Placement { cpus: pod.cpus.clone(), numa: pod.numa.clone() };
        let assignment = assign(class, &placement, &pools);
        let group = pod.cgroup.clone();
        let (set_to, is_own) = match &assignment {
            Assignment::Own(own) => (own.intersection(&online), true),
            Assignment::Shared(shared) if *shared == online => continue,
            Assignment::Shared(shared) => (shared.clone(), false),
            Assignment::Untouched(_) => {
                decision.whys.extend(explain(pod, &assignment));
                continue;
            }
        };
        if set_to.is_empty() {
            continue;
        }
        let why = if is_own { "CPUs of its own" } else { "the CPUs that online pods share" };
        let below = state.children(&group);
        for container in below {
            decision.wishes.push(set(container, Knob::CpusetCpus, Rank::POOLS, cpus(&set_to), why));
        }
        if is_own && !state.settings.keep_quota_of_bound {
            let why = "a quota would only throttle it on CPUs of its own";
            for group in below.iter().chain([&group]) {
                let none = Value::Number(None);
                decision.wishes.push(set(group, Knob::CfsQuota, Rank::POOLS, none, why));
            }
        }
        decision.whys.extend(explain(pod, &assignment));
    }
    decision.wishes.extend(applications(state, &pools, &online));
    Some(decision)
}

/// Applications outside of Kubernetes: those of class LS share the CPUs of LS pods.
fn applications(state: &State, pools: &Pools, online: &CpuSet) -> Vec<Wish> {
    let Assignment::Shared(shared) = assign(Class::Ls, &Placement::default(), pools) else {
        return Vec::new();
    };
    if shared == *online {
        return Vec::new();
    }
    let apps = state.cluster.host_applications.iter().filter(|app| app.qos == Some(QosClass::Ls));
    let why = "the CPUs that online pods share";
    apps.map(|app| {
        let group = app.cgroup.clone();
        set(&group, Knob::CpusetCpus, Rank::POOLS, cpus(&shared), why)
    })
    .collect()
}

fn pools(state: &State, machine: &NodeCpus) -> Pools {
    let shared = by_numa(&machine.shared);
    let best_effort = by_numa(&machine.best_effort);
    // LS pods must run somewhere: without a pool of their own, beside those of LSR.
    let is_empty = shared.values().all(CpuSet::is_empty);
    Pools {
        shared: if is_empty { best_effort.clone() } else { shared },
        best_effort,
        system: state
            .cluster
            .node
            .as_ref()
            .and_then(|node| node.system.as_ref())
            .map(|system| system.cpus.clone()),
        is_kubelet_static: machine.is_kubelet_static,
        is_best_effort_placed: state.is_on(AgentGate::BECPUManager),
    }
}

fn by_numa(pools: &CpuSharedPools) -> BTreeMap<u16, CpuSet> {
    let known = pools.iter().filter_map(|pool| Some((pool.node.try_into().ok()?, &pool.cpuset)));
    known.map(|(node, cpus)| (node, cpus.clone())).collect()
}

fn class(qos: Option<QosClass>) -> Class {
    match qos {
        Some(QosClass::Lse) => Class::Lse,
        Some(QosClass::Lsr) => Class::Lsr,
        Some(QosClass::Ls) => Class::Ls,
        Some(QosClass::Be) => Class::Be,
        Some(QosClass::System) => Class::System,
        None => Class::None,
    }
}

fn explain(pod: &Pod, assignment: &Assignment) -> Option<Why> {
    let (headline, bound_by) = match assignment {
        Assignment::Own(cpus) => (format!("runs on CPUs {cpus} of its own"), "scheduler"),
        Assignment::Shared(cpus) => (format!("shares CPUs {cpus}"), "shared pool"),
        Assignment::Untouched(Reason::Kubelet) => {
            ("runs where the kubelet says".to_owned(), "kubelet")
        }
        Assignment::Untouched(Reason::EmptyPool) => {
            ("stays where it is: no CPU is left to share".to_owned(), "empty pool")
        }
        Assignment::Untouched(Reason::BestEffort) => return None,
    };
    Some(Why {
        about: format!("{}/{}", pod.namespace, pod.name),
        resource: Resource::Cpu,
        headline,
        bound_by: bound_by.to_owned(),
        sum: Sum::default(),
    })
}
