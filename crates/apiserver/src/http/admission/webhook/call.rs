//! How is a webhook reached?
//!
//! Always over HTTPS, trusting only the certificates its configuration brings. Connections are
//! kept and used again: a handshake costs more than most answers.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Request, Uri, header};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;
use reconcile::error::chain;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;

use super::config::{Hook, Place};
use crate::http::server::ApiServer;

/// Largest answer a webhook may give.
const MAX_ANSWER: usize = 3 << 20;

/// Finds where a service can be reached from this process.
pub trait ServiceResolver: Debug + Send + Sync {
    /// `host:port` of one endpoint, or why there is none.
    fn resolve(
        &self,
        server: &ApiServer,
        namespace: &str,
        name: &str,
        port: u16,
    ) -> Result<String, String>;
}

/// Looks into the service's Endpoints object.
#[derive(Debug, Clone, Copy, Default)]
pub struct EndpointResolver;

impl ServiceResolver for EndpointResolver {
    fn resolve(
        &self,
        server: &ApiServer,
        namespace: &str,
        name: &str,
        port: u16,
    ) -> Result<String, String> {
        let service = server
            .read::<Value>("", "services", namespace, name)
            .ok_or_else(|| format!("service {name:?} not found"))?;
        let list = |value: &Value, field: &str| -> Vec<Value> {
            value.get(field).and_then(Value::as_array).cloned().unwrap_or_default()
        };
        let spec = service.get("spec").cloned().unwrap_or_default();
        let entry = list(&spec, "ports")
            .into_iter()
            .find(|entry| entry.get("port").and_then(Value::as_u64) == Some(u64::from(port)))
            .ok_or_else(|| format!("no service port {port} found for service {name:?}"))?;
        let port_name = entry.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let endpoints = server
            .read::<Value>("", "endpoints", namespace, name)
            .ok_or_else(|| format!("endpoints {name:?} not found"))?;
        for subset in list(&endpoints, "subsets") {
            let target = list(&subset, "ports").into_iter().find(|candidate| {
                candidate.get("name").and_then(Value::as_str).unwrap_or_default() == port_name
            });
            let target = target.and_then(|target| target.get("port").and_then(Value::as_u64));
            let address = list(&subset, "addresses").into_iter().next();
            let address = address.as_ref().and_then(|a| a.get("ip")).and_then(Value::as_str);
            if let (Some(target), Some(address)) = (target, address) {
                return Ok(if address.contains(':') {
                    format!("[{address}]:{target}")
                } else {
                    format!("{address}:{target}")
                });
            }
        }
        Err(format!("no endpoints available for service {name:?}"))
    }
}

type Https = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Sends questions to webhooks.
#[derive(Debug, Default)]
pub(in crate::http) struct Caller {
    /// By trusted certificates and by the name the webhook must prove.
    clients: Mutex<HashMap<(Vec<u8>, String), Https>>,
}

/// What went wrong with a question.
enum Trouble {
    /// It did not get there, or its answer not back.
    Exchange(String),
    /// The webhook answered with an error.
    Answer(String),
}

/// More different webhooks than this are not kept connected.
const MAX_CLIENTS: usize = 256;

impl Caller {
    pub(super) async fn post(
        &self,
        server: &ApiServer,
        hook: &Hook,
        body: &Value,
    ) -> Result<Bytes, String> {
        let (uri, name) = address(server, &hook.place)?;
        let client = self.client(&hook.authority, &name)?;
        let text = serde_json::to_vec(body).map_err(|error| error.to_string())?;
        let host = uri.authority().map_or_else(|| name.clone(), ToString::to_string);
        let host = if matches!(hook.place, Place::Service { .. }) { name } else { host };
        let uri = with_timeout(uri, hook.timeout_seconds)?;
        let request = Request::post(uri.clone())
            .header(header::HOST, host)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .body(Full::new(Bytes::from(text)))
            .map_err(|error| error.to_string())?;
        let limit = Duration::from_secs(hook.timeout_seconds);
        let exchange = async {
            let response = client.request(request).await;
            let response = response.map_err(|error| Trouble::Exchange(chain(&error)))?;
            let code = response.status();
            let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
            let body = body.map_err(|error| Trouble::Exchange(error.to_string()))?.to_bytes();
            if code.is_success() {
                return Ok(body);
            }
            // Its own words, without the address: the answer did come from there.
            let words = String::from_utf8_lossy(&body).trim().chars().take(256).collect::<String>();
            Err(Trouble::Answer(format!(
                "an error on the server ({words:?}) has prevented the request from succeeding"
            )))
        };
        match tokio::time::timeout(limit, exchange).await {
            Ok(Ok(body)) => Ok(body),
            Ok(Err(Trouble::Answer(why))) => Err(why),
            Ok(Err(Trouble::Exchange(why))) => Err(format!("Post {:?}: {why}", uri.to_string())),
            Err(_) => Err(format!("Post {:?}: context deadline exceeded", uri.to_string())),
        }
    }

    fn client(&self, authority: &[u8], name: &str) -> Result<Https, String> {
        let mut clients = self.clients.lock();
        let key = (authority.to_vec(), name.to_owned());
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        if clients.len() >= MAX_CLIENTS {
            clients.clear();
        }
        let client = connect(authority, name)?;
        clients.insert(key, client.clone());
        Ok(client)
    }
}

fn connect(authority: &[u8], name: &str) -> Result<Https, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority) {
        let certificate =
            certificate.map_err(|error| format!("unable to load root certificates: {error}"))?;
        roots
            .add(certificate)
            .map_err(|error| format!("unable to load root certificates: {error}"))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let proven = ServerName::try_from(name.to_owned())
        .map_err(|error| format!("invalid server name {name:?}: {error}"))?;
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_only()
        .with_server_name_resolver(FixedServerNameResolver::new(proven))
        .enable_http1()
        .build();
    Ok(Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(Duration::from_secs(60))
        .build(connector))
}

/// Where to connect, and which name the other side must prove.
fn address(server: &ApiServer, place: &Place) -> Result<(Uri, String), String> {
    match place {
        Place::Url(url) => {
            let uri: Uri = url.parse().map_err(|error| format!("invalid URL {url:?}: {error}"))?;
            let host = uri.host().unwrap_or_default().to_owned();
            Ok((uri, host))
        }
        Place::Service { namespace, name, port, path } => {
            let target = server.options().services.resolve(server, namespace, name, *port)?;
            let path = path.trim_start_matches('/');
            let uri = format!("https://{target}/{path}");
            let uri = uri.parse().map_err(|error| format!("invalid address {uri:?}: {error}"))?;
            Ok((uri, format!("{name}.{namespace}.svc")))
        }
    }
}

/// Webhooks learn how long they have.
fn with_timeout(uri: Uri, seconds: u64) -> Result<Uri, String> {
    let separator = if uri.query().is_some() { '&' } else { '?' };
    format!("{uri}{separator}timeout={seconds}s").parse().map_err(|_| format!("invalid URL {uri}"))
}
