//! Room above the CPU limit for online pods.
//!
//! Savings in the kernel (`cpu.cfs_burst_us`, `cpu.max.burst`) and a limit that moves, as the policy and
//! the pod's annotation say. A pod's quota is always the sum of its containers'.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::qos::QosClass;
use api::strategy::CpuBurstStrategy;
use api::why::{Resource, Sum, Why};
use groups::{CgroupPath, Knob};
use qos::burst::limiter::Allowance;
use qos::burst::{self, Cause, Limiter, NodeState, Pool, Step, cfs_burst, node_state, pod_quota};
use qos::claim::Rank;
use qos::node::{ContainerSpec, Pod};
use qos::wish::Wish;
use units::{Micros, MilliCpu, Percent};

use super::super::facts::Facts;
use super::super::why::Decision;
use super::{number, quota, set};
use crate::series::{Measure, Subject};

/// The node is judged by its mean over this many rounds, at most ten seconds.
const ROUNDS: u32 = 5;
const LONGEST: Duration = Duration::from_secs(10);

/// What is remembered of containers, by id.
#[derive(Debug, Default)]
pub struct Memory {
    containers: BTreeMap<String, Container>,
}

#[derive(Debug, Clone, Copy)]
struct Container {
    limiter: Limiter,
    /// What was last decided.
    quota: Option<Micros>,
    seen: Duration,
}

/// Node strategy and annotation, put together.
#[derive(Debug, Clone, Copy)]
struct Policy {
    saves: bool,
    moves: bool,
    savings: Percent,
    allowance: Allowance,
}

pub fn decide(facts: &Facts<'_>, memory: &mut Memory) -> Decision {
    let node = facts.slo().cpu_burst_strategy.clone().unwrap_or_default();
    let threshold = Percent(node.share_pool_threshold_percent.unwrap_or(50));
    let mut state = None;
    let mut decision = Decision::default();
    let mut seen = BTreeSet::new();
    for pod in facts.pods().filter(|pod| is_eligible(pod)) {
        let policy = policy(&node, pod.annotations.cpu_burst.as_ref());
        if !policy.saves && !policy.moves {
            continue;
        }
        let state = *state.get_or_insert_with(|| node_state(pool(facts), threshold));
        of_pod(facts, pod, policy, state, memory, &mut decision, &mut seen);
    }
    memory.containers.retain(|id, _| seen.contains(id));
    decision
}

/// Pods that the scheduler gave CPUs have no quota to burst from.
fn is_eligible(pod: &Pod) -> bool {
    !matches!(pod.raw_qos, Some(QosClass::Lse | QosClass::Lsr | QosClass::Be))
        && pod.cpus.is_empty()
        && !pod.is_virtual_machine
}

fn policy(node: &CpuBurstStrategy, pod: Option<&CpuBurstStrategy>) -> Policy {
    let pick = |read: fn(&CpuBurstStrategy) -> Option<i64>, default| {
        pod.and_then(read).or_else(|| read(node)).unwrap_or(default)
    };
    let word = pod.and_then(|pod| pod.policy.as_deref()).or(node.policy.as_deref());
    let (saves, moves) = match word {
        Some("cpuBurstOnly") => (true, false),
        Some("cfsQuotaBurstOnly") => (false, true),
        Some("auto") => (true, true),
        _ => (false, false),
    };
    let period = pick(|burst| burst.cfs_quota_burst_period_seconds, -1);
    Policy {
        saves,
        moves,
        savings: Percent(pick(|burst| burst.cpu_burst_percent, 1_000)),
        allowance: Allowance {
            ceiling: Percent(pick(|burst| burst.cfs_quota_burst_percent, 300)),
            period: u64::try_from(period).ok().map(Duration::from_secs),
        },
    }
}

/// The CPUs that online pods share, and what is used of them; `None` without samples.
fn pool(facts: &Facts<'_>) -> Option<Pool> {
    let window = facts.settings.interval.saturating_mul(ROUNDS).min(LONGEST);
    let cpus = i64::try_from(facts.topology?.cpus.len()).unwrap_or(i64::MAX);
    let mut pool =
        Pool { total: MilliCpu::from_cores(cpus), used: facts.average_cpu(Subject::Node, window)? };
    for pod in facts.every_pod() {
        let has_own = matches!(pod.raw_qos, Some(QosClass::Lse | QosClass::Lsr));
        if has_own {
            pool.total -= pod.requests.cpu;
        }
        if has_own || pod.raw_qos == Some(QosClass::Be) {
            pool.used -= facts.average_cpu(Subject::Pod(&pod.uid), window).unwrap_or_default();
        }
    }
    Some(pool)
}

fn of_pod(
    facts: &Facts<'_>,
    pod: &Pod,
    policy: Policy,
    state: NodeState,
    memory: &mut Memory,
    decision: &mut Decision,
    seen: &mut BTreeSet<String>,
) {
    let group = pod.cgroup.clone();
    // A kubelet may be told to write no quotas; then there is nothing to burst from.
    let Some(Some(pod_now)) = facts.quota(&group) else { return };
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
        let next = of_container(facts, id, &group, limit, policy, state, memory);
        quotas.push(next.map(|(next, _)| next).or(base));
        let Some((next, step)) = next else { continue };
        if let Some(step) = step {
            let wish = set(&group, Knob::CfsQuota, Rank::POD, quota(Some(next)), said(step));
            decision.wishes.push(wish);
            steps.push((container.name.as_str(), next, step));
        }
        if policy.saves {
            let saved =
                cfs_burst(Some(limit), policy.savings, Some(next), facts.kernel.has_identity);
            savings += saved;
            decision.wishes.push(save(&group, saved));
        }
    }
    let whole = if steps.is_empty() { Some(pod_now) } else { pod_quota(quotas) };
    if !steps.is_empty() {
        let why = "the sum of its containers";
        decision.wishes.push(set(&group, Knob::CfsQuota, Rank::POD, quota(whole), why));
        decision.whys.push(explain(facts, pod, &steps, state));
    }
    if policy.saves {
        // Vendor kernels take savings above the quota, mainline does not.
        let most = if facts.kernel.has_identity { savings } else { whole.unwrap_or_default() };
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
    facts: &Facts<'_>,
    id: &str,
    group: &CgroupPath,
    limit: MilliCpu,
    policy: Policy,
    state: NodeState,
    memory: &mut Memory,
) -> Option<(Micros, Option<Step>)> {
    if !policy.moves {
        return Some((facts.quota(group)??, None));
    }
    let fresh = || Container {
        limiter: Limiter::new(policy.allowance, luck(id)),
        quota: None,
        seen: facts.now,
    };
    let known = memory.containers.entry(id.to_owned()).or_insert_with(fresh);
    if known.limiter.is_outdated(policy.allowance) {
        known.limiter = Limiter::new(policy.allowance, luck(id));
    }
    let used = facts.cpu(Subject::Container(id));
    let elapsed = facts.now.saturating_sub(known.seen);
    known.seen = facts.now;
    known.limiter = known.limiter.after(used, limit, elapsed);
    let current = match known.quota {
        Some(quota) => quota,
        None => facts.quota(group)??,
    };
    let window = facts.settings.interval.saturating_mul(3);
    let throttled =
        facts.metrics.recent(Subject::Container(id), Measure::Throttled, facts.now, window);
    let decision = burst::decide(&burst::Inputs {
        limit,
        ceiling: policy.allowance.ceiling,
        is_on: true,
        node: state,
        is_throttled: throttled.map(|share| share > 0.0),
        has_means: known.limiter.has_means(),
        quota: current,
        normalization: facts.cluster.node.as_ref().and_then(|node| node.normalization),
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

fn explain(facts: &Facts<'_>, pod: &Pod, steps: &[(&str, Micros, Step)], state: NodeState) -> Why {
    let node = match state {
        NodeState::Idle => "the node has room",
        NodeState::Cooling => "the node is nearly busy",
        NodeState::Overload => "the node is busy",
        NodeState::Unknown => "the node's load is not known",
    };
    Why {
        about: format!("{}/{}", pod.namespace, pod.name),
        resource: Resource::Cpu,
        headline: format!("may burst above its quota as far as there is room: {node}"),
        bound_by: facts.cluster.slo.setting("cpu-burst-config.policy").to_string(),
        sum: steps.iter().fold(Sum::default(), |sum, (name, micros, step)| {
            sum.beside(MilliCpu(micros.0 / 100), name, said(*step))
        }),
    }
}
