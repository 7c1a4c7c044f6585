//! `tidepool bench webhook`: how long do the webhooks hold a pod up?
//!
//! A real webhook server on loopback with TLS and the certificates it made
//! itself, beside an embedded API that holds twenty profiles. Pods are asked
//! about as an API server asks: to be changed, then to be judged. Beside that
//! stand the same two requests for a page that costs nothing, which is what the
//! way there and back takes on this machine, and the time that the webhooks
//! themselves counted.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use api::protocol::endpoint::manager::HEALTHZ;
use api::protocol::metric::manager::WEBHOOK_DURATION;
use api::protocol::name::{NAMESPACE, secret};
use api::protocol::webhook::{MUTATE_POD, VALIDATE_POD};
use apiserver::http::{ApiServer, Options as ServerOptions, router};
use apiserver::store::{Limits, Store};
use clap::Args;
use control::Clock;
use control::webhook::certificate::Bundle;
use control::webhook::latency::{Questions, measure};
use control::webhook::{Options, Reach, Webhooks};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use prometheus::Registry;
use serde::Serialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::percentile_ms;
use crate::report;

/// Measure the webhooks: time added to the creation of a pod
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Pods created a second
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
    /// How long to measure
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  tidepool bench webhook
  tidepool bench webhook --rate 500 --seconds 5 --json";

/// Stable keys; more may be added.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    rate: u32,
    pods: usize,
    /// From the appointment to the second answer.
    webhook_p50_ms: f64,
    pub(crate) webhook_p99_ms: f64,
    webhook_max_ms: f64,
    /// The same for two requests without a question: the way alone.
    pub(crate) transport_p99_ms: f64,
    /// What a pod's two questions cost in the handlers, from the body to the verdict.
    pub(crate) handler_mean_ms: f64,
}

const PROFILES: usize = 20;
const HOST: &str = "127.0.0.1";
const READY: Duration = Duration::from_secs(60);

impl Arguments {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let report = runtime.block_on(webhooks(self.rate, self.seconds))?;
        let text = if self.json {
            format!("{}\n", serde_json::to_string(&report)?)
        } else {
            format!(
                "webhooks add {:.2} ms to a pod (p50), {:.2} ms (p99), {:.2} ms at most; the way alone {:.2} ms (p99), the handlers {:.2} ms on average: {} pods, {} a second\n",
                report.webhook_p50_ms,
                report.webhook_p99_ms,
                report.webhook_max_ms,
                report.transport_p99_ms,
                report.handler_mean_ms,
                report.pods,
                report.rate
            )
        };
        report::print(&text)?;
        Ok(())
    }
}

/// Asks a webhook server about pods at `rate` a second.
pub(crate) async fn webhooks(rate: u32, seconds: u32) -> anyhow::Result<Report> {
    let store = Store::in_memory(Limits::default())?;
    let server = ApiServer::start(store, ServerOptions::default()).await;
    let client = Client::new(router(server), "default");
    for object in objects() {
        create(&client, object).await?;
    }
    let options = Options {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        reach: Reach::Host(HOST.to_owned()),
        install_missing: true,
        ..Options::default()
    };
    let registry = Registry::new();
    let webhooks = Webhooks::bind(client.clone(), options, &registry).await?;
    let (address, mut readiness) = (webhooks.address(), webhooks.readiness());
    let stop = CancellationToken::new();
    let serving = tokio::spawn(webhooks.run(Clock::system(), stop.clone()));
    tokio::time::timeout(READY, readiness.until_ready())
        .await
        .context("the webhooks do not become ready")?;
    let secrets: Api<Secret> = Api::namespaced(client, NAMESPACE);
    let secret = secrets.get(secret::WEBHOOK_CERTS).await?;
    let questions = Questions {
        address,
        host: HOST.to_owned(),
        authority: Bundle::salvage(&secret.data.unwrap_or_default()).authority().to_owned(),
        paths: vec![MUTATE_POD, VALIDATE_POD],
        body: Some(review().to_string().into_bytes()),
        per_second: rate,
        count: rate,
    };
    // The first second warms caches up.
    ask(questions.clone()).await?;
    let count = rate.saturating_mul(seconds);
    let paths = vec![HEALTHZ, HEALTHZ];
    let way = ask(Questions { paths, body: None, count, ..questions.clone() }).await?;
    let before = handled(&registry);
    let times = ask(Questions { count, ..questions }).await?;
    let after = handled(&registry);
    stop.cancel();
    serving.await??;
    Ok(Report {
        rate,
        pods: times.len(),
        webhook_p50_ms: percentile_ms(&times, 500),
        webhook_p99_ms: percentile_ms(&times, 990),
        webhook_max_ms: percentile_ms(&times, 1000),
        transport_p99_ms: percentile_ms(&way, 990),
        handler_mean_ms: (after - before) / f64::from(count),
    })
}

async fn ask(questions: Questions) -> anyhow::Result<Vec<Duration>> {
    Ok(tokio::task::spawn_blocking(move || measure(&questions)).await??)
}

/// Milliseconds that the webhooks have spent in all, by their own metric.
fn handled(registry: &Registry) -> f64 {
    let families = registry.gather();
    let durations = families.iter().filter(|family| family.name() == WEBHOOK_DURATION.name);
    let series = durations.flat_map(|family| family.get_metric());
    series.map(|metric| metric.get_histogram().get_sample_sum()).sum()
}

/// What the API server holds.
fn objects() -> Vec<Value> {
    let mut objects: Vec<Value> =
        api::kind::definitions().iter().map(|definition| json!(definition)).collect();
    objects.push(
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }),
    );
    objects.push(json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": { "name": "koord-batch" }, "value": 5000,
    }));
    objects.extend((0..PROFILES).map(|index| {
        json!({
            "apiVersion": "config.koordinator.sh/v1alpha1", "kind": "ClusterColocationProfile",
            "metadata": { "name": format!("profile-{index}") },
            "spec": {
                "selector": { "matchLabels": { "profile": index.to_string() } },
                "qosClass": "BE", "priorityClassName": "koord-batch",
                "schedulerName": "koord-scheduler", "labels": { "mutated": "true" },
            },
        })
    }));
    objects
}

async fn create(client: &Client, object: Value) -> anyhow::Result<()> {
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let (group, version) = version.split_once('/').unwrap_or(("", &version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let object: DynamicObject = serde_json::from_value(object)?;
    api.create(&PostParams::default(), &object).await?;
    Ok(())
}

/// A pod of ordinary size that one of the profiles means, as it is when it is judged.
fn review() -> Value {
    let environment: Vec<Value> = (0..20)
        .map(|index| json!({ "name": format!("SETTING_{index}"), "value": "something" }))
        .collect();
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "bench", "operation": "CREATE", "namespace": "default", "name": "pod",
            "object": {
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "generateName": "web-", "namespace": "default",
                    "labels": { "app": "web", "profile": "7", "koordinator.sh/qosClass": "BE" },
                },
                "spec": { "priority": 5000, "priorityClassName": "koord-batch", "containers": [{
                    "name": "main", "image": "nginx", "env": environment,
                    "resources": {
                        "requests": { "cpu": "500m", "memory": "1Gi" },
                        "limits": { "cpu": "1", "memory": "1Gi" },
                    },
                }] },
            },
        },
    })
}
