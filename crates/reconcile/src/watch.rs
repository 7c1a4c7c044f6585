//! How does a process learn of objects, and does it know all of them?
//!
//! A [`Watch`] lists a kind, follows what happens to it and starts over when the API server has
//! lost the thread. It says the same five things to everyone:
//!
//! ```text
//! Relist  Applied Applied ... Listed   Applied Deleted ...   Refused   Relist ... Listed
//! ```
//!
//! An object that a list does not name is gone; [`Differences`] says which ones those are, and a
//! [`Cache`] keeps objects in memory with indexes and subscribers. [`One`] follows a single object.
//! While the API server is away, or does not serve a kind, the attempts go on with growing pauses.

mod cache;
mod differences;

use std::fmt::Debug;

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

pub use self::cache::{Cache, Change, controller_entry, version};
pub use self::differences::{Difference, Differences, ObjectId};
use crate::error::chain;

pub use kube::runtime::watcher::Config;

/// What a watch says.
#[derive(Debug)]
pub enum Update<K> {
    /// A list begins; the objects in it follow as `Applied`.
    Relist,
    /// The object is there, new or changed.
    Applied(K),
    Deleted(K),
    /// The list is complete: an object that it did not name is gone.
    Listed,
    /// The attempt failed, and the next one follows after a pause.
    Refused(Refusal),
}

/// Why a kind cannot be watched at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub reason: String,
    /// The API server does not have the kind: its definition is not installed.
    pub is_unserved: bool,
}

/// How far the first list of a kind has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum State {
    #[default]
    Pending,
    /// The last attempt failed; more are made.
    Refused,
    /// The API server does not have the kind; it is asked for again.
    Unserved,
    Listed,
}

impl State {
    /// The state after an update. A kind that was listed stays so: what is known is kept.
    pub fn after<K>(self, update: &Update<K>) -> Self {
        match update {
            Update::Listed => Self::Listed,
            Update::Refused(_) if self == Self::Listed => self,
            Update::Refused(refusal) if refusal.is_unserved => Self::Unserved,
            Update::Refused(_) => Self::Refused,
            Update::Relist | Update::Applied(_) | Update::Deleted(_) => self,
        }
    }
}

/// A list and what happens after it, until told to stop.
pub struct Watch<K> {
    events: BoxStream<'static, watcher::Result<Event<K>>>,
    /// Where the kind is served, for the log.
    path: String,
    is_refused: bool,
}

impl<K> Debug for Watch<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("path", &self.path).finish_non_exhaustive()
    }
}

impl<K: Resource + Clone + DeserializeOwned + Debug + Send + 'static> Watch<K> {
    pub fn new(api: Api<K>, config: Config, stop: CancellationToken) -> Self {
        let path = api.resource_url().to_owned();
        // Who wrote which field is a good part of an object, and nobody who watches looks at it.
        let events = watcher(api, config)
            .default_backoff()
            .modify(|object| object.meta_mut().managed_fields = None);
        let events = events.take_until(stop.cancelled_owned()).boxed();
        Self { events, path, is_refused: false }
    }

    /// Everything of a kind.
    pub fn all(api: Api<K>, stop: CancellationToken) -> Self {
        Self::new(api, Config::default(), stop)
    }

    /// The next update; none after the stop. Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Update<K>> {
        let update = match self.events.next().await? {
            Ok(Event::Init) => return Some(Update::Relist),
            Ok(Event::InitApply(object) | Event::Apply(object)) => Update::Applied(object),
            Ok(Event::Delete(object)) => Update::Deleted(object),
            Ok(Event::InitDone) => Update::Listed,
            Err(error) => {
                let refusal = refusal(&error);
                self.log(&refusal);
                Update::Refused(refusal)
            }
        };
        self.is_refused = matches!(update, Update::Refused(_));
        Some(update)
    }

    /// An outage is a warning once.
    fn log(&self, refusal: &Refusal) {
        let (path, error) = (&self.path, &refusal.reason);
        match (refusal.is_unserved, self.is_refused) {
            (true, false) => debug!(path, "the API server does not serve this kind"),
            (false, false) => warn!(path, error, "cannot watch; what is known stays"),
            (_, true) => debug!(path, error, "still cannot watch"),
        }
    }
}

fn refusal(error: &watcher::Error) -> Refusal {
    let is_unserved = matches!(
        error,
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) if status.code == 404
    );
    Refusal { reason: chain(error), is_unserved }
}

/// The one object of a name, as the API server last showed it.
#[derive(Debug)]
pub struct One<K> {
    watch: Watch<K>,
    /// What the list that is arriving has brought.
    listed: Option<K>,
    is_listing: bool,
}

impl<K: Resource + Clone + DeserializeOwned + Debug + Send + 'static> One<K> {
    pub fn new(api: Api<K>, name: &str, stop: CancellationToken) -> Self {
        let config = Config::default().fields(&format!("metadata.name={name}"));
        Self { watch: Watch::new(api, config, stop), listed: None, is_listing: false }
    }

    /// The object as it is now, or that there is none, or that nobody can tell; none after the
    /// stop. Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<Option<K>, Refusal>> {
        loop {
            match self.watch.next().await? {
                Update::Relist => {
                    self.listed = None;
                    self.is_listing = true;
                }
                Update::Applied(object) if self.is_listing => self.listed = Some(object),
                Update::Applied(object) => return Some(Ok(Some(object))),
                Update::Listed => {
                    self.is_listing = false;
                    return Some(Ok(self.listed.take()));
                }
                Update::Deleted(_) => return Some(Ok(None)),
                Update::Refused(refusal) => return Some(Err(refusal)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_was_listed_stays_listed() {
        let refused =
            |is_unserved| Update::<()>::Refused(Refusal { reason: String::new(), is_unserved });
        let cases = [
            (State::Pending, refused(false), State::Refused),
            (State::Pending, refused(true), State::Unserved),
            (State::Unserved, refused(false), State::Refused),
            (State::Unserved, Update::Relist, State::Unserved),
            (State::Refused, Update::Listed, State::Listed),
            (State::Listed, refused(false), State::Listed),
            (State::Listed, refused(true), State::Listed),
            (State::Listed, Update::Relist, State::Listed),
        ];
        for (before, update, want) in cases {
            assert_eq!(before.after(&update), want, "{before:?} and {update:?}");
        }
    }
}
