//! How does the graph hear of all objects of all kinds?
//!
//! The kinds in the shared caches tell it what they hear anyway. Every other kind that the server
//! has, custom ones included, gets a watch of its own that carries metadata only. Kinds come and
//! go: they are asked for every 30 seconds, and at once when a custom resource definition changes.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use kube::{
    Api, Client, Resource,
    core::{DynamicObject, PartialObjectMeta},
    discovery::verbs,
};
use parking_lot::Mutex;
use reconcile::queue::Queue;
use reconcile::watch::{Cache, Change, Difference, Differences, Update, Watch};
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{Graph, Object};
use crate::controllers::{
    caches::{Caches, each},
    kinds::{ServedKind, discover, is_event},
};

const PERIOD: Duration = Duration::from_secs(30);
/// Several definitions often come together.
const SETTLE: Duration = Duration::from_millis(100);
/// How long the first lists may take before we go on without the slow ones.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the graph and its watchers share.
#[derive(Clone)]
pub(crate) struct Monitors {
    pub(crate) graph: Arc<Mutex<Graph>>,
    pub(crate) queue: Queue<String>,
    /// All kinds of the server, for whoever has to find an owner.
    pub(crate) kinds: Arc<Mutex<Vec<Arc<ServedKind>>>>,
    /// Kinds that reach the graph through the shared caches.
    shared: Arc<HashSet<(String, String)>>,
    changed: Arc<Notify>,
    /// Watches whose first list is not here yet; `None` before the first discovery.
    missing: watch::Sender<Option<usize>>,
}

/// Watches by group and kind, and how to stop them.
type Running = HashMap<(String, String), (Arc<ServedKind>, CancellationToken)>;

/// Lets the shared caches tell the graph what they see.
pub(crate) fn follow_shared(caches: &Caches) -> Monitors {
    let mut shared = HashSet::new();
    let graph = Arc::new(Mutex::new(Graph::default()));
    let queue = Queue::default();
    each!(caches, |cache| {
        let kind = kind_in(cache);
        shared.insert((kind.resource.group.clone(), kind.resource.kind.clone()));
        let (graph, queue) = (graph.clone(), queue.clone());
        cache.subscribe(move |change| tell(&graph, &queue, &kind, change))
    });
    Monitors {
        graph,
        queue,
        kinds: Arc::default(),
        shared: Arc::new(shared),
        changed: Arc::default(),
        missing: watch::Sender::new(None),
    }
}

fn kind_in<K: Resource<DynamicType = ()>>(_: &Cache<K>) -> Arc<ServedKind> {
    Arc::new(ServedKind::of::<K>())
}

fn tell<K: Resource>(
    graph: &Mutex<Graph>,
    queue: &Queue<String>,
    kind: &Arc<ServedKind>,
    change: &Change<K>,
) {
    let uid = |object: &Arc<K>| object.meta().uid.clone().unwrap_or_default();
    let concerned = {
        let mut graph = graph.lock();
        let replaced = change.before.as_ref().map(uid) != change.after.as_ref().map(uid);
        let gone = change.before.as_ref().filter(|_| replaced);
        let mut concerned = gone.map(|gone| graph.forget(&uid(gone))).unwrap_or_default();
        if let Some(after) = &change.after {
            concerned.extend(graph.observe(Object::of(kind, after.meta())));
        }
        concerned
    };
    for uid in concerned {
        queue.add(uid);
    }
}

impl Monitors {
    /// Waits until everything has been listed once, or for as long as is reasonable; then wakes
    /// whoever has an owner that nobody has heard of.
    pub(crate) async fn complete(&self) {
        let mut missing = self.missing.subscribe();
        let all_here = missing.wait_for(|missing| *missing == Some(0));
        if timeout(PATIENCE, all_here).await.is_err() {
            warn!("some kinds could not be listed yet; collecting garbage without them");
        }
        self.wake_unsure();
    }

    fn wake_unsure(&self) {
        let unsure = self.graph.lock().unsure();
        for uid in unsure {
            self.queue.add(uid);
        }
    }

    /// Keeps one watch for every kind until told to stop.
    pub(crate) async fn follow_kinds(self, client: Client, shutdown: CancellationToken) {
        let mut tasks = JoinSet::new();
        let mut running = Running::new();
        loop {
            match discover(&client).await {
                Ok(kinds) => self.adjust(&client, &kinds, &mut running, &mut tasks, &shutdown),
                Err(error) => {
                    warn!(%error, "cannot find out which kinds there are; will try again")
                }
            }
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                () = self.changed.notified() => sleep(SETTLE).await,
                () = sleep(PERIOD) => {}
            }
            while tasks.try_join_next().is_some() {}
        }
        while tasks.join_next().await.is_some() {}
    }

    fn adjust(
        &self,
        client: &Client,
        kinds: &[Arc<ServedKind>],
        running: &mut Running,
        tasks: &mut JoinSet<()>,
        shutdown: &CancellationToken,
    ) {
        *self.kinds.lock() = kinds.to_vec();
        let id = |kind: &ServedKind| (kind.resource.group.clone(), kind.resource.kind.clone());
        let is_wanted = |kind: &&Arc<ServedKind>| {
            let can = |verb| kind.has_verb(verb);
            can(verbs::LIST)
                && can(verbs::WATCH)
                && can(verbs::DELETE)
                && !is_event(kind)
                && !self.shared.contains(&id(kind))
        };
        let wanted: BTreeMap<_, _> =
            kinds.iter().filter(is_wanted).map(|kind| (id(kind), kind.clone())).collect();
        running.retain(|id, (kind, stop)| {
            let stays = wanted.get(id).is_some_and(|wanted| wanted == kind);
            if !stays {
                debug!(kind = kind.full_name(), "no longer watching");
                stop.cancel();
                let gone = self.graph.lock().of_kind(kind);
                self.forget(gone);
            }
            stays
        });
        let fresh: Vec<_> =
            wanted.into_iter().filter(|(id, _)| !running.contains_key(id)).collect();
        // Counted before they start, so that none can be done before it is counted.
        let is_first = self.missing.borrow().is_none();
        self.missing.send_modify(|missing| *missing = Some(missing.unwrap_or(0) + fresh.len()));
        let has_news = !fresh.is_empty() && !is_first;
        for (id, kind) in fresh {
            let stop = shutdown.child_token();
            tasks.spawn(self.clone().follow_kind(client.clone(), kind.clone(), stop.clone()));
            running.insert(id, (kind, stop));
        }
        if has_news {
            self.wake_unsure();
        }
    }

    async fn follow_kind(self, client: Client, kind: Arc<ServedKind>, stop: CancellationToken) {
        let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(client, &kind.resource);
        let mut watch = Watch::all(api, stop);
        let is_definition = kind.is("apiextensions.k8s.io", "CustomResourceDefinition");
        let (mut differences, mut is_first) = (Differences::by_uid(), true);
        while let Some(update) = watch.next().await {
            // A list may hold definitions that have come since the kinds were asked for.
            if is_definition && !matches!(update, Update::Relist | Update::Refused(_)) {
                self.changed.notify_one();
            }
            let is_listed = matches!(update, Update::Listed);
            differences.take(update, |difference| match difference {
                Difference::Applied(object) => self.observe(&kind, &object),
                Difference::Gone(id) => self.forget(vec![id.uid]),
            });
            if is_listed && std::mem::take(&mut is_first) {
                self.one_listed();
            }
        }
        if is_first {
            self.one_listed();
        }
    }

    fn one_listed(&self) {
        let lower = |missing: &mut Option<usize>| *missing = missing.map(|n| n.saturating_sub(1));
        self.missing.send_modify(lower);
    }

    fn observe(&self, kind: &Arc<ServedKind>, object: &PartialObjectMeta<DynamicObject>) {
        let concerned = self.graph.lock().observe(Object::of(kind, &object.metadata));
        for uid in concerned {
            self.queue.add(uid);
        }
    }

    fn forget(&self, gone: Vec<String>) {
        for uid in gone {
            let concerned = self.graph.lock().forget(&uid);
            for uid in concerned {
                self.queue.add(uid);
            }
        }
    }
}
