//! How does a page learn that there is something new?
//!
//! By server-sent events: `changed` with each new version of the view, `beat` every five seconds
//! so that silence is noticed. An event carries no data but the version; the page then asks for
//! what it shows. So nothing is lost with a connection, and a browser that comes back is at once
//! where everyone is.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Shown;

/// Between two beats.
const BEAT: Duration = Duration::from_secs(5);

struct Listener {
    versions: watch::Receiver<u64>,
    shutdown: CancellationToken,
    is_new: bool,
    _place: OwnedSemaphorePermit,
}

pub(super) async fn listen(State(shown): State<Shown>) -> Response {
    let Ok(place) = shown.listeners.clone().try_acquire_owned() else {
        let text = "too many browsers listen; this page still works, but only on reload\n";
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    };
    let listener = Listener {
        versions: shown.feed.versions(),
        shutdown: shown.shutdown,
        is_new: true,
        _place: place,
    };
    Sse::new(stream::unfold(listener, next)).into_response()
}

async fn next(mut listener: Listener) -> Option<(Result<Event, Infallible>, Listener)> {
    let name = if std::mem::take(&mut listener.is_new) {
        "changed"
    } else {
        tokio::select! {
            () = listener.shutdown.cancelled() => return None,
            changed = timeout(BEAT, listener.versions.changed()) => match changed {
                Ok(Ok(())) => "changed",
                Ok(Err(_)) => return None,
                Err(_) => "beat",
            },
        }
    };
    let version = listener.versions.borrow_and_update().to_string();
    Some((Ok(Event::default().event(name).id(&version).data(&version)), listener))
}
