//! What can go wrong, and what should the caller do about it?

use std::io;

use super::{
    key::{KeyError, Revision},
    state::Stored,
};

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot start the store's writer thread")]
    Thread(#[source] io::Error),
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
