//! What did we last see of all objects of a kind?
//!
//! One watch a kind fills one cache that all controllers share. Beside the objects it keeps the
//! two indexes that controllers ask: which objects does this owner manage, and which carry this
//! tag (pods are tagged with their node). A controller subscribes with a function that sees each
//! object before and after a change and puts the keys it concerns into its own queue.
//!
//! kube's own reflector store has neither indexes nor the object before the change, and walking
//! 150,000 pods to find three is not an option; the watch and relist logic below it is kube's.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt::Debug,
    pin::pin,
    sync::Arc,
};

use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Resource, ResourceExt,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use parking_lot::RwLock;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::key::{Key, controller_of};

/// An object before and after something happened to it. At least one is there.
#[derive(Debug, Clone)]
pub(crate) struct Change<K> {
    pub(crate) before: Option<Arc<K>>,
    pub(crate) after: Option<Arc<K>>,
}

impl<K> Change<K> {
    /// The object, as new as we have it.
    pub(crate) fn latest(&self) -> Option<&Arc<K>> {
        self.after.as_ref().or(self.before.as_ref())
    }

    /// The object before and after, for whoever was or is concerned.
    pub(crate) fn sides(&self) -> impl Iterator<Item = &Arc<K>> {
        self.before.iter().chain(&self.after)
    }
}

type Handler<K> = Box<dyn Fn(&Change<K>) + Send + Sync>;

/// All objects of one kind, as the watch shows them.
pub(crate) struct Cache<K> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    table: RwLock<Table<K>>,
    handlers: RwLock<Vec<Handler<K>>>,
    is_complete: watch::Sender<bool>,
    tag: fn(&K) -> Option<String>,
}

struct Table<K> {
    objects: BTreeMap<Key, Arc<K>>,
    by_owner: HashMap<String, BTreeSet<Key>>,
    by_tag: HashMap<String, BTreeSet<Key>>,
    /// The newest version among all objects seen so far, gone ones included.
    newest: u64,
}

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<K: Resource + Send + Sync + 'static> Cache<K> {
    pub(crate) fn new(tag: fn(&K) -> Option<String>) -> Self {
        let table = Table {
            objects: BTreeMap::new(),
            by_owner: HashMap::new(),
            by_tag: HashMap::new(),
            newest: 0,
        };
        let shared = Shared {
            table: RwLock::new(table),
            handlers: RwLock::default(),
            is_complete: watch::Sender::new(false),
            tag,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Calls `handler` for every change from now on. It runs inside the watch and must be quick.
    pub(crate) fn subscribe(&self, handler: impl Fn(&Change<K>) + Send + Sync + 'static) {
        self.shared.handlers.write().push(Box::new(handler));
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.shared.table.read().objects.get(key).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<K>> {
        self.shared.table.read().objects.values().cloned().collect()
    }

    pub(crate) fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let table = self.shared.table.read();
        let from = Key::new(namespace, "");
        let objects = table.objects.range(from..);
        objects
            .take_while(|(key, _)| key.namespace == namespace)
            .map(|(_, object)| object.clone())
            .collect()
    }

    /// The objects that the owner with this id controls.
    pub(crate) fn controlled_by(&self, uid: &str) -> Vec<Arc<K>> {
        let table = self.shared.table.read();
        table.pick(table.by_owner.get(uid))
    }

    /// The objects of a namespace that nobody controls.
    pub(crate) fn uncontrolled(&self, namespace: &str) -> Vec<Arc<K>> {
        let table = self.shared.table.read();
        table.pick(table.by_owner.get(&nobody(namespace)))
    }

    pub(crate) fn tagged(&self, tag: &str) -> Vec<Arc<K>> {
        let table = self.shared.table.read();
        table.pick(table.by_tag.get(tag))
    }

    /// Has everything up to this version arrived here?
    pub(crate) fn has_reached(&self, version: u64) -> bool {
        self.shared.table.read().newest >= version
    }

    /// Waits until the first complete list is here.
    pub(crate) async fn complete(&self) {
        // The sender lives in `self`, so waiting can only end with success.
        let _ = self.shared.is_complete.subscribe().wait_for(|is_complete| *is_complete).await;
    }

    pub(crate) fn apply(&self, object: K) {
        let key = Key::of(&object);
        let after = Arc::new(object);
        let before = self.shared.table.write().put(key, after.clone(), self.shared.tag);
        self.tell(&Change { before, after: Some(after) });
    }

    pub(crate) fn remove(&self, object: &K) {
        let key = Key::of(object);
        let before = {
            let mut table = self.shared.table.write();
            table.newest = table.newest.max(version(object.meta()));
            table.take(&key, self.shared.tag)
        };
        if before.is_some() {
            self.tell(&Change { before, after: None });
        }
    }

    /// Takes over a complete list: what is not in it is gone.
    pub(crate) fn replace(&self, objects: BTreeMap<Key, K>) {
        let gone: Vec<_> = {
            let table = self.shared.table.read();
            table.objects.keys().filter(|key| !objects.contains_key(*key)).cloned().collect()
        };
        for key in gone {
            let before = self.shared.table.write().take(&key, self.shared.tag);
            self.tell(&Change { before, after: None });
        }
        for object in objects.into_values() {
            self.apply(object);
        }
        self.shared.is_complete.send_replace(true);
    }

    fn tell(&self, change: &Change<K>) {
        for handler in self.shared.handlers.read().iter() {
            handler(change);
        }
    }
}

impl<K> Cache<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    pub(crate) fn kind(&self) -> String {
        K::kind(&()).into_owned()
    }

    /// Follows the watch until told to stop.
    ///
    /// `trim` takes away what no controller looks at, so that it is not kept in memory.
    pub(crate) async fn follow(self, api: Api<K>, trim: fn(&mut K), shutdown: CancellationToken) {
        let events = watcher::watcher(api, watcher::Config::default()).default_backoff().modify(
            move |object| {
                object.managed_fields_mut().clear();
                trim(object);
            },
        );
        let mut events = pin!(events.take_until(shutdown.cancelled_owned()));
        let mut list = BTreeMap::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => list.clear(),
                Ok(Event::InitApply(object)) => {
                    list.insert(Key::of(&object), object);
                }
                Ok(Event::InitDone) => self.replace(std::mem::take(&mut list)),
                Ok(Event::Apply(object)) => self.apply(object),
                Ok(Event::Delete(object)) => self.remove(&object),
                Err(error) => {
                    warn!(kind = %K::kind(&()), %error, "watch interrupted; will start again");
                }
            }
        }
    }
}

impl<K: Resource> Table<K> {
    fn put(&mut self, key: Key, object: Arc<K>, tag: fn(&K) -> Option<String>) -> Option<Arc<K>> {
        let before = self.take(&key, tag);
        self.newest = self.newest.max(version(object.meta()));
        self.by_owner.entry(owner(&*object)).or_default().insert(key.clone());
        if let Some(tag) = tag(&object) {
            self.by_tag.entry(tag).or_default().insert(key.clone());
        }
        self.objects.insert(key, object);
        before
    }

    fn take(&mut self, key: &Key, tag: fn(&K) -> Option<String>) -> Option<Arc<K>> {
        let object = self.objects.remove(key)?;
        forget(&mut self.by_owner, &owner(&*object), key);
        if let Some(tag) = tag(&object) {
            forget(&mut self.by_tag, &tag, key);
        }
        Some(object)
    }

    fn pick(&self, keys: Option<&BTreeSet<Key>>) -> Vec<Arc<K>> {
        keys.into_iter().flatten().filter_map(|key| self.objects.get(key).cloned()).collect()
    }
}

fn forget(index: &mut HashMap<String, BTreeSet<Key>>, entry: &str, key: &Key) {
    if let Some(keys) = index.get_mut(entry) {
        keys.remove(key);
        if keys.is_empty() {
            index.remove(entry);
        }
    }
}

fn owner(object: &impl Resource) -> String {
    match controller_of(object.meta()) {
        Some(owner) => owner.uid.clone(),
        None => nobody(object.meta().namespace.as_deref().unwrap_or_default()),
    }
}

/// The index entry for objects without controller; no unique id starts like this.
fn nobody(namespace: &str) -> String {
    format!("/{namespace}")
}

/// Versions of one server are numbers that grow with every write.
pub(crate) fn version(meta: &ObjectMeta) -> u64 {
    meta.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use parking_lot::Mutex;

    use super::*;
    use crate::controllers::fixture::pod;

    fn cache() -> Cache<Pod> {
        Cache::new(|pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone()))
    }

    fn names(pods: &[Arc<Pod>]) -> Vec<String> {
        pods.iter().map(|pod| pod.name_any()).collect()
    }

    #[test]
    fn indexes_follow_the_object() {
        let cache = cache();
        cache.apply(pod("a").build());
        assert_eq!(names(&cache.uncontrolled("default")), ["a"]);
        cache.apply(pod("a").owner("ReplicaSet", "rs", "u1").on("n1").build());
        assert_eq!(names(&cache.uncontrolled("default")), [""; 0]);
        assert_eq!(names(&cache.controlled_by("u1")), ["a"]);
        assert_eq!(names(&cache.tagged("n1")), ["a"]);
        cache.remove(&pod("a").build());
        assert_eq!(names(&cache.controlled_by("u1")), [""; 0]);
        assert_eq!(names(&cache.tagged("n1")), [""; 0]);
        assert_eq!(cache.all().len(), 0);
    }

    #[test]
    fn a_namespace_ends_where_the_next_begins() {
        let cache = cache();
        for (namespace, name) in [("a", "x"), ("b", "y"), ("b", "z"), ("bb", "w")] {
            cache.apply(pod(name).namespace(namespace).build());
        }
        assert_eq!(names(&cache.in_namespace("b")), ["y", "z"]);
        assert_eq!(names(&cache.in_namespace("c")), [""; 0]);
    }

    #[test]
    fn a_new_list_reports_what_went_missing() {
        let cache = cache();
        cache.apply(pod("a").build());
        cache.apply(pod("b").build());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        cache.subscribe(move |change: &Change<Pod>| {
            let name = change.latest().map(|pod| pod.name_any()).unwrap_or_default();
            log.lock().push((name, change.before.is_some(), change.after.is_some()));
        });
        let list = ["b", "c"].map(|name| pod(name).build());
        cache.replace(list.into_iter().map(|pod| (Key::of(&pod), pod)).collect());
        let want = [("a", true, false), ("b", true, true), ("c", false, true)];
        assert_eq!(*seen.lock(), want.map(|(name, b, a)| (name.to_owned(), b, a)));
    }

    #[test]
    fn the_newest_version_counts_deletions_too() {
        let cache = cache();
        cache.apply(pod("a").version(5).build());
        assert!(cache.has_reached(5) && !cache.has_reached(6));
        cache.remove(&pod("a").version(9).build());
        assert!(cache.has_reached(9) && !cache.has_reached(10));
    }
}
