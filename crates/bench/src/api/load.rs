//! What do the clients do? They are the same for every server.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::ensure;
use http::{Method, Request};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::{Client, Config};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::objects::{self, NODE_LABEL, node_name};
use crate::progress::Progress;

pub(super) const NAMESPACE: &str = "tidepool-bench";
const NODES: &str = "/api/v1/nodes";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

/// How long answers took, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Latency {
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

impl Latency {
    fn of(mut taken: Vec<Duration>) -> Self {
        taken.sort_unstable();
        let at = |percent: usize| {
            let index = (taken.len() * percent / 100).min(taken.len().saturating_sub(1));
            taken.get(index).map_or(0.0, |taken| taken.as_secs_f64() * 1e3)
        };
        Self { p50_ms: at(50), p99_ms: at(99) }
    }
}

/// What the writes of pods came to.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) elapsed: Duration,
    pub(super) create: Latency,
    pub(super) bind: Latency,
    pub(super) status: Latency,
}

/// How far a pod gets: created only, or bound and reported running as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    Created,
    Running,
}

#[derive(Debug, Default)]
struct Taken {
    create: Vec<Duration>,
    bind: Vec<Duration>,
    status: Vec<Duration>,
}

/// Clients, each with a connection of its own, as separate programs would have.
#[derive(Debug, Clone)]
pub(super) struct Load {
    pub(super) config: Config,
    pub(super) clients: u16,
    pub(super) nodes: usize,
}

impl Load {
    /// Creates and reports the nodes that pods are bound to.
    pub(super) async fn register_nodes(&self) -> anyhow::Result<()> {
        let progress = Progress::start("nodes", self.nodes);
        let counter = progress.counter();
        let mut clients = JoinSet::new();
        for number in 0..usize::from(self.clients) {
            let client = Client::try_from(self.config.clone())?;
            let (nodes, step, counter) = (self.nodes, usize::from(self.clients), counter.clone());
            clients.spawn(async move {
                for at in (number..nodes).step_by(step) {
                    let name = node_name(at);
                    send(&client, Method::POST, NODES, JSON, &objects::node(&name)).await?;
                    let path = format!("{NODES}/{name}/status");
                    send(&client, Method::PATCH, &path, MERGE, &objects::node_status()).await?;
                    counter.fetch_add(1, Ordering::Relaxed);
                }
                anyhow::Ok(())
            });
        }
        finish(clients).await.map(drop)
    }

    /// Creates pods and takes them as far as asked.
    pub(super) async fn write_pods(
        &self,
        prefix: &'static str,
        pods: usize,
        life: Life,
    ) -> anyhow::Result<Written> {
        let progress = Progress::start("pods", pods);
        let counter = progress.counter();
        let begin = Instant::now();
        let mut clients = JoinSet::new();
        for number in 0..usize::from(self.clients) {
            let client = Client::try_from(self.config.clone())?;
            let (step, nodes) = (usize::from(self.clients), self.nodes.max(1));
            let counter = counter.clone();
            clients.spawn(async move {
                let mut taken = Taken::default();
                for at in (number..pods).step_by(step) {
                    let name = format!("{prefix}-{at:06}");
                    live(&client, &name, &node_name(at % nodes), life, &mut taken).await?;
                    counter.fetch_add(1, Ordering::Relaxed);
                }
                anyhow::Ok(taken)
            });
        }
        let mut all = Taken::default();
        for taken in finish(clients).await? {
            all.create.extend(taken.create);
            all.bind.extend(taken.bind);
            all.status.extend(taken.status);
        }
        Ok(Written {
            elapsed: begin.elapsed(),
            create: Latency::of(all.create),
            bind: Latency::of(all.bind),
            status: Latency::of(all.status),
        })
    }

    /// Makes the namespace, and takes away what an earlier measurement left.
    pub(super) async fn prepare(&self) -> anyhow::Result<()> {
        let client = Client::try_from(self.config.clone())?;
        let body =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        // It may be there already.
        let _ = send(&client, Method::POST, "/api/v1/namespaces", JSON, &body).await;
        // So may this, which pods need and which a controller makes.
        let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts");
        let account = json!({"metadata": {"name": "default"}});
        let _ = send(&client, Method::POST, &path, JSON, &account).await;
        self.clean_up().await
    }

    pub(super) async fn clean_up(&self) -> anyhow::Result<()> {
        let client = Client::try_from(self.config.clone())?;
        let now = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
        for path in [pods_path(), format!("{NODES}?labelSelector={NODE_LABEL}")] {
            send(&client, Method::DELETE, &path, JSON, &now).await?;
        }
        Ok(())
    }
}

async fn finish<T: 'static>(mut tasks: JoinSet<anyhow::Result<T>>) -> anyhow::Result<Vec<T>> {
    let mut results = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        results.push(ended??);
    }
    Ok(results)
}

pub(super) fn pods_path() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/pods")
}

async fn live(
    client: &Client,
    name: &str,
    node: &str,
    life: Life,
    taken: &mut Taken,
) -> anyhow::Result<()> {
    let pods = pods_path();
    taken.create.push(send(client, Method::POST, &pods, JSON, &objects::pod(name)).await?);
    if life == Life::Created {
        return Ok(());
    }
    let path = format!("{pods}/{name}/binding");
    let binding = objects::binding(name, node);
    taken.bind.push(send(client, Method::POST, &path, JSON, &binding).await?);
    let path = format!("{pods}/{name}/status");
    taken.status.push(send(client, Method::PATCH, &path, MERGE, &objects::pod_status()).await?);
    Ok(())
}

/// Sends a request and waits for the whole answer, which nobody reads: clients should cost little
/// beside the server.
async fn send(
    client: &Client,
    method: Method,
    path: &str,
    content_type: &str,
    body: &Value,
) -> anyhow::Result<Duration> {
    let request = Request::builder()
        .method(method.clone())
        .uri(path)
        .header("content-type", content_type)
        .body(Body::from(serde_json::to_vec(body)?))?;
    let begin = Instant::now();
    let answer = client.send(request).await?;
    let code = answer.status();
    let bytes = answer.into_body().collect().await?.to_bytes();
    let taken = begin.elapsed();
    ensure!(code.is_success(), "{method} {path}: {code} {}", String::from_utf8_lossy(&bytes));
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_taken_from_the_ranks() {
        let milliseconds = |range: std::ops::RangeInclusive<u64>| {
            Latency::of(range.rev().map(Duration::from_millis).collect())
        };
        assert_eq!(milliseconds(1..=100), Latency { p50_ms: 51.0, p99_ms: 100.0 });
        assert_eq!(milliseconds(7..=7), Latency { p50_ms: 7.0, p99_ms: 7.0 });
        assert_eq!(Latency::of(Vec::new()), Latency { p50_ms: 0.0, p99_ms: 0.0 });
    }
}
