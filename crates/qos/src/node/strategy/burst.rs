//! Room above the CPU limit for online pods.
//!
//! Savings in the kernel (`cpu.cfs_burst_us`, `cpu.max.burst`) and a limit that moves, as the policy and
//! the pod's annotation say. A pod's quota is always the sum of its containers'.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::burst::limiter::Allowance;
use crate::burst::{self, Cause, Limiter, NodeState, Pool, Step, cfs_burst, node_state, pod_quota};
use crate::claim::Rank;
use crate::node::{ContainerSpec, Pod};
use crate::wish::Wish;
use api::policy::BurstPolicy;
use api::qos::QosClass;
use api::why::{Resource, Sum, Why};
use groups::{CgroupPath, Knob};
use units::{Micros, MilliCpu};

use super::Decision;
use super::{number, quota, set};
use crate::node::{Readings, State, milli};

/// The node is judged by its mean over this many rounds, at most ten seconds.
const ROUNDS: u32 = 5;
const LONGEST: Duration = Duration::from_secs(10);

/// What is remembered of containers, by id.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {
    containers: BTreeMap<String, Container>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Container {
    limiter: Limiter,
    /// What was last decided.
    quota: Option<Micros>,
    seen: Duration,
}

/// The quotas of the pods that may burst, and how much their containers use.
pub(in crate::node) fn read(state: &State, readings: &mut Readings) {
    for (pod, _) in bursting(state) {
        readings.mean_over = Some(state.settings.interval.saturating_mul(ROUNDS).min(LONGEST));
        readings.quotas.insert(pod.cgroup.clone());
        for (id, group) in pod.specs.iter().filter_map(made) {
            readings.quotas.insert(group);
            readings.containers.insert(id.to_owned());
        }
    }
}

pub fn decide(state: &State, memory: &mut Memory) -> Decision {
    let threshold = state.policy().burst.share_pool_threshold_percent;
    let mut load = None;
    let mut decision = Decision::default();
    let mut seen = BTreeSet::new();
    for (pod, policy) in bursting(state) {
        let load = *load.get_or_insert_with(|| node_state(pool(state), threshold));
        of_pod(state, pod, policy, load, memory, &mut decision, &mut seen);
    }
    memory.containers.retain(|id, _| seen.contains(id));
    decision
}

/// The pods that burst, with the policy of each: the node's, or their own.
fn bursting(state: &State) -> impl Iterator<Item = (&Pod, BurstPolicy)> {
    let node = state.policy().burst;
    let pods = state.pods().filter(|pod| is_eligible(pod)).map(move |pod| {
        (pod, pod.annotations.cpu_burst.as_ref().map_or(node, |own| node.with(own)))
    });
    pods.filter(|(_, policy)| policy.policy.saves() || policy.policy.moves())
}

/// Pods that the scheduler gave CPUs have no quota to burst from.
fn is_eligible(pod: &Pod) -> bool {
    !matches!(pod.raw_qos, Some(QosClass::Lse | QosClass::Lsr | QosClass::Be))
        && pod.cpus.is_empty()
        && !pod.is_virtual_machine
}

/// The CPUs that online pods share, and what is used of them; `None` without samples.
fn pool(state: &State) -> Option<Pool> {
    let cpus = i64::try_from(state.cpus.as_ref()?.layout.len()).unwrap_or(i64::MAX);
    let mut pool = Pool { total: MilliCpu::from_cores(cpus), used: milli(state.usage.node.mean?) };
    for pod in state.every_pod() {
        let has_own = matches!(pod.raw_qos, Some(QosClass::Lse | QosClass::Lsr));
        if has_own {
            pool.total -= pod.requests.cpu;
        }
        if has_own || pod.raw_qos == Some(QosClass::Be) {
            let used = state.usage.pods.get(&pod.uid).and_then(|used| used.mean);
            pool.used -= used.map(milli).unwrap_or_default();
        }
    }
    Some(pool)
}

fn of_pod(
    state: &State,
    pod: &Pod,
    policy: BurstPolicy,
    load: NodeState,
    memory: &mut Memory,
    decision: &mut Decision,
    seen: &mut BTreeSet<String>,
) {
    let group = pod.cgroup.clone();
    // A kubelet may be told to write no quotas; then no container has one to burst from. Where only
    // the pod has none, its containers burst and the pod stays without.
    let Some(pod_now) = state.quota(&group) else { return };
    let mut quotas = Vec::new();
    let mut savings = Micros::ZERO;
    let mut steps = Vec::new();
    for container in &pod.specs {
        let limit = container.native.cpu_limit.filter(|limit| limit.0 > 0);
        let base = limit.map(|limit| Micros(limit.0.saturating_mul(100)));
        let Some((limit, (id, group))) = limit.zip(made(container)) else {
            quotas.push(base);
            continue;
        };
        seen.insert(id.to_owned());
        let next = of_container(state, id, &group, limit, policy, load, memory);
        quotas.push(next.map(|(next, _)| next).or(base));
        let Some((next, step)) = next else { continue };
        if let Some(step) = step {
            let wish = set(&group, Knob::CfsQuota, Rank::POD, quota(Some(next)), said(step));
            decision.wishes.push(wish);
            steps.push((container.name.as_str(), next, step));
        }
        if policy.policy.saves() {
            let saved = cfs_burst(
                Some(limit),
                policy.cpu_burst_percent,
                Some(next),
                state.kernel.has_identity,
            );
            savings += saved;
            decision.wishes.push(save(&group, saved));
        }
    }
    let whole =
        pod_now.and_then(|now| if steps.is_empty() { Some(now) } else { pod_quota(quotas) });
    if !steps.is_empty() {
        if pod_now.is_some() {
            let why = "the sum of its containers";
            decision.wishes.push(set(&group, Knob::CfsQuota, Rank::POD, quota(whole), why));
        }
        decision.whys.push(explain(state, pod, &steps, load));
    }
    if policy.policy.saves() {
        // Vendor kernels take savings above the quota, mainline does not.
        let most = if state.kernel.has_identity { savings } else { whole.unwrap_or_default() };
        decision.wishes.push(save(&group, savings.min(most)));
    }
}

fn save(group: &CgroupPath, saved: Micros) -> Wish {
    set(group, Knob::CfsBurst, Rank::GROWTH, number(saved.0), "what it may save up")
}

fn made(container: &ContainerSpec) -> Option<(&str, CgroupPath)> {
    let (id, group) = (container.id.as_deref()?, container.cgroup.clone()?);
    container.is_running.then_some((id, group))
}

/// The container's next quota, and the step to it where quotas move; `None` without a quota.
fn of_container(
    state: &State,
    id: &str,
    group: &CgroupPath,
    limit: MilliCpu,
    policy: BurstPolicy,
    load: NodeState,
    memory: &mut Memory,
) -> Option<(Micros, Option<Step>)> {
    if !policy.policy.moves() {
        return Some((state.quota(group)??, None));
    }
    let allowance = Allowance {
        ceiling: policy.cfs_quota_burst_percent,
        period: policy.cfs_quota_burst_period,
    };
    let fresh =
        || Container { limiter: Limiter::new(allowance, luck(id)), quota: None, seen: state.now };
    let known = memory.containers.entry(id.to_owned()).or_insert_with(fresh);
    if known.limiter.is_outdated(allowance) {
        known.limiter = Limiter::new(allowance, luck(id));
    }
    let usage = state.usage.containers.get(id).copied().unwrap_or_default();
    let used = usage.cpu.map(milli);
    let elapsed = state.now.saturating_sub(known.seen);
    known.seen = state.now;
    known.limiter = known.limiter.after(used, limit, elapsed);
    let current = match known.quota {
        Some(quota) => quota,
        None => state.quota(group)??,
    };
    let decision = burst::decide(&burst::Inputs {
        limit,
        ceiling: allowance.ceiling,
        is_on: true,
        node: load,
        is_throttled: usage.throttled.map(|share| share > 0.0),
        has_means: known.limiter.has_means(),
        quota: current,
        normalization: state.cluster.node.as_ref().and_then(|node| node.normalization),
    })?;
    known.quota = Some(decision.quota);
    Some((decision.quota, Some(decision.why.step)))
}

/// Spreads containers that start together; the same after a restart.
fn luck(id: &str) -> f64 {
    let sum =
        id.bytes().fold(17_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    f64::from(sum % 1_000) / 1_000.0
}

fn said(step: Step) -> &'static str {
    match step {
        Step::Up => "throttled, and the node has room",
        Step::Down(Cause::NodeBusy) => "the node is busy",
        Step::Down(Cause::NoMeans) => "it lived beyond its limit for long enough",
        Step::Keep => "nothing asks for a change",
        Step::Reset => "bursting is off",
    }
}

fn explain(state: &State, pod: &Pod, steps: &[(&str, Micros, Step)], load: NodeState) -> Why {
    let node = match load {
        NodeState::Idle => "the node has room",
        NodeState::Cooling => "the node is nearly busy",
        NodeState::Overload => "the node is busy",
        NodeState::Unknown => "the node's load is not known",
    };
    Why {
        about: format!("{}/{}", pod.namespace, pod.name),
        resource: Resource::Cpu,
        headline: format!("may burst above its quota as far as there is room: {node}"),
        bound_by: state.cluster.slo.setting("cpu-burst-config.policy").to_string(),
        sum: steps.iter().fold(Sum::default(), |sum, (name, micros, step)| {
            sum.beside(MilliCpu(micros.0 / 100), name, said(*step))
        }),
    }
}
