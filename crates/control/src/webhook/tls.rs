//! The certificate a listener shows: replaced while it runs, and tried by ourselves.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use rustls::pki_types::ServerName;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::certificate::provider;

const PATIENCE: Duration = Duration::from_secs(5);

/// What is shown to every client, whatever name it asks for. Nothing until
/// there is a certificate: handshakes fail, and the API server follows its
/// failure policy.
#[derive(Debug, Default)]
pub(crate) struct Serving(RwLock<Option<Arc<CertifiedKey>>>);

impl Serving {
    pub(crate) fn replace(&self, key: CertifiedKey) {
        *self.0.write() = Some(Arc::new(key));
    }
}

impl ResolvesServerCert for Serving {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().clone()
    }
}

/// What a listener needs to show `serving`.
pub(crate) fn server_config(serving: Arc<Serving>) -> Result<Arc<ServerConfig>, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(serving);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Asks ourselves whether we are well, as the API server would.
pub(super) async fn probe(port: u16, roots: &RootCertStore, host: &str) -> io::Result<()> {
    timeout(PATIENCE, ask(port, roots, host))
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

async fn ask(port: u16, roots: &RootCertStore, host: &str) -> io::Result<()> {
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots.clone())
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await?;
    if answer == *b"HTTP/1.1 200" {
        return Ok(());
    }
    Err(io::Error::other("it does not say that it is well"))
}
