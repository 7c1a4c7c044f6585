//! What do the two halves of the agent tell each other?
//!
//! ```text
//! watches, kubelet ──> World ──> collectors ──> Metrics ──> reports, strategies
//! ```
//!
//! The async half turns API objects into the plain values below and publishes a whole new [`World`]
//! whenever one of them changes. The kernel half reads the newest world at the start of a tick and
//! never waits for one. What it measured goes back through [`Metrics`](crate::series::Metrics).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::priority::PriorityClass;
use api::protocol::gate::{AgentGate, Gates};
use api::qos::{KubeQos, QosClass};
use arc_swap::ArcSwap;
use jiff::Timestamp;
use units::CpuMemory;

/// The newest world: written by the watches, read by the kernel thread.
pub type SharedWorld = Arc<ArcSwap<World>>;

/// Everything the cluster says about this node at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct World {
    /// `None` until the Node object was seen.
    pub node: Option<NodeView>,
    /// Pods of this node in any order; an unchanged pod keeps its `Arc`.
    pub pods: Vec<Arc<PodView>>,
    pub host_applications: Vec<HostApplicationView>,
    pub policy: MetricPolicy,
}

/// The Node object, as far as the agent looks at it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeView {
    pub name: String,
    /// `status.capacity`.
    pub capacity: CpuMemory,
    /// `status.allocatable`.
    pub allocatable: CpuMemory,
    /// `node.koordinator.sh/raw-allocatable`: what the node offers before amplification.
    pub raw_allocatable: Option<CpuMemory>,
    /// Batch and mid resources of `status.allocatable`; one that is not there is not lent.
    pub lent: BTreeMap<&'static str, i64>,
}

impl NodeView {
    /// What can really be handed out: the raw amounts where the advertised ones are amplified.
    pub fn real_allocatable(&self) -> CpuMemory {
        self.raw_allocatable.unwrap_or(self.allocatable)
    }
}

/// One pod of this node.
#[derive(Debug, Clone, PartialEq)]
pub struct PodView {
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
    pub priority: PriorityClass,
    pub phase: PodPhase,
    pub is_deleting: bool,
    /// When the pod started, or was created if it has not; decides about cold start.
    pub started: Option<Timestamp>,
    /// Sum of the containers' native CPU and memory requests.
    pub requests: CpuMemory,
    /// Sum of the containers' batch CPU and memory requests.
    pub batch_requests: CpuMemory,
    /// Directory below the cgroup root, without a leading slash.
    pub cgroup: String,
    pub containers: Vec<ContainerView>,
}

impl PodView {
    /// Whether all containers have ended for good.
    pub fn is_terminated(&self) -> bool {
        matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed)
    }
}

/// `status.phase` of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PodPhase {
    Pending,
    Running,
    Succeeded,
    Failed,
    #[default]
    Unknown,
}

/// One container of a pod that the runtime knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerView {
    pub name: String,
    /// With the runtime's prefix: `containerd://0123...`.
    pub id: String,
    /// Directory below the cgroup root, without a leading slash.
    pub cgroup: String,
    pub state: ContainerState,
}

/// What the runtime says of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerState {
    Waiting,
    Running,
    Terminated,
}

/// An application outside Kubernetes that shares the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostApplicationView {
    pub name: String,
    pub priority: Option<PriorityClass>,
    pub qos: Option<QosClass>,
    /// Directory below the cgroup root, without a leading slash.
    pub cgroup: String,
}

/// NodeMetric.spec with its defaults and limits applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricPolicy {
    /// Window of `nodeUsage`, `systemUsage` and `podUsage`; at least a minute.
    pub aggregate: Duration,
    /// Time between two reports; at least half a minute.
    pub report: Duration,
    /// Windows of the percentiles, in the order they are reported.
    pub windows: Vec<Duration>,
    pub memory: MemoryPolicy,
}

impl Default for MetricPolicy {
    fn default() -> Self {
        Self {
            aggregate: Duration::from_secs(300),
            report: Duration::from_secs(60),
            windows: [300, 600, 1800].map(Duration::from_secs).to_vec(),
            memory: MemoryPolicy::WithoutPageCache,
        }
    }
}

/// What counts as used memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemoryPolicy {
    /// `usageWithoutPageCache`.
    #[default]
    WithoutPageCache,
    /// `usageWithHotPageCache`; needs a kernel that finds cold pages.
    WithHotPageCache,
    /// `usageWithPageCache`; needs the page-cache collector.
    WithPageCache,
}

/// How this process collects: flags and gates, fixed at start.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectSettings {
    /// `--collect-res-used-interval`.
    pub usage_interval: Duration,
    /// `--collect-sys-metric-outdated-interval`: older inputs do not make a system sample.
    pub system_outdated: Duration,
    /// `--collect-node-cpu-info-interval`.
    pub node_info_interval: Duration,
    /// `--collect-node-storage-info-interval`.
    pub storage_interval: Duration,
    /// `--cpi-collector-interval`.
    pub cpi_interval: Duration,
    /// `--collect-cpi-timewindow`.
    pub cpi_window: Duration,
    /// `--psi-collector-interval`.
    pub psi_interval: Duration,
    /// `--coldpage-collector-interval`.
    pub cold_page_interval: Duration,
    /// `--resctrl-collector-interval`.
    pub resctrl_interval: Duration,
    /// `--enable-pagecache-collector`.
    pub page_cache: bool,
    /// `--enable-resctrl-collector`; the gate must be on too.
    pub resctrl: bool,
    pub gates: Gates<AgentGate>,
    /// Directory of the best-effort tier below the cgroup root, without a leading slash.
    pub best_effort_cgroup: String,
    /// Most points that all series may hold together.
    pub max_points: usize,
}

impl Default for CollectSettings {
    fn default() -> Self {
        Self {
            usage_interval: Duration::from_secs(1),
            system_outdated: Duration::from_secs(10),
            node_info_interval: Duration::from_secs(60),
            storage_interval: Duration::from_secs(1),
            cpi_interval: Duration::from_secs(60),
            cpi_window: Duration::from_secs(10),
            psi_interval: Duration::from_secs(10),
            cold_page_interval: Duration::from_secs(5),
            resctrl_interval: Duration::from_secs(10),
            page_cache: false,
            resctrl: false,
            gates: Gates::default(),
            best_effort_cgroup: "kubepods/besteffort".to_owned(),
            max_points: 4_000_000,
        }
    }
}

/// Time since the agent started; never steps when somebody sets the wall clock.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
    /// What the clock showed at its start.
    at_start: Duration,
}

impl Clock {
    pub fn start() -> Self {
        Self::start_at(Duration::ZERO)
    }

    /// A clock that shows `now` at this moment.
    pub fn start_at(now: Duration) -> Self {
        Self { start: Instant::now(), at_start: now }
    }

    pub fn now(self) -> Duration {
        self.at_start + self.start.elapsed()
    }
}
