//! Holding best-effort back, once a second.
//!
//! The engine says how much best-effort may use ([`budget`]), and as the policy wants it either on how
//! many CPUs ([`cpus`](crate::suppress::cpus)) or with which quota. Whatever the policy, and even
//! while suppression is off, best-effort never runs on CPUs of LSE pods or on reserved ones.
//!
//! Where the kubelet binds pods itself it owns the CPUs of parents, so only containers are narrowed.

use crate::claim::Rank;
use crate::suppress::{Bound, Budget, Inputs, Usage, budget, cpus, quota};
use crate::wish::Wish;
use api::policy::SuppressMechanism;
use api::protocol::gate::AgentGate;
use api::qos::QosClass;
use api::why::{NODE, Resource, Sum, Why};
use groups::{CgroupPath, Knob};
use units::{CpuSet, Micros, MilliCpu};

use super::Decision;
use super::{cpus as value, quota as quota_value, set};
use crate::node::{Pod, Readings, State, milli};

/// The policy's word for a quota; everything else means CPUs.
const QUOTA: &str = "cfsQuota";
/// The word for CPUs.
const CPUSET: &str = "cpuset";

/// What is remembered from round to round.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {
    cpus: cpus::State,
    granted: Option<CpuSet>,
    quota: Option<Micros>,
    /// The last sum; what is between two rounds builds on it.
    pub budget: Option<Budget>,
}

/// Whether suppression is on, and whether it works with a quota.
pub fn is_on(state: &State) -> bool {
    state.is_on(AgentGate::BECPUSuppress)
        && !state.is_on(AgentGate::BECPUManager)
        && state.policy().threshold.enable
}

/// Whether the tier as a whole has a quota.
pub fn is_by_quota(state: &State) -> bool {
    is_on(state) && state.policy().threshold.cpu_suppress_policy == SuppressMechanism::CfsQuota
}

/// The groups of best-effort, and what they have where nothing is remembered.
pub(in crate::node) fn read(state: &State, memory: &Memory, readings: &mut Readings) {
    let tier = state.tier();
    if is_by_quota(state) && memory.quota.is_none() {
        readings.quotas.insert(tier.clone());
    }
    if is_on(state) && memory.granted.is_none() {
        readings.cpus.insert(tier.clone());
    }
    readings.grandchildren.insert(tier);
}

pub fn decide(state: &State, memory: &mut Memory) -> Option<Decision> {
    let groups = Groups::walk(state);
    if !is_on(state) {
        *memory = Memory::default();
        return Some(Decision { wishes: recover(state, &groups), ..Decision::default() });
    }
    let sum = sum(state)?;
    memory.budget = Some(sum);
    if is_by_quota(state) {
        return Some(by_quota(state, memory, &groups, &sum));
    }
    by_cpus(state, memory, &groups, &sum)
}

/// The groups of best-effort, as they are on the machine: pods nobody knows of are among them.
struct Groups {
    tier: CgroupPath,
    pods: Vec<CgroupPath>,
    containers: Vec<CgroupPath>,
}

impl Groups {
    fn walk(state: &State) -> Self {
        let tier = state.tier();
        let hands_off = |group: &CgroupPath| {
            state.every_pod().any(|pod| pod.annotations.is_hands_off && pod.cgroup == *group)
        };
        let pods: Vec<_> =
            state.children(&tier).iter().filter(|group| !hands_off(group)).cloned().collect();
        let containers = pods.iter().flat_map(|pod| state.children(pod)).cloned().collect();
        Self { tier, pods, containers }
    }

    fn parents(&self) -> impl Iterator<Item = &CgroupPath> {
        [&self.tier].into_iter().chain(&self.pods)
    }

    fn all(&self) -> impl Iterator<Item = &CgroupPath> {
        self.parents().chain(&self.containers)
    }
}

/// The sum of this round; `None` without a Node or without samples.
fn sum(state: &State) -> Option<Budget> {
    let node = state.cluster.node.as_ref()?;
    let used = state.usage.node.last?;
    let of_pod =
        |pod: &Pod| Some(Usage { used: state.cpu_of(pod)?, is_best_effort: pod.is_best_effort() });
    let pods: Vec<Usage> = state.every_pod().filter_map(of_pod).collect();
    let tier = state.tier();
    let applications: Vec<Usage> = state
        .cluster
        .host_applications
        .iter()
        .filter_map(|app| {
            let in_tier = app.cgroup.as_str().starts_with(tier.as_str());
            let is_best_effort = app.qos == Some(QosClass::Be) && in_tier;
            let used = *state.usage.host_applications.get(&app.name)?;
            Some(Usage { used, is_best_effort })
        })
        .collect();
    Some(budget(&Inputs {
        capacity: node.capacity.cpu,
        allocatable: node.real_allocatable().cpu,
        annotated: node.reserved,
        node_used: used,
        pods: &pods,
        host_applications: &applications,
        threshold: state.policy().threshold.cpu_suppress_threshold_percent,
        at_least: state.policy().threshold.cpu_suppress_min_percent,
    }))
}

fn by_quota(state: &State, memory: &mut Memory, groups: &Groups, sum: &Budget) -> Decision {
    let capacity = state.cluster.node.as_ref().map(|node| node.capacity.cpu).unwrap_or_default();
    let granted = memory.quota.or_else(|| state.quota(&groups.tier).flatten());
    let decision = quota::decide(&quota::Inputs { budget: sum.budget, capacity, granted });
    let quota = decision.quota.or(granted);
    memory.quota = quota;
    let why = format!("{} of {} allowed are left", sum.budget, sum.allowed);
    let mut wishes = recover(state, groups);
    wishes.push(set(&groups.tier, Knob::CfsQuota, Rank::SUPPRESSION, quota_value(quota), &why));
    let bound_by = match (decision.why.bound_by, sum.bound_by) {
        (quota::Bound::Floor, _) => "floor",
        (quota::Bound::Step, _) => "step",
        (_, Bound::Minimum) => "minimum",
        _ => "threshold",
    };
    let milli = MilliCpu(quota.map_or(0, |quota| quota.0 / 100));
    let step = match decision.why.bound_by {
        quota::Bound::Budget => None,
        quota::Bound::Floor => Some((milli, "never less")),
        quota::Bound::Step => Some((milli, "grows in steps")),
        quota::Bound::Near => Some((milli, "as before: too small a change")),
    };
    Decision { wishes, whys: vec![explain(state, sum, step, milli, bound_by)] }
}

fn by_cpus(state: &State, memory: &mut Memory, groups: &Groups, sum: &Budget) -> Option<Decision> {
    let machine = state.cpus.as_deref()?;
    let lse = state.cpus_of(QosClass::Lse);
    let lsr = state.cpus_of(QosClass::Lsr).difference(&lse);
    let granted = match memory.granted.take() {
        Some(granted) => granted,
        None => granted_now(state, &groups.tier).unwrap_or_else(|| machine.layout.online()),
    };
    let inputs = cpus::Inputs {
        budget: sum.budget,
        layout: &machine.layout,
        reserved: &machine.excluded,
        lse: &lse,
        lsr: &lsr,
        granted: &granted,
    };
    let decision = cpus::decide(&inputs, memory.cpus);
    memory.cpus = decision.state;
    memory.granted = Some(decision.cpus.clone());
    let count = decision.cpus.len();
    let bound_by = match (decision.why.bound_by, sum.bound_by) {
        (cpus::Bound::Floor, _) => "floor",
        (cpus::Bound::Step, _) => "step",
        (cpus::Bound::Patience, _) => "patience",
        (cpus::Bound::Candidates, _) => "all that may be lent",
        (cpus::Bound::Starved, _) => "no CPU may be lent",
        (cpus::Bound::Budget, Bound::Minimum) => "minimum",
        (cpus::Bound::Budget, Bound::Threshold) => "threshold",
    };
    let why = format!("{count} CPUs, bound by {bound_by}");
    let narrow =
        |group| set(group, Knob::CpusetCpus, Rank::SUPPRESSION, value(&decision.cpus), &why);
    let wishes = match (decision.why.bound_by, machine.is_kubelet_static) {
        (cpus::Bound::Starved, _) => Vec::new(),
        (_, true) => {
            let parents = recover_cpus(state, groups.parents());
            parents.into_iter().chain(groups.containers.iter().map(narrow)).collect()
        }
        (_, false) => groups.all().map(narrow).collect(),
    };
    let milli = MilliCpu::from_cores(i64::try_from(count).unwrap_or(i64::MAX));
    let step = match decision.why.bound_by {
        cpus::Bound::Budget => None,
        cpus::Bound::Floor => Some((milli, "never less")),
        cpus::Bound::Step => Some((milli, "grows in steps")),
        cpus::Bound::Patience => Some((milli, "grows when it stays so")),
        cpus::Bound::Candidates => Some((milli, "all that may be lent")),
        cpus::Bound::Starved => Some((milli, "as before: no CPU may be lent")),
    };
    Some(Decision { wishes, whys: vec![explain(state, sum, step, milli, bound_by)] })
}

/// What best-effort runs on at this moment; `None` when nothing is said, which is everywhere.
fn granted_now(state: &State, tier: &CgroupPath) -> Option<CpuSet> {
    state.machine.cpus.get(tier).filter(|cpus| !cpus.is_empty()).cloned()
}

/// Everything that may be lent, for all groups of best-effort; nothing where that is all CPUs.
fn recover(state: &State, groups: &Groups) -> Vec<Wish> {
    if !state.is_on(AgentGate::BECPUManager) {
        return recover_cpus(state, groups.all());
    }
    // Containers that the scheduler placed on NUMA nodes are bound elsewhere.
    let placed = |group: &CgroupPath| {
        state.every_pod().any(|pod| {
            (!pod.cpus.is_empty() || !pod.numa.is_empty())
                && group.parent().is_some_and(|parent| parent == pod.cgroup)
        })
    };
    let free = groups.containers.iter().filter(|group| !placed(group));
    recover_cpus(state, groups.parents().chain(free))
}

fn recover_cpus<'g>(state: &State, groups: impl Iterator<Item = &'g CgroupPath>) -> Vec<Wish> {
    let Some(machine) = &state.cpus else { return Vec::new() };
    let online = machine.layout.online();
    let lendable = online.difference(&machine.excluded).difference(&state.cpus_of(QosClass::Lse));
    if lendable == online || lendable.is_empty() {
        return Vec::new();
    }
    let why = "best-effort keeps off CPUs of LSE pods and reserved ones";
    groups
        .map(|group| set(group, Knob::CpusetCpus, Rank::SUPPRESSION, value(&lendable), why))
        .collect()
}

/// The sum up to the grant; `step` is what replaced the budget, and why.
fn explain(
    state: &State,
    budget: &Budget,
    step: Option<(MilliCpu, &str)>,
    granted: MilliCpu,
    bound_by: &str,
) -> Why {
    let capacity = state.cluster.node.as_ref().map(|node| node.capacity.cpu).unwrap_or_default();
    let slo = &state.cluster.slo;
    let setting = |name: &str| slo.setting(&format!("resource-threshold-config.{name}"));
    let system = format!("reserved {}, used {}", budget.system.reserved, budget.system.used);
    let mut sum = Sum::default()
        .plus(capacity, "capacity", "")
        .then(budget.allowed, "allowed in total", setting("cpuSuppressThresholdPercent"))
        .minus(budget.protected, "used above best-effort", online_users(state))
        .minus(budget.system.charged(), "system", system);
    if budget.bound_by == Bound::Minimum {
        sum = sum.then(budget.budget, "never less", setting("cpuSuppressMinPercent"));
    }
    sum = sum.equals(budget.budget, "left", "");
    // A part of a CPU counts as one, and a quota is exact.
    let whole = MilliCpu(budget.budget.0.div_euclid(1_000).saturating_mul(1_000));
    match step {
        Some((amount, label)) => sum = sum.then(amount, label, ""),
        None if !is_by_quota(state) && whole != budget.budget => {
            let part = whole + MilliCpu(1_000) - budget.budget;
            sum = sum.plus(part, "rounded up to whole CPUs", "");
        }
        None => {}
    }
    Why {
        about: NODE.to_owned(),
        resource: Resource::Cpu,
        headline: format!("best-effort may use {} of {} CPUs", cores(granted), cores(capacity)),
        bound_by: bound_by.to_owned(),
        sum: sum.equals(granted, "granted", setting("cpuSuppressPolicy")),
    }
}

/// CPUs to a tenth, as people say them.
fn cores(milli: MilliCpu) -> String {
    match milli.0.saturating_add(50).div_euclid(100) {
        tenths if tenths % 10 == 0 => (tenths / 10).to_string(),
        tenths => format!("{}.{}", tenths / 10, (tenths % 10).abs()),
    }
}

/// What the reference shows of suppression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suppressed {
    /// `cpuset` or `cfsQuota`.
    pub policy: &'static str,
    /// What best-effort may use.
    pub granted: MilliCpu,
    /// What it uses.
    pub used: MilliCpu,
    /// What everybody above best-effort uses.
    pub protected: MilliCpu,
}

/// `None` while it is off or blind.
pub fn measured(state: &State, memory: &Memory) -> Option<Suppressed> {
    let budget = memory.budget?;
    let granted = match is_by_quota(state) {
        true => MilliCpu(memory.quota?.0 / 100),
        false => {
            let count = memory.granted.as_ref()?.len();
            MilliCpu::from_cores(i64::try_from(count).unwrap_or(i64::MAX))
        }
    };
    let best_effort = state.every_pod().filter(|pod| pod.is_best_effort());
    Some(Suppressed {
        policy: if is_by_quota(state) { QUOTA } else { CPUSET },
        granted,
        protected: budget.protected,
        used: milli(best_effort.filter_map(|pod| state.cpu_of(pod)).sum()),
    })
}

fn online_users(state: &State) -> String {
    let pods = state.every_pod().filter(|pod| !pod.is_best_effort()).count();
    let apps = state.cluster.host_applications.len();
    match apps {
        0 => format!("{pods} pods"),
        _ => format!("{pods} pods, {apps} host applications"),
    }
}
