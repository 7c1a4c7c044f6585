//! Who may share a core with whom.
//!
//! With the policy `coreSched`, or in mode C, the processes of a group of pods get one cookie. Which group
//! a pod is in is [`crate::cookies`]'s.
//!
//! Group identities and cookies together lock up vendor kernels. There identities are turned off first, and
//! no cookie is wanted before they are.

use std::collections::{BTreeMap, BTreeSet};

use crate::claim::{Bound, Rank, Value};
use crate::cookies::{self, CORES, Class, Classes, CookieHolders, IDENTITIES, Pod, group};
use crate::identity::{Means, Mode};
use crate::wish::{KernelFile, Target, Wish};
use api::metadata::pod::CoreSchedPolicy;
use api::protocol::gate::AgentGate;
use api::qos::QosClass;
use api::strategy::ResourceQos;
use api::why::{NODE, Resource, Sum, Why};
use groups::CgroupPath;

use super::identity;
use crate::node::{Pod as NodePod, Readings, State};

/// Who shares cores, as it is wanted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CoreSharing {
    pub wishes: Vec<Wish>,
    groups: BTreeMap<String, BTreeSet<CgroupPath>>,
    /// Pods by `namespace/name`, with their group.
    pods: Vec<(String, String)>,
    containers: Vec<Container>,
    /// Why nothing is wanted yet.
    delay: Option<Why>,
    setting: String,
}

/// A container of a pod that shares cores.
#[derive(Debug, Clone, PartialEq)]
struct Container {
    cgroup: CgroupPath,
    labels: ContainerLabels,
}

/// How metrics name a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerLabels {
    pub namespace: String,
    pub pod: String,
    pub uid: String,
    pub container: String,
    pub id: String,
    pub group: String,
}

pub(in crate::node) fn read(readings: &mut Readings) {
    readings.files.extend([IDENTITIES, CORES]);
}

pub fn decide(state: &State) -> CoreSharing {
    let classes = classes(state);
    let mut sharing = CoreSharing {
        setting: state.cluster.slo.setting("resource-qos-config.policies.cpuPolicy").to_string(),
        ..CoreSharing::default()
    };
    if classes == Classes::default() || !vendor_switches(state, &mut sharing) {
        return sharing;
    }
    for pod in state.pods().filter(|pod| !pod.is_virtual_machine) {
        let Some(group) = group(&subject(pod), &classes) else { continue };
        let about = format!("{}/{}", pod.namespace, pod.name);
        sharing.pods.push((about, group.clone()));
        sharing.containers.extend(containers(pod, &group));
        let members = sharing.groups.entry(group).or_default();
        members.insert(pod.cgroup.clone());
    }
    let wishes = sharing.groups.iter().map(|(group, members)| Wish {
        target: Target::CoreCookie(group.clone()),
        rank: Rank::POD,
        bound: Bound::Set(Value::Members(members.clone())),
        why: format!("cores are shared only with {}", named(group)),
    });
    sharing.wishes.extend(wishes.collect::<Vec<_>>());
    sharing
}

/// What came of cookies, by whoever hands them out.
pub trait CookiesSeen {
    fn holders(&self, target: &Target) -> Option<&CookieHolders>;

    /// Why this kernel has none.
    fn missing(&self, target: &Target) -> Option<&str>;
}

impl CoreSharing {
    /// What came of it, as far as it is known by now.
    pub fn explain(&self, seen: &impl CookiesSeen) -> Vec<Why> {
        if let Some(delay) = &self.delay {
            return vec![delay.clone()];
        }
        let target = |group: &String| Target::CoreCookie(group.clone());
        let missing = self.groups.keys().find_map(|group| seen.missing(&target(group)));
        if let Some(reason) = missing {
            let headline = format!("cores are shared with everybody: {reason}");
            return vec![why(NODE, headline, "this kernel has no core scheduling")];
        }
        let holders: Vec<(&String, &CookieHolders)> = self
            .groups
            .keys()
            .filter_map(|group| Some((group, seen.holders(&target(group))?)))
            .collect();
        let mut whys = Vec::new();
        if !holders.is_empty() {
            let counts = holders.iter().map(|(group, holders)| {
                format!("{} processes of {}", holders.processes, named(group))
            });
            let mut headline = "cores are shared within groups only: ".to_owned();
            headline += &counts.collect::<Vec<_>>().join(", ");
            let strangers: usize = holders.iter().map(|(_, holders)| holders.strangers).sum();
            if strangers > 0 {
                headline += &format!("; {strangers} have cookies of others");
            }
            whys.push(why(NODE, headline, &self.setting));
        }
        whys.extend(self.pods.iter().map(|(about, group)| {
            why(about, format!("shares cores only with {}", named(group)), &self.setting)
        }));
        whys
    }

    /// Containers that have a cookie of ours.
    pub fn cookies(&self, seen: &impl CookiesSeen) -> Vec<(ContainerLabels, u64)> {
        let of = |container: &Container| {
            let group = Target::CoreCookie(container.labels.group.clone());
            let holders = seen.holders(&group)?;
            let has_it = holders.containers.contains(&container.cgroup);
            Some((container.labels.clone(), holders.cookie.filter(|_| has_it)?))
        };
        self.containers.iter().filter_map(of).collect()
    }
}

fn named(group: &str) -> String {
    if group.is_empty() { "the default group".to_owned() } else { format!("group {group}") }
}

fn why(about: &str, headline: String, bound_by: &str) -> Why {
    let (about, bound_by) = (about.to_owned(), bound_by.to_owned());
    Why { about, resource: Resource::Cpu, headline, bound_by, sum: Sum::default() }
}

fn containers(pod: &NodePod, group: &str) -> Vec<Container> {
    let container = pod.containers.iter().map(|container| Container {
        cgroup: container.cgroup.clone(),
        labels: ContainerLabels {
            namespace: pod.namespace.clone(),
            pod: pod.name.clone(),
            uid: pod.uid.clone(),
            container: container.name.clone(),
            id: container.id.clone(),
            group: group.to_owned(),
        },
    });
    container.collect()
}

fn subject(pod: &NodePod) -> Pod<'_> {
    let is_system = pod.raw_qos == Some(QosClass::System);
    Pod {
        uid: &pod.uid,
        owner: (!is_system).then(|| identity::owner(pod)),
        group: &pod.annotations.core_sched_group,
        wish: match pod.annotations.core_sched_policy {
            None => cookies::Wish::Group,
            Some(CoreSchedPolicy::Exclusive) => cookies::Wish::Exclusive,
            Some(CoreSchedPolicy::None) => cookies::Wish::Anybody,
        },
    }
}

/// Who has cookies at all.
fn classes(state: &State) -> Classes {
    let strategy = state.slo().resource_qos_strategy.as_ref();
    let policy = strategy.and_then(|strategy| strategy.policies.as_ref()?.cpu_policy.as_deref());
    if policy == Some(identity::CORE_POLICY) && state.is_on(AgentGate::CoreSched) {
        let class = |class: Option<&ResourceQos>| {
            let config = class?.cpu_qos.as_ref()?;
            let expels = config.core_expeller == Some(true);
            (config.enable == Some(true)).then_some(Class { expels })
        };
        return Classes {
            lsr: class(strategy.and_then(|strategy| strategy.lsr_class.as_ref())),
            ls: class(strategy.and_then(|strategy| strategy.ls_class.as_ref())),
            be: class(strategy.and_then(|strategy| strategy.be_class.as_ref())),
        };
    }
    // Mode C: best-effort among itself, and everybody else as they are.
    match identity::means(state) {
        Some(Means::Mainline(Mode::WholeCores)) => {
            Classes { be: Some(Class { expels: false }), ..Classes::default() }
        }
        _ => Classes::default(),
    }
}

/// Asks for the vendor's switches to be set; whether they are, or are not there at all.
fn vendor_switches(state: &State, sharing: &mut CoreSharing) -> bool {
    let read = |path: &str| state.machine.files.get(path).map(String::as_str);
    // Stronger than what operators set these switches to: both at once lock the kernel up.
    let wish = |path: &str, text: &str, why: &str| {
        Wish::file(KernelFile::whole(path), Rank::AVOIDANCE, text, why)
    };
    if let Some(identities) = read(IDENTITIES) {
        sharing.wishes.push(wish(IDENTITIES, "0", "never beside core scheduling"));
        if identities != "0" {
            let headline = "cores are shared with everybody while group identities are on";
            sharing.delay = Some(why(NODE, headline.to_owned(), IDENTITIES));
            return false;
        }
    }
    match read(CORES) {
        None => true,
        Some(cores) => {
            sharing.wishes.push(wish(CORES, "1", "the policy coreSched"));
            cores == "1"
        }
    }
}
