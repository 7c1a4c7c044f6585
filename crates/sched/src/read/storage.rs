//! Claims, volumes, classes and drivers.

use k8s_openapi::api::core::v1::{self as wire, PersistentVolumeSpec};
use k8s_openapi::api::storage::v1 as storage;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::Reader;
use crate::model::{NodeSelector, NodeTerm, Operator, Requirement, Selector, Symbol};
use crate::snapshot::{Attachment, Capacity, Claim, ClaimKey, Modes, StorageClass, Volume};

const STORAGE: &str = "storage";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

impl Reader<'_> {
    pub fn claim(&mut self, claim: &wire::PersistentVolumeClaim) -> Claim {
        let none = wire::PersistentVolumeClaimSpec::default();
        let spec = claim.spec.as_ref().unwrap_or(&none);
        let annotation = |key| claim.metadata.annotations.as_ref()?.get(key).map(String::as_str);
        let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
        let class = annotation(BETA_CLASS).or(spec.storage_class_name.as_deref());
        let requests = spec.resources.as_ref().and_then(|one| one.requests.as_ref());
        let owners = claim.metadata.owner_references.iter().flatten();
        let volume = self.name(spec.volume_name.as_deref());
        let has_agreed = annotation(BIND_COMPLETED).is_some() || phase == Some("Bound");
        Claim {
            volume,
            is_bound: volume.is_some() && has_agreed,
            is_lost: phase == Some("Lost"),
            is_deleting: claim.metadata.deletion_timestamp.is_some(),
            is_of_pod: { owners }.any(|one| one.kind == "Pod" && one.controller == Some(true)),
            class: self.name(class),
            modes: modes(spec.access_modes.as_ref()),
            is_block: spec.volume_mode.as_deref() == Some("Block"),
            request: bytes(requests.and_then(|all| all.get(STORAGE))),
            selector: spec.selector.as_ref().map(|one| self.selector(Some(one))),
            selected_node: self.name(annotation(SELECTED_NODE)),
        }
    }

    pub fn volume_object(&mut self, volume: &wire::PersistentVolume) -> Volume {
        let none = PersistentVolumeSpec::default();
        let spec = volume.spec.as_ref().unwrap_or(&none);
        let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
        let affinity = spec.node_affinity.as_ref().and_then(|one| one.required.as_ref());
        let owner =
            spec.claim_ref.as_ref().and_then(|one| one.namespace.as_ref().zip(one.name.as_ref()));
        let annotations = volume.metadata.annotations.as_ref();
        let beta_class = annotations.and_then(|all| all.get(BETA_CLASS)).map(String::as_str);
        let is_free = matches!(phase, None | Some("Available" | "Pending"));
        Volume {
            class: self.name(beta_class.or(spec.storage_class_name.as_deref())),
            modes: modes(spec.access_modes.as_ref()),
            is_block: spec.volume_mode.as_deref() == Some("Block"),
            capacity: bytes(spec.capacity.as_ref().and_then(|all| all.get(STORAGE))),
            labels: self.labels(volume.metadata.labels.as_ref()),
            affinity: affinity.map(|one| self.node_selector(one)),
            claim: owner.map(|(namespace, name)| self.claim_key(namespace, name)),
            is_available: is_free && volume.metadata.deletion_timestamp.is_none(),
            handle: self.handle(spec),
        }
    }

    pub fn claim_key(&mut self, namespace: &str, name: &str) -> ClaimKey {
        ClaimKey { namespace: self.names.intern(namespace), name: self.names.intern(name) }
    }

    /// The CSI driver of a volume and its name there.
    fn handle(&mut self, spec: &PersistentVolumeSpec) -> Option<(Symbol, Symbol)> {
        let (driver, handle) = if let Some(csi) = &spec.csi {
            (csi.driver.as_str(), csi.volume_handle.as_str())
        } else if let Some(disk) = &spec.gce_persistent_disk {
            ("pd.csi.storage.gke.io", disk.pd_name.as_str())
        } else if let Some(disk) = &spec.aws_elastic_block_store {
            ("ebs.csi.aws.com", disk.volume_id.as_str())
        } else if let Some(disk) = &spec.azure_disk {
            ("disk.csi.azure.com", disk.disk_uri.as_str())
        } else if let Some(disk) = &spec.cinder {
            ("cinder.csi.openstack.org", disk.volume_id.as_str())
        } else if let Some(disk) = &spec.vsphere_volume {
            ("csi.vsphere.vmware.com", disk.volume_path.as_str())
        } else {
            return None;
        };
        Some(self.pair(driver, handle))
    }

    pub fn storage_class(&mut self, class: &storage::StorageClass) -> StorageClass {
        let is_static = class.provisioner == NO_PROVISIONER;
        let driver = driver_of(&class.provisioner);
        let topologies = class.allowed_topologies.as_ref().filter(|all| !all.is_empty());
        let topologies = topologies.map(|all| {
            let terms = all.iter().map(|term| self.topology(term));
            NodeSelector { terms: terms.collect() }
        });
        StorageClass {
            provisioner: (!is_static).then(|| self.names.intern(driver)),
            waits: class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"),
            topologies,
        }
    }

    fn topology(&mut self, term: &wire::TopologySelectorTerm) -> NodeTerm {
        let expressions = term.match_label_expressions.iter().flatten().map(|one| Requirement {
            key: self.names.intern(&one.key),
            operator: Operator::In,
            values: self.symbols(&one.values),
        });
        NodeTerm { expressions: expressions.collect(), fields: [].into() }
    }

    pub fn capacity(&mut self, capacity: &storage::CSIStorageCapacity) -> Capacity {
        let largest = capacity.maximum_volume_size.as_ref().or(capacity.capacity.as_ref());
        Capacity {
            class: self.names.intern(&capacity.storage_class_name),
            nodes: match &capacity.node_topology {
                Some(selector) => self.selector(Some(selector)),
                None => Selector::nothing(),
            },
            largest: bytes(largest),
        }
    }

    /// The drivers of a node that limit the number of volumes, and their limits.
    pub fn limits(&mut self, node: &storage::CSINode) -> Vec<(Symbol, i64)> {
        let limited = node.spec.drivers.iter().filter_map(|driver| {
            let count = driver.allocatable.as_ref()?.count?;
            Some((self.names.intern(&driver.name), i64::from(count)))
        });
        limited.collect()
    }

    pub fn attachment(&mut self, attachment: &storage::VolumeAttachment) -> Attachment {
        let spec = &attachment.spec;
        Attachment {
            node: self.names.intern(&spec.node_name),
            volume: self.name(spec.source.persistent_volume_name.as_deref()),
        }
    }
}

/// In-tree provisioners under the name of the driver that took over.
fn driver_of(provisioner: &str) -> &str {
    match provisioner {
        "kubernetes.io/gce-pd" => "pd.csi.storage.gke.io",
        "kubernetes.io/aws-ebs" => "ebs.csi.aws.com",
        "kubernetes.io/azure-disk" => "disk.csi.azure.com",
        "kubernetes.io/cinder" => "cinder.csi.openstack.org",
        "kubernetes.io/vsphere-volume" => "csi.vsphere.vmware.com",
        other => other,
    }
}

fn modes(list: Option<&Vec<String>>) -> Modes {
    list.into_iter().flatten().fold(Modes::default(), |all, one| all.or(Modes::of(one)))
}

/// Unreadable amounts count as nothing.
fn bytes(amount: Option<&Quantity>) -> i64 {
    amount.and_then(|one| one.0.parse::<units::Quantity>().ok()).map_or(0, |one| one.value())
}
