//! Where do objects live, and in which order did they change?
//!
//! A [`Store`] keeps every object in memory as compact JSON and gives each write
//! the next global [`Revision`]. Reads answer from an immutable state and never
//! wait; writes go through one thread, in order, many at a time, and are answered
//! when they are on disk.
//!
//! ```text
//! create/replace/remove ──> writer ──> disk ──> state, history, watchers ──> answer
//!              get, list ───────────────────────^        ^── watch, snapshot_at
//! ```

mod body;
mod disk;
mod error;
mod event;
mod history;
mod key;
mod state;
mod watch;
mod writer;

use std::{path::Path, sync::Arc};

use serde_json::Value;
use tokio::sync::oneshot;
use uuid::Uuid;

use self::{
    body::Body,
    disk::Disk,
    state::{Intent, State},
    watch::Shared,
    writer::{Write, Writer},
};
pub use self::{
    error::{Expired, Lagged, OpenError, StorageError, WatchError, WriteError},
    event::{Event, EventKind},
    key::{Collection, Key, KeyError, Revision},
    state::{Snapshot, Stored},
    watch::Watch,
};

/// What the store may spend.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The largest object, in bytes of JSON.
    pub object_bytes: usize,
    /// Changes that a collection remembers, for watches and continued listings.
    pub history_events: usize,
    /// Bytes that those changes may keep alive.
    pub history_bytes: usize,
    /// Events that may wait for a watcher.
    pub watch_events: usize,
    /// Bytes that those events may keep alive.
    pub watch_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            object_bytes: 3 << 20,
            history_events: 32_768,
            history_bytes: 64 << 20,
            watch_events: 8_192,
            watch_bytes: 32 << 20,
        }
    }
}

/// An object to remove.
#[derive(Debug)]
pub struct Removal {
    pub key: Key,
    /// What watchers see as its final state.
    pub last: Value,
    /// The revision it must still be at.
    pub expected: Revision,
}

/// A handle to the store; clones share it.
///
/// When the last handle goes, it waits until queued writes are finished and the
/// directory is released.
#[derive(Debug, Clone)]
pub struct Store {
    shared: Arc<Shared>,
    writer: Arc<Writer>,
    cluster_id: Uuid,
}

impl Store {
    /// A store that is gone with its last handle.
    pub fn in_memory(limits: Limits) -> Result<Self, OpenError> {
        Self::start(State::empty(), Uuid::new_v4(), None, limits)
    }

    /// The store in a directory, which is made if it is not there.
    ///
    /// Reads the whole store, so an async caller wants a blocking thread for it.
    pub fn open(dir: &Path, limits: Limits) -> Result<Self, OpenError> {
        let (disk, state, cluster_id) = Disk::open(dir)?;
        Self::start(state, cluster_id, Some(disk), limits)
    }

    fn start(
        state: State,
        cluster_id: Uuid,
        disk: Option<Disk>,
        limits: Limits,
    ) -> Result<Self, OpenError> {
        let shared = Arc::new(Shared::new(state, limits));
        let writer = Writer::spawn(Arc::clone(&shared), disk).map_err(OpenError::Thread)?;
        Ok(Self { shared, writer: Arc::new(writer), cluster_id })
    }

    /// Drawn when the store was made; it tells this cluster from every other.
    pub fn cluster_id(&self) -> Uuid {
        self.cluster_id
    }

    pub fn revision(&self) -> Revision {
        self.shared.state().revision
    }

    pub fn get(&self, key: &Key) -> Option<Stored> {
        self.shared.state().get(key)
    }

    /// A consistent view of a collection, or of one namespace of it.
    pub fn list(&self, collection: &Collection, namespace: Option<&str>) -> Snapshot {
        self.shared.state().snapshot(collection, namespace)
    }

    /// A collection as it was at an earlier revision, as far back as a watch
    /// could start.
    pub fn snapshot_at(
        &self,
        collection: &Collection,
        revision: Revision,
    ) -> Result<Snapshot, Expired> {
        self.shared.snapshot_at(collection, revision)
    }

    /// Adds an object that is not there yet.
    pub async fn create(&self, key: Key, object: Value) -> Result<Stored, WriteError> {
        self.write(key, Intent::Create, object).await
    }

    /// Writes over an object that is still at `expected`.
    pub async fn replace(
        &self,
        key: Key,
        object: Value,
        expected: Revision,
    ) -> Result<Stored, WriteError> {
        self.write(key, Intent::Replace { expected }, object).await
    }

    /// Removes an object that is still at `expected`; watchers see `last` as its
    /// final state, at the revision of the removal.
    pub async fn remove(
        &self,
        key: Key,
        last: Value,
        expected: Revision,
    ) -> Result<Stored, WriteError> {
        self.write(key, Intent::Remove { expected }, last).await
    }

    /// Removes objects as [`Store::remove`] does, many at a time: what is removed together is on
    /// disk with one sync. Says for each what came of it.
    pub async fn remove_all(
        &self,
        removals: Vec<Removal>,
    ) -> Result<Vec<Result<Stored, WriteError>>, WriteError> {
        let mut outcomes = Vec::with_capacity(removals.len());
        let mut rest = removals.into_iter();
        loop {
            let mut waiting = Vec::new();
            let mut writes = Vec::new();
            for Removal { key, last, expected } in rest.by_ref().take(writer::BATCH_WRITES) {
                let (write, outcome) = self.draft(key, Intent::Remove { expected }, last)?;
                writes.push(write);
                waiting.push(outcome);
            }
            if writes.is_empty() {
                return Ok(outcomes);
            }
            self.writer.send(writes).await?;
            for outcome in waiting {
                outcomes.push(outcome.await.map_err(|_| WriteError::Closed)?);
            }
        }
    }

    /// Every event after `from`, first from history and then as it happens.
    pub fn watch(
        &self,
        collection: &Collection,
        namespace: Option<&str>,
        from: Revision,
    ) -> Result<Watch, WatchError> {
        self.shared.watch(collection, namespace, from)
    }

    /// Finishes queued writes, ends all watches and releases the directory. Reads
    /// go on, later writes are refused.
    pub async fn shutdown(&self) {
        self.writer.shutdown().await;
    }

    /// Dropping the future does not take the write back.
    async fn write(&self, key: Key, intent: Intent, object: Value) -> Result<Stored, WriteError> {
        let (write, outcome) = self.draft(key, intent, object)?;
        self.writer.send(vec![write]).await?;
        outcome.await.map_err(|_| WriteError::Closed)?
    }

    /// A write, and where its outcome will be.
    fn draft(
        &self,
        key: Key,
        intent: Intent,
        object: Value,
    ) -> Result<(Write, oneshot::Receiver<Result<Stored, WriteError>>), WriteError> {
        key.check()?;
        let body = Body::new(object, self.shared.limits.object_bytes)?;
        let (answer, outcome) = oneshot::channel();
        Ok((Write { key, intent, body, answer }, outcome))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_watcher_sees_history_and_then_what_follows() {
        let store = Store::in_memory(Limits::default()).unwrap();
        let pods = Collection::new("", "pods");
        let web = Key::new(&pods, "shop", "web");
        assert_eq!(store.revision(), Revision(1));
        let created = store.create(web.clone(), json!({"spec": {}})).await.unwrap();
        assert_eq!(created.revision, Revision(2));
        assert_eq!(&*created.json, br#"{"metadata":{"resourceVersion":"2"},"spec":{}}"#);
        assert!(matches!(store.create(web.clone(), json!({})).await, Err(WriteError::Exists)));

        let mut watch = store.watch(&pods, Some("shop"), Revision(1)).unwrap();
        assert_eq!(watch.progress(), None);
        assert_eq!(watch.next().await.unwrap().unwrap().object, created);
        assert_eq!(watch.progress(), Some(Revision(2)));

        let removed = store.remove(web.clone(), json!({}), created.revision).await.unwrap();
        let event = watch.next().await.unwrap().unwrap();
        assert_eq!((event.kind, &event.object), (EventKind::Deleted, &removed));
        assert_eq!(event.previous.as_ref(), Some(&created.json));
        assert_eq!(store.list(&pods, None).len(), 0);
        let before = store.snapshot_at(&pods, created.revision).unwrap();
        assert_eq!(before.iter().collect::<Vec<_>>(), [created]);

        store.shutdown().await;
        assert!(watch.next().await.is_none());
    }
}
