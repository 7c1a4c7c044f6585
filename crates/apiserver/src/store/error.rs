//! What can go wrong, and what should the caller do about it?

use std::{error::Error, io, path::PathBuf, sync::Arc};

use super::{
    key::{KeyError, Revision},
    state::Stored,
};

/// Why a store cannot be opened. Whatever it is, its files are as they were.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{} is held by {}", path.display(), holder(*pid))]
    Locked { path: PathBuf, pid: Option<u32> },
    #[error("cannot open {}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is damaged; it was left as it is", path.display())]
    Damaged {
        path: PathBuf,
        #[source]
        reason: Box<dyn Error + Send + Sync>,
    },
    /// Damaged, or replaced by an older copy.
    #[error(
        "{} ends at revision {found}, but revision {acknowledged} was acknowledged; \
         it was left as it is",
        path.display()
    )]
    Behind { path: PathBuf, found: Revision, acknowledged: Revision },
    #[error("{} is missing, but revision {acknowledged} was acknowledged", path.display())]
    Gone { path: PathBuf, acknowledged: Revision },
    #[error("{} has format {found}: this version reads up to {known}", path.display())]
    NewerFormat { path: PathBuf, found: u64, known: u64 },
    #[error("cannot start the store's writer thread")]
    Thread(#[source] io::Error),
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

/// The disk refused a batch of writes. What was there before still is.
#[derive(Debug, Clone, thiserror::Error)]
#[error("cannot write to {}", path.display())]
pub struct StorageError {
    pub path: PathBuf,
    pub source: Arc<io::Error>,
}

/// Why a write did not happen.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("the object exists already")]
    Exists,
    #[error("the object does not exist")]
    Missing,
    /// Someone else wrote in between: read again, redo the change, try again.
    #[error("the object is at revision {}", current.revision)]
    Conflict { current: Stored },
    #[error("the object takes {bytes} bytes as JSON: at most {limit} are allowed")]
    TooLarge { bytes: usize, limit: usize },
    #[error("the object's key cannot be stored")]
    Key(#[from] KeyError),
    #[error("not a JSON object with a metadata object")]
    NotAnObject,
    #[error("cannot serialise the object")]
    Encoding(#[source] serde_json::Error),
    /// Nothing was changed; the next write may succeed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("the store is shut down")]
    Closed,
}

/// Why a watch cannot start at the revision asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// Events after that revision are forgotten: list again.
    #[error("history before revision {oldest} is compacted")]
    Compacted { oldest: Revision },
    /// The caller knows a revision that this store has not reached.
    #[error("revision is ahead of the store's, which is {current}")]
    Future { current: Revision },
}

/// Why a snapshot at the revision asked for cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Expired {
    /// Too much has changed since: list again from the start.
    #[error("history before revision {oldest} is compacted")]
    Compacted { oldest: Revision },
    /// The caller knows a revision that this store has not reached.
    #[error("revision is ahead of the store's, which is {current}")]
    Future { current: Revision },
}

/// The watcher read too slowly and its events were dropped: list again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the watcher fell too far behind")]
pub struct Lagged;
