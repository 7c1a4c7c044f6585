//! A console over a made-up cluster, for browser tests and screenshots.
//!
//! ```text
//! showcase PORT small    an API server with a few nodes; the switch works with the token "showcase"
//! showcase PORT empty    nothing
//! showcase PORT large    ten thousand nodes, without an API server
//! ```
//!
//! Prints the console's address and goes on until its input ends.

use std::error::Error;
use std::sync::LazyLock;
use std::time::Duration;

use apiserver::http::{ApiServer, Options, listen};
use apiserver::store::{Limits, Store};
use console::feed::{Agents, Kind, Settings};
use console::{Console, Door, Feed};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Config, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

type Done = Result<(), Box<dyn Error>>;

const TOKEN: &str = "showcase";
/// When everything began.
static BEGIN: LazyLock<Timestamp> =
    LazyLock::new(|| Timestamp::now() - SignedDuration::from_mins(61));
/// No API server takes it, but a page must.
const HOSTILE: &str = "<img src=x onerror=alert(1)>\"'&\u{202e}/../#?%2f";

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Done {
    let mut words = std::env::args().skip(1);
    let port: u16 = words.next().ok_or("showcase PORT small|empty|large")?.parse()?;
    let what = words.next().unwrap_or_default();
    let shutdown = CancellationToken::new();
    let feed = Feed::default();
    let door = match what.as_str() {
        "small" => Some(small(&feed, &shutdown).await?),
        "large" => {
            large(&feed, 10_000)?;
            Kind::ALL.into_iter().for_each(|kind| feed.set_listed(kind, true));
            feed.publish(Timestamp::now());
            None
        }
        _ => {
            feed.publish(Timestamp::now());
            None
        }
    };
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    println!("http://{}", listener.local_addr()?);
    let stop = shutdown.clone();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        stop.cancel();
    });
    Console { feed, door }.serve(listener, shutdown).await?;
    Ok(())
}

fn object<T: DeserializeOwned>(value: Value) -> Result<T, Box<dyn Error>> {
    Ok(serde_json::from_value(value)?)
}

fn node(name: &str, cpus: i64, lent: i64) -> Value {
    let at = Timestamp::now().to_string();
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"pool": "online"}},
        "status": {
            "capacity": {"cpu": cpus.to_string(), "memory": format!("{}Gi", cpus * 4)},
            "allocatable": {"cpu": cpus.to_string(), "memory": format!("{}Gi", cpus * 4),
                "kubernetes.io/batch-cpu": lent.to_string(), "kubernetes.io/batch-memory": "20Gi"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "r",
                "lastHeartbeatTime": at, "lastTransitionTime": at}],
        },
    })
}

fn pod(name: &str, on: &str, qos: &str, cpus: &str) -> Value {
    let requests = match qos {
        "BE" => json!({"kubernetes.io/batch-cpu": "3000", "kubernetes.io/batch-memory": "4Gi"}),
        _ => json!({"cpu": "4", "memory": "8Gi"}),
    };
    let status = json!({ "cpuset": cpus }).to_string();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default",
            "labels": {"koordinator.sh/qosClass": qos},
            "annotations": {"scheduling.koordinator.sh/resource-status": status}},
        "spec": {"nodeName": on, "containers": [{"name": "main", "image": "host",
            "resources": {"requests": requests, "limits": requests}}]},
        "status": {"phase": "Running"},
    })
}

/// Name, CPUs and what is lent; the third one is never measured.
const NODES: [(&str, i64, i64); 5] = [
    ("atlas", 16, 5_200),
    ("boreas", 16, 6_100),
    ("ceres", 32, 0),
    ("delos", 16, 1_900),
    ("eris", 8, 0),
];

/// Load that swings: online work up, best-effort work down.
struct Load {
    lse: i64,
    lsr: i64,
    ls: i64,
    be: i64,
    system: i64,
}

fn load(step: i64) -> Load {
    let swing = [0, 2, 5, 9, 13, 16, 18, 19, 18, 16, 13, 9, 5, 2];
    let at = usize::try_from(step.rem_euclid(14)).unwrap_or(0);
    let up = swing.get(at).copied().unwrap_or(0);
    Load { lse: 1_800, lsr: 900 + up * 20, ls: 900 + up * 160, be: 4_700 - up * 150, system: 350 }
}

/// A report of a node and its pods: name, class and milli-cores of each.
fn metric(
    name: &str,
    at: Timestamp,
    system: i64,
    memory: &str,
    pods: &[(&str, &str, i64)],
) -> Value {
    let used = system + pods.iter().map(|(_, _, milli)| milli).sum::<i64>();
    let pod = |(name, qos, milli): &(&str, &str, i64)| {
        json!({"name": name, "namespace": "default", "qos": qos, "podUsage": {"resources":
            {"cpu": format!("{milli}m"), "memory": format!("{}Mi", 300 + milli)}}})
    };
    json!({
        "apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric",
        "metadata": {"name": name}, "spec": {},
        "status": {
            "updateTime": at.to_string(),
            "nodeMetric": {
                "nodeUsage": {"resources": {"cpu": format!("{used}m"), "memory": memory}},
                "systemUsage": {"resources": {"cpu": format!("{system}m"), "memory": "2Gi"}},
            },
            "podsMetric": pods.iter().map(pod).collect::<Vec<_>>(),
        },
    })
}

impl Load {
    fn pods(&self) -> [(&'static str, &'static str, i64); 5] {
        [
            ("trading", "LSE", self.lse),
            ("cache", "LSR", self.lsr),
            ("web", "LS", self.ls),
            ("transcode", "BE", self.be * 2 / 3),
            ("etl", "BE", self.be / 3),
        ]
    }
}

fn topology(name: &str, shared: &str, best_effort: &str) -> Value {
    let detail: Vec<Value> = (0..16)
        .map(|cpu| json!({"id": cpu, "core": cpu % 8, "socket": (cpu % 8) / 4, "node": (cpu % 8) / 4}))
        .collect();
    let pool = |cpus: &str| json!([{"socket": 0, "node": 0, "cpuset": cpus}]).to_string();
    json!({
        "apiVersion": "topology.node.k8s.io/v1alpha1", "kind": "NodeResourceTopology",
        "metadata": {"name": name, "annotations": {
            "node.koordinator.sh/cpu-topology": json!({ "detail": detail }).to_string(),
            "node.koordinator.sh/cpu-shared-pools": pool(shared),
            "node.koordinator.sh/be-cpu-shared-pools": pool(best_effort),
        }},
        "topologyPolicies": ["None"], "zones": [],
    })
}

fn term(sign: &str, amount: i64, unit: &str, label: &str, note: &str) -> Value {
    json!({"sign": sign, "amount": amount, "unit": unit, "label": label, "note": note})
}

/// What the agent would have decided. A decision that stays keeps its time.
fn agent(node: &str, at: Timestamp, cpus: i64, load: &Load, evicts: bool) -> Value {
    let online = load.lse + load.lsr + load.ls;
    let allowed = cpus * 650;
    let left = allowed - online - load.system;
    let (granted, bound_by) = if left < 1_000 { (1_000, "floor") } else { (left, "threshold") };
    let cores = |sign, amount, label, note| term(sign, amount, "milliCores", label, note);
    let bytes = |sign, amount, label, note| term(sign, amount, "bytes", label, note);
    let since = if bound_by == "floor" { *BEGIN } else { at };
    let tenths = (granted + 50) / 100;
    let mut decisions = vec![json!({
        "strategy": "suppress", "since": since.to_string(), "about": "node", "resource": "cpu",
        "headline": format!("best-effort may use {}.{} of {cpus} CPUs", tenths / 10, tenths % 10),
        "boundBy": bound_by,
        "lines": [
            cores("plus", cpus * 1_000, "capacity", ""),
            cores("then", allowed, "allowed in total", "cpuSuppressThresholdPercent = 65"),
            cores("minus", online, "used above best-effort", "online pods"),
            cores("minus", load.system, "system", "measured"),
            cores("equals", left, "left", ""),
            cores("then", granted, "never less", "or all that is left"),
            cores("equals", granted, "granted", ""),
        ],
    })];
    let limit = (cpus << 32) / 10 * 7;
    decisions.push(json!({
        "strategy": "evict", "since": BEGIN.to_string(), "about": "node", "resource": "memory",
        "headline": "nobody has to leave for memory", "boundBy": "room below the threshold",
        "lines": [
            bytes("plus", cpus << 32, "capacity", ""),
            bytes("then", limit, "pods leave from here on", "memoryEvictThresholdPercent = 70"),
            bytes("minus", 21i64 << 30, "used", ""),
            bytes("equals", limit - (21i64 << 30), "room", ""),
        ],
    }));
    if evicts {
        decisions.push(json!({
            "strategy": "evict", "since": at.to_string(), "about": "default/report",
            "resource": "memory", "headline": "was evicted: memory above 70%",
            "boundBy": "memoryEvictThresholdPercent",
            "lines": [bytes("beside", 48_318_382_080i64, "used", ""),
                bytes("beside", 3_221_225_472i64, "freed", HOSTILE)],
        }));
    }
    let wait = |pod: &str, resource: &str, share: i64| json!({"pod": format!("default/{pod}"), "resource": resource, "share": share});
    let waits = match node {
        "atlas" => json!([wait("web", "cpu", 120 + load.ls / 20)]),
        "eris" => json!([wait("login", "memory", 1_230), wait("login", "io", 410)]),
        _ => json!([]),
    };
    let switch = json!({"isOn": true, "dirty": 9});
    json!({ "node": node, "switch": switch, "decisions": decisions, "waits": waits })
}

/// A few nodes behind an API server, with an hour of past.
async fn small(feed: &Feed, shutdown: &CancellationToken) -> Result<Door, Box<dyn Error>> {
    let store = Store::in_memory(Limits::default())?;
    let options = Options { token: Some(TOKEN.to_owned()), ..Options::default() };
    let server = ApiServer::start(store, options).await;
    let listener = listen("127.0.0.1:0".parse()?, false).await?;
    let mut config = Config::new(format!("http://{}", listener.local_addr()?).parse()?);
    tokio::spawn(server.serve(listener, None, shutdown.clone().cancelled_owned()));
    let door = Door::new(config.clone());
    config.auth_info = serde_json::from_value(json!({ "token": TOKEN }))?;
    let client = Client::try_from(config)?;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in api::kind::definitions() {
        create(&definitions, serde_json::to_value(definition)?).await?;
    }
    let nodes: Api<Node> = Api::all(client.clone());
    for (name, cpus, lent) in NODES {
        create(&nodes, node(name, cpus, lent)).await?;
    }
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    for (name, qos, cpus) in [
        ("trading", "LSE", "0,8"),
        ("cache", "LSR", "1,9"),
        ("web", "LS", ""),
        ("transcode", "BE", ""),
        ("etl", "BE", ""),
    ] {
        create(&pods, pod(name, "atlas", qos, cpus)).await?;
    }
    create(&pods, pod("shop", "boreas", "LS", "")).await?;
    for (node, online, batch) in [("delos", "search", "index"), ("eris", "login", "train")] {
        create(&pods, pod(online, node, "LS", "")).await?;
        create(&pods, pod(batch, node, "BE", "")).await?;
    }
    for pod in pods.list(&ListParams::default()).await? {
        let name = pod.metadata.name.unwrap_or_default();
        let running = Patch::Merge(json!({"status": {"phase": "Running"}}));
        pods.patch_status(&name, &PatchParams::default(), &running).await?;
    }
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
    "metadata": {"name": "slo-controller-config"}, "data": {
        "colocation-config": r#"{"enable":true,"cpuReclaimThresholdPercent":60}"#,
        "resource-threshold-config":
            r#"{"clusterStrategy":{"enable":true,"cpuSuppressThresholdPercent":65}}"#,
        "cpu-burst-config": r#"{"clusterStrategy":{"policy":"sometimes"}}"#,
    }});
    create(&Api::<ConfigMap>::default_namespaced(client.clone()), map).await?;
    let topologies: Api<api::kind::NodeResourceTopology> = Api::all(client.clone());
    create(&topologies, topology("atlas", "2-3,5-7,10-11,13-15", "1-7,9-15")).await?;
    create(&topologies, topology("boreas", "0-15", "0-15")).await?;
    // The past comes before the watches, which speak of now.
    for (name, cpus, lent) in NODES.into_iter().chain([(HOSTILE, 4, 500)]) {
        let made = object(node(name, cpus, lent))?;
        feed.change(|world| world.put_node(made));
    }
    past(feed)?;
    let config_namespace = "default".to_owned();
    let settings = Settings { config_namespace, agents: Agents::Nowhere, ledger: None };
    tokio::spawn(feed.clone().run(client, settings, shutdown.clone()));
    feed.until_listed(Duration::from_secs(10)).await;
    feed.publish(Timestamp::now());
    tokio::spawn(go_on(feed.clone(), shutdown.clone()));
    Ok(door)
}

async fn create<K>(api: &Api<K>, value: Value) -> Done
where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    api.create(&PostParams::default(), &object(value)?).await?;
    Ok(())
}

fn past(feed: &Feed) -> Done {
    let now = Timestamp::now();
    for step in 0..60 {
        let at = now - SignedDuration::from_secs((60 - step) * 60);
        report(feed, step, at)?;
        feed.publish(at);
    }
    Ok(())
}

/// One minute of the small cluster: one node that swings, one calm, one held, one with little memory.
fn report(feed: &Feed, step: i64, at: Timestamp) -> Done {
    let load = load(step);
    let calm = Load { lse: 0, lsr: 0, ls: 2_600 + step % 5 * 100, be: 0, system: 200 };
    let (busy, waiting) = (9_400 + step % 7 * 90, 1_600 - step % 3 * 40);
    let reports = [
        metric("atlas", at, load.system, "21Gi", &load.pods()),
        metric("boreas", at, calm.system, "12Gi", &[("shop", "LS", calm.ls)]),
        metric("delos", at, 300, "30Gi", &[("search", "LS", busy), ("index", "BE", waiting)]),
        metric("eris", at, 200, "25Gi", &[("login", "LS", 2_100), ("train", "BE", 900)]),
    ];
    let agents = [
        agent("atlas", at, 16, &load, step % 23 == 22),
        agent("boreas", at, 16, &calm, false),
        agent("delos", at, 16, &Load { lse: 0, lsr: 0, ls: busy, be: waiting, system: 300 }, false),
        agent("eris", at, 8, &Load { lse: 0, lsr: 0, ls: 2_100, be: 900, system: 200 }, false),
    ];
    for report in reports {
        let report = object(report)?;
        feed.change(|world| world.put_metric(report));
    }
    for page in agents {
        let name = page["node"].as_str().unwrap_or_default().to_owned();
        let page = object(page)?;
        feed.change(|world| world.put_agent(&name, page));
    }
    Ok(())
}

/// The cluster lives on, with more reports than a real one.
async fn go_on(feed: Feed, shutdown: CancellationToken) {
    let mut count = 0;
    while !shutdown.is_cancelled() {
        if report(&feed, 60 + count / 30, Timestamp::now()).is_err() {
            return;
        }
        count += 1;
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(2)) => {}
            () = shutdown.cancelled() => {}
        }
    }
}

fn large(feed: &Feed, count: i64) -> Done {
    let now = Timestamp::now();
    for number in 0..count {
        let name = format!("node-{number:05}");
        let cpus = [12, 16, 24, 32, 48, 64, 16, 24].get(usize::try_from(number % 8)?);
        let made = object(node(&name, *cpus.ok_or("eight sizes")?, 4_000))?;
        let load = load(number);
        // One in a thousand has been silent for an hour.
        let at = if number % 997 == 5 { now - SignedDuration::from_hours(1) } else { now };
        let report = metric(&name, at, load.system, "21Gi", &load.pods());
        let report = object(report)?;
        let pods = [
            object(pod(&format!("web-{number}"), &name, "LS", ""))?,
            object(pod(&format!("batch-{number}"), &name, "BE", ""))?,
        ];
        feed.change(|world| {
            world.put_node(made);
            world.put_metric(report);
            pods.iter().for_each(|pod| world.put_pod(pod));
        });
    }
    // The past of so many is made from how they are now.
    let rows = feed.look(|world| world.rows(now));
    for step in 0..36 {
        let at = now - SignedDuration::from_mins(5 * (36 - step));
        let swing = load(step).be - 2_000;
        let mut then = rows.clone();
        for row in &mut then {
            if let Some(used) = &mut row.used {
                used.milli_cpu.0 += swing / 2;
            }
        }
        feed.change(|world| world.sample_fleet(&then, at));
    }
    Ok(())
}
