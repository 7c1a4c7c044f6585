//! Reading a Pod object.

use api::protocol::resource::{BATCH_CPU, BATCH_MEMORY, CPU, MID_CPU, MID_MEMORY};
use api::protocol::{eviction, pod as key};
use api::resources::{Bounds, WireList, amount, lasting};
use api::{priority, qos};
use groups::{ContainerId, Layout, PodUid};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod as PodObject, PodStatus};
use units::{CpuMemory, Quantity};

use super::{
    Annotations, Container, ContainerSpec, ContainerState, Eviction, LentAmount, Pod, PodPhase,
};
use crate::identity::OwnIdentity;

/// Resources that are lent out, in the order in which they are reported.
const LENT: [&str; 4] = [BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY];

/// The kubelet's hash of a static pod's manifest; the pod's cgroup has its name.
const CONFIG_HASH: &str = "kubernetes.io/config.hash";

/// The kubelet's mark on its copies of pods that only it can end.
const MIRROR: &str = "kubernetes.io/config.mirror";

impl Pod {
    /// Reads a pod; `None` without a uid.
    pub fn read(object: &PodObject, layout: &Layout) -> Option<Self> {
        let uid = uid(object)?;
        let kube_qos = qos::kube_qos(object);
        let group = PodUid::new(uid);
        let meta = &object.metadata;
        let (spec, status) = (object.spec.as_ref(), object.status.as_ref());
        let started = status.and_then(|status| status.start_time.as_ref());
        let started = started.or(meta.creation_timestamp.as_ref()).map(|time| time.0);
        let containers =
            status.map(|status| containers(status, |id| layout.container(kube_qos, &group, id)));
        let containers = containers.unwrap_or_default();
        let specs = specs(object, &containers);
        let given = key::RESOURCE_STATUS.get(meta).unwrap_or_default();
        Some(Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: uid.to_owned(),
            kube_qos,
            raw_qos: qos::raw(object),
            qos: qos::effective(object),
            priority_class: priority::effective(object),
            spec_priority: spec.and_then(|spec| spec.priority),
            priority: priority::value(object),
            sub_priority: priority::sub_priority(object).map(|sub| sub.0),
            phase: phase(status.and_then(|status| status.phase.as_deref())),
            is_deleting: meta.deletion_timestamp.is_some(),
            started,
            requests: requests(specs.iter().map(|spec| spec.native)),
            batch_requests: requests(spec.into_iter().flat_map(lasting).filter_map(Bounds::batch)),
            cgroup: layout.pod(kube_qos, &group),
            lent: lent(object, &containers),
            containers,
            specs,
            cpus: given.cpuset,
            numa: given.numa_node_resources.iter().filter_map(numa_node).collect(),
            annotations: annotations(object),
            eviction: read_eviction(object),
            host_network: spec.and_then(|spec| spec.host_network).unwrap_or_default(),
            is_virtual_machine: spec
                .and_then(|spec| spec.runtime_class_name.as_deref())
                .is_some_and(|class| class.contains("kata")),
            ip: status.and_then(|status| status.pod_ip.clone()),
        })
    }
}

fn annotation<'p>(pod: &'p PodObject, name: &str) -> Option<&'p str> {
    pod.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

/// The uid that names the cgroup. The API server's copy of a static pod has another.
fn uid(pod: &PodObject) -> Option<&str> {
    let own = annotation(pod, CONFIG_HASH).or(pod.metadata.uid.as_deref());
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

fn requests(bounds: impl Iterator<Item = Bounds>) -> CpuMemory {
    let one = |bounds: Bounds| CpuMemory {
        cpu: bounds.cpu_request.unwrap_or_default(),
        memory: bounds.memory_request.unwrap_or_default(),
    };
    bounds.map(one).sum()
}

fn containers(
    status: &PodStatus,
    group: impl Fn(&ContainerId) -> groups::CgroupPath,
) -> Vec<Container> {
    let all = [
        &status.container_statuses,
        &status.init_container_statuses,
        &status.ephemeral_container_statuses,
    ];
    let statuses = all.into_iter().flatten().flatten();
    let made = statuses.filter_map(|status| {
        let id: ContainerId = status.container_id.as_deref()?.parse().ok()?;
        Some(Container {
            name: status.name.clone(),
            cgroup: group(&id),
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

fn specs(pod: &PodObject, made: &[Container]) -> Vec<ContainerSpec> {
    let meta = &pod.metadata;
    let each = key::OOM_SCORE_ADJ_SPEC.get(meta).unwrap_or_default();
    let all = key::OOM_SCORE_ADJ.get(meta);
    let copies = key::EXTENDED_RESOURCE_SPEC.get(meta).unwrap_or_default();
    let spec = |container: &k8s_openapi::api::core::v1::Container| {
        let made = made.iter().find(|made| made.name == container.name);
        let copy = || copies.containers.get(&container.name).map(Bounds::batch_copy);
        let own = each.get(&container.name).copied().filter(|adj| adj.is_valid());
        ContainerSpec {
            name: container.name.clone(),
            native: Bounds::native(container),
            batch: Bounds::batch(container).or_else(copy),
            oom_score_adj: own.or(all).map(|adj| adj.0),
            id: made.map(|made| made.id.clone()),
            cgroup: made.map(|made| made.cgroup.clone()),
            is_running: made.is_some_and(|made| made.state == ContainerState::Running),
        }
    };
    pod.spec.iter().flat_map(lasting).map(spec).collect()
}

fn lent(pod: &PodObject, made: &[Container]) -> Vec<LentAmount> {
    let mut all = Vec::new();
    for container in pod.spec.iter().flat_map(lasting) {
        let Some(resources) = &container.resources else { continue };
        let value = |list: &Option<WireList>, name| Some(amount(list.as_ref()?.get(name)?).value());
        let id = made.iter().find(|made| made.name == container.name);
        for resource in LENT {
            let request = value(&resources.requests, resource);
            let limit = value(&resources.limits, resource);
            if request.is_some() || limit.is_some() {
                all.push(LentAmount {
                    container: container.name.clone(),
                    id: id.map(|made| made.id.clone()).unwrap_or_default(),
                    resource: resource.to_owned(),
                    request,
                    limit,
                });
            }
        }
    }
    all
}

/// The NUMA node, when the pod has CPU on it.
fn numa_node(given: &api::metadata::pod::NumaNodeResource) -> Option<u16> {
    let has = |name: &str| given.resources.get(name).is_some_and(|given| *given > Quantity::ZERO);
    (has(CPU) || has(BATCH_CPU)).then_some(given.node)?.try_into().ok()
}

fn annotations(pod: &PodObject) -> Annotations {
    let meta = &pod.metadata;
    Annotations {
        cpu_burst: key::CPU_BURST.get(meta),
        memory_qos: key::MEMORY_QOS.get(meta),
        cpu_qos: own_identity(pod),
        blkio_qos: key::BLKIO_QOS.get(meta),
        network_qos: key::NETWORK_QOS.get(meta),
        resctrl: key::RESCTRL.get(meta),
        core_sched_group: key::CORE_SCHED_GROUP.get(meta).unwrap_or_default(),
        core_sched_policy: key::CORE_SCHED_POLICY.get(meta),
        is_hands_off: key::HANDS_OFF.get(meta).or(key::OLD_HANDS_OFF.get(meta)) == Some(true),
    }
}

/// An identity outside of what the kernel takes stays one, and is refused where it is followed.
fn own_identity(pod: &PodObject) -> OwnIdentity {
    if !key::CPU_QOS.is_present(&pod.metadata) {
        return OwnIdentity::None;
    }
    match key::CPU_QOS.get(&pod.metadata) {
        Some(qos) if qos.enable == Some(true) => OwnIdentity::At(qos.group_identity.unwrap_or(0)),
        Some(_) => OwnIdentity::Off,
        None => OwnIdentity::At(i64::MAX),
    }
}

fn read_eviction(pod: &PodObject) -> Eviction {
    let meta = &pod.metadata;
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let mut owners = meta.owner_references.iter().flatten();
    let owner = match owners.find(|owner| owner.controller == Some(true)) {
        Some(owner) => format!("{namespace}/{}/{}", owner.kind, owner.name),
        None => format!("{namespace}/Pod/{}", meta.name.as_deref().unwrap_or_default()),
    };
    let has_policy = eviction::POLICY.is_present(meta);
    Eviction {
        uid: meta.uid.clone().unwrap_or_default(),
        owner,
        priority: eviction::PRIORITY.get(meta).unwrap_or_default(),
        is_willing: eviction::ENABLED.get(meta) == Some(true),
        allows: has_policy.then(|| eviction::POLICY.get(meta).unwrap_or_default()),
        deleted_by: meta.deletion_timestamp.as_ref().map(|time| time.0),
        notice: eviction::NOTICE.get(meta),
        is_static: annotation(pod, MIRROR).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use api::priority::PriorityClass;
    use api::qos::QosClass;
    use groups::{CgroupPath, Driver};
    use serde_json::{Value, json};
    use units::{Bytes, MilliCpu};

    use super::*;

    fn of(mut pod: Value) -> Pod {
        if pod["metadata"]["uid"].is_null() {
            pod["metadata"]["uid"] = json!("u");
        }
        let pod: PodObject = serde_json::from_value(pod).unwrap();
        Pod::read(&pod, &Layout::new(Driver::Systemd)).unwrap()
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
        assert_eq!(
            (pod.qos, pod.raw_qos, pod.priority_class),
            (QosClass::Be, Some(QosClass::Be), PriorityClass::Batch)
        );
        assert_eq!(pod.phase, PodPhase::Running);
        assert_eq!(pod.requests, CpuMemory { cpu: MilliCpu(100), memory: Bytes::ZERO });
        assert_eq!(pod.batch_requests, CpuMemory { cpu: MilliCpu(2000), memory: Bytes(1 << 30) });
        let dir = "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1_2.slice";
        assert_eq!(pod.cgroup.as_str(), dir);
        assert_eq!(pod.containers.len(), 1, "a container without a usable id has no directory");
        assert_eq!(pod.containers[0].cgroup, CgroupPath::new(dir).child("cri-containerd-ab.scope"));
        assert_eq!(pod.containers[0].state, ContainerState::Running);
        let lent: Vec<_> = pod
            .lent
            .iter()
            .map(|l| (l.container.as_str(), l.resource.as_str(), l.request, l.limit))
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
        assert_eq!(pod.uid, "hash");
        assert_eq!(pod.cgroup.name(), Some("kubepods-besteffort-podhash.slice"));
    }

    #[test]
    fn a_pod_without_a_uid_has_no_group() {
        assert_eq!(Pod::read(&PodObject::default(), &Layout::one_machine()), None);
    }

    #[test]
    fn batch_resources_come_from_the_container_or_from_the_webhook_s_copy() {
        let copy = r#"{"containers":{"copied":{"limits":{"kubernetes.io/batch-cpu":"700"}}}}"#;
        let pod = of(json!({
            "metadata": { "annotations": { "node.koordinator.sh/extended-resource-spec": copy } },
            "spec": { "containers": [
                { "name": "own", "resources": {
                    "limits": { "kubernetes.io/batch-cpu": "2k", "kubernetes.io/batch-memory": "1Gi" } } },
                { "name": "copied" },
                { "name": "neither", "resources": { "limits": { "cpu": "1" } } },
            ] },
        }));
        let cpu: Vec<_> =
            pod.specs.iter().map(|c| c.batch.map(|batch| batch.cpu_limit.map(|c| c.0))).collect();
        assert_eq!(cpu, [Some(Some(2_000)), Some(Some(700)), None]);
        assert_eq!(pod.specs[0].batch.unwrap().memory_limit, Some(Bytes(1 << 30)));
        assert_eq!(pod.specs[2].native.cpu_limit, Some(MilliCpu(1_000)));
    }

    #[test]
    fn annotations_are_read_or_count_as_absent() {
        let with = |name: &str, value: &str| {
            of(json!({ "metadata": { "annotations": { name: value } },
                "spec": { "containers": [{ "name": "c" }, { "name": "d" }] } }))
        };
        let wish = |text| with("koordinator.sh/cpuQOS", text).annotations.cpu_qos;
        assert_eq!(wish(r#"{"enable":true,"groupIdentity":1}"#), OwnIdentity::At(1));
        assert_eq!(wish(r#"{"groupIdentity":1}"#), OwnIdentity::Off);
        assert_eq!(wish("{"), OwnIdentity::At(i64::MAX), "refused later");
        let adj = |name, value| {
            with(name, value).specs.iter().map(|c| c.oom_score_adj).collect::<Vec<_>>()
        };
        assert_eq!(adj("koordinator.sh/oom-score-adj", "-5"), [Some(-5), Some(-5)]);
        assert_eq!(adj("koordinator.sh/oom-score-adj", "5000"), [None, None]);
        assert_eq!(adj("koordinator.sh/oom-score-adj-spec", r#"{"d":7}"#), [None, Some(7)]);
        for name in ["tidepool.io/hands-off", "tidepool.io/cgroup-freeze"] {
            assert!(with(name, "true").annotations.is_hands_off, "{name}");
            assert!(!with(name, "yes").annotations.is_hands_off, "{name}");
        }
        let status = r#"{"numaNodeResources":[{"node":1,"resources":{"cpu":"2"}},
            {"node":0,"resources":{"memory":"1Gi"}}]}"#;
        assert_eq!(with("scheduling.koordinator.sh/resource-status", status).numa, [1]);
    }

    #[test]
    fn the_owner_is_who_would_start_it_anew() {
        let owned = |controller: bool| {
            of(json!({ "metadata": { "namespace": "d", "name": "web-1", "ownerReferences": [
                { "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "2",
                  "controller": controller } ] } }))
            .eviction
            .owner
        };
        assert_eq!(owned(true), "d/ReplicaSet/web");
        assert_eq!(owned(false), "d/Pod/web-1", "a reference alone starts nothing");
    }

    #[test]
    fn an_unreadable_policy_allows_nothing() {
        let allows = |text: &str| {
            of(json!({ "metadata": { "annotations": { "koordinator.sh/eviction-policy": text } } }))
                .eviction
                .allows
        };
        assert_eq!(allows(r#"["CPUEvict"]"#), Some(vec!["CPUEvict".to_owned()]));
        assert_eq!(allows("CPUEvict"), Some(Vec::new()));
        assert_eq!(of(json!({ "metadata": {} })).eviction.allows, None);
    }

    #[test]
    fn wishes_and_notices_are_read() {
        let pod = of(json!({ "metadata": {
            "uid": "u", "deletionTimestamp": "2030-01-01T00:00:30Z",
            "labels": { "koordinator.sh/eviction-enabled": "true" },
            "annotations": {
                "koordinator.sh/eviction-priority": "-3",
                "tidepool.io/eviction-notice": r#"{"feature":"BEMemoryEvict","due":"2030-01-01T00:00:00Z"}"#,
                "kubernetes.io/config.mirror": "x",
            } }, "spec": { "priority": 5500, "containers": [] } }));
        let eviction = &pod.eviction;
        assert!(eviction.is_willing && eviction.is_static);
        assert_eq!((eviction.priority, pod.spec_priority), (-3, Some(5500)));
        assert_eq!(eviction.notice.as_ref().unwrap().feature, "BEMemoryEvict");
        assert_eq!(eviction.deleted_by.unwrap().to_string(), "2030-01-01T00:00:30Z");
    }
}
