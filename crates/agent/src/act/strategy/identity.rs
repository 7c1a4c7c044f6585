//! Who goes first on a CPU.
//!
//! On vendor kernels every group gets its identity. On mainline best-effort *pods* become idle groups of
//! the least weight; the tier itself never does, because the kubelet writes a weight there when it
//! starts, which the kernel refuses on an idle group. An idle group shows another weight than it
//! had, and forgets its old one, so the weight is taken into the ledger first.

use api::qos::{KubeQos as KubeClass, QosClass};
use api::strategy::{CpuQos, ResourceQos};
use host::cgroup::{CgroupPath, Knob, KubeQos, Version};
use qos::claim::Rank;
use qos::identity::{self, Identities, Means, Mode, Owner, Wish as Identity};

use super::super::Wish;
use super::super::facts::Facts;
use super::super::why::{Decision, NODE, Resource, Why};
use super::{number, set};
use crate::pods::NodePod;

/// The policy that means identities; the other one is core scheduling.
const POLICY: &str = "groupIdentity";

pub fn decide(facts: &Facts<'_>) -> Decision {
    let identities = identities(facts);
    let kernel = identity::Kernel {
        has_identity: facts.kernel.has_identity,
        has_idle: facts.kernel.has_idle,
        has_core_scheduling: facts.kernel.has_core_scheduling,
    };
    let means = identity::means(kernel, false);
    let is_behind = identities.be.is_some_and(|be| be < 0);
    let mut decision = match means {
        Means::Identity => {
            Decision { wishes: by_identity(facts, &identities), ..Decision::default() }
        }
        Means::Mainline(Mode::Weight) => Decision::default(),
        Means::Mainline(_) if is_behind => {
            Decision { wishes: by_idle(facts), ..Decision::default() }
        }
        Means::Mainline(_) => Decision::default(),
    };
    if identities != Identities::default() {
        decision.whys.push(explain(facts, means, is_behind));
    }
    decision
}

/// What operators configured; nothing where the policy is another one.
fn identities(facts: &Facts<'_>) -> Identities {
    let Some(strategy) = &facts.slo().resource_qos_strategy else { return Identities::default() };
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

fn owner(pod: &NodePod) -> Owner {
    match pod.view.raw_qos {
        Some(QosClass::Lse) => Owner::Lse,
        Some(QosClass::Lsr) => Owner::Lsr,
        Some(QosClass::Ls) => Owner::Ls,
        Some(QosClass::Be) => Owner::Be,
        Some(QosClass::System) | None => match pod.view.kube_qos {
            KubeClass::Guaranteed => Owner::Guaranteed,
            KubeClass::Burstable => Owner::Burstable,
            KubeClass::BestEffort => Owner::BestEffort,
        },
    }
}

fn by_identity(facts: &Facts<'_>, identities: &Identities) -> Vec<Wish> {
    let why = "the identity of its class";
    let wish =
        |group: &CgroupPath, identity| set(group, Knob::BvtWarp, Rank::POD, number(identity), why);
    let class =
        |qos, identity: Option<i64>| wish(&facts.layout.class(qos), identity.unwrap_or_default());
    let mut wishes = vec![
        wish(&facts.layout.kubepods(), 0),
        class(KubeQos::Burstable, identities.ls),
        class(KubeQos::BestEffort, identities.be),
    ];
    for pod in facts.pods() {
        // A wish that the kernel would refuse changes nothing.
        if let Some(identity) = identity::identity(owner(pod), identities, pod.asked.cpu_qos) {
            wishes.push(wish(&CgroupPath::new(&pod.view.cgroup), identity));
        }
    }
    for app in &facts.scene.host_applications {
        let owner = match app.qos {
            Some(QosClass::Lse | QosClass::Lsr) => Owner::Lsr,
            Some(QosClass::Ls) => Owner::Ls,
            Some(QosClass::Be) => Owner::Be,
            Some(QosClass::System) | None => continue,
        };
        if let Some(identity) = identity::identity(owner, identities, Identity::None) {
            wishes.push(wish(&CgroupPath::new(&app.cgroup), identity));
        }
    }
    wishes
}

fn by_idle(facts: &Facts<'_>) -> Vec<Wish> {
    let why = "best-effort runs when nobody else wants the CPU";
    // What the kernel shows as the weight of an idle group.
    let least = match facts.kernel.version {
        Version::V1 => 3,
        Version::V2 => 2,
    };
    let pods = facts.pods().filter(|pod| pod.view.raw_qos == Some(QosClass::Be));
    let below =
        |group: &CgroupPath| group.as_str().starts_with(&format!("{}/", facts.tier().as_str()));
    pods.map(|pod| CgroupPath::new(&pod.view.cgroup))
        .filter(below)
        .flat_map(|group| {
            let weight = set(&group, Knob::CpuShares, Rank::SUPPRESSION, number(least), why);
            [weight, set(&group, Knob::CpuIdle, Rank::SUPPRESSION, number(1), why)]
        })
        .collect()
}

fn explain(facts: &Facts<'_>, means: Means, is_behind: bool) -> Why {
    let headline = match means {
        Means::Identity => "best-effort yields to everybody by group identity",
        Means::Mainline(Mode::Weight) => {
            "best-effort has the least weight; this kernel has no more"
        }
        Means::Mainline(_) if is_behind => "best-effort pods are idle groups of the least weight",
        Means::Mainline(_) => "best-effort has the least weight",
    };
    Why {
        about: NODE.to_owned(),
        resource: Resource::Cpu,
        headline: headline.to_owned(),
        bound_by: facts.scene.slo.cite("resource-qos-config.beClass.cpuQOS.enable"),
        lines: Vec::new(),
    }
}
