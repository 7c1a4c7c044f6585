//! How do schedulers compare on one API server, and API servers under one binder?
//!
//! ```text
//!                  ┌ null            binds every pod to the next node
//! kube-apiserver ──┼ kube-scheduler  its defaults, but no limit to its requests
//!    + etcd        └ tidepool        its defaults, every node scored
//!
//! embedded API ────┬ null
//!   on disk        └ tidepool
//! ```
//!
//! All of them get the same nodes and the same pods from the same driver (`tidepool bench cluster
//! drive`), one after the other, and again in every round; what is told is the median of the rounds
//! between the extremes. Nothing runs on the nodes, and no controllers are there. etcd does not
//! wait for the disk; the embedded API does.

mod report;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};

use self::report::{Results, table};
use crate::{
    child,
    guest::programs,
    kube::{Parts, Rig},
    repository::Repository,
};

#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// Sizes of the cluster
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 5_000])]
    nodes: Vec<u32>,
    /// Pods that wait for each binder
    #[arg(long, default_value_t = 5_000)]
    pods: u32,
    /// Pods a second when they come one after the other, for a fifth of those pods
    #[arg(long, default_value_t = 100)]
    rate: u32,
    /// How often each binder has its turn
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Measure this build of tidepool [default: a release build, made now]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Print one JSON object, on the last line
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Server {
    Kubernetes,
    Embedded,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Binder {
    Null,
    KubeScheduler,
    Tidepool,
}

/// In the order of their turns.
const CONTESTANTS: &[(Server, Binder)] = &[
    (Server::Kubernetes, Binder::Null),
    (Server::Kubernetes, Binder::KubeScheduler),
    (Server::Kubernetes, Binder::Tidepool),
    (Server::Embedded, Binder::Null),
    (Server::Embedded, Binder::Tidepool),
];

/// What else is asked of the two servers: `bench api` has the same clients for both.
const API_PODS: &str = "2000";
const WATCHERS: &str = "100";

impl Server {
    fn name(self) -> &'static str {
        match self {
            Self::Kubernetes => "kube-apiserver",
            Self::Embedded => "embedded",
        }
    }
}

impl Binder {
    fn name(self) -> &'static str {
        match self {
            Self::Null => report::YARDSTICK,
            Self::KubeScheduler => "kube-scheduler",
            Self::Tidepool => "tidepool",
        }
    }

    /// Which scheduler its pods name.
    fn profile(self) -> &'static str {
        match self {
            Self::Null | Self::KubeScheduler => "default-scheduler",
            Self::Tidepool => "koord-scheduler",
        }
    }
}

/// Prints the comparison.
pub(crate) fn run(repository: &Repository, plan: &Plan) -> Result<()> {
    let tidepool = match &plan.program {
        Some(program) => fs::canonicalize(program)
            .with_context(|| format!("cannot find {}", program.display()))?,
        None => programs::release(repository, "tidepool")?.path().to_owned(),
    };
    let bench = Bench { plan, tidepool, begin: Instant::now() };
    let mut clusters = Vec::new();
    let mut text = String::new();
    let mut versions = Value::Null;
    for nodes in &plan.nodes {
        let (binders, servers);
        (binders, servers, versions) = bench.compare(repository, *nodes)?;
        text += &format!("\n{nodes} nodes, {} pods, {} round(s)\n", plan.pods, plan.rounds);
        text += &table(&binders, report::BINDERS);
        text += &format!("\n{nodes} nodes, {API_PODS} pods, {WATCHERS} watchers\n");
        text += &table(&servers, report::SERVERS);
        clusters.push(json!({
            "nodes": nodes,
            "binders": report::json(&binders, report::BINDERS),
            "servers": report::json(&servers, report::SERVERS),
        }));
    }
    let Plan { pods, rate, rounds, .. } = plan;
    match plan.json {
        true => println!(
            "{}",
            json!({"versions": versions, "pods": pods, "rate": rate, "rounds": rounds,
                "clusters": clusters})
        ),
        false => println!("{}{text}", report::headline(&versions)),
    }
    Ok(())
}

struct Bench<'a> {
    plan: &'a Plan,
    tidepool: PathBuf,
    begin: Instant,
}

impl Bench<'_> {
    /// All rounds on one size of a cluster: by binder, by server, and the versions of what ran.
    fn compare(&self, repository: &Repository, nodes: u32) -> Result<(Results, Results, Value)> {
        let rig = Rig::start(repository, Parts::Api)?;
        let scheduler = configure_kube_scheduler(rig.folder())?;
        let mut fill = rig.command(&self.tidepool)?;
        fill.args(["bench", "cluster", "fill", "--nodes", &nodes.to_string()]);
        child::stdout_of(fill)?;
        let (mut binders, mut servers) = (Results::default(), Results::default());
        for round in 1..=self.plan.rounds {
            for (server, binder) in CONTESTANTS {
                let figures = self.drive(&rig, *server, *binder, nodes, &scheduler)?;
                let rate = figures["pods_per_s"].as_f64().unwrap_or_default();
                let (server, binder) = (server.name(), binder.name());
                self.tell(&format!(
                    "{nodes} nodes, round {round}: {binder} on {server}, {rate:.0} pods/s"
                ));
                binders.add([server, binder], figures);
            }
            for server in [Server::Kubernetes, Server::Embedded] {
                let figures = self.ask_server(&rig, server, nodes)?;
                servers.add([server.name(), ""], figures);
            }
        }
        Ok((binders, servers, versions(&rig)?))
    }

    fn tell(&self, what: &str) {
        eprintln!("[{:6.1} s] {what}", self.begin.elapsed().as_secs_f64());
    }

    /// Lets a binder have its turn.
    fn drive(
        &self,
        rig: &Rig,
        server: Server,
        binder: Binder,
        nodes: u32,
        scheduler: &Path,
    ) -> Result<Value> {
        let tidepool = &self.tidepool;
        // The embedded server is inside as well: it has the same loopback.
        let mut command = rig.command(tidepool)?;
        command.args(["bench", "cluster", "drive", "--json"]);
        match server {
            Server::Kubernetes => command.args(server_pids(rig, "--server-pid")?),
            Server::Embedded => command.args(["--embedded", "disk", "--nodes", &nodes.to_string()]),
        };
        let Plan { pods, rate, .. } = self.plan;
        command.args(["--pods", &pods.to_string(), "--rate", &rate.to_string()]);
        command.args(["--steady-pods", &(pods / 5).max(1).to_string()]);
        command.args(["--scheduler-name", binder.profile(), "--"]);
        match binder {
            Binder::Null => command.arg(tidepool).args(["bench", "cluster", "bind"]),
            Binder::KubeScheduler => {
                command.args(["kube-scheduler", "--secure-port=0", "--config"]).arg(scheduler)
            }
            Binder::Tidepool => {
                command.arg(tidepool).args(["scheduler", "--no-leader-election"]);
                command.args(["--address", "127.0.0.1:0"])
            }
        };
        figures(command)
    }

    /// What a server does without a scheduler, and with many who watch.
    fn ask_server(&self, rig: &Rig, server: Server, nodes: u32) -> Result<Value> {
        let mut command = rig.command(&self.tidepool)?;
        command.args(["bench", "api", "--json", "--pods", API_PODS, "--watchers", WATCHERS]);
        command.args(["--nodes", &nodes.min(100).to_string()]);
        match server {
            Server::Kubernetes => {
                command.arg("--kubeconfig").arg(rig.folder().join("admin.kubeconfig"));
                command.args(server_pids(rig, "--pid")?)
            }
            Server::Embedded => command.args(["--store", "disk"]),
        };
        figures(command)
    }
}

fn figures(command: std::process::Command) -> Result<Value> {
    let text = child::spelled(&command);
    let said = child::stdout_of(command)?;
    serde_json::from_str(&said).with_context(|| format!("{text} printed no JSON"))
}

fn server_pids(rig: &Rig, flag: &str) -> Result<Vec<String>> {
    let mut arguments = Vec::new();
    for name in ["etcd", "kube-apiserver"] {
        let path = rig.folder().join("pids").join(name);
        let pid =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        arguments.extend([flag.to_owned(), pid.trim().to_owned()]);
    }
    Ok(arguments)
}

/// Its defaults, except that it asks as often as it wants, as the others do, and is alone.
fn configure_kube_scheduler(folder: &Path) -> Result<PathBuf> {
    let path = folder.join("kube-scheduler.yaml");
    let kubeconfig = folder.join("admin.kubeconfig");
    let configuration = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": kubeconfig, "qps": 10_000, "burst": 20_000},
        "leaderElection": {"leaderElect": false},
    });
    fs::write(&path, configuration.to_string())
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

fn versions(rig: &Rig) -> Result<Value> {
    let first_line = |program: &str| -> Result<String> {
        let mut command = rig.command(program)?;
        command.arg("--version");
        let said = child::stdout_of(command)?;
        Ok(said.lines().next().unwrap_or_default().to_owned())
    };
    Ok(json!([first_line("kube-apiserver")?, first_line("etcd")?]))
}
