//! Everything any plugin reads of a pod, shared by its replicas.
//!
//! Two pods with equal templates get the same verdict and the same score on every node, so all
//! that is computed for one is kept for the other. What differs between replicas (name, uid,
//! times, the random names of projected volumes) is not in here. A plugin that reads something
//! new of a pod adds a field and fills it in [`crate::read`]; equality and hashing follow.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use api::priority::PriorityClass;
use api::qos::QosClass;

use super::labels::Labels;
use super::names::Symbol;
use super::node::{Effect, Taint};
use super::node_selector::{NodeSelector, PreferredNodeTerm};
use super::pod_terms::{PodAffinity, SpreadConstraint};
use super::resource::Requests;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ContainerKind {
    Main,
    Init,
    /// An init container that keeps running.
    Sidecar,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Container {
    pub name: Symbol,
    pub kind: ContainerKind,
    /// With a tag: `nginx` is `nginx:latest`.
    pub image: Symbol,
    pub requests: Requests,
    pub limits: Requests,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// `None` is every address.
    pub ip: Option<Symbol>,
    pub protocol: Protocol,
    pub port: i32,
}

impl HostPort {
    /// Two pods cannot both have it on one node.
    pub fn conflicts(self, other: Self) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || self.ip.is_none() || other.ip.is_none())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Toleration {
    /// `None` is every key, with `Exists`.
    pub key: Option<Symbol>,
    /// `None` is `Exists`.
    pub value: Option<Symbol>,
    /// `None` is every effect.
    pub effect: Option<Effect>,
    /// False for an operator nobody knows: it tolerates nothing.
    pub is_valid: bool,
}

impl Toleration {
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.is_valid
            && self.effect.is_none_or(|effect| effect == taint.effect)
            && self.key.is_none_or(|key| key == taint.key)
            && self.value.is_none_or(|value| value == taint.value)
    }
}

/// `nodeSelector` and `nodeAffinity` of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NodeAffinity {
    pub selector: Labels,
    pub required: Option<NodeSelector>,
    pub preferred: Box<[PreferredNodeTerm]>,
}

/// The controller that made the pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner {
    pub kind: Symbol,
    pub name: Symbol,
    pub uid: Symbol,
}

/// A volume that has a say in where the pod may run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Volume {
    pub source: VolumeSource,
    pub is_read_only: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VolumeSource {
    /// A PersistentVolumeClaim by name; of a generic ephemeral volume the one made for the pod.
    Claim {
        name: Symbol,
        is_ephemeral: bool,
    },
    GcePersistentDisk(Symbol),
    AwsElasticBlockStore(Symbol),
    AzureDisk(Symbol),
    /// Target, volume and initiator.
    Iscsi {
        iqn: Symbol,
        lun: i32,
    },
    /// Monitors, pool and image.
    Rbd {
        monitors: Box<[Symbol]>,
        pool: Symbol,
        image: Symbol,
    },
    /// An in-line CSI volume, by driver.
    Csi(Symbol),
}

/// Everything any plugin reads of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Template {
    pub namespace: Symbol,
    /// After the override label (spec 3.6).
    pub scheduler: Symbol,
    pub labels: Labels,
    /// Annotations under Koordinator's prefixes that are written before scheduling; plugins
    /// parse what they need in `prepare`.
    pub annotations: Labels,
    pub owner: Option<Owner>,
    pub priority: i32,
    /// False under `preemptionPolicy: Never`.
    pub may_preempt: bool,
    /// The QoS label as written; see `api::qos` for defaults.
    pub qos: Option<QosClass>,
    /// Label or range of `spec.priority`.
    pub priority_class: Option<PriorityClass>,
    pub effective_qos: QosClass,
    pub effective_priority_class: PriorityClass,
    pub containers: Box<[Container]>,
    pub overhead: Requests,
    /// What the pod asks for as a whole, overhead included.
    pub requests: Requests,
    /// The limits of the pod as a whole; an absent one is absent here.
    pub limits: Requests,
    /// CPU and memory with a default for containers that declare none.
    pub nonzero: [i64; 2],
    /// Pinned by a what-if question; a real pod with a node name is not scheduled.
    pub node_name: Option<Symbol>,
    pub node_affinity: NodeAffinity,
    pub tolerations: Box<[Toleration]>,
    pub host_ports: Box<[HostPort]>,
    pub gates: Box<[Symbol]>,
    pub pod_affinity: PodAffinity,
    pub spread: Box<[SpreadConstraint]>,
    pub volumes: Box<[Volume]>,
    pub has_resource_claims: bool,
}

/// Numbers a class for as long as the process lives; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u64);

/// A template shared by every pod that has it.
#[derive(Debug)]
pub struct Class {
    pub id: ClassId,
    /// Orders nodes of equal score for this class; the same after a restart.
    pub tie: u64,
    template: Template,
}

impl Deref for Class {
    type Target = Template;

    fn deref(&self) -> &Template {
        &self.template
    }
}

/// A class in the table, found by its template.
#[derive(Debug)]
struct Entry(Arc<Class>);

impl Borrow<Template> for Entry {
    fn borrow(&self) -> &Template {
        &self.0.template
    }
}

impl Hash for Entry {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.template.hash(state);
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.0.template == other.0.template
    }
}

impl Eq for Entry {}

/// All templates in use, each once.
#[derive(Debug, Default)]
pub struct Classes {
    entries: HashSet<Entry>,
    next: u64,
    /// Swept when the table has grown to this size.
    sweep_at: usize,
}

impl Classes {
    pub fn intern(&mut self, template: Template, tie: u64) -> Arc<Class> {
        if let Some(Entry(class)) = self.entries.get(&template) {
            return Arc::clone(class);
        }
        if self.entries.len() >= self.sweep_at.max(1024) {
            self.entries.retain(|Entry(class)| Arc::strong_count(class) > 1);
            self.sweep_at = self.entries.len() * 2;
        }
        self.next += 1;
        let class = Arc::new(Class { id: ClassId(self.next), tie, template });
        self.entries.insert(Entry(Arc::clone(&class)));
        class
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
