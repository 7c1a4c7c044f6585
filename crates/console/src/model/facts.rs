//! What of each object is kept?
//!
//! Little: a cluster of ten thousand nodes has to fit.

use std::collections::BTreeMap;
use std::fmt;

use api::config::NodeView;
use api::kind::NodeMetric;
use api::kind::node_slo::NodeSloSpec;
use api::kind::shape::ResourceMap;
use api::metadata::node::NodeSwitch;
use api::priority::{self, PriorityClass};
use api::protocol::node::SWITCH;
use api::protocol::pod::RESOURCE_STATUS;
use api::protocol::resource::{BATCH_CPU, BATCH_MEMORY, CPU, MEMORY, MID_CPU};
use api::qos::{self, QosClass};
use api::resources::{amount, pod_requests};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Serialize, Serializer};
use units::{Bytes, CpuSet, MilliCpu, Percent, Quantity, Rounding};

/// Namespace and name of a pod, in the form in which people write them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodKey {
    pub namespace: String,
    pub name: String,
}

impl fmt::Display for PodKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl Serialize for PodKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// CPU and memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    pub milli_cpu: MilliCpu,
    pub bytes: Bytes,
}

impl std::ops::Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { milli_cpu: self.milli_cpu + other.milli_cpu, bytes: self.bytes + other.bytes }
    }
}

impl std::iter::Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| sum + one)
    }
}

impl Usage {
    fn of(map: Option<&ResourceMap>) -> Self {
        let get = |name: &str| map.and_then(|map| map.resources.get(name)).copied();
        Self {
            milli_cpu: get(CPU).map(milli).unwrap_or_default(),
            bytes: get(MEMORY).map(whole_bytes).unwrap_or_default(),
        }
    }
}

fn milli(cores: Quantity) -> MilliCpu {
    MilliCpu::from_quantity(cores, Rounding::Down)
}

fn whole_bytes(bytes: Quantity) -> Bytes {
    Bytes::from_quantity(bytes, Rounding::Down)
}

/// The share of a node above which best-effort work is held back, or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Thresholds {
    pub suppress: Percent,
    pub memory_evict: Percent,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { suppress: Percent(65), memory_evict: Percent(70) }
    }
}

impl Thresholds {
    pub fn of(view: &NodeView) -> Self {
        Self::of_slo(&view.node_slo())
    }

    fn of_slo(slo: &NodeSloSpec) -> Self {
        let own = Self::default();
        let Some(threshold) = &slo.resource_used_threshold_with_be else { return own };
        Self {
            suppress: threshold.cpu_suppress_threshold_percent.map_or(own.suppress, Percent),
            memory_evict: threshold
                .memory_evict_threshold_percent
                .map_or(own.memory_evict, Percent),
        }
    }
}

/// A Node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeFacts {
    pub capacity: Usage,
    /// Lent to batch work; `None` where nothing is computed.
    pub batch_cpu: Option<MilliCpu>,
    pub batch_memory: Option<Bytes>,
    pub mid_cpu: Option<MilliCpu>,
    pub is_ready: bool,
    pub is_off: bool,
    pub address: Option<String>,
    pub thresholds: Thresholds,
    /// Name, labels and annotations: what configuration chooses by.
    pub meta: ObjectMeta,
}

impl NodeFacts {
    pub fn read(node: Node) -> Self {
        let status = node.status.unwrap_or_default();
        let find = |list: &Option<BTreeMap<_, _>>, name: &str| {
            list.as_ref().and_then(|list| list.get(name)).map(amount)
        };
        let capacity = |name| find(&status.capacity, name);
        let lent = |name| find(&status.allocatable, name).map(Quantity::value);
        let ready = status.conditions.iter().flatten().find(|one| one.type_ == "Ready");
        let addresses = status.addresses.iter().flatten();
        let internal = addresses.filter(|one| one.type_ == "InternalIP").map(|one| &one.address);
        Self {
            capacity: Usage {
                milli_cpu: capacity(CPU).map(milli).unwrap_or_default(),
                bytes: capacity(MEMORY).map(whole_bytes).unwrap_or_default(),
            },
            batch_cpu: lent(BATCH_CPU).map(MilliCpu),
            batch_memory: lent(BATCH_MEMORY).map(Bytes),
            mid_cpu: lent(MID_CPU).map(MilliCpu),
            is_ready: ready.is_some_and(|one| one.status == "True"),
            is_off: SWITCH.get(&node.metadata) == Some(NodeSwitch::Off),
            address: internal.into_iter().next().cloned(),
            thresholds: Thresholds::default(),
            meta: ObjectMeta {
                name: node.metadata.name,
                labels: node.metadata.labels,
                annotations: node.metadata.annotations,
                ..ObjectMeta::default()
            },
        }
    }
}

/// A Pod that is bound to a node and not done.
#[derive(Debug, Clone, PartialEq)]
pub struct PodFacts {
    pub node: String,
    pub qos: QosClass,
    pub priority: PriorityClass,
    pub phase: String,
    pub requested: Usage,
    /// Of what is lent.
    pub batch_requested: Usage,
    /// CPUs that the scheduler gave to it alone.
    pub cpus: CpuSet,
    pub created: Option<Timestamp>,
    pub owner: Option<String>,
}

impl PodFacts {
    /// `None` for a pod that is nowhere, or done.
    pub fn read(pod: &Pod) -> Option<(PodKey, Self)> {
        let (meta, spec) = (&pod.metadata, pod.spec.as_ref()?);
        let node = spec.node_name.clone().filter(|name| !name.is_empty())?;
        let phase = pod.status.as_ref().and_then(|status| status.phase.clone());
        let phase = phase.unwrap_or_else(|| "Unknown".to_owned());
        if matches!(phase.as_str(), "Succeeded" | "Failed") {
            return None;
        }
        let requests = pod_requests(spec);
        let get = |name: &str| requests.get(name).copied().unwrap_or_default();
        let owner = meta.owner_references.iter().flatten().next();
        let key = PodKey {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
        };
        let facts = Self {
            node,
            qos: qos::effective(pod),
            priority: priority::effective(pod),
            phase,
            requested: Usage { milli_cpu: milli(get(CPU)), bytes: whole_bytes(get(MEMORY)) },
            batch_requested: Usage {
                milli_cpu: MilliCpu(get(BATCH_CPU).value()),
                bytes: whole_bytes(get(BATCH_MEMORY)),
            },
            cpus: RESOURCE_STATUS.get(meta).map(|status| status.cpuset).unwrap_or_default(),
            created: meta.creation_timestamp.as_ref().map(|time| time.0),
            owner: owner.map(|owner| format!("{} {}", owner.kind, owner.name)),
        };
        Some((key, facts))
    }
}

/// A NodeMetric.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MetricFacts {
    /// `None` before the first report.
    pub at: Option<Timestamp>,
    pub used: Usage,
    pub system: Usage,
    pub pods: BTreeMap<PodKey, (Option<QosClass>, Usage)>,
    pub host_applications: Vec<(Option<QosClass>, Usage)>,
}

impl MetricFacts {
    pub fn read(metric: NodeMetric) -> Self {
        let Some(status) = metric.status else { return Self::default() };
        let class = |word: Option<&str>| word.and_then(QosClass::from_word);
        let node = status.node_metric.as_ref();
        let pods = status.pods_metric.iter().map(|pod| {
            let key = PodKey {
                namespace: pod.namespace.clone().unwrap_or_default(),
                name: pod.name.clone().unwrap_or_default(),
            };
            (key, (class(pod.qos.as_deref()), Usage::of(pod.pod_usage.as_ref())))
        });
        let applications = status.host_application_metric.iter();
        Self {
            at: status.update_time.map(|time| time.0),
            used: Usage::of(node.and_then(|node| node.node_usage.as_ref())),
            system: Usage::of(node.and_then(|node| node.system_usage.as_ref())),
            pods: pods.collect(),
            host_applications: applications
                .map(|one| (class(one.qos.as_deref()), Usage::of(one.usage.as_ref())))
                .collect(),
        }
    }
}
