//! How does a watch tell what happens?
//!
//! ```text
//! existing objects as ADDED  ->  (bookmark: initial events end)  ->  changes, bookmarks  ->  end
//!      only without a revision         only for streaming lists         until the timeout
//! ```
//!
//! A selector turns changes into arrivals and departures: an object that stops matching is
//! DELETED for this watcher, one that starts matching is ADDED. The store's queue is bounded; a
//! watcher that does not keep up finds its stream closed and starts again where it was.

mod frame;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt, stream};
use tokio::time::{Instant, sleep_until};

use self::frame::Frames;
use super::call::Call;
use super::kinds::Storage;
use super::list;
use super::metrics::Watching;
use super::negotiate::{self, Shapes};
use super::query::ListOptions;
use super::respond;
use super::select::Filter;
use super::status::Status;
use crate::store::{Event, EventKind, Lagged, Revision, Stored, Watch, WatchError};

/// Events that are ready together leave together, up to about this many bytes.
const CHUNK: usize = 64 << 10;

/// How often an idle watcher learns how far it has come.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);

/// Watches without a timeout of their own end after this long, and up to twice that.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1800);

pub(super) fn watch(call: &Call, options: &ListOptions) -> Result<Response, Status> {
    let answer = negotiate::accept(&call.headers, false, Shapes::Watch)?;
    let mut filter = list::filter(call, options)?;
    if let Some(name) = &call.target.name {
        filter.require_name(name);
    }
    let frames = Frames::new(call, answer.view);
    let (initial, watch, skip) = match start(call, options) {
        Ok(parts) => parts,
        Err(Failure::Request(status)) => return Err(status),
        Err(Failure::Stream(status)) => {
            let body = Body::from(frame::error(&status).freeze());
            return Ok(respond::body(StatusCode::OK, "application/json", body));
        }
    };
    let ends_initial = options.send_initial_events == Some(true) && options.allow_bookmarks;
    let now = Instant::now();
    let feed = Feed {
        initial_end: ends_initial.then_some(skip),
        initial: initial.into_iter(),
        watch,
        filter,
        frames,
        skip,
        bookmarks: options.allow_bookmarks.then(|| now + BOOKMARK_PERIOD),
        deadline: now + timeout(options),
        closing: call.server.closing(),
        _counted: call.server.metrics().watching(&call.served.plural),
    };
    let chunks = stream::unfold(Some(feed), |feed| async move {
        let mut feed = feed?;
        let (chunk, more) = feed.next_chunk().await;
        if chunk.is_empty() {
            return None;
        }
        Some((Ok::<Bytes, std::convert::Infallible>(chunk), more.then_some(feed)))
    });
    Ok(respond::body(StatusCode::OK, "application/json", Body::from_stream(chunks)))
}

fn timeout(options: &ListOptions) -> Duration {
    match options.timeout_seconds {
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds),
        // Spread out, so that watches that began together do not end together.
        _ => DEFAULT_TIMEOUT + Duration::from_millis(u64::from(random()) % 1_800_000),
    }
}

fn random() -> u32 {
    let (_, low) = uuid::Uuid::new_v4().as_u64_pair();
    u32::try_from(low & u64::from(u32::MAX)).unwrap_or(0)
}

enum Failure {
    /// The request itself is wrong.
    Request(Status),
    /// The watch is told in its own stream, as an `ERROR` event.
    Stream(Status),
}

type Parts = (Vec<Stored>, Watch, Revision);

/// The objects to begin with, the events that follow, and the revision up to which those are
/// known already.
fn start(call: &Call, options: &ListOptions) -> Result<Parts, Failure> {
    let Storage::Stored { collection, .. } = &call.served.storage else {
        return Err(Failure::Request(Status::method_not_allowed()));
    };
    let store = call.server.store();
    let namespace = call.target.namespace.as_deref();
    let asked = list::revision(&options.resource_version).map_err(|_| {
        let text = &options.resource_version;
        Failure::Request(Status::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "",
            format!(
                "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: \
                 invalid syntax"
            ),
        ))
    })?;
    let current = store.revision();
    let begins_with_state = match options.send_initial_events {
        Some(wanted) => wanted,
        None => asked.is_none(),
    };
    if begins_with_state {
        if let Some(asked) = asked
            && asked > current
        {
            return Err(Failure::Stream(Status::too_large_resource_version(asked.0, current.0)));
        }
        let snapshot = store.list(collection, namespace);
        let at = snapshot.revision;
        let watch = store.watch(collection, namespace, at).map_err(|error| expired(at, error))?;
        return Ok((snapshot.iter().collect(), watch, at));
    }
    let from = asked.unwrap_or(current);
    // A revision from the future: wait for it, and say nothing about what comes before.
    let begin = from.min(current);
    let watch = store.watch(collection, namespace, begin).map_err(|error| expired(from, error))?;
    Ok((Vec::new(), watch, from))
}

fn expired(asked: Revision, error: WatchError) -> Failure {
    Failure::Stream(match error {
        WatchError::Compacted { oldest } => {
            Status::expired(format!("too old resource version: {asked} ({oldest})"))
        }
        WatchError::Future { current } => Status::too_large_resource_version(asked.0, current.0),
    })
}

/// One watcher.
struct Feed {
    initial: std::vec::IntoIter<Stored>,
    /// The revision of the initial objects, when the client wants to hear that they are complete.
    initial_end: Option<Revision>,
    watch: Watch,
    filter: Filter,
    frames: Frames,
    skip: Revision,
    /// When the next bookmark is due.
    bookmarks: Option<Instant>,
    deadline: Instant,
    /// Becomes true when the server stops.
    closing: tokio::sync::watch::Receiver<bool>,
    _counted: Watching,
}

/// What ends a watcher's wait.
enum Wake {
    Event(Option<Result<Arc<Event>, Lagged>>),
    Bookmark,
    End,
}

impl Feed {
    /// The next piece of the stream, and whether more may follow. Empty at the very end.
    async fn next_chunk(&mut self) -> (Bytes, bool) {
        let mut chunk = BytesMut::new();
        for stored in self.initial.by_ref() {
            if self.filter.matches(&stored.key, &stored.json) {
                self.frames.push(&mut chunk, "ADDED", &stored.json);
            }
            if chunk.len() >= CHUNK {
                return (chunk.freeze(), true);
            }
        }
        if let Some(revision) = self.initial_end.take() {
            self.frames.bookmark(&mut chunk, revision, true);
        }
        loop {
            let wake = match self.watch.next().now_or_never() {
                Some(ready) => Wake::Event(ready),
                None if !chunk.is_empty() => return (chunk.freeze(), true),
                None => self.wait().await,
            };
            match wake {
                Wake::Event(Some(Ok(event))) => self.push(&mut chunk, &event),
                // Fallen behind, or the store stops: the client comes back on its own.
                Wake::Event(Some(Err(_)) | None) => return (chunk.freeze(), false),
                Wake::Bookmark => self.bookmark(&mut chunk),
                Wake::End => return self.last_chunk(),
            }
            if chunk.len() >= CHUNK {
                return (chunk.freeze(), true);
            }
        }
    }

    async fn wait(&mut self) -> Wake {
        let bookmark = self.bookmarks.unwrap_or(self.deadline);
        let closing = async {
            // An error means that the server is gone, which is an end as well.
            let _ = self.closing.wait_for(|closing| *closing).await;
        };
        tokio::select! {
            event = self.watch.next() => Wake::Event(event),
            () = sleep_until(self.deadline) => Wake::End,
            () = closing => Wake::End,
            () = sleep_until(bookmark), if bookmark < self.deadline => Wake::Bookmark,
        }
    }

    /// A timeout ends the stream with a last word on how far it came.
    fn last_chunk(&mut self) -> (Bytes, bool) {
        let mut chunk = BytesMut::new();
        if self.bookmarks.is_some() {
            self.bookmark(&mut chunk);
        }
        (chunk.freeze(), false)
    }

    fn bookmark(&mut self, chunk: &mut BytesMut) {
        self.bookmarks = Some(Instant::now() + BOOKMARK_PERIOD);
        if let Some(revision) = self.watch.progress() {
            self.frames.bookmark(chunk, revision.max(self.skip), false);
        }
    }

    fn push(&mut self, chunk: &mut BytesMut, event: &Event) {
        if event.revision() <= self.skip {
            return;
        }
        let (key, json) = (&event.object.key, &event.object.json);
        if self.filter.is_empty() {
            self.frames.push(chunk, word(event.kind), json);
            return;
        }
        if !self.filter.matches_key(key) {
            return;
        }
        let before = event.previous.as_ref().is_some_and(|old| self.filter.matches(key, old));
        let after = event.kind != EventKind::Deleted && self.filter.matches(key, json);
        match (before, after) {
            (false, true) => self.frames.push(chunk, "ADDED", json),
            (true, true) => self.frames.push(chunk, "MODIFIED", json),
            (true, false) if event.kind == EventKind::Deleted => {
                self.frames.push(chunk, "DELETED", json);
            }
            (true, false) => {
                // The watcher sees the object as it last matched, at the revision of the change.
                let old = event.previous.as_deref().unwrap_or(json);
                self.frames.departed(chunk, old, event.revision());
            }
            (false, false) => {}
        }
    }
}

fn word(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Added => "ADDED",
        EventKind::Modified => "MODIFIED",
        EventKind::Deleted => "DELETED",
    }
}
