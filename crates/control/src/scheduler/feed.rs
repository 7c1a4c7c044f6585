//! What the API server knows, told to the engine.
//!
//! One watch a kind turns events into [`Change`]s for the one task that owns the engine. The
//! channel is bounded: when the engine is busy, watches wait and the API server keeps their place.
//! A list after a gap says what is there; what was there before and is not any more is told as
//! deleted. [`Item::Listed`] follows the last object of a kind's first list through the same
//! channel, so that whoever sees it has worked through the whole list (and not only received it).
//!
//! A kind that the API server does not serve counts as listed and empty; it is asked for again.

use std::collections::HashSet;
use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;

use api::kind::{NodeMetric, NodeResourceTopology};
use futures::StreamExt;
use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController, Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{
    CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment,
};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use sched::scheduler::{Change, Key, Update};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::mirror::is_unserved;

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
    let kind = K::kind(&());
    let config = match kind.as_ref() {
        "Pod" => watcher::Config::default().fields(LIVING),
        _ => watcher::Config::default(),
    };
    let events = watcher(Api::<K>::all(client), config).default_backoff();
    let mut events = pin!(events.take_until(stop.cancelled_owned()));
    let mut known = Known::default();
    let (mut is_listed, mut is_away) = (false, false);
    while let Some(event) = events.next().await {
        let mut out = Vec::new();
        match event {
            Ok(event) => {
                is_away = false;
                let is_complete = matches!(event, Event::InitDone);
                known.tell(event, &mut out);
                if is_complete && !is_listed {
                    is_listed = true;
                    out.push(Item::Listed);
                }
            }
            Err(error) if is_unserved(&error) => {
                if !is_listed {
                    is_listed = true;
                    debug!(%kind, "the API server does not serve this kind");
                    out.push(Item::Listed);
                }
            }
            Err(error) => {
                if !is_away {
                    warn!(%kind, %error, "cannot watch; what is known stays");
                }
                is_away = true;
            }
        }
        for item in out {
            if items.send(item).await.is_err() {
                return;
            }
        }
    }
}

/// Which objects of a kind were told, as `namespace/name/uid`.
#[derive(Debug, Default)]
struct Known {
    told: HashSet<Box<str>>,
    /// Seen in the list that is arriving; `None` between lists.
    arriving: Option<HashSet<Box<str>>>,
}

impl Known {
    fn tell<K: Told>(&mut self, event: Event<K>, out: &mut Vec<Item>) {
        let upsert = |object: K| Item::Change(K::change(Update::Upsert(Arc::new(object))));
        match event {
            Event::Init => self.arriving = Some(HashSet::new()),
            Event::InitApply(object) => {
                let name = name_of(&object);
                if let Some(arriving) = &mut self.arriving {
                    arriving.insert(name.clone());
                }
                self.told.insert(name);
                out.push(upsert(object));
            }
            Event::InitDone => {
                let Some(arriving) = self.arriving.take() else { return };
                for gone in self.told.difference(&arriving) {
                    out.push(Item::Change(K::change(Update::Delete(key_of(gone)))));
                }
                self.told = arriving;
            }
            Event::Apply(object) => {
                self.told.insert(name_of(&object));
                out.push(upsert(object));
            }
            Event::Delete(object) => {
                let name = name_of(&object);
                self.told.remove(&name);
                out.push(Item::Change(K::change(Update::Delete(key_of(&name)))));
            }
        }
    }
}

fn name_of(object: &impl Resource) -> Box<str> {
    let meta = object.meta();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("{}/{}/{}", text(&meta.namespace), text(&meta.name), text(&meta.uid)).into()
}

fn key_of(name: &str) -> Key {
    let mut parts = name.splitn(3, '/');
    let mut part = || parts.next().unwrap_or_default().to_owned();
    let (namespace, name, uid) = (part(), part(), part());
    Key { namespace, name, uid: Some(uid).filter(|uid| !uid.is_empty()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, uid: &str) -> Node {
        let mut node = Node::default();
        node.metadata.name = Some(name.to_owned());
        node.metadata.uid = Some(uid.to_owned());
        node
    }

    fn brief(items: &[Item]) -> Vec<String> {
        let words = |item: &Item| match item {
            Item::Change(Change::Node(Update::Upsert(node))) => format!("+{}", name_of(&**node)),
            Item::Change(Change::Node(Update::Delete(key))) => {
                format!("-{}/{}", key.name, key.uid.clone().unwrap_or_default())
            }
            other => format!("{other:?}"),
        };
        items.iter().map(words).collect()
    }

    #[test]
    fn what_a_second_list_lacks_is_deleted() {
        let mut known = Known::default();
        let mut out = Vec::new();
        for event in [
            Event::Init,
            Event::InitApply(node("a", "1")),
            Event::InitApply(node("b", "2")),
            Event::InitDone,
            Event::Apply(node("c", "3")),
            Event::Delete(node("b", "2")),
        ] {
            known.tell(event, &mut out);
        }
        assert_eq!(brief(&out), ["+/a/1", "+/b/2", "+/c/3", "-b/2"]);
        out.clear();
        // The watch was away: `a` was made anew, `c` is gone.
        for event in [Event::Init, Event::InitApply(node("a", "4")), Event::InitDone] {
            known.tell(event, &mut out);
        }
        out[1..].sort_by_key(|item| format!("{item:?}"));
        assert_eq!(brief(&out), ["+/a/4", "-a/1", "-c/3"]);
    }
}
