//! How does a watcher get every event once, in order, without slowing others?
//!
//! ```text
//!             under the hub's lock, per batch
//! writer ──> current state ──> history ──> queue of each watcher ──> Watch::next
//! ```
//!
//! A watch registers under the same lock: what history holds at that moment is
//! copied (as references) into its queue, and everything later is pushed. There
//! is no moment in between, hence no gap and no duplicate.
//!
//! A queue is bounded. When a watcher does not keep up its queue is emptied at
//! once and the watcher learns that it lagged; the writer never waits. So the
//! events that slow watchers keep alive are always the latest ones, and the
//! memory they take does not grow with the number of watchers.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{
    Limits,
    error::{Expired, Lagged, WatchError},
    event::{Change, Event},
    history::{self, History},
    key::{Collection, Revision},
    state::{Objects, Snapshot, State},
};

/// What readers, watchers and the writer share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) limits: Limits,
    state: ArcSwap<State>,
    hub: Mutex<Hub>,
}

#[derive(Debug, Default)]
struct Hub {
    channels: HashMap<Collection, Channel>,
    closed: bool,
}

impl Hub {
    /// Of a collection that is new, the whole past is known: nothing happened.
    fn channel(&mut self, collection: Collection) -> &mut Channel {
        self.channels.entry(collection).or_insert_with(|| Channel::starting_at(Revision(0)))
    }
}

/// One collection's history and watchers, the latter by what they want to see.
#[derive(Debug)]
struct Channel {
    history: History,
    everywhere: Vec<Arc<Slot>>,
    by_namespace: HashMap<Arc<str>, Vec<Arc<Slot>>>,
}

impl Channel {
    fn starting_at(floor: Revision) -> Self {
        let history = History::starting_at(floor);
        Self { history, everywhere: Vec::new(), by_namespace: HashMap::new() }
    }

    fn push(&mut self, changes: Vec<Change>, limits: &Limits) {
        let all: Vec<&Arc<Event>> = changes.iter().map(|change| &change.event).collect();
        self.everywhere.retain(|slot| slot.offer(&all, limits));
        if !self.by_namespace.is_empty() {
            let mut parts: HashMap<&Arc<str>, Vec<&Arc<Event>>> = HashMap::new();
            for event in all {
                parts.entry(&event.object.key.namespace).or_default().push(event);
            }
            for (namespace, events) in parts {
                if let Some(slots) = self.by_namespace.get_mut(namespace) {
                    slots.retain(|slot| slot.offer(&events, limits));
                }
            }
        }
        for change in changes {
            self.history.push(change, limits);
        }
    }

    fn slots(&self) -> impl Iterator<Item = &Arc<Slot>> {
        self.everywhere.iter().chain(self.by_namespace.values().flatten())
    }
}

impl Shared {
    /// Starts with a state whose past is unknown.
    pub(super) fn new(state: State, limits: Limits) -> Self {
        let channels = state
            .tables
            .iter()
            .map(|(collection, table)| (collection.clone(), Channel::starting_at(table.changed)))
            .collect();
        let hub = Mutex::new(Hub { channels, closed: false });
        Self { limits, state: ArcSwap::from_pointee(state), hub }
    }

    pub(super) fn state(&self) -> Arc<State> {
        self.state.load_full()
    }

    /// Makes a batch of changes visible, to readers first and then to watchers:
    /// whoever hears of a change can read it.
    pub(super) fn publish(&self, state: State, changes: Vec<Change>) {
        let mut hub = self.hub.lock();
        self.state.store(Arc::new(state));
        let mut parts: HashMap<Collection, Vec<Change>> = HashMap::new();
        for change in changes {
            parts.entry(change.event.object.key.collection.clone()).or_default().push(change);
        }
        for (collection, changes) in parts {
            hub.channel(collection).push(changes, &self.limits);
        }
    }

    /// Ends all watches, present and future.
    pub(super) fn close(&self) {
        let mut hub = self.hub.lock();
        hub.closed = true;
        for slot in hub.channels.values().flat_map(Channel::slots) {
            slot.close();
        }
    }

    pub(super) fn snapshot_at(
        &self,
        collection: &Collection,
        revision: Revision,
    ) -> Result<Snapshot, Expired> {
        let hub = self.hub.lock();
        let state = self.state();
        if revision > state.revision {
            return Err(Expired::Future { current: state.revision });
        }
        let (changed, mut objects) = match state.tables.get(collection) {
            Some(table) => (table.changed, table.objects.clone()),
            None => (Revision(0), Objects::default()),
        };
        let mut later = Vec::new();
        if changed > revision
            && let Some(channel) = hub.channels.get(collection)
        {
            let changes = channel.history.since(revision);
            let changes = changes.map_err(|oldest| Expired::Compacted { oldest })?;
            later.extend(changes.rev().cloned());
        }
        drop(hub);
        for change in &later {
            history::undo(&mut objects, change);
        }
        Ok(Snapshot::new(revision, collection.clone(), objects))
    }

    pub(super) fn watch(
        self: &Arc<Self>,
        collection: &Collection,
        namespace: Option<&str>,
        from: Revision,
    ) -> Result<Watch, WatchError> {
        let mut hub = self.hub.lock();
        let current = self.state.load().revision;
        if from > current {
            return Err(WatchError::Future { current });
        }
        let closed = hub.closed;
        let channel = hub.channel(collection.clone());
        let changes = channel.history.since(from);
        let changes = changes.map_err(|oldest| WatchError::Compacted { oldest })?;
        let replay = changes
            .map(|change| &change.event)
            .filter(|event| namespace.is_none_or(|wanted| *event.object.key.namespace == *wanted))
            .cloned()
            .collect();
        let slot = Arc::new(Slot::new(replay));
        if closed {
            slot.close();
        } else {
            match namespace {
                None => channel.everywhere.push(Arc::clone(&slot)),
                Some(namespace) => channel
                    .by_namespace
                    .entry(Arc::from(namespace))
                    .or_default()
                    .push(Arc::clone(&slot)),
            }
        }
        drop(hub);
        let shared = Arc::clone(self);
        let namespace = namespace.map(Arc::from);
        Ok(Watch { shared, slot, collection: collection.clone(), namespace })
    }

    fn forget(&self, watch: &Watch) {
        let mut hub = self.hub.lock();
        let Some(channel) = hub.channels.get_mut(&watch.collection) else { return };
        let others = |slot: &Arc<Slot>| !Arc::ptr_eq(slot, &watch.slot);
        match &watch.namespace {
            None => channel.everywhere.retain(others),
            Some(namespace) => {
                if let Some(slots) = channel.by_namespace.get_mut(namespace) {
                    slots.retain(others);
                    if slots.is_empty() {
                        channel.by_namespace.remove(namespace);
                    }
                }
            }
        }
    }
}

/// One watcher's queue, filled by the writer and emptied by the [`Watch`].
#[derive(Debug)]
struct Slot {
    queue: Mutex<Queue>,
    filled: Notify,
}

#[derive(Debug)]
struct Queue {
    events: VecDeque<Arc<Event>>,
    /// How many of `events` came from history: they are not the watcher's lag.
    replay: usize,
    /// The size of the other events.
    bytes: usize,
    end: Option<End>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Lagged,
    Closed,
}

impl Slot {
    fn new(events: VecDeque<Arc<Event>>) -> Self {
        let queue = Queue { replay: events.len(), events, bytes: 0, end: None };
        Self { queue: Mutex::new(queue), filled: Notify::new() }
    }

    /// Adds events, or ends the watch if there is no room: false if it ended.
    fn offer(&self, events: &[&Arc<Event>], limits: &Limits) -> bool {
        let mut queue = self.queue.lock();
        let open = events.iter().all(|event| queue.offer(event, limits));
        drop(queue);
        self.filled.notify_one();
        open
    }

    fn close(&self) {
        self.queue.lock().end.get_or_insert(End::Closed);
        self.filled.notify_one();
    }
}

impl Queue {
    fn offer(&mut self, event: &Arc<Event>, limits: &Limits) -> bool {
        let lag = self.events.len().saturating_sub(self.replay);
        let bytes = self.bytes.saturating_add(event.bytes());
        // A single event is always welcome, however large it is.
        if lag > 0 && (lag >= limits.watch_events || bytes > limits.watch_bytes) {
            *self = Self { events: VecDeque::new(), replay: 0, bytes: 0, end: Some(End::Lagged) };
            return false;
        }
        self.events.push_back(Arc::clone(event));
        self.bytes = bytes;
        true
    }

    fn pop(&mut self) -> Option<Arc<Event>> {
        let event = self.events.pop_front()?;
        match self.replay.checked_sub(1) {
            Some(left) => self.replay = left,
            None => self.bytes = self.bytes.saturating_sub(event.bytes()),
        }
        Some(event)
    }
}

/// The events of one collection, or one namespace of it, from a revision on.
#[derive(Debug)]
pub struct Watch {
    shared: Arc<Shared>,
    slot: Arc<Slot>,
    collection: Collection,
    namespace: Option<Arc<str>>,
}

impl Watch {
    /// The next event in revision order, waiting for one if need be.
    ///
    /// `None` means that the store was shut down, or that [`Lagged`] has been
    /// reported. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Result<Arc<Event>, Lagged>> {
        loop {
            if let Some(ready) = self.poll_queue() {
                return ready;
            }
            self.slot.filled.notified().await;
        }
    }

    fn poll_queue(&mut self) -> Option<Option<Result<Arc<Event>, Lagged>>> {
        let mut queue = self.slot.queue.lock();
        if let Some(event) = queue.pop() {
            return Some(Some(Ok(event)));
        }
        match queue.end? {
            End::Lagged => {
                queue.end = Some(End::Closed);
                Some(Some(Err(Lagged)))
            }
            End::Closed => Some(None),
        }
    }

    /// The revision up to which this watch has yielded everything there was;
    /// `None` while events are waiting or after the end.
    pub fn progress(&self) -> Option<Revision> {
        let _hub = self.shared.hub.lock();
        let queue = self.slot.queue.lock();
        let idle = queue.events.is_empty() && queue.end.is_none();
        idle.then(|| self.shared.state.load().revision)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.forget(self);
    }
}
