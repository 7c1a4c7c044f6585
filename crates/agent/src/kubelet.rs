//! What does the kubelet of this node say?
//!
//! Its address comes from the Node object and is looked up again whenever that object changes. The
//! kubelet's certificate is verified unless an operator says otherwise: the request carries our
//! token. Answers are bounded in time and in size, and none of them is trusted to be well formed.

pub mod config;
pub mod pods;

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Limited};
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::client::Body;

use crate::exposition::Exposition;

/// No list of the pods of one node is longer.
const MAX_ANSWER: usize = 64 << 20;

/// How the kubelet is found and asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `--kubelet-preferred-address-type`.
    pub address_type: String,
    pub access: Access,
    /// `--kubelet-sync-interval`.
    pub interval: Duration,
    /// `--kubelet-sync-timeout`.
    pub timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            address_type: "InternalIP".to_owned(),
            access: Access::Secure { trust: Trust::Authority(None), identity: Identity::Nobody },
            interval: Duration::from_secs(10),
            timeout: Duration::from_secs(3),
        }
    }
}

/// Which of the kubelet's two doors is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// TLS on the port that the Node object names.
    Secure { trust: Trust, identity: Identity },
    /// Plain HTTP without credentials on this port.
    ReadOnly { port: u16 },
}

/// How much the kubelet's certificate counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// Signed by this authority, or by one the system knows.
    Authority(Option<PathBuf>),
    Anybody,
}

/// Who we are to the kubelet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    Nobody,
    /// A service account's token; read again when it is replaced.
    TokenFile(PathBuf),
    Certificate {
        certificate: PathBuf,
        key: PathBuf,
    },
}

/// Where a kubelet listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint(Uri);

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a kubelet gave no usable answer.
#[derive(Debug, thiserror::Error)]
pub enum KubeletError {
    #[error("node {node} has no address of type {address_type}")]
    NoAddress { node: String, address_type: String },
    #[error("node {node} names no kubelet port")]
    NoPort { node: String },
    #[error("{address:?} is no address")]
    BadAddress { address: String, source: http::Error },
    #[error("cannot set up a client for {endpoint}")]
    Setup { endpoint: String, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("no answer from {endpoint}{path} within {} ms", timeout.as_millis())]
    Timeout { endpoint: String, path: &'static str, timeout: Duration },
    #[error("cannot ask {endpoint}{path}")]
    Request { endpoint: String, path: &'static str, source: Box<kube::Error> },
    #[error("{endpoint}{path} answers {status}")]
    Refused { endpoint: String, path: &'static str, status: StatusCode },
    #[error("cannot read the answer of {endpoint}{path}")]
    Read { endpoint: String, path: &'static str, source: Box<dyn std::error::Error + Send + Sync> },
}

/// Where the kubelet of `node` listens.
pub fn endpoint(node: &Node, settings: &Settings) -> Result<Endpoint, KubeletError> {
    let name = || node.metadata.name.clone().unwrap_or_default();
    let status = node.status.as_ref();
    let address = status
        .and_then(|status| status.addresses.as_deref())
        .and_then(|all| all.iter().find(|address| address.type_ == settings.address_type))
        .map(|address| address.address.as_str())
        .ok_or_else(|| KubeletError::NoAddress {
            node: name(),
            address_type: settings.address_type.clone(),
        })?;
    let (scheme, port) = match settings.access {
        Access::ReadOnly { port } => ("http", i32::from(port)),
        Access::Secure { .. } => {
            let endpoint = status
                .and_then(|status| status.daemon_endpoints.as_ref())
                .and_then(|endpoints| endpoints.kubelet_endpoint.as_ref());
            let port = endpoint.map_or(0, |endpoint| endpoint.port);
            ("https", port)
        }
    };
    if port <= 0 {
        return Err(KubeletError::NoPort { node: name() });
    }
    let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    let uri = Uri::builder()
        .scheme(scheme)
        .authority(format!("{host}:{port}"))
        .path_and_query("/")
        .build()
        .map_err(|source| KubeletError::BadAddress { address: address.to_owned(), source })?;
    Ok(Endpoint(uri))
}

/// A connection to one kubelet.
#[derive(Clone)]
pub struct Kubelet {
    client: Client,
    endpoint: String,
    timeout: Duration,
    metrics: Exposition,
}

impl fmt::Debug for Kubelet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kubelet").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Kubelet {
    /// Prepares requests; nothing is sent yet. Reads the authority and the client's certificate.
    pub fn new(
        endpoint: &Endpoint,
        settings: &Settings,
        metrics: Exposition,
    ) -> Result<Self, KubeletError> {
        let text = endpoint.to_string().trim_end_matches('/').to_owned();
        let setup = |source| KubeletError::Setup { endpoint: text.clone(), source };
        let mut config = kube::Config::new(endpoint.0.clone());
        config.connect_timeout = Some(settings.timeout);
        config.read_timeout = Some(settings.timeout);
        config.default_retry = false;
        // The system's authorities are looked for only where they are asked: an image has none.
        config.root_cert = Some(Vec::new());
        if let Access::Secure { trust, identity } = &settings.access {
            match trust {
                Trust::Anybody => config.accept_invalid_certs = true,
                Trust::Authority(Some(file)) => config.root_cert_file = Some(file.clone()),
                Trust::Authority(None) => config.root_cert = None,
            }
            match identity {
                Identity::Nobody => {}
                Identity::TokenFile(file) => {
                    config.auth_info.token_file = Some(file.display().to_string());
                }
                Identity::Certificate { certificate, key } => {
                    config.auth_info.client_certificate = Some(certificate.display().to_string());
                    config.auth_info.client_key = Some(key.display().to_string());
                }
            }
        }
        let client = Client::try_from(config).map_err(|error| setup(error.into()))?;
        Ok(Self { client, endpoint: text, timeout: settings.timeout, metrics })
    }

    /// One answer in full, within the time and size that are allowed.
    pub(crate) async fn get(&self, path: &'static str) -> Result<Vec<u8>, KubeletError> {
        let start = Instant::now();
        let result = match tokio::time::timeout(self.timeout, self.ask(path)).await {
            Ok(result) => result,
            Err(_) => Err(KubeletError::Timeout {
                endpoint: self.endpoint.clone(),
                path,
                timeout: self.timeout,
            }),
        };
        let code = match &result {
            Ok(_) => StatusCode::OK.as_u16().to_string(),
            Err(KubeletError::Refused { status, .. }) => status.as_u16().to_string(),
            Err(_) => "error".to_owned(),
        };
        self.metrics.kubelet_request(path, &code, start.elapsed());
        result
    }

    async fn ask(&self, path: &'static str) -> Result<Vec<u8>, KubeletError> {
        let endpoint = || self.endpoint.clone();
        let request = Request::get(path).body(Body::empty());
        let request = request.map_err(|source| KubeletError::BadAddress {
            address: format!("{}{path}", self.endpoint),
            source,
        })?;
        let answer = self.client.send(request).await.map_err(|source| KubeletError::Request {
            endpoint: endpoint(),
            path,
            source: Box::new(source),
        })?;
        let status = answer.status();
        if !status.is_success() {
            return Err(KubeletError::Refused { endpoint: endpoint(), path, status });
        }
        let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await;
        let body =
            body.map_err(|source| KubeletError::Read { endpoint: endpoint(), path, source })?;
        Ok(body.to_bytes().into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(address: &str, port: i32) -> Node {
        serde_json::from_value(json!({
            "metadata": { "name": "n1" },
            "status": {
                "addresses": [
                    { "type": "Hostname", "address": "n1.example" },
                    { "type": "InternalIP", "address": address },
                ],
                "daemonEndpoints": { "kubeletEndpoint": { "Port": port } },
            },
        }))
        .unwrap()
    }

    #[test]
    fn the_address_follows_from_the_node() {
        let secure = Settings::default();
        let read_only =
            Settings { access: Access::ReadOnly { port: 10255 }, ..Settings::default() };
        let hostname = Settings { address_type: "Hostname".to_owned(), ..Settings::default() };
        let cases = [
            ("v4", node("10.0.0.7", 10250), &secure, "https://10.0.0.7:10250/"),
            ("v6", node("fd00::7", 10250), &secure, "https://[fd00::7]:10250/"),
            ("read-only", node("10.0.0.7", 0), &read_only, "http://10.0.0.7:10255/"),
            ("by name", node("10.0.0.7", 10250), &hostname, "https://n1.example:10250/"),
        ];
        for (name, node, settings, want) in cases {
            assert_eq!(endpoint(&node, settings).unwrap().to_string(), want, "{name}");
        }
    }

    #[test]
    fn a_node_without_a_kubelet_says_what_is_missing() {
        let settings = Settings::default();
        let cases = [
            (Node::default(), "node  has no address of type InternalIP"),
            (node("10.0.0.7", 0), "node n1 names no kubelet port"),
            (node("10.0.0.7", -1), "node n1 names no kubelet port"),
            (node("10 0", 1), "\"10 0\" is no address"),
        ];
        for (node, want) in cases {
            assert_eq!(endpoint(&node, &settings).unwrap_err().to_string(), want);
        }
    }
}
