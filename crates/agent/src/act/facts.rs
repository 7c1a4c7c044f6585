//! What may a strategy look at in one round?

use std::time::Duration;

use api::kind::node_slo::NodeSloSpec;
use api::policy::NodePolicy;
use api::protocol::gate::{AgentGate, Gates};
use api::qos::{KubeQos, QosClass};
use groups::{CgroupPath, Knob, Layout, Limit, Setting, Version};
use host::Reading;
use host::cgroup::Tree;
use host::probe::{Answer, Live};
use qos::node::Pod;
use qos::wake::Verdict;
use units::{CpuSet, Micros, MilliCpu, Percent};

use crate::node_state::NodeState;
use crate::series::{Measure, Metrics, Subject};
use crate::topology::Topology;

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

impl Kernel {
    /// Looks at the group around all pods. Whether cores can be scheduled whole is asked of the kernel
    /// itself, or of a recording.
    pub fn probe(tree: &Tree, layout: &Layout) -> Self {
        let has = |knob| {
            let groups = [layout.class(KubeQos::BestEffort), layout.kubepods()];
            groups.iter().any(|group| matches!(tree.get(group, knob), Ok(Reading::Value(_))))
        };
        let live = match tree.fs().real_path(std::path::Path::new("/")) {
            Some(_) => Live::ask(),
            None => Live::recorded(tree.fs()),
        };
        Self {
            version: tree.version(),
            has_identity: has(Knob::BvtWarp),
            has_idle: has(Knob::CpuIdle),
            has_core_scheduling: live.core_scheduling == Answer::Yes,
        }
    }
}

/// Everything one round looks at.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Since the agent started.
    pub now: Duration,
    pub settings: &'a Settings,
    pub tree: &'a Tree,
    pub layout: &'a Layout,
    pub kernel: Kernel,
    /// What the cluster says.
    pub cluster: &'a NodeState,
    pub topology: Option<&'a Topology>,
    pub metrics: &'a Metrics,
    /// What the probe of wake-up delays found.
    pub wake: Option<&'a Verdict>,
}

impl<'a> Facts<'a> {
    pub fn is_on(&self, gate: AgentGate) -> bool {
        self.settings.gates.is_on(gate)
    }

    pub fn policy(&self) -> &'a NodePolicy {
        &self.cluster.slo.policy
    }

    pub fn slo(&self) -> &'a NodeSloSpec {
        &self.cluster.slo.spec
    }

    /// The group of all best-effort pods.
    pub fn tier(&self) -> CgroupPath {
        self.layout.class(KubeQos::BestEffort)
    }

    /// Pods that run or will, except those that somebody sets by hand.
    pub fn pods(&self) -> impl Iterator<Item = &'a Pod> {
        self.every_pod().filter(|pod| !pod.annotations.is_hands_off)
    }

    /// Pods that run or will.
    pub fn every_pod(&self) -> impl Iterator<Item = &'a Pod> {
        self.cluster.pods.values().map(AsRef::as_ref).filter(|pod| pod.is_active())
    }

    /// CPU in use, from a sample that is at most two rounds old.
    pub fn cpu(&self, subject: Subject<'_>) -> Option<MilliCpu> {
        let window = self.settings.interval.saturating_mul(2).max(Duration::from_secs(2));
        self.metrics.recent(subject, Measure::Cpu, self.now, window).map(milli)
    }

    /// The mean of CPU in use over some time.
    pub fn average_cpu(&self, subject: Subject<'_>, window: Duration) -> Option<MilliCpu> {
        self.metrics.average(subject, Measure::Cpu, self.now, window).map(milli)
    }

    /// The groups below one; none when it is gone.
    pub fn children(&self, group: &CgroupPath) -> Vec<CgroupPath> {
        match self.tree.children(group) {
            Ok(Reading::Value(names)) => names.iter().map(|name| group.child(name)).collect(),
            _ => Vec::new(),
        }
    }

    /// The quota in force; the outer `None` when it cannot be read.
    pub fn quota(&self, group: &CgroupPath) -> Option<Option<Micros>> {
        match self.tree.get(group, Knob::CfsQuota) {
            Ok(Reading::Value(Setting::Limit(Limit::At(quota)))) => Some(Some(Micros(quota))),
            Ok(Reading::Value(Setting::Limit(Limit::Max))) => Some(None),
            _ => None,
        }
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

/// A percentage of the configuration.
pub fn percent(value: Option<i64>) -> Option<Percent> {
    value.map(Percent)
}
