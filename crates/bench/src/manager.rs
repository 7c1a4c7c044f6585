//! `tidepool bench manager`: what does it cost to know how much every node lends?
//!
//! Four measurements. The caches are filled with nodes, pods and reports, and every node is
//! planned anew from memory. The memory is what the process holds then. After that the real
//! controllers run against an embedded API in this process, and the time is taken from the answer
//! to a report until a watch shows the node with its new batch CPU. Last, the webhooks are asked
//! about pods, see [`super::webhook`].

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use api::config::Key;
use api::kind::NodeMetric;
use apiserver::http::{ApiServer, Options as ServerOptions, router};
use apiserver::store::{Limits, Store};
use clap::Args;
use control::caches::{Caches, Filed, World};
use control::instruments::Instruments;
use control::intake::{InForce, Input, Settings, State};
use control::{Clock, PATIENCE, Shared, caches, intake, node_metric, node_resource, node_slo};
use futures_util::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client};
use overcommit::plan::Options;
use reconcile::elect::Leadership;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::percentile_ms;
use crate::report;

/// Measure the manager: time to plan a node, from report to patch, and memory
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Nodes in the caches
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..))]
    nodes: u32,
    /// Pods in the caches
    #[arg(long, default_value_t = 150_000)]
    pods: u32,
    /// Reports to follow through the embedded API
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    events: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  tidepool bench manager --nodes 10000 --pods 300000 --json
  tidepool bench manager --nodes 100 --pods 3000";

/// Stable keys; more may be added.
#[derive(Debug, Serialize)]
struct Report {
    nodes: u32,
    pods: u32,
    /// Best of five passes over all nodes.
    recompute_us_per_node: f64,
    event_to_patch_p50_ms: f64,
    event_to_patch_p99_ms: f64,
    /// Where the patches went.
    event_to_patch_writer: &'static str,
    /// What the webhooks add to the creation of a pod, at 200 a second.
    webhook_p99_ms: f64,
    /// Of that, the way there and back for two requests that ask nothing.
    webhook_transport_p99_ms: f64,
    /// Of that, on average, the work of the webhooks.
    webhook_handler_mean_ms: f64,
    /// With all nodes, pods and reports in the caches.
    rss_mib: f64,
}

/// Nodes in the embedded API.
const LIVE_NODES: u32 = 50;
const PASSES: usize = 5;
const LIMIT: Duration = Duration::from_secs(60);
const WEBHOOK_RATE: u32 = 200;
const WEBHOOK_SECONDS: u32 = 5;
const NAMESPACE: &str = "koordinator-system";
const COLOCATION: &str = r#"{"enable":true}"#;

impl Arguments {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let in_force = in_force()?;
        let mut world = World::default();
        self.fill(&mut world)?;
        let recompute = recompute(&mut world, &in_force);
        let rss_mib = rss_mib()?;
        drop(world);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let times = runtime.block_on(follow(self.events))?;
        let webhook = runtime.block_on(super::webhook::webhooks(WEBHOOK_RATE, WEBHOOK_SECONDS))?;
        let report = Report {
            nodes: self.nodes,
            pods: self.pods,
            recompute_us_per_node: recompute.as_secs_f64() * 1e6 / f64::from(self.nodes),
            event_to_patch_p50_ms: percentile_ms(&times, 500),
            event_to_patch_p99_ms: percentile_ms(&times, 990),
            event_to_patch_writer: "embedded API in this process, 50 nodes",
            webhook_p99_ms: webhook.webhook_p99_ms,
            webhook_transport_p99_ms: webhook.transport_p99_ms,
            webhook_handler_mean_ms: webhook.handler_mean_ms,
            rss_mib,
        };
        if self.json {
            report::print_json(&report)?;
        } else {
            report::print(&format!(
                "{} nodes, {} pods: {:.2} us a node, report to patch p99 {:.1} ms, webhooks p99 {:.1} ms, {:.0} MiB\n",
                report.nodes,
                report.pods,
                report.recompute_us_per_node,
                report.event_to_patch_p99_ms,
                report.webhook_p99_ms,
                report.rss_mib
            ))?;
        }
        Ok(())
    }

    /// Objects pass through one at a time, as from a watch.
    fn fill(&self, world: &mut World) -> anyhow::Result<()> {
        for number in 0..self.nodes {
            let (first, end) = self.pods_of(number);
            typed::<Node>(node(number))?.apply(world);
            for pod in first..end {
                typed::<Pod>(pod_on(number, pod))?.apply(world);
            }
            typed::<NodeMetric>(metric(number, first..end))?.apply(world);
        }
        Ok(())
    }

    /// Pods are dealt out evenly.
    fn pods_of(&self, number: u32) -> (u32, u32) {
        let share = |number: u32| {
            let pods = u64::from(number) * u64::from(self.pods) / u64::from(self.nodes);
            u32::try_from(pods).unwrap_or(u32::MAX)
        };
        (share(number), share(number + 1))
    }
}

pub(super) fn typed<T: DeserializeOwned>(value: Value) -> anyhow::Result<T> {
    serde_json::from_value(value).context("the bench makes objects that exist")
}

fn in_force() -> anyhow::Result<std::sync::Arc<InForce>> {
    let data = [(Key::Colocation.name().to_owned(), COLOCATION.to_owned())];
    let change = State::new(&Settings::default()).next(Input::Data(data.into()));
    Ok(change.context("the first configuration is new")?.in_force)
}

fn node(number: u32) -> Value {
    json!({"metadata": {"name": format!("node-{number}"), "uid": number.to_string(),
            "resourceVersion": "1", "labels": {"kubernetes.io/hostname": format!("node-{number}"),
                "kubernetes.io/os": "linux", "topology.kubernetes.io/zone": "a"}},
        "status": {"capacity": {"cpu": "64", "memory": "256Gi", "pods": "110"},
            "allocatable": {"cpu": "62", "memory": "248Gi", "pods": "110"}}})
}

fn class(pod: u32) -> (&'static str, i32, &'static str) {
    match pod % 4 {
        0 => ("koord-batch", 5_500, "BE"),
        1 => ("koord-prod", 9_500, "LSR"),
        _ => ("koord-prod", 9_500, "LS"),
    }
}

fn pod_on(node: u32, pod: u32) -> Value {
    let (class, priority, qos) = class(pod);
    let requests = match class {
        "koord-batch" => {
            json!({"kubernetes.io/batch-cpu": "1k", "kubernetes.io/batch-memory": "1Gi"})
        }
        _ => json!({"cpu": "1500m", "memory": "4Gi"}),
    };
    json!({"metadata": {"name": format!("workload-7c9f6d5b4-{pod}"), "namespace": "default",
            "labels": {"koordinator.sh/qosClass": qos}},
        "spec": {"nodeName": format!("node-{node}"), "priority": priority,
            "containers": [{"name": "main", "resources": {"requests": requests}}]},
        "status": {"phase": "Running"}})
}

fn metric(node: u32, pods: std::ops::Range<u32>) -> Value {
    let usage = |cpu: &str, memory: &str| json!({"resources": {"cpu": cpu, "memory": memory}});
    let pods: Vec<Value> = pods
        .map(|pod| {
            json!({"name": format!("workload-7c9f6d5b4-{pod}"), "namespace": "default",
                "priority": class(pod).0, "podUsage": usage("731234567n", "2147483649")})
        })
        .collect();
    json!({"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric",
        "metadata": {"name": format!("node-{node}")}, "spec": {},
        "status": {"updateTime": Timestamp::now().to_string(), "podsMetric": pods,
            "nodeMetric": {"nodeUsage": usage("26", "110Gi"), "systemUsage": usage("1500m", "6Gi")},
            "prodReclaimableMetric": {"resource": usage("12", "30Gi")}}})
}

/// The shortest of several passes over all nodes; strategies are worked out before.
fn recompute(world: &mut World, in_force: &InForce) -> Duration {
    let names: Vec<_> = world.names().cloned().collect();
    let (options, now) = (Options::default(), Timestamp::now());
    let mut best = Duration::MAX;
    for pass in 0..=PASSES {
        let start = Instant::now();
        for name in &names {
            std::hint::black_box(world.plan(name, in_force, &options, now));
        }
        if pass > 0 {
            best = best.min(start.elapsed());
        }
    }
    best
}

pub(super) fn rss_mib() -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status").context("cannot read /proc")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse::<f64>().ok());
    Ok(kib.context("no VmRSS in /proc/self/status")? / 1024.0)
}

/// Runs the controllers against a server in this process and follows reports to their patches.
async fn follow(events: u32) -> anyhow::Result<Vec<Duration>> {
    let store = Store::in_memory(Limits::default())?;
    let server = ApiServer::start(store, ServerOptions::default()).await;
    let client = Client::new(router(server), "default");
    prepare(&client).await?;
    let (shutdown, mut running) = (CancellationToken::new(), JoinSet::new());
    start(&client, &shutdown, &mut running)?;
    let times = tokio::time::timeout(LIMIT, report_all(&client, events)).await;
    shutdown.cancel();
    while running.join_next().await.is_some() {}
    times.context("the embedded API took too long")?
}

async fn prepare(client: &Client) -> anyhow::Result<()> {
    let params = PostParams::default();
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in api::kind::definitions() {
        crds.create(&params, &crd).await?;
    }
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.create(&params, &typed(json!({"metadata": {"name": NAMESPACE}}))?).await?;
    let configs: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let config = json!({"metadata": {"name": "slo-controller-config"},
        "data": {"colocation-config": COLOCATION}});
    configs.create(&params, &typed(config)?).await?;
    let nodes: Api<Node> = Api::all(client.clone());
    for number in 0..LIVE_NODES {
        let mut node = typed::<Node>(node(number))?;
        node.metadata.resource_version = None;
        node.metadata.uid = None;
        nodes.create(&params, &node).await?;
    }
    Ok(())
}

fn start(
    client: &Client,
    shutdown: &CancellationToken,
    running: &mut JoinSet<()>,
) -> anyhow::Result<()> {
    let (sender, configs) = intake::channel();
    let shared = Shared {
        client: client.clone(),
        caches: Caches::new(),
        configs,
        leadership: Leadership::alone(),
        instruments: Instruments::register(&prometheus::Registry::new())?,
        clock: Clock::system(),
        patience: PATIENCE,
    };
    let (s, stop) = (|| shared.clone(), || shutdown.clone());
    let settings = Settings::default();
    let (leadership, instruments) = (shared.leadership.clone(), shared.instruments.clone());
    running.spawn(intake::run(sender, settings, client.clone(), leadership, instruments, stop()));
    running.spawn(caches::run(s(), stop()));
    running.spawn(node_metric::run(s(), stop()));
    running.spawn(node_slo::run(s(), stop()));
    running.spawn(node_resource::run(s(), Options::default(), stop()));
    Ok(())
}

/// Reports load on one node after the other and waits until the node shows what is left.
async fn report_all(client: &Client, events: u32) -> anyhow::Result<Vec<Duration>> {
    let nodes: Api<Node> = Api::all(client.clone());
    let metrics: Api<NodeMetric> = Api::all(client.clone());
    let last = format!("node-{}", LIVE_NODES - 1);
    while metrics.get_opt(&last).await?.is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let version = nodes.list(&Default::default()).await?.metadata.resource_version;
    let version = version.context("a list has a version")?;
    let watch = nodes.watch(&WatchParams::default().timeout(290), &version).await?;
    let mut watch = watch.boxed();
    let mut times = Vec::new();
    for event in 0..events {
        let name = format!("node-{}", event % LIVE_NODES);
        // Swings of more than a tenth, so that each is written at once.
        let used = if (event / LIVE_NODES).is_multiple_of(2) { 4_000 } else { 16_000 };
        let usage = json!({"resources": {"cpu": format!("{used}m"), "memory": "9Gi"}});
        let status = json!({"status": {"updateTime": Timestamp::now().to_string(),
            "nodeMetric": {"nodeUsage": usage, "systemUsage": usage}}});
        metrics.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await?;
        let start = Instant::now();
        let want = 64_000 - 25_600 - used;
        loop {
            let Some(seen) = watch.try_next().await? else { bail!("the watch ended") };
            if let WatchEvent::Modified(node) = seen
                && node.metadata.name.as_deref() == Some(&name)
                && batch_cpu(&node) == Some(want)
            {
                break;
            }
        }
        times.push(start.elapsed());
    }
    Ok(times)
}

fn batch_cpu(node: &Node) -> Option<i64> {
    let list = node.status.as_ref()?.allocatable.as_ref()?;
    Some(api::resources::amount(list.get("kubernetes.io/batch-cpu")?).value())
}
