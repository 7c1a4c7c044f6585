//! What is on disk, and when is it safe?
//!
//! A store is a directory: `objects.redb`, the database, and `lock`, which says
//! who holds it. The database has three tables:
//!
//! | table | key | value |
//! |---|---|---|
//! | `objects` | `group/resource/namespace/name` | revision (8 bytes, little endian), JSON |
//! | `collections` | `group/resource` | revision of its last change |
//! | `meta` | `format`, `revision`, `cluster-id` | text |
//!
//! No part of a key contains a slash, so keys are unambiguous, and they sort as
//! listings do. A batch of writes is one transaction with one sync: after a
//! crash it is there as a whole or not at all.
//!
//! Watch history is not kept. After a restart a watch can start from the last
//! change of its collection (hence `collections`) or later; from an earlier
//! revision it is told that history is compacted, as after a restart of
//! kube-apiserver, and lists again. Keeping history would double every write for
//! the sake of a listing.

mod layout;
mod lock;
mod medium;

use std::{
    collections::HashSet,
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use redb::Database;
use uuid::Uuid;

use self::{lock::Lock, medium::Medium};
use super::{
    error::{OpenError, StorageError},
    event::Change,
    key::{Key, Revision},
    state::State,
};

/// Pages that redb keeps. Objects are in memory anyway, so this is little more
/// than the inner nodes of the tree and one batch.
const CACHE_BYTES: usize = 16 << 20;

/// An open database and the file under it.
#[derive(Debug)]
struct Open {
    database: Database,
    medium: Medium,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.medium.seal();
    }
}

#[derive(Debug)]
pub(super) struct Disk {
    path: PathBuf,
    /// Closed after a failure; the next write opens it again.
    open: Option<Open>,
    /// Objects of batches that failed and may be on disk all the same.
    unsettled: HashSet<Key>,
    /// Last, so that the database is closed before somebody else may open it.
    lock: Lock,
}

impl Disk {
    /// Opens the store in a directory, or makes a new one if there is none.
    pub(super) fn open(dir: &Path) -> Result<(Self, State, Uuid), OpenError> {
        let io_error = |path: &Path, source| OpenError::Io { path: path.to_owned(), source };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(|source| io_error(dir, source))?;
        let (lock, acknowledged) = Lock::acquire(dir)?;
        let path = dir.join("objects.redb");
        let exists = path.try_exists().map_err(|source| io_error(&path, source))?;
        match acknowledged {
            None if !exists => create(dir, &path)?,
            Some(acknowledged) if !exists => return Err(OpenError::Gone { path, acknowledged }),
            _ => {}
        }

        let open = verify(&path)?;
        let (state, cluster_id) = layout::load(&open.database, &path)?;
        if let Some(acknowledged) = acknowledged
            && state.revision < acknowledged
        {
            return Err(OpenError::Behind { path, found: state.revision, acknowledged });
        }
        open.medium.release().map_err(|source| io_error(&path, source))?;
        layout::touch(&open.database).map_err(|error| damage(&path, error))?;
        lock.acknowledge(state.revision);
        Ok((Self { path, open: Some(open), unsettled: HashSet::new(), lock }, state, cluster_id))
    }

    /// Makes a batch durable: all of it, or the caller must take it back.
    pub(super) fn commit(
        &mut self,
        before: &State,
        after: &State,
        changes: &[Change],
    ) -> Result<(), StorageError> {
        match self.try_commit(before, after, changes) {
            Ok(()) => {
                self.unsettled.clear();
                self.lock.acknowledge(after.revision);
                Ok(())
            }
            Err(source) => {
                // redb refuses all work after an I/O error until it is opened anew.
                self.open = None;
                let keys = changes.iter().map(|change| change.event.object.key.clone());
                self.unsettled.extend(keys);
                Err(StorageError { path: self.path.clone(), source: Arc::new(source) })
            }
        }
    }

    fn try_commit(
        &mut self,
        before: &State,
        after: &State,
        changes: &[Change],
    ) -> Result<(), io::Error> {
        let open = match &mut self.open {
            Some(open) => open,
            closed => closed.insert(reopen(&self.path, before.revision)?),
        };
        layout::write(&open.database, before, after, changes, &self.unsettled).map_err(io_cause)
    }
}

/// Makes an empty database. It gets its name when it is complete, so a crash in
/// between leaves nothing that looks like a store.
fn create(dir: &Path, path: &Path) -> Result<(), OpenError> {
    let draft = path.with_extension("redb.new");
    let io_error = |source| OpenError::Io { path: draft.clone(), source };
    let file = open_options().create(true).truncate(true).open(&draft).map_err(io_error)?;
    let medium = Medium::writing(file);
    let database = builder()
        .create_with_backend(medium.clone())
        .map_err(|error| damage(&draft, error.into()))?;
    let open = Open { database, medium };
    layout::initialise(&open.database, Uuid::new_v4()).map_err(|error| damage(&draft, error))?;
    drop(open);
    fs::rename(&draft, path).map_err(io_error)?;
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(io_error)
}

/// Opens a database without changing its file, and checks every page of it.
fn verify(path: &Path) -> Result<Open, OpenError> {
    let io_error = |source| OpenError::Io { path: path.to_owned(), source };
    let file = open_options().open(path).map_err(io_error)?;
    if file.metadata().map_err(io_error)?.len() == 0 {
        return Err(OpenError::Damaged { path: path.to_owned(), reason: "it is empty".into() });
    }
    let medium = Medium::noting(file).map_err(io_error)?;
    let database = builder()
        .create_with_backend(medium.clone())
        .map_err(|error| damage(path, error.into()))?;
    Ok(Open { database, medium })
}

/// Opens the database again after a failure, in the middle of its life.
fn reopen(path: &Path, published: Revision) -> Result<Open, io::Error> {
    let open = verify(path).map_err(io::Error::other)?;
    let found = layout::revision(&open.database).map_err(io_cause)?;
    if found < published {
        let lost = OpenError::Behind { path: path.to_owned(), found, acknowledged: published };
        return Err(io::Error::other(lost));
    }
    open.medium.release()?;
    Ok(open)
}

fn builder() -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

fn open_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

/// Tells a file that cannot be read from one that does not make sense.
fn damage(path: &Path, error: redb::Error) -> OpenError {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    match error {
        redb::Error::Io(source)
            if !matches!(source.kind(), InvalidData | InvalidInput | UnexpectedEof) =>
        {
            OpenError::Io { path: path.to_owned(), source }
        }
        error => OpenError::Damaged { path: path.to_owned(), reason: Box::new(error) },
    }
}

fn io_cause(error: redb::Error) -> io::Error {
    match error {
        redb::Error::Io(source) => source,
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::{
        body::Body,
        key::Collection,
        state::{Intent, Stored},
    };

    fn key(resource: &str, name: &str) -> Key {
        Key::new(&Collection::new("", resource), "ns", name)
    }

    fn apply(state: &mut State, key: &Key, intent: Intent, value: u64) -> Change {
        let body = Body::new(json!({ "value": value }), 1_000).unwrap();
        state.apply(key, intent, &body).unwrap()
    }

    fn content(state: &State) -> Vec<Stored> {
        let collections = state.tables.keys();
        collections.flat_map(|name| state.snapshot(name, None).iter().collect::<Vec<_>>()).collect()
    }

    /// A failed sync does not say whether the batch is on disk. It was refused,
    /// so the next batch must take it back.
    #[test]
    fn a_refused_batch_that_reached_the_disk_is_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let (mut disk, empty, _) = Disk::open(dir.path()).unwrap();
        let [kept, removed, added] = ["kept", "removed", "added"].map(|name| key("pods", name));
        let elsewhere = key("nodes", "added");
        let mut before = empty.clone();
        let first = apply(&mut before, &kept, Intent::Create, 1);
        let second = apply(&mut before, &removed, Intent::Create, 2);
        disk.commit(&empty, &before, &[first, second]).unwrap();

        let mut refused = before.clone();
        let expected = |key| before.get(key).unwrap().revision;
        let changes = [
            apply(&mut refused, &kept, Intent::Replace { expected: expected(&kept) }, 3),
            apply(&mut refused, &removed, Intent::Remove { expected: expected(&removed) }, 2),
            apply(&mut refused, &added, Intent::Create, 4),
            apply(&mut refused, &elsewhere, Intent::Create, 5),
        ];
        let open = disk.open.take().unwrap();
        layout::write(&open.database, &before, &refused, &changes, &HashSet::new()).unwrap();
        drop(open);
        disk.unsettled.extend(changes.iter().map(|change| change.event.object.key.clone()));

        let mut after = before.clone();
        let change = apply(&mut after, &key("pods", "next"), Intent::Create, 6);
        disk.commit(&before, &after, &[change]).unwrap();
        assert!(disk.unsettled.is_empty());
        drop(disk);
        let (_disk, found, _) = Disk::open(dir.path()).unwrap();
        assert_eq!((found.revision, content(&found)), (after.revision, content(&after)));
        assert_eq!(found.tables.len(), 1, "the other collection never was");
    }

    #[test]
    fn a_file_that_lost_published_writes_stays_closed() {
        let dir = tempfile::tempdir().unwrap();
        let (mut disk, empty, _) = Disk::open(dir.path()).unwrap();
        let mut published = empty;
        apply(&mut published, &key("pods", "lost"), Intent::Create, 1);
        let mut after = published.clone();
        let change = apply(&mut after, &key("pods", "next"), Intent::Create, 2);
        disk.open = None;
        let error = disk.commit(&published, &after, &[change]).unwrap_err();
        assert!(error.source.to_string().contains("ends at revision 1"), "{}", error.source);
        assert!(disk.open.is_none());
    }
}
