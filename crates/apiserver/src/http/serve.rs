//! How does the server meet the network?
//!
//! Connections are cheap to open and must stay cheap: what a client may hold on to is limited by
//! [`reconcile::listen`]. On shutdown watches end first, so that clients come back to whoever serves
//! next. Old events are looked for beside all this, not in its way.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reconcile::listen::{Limits, serve_router};
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::server::ApiServer;

/// Open connections. All clients of one machine have one address.
const MAX_CONNECTIONS: usize = 20_000;

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
        let limits = Limits {
            connections: MAX_CONNECTIONS,
            streams: MAX_STREAMS,
            drain: DRAIN_TIMEOUT,
            ..Limits::default()
        };
        let stop = CancellationToken::new();
        // Ends with this function, in the middle of its work if need be.
        let mut sweeping = JoinSet::new();
        sweeping.spawn(self.clone().sweep());
        let router = super::router(self.clone());
        let serving = serve_router(listener, tls, router, limits, stop.clone());
        let ending = async {
            shutdown.await;
            self.close_watches();
            stop.cancel();
        };
        tokio::join!(serving, ending);
    }

    /// Forgets old events, again and again.
    async fn sweep(self) {
        let mut period = interval(SWEEP_PERIOD);
        period.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            period.tick().await;
            self.expire_events().await;
        }
    }
}
