//! Who goes first on a CPU.
//!
//! On vendor kernels every group gets its identity. On mainline best-effort *pods* become idle groups of
//! the least weight; the tier itself never does, because the kubelet writes a weight there when it
//! starts, which the kernel refuses on an idle group. An idle group shows another weight than it
//! had, and forgets its old one, so the weight is taken into the ledger first. With the policy of core
//! scheduling the same is done where best-effort is configured to be idle.

use crate::claim::Rank;
use crate::identity::{self, Choice, Identities, Means, Mode, OwnIdentity, Owner};
use crate::node::Pod;
use crate::wish::Wish;
use api::policy::KernelMode;
use api::protocol::gate::AgentGate;
use api::qos::{KubeQos, QosClass};
use api::strategy::{CpuQos, ResourceQos};
use api::why::{NODE, Resource, Sum, Why};
use groups::{CgroupPath, Knob, Version};

use super::Decision;
use super::{number, set};
use crate::node::State;

/// The policy that means identities; the other one is core scheduling.
const POLICY: &str = "groupIdentity";
pub const CORE_POLICY: &str = "coreSched";

pub fn decide(state: &State) -> Decision {
    let identities = identities(state);
    let is_behind = is_behind(&identities);
    let means = identity::means(kernel(state), choice(state), measured(state));
    let mut decision = match means {
        Means::Identity => {
            Decision { wishes: by_identity(state, &identities), ..Decision::default() }
        }
        Means::Mainline(Mode::Weight) => Decision::default(),
        Means::Mainline(_) if is_behind => {
            Decision { wishes: by_idle(state), ..Decision::default() }
        }
        Means::Mainline(_) => Decision::default(),
    };
    if identities != Identities::default() {
        decision.whys.push(explain(state, means, is_behind));
    } else if is_idle_by_policy(state) {
        decision.wishes.extend(by_idle(state));
        decision.whys.push(why(state, "best-effort pods are idle groups of the least weight"));
    }
    decision
}

/// The other policy has a setting of its own.
fn is_idle_by_policy(state: &State) -> bool {
    let config = state.slo().resource_qos_strategy.as_ref().and_then(|strategy| {
        let policy = strategy.policies.as_ref()?.cpu_policy.as_deref()?;
        let config = strategy.be_class.as_ref()?.cpu_qos.as_ref()?;
        (policy == CORE_POLICY).then_some(config)
    });
    state.is_on(AgentGate::CoreSched)
        && state.kernel.has_idle
        && config.is_some_and(|be| be.enable == Some(true) && be.sched_idle == Some(1))
}

fn kernel(state: &State) -> identity::Kernel {
    identity::Kernel {
        has_identity: state.kernel.has_identity,
        has_idle: state.kernel.has_idle,
        has_core_scheduling: state.kernel.has_core_scheduling,
    }
}

fn is_behind(identities: &Identities) -> bool {
    identities.be.is_some_and(|be| be < 0)
}

fn measured(state: &State) -> Option<Mode> {
    state.wake.as_ref().map(|verdict| verdict.mode)
}

/// What operators say about mainline kernels.
fn choice(state: &State) -> Choice {
    match state.policy().kernel.mode {
        KernelMode::Auto => Choice::Auto,
        KernelMode::Weight => Choice::Fixed(Mode::Weight),
        KernelMode::IdlePods => Choice::Fixed(Mode::IdlePods),
        KernelMode::WholeCores => Choice::Fixed(Mode::WholeCores),
    }
}

/// How best-effort is kept behind; `None` while nobody wants that.
pub fn means(state: &State) -> Option<Means> {
    let is_on = state.is_on(AgentGate::GroupIdentity) && is_behind(&identities(state));
    is_on.then(|| identity::means(kernel(state), choice(state), measured(state)))
}

/// The modes between which a probe should choose; none when there is no choice, or no wish for one.
pub fn open_modes(state: &State) -> Vec<Mode> {
    let is_open = matches!(means(state), Some(Means::Mainline(_)))
        && choice(state) == Choice::Auto
        && state.policy().kernel.probe;
    if is_open { crate::wake::candidates(kernel(state)) } else { Vec::new() }
}

/// What operators configured; nothing where the policy is another one.
fn identities(state: &State) -> Identities {
    let Some(strategy) = &state.slo().resource_qos_strategy else { return Identities::default() };
    let policy = strategy.policies.as_ref().and_then(|policies| policies.cpu_policy.as_deref());
    if policy.is_some_and(|policy| policy != POLICY) {
        return Identities::default();
    }
    Identities {
        lsr: configured(strategy.lsr_class.as_ref()),
        ls: configured(strategy.ls_class.as_ref()),
        be: configured(strategy.be_class.as_ref()),
    }
    .in_order()
}

fn configured(class: Option<&ResourceQos>) -> Option<i64> {
    let CpuQos { enable, group_identity, .. } = class?.cpu_qos.as_ref()?;
    (*enable == Some(true)).then_some((*group_identity)?)
}

pub fn owner(pod: &Pod) -> Owner {
    match pod.raw_qos {
        Some(QosClass::Lse) => Owner::Lse,
        Some(QosClass::Lsr) => Owner::Lsr,
        Some(QosClass::Ls) => Owner::Ls,
        Some(QosClass::Be) => Owner::Be,
        Some(QosClass::System) | None => match pod.kube_qos {
            KubeQos::Guaranteed => Owner::Guaranteed,
            KubeQos::Burstable => Owner::Burstable,
            KubeQos::BestEffort => Owner::BestEffort,
        },
    }
}

fn by_identity(state: &State, identities: &Identities) -> Vec<Wish> {
    let why = "the identity of its class";
    let wish =
        |group: &CgroupPath, identity| set(group, Knob::BvtWarp, Rank::POD, number(identity), why);
    let class =
        |qos, identity: Option<i64>| wish(&state.layout.class(qos), identity.unwrap_or_default());
    let mut wishes = vec![
        wish(&state.layout.kubepods(), 0),
        class(KubeQos::Burstable, identities.ls),
        class(KubeQos::BestEffort, identities.be),
    ];
    for pod in state.pods() {
        // A wish that the kernel would refuse changes nothing.
        if let Some(identity) = identity::identity(owner(pod), identities, pod.annotations.cpu_qos)
        {
            wishes.push(wish(&pod.cgroup, identity));
        }
    }
    for app in state.cluster.host_applications.iter() {
        let owner = match app.qos {
            Some(QosClass::Lse | QosClass::Lsr) => Owner::Lsr,
            Some(QosClass::Ls) => Owner::Ls,
            Some(QosClass::Be) => Owner::Be,
            Some(QosClass::System) | None => continue,
        };
        if let Some(identity) = identity::identity(owner, identities, OwnIdentity::None) {
            wishes.push(wish(&app.cgroup, identity));
        }
    }
    wishes
}

fn by_idle(state: &State) -> Vec<Wish> {
    let why = "best-effort runs when nobody else wants the CPU";
    // What the kernel shows as the weight of an idle group.
    let least = match state.kernel.version {
        Version::V1 => 3,
        Version::V2 => 2,
    };
    let pods = state.pods().filter(|pod| pod.raw_qos == Some(QosClass::Be));
    let below =
        |group: &CgroupPath| group.as_str().starts_with(&format!("{}/", state.tier().as_str()));
    pods.map(|pod| pod.cgroup.clone())
        .filter(below)
        .flat_map(|group| {
            let weight = set(&group, Knob::CpuShares, Rank::SUPPRESSION, number(least), why);
            [weight, set(&group, Knob::CpuIdle, Rank::SUPPRESSION, number(1), why)]
        })
        .collect()
}

fn explain(state: &State, means: Means, is_behind: bool) -> Why {
    let headline = match means {
        Means::Identity => "best-effort yields to everybody by group identity",
        Means::Mainline(Mode::Weight) if !state.kernel.has_idle => {
            "best-effort has the least weight; this kernel has no more"
        }
        Means::Mainline(Mode::WholeCores) if is_behind => {
            "best-effort pods are idle groups and keep off the cores of others"
        }
        Means::Mainline(Mode::IdlePods) if is_behind => {
            "best-effort pods are idle groups of the least weight"
        }
        Means::Mainline(_) => "best-effort has the least weight",
    };
    why(state, headline)
}

fn why(state: &State, headline: &str) -> Why {
    Why {
        about: NODE.to_owned(),
        resource: Resource::Cpu,
        headline: headline.to_owned(),
        bound_by: state
            .cluster
            .slo
            .setting("resource-qos-config.beClass.cpuQOS.enable")
            .to_string(),
        sum: Sum::default(),
    }
}
