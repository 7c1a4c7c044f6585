//! How long does the API take to be back after a crash?
//!
//! A server on disk is filled, killed, and started again a few times; each start reads and checks
//! the whole store.

use anyhow::{Context, ensure};
use http::Request;
use kube::Client;
use serde::Serialize;
use serde_json::Value;

use super::StoreKind;
use super::load::{Life, Load, pods_path};
use super::scratch::Scratch;
use super::server::Server;
use crate::process::{Memory, memory_mib};

const STARTS: usize = 5;

/// Stable keys; more may be added.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    store: &'static str,
    objects: usize,
    /// From the start of the process until it serves: the median, and the extremes.
    start_ms: f64,
    start_min_ms: f64,
    start_max_ms: f64,
    /// Of the server, when it has just started.
    rss_mib: f64,
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { objects, start_ms, start_min_ms, start_max_ms, rss_mib, .. } = self;
        writeln!(
            f,
            "{objects} objects on disk: serving after {start_ms:.0} ms ({start_min_ms:.0} to \
             {start_max_ms:.0} in {STARTS} starts), {rss_mib:.0} MiB"
        )
    }
}

pub(super) async fn measure(objects: usize, clients: u16) -> anyhow::Result<Report> {
    let dir = Scratch::new()?;
    let server = Server::start(StoreKind::Disk, dir.path())?;
    let load = Load { config: server.config().await?, clients, nodes: 0 };
    load.prepare().await?;
    load.write_pods("stored", objects, Life::Created).await?;
    drop(server);

    let mut taken = Vec::new();
    let mut rss_mib = 0.0;
    for _ in 0..STARTS {
        let server = Server::start(StoreKind::Disk, dir.path())?;
        let found = count_pods(&server).await?;
        ensure!(found == objects, "{found} of {objects} pods are there after a start");
        taken.push(server.started.as_secs_f64() * 1e3);
        rss_mib = memory_mib(&[server.pid()], Memory::Resident)?;
    }
    taken.sort_by(f64::total_cmp);
    let at = |index: usize| taken.get(index).copied().unwrap_or_default();
    Ok(Report {
        store: "disk",
        objects,
        start_ms: at(STARTS / 2),
        start_min_ms: at(0),
        start_max_ms: at(STARTS - 1),
        rss_mib,
    })
}

async fn count_pods(server: &Server) -> anyhow::Result<usize> {
    let client = Client::try_from(server.config().await?)?;
    let request = Request::get(format!("{}?limit=1", pods_path())).body(Vec::new())?;
    let list: Value = client.request(request).await?;
    let shown = list["items"].as_array().map_or(0, Vec::len);
    let rest = list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
    Ok(shown + usize::try_from(rest).context("more pods than can be counted")?)
}
