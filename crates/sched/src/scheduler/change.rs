//! What the API server tells us.

use std::sync::Arc;

use api::kind::{NodeMetric, NodeResourceTopology};
use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController, Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{
    CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment,
};

/// Which object; the namespace is empty for those of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Key {
    pub namespace: String,
    pub name: String,
    /// When known, an object of another uid under the same name is left alone.
    pub uid: Option<String>,
}

impl Key {
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned(), uid: None }
    }

    #[must_use]
    pub fn with_uid(mut self, uid: &str) -> Self {
        self.uid = Some(uid.to_owned());
        self
    }
}

#[derive(Debug, Clone)]
pub enum Update<T> {
    /// It is there, or is different now.
    Upsert(Arc<T>),
    Delete(Key),
}

/// One object as it is now. Applying a change twice is harmless.
#[derive(Debug, Clone)]
pub enum Change {
    Pod(Update<Pod>),
    Node(Update<Node>),
    Namespace(Update<Namespace>),
    Pdb(Update<PodDisruptionBudget>),
    Pvc(Update<PersistentVolumeClaim>),
    Pv(Update<PersistentVolume>),
    StorageClass(Update<StorageClass>),
    CsiNode(Update<CSINode>),
    CsiDriver(Update<CSIDriver>),
    CsiCapacity(Update<CSIStorageCapacity>),
    VolumeAttachment(Update<VolumeAttachment>),
    Service(Update<Service>),
    ReplicationController(Update<ReplicationController>),
    ReplicaSet(Update<ReplicaSet>),
    StatefulSet(Update<StatefulSet>),
    NodeMetric(Update<NodeMetric>),
    NodeTopology(Update<NodeResourceTopology>),
}
