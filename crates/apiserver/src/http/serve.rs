//! How does the server meet the network?
//!
//! Connections are cheap to open and must stay cheap: handshakes and idleness have a time limit,
//! heads have a size limit, clients that stop reading are dropped, and the number of connections
//! is bounded. On shutdown watches end first, so that clients come back to whoever serves next.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::server::ApiServer;
use super::stall::Stalling;

/// Open connections; further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 20_000;

/// A client that has not finished its handshake by then is gone.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the next request may take to come. Clients close connections that were idle for 90 s;
/// were we to close them earlier, a request could be on its way and would be lost.
const IDLE_TIMEOUT: Duration = Duration::from_secs(100);

/// A client that takes nothing of its answer for this long is gone.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Largest request head.
const MAX_HEAD: usize = 64 << 10;

/// Requests one HTTP/2 connection may have open; clients put all their watches on one.
const MAX_STREAMS: u32 = 2_000;

/// How long answers may take to leave after a shutdown began.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// How often events are looked through for old ones.
const SWEEP_PERIOD: Duration = Duration::from_secs(60);

/// Why a listener cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error(
        "{address} is not a loopback address: the API is for this machine unless told otherwise"
    )]
    Remote { address: SocketAddr },
    #[error("cannot listen on {address}")]
    Bind { address: SocketAddr, source: io::Error },
}

/// Opens a listener; addresses that others can reach must be asked for with `remote`.
pub async fn listen(address: SocketAddr, remote: bool) -> Result<TcpListener, ListenError> {
    if !remote && !address.ip().is_loopback() {
        return Err(ListenError::Remote { address });
    }
    TcpListener::bind(address).await.map_err(|source| ListenError::Bind { address, source })
}

impl ApiServer {
    /// Serves a listener until `shutdown` is done, over TLS if configured. Returns when the last
    /// answer has left, or a few seconds later.
    pub async fn serve(
        self,
        listener: TcpListener,
        tls: Option<Arc<ServerConfig>>,
        shutdown: impl Future<Output = ()>,
    ) {
        let acceptor = tls.map(TlsAcceptor::from);
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let graceful = GracefulShutdown::new();
        let mut sweep = interval(SWEEP_PERIOD);
        tokio::pin!(shutdown);
        loop {
            let accepted = tokio::select! {
                () = &mut shutdown => break,
                _ = sweep.tick() => {
                    self.expire_events().await;
                    continue;
                }
                accepted = accept(&listener, &slots) => accepted,
            };
            let (stream, slot) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of descriptors, most likely: give others time to close theirs.
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let connection = connection(self.clone(), stream, acceptor.clone(), graceful.watcher());
            tokio::spawn(async move {
                connection.await;
                drop(slot);
            });
        }
        drop(listener);
        self.close_watches();
        if timeout(DRAIN_TIMEOUT, graceful.shutdown()).await.is_err() {
            tracing::warn!("some clients did not take their answers in time");
        }
    }
}

async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> io::Result<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let slot = slots.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    // Answers are small and awaited: send them at once.
    stream.set_nodelay(true)?;
    Ok((stream, slot))
}

async fn connection(
    server: ApiServer,
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let service = TowerToHyperService::new(super::router(server));
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_TIMEOUT)
        .max_buf_size(MAX_HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(u32::try_from(MAX_HEAD).unwrap_or(u32::MAX))
        .keep_alive_interval(Duration::from_secs(30));
    let stream = Stalling::new(stream, STALL_TIMEOUT);
    let result = match acceptor {
        None => {
            let io = TokioIo::new(stream);
            watcher.watch(builder.serve_connection(io, service).into_owned()).await
        }
        Some(acceptor) => {
            let stream = match timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => stream,
                Ok(Err(error)) => {
                    tracing::debug!(%error, "a client did not finish its handshake");
                    return;
                }
                Err(_) => return,
            };
            let io = TokioIo::new(stream);
            watcher.watch(builder.serve_connection(io, service).into_owned()).await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection ended early");
    }
}
