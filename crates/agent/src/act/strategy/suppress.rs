//! Holding best-effort back, once a second.
//!
//! The engine says how much best-effort may use ([`budget`]), and as the policy wants it either on how
//! many CPUs ([`cpus`](qos::suppress::cpus)) or with which quota. Whatever the policy, and even
//! while suppression is off, best-effort never runs on CPUs of LSE pods or on reserved ones.
//!
//! Where the kubelet binds pods itself it owns the CPUs of parents, so only containers are narrowed.

use api::protocol::gate::AgentGate;
use api::qos::QosClass;
use api::why::{NODE, Resource, Sum, Why};
use groups::{CgroupPath, Knob, Setting};
use host::Reading;
use qos::claim::Rank;
use qos::suppress::{Bound, Budget, Inputs, Usage, budget, cpus, quota};
use qos::wish::Wish;
use units::{CpuSet, Micros, MilliCpu, Percent};

use super::super::facts::Facts;
use super::super::journal::Suppressed;
use super::super::why::Decision;
use super::{cpus as value, quota as quota_value, set};
use crate::series::Subject;

/// The policy's word for a quota; everything else means CPUs.
const QUOTA: &str = "cfsQuota";
/// The word for CPUs.
const CPUSET: &str = "cpuset";

/// What is remembered from round to round.
#[derive(Debug, Default)]
pub struct Memory {
    cpus: cpus::State,
    granted: Option<CpuSet>,
    quota: Option<Micros>,
    /// The last sum; what is between two rounds builds on it.
    pub budget: Option<Budget>,
}

/// Whether suppression is on, and whether it works with a quota.
pub fn is_on(facts: &Facts<'_>) -> bool {
    let threshold = facts.slo().resource_used_threshold_with_be.as_ref();
    facts.is_on(AgentGate::BECPUSuppress)
        && !facts.is_on(AgentGate::BECPUManager)
        && threshold.and_then(|threshold| threshold.enable) == Some(true)
}

/// Whether the tier as a whole has a quota.
pub fn is_by_quota(facts: &Facts<'_>) -> bool {
    let threshold = facts.slo().resource_used_threshold_with_be.as_ref();
    let policy = threshold.and_then(|threshold| threshold.cpu_suppress_policy.as_deref());
    is_on(facts) && policy == Some(QUOTA)
}

/// What best-effort may use at most, of the whole node.
pub fn threshold(facts: &Facts<'_>) -> Percent {
    let strategy = facts.slo().resource_used_threshold_with_be.as_ref();
    Percent(strategy.and_then(|strategy| strategy.cpu_suppress_threshold_percent).unwrap_or(65))
}

/// What operators promise to best-effort.
pub fn at_least(facts: &Facts<'_>) -> Option<Percent> {
    let strategy = facts.slo().resource_used_threshold_with_be.as_ref();
    strategy.and_then(|strategy| strategy.cpu_suppress_min_percent).map(Percent)
}

pub fn decide(facts: &Facts<'_>, memory: &mut Memory) -> Option<Decision> {
    let groups = Groups::walk(facts);
    if !is_on(facts) {
        *memory = Memory::default();
        return Some(Decision { wishes: recover(facts, &groups), ..Decision::default() });
    }
    let sum = sum(facts)?;
    memory.budget = Some(sum);
    if is_by_quota(facts) {
        return Some(by_quota(facts, memory, &groups, &sum));
    }
    by_cpus(facts, memory, &groups, &sum)
}

/// The groups of best-effort, as they are on the machine: pods nobody knows of are among them.
struct Groups {
    tier: CgroupPath,
    pods: Vec<CgroupPath>,
    containers: Vec<CgroupPath>,
}

impl Groups {
    fn walk(facts: &Facts<'_>) -> Self {
        let tier = facts.tier();
        let hands_off = |group: &CgroupPath| {
            facts.every_pod().any(|pod| pod.annotations.is_hands_off && pod.cgroup == *group)
        };
        let pods: Vec<_> =
            facts.children(&tier).into_iter().filter(|group| !hands_off(group)).collect();
        let containers = pods.iter().flat_map(|pod| facts.children(pod)).collect();
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
fn sum(facts: &Facts<'_>) -> Option<Budget> {
    let node = facts.cluster.node.as_ref()?;
    let used = facts.cpu(Subject::Node)?;
    let usage =
        |subject, is_best_effort| facts.cpu(subject).map(|used| Usage { used, is_best_effort });
    let pods: Vec<Usage> = facts
        .every_pod()
        .filter_map(|pod| usage(Subject::Pod(&pod.uid), pod.is_best_effort()))
        .collect();
    let tier = facts.tier();
    let applications: Vec<Usage> = facts
        .cluster
        .host_applications
        .iter()
        .filter_map(|app| {
            let in_tier = app.cgroup.clone().as_str().starts_with(tier.as_str());
            let is_best_effort = app.qos == Some(QosClass::Be) && in_tier;
            usage(Subject::HostApplication(&app.name), is_best_effort)
        })
        .collect();
    Some(budget(&Inputs {
        capacity: node.capacity.cpu,
        allocatable: node.real_allocatable().cpu,
        annotated: node.reserved,
        node_used: used,
        pods: &pods,
        host_applications: &applications,
        threshold: threshold(facts),
        at_least: at_least(facts),
    }))
}

fn by_quota(facts: &Facts<'_>, memory: &mut Memory, groups: &Groups, sum: &Budget) -> Decision {
    let capacity = facts.cluster.node.as_ref().map(|node| node.capacity.cpu).unwrap_or_default();
    let granted = memory.quota.or_else(|| facts.quota(&groups.tier).flatten());
    let decision = quota::decide(&quota::Inputs { budget: sum.budget, capacity, granted });
    let quota = decision.quota.or(granted);
    memory.quota = quota;
    let why = format!("{} of {} allowed are left", sum.budget, sum.allowed);
    let mut wishes = recover(facts, groups);
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
    Decision { wishes, whys: vec![explain(facts, sum, step, milli, bound_by)] }
}

fn by_cpus(
    facts: &Facts<'_>,
    memory: &mut Memory,
    groups: &Groups,
    sum: &Budget,
) -> Option<Decision> {
    let topology = facts.topology?;
    let lse = facts.cpus_of(QosClass::Lse);
    let lsr = facts.cpus_of(QosClass::Lsr).difference(&lse);
    let granted = match memory.granted.take() {
        Some(granted) => granted,
        None => granted_now(facts, &groups.tier).unwrap_or_else(|| topology.cpus.online()),
    };
    let inputs = cpus::Inputs {
        budget: sum.budget,
        layout: &topology.cpus,
        reserved: &topology.excluded,
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
    let wishes = match (decision.why.bound_by, facts.topology.is_some_and(|t| t.is_kubelet_static))
    {
        (cpus::Bound::Starved, _) => Vec::new(),
        (_, true) => {
            let parents = recover_cpus(facts, groups.parents());
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
    Some(Decision { wishes, whys: vec![explain(facts, sum, step, milli, bound_by)] })
}

/// What best-effort runs on at this moment; `None` when nothing is said, which is everywhere.
fn granted_now(facts: &Facts<'_>, tier: &CgroupPath) -> Option<CpuSet> {
    match facts.tree.get(tier, Knob::CpusetCpus) {
        Ok(Reading::Value(Setting::Cpus(cpus))) if !cpus.is_empty() => Some(cpus),
        _ => None,
    }
}

/// Everything that may be lent, for all groups of best-effort; nothing where that is all CPUs.
fn recover(facts: &Facts<'_>, groups: &Groups) -> Vec<Wish> {
    if !facts.is_on(AgentGate::BECPUManager) {
        return recover_cpus(facts, groups.all());
    }
    // Containers that the scheduler placed on NUMA nodes are bound elsewhere.
    let placed = |group: &CgroupPath| {
        facts.every_pod().any(|pod| {
            (!pod.cpus.is_empty() || !pod.numa.is_empty())
                && group.parent().is_some_and(|parent| parent == pod.cgroup)
        })
    };
    let free = groups.containers.iter().filter(|group| !placed(group));
    recover_cpus(facts, groups.parents().chain(free))
}

fn recover_cpus<'g>(facts: &Facts<'_>, groups: impl Iterator<Item = &'g CgroupPath>) -> Vec<Wish> {
    let Some(topology) = facts.topology else { return Vec::new() };
    let online = topology.cpus.online();
    let lendable = online.difference(&topology.excluded).difference(&facts.cpus_of(QosClass::Lse));
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
    facts: &Facts<'_>,
    budget: &Budget,
    step: Option<(MilliCpu, &str)>,
    granted: MilliCpu,
    bound_by: &str,
) -> Why {
    let capacity = facts.cluster.node.as_ref().map(|node| node.capacity.cpu).unwrap_or_default();
    let slo = &facts.cluster.slo;
    let setting = |name: &str| slo.setting(&format!("resource-threshold-config.{name}"));
    let system = format!("reserved {}, used {}", budget.system.reserved, budget.system.used);
    let mut sum = Sum::default()
        .plus(capacity, "capacity", "")
        .then(budget.allowed, "allowed in total", setting("cpuSuppressThresholdPercent"))
        .minus(budget.protected, "used above best-effort", online_users(facts))
        .minus(budget.system.charged(), "system", system);
    if budget.bound_by == Bound::Minimum {
        sum = sum.then(budget.budget, "never less", setting("cpuSuppressMinPercent"));
    }
    sum = sum.equals(budget.budget, "left", "");
    // A part of a CPU counts as one, and a quota is exact.
    let whole = MilliCpu(budget.budget.0.div_euclid(1_000).saturating_mul(1_000));
    match step {
        Some((amount, label)) => sum = sum.then(amount, label, ""),
        None if !is_by_quota(facts) && whole != budget.budget => {
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

/// What the reference shows of suppression; `None` while it is off or blind.
pub fn measured(facts: &Facts<'_>, memory: &Memory) -> Option<Suppressed> {
    let budget = memory.budget?;
    let granted = match is_by_quota(facts) {
        true => MilliCpu(memory.quota?.0 / 100),
        false => {
            let count = memory.granted.as_ref()?.len();
            MilliCpu::from_cores(i64::try_from(count).unwrap_or(i64::MAX))
        }
    };
    let best_effort = facts.every_pod().filter(|pod| pod.is_best_effort());
    Some(Suppressed {
        policy: if is_by_quota(facts) { QUOTA } else { CPUSET },
        granted,
        protected: budget.protected,
        used: best_effort
            .filter_map(|pod| facts.cpu(Subject::Pod(&pod.uid)))
            .fold(MilliCpu::ZERO, |sum, used| sum + used),
    })
}

fn online_users(facts: &Facts<'_>) -> String {
    let pods = facts.every_pod().filter(|pod| !pod.is_best_effort()).count();
    let apps = facts.cluster.host_applications.len();
    match apps {
        0 => format!("{pods} pods"),
        _ => format!("{pods} pods, {apps} host applications"),
    }
}
