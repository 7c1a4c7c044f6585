//! The whole scheduler against an embedded API, and a binder that decides nothing beside it.
//!
//! Both find the same nodes and the same waiting pods on a fresh server in this process, send as
//! many bindings at once and write nothing else but, for the scheduler, its events. The time runs
//! from the first bound pod to the last.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use apiserver::http::{ApiServer, Options as ServerOptions, router};
use apiserver::store::{Limits, Store};
use control::scheduler::{Options, run};
use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Binding, Namespace, Node, Pod};
use kube::api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::Status;
use kube::{Api, Client};
use serde::Serialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::mix::node;
use crate::bench::manager::typed;

/// Requests at once while the cluster is made.
const MAKERS: usize = 32;
const LIMIT: Duration = Duration::from_secs(600);

/// Stable keys; more may be added.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// By the scheduler, every node scored.
    pub(super) pods_per_s: f64,
    /// By a binder that takes one node after the other.
    pub(super) null_pods_per_s: f64,
    pub(super) ratio: f64,
}

pub(super) async fn measure(nodes: u32, pods: u32) -> anyhow::Result<Report> {
    let null_pods_per_s = round(nodes, pods, |client, _| bind_all(client, nodes)).await?;
    let pods_per_s = round(nodes, pods, |client, stop| async move {
        run(client, Options::on_one_machine(), stop).await?;
        Ok(())
    })
    .await?;
    Ok(Report { pods_per_s, null_pods_per_s, ratio: pods_per_s / null_pods_per_s })
}

/// Fills a fresh server and lets one of the two loose on it.
async fn round<F>(
    nodes: u32,
    pods: u32,
    bind: impl FnOnce(Client, CancellationToken) -> F,
) -> anyhow::Result<f64>
where
    F: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let store = Store::in_memory(Limits::default())?;
    let server = ApiServer::start(store, ServerOptions::default()).await;
    let client = Client::new(router(server), "default");
    fill(&client, nodes, pods).await?;
    let stop = CancellationToken::new();
    let watching = tokio::spawn(watch(client.clone(), pods));
    let binding = tokio::spawn(bind(client, stop.clone()));
    let result = tokio::time::timeout(LIMIT, watching).await.context("binding took too long")?;
    stop.cancel();
    binding.await??;
    let took = result??;
    Ok(f64::from(pods.saturating_sub(1).max(1)) / took.as_secs_f64().max(1e-9))
}

async fn fill(client: &Client, nodes: u32, pods: u32) -> anyhow::Result<()> {
    let params = &PostParams::default();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    if namespaces.get_opt("default").await?.is_none() {
        namespaces.create(params, &typed(json!({"metadata": {"name": "default"}}))?).await?;
    }
    let all: &Api<Node> = &Api::all(client.clone());
    let made = stream::iter(0..nodes).map(|number| async move {
        let mut node: Node = typed(node(number))?;
        node.metadata.uid = None;
        all.create(params, &node).await?;
        // New nodes are tainted until a controller finds them ready; here is none.
        let patch = Patch::Merge(json!({"spec": {"taints": null}}));
        let name = node.metadata.name.unwrap_or_default();
        all.patch(&name, &PatchParams::default(), &patch).await?;
        anyhow::Ok(())
    });
    made.buffer_unordered(MAKERS).try_collect::<Vec<()>>().await?;
    let all: &Api<Pod> = &Api::namespaced(client.clone(), "default");
    let made = stream::iter(0..pods).map(|number| async move {
        let mut pod: Pod = super::Mix::Basic.pod(number)?;
        pod.metadata.uid = None;
        pod.metadata.creation_timestamp = None;
        pod.status = None;
        if let Some(spec) = &mut pod.spec {
            spec.priority = None;
        }
        all.create(params, &pod).await?;
        anyhow::Ok(())
    });
    made.buffer_unordered(MAKERS).try_collect::<Vec<()>>().await?;
    Ok(())
}

/// The time from the first bound pod to the last.
async fn watch(client: Client, pods: u32) -> anyhow::Result<Duration> {
    let api: Api<Pod> = Api::namespaced(client, "default");
    let list = api.list(&ListParams::default()).await?;
    let is_bound = |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    let mut left: std::collections::HashSet<String> = list
        .items
        .iter()
        .filter(|pod| !is_bound(pod))
        .filter_map(|pod| pod.metadata.name.clone())
        .collect();
    if left.len() < usize::try_from(pods)? {
        bail!("pods were bound before anybody looked");
    }
    let version = list.metadata.resource_version.context("a list has a version")?;
    let mut events = api.watch(&WatchParams::default().timeout(290), &version).await?.boxed();
    let mut first = None;
    while let Some(event) = events.try_next().await? {
        if let WatchEvent::Modified(pod) = event
            && is_bound(&pod)
        {
            let first = *first.get_or_insert_with(Instant::now);
            left.remove(&pod.metadata.name.unwrap_or_default());
            if left.is_empty() {
                return Ok(first.elapsed());
            }
        }
    }
    bail!("the watch ended with {} pods waiting", left.len())
}

/// Binds every pod to the next node, with as many requests at once as the scheduler.
async fn bind_all(client: Client, nodes: u32) -> anyhow::Result<()> {
    let api: &Api<Pod> = &Api::namespaced(client, "default");
    let pods = api.list(&ListParams::default()).await?.items;
    let next = &Arc::new(AtomicUsize::new(0));
    let bound = stream::iter(pods).map(|pod| async move {
        let number = next.fetch_add(1, Ordering::Relaxed) % usize::try_from(nodes)?;
        let name = pod.metadata.name.unwrap_or_default();
        let binding: Binding = typed(json!({"metadata": {"name": name, "uid": pod.metadata.uid},
            "target": {"kind": "Node", "name": format!("node-{number}")}}))?;
        api.create_subresource::<_, Status>("binding", &name, &PostParams::default(), &binding)
            .await?;
        anyhow::Ok(())
    });
    bound.buffer_unordered(Options::default().bindings).try_collect::<Vec<()>>().await?;
    Ok(())
}
