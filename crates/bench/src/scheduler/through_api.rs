//! The whole scheduler against an embedded API, and a binder that decides nothing beside it.
//!
//! Both find the same nodes and the same waiting pods on a fresh server in this process, send as
//! many bindings at once and write nothing else but, for the scheduler, its events: bindings go
//! first there, so how long the events come behind is told as well. The time runs from the first
//! bound pod to the last. They take turns; the middle of their rounds counts.
//!
//! The binder comes in two kinds. The plain one has the list of pods and does nothing but bind. The
//! other follows the pods, too, as everybody has to who wants to hear of new ones: what is left
//! between it and the scheduler is deciding and telling.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::Context;
use apiserver::http::{ApiServer, Options as ServerOptions, router};
use apiserver::store::{Limits, Store};
use control::scheduler::{Options, run};
use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::ListParams;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client};
use serde::Serialize;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cluster::null::bind;
use crate::cluster::objects::{self, NAMESPACE};
use crate::cluster::sight::Sightings;

/// One of the two that the scheduler goes by on one machine.
const SCHEDULER: &str = "default-scheduler";
const LIMIT: Duration = Duration::from_secs(600);
const ROUNDS: usize = 5;
/// How often events are counted.
const COUNT_EVERY: Duration = Duration::from_millis(100);

/// Stable keys; more may be added.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// By the scheduler, every node scored.
    pub(super) pods_per_s: f64,
    /// By a binder that takes one node after the other.
    pub(super) null_pods_per_s: f64,
    pub(super) ratio: f64,
    /// By such a binder that follows the pods.
    pub(super) following_null_pods_per_s: f64,
    pub(super) following_ratio: f64,
    /// From the last binding until every pod has its event.
    pub(super) events_behind_s: f64,
    pub(super) rounds: usize,
}

pub(super) async fn measure(nodes: u32, pods: u32) -> anyhow::Result<Report> {
    let (mut ours, mut null, mut following) = (Vec::new(), Vec::new(), Vec::new());
    let mut behind = Vec::new();
    for _ in 0..ROUNDS {
        let plain = round(nodes, pods, false, |client, _| bind_all(client, nodes));
        null.push(plain.await?.pods_per_s);
        let follower = round(nodes, pods, false, |client, _| async move {
            let mut watching = JoinSet::new();
            watching.spawn(follow(client.clone()));
            bind_all(client, nodes).await
        });
        following.push(follower.await?.pods_per_s);
        let round = round(nodes, pods, true, |client, stop| async move {
            run(client, Options::on_one_machine(), stop).await?;
            Ok(())
        });
        let Round { pods_per_s, events_behind } = round.await?;
        ours.push(pods_per_s);
        behind.push(events_behind.as_secs_f64());
    }
    let (pods_per_s, null_pods_per_s) = (middle(ours), middle(null));
    let following_null_pods_per_s = middle(following);
    Ok(Report {
        pods_per_s,
        null_pods_per_s,
        ratio: pods_per_s / null_pods_per_s,
        following_null_pods_per_s,
        following_ratio: pods_per_s / following_null_pods_per_s,
        events_behind_s: middle(behind),
        rounds: ROUNDS,
    })
}

fn middle(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}

struct Round {
    pods_per_s: f64,
    events_behind: Duration,
}

/// Fills a fresh server and lets one of the two loose on it.
async fn round<F>(
    nodes: u32,
    pods: u32,
    writes_events: bool,
    bind: impl FnOnce(Client, CancellationToken) -> F,
) -> anyhow::Result<Round>
where
    F: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let store = Store::in_memory(Limits::default())?;
    let server = ApiServer::start(store, ServerOptions::default()).await;
    let client = Client::new(router(server), "default");
    objects::make_nodes(&client, nodes).await?;
    objects::make_pods(&client, 0..pods, SCHEDULER).await?;
    let stop = CancellationToken::new();
    let watching = tokio::spawn(watch(client.clone(), pods).await?);
    let binding = tokio::spawn(bind(client.clone(), stop.clone()));
    let result = tokio::time::timeout(LIMIT, watching).await.context("binding took too long")?;
    let bound = Instant::now();
    if writes_events {
        let told = until_told(client, usize::try_from(pods)?);
        tokio::time::timeout(LIMIT, told).await.context("telling took too long")??;
    }
    let events_behind = bound.elapsed();
    stop.cancel();
    binding.await??;
    let took = result??;
    let pods_per_s = f64::from(pods.saturating_sub(1).max(1)) / took.as_secs_f64().max(1e-9);
    Ok(Round { pods_per_s, events_behind })
}

/// Waits until every pod has its event.
async fn until_told(client: Client, pods: usize) -> anyhow::Result<()> {
    let events: Api<Event> = Api::namespaced(client, NAMESPACE);
    while events.list_metadata(&ListParams::default()).await?.items.len() < pods {
        tokio::time::sleep(COUNT_EVERY).await;
    }
    Ok(())
}

/// Begins to look; what it gives ends with the time from the first bound pod to the last.
///
/// Nobody may bind before this has returned.
async fn watch(
    client: Client,
    pods: u32,
) -> anyhow::Result<impl Future<Output = anyhow::Result<Duration>>> {
    let mut left = HashSet::new();
    for number in 0..pods {
        left.insert(objects::pod(number, SCHEDULER)?.metadata.name.unwrap_or_default());
    }
    let mut sightings = Sightings::begin(&client).await?;
    Ok(async move {
        left.remove(&sightings.next().await?);
        let first = Instant::now();
        while !left.is_empty() {
            left.remove(&sightings.next().await?);
        }
        Ok(first.elapsed())
    })
}

/// Hears of every change of a pod, and does nothing with it.
async fn follow(client: Client) {
    let pods: Api<Pod> = Api::all(client);
    watcher(pods, watcher::Config::default()).for_each(|_| std::future::ready(())).await;
}

/// Binds every pod to the next node, with as many requests at once as the scheduler.
async fn bind_all(client: Client, nodes: u32) -> anyhow::Result<()> {
    let api: &Api<Pod> = &Api::namespaced(client, NAMESPACE);
    let pods = api.list(&ListParams::default()).await?.items;
    let bound =
        stream::iter(pods).zip(stream::iter((0..nodes).cycle())).map(|(pod, number)| async move {
            let name = pod.metadata.name.unwrap_or_default();
            bind(api, &name, pod.metadata.uid.as_deref(), &format!("node-{number}")).await
        });
    bound.buffer_unordered(Options::default().bindings).try_collect().await
}
