//! Objects of one kind, as the API server last told them.
//!
//! A watch fills a map; readers take what they need without asking anybody. A
//! kind that the API server does not serve counts as having no objects, so an
//! install without optional definitions becomes ready all the same.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::StreamExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource};
use parking_lot::RwLock;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

/// Namespace and name; the namespace of cluster-wide objects is empty.
pub(crate) type Place = (String, String);

/// Views of all objects of a kind, by place.
#[derive(Debug)]
pub(crate) struct Mirror<V> {
    objects: RwLock<BTreeMap<Place, Arc<V>>>,
    generation: AtomicU64,
    ready: watch::Sender<bool>,
    changed: Notify,
}

impl<V> Default for Mirror<V> {
    fn default() -> Self {
        Self {
            objects: RwLock::default(),
            generation: AtomicU64::new(0),
            ready: watch::Sender::new(false),
            changed: Notify::new(),
        }
    }
}

impl<V> Mirror<V> {
    /// Rises with every change.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn is_ready(&self) -> bool {
        *self.ready.borrow()
    }

    /// Waits until all objects that exist have been told once.
    pub(crate) async fn until_ready(&self) {
        // The sender lives as long as the mirror.
        let _ = self.ready.subscribe().wait_for(|ready| *ready).await;
    }

    /// Waits for the next change.
    pub(crate) async fn until_changed(&self) {
        self.changed.notified().await;
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<Arc<V>> {
        self.objects.read().get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// Everything, in the order of places.
    pub(crate) fn all(&self) -> Vec<(Place, Arc<V>)> {
        let objects = self.objects.read();
        objects.iter().map(|(place, view)| (place.clone(), view.clone())).collect()
    }

    fn tell(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_one();
    }

    fn finish(&self, objects: BTreeMap<Place, Arc<V>>) {
        *self.objects.write() = objects;
        self.tell();
        self.ready.send_replace(true);
    }
}

/// Keeps a mirror up to date until told to stop. `view` takes what readers need of an object.
pub(crate) async fn follow<K, V>(
    api: Api<K>,
    settings: watcher::Config,
    mirror: Arc<Mirror<V>>,
    view: fn(K) -> V,
    shutdown: CancellationToken,
) where
    K: Resource<DynamicType: Default + Eq + Hash + Clone + Debug>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + 'static,
    V: Send + Sync + 'static,
{
    let kind = K::kind(&K::DynamicType::default()).into_owned();
    let place = |object: &K| {
        let meta = object.meta();
        (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
    };
    let events = watcher(api, settings).default_backoff();
    let mut events = pin!(events.take_until(shutdown.cancelled_owned()));
    let mut arriving = BTreeMap::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => arriving.clear(),
            Ok(Event::InitApply(object)) => {
                arriving.insert(place(&object), Arc::new(view(object)));
            }
            Ok(Event::InitDone) => mirror.finish(std::mem::take(&mut arriving)),
            Ok(Event::Apply(object)) => {
                mirror.objects.write().insert(place(&object), Arc::new(view(object)));
                mirror.tell();
            }
            Ok(Event::Delete(object)) => {
                mirror.objects.write().remove(&place(&object));
                mirror.tell();
            }
            Err(error) if is_unserved(&error) => {
                debug!(kind, "the API server does not serve this kind");
                mirror.finish(BTreeMap::new());
            }
            Err(error) => warn!(kind, %error, "watch interrupted; will try again"),
        }
    }
}

pub(crate) fn is_unserved(error: &watcher::Error) -> bool {
    matches!(
        error,
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) if status.code == 404
    )
}
