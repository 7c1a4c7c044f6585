//! What do a pod's owner and the scheduler ask of this node?
//!
//! Everything the acting side looks at besides what is measured: requests and limits, priorities,
//! and the annotations that change how a pod is treated. An annotation that cannot be read counts as
//! absent, except where its key says otherwise.

use api::metadata::pod::{CoreSchedPolicy, PodMemoryQos, PodNetworkQos, ResctrlConfig};
use api::priority;
use api::protocol::pod as key;
use api::protocol::resource::{BATCH_CPU, BATCH_MEMORY, CPU, MEMORY};
use api::resources::{WireList, amount};
use api::strategy::{BlkioQos, CpuBurstStrategy};
use k8s_openapi::api::core::v1::{Container, Pod};
use qos::identity::Wish;
use units::{Bytes, CpuMemory, MilliCpu, Quantity, Rounding};

use super::read::lasting;
use crate::view::ContainerView;

/// What is asked for a pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Containers and sidecars, in that order.
    pub containers: Vec<ContainerAsked>,
    /// `spec.priority`, or the default of the class.
    pub priority: i32,
    /// The label's number, or the priority.
    pub sub_priority: i32,
    /// NUMA nodes on which the scheduler gave the pod CPU.
    pub numa: Vec<u16>,
    pub cpu_burst: Option<CpuBurstStrategy>,
    pub memory_qos: Option<PodMemoryQos>,
    pub cpu_qos: Wish,
    pub blkio_qos: Option<BlkioQos>,
    pub network_qos: Option<PodNetworkQos>,
    pub resctrl: Option<ResctrlConfig>,
    pub core_sched_group: String,
    pub core_sched_policy: Option<CoreSchedPolicy>,
    /// Somebody sets this pod's groups by hand.
    pub is_hands_off: bool,
    pub host_network: bool,
    /// Whether containers are virtual machines, whose groups are not ours.
    pub is_virtual_machine: bool,
    /// The pod's address; for the network.
    pub ip: Option<String>,
}

/// What is asked for one container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerAsked {
    pub name: String,
    pub native: Bounds,
    /// In batch resources; memory and milli-cores like the native ones.
    pub batch: Bounds,
    /// Whether it names a batch resource at all.
    pub has_batch: bool,
    pub is_sidecar: bool,
    pub oom_score_adj: Option<i32>,
    /// With the runtime's prefix; `None` until the runtime made it.
    pub id: Option<String>,
    /// Directory below the cgroup root; `None` until the runtime made it.
    pub cgroup: Option<String>,
    pub is_running: bool,
}

/// Requests and limits of CPU and memory; `None` is not given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bounds {
    pub cpu_request: Option<MilliCpu>,
    pub cpu_limit: Option<MilliCpu>,
    pub memory_request: Option<Bytes>,
    pub memory_limit: Option<Bytes>,
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            containers: Vec::new(),
            priority: 0,
            sub_priority: 0,
            numa: Vec::new(),
            cpu_burst: None,
            memory_qos: None,
            cpu_qos: Wish::None,
            blkio_qos: None,
            network_qos: None,
            resctrl: None,
            core_sched_group: String::new(),
            core_sched_policy: None,
            is_hands_off: false,
            host_network: false,
            is_virtual_machine: false,
            ip: None,
        }
    }
}

impl Asked {
    /// The native CPU limit of the whole pod; `None` as soon as one container has none.
    pub fn cpu_limit(&self) -> Option<MilliCpu> {
        let limits = self.containers.iter();
        limits.map(|container| container.native.cpu_limit.filter(|limit| limit.0 > 0)).sum()
    }

    /// Requests as the scheduler counts them: everything that lasts.
    pub fn requests(&self) -> CpuMemory {
        let sum = |read: fn(&Bounds) -> Option<i64>| {
            self.containers.iter().filter_map(|c| read(&c.native)).fold(0, i64::saturating_add)
        };
        CpuMemory {
            cpu: MilliCpu(sum(|bounds| bounds.cpu_request.map(|cpu| cpu.0))),
            memory: Bytes(sum(|bounds| bounds.memory_request.map(|memory| memory.0))),
        }
    }
}

/// Reads what is asked; `made` are the containers that the runtime has made.
pub(super) fn asked(pod: &Pod, made: &[ContainerView]) -> Asked {
    let meta = &pod.metadata;
    let status = key::RESOURCE_STATUS.get(meta).unwrap_or_default();
    let spec = pod.spec.as_ref();
    let priority = priority::value(pod);
    Asked {
        containers: containers(pod, made),
        priority,
        sub_priority: priority::sub_priority(pod).map_or(priority, |sub| sub.0),
        numa: status.numa_node_resources.iter().filter_map(numa_node).collect(),
        cpu_burst: key::CPU_BURST.get(meta),
        memory_qos: key::MEMORY_QOS.get(meta),
        cpu_qos: cpu_wish(pod),
        blkio_qos: key::BLKIO_QOS.get(meta),
        network_qos: key::NETWORK_QOS.get(meta),
        resctrl: key::RESCTRL.get(meta),
        core_sched_group: key::CORE_SCHED_GROUP.get(meta).unwrap_or_default(),
        core_sched_policy: key::CORE_SCHED_POLICY.get(meta),
        is_hands_off: key::HANDS_OFF.get(meta).or(key::OLD_HANDS_OFF.get(meta)) == Some(true),
        host_network: spec.and_then(|spec| spec.host_network).unwrap_or_default(),
        is_virtual_machine: spec
            .and_then(|spec| spec.runtime_class_name.as_deref())
            .is_some_and(|class| class.contains("kata")),
        ip: pod.status.as_ref().and_then(|status| status.pod_ip.clone()),
    }
}

/// The node, when the pod has CPU on it.
fn numa_node(given: &api::metadata::pod::NumaNodeResource) -> Option<u16> {
    let has = |name: &str| given.resources.get(name).is_some_and(|given| *given > Quantity::ZERO);
    (has(CPU) || has(BATCH_CPU)).then_some(given.node)?.try_into().ok()
}

/// A wish outside of what the kernel takes stays one, and is refused where it is followed.
fn cpu_wish(pod: &Pod) -> Wish {
    if !key::CPU_QOS.is_present(&pod.metadata) {
        return Wish::None;
    }
    match key::CPU_QOS.get(&pod.metadata) {
        Some(wish) if wish.enable == Some(true) => Wish::At(wish.group_identity.unwrap_or(0)),
        Some(_) => Wish::Off,
        None => Wish::At(i64::MAX),
    }
}

fn containers(pod: &Pod, made: &[ContainerView]) -> Vec<ContainerAsked> {
    let meta = &pod.metadata;
    let each = key::OOM_SCORE_ADJ_SPEC.get(meta).unwrap_or_default();
    let all = key::OOM_SCORE_ADJ.get(meta);
    let spec = key::EXTENDED_RESOURCE_SPEC.get(meta).unwrap_or_default();
    let main = pod.spec.as_ref().map_or(0, |spec| spec.containers.len());
    lasting(pod)
        .enumerate()
        .map(|(place, container)| {
            let view = made.iter().find(|made| made.name == container.name);
            let own = batch(container);
            // The webhook's copy stands in where the resources themselves were taken out.
            let copied = || {
                let copy = spec.containers.get(&container.name)?;
                Some(batch_of(|is_limit, name| {
                    let list = if is_limit { &copy.limits } else { &copy.requests };
                    list.get(name).copied()
                }))
            };
            let batch = own.or_else(copied);
            ContainerAsked {
                name: container.name.clone(),
                native: native(container),
                has_batch: batch.is_some(),
                batch: batch.unwrap_or_default(),
                is_sidecar: place >= main,
                oom_score_adj: each
                    .get(&container.name)
                    .copied()
                    .filter(|adj| adj.is_valid())
                    .or(all)
                    .map(|adj| adj.0),
                id: view.map(|view| view.id.clone()),
                cgroup: view.map(|view| view.cgroup.clone()),
                is_running: view
                    .is_some_and(|view| view.state == crate::view::ContainerState::Running),
            }
        })
        .collect()
}

fn listed(list: Option<&WireList>, name: &str) -> Option<Quantity> {
    list?.get(name).map(amount)
}

fn native(container: &Container) -> Bounds {
    let resources = container.resources.as_ref();
    let request = |name| listed(resources.and_then(|r| r.requests.as_ref()), name);
    let limit = |name| listed(resources.and_then(|r| r.limits.as_ref()), name);
    let cpu = |cpu: Quantity| MilliCpu::from_quantity(cpu, Rounding::Up);
    let memory = |memory: Quantity| Bytes::from_quantity(memory, Rounding::Up);
    Bounds {
        cpu_request: request(CPU).map(cpu),
        cpu_limit: limit(CPU).map(cpu),
        memory_request: request(MEMORY).map(memory),
        memory_limit: limit(MEMORY).map(memory),
    }
}

/// `None` when the container names no batch resource.
fn batch(container: &Container) -> Option<Bounds> {
    let resources = container.resources.as_ref()?;
    let bounds = batch_of(|is_limit, name| {
        listed(if is_limit { resources.limits.as_ref() } else { resources.requests.as_ref() }, name)
    });
    (bounds != Bounds::default()).then_some(bounds)
}

fn batch_of(read: impl Fn(bool, &str) -> Option<Quantity>) -> Bounds {
    // Milli-cores on the wire already.
    let cpu = |is_limit| read(is_limit, BATCH_CPU).map(|cpu| MilliCpu(cpu.value()));
    let memory = |is_limit| {
        read(is_limit, BATCH_MEMORY).map(|memory| Bytes::from_quantity(memory, Rounding::Up))
    };
    Bounds {
        cpu_request: cpu(false),
        cpu_limit: cpu(true),
        memory_request: memory(false),
        memory_limit: memory(true),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(pod: Value) -> Asked {
        asked(&serde_json::from_value(pod).unwrap(), &[])
    }

    #[test]
    fn batch_resources_come_from_the_container_or_from_the_webhook_s_copy() {
        let copy = r#"{"containers":{"copied":{"limits":{"kubernetes.io/batch-cpu":"700"}}}}"#;
        let asked = of(json!({
            "metadata": { "annotations": { "node.koordinator.sh/extended-resource-spec": copy } },
            "spec": { "containers": [
                { "name": "own", "resources": {
                    "limits": { "kubernetes.io/batch-cpu": "2k", "kubernetes.io/batch-memory": "1Gi" } } },
                { "name": "copied" },
                { "name": "neither", "resources": { "limits": { "cpu": "1" } } },
            ] },
        }));
        let cpu: Vec<_> = asked
            .containers
            .iter()
            .map(|c| (c.has_batch, c.batch.cpu_limit.map(|c| c.0)))
            .collect();
        assert_eq!(cpu, [(true, Some(2_000)), (true, Some(700)), (false, None)]);
        assert_eq!(asked.containers[0].batch.memory_limit, Some(Bytes(1 << 30)));
        assert_eq!(asked.cpu_limit(), None, "two containers have no native limit");
    }

    #[test]
    fn annotations_are_read_or_count_as_absent() {
        let with = |name: &str, value: &str| {
            of(json!({ "metadata": { "annotations": { name: value } },
                "spec": { "containers": [{ "name": "c" }, { "name": "d" }] } }))
        };
        let wish = |text| with("koordinator.sh/cpuQOS", text).cpu_qos;
        assert_eq!(wish(r#"{"enable":true,"groupIdentity":1}"#), Wish::At(1));
        assert_eq!(wish(r#"{"groupIdentity":1}"#), Wish::Off);
        assert_eq!(wish("{"), Wish::At(i64::MAX), "refused later");
        let adj = |name, value| {
            with(name, value).containers.iter().map(|c| c.oom_score_adj).collect::<Vec<_>>()
        };
        assert_eq!(adj("koordinator.sh/oom-score-adj", "-5"), [Some(-5), Some(-5)]);
        assert_eq!(adj("koordinator.sh/oom-score-adj", "5000"), [None, None]);
        assert_eq!(adj("koordinator.sh/oom-score-adj-spec", r#"{"d":7}"#), [None, Some(7)]);
        for name in ["tidepool.io/hands-off", "tidepool.io/cgroup-freeze"] {
            assert!(with(name, "true").is_hands_off, "{name}");
            assert!(!with(name, "yes").is_hands_off, "{name}");
        }
        let status = r#"{"numaNodeResources":[{"node":1,"resources":{"cpu":"2"}},
            {"node":0,"resources":{"memory":"1Gi"}}]}"#;
        assert_eq!(with("scheduling.koordinator.sh/resource-status", status).numa, [1]);
    }
}
