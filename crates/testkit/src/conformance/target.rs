//! Who is being examined?

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use apiserver::http::{ApiServer, router};
use http_body_util::BodyExt;
use hyper::{HeaderMap, Request, Uri};
use kube::client::Body;
use kube::config::AuthInfo;
use kube::{Client, Config};
use serde_json::Value;

/// Nothing on loopback takes longer, unless it never happens.
const PATIENCE: Duration = Duration::from_secs(15);

/// A server, reached in process or over TLS.
#[derive(Clone)]
pub struct Target {
    client: Client,
    /// What it has and others lack: `controllers` (garbage collection and namespace cleanup run
    /// behind it), `initial-events` (an old etcd cannot end them with a bookmark),
    /// `short-history` (it forgets within 300 changes of a kind).
    pub offers: BTreeSet<String>,
    /// Someone else's server: leave nothing behind.
    pub is_foreign: bool,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("is_foreign", &self.is_foreign).finish_non_exhaustive()
    }
}

/// Why a server cannot be reached at all.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error("{url:?} is no address")]
    Address { url: String, source: hyper::http::uri::InvalidUri },
    #[error("cannot talk to {url}")]
    Client { url: String, source: Box<kube::Error> },
}

impl Target {
    /// A server in this process.
    pub fn in_process(server: ApiServer) -> Self {
        let client = Client::new(router(server), "default");
        let offers = ["initial-events", "short-history"].map(str::to_owned).into();
        Self { client, offers, is_foreign: false }
    }

    /// A server elsewhere, whose certificate is not checked.
    pub fn at(url: &str, token: &str) -> Result<Self, TargetError> {
        let address: Uri =
            url.parse().map_err(|source| TargetError::Address { url: url.to_owned(), source })?;
        let mut config = Config::new(address);
        config.accept_invalid_certs = true;
        // A refusal is an answer, not a reason to ask again.
        config.default_retry = false;
        config.auth_info = AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() };
        let client = Client::try_from(config).map_err(|source| TargetError::Client {
            url: url.to_owned(),
            source: Box::new(source),
        })?;
        Ok(Self { client, offers: BTreeSet::new(), is_foreign: true })
    }
}

/// What came back.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
}

impl Answer {
    /// The body as JSON; text that is none becomes a string.
    pub(super) fn value(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| Value::String(self.text.clone()))
    }
}

/// A request as it goes out.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Target {
    async fn send(&self, outgoing: Outgoing) -> Result<hyper::Response<Body>, String> {
        let mut request = Request::builder().method(outgoing.method.as_str()).uri(&outgoing.path);
        for (name, value) in &outgoing.headers {
            request = request.header(name, value);
        }
        let request = request.body(Body::from(outgoing.body)).map_err(|error| error.to_string())?;
        match tokio::time::timeout(PATIENCE, self.client.send(request)).await {
            Ok(response) => response.map_err(|error| error.to_string()),
            Err(_) => Err("no answer".to_owned()),
        }
    }

    pub(super) async fn call(&self, outgoing: Outgoing) -> Result<Answer, String> {
        let response = self.send(outgoing).await?;
        let (head, body) = response.into_parts();
        let body = tokio::time::timeout(PATIENCE, body.collect())
            .await
            .map_err(|_| "the answer does not end".to_owned())?
            .map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
        Ok(Answer { code: head.status.as_u16(), headers: head.headers, text })
    }

    /// Opens a stream, or says what came instead.
    pub(super) async fn watch(&self, outgoing: Outgoing) -> Result<Result<Events, Answer>, String> {
        let response = self.send(outgoing).await?;
        let (head, body) = response.into_parts();
        if head.status.as_u16() == 200 {
            return Ok(Ok(Events { body, buffer: Vec::new() }));
        }
        let body = body.collect().await.map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
        Ok(Err(Answer { code: head.status.as_u16(), headers: head.headers, text }))
    }
}

/// A stream of watch events.
pub(super) struct Events {
    body: Body,
    buffer: Vec<u8>,
}

impl Events {
    /// The next event; `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> Result<Option<Value>, String> {
        tokio::time::timeout(PATIENCE, self.read())
            .await
            .map_err(|_| "no event came, and the stream stays open".to_owned())?
    }

    async fn read(&mut self) -> Result<Option<Value>, String> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return serde_json::from_slice(&line).map(Some).map_err(|error| error.to_string());
            }
            let mut body = std::pin::Pin::new(&mut self.body);
            match body.frame().await {
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        self.buffer.extend_from_slice(data);
                    }
                }
                Some(Err(error)) => return Err(error.to_string()),
                None if self.buffer.is_empty() => return Ok(None),
                None => return Err("the stream ends within an event".to_owned()),
            }
        }
    }
}
