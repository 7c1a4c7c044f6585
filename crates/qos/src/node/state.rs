//! Everything a round looks at, as values.
//!
//! A round is a function of a [`State`] and of what the last one left in its [`Memory`](super::Memory). What
//! it needs of the machine it names before ([`readings`](super::readings)); whoever calls it looks that up, in
//! kernel files, in a recording or in a simulation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::kind::node_slo::NodeSloSpec;
use api::metadata::topology::CpuSharedPools;
use api::policy::{NodePolicy, ResolvedNodeSlo};
use api::protocol::gate::{AgentGate, Gates};
use api::qos::{KubeQos, QosClass};
use groups::resctrl;
use groups::{CgroupPath, Disk, Layout, Version};
use units::{CpuLayout, CpuSet, Micros, MilliCpu};

use super::{HostApplication, MetricPolicy, Node, Pod, Pods};
use crate::wake::Verdict;

/// Everything the cluster says about this node at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeState {
    /// `None` until the Node object was seen.
    pub node: Option<Arc<Node>>,
    /// The NodeSLO over the defaults, with the source of every value.
    pub slo: Arc<ResolvedNodeSlo>,
    pub pods: Pods,
    pub host_applications: Arc<Vec<HostApplication>>,
    /// How the node is measured.
    pub policy: Arc<MetricPolicy>,
    /// Whether Node, pods and NodeSLO have all been heard of; nobody acts before.
    pub is_complete: bool,
}

/// How this process acts: flags and gates, fixed at start.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub gates: Gates<AgentGate>,
    /// Time between two rounds.
    pub interval: Duration,
    /// `--disable-unset-cpu-quota`: pods on CPUs of their own keep their quota.
    pub keep_quota_of_bound: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            gates: Gates::default(),
            interval: Duration::from_secs(1),
            keep_quota_of_bound: false,
        }
    }
}

/// What this kernel was found to have, once at start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel {
    pub version: Version,
    pub has_identity: bool,
    pub has_idle: bool,
    pub has_core_scheduling: bool,
}

/// The machine's CPUs, and who may use them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeCpus {
    pub layout: CpuLayout,
    /// CPUs of nobody here: reserved ones and exclusive ones of the system.
    pub excluded: CpuSet,
    /// CPUs that online pods share.
    pub shared: CpuSharedPools,
    /// CPUs that best-effort pods may share.
    pub best_effort: CpuSharedPools,
    /// Whether the kubelet binds pods itself.
    pub is_kubelet_static: bool,
}

/// CPU in use, in cores. Whoever has no fresh sample is not in here.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Usage {
    pub node: CpuUsage,
    /// By uid.
    pub pods: BTreeMap<String, CpuUsage>,
    /// By id, as far as [`Readings`](super::Readings) names them.
    pub containers: BTreeMap<String, ContainerUsage>,
    /// By name.
    pub host_applications: BTreeMap<String, f64>,
}

/// CPU in use by the last sample and, where a round asks for it, as a mean.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CpuUsage {
    pub last: Option<f64>,
    pub mean: Option<f64>,
}

/// What a container did lately.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ContainerUsage {
    pub cpu: Option<f64>,
    /// The share of periods in which it was throttled.
    pub throttled: Option<f64>,
}

/// What was found on the machine: answers to [`Readings`](super::Readings). What could not be read is absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Machine {
    /// The groups below a group.
    pub children: BTreeMap<CgroupPath, Vec<CgroupPath>>,
    /// Quotas in force; `None` is none.
    pub quotas: BTreeMap<CgroupPath, Option<Micros>>,
    /// CPUs that groups are bound to.
    pub cpus: BTreeMap<CgroupPath, CpuSet>,
    pub processes: BTreeMap<CgroupPath, Vec<u32>>,
    /// Texts of files, trimmed.
    pub files: BTreeMap<String, String>,
    /// Directories that are there.
    pub directories: BTreeSet<String>,
    pub disks: Option<Arc<Vec<Disk>>>,
    pub cache: CacheHardware,
}

/// What resctrl says of the machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum CacheHardware {
    /// It is not mounted.
    #[default]
    Absent,
    /// It is there and cannot be read for the moment.
    Unread,
    Present(Box<CacheParts>),
}

/// What can be divided, and how it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CacheParts {
    pub info: resctrl::Info,
    /// The root's lines, with every domain there is.
    pub root: resctrl::Schemata,
    pub groups: Vec<resctrl::Group>,
    pub is_amd: bool,
}

/// Everything one round looks at.
#[derive(Debug, Clone)]
pub struct State {
    /// Since the agent started.
    pub now: Duration,
    /// Differs whenever `cluster` or `cpus` do.
    pub revision: u64,
    pub settings: Settings,
    pub layout: Layout,
    pub kernel: Kernel,
    /// What the cluster says.
    pub cluster: Arc<NodeState>,
    /// `None` before the machine's CPUs are known.
    pub cpus: Option<Arc<NodeCpus>>,
    pub usage: Usage,
    pub machine: Machine,
    /// What the probe of wake-up delays found.
    pub wake: Option<Verdict>,
}

impl State {
    pub fn is_on(&self, gate: AgentGate) -> bool {
        self.settings.gates.is_on(gate)
    }

    pub fn policy(&self) -> &NodePolicy {
        &self.cluster.slo.policy
    }

    pub fn slo(&self) -> &NodeSloSpec {
        &self.cluster.slo.spec
    }

    /// The group of all best-effort pods.
    pub fn tier(&self) -> CgroupPath {
        self.layout.class(KubeQos::BestEffort)
    }

    /// Pods that run or will, except those that somebody sets by hand.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.every_pod().filter(|pod| !pod.annotations.is_hands_off)
    }

    /// Pods that run or will.
    pub fn every_pod(&self) -> impl Iterator<Item = &Pod> {
        self.cluster.pods.values().map(AsRef::as_ref).filter(|pod| pod.is_active())
    }

    /// CPU in use by a pod.
    pub fn cpu_of(&self, pod: &Pod) -> Option<f64> {
        self.usage.pods.get(&pod.uid)?.last
    }

    /// The groups below one; none when it is gone.
    pub fn children(&self, group: &CgroupPath) -> &[CgroupPath] {
        self.machine.children.get(group).map(Vec::as_slice).unwrap_or_default()
    }

    /// The quota in force; the outer `None` when it cannot be read.
    pub fn quota(&self, group: &CgroupPath) -> Option<Option<Micros>> {
        self.machine.quotas.get(group).copied()
    }

    /// CPUs that pods of a class were given by the scheduler.
    pub fn cpus_of(&self, class: QosClass) -> CpuSet {
        let pods = self.every_pod().filter(|pod| pod.raw_qos == Some(class));
        pods.fold(CpuSet::new(), |all, pod| all.union(&pod.cpus))
    }
}

/// Cores as they are measured, cut to whole milli-cores.
pub fn milli(cores: f64) -> MilliCpu {
    #[expect(clippy::cast_possible_truncation, reason = "saturates, and no machine has so many")]
    MilliCpu((cores.max(0.0) * 1_000.0) as i64)
}
