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
#[cfg(test)]
mod tests;

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
        self.try_commit(before, after, changes)
            .map_err(|source| StorageError { path: self.path.clone(), source: Arc::new(source) })
    }

    fn try_commit(
        &mut self,
        before: &State,
        after: &State,
        changes: &[Change],
    ) -> Result<(), io::Error> {
        // redb refuses all work after an I/O error until it is opened anew: what
        // fails below is not put back.
        let open = match self.open.take() {
            Some(open) => open,
            None => {
                let (open, found) = reopen(&self.path, before.revision)?;
                if found == before.revision {
                    self.unsettled.clear();
                }
                open
            }
        };
        match layout::write(&open.database, before, after, changes, &self.unsettled) {
            Ok(()) => {
                self.open = Some(open);
                self.unsettled.clear();
                self.lock.acknowledge(after.revision);
                Ok(())
            }
            Err(error) => {
                let keys = changes.iter().map(|change| change.event.object.key.clone());
                self.unsettled.extend(keys);
                Err(io_cause(error))
            }
        }
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
    for dir in dir.ancestors().take(2).filter(|dir| !dir.as_os_str().is_empty()) {
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(io_error)?;
    }
    Ok(())
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

/// Opens the database again after a failure; also says at which revision it is.
fn reopen(path: &Path, published: Revision) -> Result<(Open, Revision), io::Error> {
    let open = verify(path).map_err(io::Error::other)?;
    let found = layout::revision(&open.database).map_err(io_cause)?;
    if found < published {
        let lost = OpenError::Behind { path: path.to_owned(), found, acknowledged: published };
        return Err(io::Error::other(lost));
    }
    open.medium.release()?;
    Ok((open, found))
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
