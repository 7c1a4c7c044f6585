//! What of a pod does the agent look at?

use std::sync::Arc;

use api::protocol::pod::RESOURCE_STATUS;
use api::protocol::resource::{BATCH_CPU, BATCH_MEMORY, CPU, MEMORY, MID_CPU, MID_MEMORY};
use api::qos::KubeQos;
use api::resources::{WireList, amount, is_sidecar};
use api::{priority, qos};
use groups::{ContainerId, Layout, PodUid};
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod};
use units::{Bytes, CpuMemory, CpuSet, MilliCpu, Rounding};

use super::Departure;
use super::asked::{Asked, asked};
use crate::view::{ContainerState, ContainerView, PodPhase, PodView};

/// Resources that are lent out, in the order in which they are reported.
const LENT: [&str; 4] = [BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY];

/// The kubelet's hash of a static pod's manifest; the pod's cgroup has its name.
const CONFIG_HASH: &str = "kubernetes.io/config.hash";

/// One pod: what is measured, and what reports need besides.
#[derive(Debug, Clone, PartialEq)]
pub struct NodePod {
    pub view: Arc<PodView>,
    /// CPUs that the scheduler chose for the pod.
    pub cpus: CpuSet,
    pub lent: Vec<Lent>,
    pub departure: Departure,
    pub asked: Asked,
}

/// What one container asks of the lent resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lent {
    pub container: String,
    /// Empty until the container runs.
    pub id: String,
    pub resource: &'static str,
    pub request: Option<i64>,
    pub limit: Option<i64>,
}

/// Reads a pod; `None` without a uid.
pub fn read(pod: &Pod, layout: &Layout) -> Option<NodePod> {
    let uid = uid(pod)?;
    let kube = qos::kube_qos(pod);
    let group = PodUid::new(uid);
    let meta = &pod.metadata;
    let status = pod.status.as_ref();
    let started = status.and_then(|status| status.start_time.as_ref());
    let started = started.or(meta.creation_timestamp.as_ref()).map(|time| time.0);
    let view = PodView {
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
        uid: uid.to_owned(),
        kube_qos: kube,
        raw_qos: qos::raw(pod),
        qos: qos::effective(pod),
        priority: priority::effective(pod),
        phase: phase(status.and_then(|status| status.phase.as_deref())),
        is_deleting: meta.deletion_timestamp.is_some(),
        started,
        requests: total(pod, |list| CpuMemory {
            cpu: list
                .get(CPU)
                .map_or(MilliCpu::ZERO, |q| MilliCpu::from_quantity(amount(q), Rounding::Up)),
            memory: bytes(list, MEMORY),
        }),
        batch_requests: total(pod, |list| CpuMemory {
            cpu: list.get(BATCH_CPU).map_or(MilliCpu::ZERO, |q| MilliCpu(amount(q).value())),
            memory: bytes(list, BATCH_MEMORY),
        }),
        cgroup: layout.pod(kube, &group).as_str().to_owned(),
        containers: containers(pod, layout, kube, &group),
    };
    let cpus = RESOURCE_STATUS.get(meta).map(|status| status.cpuset).unwrap_or_default();
    let lent = lent(pod, &view.containers);
    let asked = asked(pod, &view.containers);
    let departure = Departure::read(pod);
    Some(NodePod { view: Arc::new(view), cpus, lent, departure, asked })
}

/// The uid that names the cgroup. The API server's copy of a static pod has another.
fn uid(pod: &Pod) -> Option<&str> {
    let hash = pod.metadata.annotations.as_ref().and_then(|all| all.get(CONFIG_HASH));
    let own = hash.or(pod.metadata.uid.as_ref()).map(String::as_str);
    own.filter(|uid| !uid.is_empty())
}

fn phase(phase: Option<&str>) -> PodPhase {
    match phase {
        Some("Pending") => PodPhase::Pending,
        Some("Running") => PodPhase::Running,
        Some("Succeeded") => PodPhase::Succeeded,
        Some("Failed") => PodPhase::Failed,
        _ => PodPhase::Unknown,
    }
}

fn bytes(list: &WireList, name: &str) -> Bytes {
    list.get(name).map_or(Bytes::ZERO, |q| Bytes::from_quantity(amount(q), Rounding::Up))
}

/// Containers and sidecars, in that order.
pub(super) fn lasting(pod: &Pod) -> impl Iterator<Item = &Container> {
    let spec = pod.spec.iter();
    spec.flat_map(|spec| {
        let sidecars = spec.init_containers.iter().flatten().filter(|init| is_sidecar(init));
        spec.containers.iter().chain(sidecars)
    })
}

fn total(pod: &Pod, read: impl Fn(&WireList) -> CpuMemory) -> CpuMemory {
    let lists =
        lasting(pod).filter_map(|container| container.resources.as_ref()?.requests.as_ref());
    lists.map(read).fold(CpuMemory::default(), |sum, part| CpuMemory {
        cpu: sum.cpu + part.cpu,
        memory: sum.memory + part.memory,
    })
}

/// Containers that the runtime has made, initialising ones too: they use the node as well.
fn containers(pod: &Pod, layout: &Layout, qos: KubeQos, uid: &PodUid) -> Vec<ContainerView> {
    let Some(status) = &pod.status else { return Vec::new() };
    let all = [
        &status.container_statuses,
        &status.init_container_statuses,
        &status.ephemeral_container_statuses,
    ];
    let statuses = all.into_iter().flatten().flatten();
    let made = statuses.filter_map(|status| {
        let id: ContainerId = status.container_id.as_deref()?.parse().ok()?;
        Some(ContainerView {
            name: status.name.clone(),
            cgroup: layout.container(qos, uid, &id).as_str().to_owned(),
            id: id.to_string(),
            state: state(status),
        })
    });
    made.collect()
}

fn state(status: &ContainerStatus) -> ContainerState {
    match &status.state {
        Some(state) if state.running.is_some() => ContainerState::Running,
        Some(state) if state.terminated.is_some() => ContainerState::Terminated,
        _ => ContainerState::Waiting,
    }
}

fn lent(pod: &Pod, made: &[ContainerView]) -> Vec<Lent> {
    let mut all = Vec::new();
    for container in lasting(pod) {
        let Some(resources) = &container.resources else { continue };
        let value = |list: &Option<WireList>, name| Some(amount(list.as_ref()?.get(name)?).value());
        let id = made.iter().find(|made| made.name == container.name);
        for resource in LENT {
            let request = value(&resources.requests, resource);
            let limit = value(&resources.limits, resource);
            if request.is_some() || limit.is_some() {
                all.push(Lent {
                    container: container.name.clone(),
                    id: id.map(|made| made.id.clone()).unwrap_or_default(),
                    resource,
                    request,
                    limit,
                });
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use api::priority::PriorityClass;
    use api::qos::QosClass;
    use groups::Driver;
    use serde_json::{Value, json};

    use super::*;

    fn of(pod: Value) -> NodePod {
        let pod: Pod = serde_json::from_value(pod).unwrap();
        read(&pod, &Layout::new(Driver::Systemd)).unwrap()
    }

    #[test]
    fn a_batch_pod_is_read_with_what_it_borrows() {
        let pod = of(json!({
            "metadata": {
                "namespace": "d", "name": "miner", "uid": "1-2",
                "labels": { "koordinator.sh/qosClass": "BE", "koordinator.sh/priority-class": "koord-batch" },
            },
            "spec": {
                "containers": [{ "name": "c", "resources": {
                    "requests": { "kubernetes.io/batch-cpu": "1500", "kubernetes.io/batch-memory": "1Gi" },
                    "limits": { "kubernetes.io/batch-cpu": "2k" },
                } }],
                "initContainers": [
                    { "name": "side", "restartPolicy": "Always", "resources": {
                        "requests": { "kubernetes.io/batch-cpu": "500", "cpu": "100m" } } },
                    { "name": "setup", "resources": { "requests": { "cpu": "8" } } },
                ],
            },
            "status": {
                "phase": "Running", "qosClass": "BestEffort", "startTime": "2030-01-01T00:00:00Z",
                "containerStatuses": [
                    { "name": "c", "containerID": "containerd://ab", "image": "", "imageID": "",
                      "ready": true, "restartCount": 0, "state": { "running": {} } },
                    { "name": "x", "image": "", "imageID": "", "ready": false, "restartCount": 0 },
                    { "name": "y", "containerID": "rkt://ab", "image": "", "imageID": "",
                      "ready": false, "restartCount": 0 },
                ],
            },
        }));
        let view = &pod.view;
        assert_eq!(
            (view.qos, view.raw_qos, view.priority),
            (QosClass::Be, Some(QosClass::Be), PriorityClass::Batch)
        );
        assert_eq!(view.phase, PodPhase::Running);
        assert_eq!(view.requests, CpuMemory { cpu: MilliCpu(100), memory: Bytes::ZERO });
        assert_eq!(view.batch_requests, CpuMemory { cpu: MilliCpu(2000), memory: Bytes(1 << 30) });
        let dir = "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1_2.slice";
        assert_eq!(view.cgroup, dir);
        assert_eq!(view.containers.len(), 1, "a container without a usable id has no directory");
        assert_eq!(view.containers[0].cgroup, format!("{dir}/cri-containerd-ab.scope"));
        assert_eq!(view.containers[0].state, ContainerState::Running);
        let lent: Vec<_> = pod
            .lent
            .iter()
            .map(|l| (l.container.as_str(), l.resource, l.request, l.limit))
            .collect();
        assert_eq!(
            lent,
            [
                ("c", BATCH_CPU, Some(1500), Some(2000)),
                ("c", BATCH_MEMORY, Some(1 << 30), None),
                ("side", BATCH_CPU, Some(500), None),
            ]
        );
    }

    #[test]
    fn the_scheduler_s_cpus_are_read_or_absent() {
        let cpus = |status: &str| {
            of(json!({ "metadata": { "uid": "1", "annotations": {
                "scheduling.koordinator.sh/resource-status": status } } }))
            .cpus
            .to_string()
        };
        assert_eq!(cpus(r#"{"cpuset":"2-3"}"#), "2-3");
        assert_eq!(cpus(r#"{"cpuset":"x"}"#), "");
        assert_eq!(cpus("{"), "");
    }

    #[test]
    fn a_mirror_of_a_static_pod_has_the_manifest_s_uid() {
        let pod = of(json!({ "metadata": { "uid": "api", "annotations": {
            "kubernetes.io/config.hash": "hash", "kubernetes.io/config.mirror": "hash" } } }));
        assert_eq!(pod.view.uid, "hash");
        assert!(
            pod.view.cgroup.ends_with("kubepods-besteffort-podhash.slice"),
            "{}",
            pod.view.cgroup
        );
    }

    #[test]
    fn a_pod_without_a_uid_has_no_group() {
        let pod = Pod::default();
        assert_eq!(read(&pod, &Layout::one_machine()), None);
    }
}
