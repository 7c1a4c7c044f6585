//! What does the console serve?
//!
//! | path | what |
//! |---|---|
//! | `/` and a few files | the pages, embedded in the program |
//! | `/api/...` | what they show, as JSON |
//! | `/api/live` | one event for each new version of the view |
//! | `/api/switch` | the off switch: the only thing that is not a GET |
//! | `/metrics`, `/healthz` | for programs |
//!
//! Everyone who reaches the port may read, so it is on loopback unless somebody says otherwise. On
//! loopback only requests for a loopback name are answered: a web site that points a name of its
//! own at this address gets nothing. Names from the cluster leave as JSON strings and become text
//! nodes; scripts come from this server's own files and from nowhere else.

mod assets;
mod live;
mod switch;
mod views;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use reconcile::listen::{self, Limits};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::feed::Feed;
pub use switch::Door;

/// Browsers that may listen at the same time.
const LISTENERS: usize = 64;

/// Nothing but our own files, no frames, no forms, no plug-ins.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// The console of one cluster.
#[derive(Debug, Clone)]
pub struct Console {
    pub feed: Feed,
    /// `None` leaves the off switch out.
    pub door: Option<Door>,
}

#[derive(Debug, Clone)]
struct Shown {
    feed: Feed,
    door: Option<Door>,
    listeners: Arc<Semaphore>,
    shutdown: CancellationToken,
    /// Whether only loopback names may ask.
    is_local: bool,
}

impl Console {
    /// Serves until told to stop.
    pub async fn serve(self, listener: TcpListener, shutdown: CancellationToken) -> io::Result<()> {
        let is_local = listener.local_addr()?.ip().is_loopback();
        let router = self.router(is_local, shutdown.clone());
        listen::serve_router(listener, None, router, Limits::of_pages(), shutdown).await;
        Ok(())
    }

    /// The routes, for a server or for a test.
    pub fn router(self, is_local: bool, shutdown: CancellationToken) -> Router {
        let Self { feed, door } = self;
        let listeners = Arc::new(Semaphore::new(LISTENERS));
        let shown = Shown { feed, door, listeners, shutdown, is_local };
        let mut router = Router::new()
            .route("/api/overview", get(views::overview))
            .route("/api/nodes", get(views::nodes))
            .route("/api/nodes/{name}", get(views::node))
            .route("/api/pods", get(views::pods))
            .route("/api/pods/{namespace}/{name}", get(views::pod))
            .route("/api/decisions", get(views::decisions))
            .route("/api/replay/{name}", get(views::replay))
            .route("/api/config", get(views::config))
            .route("/api/benefit", get(views::benefit))
            .route("/api/live", get(live::listen))
            .route("/api/switch", post(switch::press))
            .route("/metrics", get(views::metrics))
            .route("/healthz", get(|| async { "ok\n" }));
        for asset in assets::ALL {
            router = router.route(asset.path, get(move |headers: HeaderMap| asset.answer(headers)));
        }
        router
            .fallback(|| async { (StatusCode::NOT_FOUND, "no such page\n") })
            .layer(middleware::from_fn_with_state(shown.clone(), guard))
            .with_state(shown)
    }
}

/// Longest body of a request, and how long it may take to come.
const BODY_BYTES: usize = 64 << 10;
const BODY: Duration = Duration::from_secs(10);

/// A request whose body is here; a client that does not send it gets the word instead.
async fn received(request: Request) -> Result<Request, StatusCode> {
    let (parts, body) = request.into_parts();
    match timeout(BODY, to_bytes(body, BODY_BYTES)).await {
        Ok(Ok(bytes)) => Ok(Request::from_parts(parts, Body::from(bytes))),
        Ok(Err(_)) => Err(StatusCode::PAYLOAD_TOO_LARGE),
        Err(_) => Err(StatusCode::REQUEST_TIMEOUT),
    }
}

/// Refuses names that are not ours, and tells browsers what pages may do.
async fn guard(State(shown): State<Shown>, request: Request, next: Next) -> Response {
    let mut response = match shown.is_local && !is_loopback_name(request.headers()) {
        true => {
            let text = "this console answers to localhost only\n";
            (StatusCode::MISDIRECTED_REQUEST, text).into_response()
        }
        false => match received(request).await {
            Ok(request) => next.run(request).await,
            Err(status) => status.into_response(),
        },
    };
    let headers = response.headers_mut();
    let own: [(HeaderName, &'static str); 5] = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in own {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// The host of a request without its port.
fn is_loopback_name(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST).and_then(|host| host.to_str().ok()) else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    matches!(name, "localhost" | "127.0.0.1" | "[::1]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_are_ours() {
        for (host, want) in [
            ("localhost", true),
            ("localhost:6481", true),
            ("127.0.0.1:6481", true),
            ("[::1]:6481", true),
            ("[::1]", true),
            ("evil.example:6481", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example:80", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static(host));
            assert_eq!(is_loopback_name(&headers), want, "{host:?}");
        }
        assert!(!is_loopback_name(&HeaderMap::new()));
    }
}
