//! One pod of the node: what its owner, the scheduler and the runtime say about it.
//!
//! The one form in which collectors, reports, strategies and evictions see a pod. An annotation that cannot
//! be read counts as absent, except where its key says otherwise.

mod read;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::metadata::eviction::EvictionNotice;
use api::metadata::pod::{CoreSchedPolicy, PodMemoryQos, PodNetworkQos, ResctrlConfig};
use api::priority::PriorityClass;
use api::qos::{KubeQos, QosClass};
use api::resources::Bounds;
use api::strategy::{BlkioQos, CpuBurstStrategy};
use groups::CgroupPath;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use units::{CpuMemory, CpuSet};

use crate::identity::OwnIdentity;

/// The pods of a node by uid; a pod that did not change keeps its `Arc`.
pub type Pods = Arc<BTreeMap<String, Arc<Pod>>>;

/// One pod of this node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pod {
    pub namespace: String,
    pub name: String,
    /// The uid that names the cgroup; for static pods the hash of their manifest.
    pub uid: String,
    pub kube_qos: KubeQos,
    /// The label's class; binding, suppressing and evicting look at this one.
    pub raw_qos: Option<QosClass>,
    /// The class with the default of the Kubernetes class.
    pub qos: QosClass,
    /// The class with the default of the QoS class.
    pub priority_class: PriorityClass,
    /// `spec.priority`.
    pub spec_priority: Option<i32>,
    /// `spec.priority`, or the default of the priority class.
    pub priority: i32,
    /// Order inside the priority class.
    pub sub_priority: Option<i32>,
    pub phase: PodPhase,
    pub is_deleting: bool,
    /// When the pod started, or was created if it has not; decides about cold start.
    pub started: Option<Timestamp>,
    /// Sum of the lasting containers' native CPU and memory requests.
    pub requests: CpuMemory,
    /// Sum of the lasting containers' batch CPU and memory requests.
    pub batch_requests: CpuMemory,
    pub cgroup: CgroupPath,
    /// Containers that the runtime has made, initialising ones too: they use the node as well.
    pub containers: Vec<Container>,
    /// Containers and sidecars of the spec, in that order.
    pub specs: Vec<ContainerSpec>,
    /// Batch and mid resources that containers request.
    pub lent: Vec<LentAmount>,
    /// CPUs that the scheduler chose for the pod.
    pub cpus: CpuSet,
    /// NUMA nodes on which the scheduler gave the pod CPU.
    pub numa: Vec<u16>,
    pub annotations: Annotations,
    pub eviction: Eviction,
    pub host_network: bool,
    /// Whether containers are virtual machines, whose groups are not ours.
    pub is_virtual_machine: bool,
    /// The pod's address; for the network.
    pub ip: Option<String>,
}

/// `status.phase` of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum PodPhase {
    Pending,
    Running,
    Succeeded,
    Failed,
    #[default]
    Unknown,
}

/// One container of a pod that the runtime knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    pub name: String,
    /// With the runtime's prefix: `containerd://0123...`.
    pub id: String,
    pub cgroup: CgroupPath,
    pub state: ContainerState,
}

/// What the runtime says of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContainerState {
    Waiting,
    Running,
    Terminated,
}

/// What the spec says of one container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerSpec {
    pub name: String,
    pub native: Bounds,
    /// In batch resources; `None` for a container that names none.
    pub batch: Option<Bounds>,
    pub oom_score_adj: Option<i32>,
    /// With the runtime's prefix; `None` until the runtime made the container.
    pub id: Option<String>,
    /// `None` until the runtime made the container.
    pub cgroup: Option<CgroupPath>,
    pub is_running: bool,
}

/// What one container requests of a lent resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LentAmount {
    pub container: String,
    /// Empty until the runtime made the container.
    pub id: String,
    /// `kubernetes.io/batch-cpu` and the like.
    pub resource: String,
    pub request: Option<i64>,
    pub limit: Option<i64>,
}

/// Annotations and labels that change how a pod is treated.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Annotations {
    pub cpu_burst: Option<CpuBurstStrategy>,
    pub memory_qos: Option<PodMemoryQos>,
    pub cpu_qos: OwnIdentity,
    pub blkio_qos: Option<BlkioQos>,
    pub network_qos: Option<PodNetworkQos>,
    pub resctrl: Option<ResctrlConfig>,
    pub core_sched_group: String,
    pub core_sched_policy: Option<CoreSchedPolicy>,
    /// Somebody sets this pod's groups by hand.
    pub is_hands_off: bool,
}

/// What matters about a pod when pods have to be evicted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Eviction {
    /// The uid at the API server, which for static pods is not the one of the cgroup.
    pub uid: String,
    /// Who would start the pod anew: `namespace/Kind/name` of its controller, or the pod itself.
    pub owner: String,
    /// The owner's own wish: lower goes first.
    pub priority: i32,
    /// `koordinator.sh/eviction-enabled`.
    pub is_willing: bool,
    /// Rules that may evict the pod; `None` for all, and none where the annotation is unreadable.
    pub allows: Option<Vec<String>>,
    /// By when the deletion should be over; `None` when nobody deletes the pod.
    pub deleted_by: Option<Timestamp>,
    pub notice: Option<EvictionNotice>,
    /// Only the kubelet can end the pod.
    pub is_static: bool,
}

impl Default for Pod {
    /// A pod that says nothing about itself.
    fn default() -> Self {
        Self {
            namespace: String::new(),
            name: String::new(),
            uid: String::new(),
            kube_qos: KubeQos::BestEffort,
            raw_qos: None,
            qos: QosClass::Be,
            priority_class: PriorityClass::Batch,
            spec_priority: None,
            priority: PriorityClass::Batch.default_value(),
            sub_priority: None,
            phase: PodPhase::default(),
            is_deleting: false,
            started: None,
            requests: CpuMemory::default(),
            batch_requests: CpuMemory::default(),
            cgroup: CgroupPath::root(),
            containers: Vec::new(),
            specs: Vec::new(),
            lent: Vec::new(),
            cpus: CpuSet::new(),
            numa: Vec::new(),
            annotations: Annotations::default(),
            eviction: Eviction::default(),
            host_network: false,
            is_virtual_machine: false,
            ip: None,
        }
    }
}

impl Pod {
    /// `namespace/name`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Whether all containers have ended for good.
    pub fn is_terminated(&self) -> bool {
        matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    /// Whether the pod runs or will.
    pub fn is_active(&self) -> bool {
        matches!(self.phase, PodPhase::Pending | PodPhase::Running)
    }

    /// Best-effort by its label or by Kubernetes.
    pub fn is_best_effort(&self) -> bool {
        self.raw_qos == Some(QosClass::Be) || self.kube_qos == KubeQos::BestEffort
    }

    /// Whether the scheduler gave the pod CPUs, or CPU on some NUMA nodes.
    pub fn is_placed(&self) -> bool {
        !self.cpus.is_empty() || !self.numa.is_empty()
    }
}

/// The next list, with the `Arc`s of pods that did not change.
pub fn next(previous: &Pods, pods: impl IntoIterator<Item = Pod>) -> Pods {
    let same = |pod: Pod| match previous.get(&pod.uid) {
        Some(known) if **known == pod => known.clone(),
        _ => Arc::new(pod),
    };
    Arc::new(pods.into_iter().map(|pod| (pod.uid.clone(), same(pod))).collect())
}
