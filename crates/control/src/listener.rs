//! Answers HTTP requests, with or without TLS, until told to stop.
//!
//! Everything a client can hold on to has a limit: connections, the time for a
//! handshake, for headers and for a body, and the size of the body.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

/// Further connections wait in the kernel's queue.
const CONNECTIONS: usize = 1024;
const HANDSHAKE: Duration = Duration::from_secs(10);
const HEADERS: Duration = Duration::from_secs(10);
const BODY: Duration = Duration::from_secs(10);
/// How long requests in flight may take after we were told to stop.
const GRACE: Duration = Duration::from_secs(3);
/// Two objects as large as an API server takes, and room to spare.
const BODY_BYTES: usize = 8 << 20;

pub(crate) type Reply = Response<Full<Bytes>>;

/// Whoever has the answers.
pub(crate) trait Answers: Send + Sync + 'static {
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Reply> + Send;
}

/// A reply with a text.
pub(crate) fn text(status: StatusCode, body: impl Into<String>) -> Reply {
    reply(status, "text/plain; charset=utf-8", Bytes::from(body.into()))
}

pub(crate) fn reply(status: StatusCode, kind: &'static str, body: Bytes) -> Reply {
    let mut reply = Response::new(Full::new(body));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    reply
}

/// The whole body, or the status that says why there is none.
pub(crate) async fn body(request: Request<Incoming>) -> Result<Bytes, StatusCode> {
    let collecting = Limited::new(request.into_body(), BODY_BYTES).collect();
    match timeout(BODY, collecting).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            Err(StatusCode::PAYLOAD_TOO_LARGE)
        }
        Ok(Err(_)) => Err(StatusCode::BAD_REQUEST),
        Err(_) => Err(StatusCode::REQUEST_TIMEOUT),
    }
}

/// Serves until told to stop, then lets what is in flight finish.
pub(crate) async fn serve<A: Answers>(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    answers: Arc<A>,
    shutdown: CancellationToken,
) {
    let acceptor = tls.map(TlsAcceptor::from);
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let graceful = Arc::new(GracefulShutdown::new());
    let handshakes = tokio_util::task::TaskTracker::new();
    loop {
        let place = tokio::select! {
            () = shutdown.cancelled() => break,
            place = places.clone().acquire_owned() => place,
        };
        let stream = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    // An answer must not wait until the client has confirmed the one before. A
                    // socket that refuses is closing, which shows soon enough.
                    let _ = stream.set_nodelay(true);
                    stream
                }
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    // Out of descriptors, most likely; trying at once would only spin.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
        };
        let (acceptor, answers, watcher) = (acceptor.clone(), answers.clone(), graceful.watcher());
        handshakes.spawn(async move {
            let _place = place;
            match acceptor {
                None => converse(stream, answers, watcher).await,
                Some(acceptor) => match timeout(HANDSHAKE, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => converse(stream, answers, watcher).await,
                    Ok(Err(error)) => debug!(%error, "a client gave up during the handshake"),
                    Err(_) => debug!("a client took too long for the handshake"),
                },
            }
        });
    }
    drop(listener);
    handshakes.close();
    if let Ok(graceful) = Arc::try_unwrap(graceful) {
        let _ = timeout(GRACE, graceful.shutdown()).await;
    }
}

async fn converse<A: Answers>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    answers: Arc<A>,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let service = service_fn(move |request| {
        let answers = answers.clone();
        async move { Ok::<_, std::convert::Infallible>(answers.answer(request).await) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(Duration::from_secs(30));
    let conversation = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    if let Err(error) = watcher.watch(conversation).await {
        debug!(%error, "a connection ended early");
    }
}
