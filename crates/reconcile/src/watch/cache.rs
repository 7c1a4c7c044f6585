//! What did we last see of all objects of a kind?
//!
//! One watch fills one cache that everyone in the process shares. Beside the objects, or the views
//! of them that readers need, it keeps what controllers ask for: which objects does this owner
//! control, which carry this entry of the index, has a version arrived. A controller subscribes
//! with a function that sees each object before and after a change and puts the keys it concerns
//! into its own queue.
//!
//! kube's own reflector store has neither indexes nor the object before the change, and walking
//! 150,000 pods to find three is not an option; the watch and relist logic below it is kube's.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::{self, Debug};
use std::hash::Hash;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use parking_lot::RwLock;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::{State, Update, Watch};
use crate::key::{Key, controller_of};
use crate::queue::Queue;

/// An object before and after something happened to it. At least one is there.
#[derive(Debug, Clone)]
pub struct Change<V> {
    pub before: Option<Arc<V>>,
    pub after: Option<Arc<V>>,
}

impl<V> Change<V> {
    /// The object, as new as we have it.
    pub fn latest(&self) -> Option<&Arc<V>> {
        self.after.as_ref().or(self.before.as_ref())
    }

    /// The object before and after, for whoever was or is concerned.
    pub fn sides(&self) -> impl Iterator<Item = &Arc<V>> {
        self.before.iter().chain(&self.after)
    }
}

type Handler<V> = Box<dyn Fn(&Change<V>) + Send + Sync>;
type Index<V> = fn(&V) -> Vec<String>;

/// All objects of one kind, as the watch shows them; cheap to clone.
pub struct Cache<V> {
    shared: Arc<Shared<V>>,
}

struct Shared<V> {
    table: RwLock<Table<V>>,
    handlers: RwLock<Vec<Handler<V>>>,
    state: watch::Sender<State>,
    /// Rises with every change.
    generation: watch::Sender<u64>,
    is_optional: bool,
}

struct Table<V> {
    objects: BTreeMap<Key, Arc<V>>,
    index: Index<V>,
    indexed: HashMap<String, BTreeSet<Key>>,
    /// The newest version among all objects seen so far, gone ones included.
    newest: u64,
}

impl<V> Clone for Cache<V> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<V> Debug for Cache<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = *self.shared.state.borrow();
        f.debug_struct("Cache").field("state", &state).finish_non_exhaustive()
    }
}

impl<V: Send + Sync + 'static> Cache<V> {
    /// A cache whose objects are also found by the entries that `index` makes of them.
    pub fn new(index: Index<V>) -> Self {
        Self::of(index, false)
    }

    /// A kind whose definition may be missing; it has no objects then, which is an answer.
    pub fn optional() -> Self {
        Self::of(|_| Vec::new(), true)
    }

    fn of(index: Index<V>, is_optional: bool) -> Self {
        let table = Table { objects: BTreeMap::new(), index, indexed: HashMap::new(), newest: 0 };
        let shared = Shared {
            table: RwLock::new(table),
            handlers: RwLock::default(),
            state: watch::Sender::default(),
            generation: watch::Sender::default(),
            is_optional,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Calls `handler` for every change from now on. It runs inside the watch and must be quick.
    pub fn subscribe(&self, handler: impl Fn(&Change<V>) + Send + Sync + 'static) {
        self.shared.handlers.write().push(Box::new(handler));
    }

    pub fn get(&self, key: &Key) -> Option<Arc<V>> {
        self.shared.table.read().objects.get(key).cloned()
    }

    pub fn all(&self) -> Vec<Arc<V>> {
        self.shared.table.read().objects.values().cloned().collect()
    }

    /// All objects with their keys, in the order of keys.
    pub fn entries(&self) -> Vec<(Key, Arc<V>)> {
        let table = self.shared.table.read();
        table.objects.iter().map(|(key, object)| (key.clone(), object.clone())).collect()
    }

    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<V>> {
        let table = self.shared.table.read();
        let from = Key::new(namespace, "");
        let objects = table.objects.range(from..);
        objects
            .take_while(|(key, _)| key.namespace == namespace)
            .map(|(_, object)| object.clone())
            .collect()
    }

    /// The objects under this entry of the index.
    pub fn indexed(&self, entry: &str) -> Vec<Arc<V>> {
        let table = self.shared.table.read();
        let keys = table.indexed.get(entry).into_iter().flatten();
        keys.filter_map(|key| table.objects.get(key).cloned()).collect()
    }

    /// Has everything up to this version arrived here?
    pub fn has_reached(&self, version: u64) -> bool {
        self.shared.table.read().newest >= version
    }

    /// Rises with every change.
    pub fn generation(&self) -> u64 {
        *self.shared.generation.borrow()
    }

    /// Tells of every change from now on.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.generation.subscribe()
    }

    /// Is every object that exists here?
    pub fn is_listed(&self) -> bool {
        self.shared.is_listed(*self.shared.state.borrow())
    }

    /// Waits until every object that exists is here.
    pub async fn until_listed(&self) {
        let mut state = self.shared.state.subscribe();
        // The sender lives in `self`, so waiting can only end with success.
        let _ = state.wait_for(|state| self.shared.is_listed(*state)).await;
    }

    /// Follows a watch until its end; `view` makes of an object what readers need.
    pub async fn follow<K>(self, mut watch: Watch<K>, view: impl Fn(K) -> V + Send)
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let mut arriving: Option<BTreeMap<Key, (u64, V)>> = None;
        while let Some(update) = watch.next().await {
            let state = self.shared.state.borrow().after(&update);
            match update {
                Update::Relist => arriving = Some(BTreeMap::new()),
                Update::Applied(object) => {
                    let (key, version) = (Key::of(&object), version(object.meta()));
                    match &mut arriving {
                        Some(list) => drop(list.insert(key, (version, view(object)))),
                        None => self.put(key, version, view(object)),
                    }
                }
                Update::Deleted(object) => self.take(&Key::of(&object), version(object.meta())),
                Update::Listed => self.replace(arriving.take().unwrap_or_default()),
                Update::Refused(why) if why.is_unserved && self.shared.is_optional => {
                    self.replace(BTreeMap::new());
                }
                Update::Refused(_) => {}
            }
            self.shared.state.send_if_modified(|was| std::mem::replace(was, state) != state);
        }
    }

    pub(super) fn put(&self, key: Key, version: u64, object: V) {
        let after = Arc::new(object);
        let before = self.shared.table.write().put(key, version, after.clone());
        self.shared.tell(&[Change { before, after: Some(after) }]);
    }

    fn take(&self, key: &Key, version: u64) {
        let before = self.shared.table.write().take(key, version);
        if before.is_some() {
            self.shared.tell(&[Change { before, after: None }]);
        }
    }

    /// Takes over a complete list, at once: what is not in it is gone.
    fn replace(&self, list: BTreeMap<Key, (u64, V)>) {
        let changes = {
            let mut table = self.shared.table.write();
            let gone: Vec<_> =
                table.objects.keys().filter(|key| !list.contains_key(*key)).cloned().collect();
            let mut changes = Vec::with_capacity(gone.len() + list.len());
            for key in gone {
                changes.push(Change { before: table.take(&key, 0), after: None });
            }
            for (key, (version, object)) in list {
                let after = Arc::new(object);
                let before = table.put(key, version, after.clone());
                changes.push(Change { before, after: Some(after) });
            }
            changes
        };
        self.shared.tell(&changes);
    }
}

impl<V> Shared<V> {
    fn is_listed(&self, state: State) -> bool {
        state == State::Listed || (self.is_optional && state == State::Unserved)
    }

    fn tell(&self, changes: &[Change<V>]) {
        for handler in self.handlers.read().iter() {
            changes.iter().for_each(handler);
        }
        self.generation.send_modify(|generation| *generation = generation.wrapping_add(1));
    }
}

impl<V> Table<V> {
    fn put(&mut self, key: Key, version: u64, object: Arc<V>) -> Option<Arc<V>> {
        let before = self.take(&key, version);
        for entry in (self.index)(&object) {
            self.indexed.entry(entry).or_default().insert(key.clone());
        }
        self.objects.insert(key, object);
        before
    }

    fn take(&mut self, key: &Key, version: u64) -> Option<Arc<V>> {
        self.newest = self.newest.max(version);
        let object = self.objects.remove(key)?;
        for entry in (self.index)(&object) {
            if let Some(keys) = self.indexed.get_mut(&entry) {
                keys.remove(key);
                if keys.is_empty() {
                    self.indexed.remove(&entry);
                }
            }
        }
        Some(object)
    }
}

impl<K: Resource + Send + Sync + 'static> Cache<K> {
    /// A cache that knows which object controls which.
    pub fn by_controller() -> Self {
        Self::new(|object| vec![controller_entry(object)])
    }

    /// Puts every object that changes into a queue, under what `subject` makes of its key.
    pub fn enqueue<T>(&self, queue: &Queue<T>, subject: fn(Key) -> T)
    where
        T: Clone + Ord + Hash + Send + Sync + 'static,
    {
        let queue = queue.clone();
        self.subscribe(move |change| {
            if let Some(object) = change.latest() {
                queue.add(subject(Key::of(&**object)));
            }
        });
    }

    /// The objects that the owner with this id controls.
    pub fn controlled_by(&self, uid: &str) -> Vec<Arc<K>> {
        self.indexed(uid)
    }

    /// The objects of a namespace that nobody controls.
    pub fn uncontrolled(&self, namespace: &str) -> Vec<Arc<K>> {
        self.indexed(&nobody(namespace))
    }

    pub fn apply(&self, object: K) {
        self.put(Key::of(&object), version(object.meta()), object);
    }

    pub fn remove(&self, object: &K) {
        self.take(&Key::of(object), version(object.meta()));
    }
}

/// The index entry of an object's controller: its unique id.
pub fn controller_entry(object: &impl Resource) -> String {
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
pub fn version(meta: &ObjectMeta) -> u64 {
    meta.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::ResourceExt;
    use parking_lot::Mutex;
    use serde_json::{Value, json};

    use super::*;

    /// A cache of pods, which are found by their nodes as well.
    fn cache() -> Cache<Pod> {
        Cache::new(|pod: &Pod| {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
            node.into_iter().chain([controller_entry(pod)]).collect()
        })
    }

    fn pod_from(value: Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    fn pod(name: &str) -> Pod {
        pod_in("default", name)
    }

    fn pod_in(namespace: &str, name: &str) -> Pod {
        pod_from(json!({"metadata": {"namespace": namespace, "name": name}}))
    }

    fn at_version(version: u64) -> Pod {
        let version = version.to_string();
        pod_from(json!({"metadata":
            {"namespace": "default", "name": "a", "resourceVersion": version}}))
    }

    fn names(pods: &[Arc<Pod>]) -> Vec<String> {
        pods.iter().map(|pod| pod.name_any()).collect()
    }

    #[test]
    fn indexes_follow_the_object() {
        let cache = cache();
        cache.apply(pod("a"));
        assert_eq!(names(&cache.uncontrolled("default")), ["a"]);
        cache.apply(pod_from(json!({
            "metadata": {"namespace": "default", "name": "a", "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "u1",
                "controller": true,
            }]},
            "spec": {"containers": [], "nodeName": "n1"},
        })));
        assert_eq!(names(&cache.uncontrolled("default")), [""; 0]);
        assert_eq!(names(&cache.controlled_by("u1")), ["a"]);
        assert_eq!(names(&cache.indexed("n1")), ["a"]);
        cache.remove(&pod("a"));
        assert_eq!(names(&cache.controlled_by("u1")), [""; 0]);
        assert_eq!(names(&cache.indexed("n1")), [""; 0]);
        assert_eq!(cache.all().len(), 0);
    }

    #[test]
    fn a_namespace_ends_where_the_next_begins() {
        let cache = cache();
        for (namespace, name) in [("a", "x"), ("b", "y"), ("b", "z"), ("bb", "w")] {
            cache.apply(pod_in(namespace, name));
        }
        assert_eq!(names(&cache.in_namespace("b")), ["y", "z"]);
        assert_eq!(names(&cache.in_namespace("c")), [""; 0]);
    }

    #[test]
    fn a_new_list_reports_what_went_missing() {
        let cache = cache();
        cache.apply(pod("a"));
        cache.apply(pod("b"));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        cache.subscribe(move |change: &Change<Pod>| {
            let name = change.latest().map(|pod| pod.name_any()).unwrap_or_default();
            log.lock().push((name, change.before.is_some(), change.after.is_some()));
        });
        let list = ["b", "c"].map(|name| (Key::new("default", name), (0, pod(name))));
        cache.replace(list.into_iter().collect());
        let want = [("a", true, false), ("b", true, true), ("c", false, true)];
        assert_eq!(*seen.lock(), want.map(|(name, b, a)| (name.to_owned(), b, a)));
    }

    #[test]
    fn the_newest_version_counts_deletions_too() {
        let cache = cache();
        cache.apply(at_version(5));
        assert!(cache.has_reached(5) && !cache.has_reached(6));
        cache.remove(&at_version(9));
        assert!(cache.has_reached(9) && !cache.has_reached(10));
    }
}
