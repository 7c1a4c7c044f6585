//! The embedded server on a loopback port, as `kubectl` sees it.

use std::net::Ipv4Addr;

/// The routes of a server, for clients that call it without a socket.
pub use apiserver::http::router;
use apiserver::http::{ApiServer, CredentialError, Credentials, Options, RandomIds};
use apiserver::store::{Limits, OpenError, Store};
use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A server with TLS and a token; it stops when the handle is dropped.
#[derive(Debug)]
pub struct Embedded {
    pub url: String,
    pub credentials: Credentials,
    pub server: ApiServer,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

/// Why it cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    #[error("cannot make credentials")]
    Credentials(#[from] CredentialError),
    #[error("cannot open a store")]
    Store(#[from] OpenError),
    #[error("cannot listen on loopback")]
    Listen(#[from] std::io::Error),
}

/// Changes that the server in this process remembers: few, so that a case can outrun them.
const HISTORY_EVENTS: usize = 300;

/// An empty server in this process, for clients that call it without a socket.
pub async fn in_process() -> Result<ApiServer, EmbeddedError> {
    let limits = Limits { history_events: HISTORY_EVENTS, ..Limits::default() };
    let store = Store::in_memory(limits)?;
    Ok(ApiServer::start(store, Options::default()).await)
}

impl Embedded {
    /// Starts an empty server.
    pub async fn start(options: Options) -> Result<Self, EmbeddedError> {
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let credentials = Credentials::ephemeral(&names, &RandomIds, Timestamp::now())?;
        Self::start_with(credentials, options, Limits::default()).await
    }

    /// Starts an empty server that shows these credentials and keeps to these limits.
    pub async fn start_with(
        credentials: Credentials,
        options: Options,
        limits: Limits,
    ) -> Result<Self, EmbeddedError> {
        let options = Options { token: Some(credentials.token.clone()), ..options };
        let server = ApiServer::start(Store::in_memory(limits)?, options).await;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("https://{}", listener.local_addr()?);
        let (stop, stopped) = oneshot::channel();
        let serving = server.clone().serve(listener, Some(credentials.server_config()?), async {
            // An error means that the handle is gone, which is the same wish.
            let _ = stopped.await;
        });
        let task = tokio::spawn(serving);
        Ok(Self { url, credentials, server, stop: Some(stop), task })
    }

    /// Stops, and waits until the last answer has left.
    pub async fn stop(mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        let _ = (&mut self.task).await;
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.task.abort();
    }
}
