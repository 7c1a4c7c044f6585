//! `tidepool bench api`: how many pods a second does the embedded API take?
//!
//! A fresh server on loopback with TLS, as `tidepool up` runs it. Clients create,
//! bind and report pods, one request after the other, many clients at a time;
//! watchers follow all of it. With `--kubeconfig` the same clients talk to
//! another server, so that two servers can be compared on one machine.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use apiserver::http::{ApiServer, Credentials, Options, RandomIds, listen};
use apiserver::store::{Limits, Store};
use clap::{Args, ValueEnum};
use futures_util::{AsyncBufReadExt, TryStreamExt};
use http::Request;
use jiff::Timestamp;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{Outcome, output};

/// Measure the embedded API: pods created, bound and reported a second
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Where objects are kept
    #[arg(long, value_enum, default_value_t = StoreKind::Memory)]
    store: StoreKind,
    /// Pods to create, bind and report
    #[arg(long, default_value_t = 5_000)]
    pods: usize,
    /// Clients at the same time
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..))]
    clients: u16,
    /// Watchers that follow all pods
    #[arg(long, default_value_t = 0)]
    watchers: usize,
    /// Talk to the server of this kubeconfig instead of a fresh one
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  tidepool bench api --store disk --json
  tidepool bench api --watchers 100 --pods 2000";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum StoreKind {
    Memory,
    Disk,
}

/// Stable keys; more may be added.
#[derive(Debug, Serialize)]
struct Report {
    /// `memory` or `disk`; the server's address for another server.
    store: String,
    pods: usize,
    clients: u16,
    watchers: usize,
    seconds: f64,
    /// Pods created, bound and reported Running a second: three writes each.
    pods_per_s: f64,
    /// Events that reached a watcher a second, over all watchers.
    watch_events_per_s: f64,
    /// Of this process: the server and the clients together.
    rss_mib: f64,
}

const NAMESPACE: &str = "tidepool-bench";
/// How long the last events may take to reach the watchers.
const LAST_EVENTS: Duration = Duration::from_secs(30);

impl Arguments {
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let report = runtime.block_on(self.measure())?;
        match self.json {
            true => output::print_as(output::Format::Json, &report)?,
            false => output::print(&format!(
                "{} pods on {} in {:.2} s: {:.0} pods/s, {:.0} watch events/s, {:.0} MiB\n",
                report.pods,
                report.store,
                report.seconds,
                report.pods_per_s,
                report.watch_events_per_s,
                report.rss_mib,
            ))?,
        }
        Ok(Outcome::Done)
    }

    async fn measure(&self) -> anyhow::Result<Report> {
        let dir = Scratch::new()?;
        let (config, name) = match &self.kubeconfig {
            Some(path) => {
                let kubeconfig = Kubeconfig::read_from(path)?;
                let options = KubeConfigOptions::default();
                let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
                let name = config.cluster_url.to_string();
                (config, name)
            }
            None => (self.serve(&dir).await?, format!("{:?}", self.store).to_lowercase()),
        };
        let client = Client::try_from(config.clone())?;
        prepare(&client).await?;
        let seen = Arc::new(AtomicUsize::new(0));
        let _watchers = self.watch(&config, &seen).await?;

        let start = Instant::now();
        let mut clients = JoinSet::new();
        for number in 0..self.clients {
            // A connection of its own, as separate programs would have.
            let client = Client::try_from(config.clone())?;
            let (pods, step) = (self.pods, usize::from(self.clients));
            clients.spawn(async move {
                for pod in (usize::from(number)..pods).step_by(step) {
                    live(&client, pod).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(ended) = clients.join_next().await {
            ended??;
        }
        let seconds = start.elapsed().as_secs_f64();
        let watched = self.wait_for_events(&seen, start).await;
        remove_pods(&client).await?;
        Ok(Report {
            store: name,
            pods: self.pods,
            clients: self.clients,
            watchers: self.watchers,
            seconds,
            pods_per_s: self.pods as f64 / seconds,
            watch_events_per_s: watched,
            rss_mib: rss_mib()?,
        })
    }

    /// Events a second, once every watcher has seen three for each pod.
    async fn wait_for_events(&self, seen: &AtomicUsize, start: Instant) -> f64 {
        let all = self.watchers * self.pods * 3;
        let patience = Instant::now();
        while seen.load(Ordering::Relaxed) < all && patience.elapsed() < LAST_EVENTS {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        seen.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64()
    }

    async fn serve(&self, dir: &Scratch) -> anyhow::Result<Config> {
        let store = match self.store {
            StoreKind::Memory => Store::in_memory(Limits::default())?,
            StoreKind::Disk => Store::open(&dir.0.join("store"), Limits::default())?,
        };
        let names = ["127.0.0.1".to_owned()];
        let credentials = Credentials::ephemeral(&names, &RandomIds, Timestamp::now())?;
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        let listener = listen(address, false).await?;
        let url = format!("https://{}", listener.local_addr()?);
        let options = Options { token: Some(credentials.token.clone()), ..Options::default() };
        let server = ApiServer::start(store, options).await;
        let tls = Some(credentials.server_config()?);
        // Lives as long as this process.
        tokio::spawn(server.serve(listener, tls, std::future::pending()));
        let kubeconfig = Kubeconfig::from_yaml(&credentials.kubeconfig(&url))?;
        Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
    }

    async fn watch(&self, config: &Config, seen: &Arc<AtomicUsize>) -> anyhow::Result<JoinSet<()>> {
        let mut watchers = JoinSet::new();
        for _ in 0..self.watchers {
            let client = Client::try_from(config.clone())?;
            let path = format!("/api/v1/namespaces/{NAMESPACE}/pods?watch=1");
            let request = Request::get(path).body(Vec::new())?;
            let mut lines = client.request_stream(request).await?.lines();
            let seen = seen.clone();
            watchers.spawn(async move {
                while let Ok(Some(_)) = lines.try_next().await {
                    seen.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        Ok(watchers)
    }
}

/// The life of one pod as far as an API server sees it: created, bound, running.
async fn live(client: &Client, number: usize) -> anyhow::Result<()> {
    let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    let name = format!("pod-{number:06}");
    send(client, "POST", &pods, "application/json", &pod(&name)).await?;
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-0"}});
    send(client, "POST", &format!("{pods}/{name}/binding"), "application/json", &binding).await?;
    let status = json!({"status": {"phase": "Running", "podIP": "10.0.0.1"}});
    let path = format!("{pods}/{name}/status");
    send(client, "PATCH", &path, "application/merge-patch+json", &status).await?;
    Ok(())
}

/// About as large as pods are in the field.
fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "bench", "koordinator.sh/qosClass": "LS"},
            "annotations": {"note": "a line of text as tools like to leave it on pods"}},
        "spec": {"automountServiceAccountToken": false, "containers": [{
            "name": "main",
            "image": "registry.example/bench:1",
            "command": ["/bin/serve", "--port", "8080"],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            "ports": [{"containerPort": 8080}],
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"},
                "limits": {"cpu": "1", "memory": "128Mi"}},
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}},
        }]},
    })
}

async fn send(
    client: &Client,
    method: &str,
    path: &str,
    content_type: &str,
    body: &Value,
) -> anyhow::Result<Value> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .body(serde_json::to_vec(body)?)?;
    client.request(request).await.with_context(|| format!("{method} {path}"))
}

async fn prepare(client: &Client) -> anyhow::Result<()> {
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    // It may be there from an earlier run.
    let _ = send(client, "POST", "/api/v1/namespaces", "application/json", &namespace).await;
    remove_pods(client).await
}

async fn remove_pods(client: &Client) -> anyhow::Result<()> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods?gracePeriodSeconds=0");
    let request = Request::delete(path).body(Vec::new())?;
    let _: Value = client.request(request).await?;
    Ok(())
}

fn rss_mib() -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status").context("cannot read /proc")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse::<f64>().ok());
    Ok(kib.context("no VmRSS in /proc/self/status")? / 1024.0)
}

/// A directory that is gone with the measurement.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> anyhow::Result<Self> {
        let dir = std::env::temp_dir().join(format!("tidepool-bench-{}", std::process::id()));
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(Self(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Left-overs in the temporary directory harm nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
