//! How is the kubelet configured? `GET /configz`.
//!
//! A kubelet whose certificate nobody signed is not told our token; the API server, which knows its
//! kubelets in its own way, can be asked to pass the question on.

use std::time::Duration;

use http::Request;
use kube::Client;
use qos::topology::kubelet::{KubeletConfig, KubeletConfigError, parse};

use super::{Kubelet, KubeletError};

/// The path that serves it.
const PATH: &str = "/configz";

/// How long the API server may take to pass a question on.
const PROXY_TIMEOUT: Duration = Duration::from_secs(5);

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error(transparent)]
    Kubelet(#[from] KubeletError),
    #[error(transparent)]
    Answer(#[from] KubeletConfigError),
    #[error("the API server does not pass the question on to the kubelet")]
    Proxy(#[source] Box<kube::Error>),
    #[error("the API server gave no answer of the kubelet within {} s", PROXY_TIMEOUT.as_secs())]
    Timeout,
}

impl Kubelet {
    /// Asks the kubelet for its configuration.
    pub async fn config(&self) -> Result<KubeletConfig, ConfigError> {
        Ok(parse(&self.get(PATH).await?)?)
    }
}

/// Asks the kubelet of `node` through the API server.
pub async fn through_api(client: &Client, node: &str) -> Result<KubeletConfig, ConfigError> {
    let path = format!("/api/v1/nodes/{node}/proxy{PATH}");
    let request = Request::get(path)
        .body(Vec::new())
        .map_err(|error| ConfigError::Proxy(Box::new(kube::Error::HttpError(error))))?;
    match tokio::time::timeout(PROXY_TIMEOUT, client.request_text(request)).await {
        Ok(Ok(answer)) => Ok(parse(answer.as_bytes())?),
        Ok(Err(error)) => Err(ConfigError::Proxy(Box::new(error))),
        Err(_) => Err(ConfigError::Timeout),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_api_server_passes_the_question_on() {
        let service = tower::service_fn(|request: Request<kube::client::Body>| async move {
            let is_asked = request.uri().path() == "/api/v1/nodes/n1/proxy/configz";
            let (status, text) = match is_asked {
                true => (200, r#"{"kubeletconfig":{"cpuManagerPolicy":"static"}}"#),
                false => (403, r#"{"kind":"Status","status":"Failure","code":403}"#),
            };
            let body = kube::client::Body::from(text.as_bytes().to_vec());
            http::Response::builder().status(status).body(body)
        });
        let client = Client::new(service, "default");
        assert_eq!(through_api(&client, "n1").await.unwrap().cpu_manager_policy, "static");
        let error = through_api(&client, "n2").await.unwrap_err();
        assert!(matches!(error, ConfigError::Proxy(_)), "{error}");
    }
}
