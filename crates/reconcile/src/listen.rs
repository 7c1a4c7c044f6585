//! How are HTTP requests answered, with or without TLS, until told to stop?
//!
//! Everything a client can hold on to has a limit, and every limit is a field of [`Limits`]: the
//! time for a handshake, for the first byte, for the head of a request, between two requests and
//! for taking an answer; the number of connections, in total and from one address. A request that
//! is being answered has no limit here: a watch may be silent for hours.
//!
//! When all connections are taken, the one that has said nothing for the longest time goes first,
//! then the one that idles longest. So whoever opens connections and stays silent keeps nobody out.

mod connection;
mod pulse;
mod stall;

use std::collections::HashMap;
use std::convert::Infallible;
use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::{Service, service_fn};
use hyper::{Request, Response, StatusCode};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use self::connection::converse;
use self::pulse::Pulse;

/// How long the whole body of a request may take, and how large it may be: two objects as large as
/// an API server takes, and room to spare.
const BODY: Duration = Duration::from_secs(10);
const BODY_BYTES: usize = 8 << 20;

/// How soon a full server looks again whether somebody idles.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// What clients may take of a server.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Open connections; further ones wait in the kernel's queue.
    pub connections: usize,
    /// Connections from one address. `None` where all clients come from one address, such as an
    /// API server that calls webhooks, or everyone on one machine.
    pub per_address: Option<usize>,
    pub handshake: Duration,
    /// How long a new connection may say nothing.
    pub first_byte: Duration,
    /// How long the head of a request may take, from its first byte.
    pub head: Duration,
    /// How long the next request may take to come. Clients close connections that were idle for
    /// 90 s; were we to close them earlier, a request could be on its way and would be lost.
    pub idle: Duration,
    /// How long a client may take nothing of its answer.
    pub stall: Duration,
    /// How long requests in flight may take after we were told to stop.
    pub drain: Duration,
    pub head_bytes: usize,
    /// Requests that one HTTP/2 connection may have open.
    pub streams: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1_024,
            per_address: None,
            handshake: Duration::from_secs(10),
            first_byte: Duration::from_secs(10),
            head: Duration::from_secs(10),
            idle: Duration::from_secs(100),
            stall: Duration::from_secs(60),
            drain: Duration::from_secs(3),
            head_bytes: 64 << 10,
            streams: 200,
        }
    }
}

impl Limits {
    /// For pages that a few people and programs look at.
    pub fn of_pages() -> Self {
        Self { connections: 256, per_address: Some(128), ..Self::default() }
    }
}

pub type Reply = Response<Full<Bytes>>;

/// Whoever has the answers.
pub trait Answers: Send + Sync + 'static {
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Reply> + Send;
}

/// A reply with a text.
pub fn text(status: StatusCode, body: impl Into<String>) -> Reply {
    reply(status, "text/plain; charset=utf-8", Bytes::from(body.into()))
}

pub fn reply(status: StatusCode, kind: &'static str, body: Bytes) -> Reply {
    let mut reply = Response::new(Full::new(body));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    reply
}

/// The whole body, or the status that says why there is none.
pub async fn body(request: Request<Incoming>) -> Result<Bytes, StatusCode> {
    let collecting = Limited::new(request.into_body(), BODY_BYTES).collect();
    match timeout(BODY, collecting).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(StatusCode::PAYLOAD_TOO_LARGE),
        Ok(Err(_)) => Err(StatusCode::BAD_REQUEST),
        Err(_) => Err(StatusCode::REQUEST_TIMEOUT),
    }
}

/// Lets `answers` answer until told to stop, then lets what is in flight finish.
pub async fn serve<A: Answers>(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    answers: Arc<A>,
    limits: Limits,
    stop: CancellationToken,
) {
    let service = service_fn(move |request| {
        let answers = answers.clone();
        async move { Ok::<_, Infallible>(answers.answer(request).await) }
    });
    serve_with(listener, tls, service, limits, stop).await;
}

/// The same for a tower service, such as a router.
pub async fn serve_router<T, B>(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    router: T,
    limits: Limits,
    stop: CancellationToken,
) where
    TowerToHyperService<T>:
        Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send>,
    TowerToHyperService<T>: Clone + Send + Sync + 'static,
    <TowerToHyperService<T> as Service<Request<Incoming>>>::Future: 'static,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static,
{
    serve_with(listener, tls, TowerToHyperService::new(router), limits, stop).await;
}

/// The same for any service.
pub async fn serve_with<S, B>(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    service: S,
    limits: Limits,
    stop: CancellationToken,
) where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static,
{
    let acceptor = tls.map(TlsAcceptor::from);
    let limits = Arc::new(limits);
    let mut open = Connections { limits: limits.clone(), known: HashMap::new() };
    // Ends connections that are still open when this function does.
    let mut tasks = JoinSet::new();
    // Accepted while all places were taken.
    let mut waiting = None;
    loop {
        if let Some((stream, address)) = waiting.take() {
            match open.make_room(address) {
                Room::Made => {
                    let pulse = Arc::new(Pulse::new());
                    let (acceptor, service) = (acceptor.clone(), service.clone());
                    let (limits, stop) = (limits.clone(), stop.clone());
                    let talk = converse(stream, acceptor, service, limits, pulse.clone(), stop);
                    open.remember(tasks.spawn(talk), address, pulse);
                }
                Room::Full => waiting = Some((stream, address)),
                Room::Refused => debug!(%address, "refused a connection: too many from there"),
            }
        }
        tokio::select! {
            () = stop.cancelled() => break,
            Some(ended) = tasks.join_next_with_id() => {
                open.forget(ended.map_or_else(|error| error.id(), |(id, ())| id));
            }
            accepted = listener.accept(), if waiting.is_none() => match accepted {
                Ok((stream, peer)) => waiting = Some((stream, peer.ip().to_canonical())),
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    // Out of descriptors, most likely; trying at once would only spin.
                    sleep(Duration::from_millis(100)).await;
                }
            },
            () = sleep(LOOK_AGAIN), if waiting.is_some() => {}
        }
    }
    drop(listener);
    let draining = async { while tasks.join_next().await.is_some() {} };
    if timeout(limits.drain, draining).await.is_err() {
        debug!("some clients did not take their answers in time");
    }
}

/// What there is for one more connection.
enum Room {
    Made,
    /// Everyone is being answered; a place will become free.
    Full,
    /// The address has more than its share.
    Refused,
}

/// The connections that are open.
struct Connections {
    limits: Arc<Limits>,
    known: HashMap<Id, Connection>,
}

struct Connection {
    address: IpAddr,
    pulse: Arc<Pulse>,
    task: AbortHandle,
    is_closing: bool,
}

impl Connections {
    fn remember(&mut self, task: AbortHandle, address: IpAddr, pulse: Arc<Pulse>) {
        let connection = Connection { address, pulse, task, is_closing: false };
        self.known.insert(connection.task.id(), connection);
    }

    fn forget(&mut self, id: Id) {
        self.known.remove(&id);
    }

    /// Closes what has to go for one more connection from `address`.
    fn make_room(&mut self, address: IpAddr) -> Room {
        let from_there = |connection: &Connection| connection.address == address;
        if self.limits.per_address.is_some_and(|most| self.count(from_there) >= most) {
            return if self.close_idlest(from_there) { Room::Made } else { Room::Refused };
        }
        let has_place = self.count(|_| true) < self.limits.connections;
        if has_place || self.close_idlest(|_| true) { Room::Made } else { Room::Full }
    }

    fn count(&self, is_meant: impl Fn(&Connection) -> bool) -> usize {
        self.known.values().filter(|one| !one.is_closing && is_meant(one)).count()
    }

    /// Closes the connection that is missed least: one that has not asked for anything for the
    /// longest time, or else the one that idles longest. False when all are being answered.
    fn close_idlest(&mut self, is_meant: impl Fn(&Connection) -> bool) -> bool {
        let open = self.known.values_mut().filter(|one| !one.is_closing && is_meant(one));
        let ranked = open.filter_map(|one| Some((one.pulse.rank()?, one)));
        let Some((_, idlest)) = ranked.min_by_key(|(rank, _)| *rank) else { return false };
        debug!(address = %idlest.address, "closed a silent connection: another needs its place");
        idlest.is_closing = true;
        idlest.task.abort();
        true
    }
}

#[cfg(test)]
mod tests;
