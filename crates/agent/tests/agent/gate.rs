//! What stands between the agent and its API server, and can go wrong.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use futures::StreamExt;
use http::{Method, Request, Response};
use http_body_util::{BodyStream, StreamBody};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tower::{BoxError, Service, ServiceExt};

/// The way to the server. Clones share it.
#[derive(Clone)]
pub(crate) struct Gate {
    inner: Router,
    faults: Arc<Faults>,
}

#[derive(Default)]
struct Faults {
    is_away: AtomicBool,
    /// How many writes somebody else still gets ahead of.
    overtaken: AtomicUsize,
    /// Ends the watches that are open.
    cut: Mutex<CancellationToken>,
    requests: AtomicUsize,
    /// What happens to the next evictions.
    evictions: Mutex<VecDeque<Fault>>,
    evicted: AtomicUsize,
}

/// What can become of a question to a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The server answers with this status.
    Status(u16),
    /// No answer comes, and nothing happens.
    Lost,
    /// The pod leaves, but the answer is lost.
    Unheard,
    /// The pod is deleted right before.
    Vanishes,
    /// Another pod takes its name right before.
    Replaced,
}

impl Gate {
    pub(crate) fn new(inner: Router) -> Self {
        Self { inner, faults: Arc::default() }
    }

    /// Nobody answers any more, and open watches end.
    pub(crate) fn close(&self) {
        self.faults.is_away.store(true, Ordering::SeqCst);
        std::mem::take(&mut *self.faults.cut.lock()).cancel();
    }

    pub(crate) fn open(&self) {
        self.faults.is_away.store(false, Ordering::SeqCst);
    }

    /// Lets somebody change each NodeMetric right before the next writes of its status.
    pub(crate) fn overtake(&self, writes: usize) {
        self.faults.overtaken.store(writes, Ordering::SeqCst);
    }

    pub(crate) fn left_to_overtake(&self) -> usize {
        self.faults.overtaken.load(Ordering::SeqCst)
    }

    /// Lets these happen to the next evictions, one each.
    pub(crate) fn fail_evictions(&self, faults: impl IntoIterator<Item = Fault>) {
        self.faults.evictions.lock().extend(faults);
    }

    /// Evictions that were asked for.
    pub(crate) fn evictions(&self) -> usize {
        self.faults.evicted.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> usize {
        self.faults.requests.load(Ordering::SeqCst)
    }

    async fn pass(self, request: Request<kube::client::Body>) -> Result<Response<Body>, BoxError> {
        self.faults.requests.fetch_add(1, Ordering::SeqCst);
        if self.faults.is_away.load(Ordering::SeqCst) {
            return Err("connection refused".into());
        }
        let is_status = request.method() == Method::PUT
            && request.uri().path().contains("/nodemetrics/")
            && request.uri().path().ends_with("/status");
        let left = self.faults.overtaken.load(Ordering::SeqCst);
        if is_status && left > 0 {
            self.faults.overtaken.store(left - 1, Ordering::SeqCst);
            let metrics: Api<api::kind::NodeMetric> =
                Api::all(Client::new(self.inner.clone(), "default"));
            let patch = json!({ "metadata": { "labels": { "overtaken": left.to_string() } } });
            metrics.patch("n1", &PatchParams::default(), &Patch::Merge(&patch)).await?;
        }
        if request.uri().path().ends_with("/eviction") {
            self.faults.evicted.fetch_add(1, Ordering::SeqCst);
            let fault = self.faults.evictions.lock().pop_front();
            if let Some(fault) = fault {
                return self.fail(fault, request).await;
            }
        }
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch="));
        let response = self.inner.oneshot(request.map(Body::new)).await?;
        if !is_watch {
            return Ok(response);
        }
        let cut = self.faults.cut.lock().clone();
        let (parts, body) = response.into_parts();
        let frames = BodyStream::new(body).take_until(cut.cancelled_owned());
        Ok(Response::from_parts(parts, Body::new(StreamBody::new(frames))))
    }
}

impl Gate {
    async fn fail(
        self,
        fault: Fault,
        request: Request<kube::client::Body>,
    ) -> Result<Response<Body>, BoxError> {
        let name = request.uri().path().rsplit('/').nth(1).unwrap_or_default().to_owned();
        let pods: Api<Pod> = Api::default_namespaced(Client::new(self.inner.clone(), "default"));
        match fault {
            Fault::Status(code) => {
                let status = json!({ "kind": "Status", "code": code, "message": "no" });
                Ok(Response::builder().status(code).body(Body::from(status.to_string()))?)
            }
            Fault::Lost => std::future::pending().await,
            Fault::Unheard => {
                // It has left: whoever does not wait for the answer does not call it back.
                tokio::spawn(self.inner.oneshot(request.map(Body::new)));
                std::future::pending().await
            }
            Fault::Vanishes | Fault::Replaced => {
                let old = pods.get(&name).await?;
                pods.delete(&name, &DeleteParams::default().grace_period(0)).await?;
                if fault == Fault::Replaced {
                    let metadata = ObjectMeta {
                        name: Some(name),
                        labels: old.metadata.labels,
                        ..ObjectMeta::default()
                    };
                    let next = Pod { metadata, spec: old.spec, status: None };
                    pods.create(&PostParams::default(), &next).await?;
                }
                Ok(self.inner.oneshot(request.map(Body::new)).await?)
            }
        }
    }
}

impl Service<Request<kube::client::Body>> for Gate {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        Box::pin(self.clone().pass(request))
    }
}
