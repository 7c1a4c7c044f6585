//! A service behind TLS on a free loopback port, until the handle is dropped.

use std::convert::Infallible;
use std::net::Ipv4Addr;

use apiserver::http::{CredentialError, Credentials, RandomIds};
use hyper::body::{Body, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tower::Service;

/// A running service.
#[derive(Debug)]
pub struct Loopback {
    pub port: u16,
    /// The authority that signed the server's certificate, as PEM.
    pub authority: String,
    task: JoinHandle<()>,
}

/// Why a service cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum LoopbackError {
    #[error("cannot make a certificate")]
    Credentials(#[from] CredentialError),
    #[error("cannot listen on loopback")]
    Listen(#[from] std::io::Error),
}

impl Loopback {
    /// Serves until dropped.
    pub async fn start<S, B>(service: S) -> Result<Self, LoopbackError>
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>
            + Clone
            + Send
            + 'static,
        S::Future: Send + 'static,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let credentials = Credentials::ephemeral(&names, &RandomIds, Timestamp::now())?;
        let acceptor = TlsAcceptor::from(credentials.server_config()?);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, service) = (acceptor.clone(), service.clone());
                tokio::spawn(async move {
                    // A client that gives up in the middle is no concern of the service.
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = TowerToHyperService::new(service);
                    let _ = Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Ok(Self { port, authority: credentials.authority, task })
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.task.abort();
    }
}
