//! Pods: what replicas share, and the few things that are a pod's own.

use std::sync::Arc;

use api::priority;
use api::protocol::pod::SCHEDULER_NAME;
use api::qos;
use api::resources::is_sidecar;
use k8s_openapi::api::core::v1::{self as wire, PodSpec};

use super::{PodTermOwner, Reader, tagged};
use crate::model::{
    Container, ContainerKind, Effect, HostPort, Owner, Protocol, Symbol, Template, Toleration,
    Volume, VolumeSource,
};
use crate::tie;
use crate::time::Time;

/// What a pod does not share with its replicas.
#[derive(Debug)]
pub struct PodFacts {
    pub uid: Arc<str>,
    pub namespace: Symbol,
    pub name: Arc<str>,
    /// Orders equal nodes for pods like this one.
    pub tie: u64,
    pub node: Option<Symbol>,
    pub nominated: Option<Symbol>,
    pub created: Time,
    pub started: Option<Time>,
    pub is_terminating: bool,
    pub is_preempted: bool,
    /// Succeeded or failed: as good as deleted.
    pub is_finished: bool,
}

impl Reader<'_> {
    /// A pod object: what is its own, and what it shares with its replicas.
    pub fn pod(&mut self, pod: &wire::Pod) -> (PodFacts, Template) {
        let namespace_text = pod.metadata.namespace.as_deref().unwrap_or_default();
        let namespace = self.names.intern(namespace_text);
        let name: Arc<str> = pod.metadata.name.as_deref().unwrap_or_default().into();
        let status = pod.status.as_ref();
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let nominated = status.and_then(|status| status.nominated_node_name.as_deref());
        let phase = status.and_then(|status| status.phase.as_deref());
        let conditions = status.and_then(|status| status.conditions.as_ref());
        let is_preempted = conditions.into_iter().flatten().any(|one| {
            one.type_ == "DisruptionTarget"
                && one.status == "True"
                && one.reason.as_deref() == Some("PreemptionByScheduler")
        });
        let facts = PodFacts {
            uid: pod.metadata.uid.as_deref().unwrap_or(&name).into(),
            tie: tie::of_pod(namespace_text, pod.metadata.labels.as_ref()),
            node: self.name(node),
            nominated: self.name(nominated),
            created: pod.metadata.creation_timestamp.as_ref().map_or(Time::ZERO, Time::from_wire),
            started: status.and_then(|one| one.start_time.as_ref()).map(Time::from_wire),
            is_terminating: pod.metadata.deletion_timestamp.is_some(),
            is_preempted,
            is_finished: matches!(phase, Some("Succeeded" | "Failed")),
            namespace,
            name,
        };
        (facts, self.template(pod, namespace))
    }

    /// The symbol of a name, when there is one.
    pub(super) fn name(&mut self, name: Option<&str>) -> Option<Symbol> {
        name.filter(|name| !name.is_empty()).map(|name| self.names.intern(name))
    }

    fn template(&mut self, pod: &wire::Pod, namespace: Symbol) -> Template {
        let none = PodSpec::default();
        let spec = pod.spec.as_ref().unwrap_or(&none);
        let meta = &pod.metadata;
        let totals = self.totals(spec, pod.status.as_ref());
        let owner = PodTermOwner { namespace, labels: meta.labels.as_ref() };
        let scheduler = SCHEDULER_NAME.get(meta).or_else(|| spec.scheduler_name.clone());
        let affinity = spec.affinity.as_ref();
        let spread = spec.topology_spread_constraints.iter().flatten();
        Template {
            namespace,
            scheduler: self.names.intern(scheduler.as_deref().unwrap_or("default-scheduler")),
            labels: self.labels(meta.labels.as_ref()),
            annotations: self.annotations(meta.annotations.as_ref()),
            owner: self.owner(pod),
            priority: spec.priority.unwrap_or(0),
            may_preempt: spec.preemption_policy.as_deref() != Some("Never"),
            qos: qos::raw(pod),
            priority_class: priority::raw(pod),
            effective_qos: qos::effective(pod),
            effective_priority_class: priority::effective(pod),
            containers: self.containers(spec),
            overhead: totals.overhead,
            requests: totals.requests,
            limits: totals.limits,
            nonzero: totals.nonzero,
            node_name: None,
            node_affinity: self.node_affinity(
                spec.node_selector.as_ref(),
                affinity.and_then(|one| one.node_affinity.as_ref()),
            ),
            tolerations: spec.tolerations.iter().flatten().map(|t| self.toleration(t)).collect(),
            host_ports: self.host_ports(spec),
            gates: spec
                .scheduling_gates
                .iter()
                .flatten()
                .map(|gate| self.names.intern(&gate.name))
                .collect(),
            pod_affinity: self.pod_affinity(affinity, owner),
            spread: spread.map(|one| self.spread_constraint(one, owner)).collect(),
            volumes: self.volumes(pod, spec),
            has_resource_claims: spec.resource_claims.as_ref().is_some_and(|all| !all.is_empty()),
        }
    }

    fn owner(&mut self, pod: &wire::Pod) -> Option<Owner> {
        let owners = pod.metadata.owner_references.iter().flatten();
        let owner = owners.into_iter().find(|owner| owner.controller == Some(true))?;
        Some(Owner {
            kind: self.names.intern(&owner.kind),
            name: self.names.intern(&owner.name),
            uid: self.names.intern(&owner.uid),
        })
    }

    fn containers(&mut self, spec: &PodSpec) -> Box<[Container]> {
        let main = spec.containers.iter().map(|one| (one, ContainerKind::Main));
        let init = spec.init_containers.iter().flatten().map(|one| {
            let is_sidecar = is_sidecar(one);
            (one, if is_sidecar { ContainerKind::Sidecar } else { ContainerKind::Init })
        });
        let read = init.chain(main).map(|(one, kind)| {
            let own = one.resources.as_ref();
            Container {
                name: self.names.intern(&one.name),
                kind,
                image: self.names.intern(&tagged(one.image.as_deref().unwrap_or_default())),
                requests: self.requests(own.and_then(|own| own.requests.as_ref())),
                limits: self.requests(own.and_then(|own| own.limits.as_ref())),
            }
        });
        read.collect()
    }

    fn host_ports(&mut self, spec: &PodSpec) -> Box<[HostPort]> {
        let sidecars = spec.init_containers.iter().flatten().filter(|one| is_sidecar(one));
        let ports =
            spec.containers.iter().chain(sidecars).flat_map(|one| one.ports.iter().flatten());
        let mut read: Vec<HostPort> = Vec::new();
        for port in ports {
            let Some(number) = port.host_port.filter(|number| *number > 0) else { continue };
            let ip = port.host_ip.as_deref().filter(|ip| !ip.is_empty() && *ip != "0.0.0.0");
            let protocol = match port.protocol.as_deref() {
                Some("UDP") => Protocol::Udp,
                Some("SCTP") => Protocol::Sctp,
                _ => Protocol::Tcp,
            };
            read.push(HostPort { ip: self.name(ip), protocol, port: number });
        }
        read.sort_unstable();
        read.dedup();
        read.into()
    }

    fn toleration(&mut self, one: &wire::Toleration) -> Toleration {
        let value = self.names.intern(one.value.as_deref().unwrap_or_default());
        let (value, is_valid) = match one.operator.as_deref() {
            None | Some("" | "Equal") => (Some(value), true),
            Some("Exists") => (None, true),
            Some(_) => (None, false),
        };
        let text = one.effect.as_deref().filter(|effect| !effect.is_empty());
        let effect = text.and_then(effect_of);
        Toleration {
            key: self.name(one.key.as_deref()),
            value,
            effect,
            is_valid: is_valid && text.is_some() == effect.is_some(),
        }
    }

    fn volumes(&mut self, pod: &wire::Pod, spec: &PodSpec) -> Box<[Volume]> {
        let mut read: Vec<Volume> = Vec::new();
        for volume in spec.volumes.iter().flatten() {
            read.extend(self.volume(pod, volume));
        }
        read.sort_unstable();
        read.dedup();
        read.into()
    }

    fn volume(&mut self, pod: &wire::Pod, volume: &wire::Volume) -> Option<Volume> {
        let (source, read_only) = if let Some(claim) = &volume.persistent_volume_claim {
            let name = self.names.intern(&claim.claim_name);
            (VolumeSource::Claim { name, is_ephemeral: false }, claim.read_only)
        } else if volume.ephemeral.is_some() {
            let pod = pod.metadata.name.as_deref().unwrap_or_default();
            let name = self.names.intern(&format!("{pod}-{}", volume.name));
            (VolumeSource::Claim { name, is_ephemeral: true }, None)
        } else if let Some(disk) = &volume.gce_persistent_disk {
            (VolumeSource::GcePersistentDisk(self.names.intern(&disk.pd_name)), disk.read_only)
        } else if let Some(disk) = &volume.aws_elastic_block_store {
            (VolumeSource::AwsElasticBlockStore(self.names.intern(&disk.volume_id)), disk.read_only)
        } else if let Some(disk) = &volume.azure_disk {
            (VolumeSource::AzureDisk(self.names.intern(&disk.disk_name)), disk.read_only)
        } else if let Some(disk) = &volume.iscsi {
            let iqn = self.names.intern(&disk.iqn);
            (VolumeSource::Iscsi { iqn, lun: disk.lun }, disk.read_only)
        } else if let Some(disk) = &volume.rbd {
            let source = VolumeSource::Rbd {
                monitors: self.symbols(&disk.monitors),
                pool: self.names.intern(disk.pool.as_deref().unwrap_or("rbd")),
                image: self.names.intern(&disk.image),
            };
            (source, disk.read_only)
        } else {
            let csi = volume.csi.as_ref()?;
            (VolumeSource::Csi(self.names.intern(&csi.driver)), csi.read_only)
        };
        Some(Volume { source, is_read_only: read_only == Some(true) })
    }
}

pub(super) fn effect_of(text: &str) -> Option<Effect> {
    match text {
        "NoSchedule" => Some(Effect::NoSchedule),
        "PreferNoSchedule" => Some(Effect::PreferNoSchedule),
        "NoExecute" => Some(Effect::NoExecute),
        _ => None,
    }
}
