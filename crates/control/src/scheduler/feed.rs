//! What the API server knows, told to the engine.
//!
//! One watch a kind turns events into [`Change`]s for the one task that owns the engine. The
//! channel is bounded: when the engine is busy, watches wait and the API server keeps their place.
//! A list after a gap says what is there; what was there before and is not any more is told as
//! deleted. [`Item::Listed`] follows the last object of a kind's first list through the same
//! channel, so that whoever sees it has worked through the whole list (and not only received it).
//!
//! A kind that the API server does not serve counts as listed and empty; it is asked for again.

use std::fmt::Debug;
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
use kube::{Api, Client, Resource};
use reconcile::watch::{Config, Difference, Differences, ObjectId, Update as Heard, Watch};
use sched::scheduler::{Change, Key, Update};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Pods that are done take no room and want none.
const LIVING: &str = "status.phase!=Succeeded,status.phase!=Failed";
/// Changes that wait for the engine.
const WAITING: usize = 4_096;

/// What comes out of the watches.
#[derive(Debug)]
pub(super) enum Item {
    Change(Change),
    /// The first list of a kind has been told completely.
    Listed,
}

/// A kind the engine wants to know about.
trait Told:
    Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static
{
    fn change(update: Update<Self>) -> Change;
}

macro_rules! told {
    ($($kind:ty => $change:ident),* $(,)?) => {
        $(impl Told for $kind {
            fn change(update: Update<Self>) -> Change {
                Change::$change(update)
            }
        })*

        /// How many kinds must be listed before anything may be decided.
        pub(super) const KINDS: usize = [$(stringify!($kind)),*].len();

        /// A change in one word, as metrics call it.
        pub(super) fn label(change: &Change) -> &'static str {
            if let Change::Pod(Update::Upsert(pod)) = change
                && let Some(spec) = &pod.spec
                && spec.node_name.as_deref().is_some_and(|node| !node.is_empty())
            {
                return "AssignedPodUpdate";
            }
            match change {
                $(Change::$change(Update::Upsert(_)) => concat!(stringify!($change), "Update"),
                Change::$change(Update::Delete(_)) => concat!(stringify!($change), "Delete"),)*
            }
        }

        /// Starts all watches.
        pub(super) fn start(client: &Client, stop: &CancellationToken, tasks: &mut JoinSet<()>) -> mpsc::Receiver<Item> {
            let (sender, items) = mpsc::channel(WAITING);
            $(tasks.spawn(follow::<$kind>(client.clone(), sender.clone(), stop.clone()));)*
            items
        }
    };
}

told! {
    Pod => Pod,
    Node => Node,
    Namespace => Namespace,
    PodDisruptionBudget => Pdb,
    PersistentVolumeClaim => Pvc,
    PersistentVolume => Pv,
    StorageClass => StorageClass,
    CSINode => CsiNode,
    CSIDriver => CsiDriver,
    CSIStorageCapacity => CsiCapacity,
    VolumeAttachment => VolumeAttachment,
    Service => Service,
    ReplicationController => ReplicationController,
    ReplicaSet => ReplicaSet,
    StatefulSet => StatefulSet,
    NodeMetric => NodeMetric,
    NodeResourceTopology => NodeTopology,
}

async fn follow<K: Told>(client: Client, items: mpsc::Sender<Item>, stop: CancellationToken) {
    let config = match K::kind(&()).as_ref() {
        "Pod" => Config::default().fields(LIVING),
        _ => Config::default(),
    };
    let mut watch = Watch::new(Api::<K>::all(client), config, stop);
    let (mut differences, mut is_listed) = (Differences::by_uid(), false);
    while let Some(update) = watch.next().await {
        let is_complete = match &update {
            Heard::Listed => true,
            Heard::Refused(refusal) => refusal.is_unserved,
            Heard::Relist | Heard::Applied(_) | Heard::Deleted(_) => false,
        };
        let mut out = Vec::new();
        differences.take(update, |difference| {
            let update = match difference {
                Difference::Applied(object) => Update::Upsert(Arc::new(object)),
                Difference::Gone(ObjectId { namespace, name, uid }) => {
                    let uid = Some(uid).filter(|uid| !uid.is_empty());
                    Update::Delete(Key { namespace, name, uid })
                }
            };
            out.push(Item::Change(K::change(update)));
        });
        if is_complete && !std::mem::replace(&mut is_listed, true) {
            out.push(Item::Listed);
        }
        for item in out {
            if items.send(item).await.is_err() {
                return;
            }
        }
    }
}
