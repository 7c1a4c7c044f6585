//! How fast does one change reach everybody who watches?

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use http::Request;
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tokio::task::JoinSet;

use super::load::{Life, Load, pods_path};

/// Writes of one pod's life, each of which is an event.
const EVENTS: usize = 3;
/// How long nothing may arrive before the rest counts as missed.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the watchers saw.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) events_per_s: f64,
    pub(super) missed: usize,
}

/// Lets `watchers` follow all pods while `pods` of them live.
pub(super) async fn measure(load: &Load, watchers: usize, pods: usize) -> anyhow::Result<Seen> {
    let seen = Arc::new(AtomicUsize::new(0));
    let _watching = watch(load, watchers, &seen).await?;
    let begin = Instant::now();
    load.write_pods("watched", pods, Life::Running).await?;
    let wanted = watchers * pods * EVENTS;
    let (mut last, mut change) = (0, Instant::now());
    loop {
        let now = seen.load(Ordering::Relaxed);
        if now > last {
            (last, change) = (now, Instant::now());
        }
        if now >= wanted || change.elapsed() > PATIENCE {
            let elapsed = change.duration_since(begin).as_secs_f64();
            return Ok(Seen {
                events_per_s: now as f64 / elapsed,
                missed: wanted.saturating_sub(now),
            });
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Opens the watches; each counts its events, which are lines.
async fn watch(
    load: &Load,
    watchers: usize,
    seen: &Arc<AtomicUsize>,
) -> anyhow::Result<JoinSet<()>> {
    let client = Client::try_from(load.config.clone())?;
    let request = Request::get(format!("{}?limit=1", pods_path())).body(Vec::new())?;
    let list: Value = client.request(request).await?;
    let from = list["metadata"]["resourceVersion"].as_str().context("a list has a revision")?;
    let path = format!("{}?watch=1&resourceVersion={from}", pods_path());
    let mut tasks = JoinSet::new();
    for _ in 0..watchers {
        // A connection of its own, as separate programs would have.
        let client = Client::try_from(load.config.clone())?;
        let answer = client.send(Request::get(&path).body(Body::empty())?).await?;
        ensure!(answer.status().is_success(), "cannot watch {path}: {}", answer.status());
        let (mut body, seen) = (answer.into_body(), seen.clone());
        tasks.spawn(async move {
            while let Some(Ok(frame)) = body.frame().await {
                let lines = frame
                    .data_ref()
                    .map_or(0, |data| data.iter().filter(|byte| **byte == b'\n').count());
                seen.fetch_add(lines, Ordering::Relaxed);
            }
        });
    }
    Ok(tasks)
}
