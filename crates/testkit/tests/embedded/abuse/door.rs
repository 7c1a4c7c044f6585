//! A way to a server on which nothing is polite: TLS, and inside it whatever bytes one likes.

use std::sync::Arc;

use apiserver::http::Credentials;
use testkit::embedded::Embedded;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::{MAPS, PATIENCE};

pub(super) struct Door {
    address: String,
    token: String,
    connector: TlsConnector,
}

impl Door {
    pub(super) fn to(server: &Embedded) -> Self {
        let address = server.url.strip_prefix("https://").unwrap();
        Self::new(address.to_owned(), &server.credentials)
    }

    pub(super) fn new(address: String, credentials: &Credentials) -> Self {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(credentials.authority.as_bytes());
        roots.add(authority.unwrap()).unwrap();
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(config));
        Self { address, token: credentials.token.clone(), connector }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) async fn connect(&self) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(&self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        self.connector.connect(name, stream).await.unwrap()
    }

    /// Sends bytes as they are; returns the status line's code, 0 for none, and everything.
    pub(super) async fn raw(&self, bytes: &[u8]) -> (u16, String) {
        let mut stream = self.connect().await;
        // The server may refuse before it has read everything.
        let _ = stream.write_all(bytes).await;
        let _ = stream.flush().await;
        let mut answer = Vec::new();
        let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap();
        let text = String::from_utf8_lossy(&answer).into_owned();
        let code = text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        (code, text)
    }

    pub(super) fn head(&self, method: &str, path: &str, more: &str) -> String {
        let token = &self.token;
        format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {token}\r\n{more}\r\n"
        )
    }

    pub(super) fn post(&self, body: &str) -> Vec<u8> {
        let more = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
        let mut bytes = self.head("POST", MAPS, &more).into_bytes();
        bytes.extend_from_slice(body.as_bytes());
        bytes
    }

    pub(super) async fn still_answers(&self) {
        let (code, text) = self.raw(self.head("GET", "/api/v1/nodes", "").as_bytes()).await;
        assert_eq!(code, 200, "{text}");
    }
}
