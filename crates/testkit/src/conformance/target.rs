//! Who is being examined?

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use apiserver::http::{ApiServer, router};
use http_body_util::BodyExt;
use hyper::{HeaderMap, Request};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use serde_json::Value;

/// Nothing on loopback takes longer, unless it never happens.
const PATIENCE: Duration = Duration::from_secs(15);

/// A server, reached in process or over TLS.
#[derive(Clone)]
pub struct Target {
    client: Client,
    /// What it has and others lack: `controllers` (they run behind it, and act on what cases
    /// make), `initial-events` (an old etcd cannot end them with a bookmark), `short-history` (it
    /// forgets within 300 changes of a kind).
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
    #[error("cannot read {}", path.display())]
    Kubeconfig { path: PathBuf, source: Box<KubeconfigError> },
    #[error("cannot talk to the server of {}", path.display())]
    Client { path: PathBuf, source: Box<kube::Error> },
    #[error("cannot ask the server of {} what it offers: {why}", path.display())]
    Offers { path: PathBuf, why: String },
}

impl Target {
    /// A server in this process.
    pub fn in_process(server: ApiServer) -> Self {
        let client = Client::new(router(server), "default");
        let offers = ["initial-events", "short-history"].map(str::to_owned).into();
        Self { client, offers, is_foreign: false }
    }

    /// The server of a kubeconfig, which is someone else's.
    pub async fn of_kubeconfig(path: &Path) -> Result<Self, TargetError> {
        let refused =
            |source| TargetError::Kubeconfig { path: path.to_owned(), source: Box::new(source) };
        let kubeconfig = Kubeconfig::read_from(path).map_err(refused)?;
        let options = KubeConfigOptions::default();
        let mut config =
            Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(refused)?;
        // A refusal is an answer, not a reason to ask again.
        config.default_retry = false;
        let client = Client::try_from(config).map_err(|source| TargetError::Client {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        let mut target = Self { client, offers: BTreeSet::new(), is_foreign: true };
        let offers = target.has_initial_events().await;
        if offers.map_err(|why| TargetError::Offers { path: path.to_owned(), why })? {
            target.offers.insert("initial-events".to_owned());
        }
        Ok(target)
    }

    /// Whether a watch can begin with what is there. etcd learned to tell how far it has got in
    /// 3.4.31 and 3.5.13; with an older one the watch begins with an error.
    async fn has_initial_events(&self) -> Result<bool, String> {
        let path = "/api/v1/namespaces?watch=true&sendInitialEvents=true\
                    &resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        let method = "GET".to_owned();
        let outgoing =
            Outgoing { method, path: path.to_owned(), headers: Vec::new(), body: Vec::new() };
        let mut events = self.watch(outgoing).await?.map_err(|answer| answer.text)?;
        let first = events.next().await?.ok_or("the watch ended")?;
        Ok(first["type"] != "ERROR")
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
