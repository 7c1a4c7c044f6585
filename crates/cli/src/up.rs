//! `tidepool up`: a cluster of one, on this machine, with nothing installed.
//!
//! ```text
//!  store <── API <── loopback, TLS, token ──┬── kubectl
//!                                           ├── controllers, scheduler, manager with webhooks
//!                                           ├── node: runs pods as processes
//!                                           ├── agent: measures them, and protects the online ones
//!                                           ├── hollow nodes
//!                                           └── console: shows all this to a browser
//! ```
//!
//! Everything but the API is a client of it, in this process but over the same wire that others
//! use. [`Plan::start_all`] is the list of them.

mod api;
mod components;
mod console;
mod foundation;
mod logs;
mod node_name;
mod progress;
mod welcome;

use std::fs::OpenOptions;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::api::protocol::gate::AgentGate;
use anyhow::Context;
use apiserver::store::{Limits, Store};
use clap::Args;
use cluster::controllers;
use cluster::hollow::{self, HollowConfig};
use cluster::node::{self, Logs, NodeConfig, Shim};
use control::manager::{Manager, ManagerError};
use control::scheduler;
use control::webhook::Readiness;
use futures_util::{FutureExt, TryFutureExt};
use host::cgroup::Tree;
use host::fs::{HostFs, Mounts, RealFs};
use kube::Client;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use self::api::Api;
use self::components::Components;
use self::logs::NodeLogs;
use self::node_name::NodeName;
use self::progress::Progress;
use self::welcome::Welcome;
use crate::state::{self, StateDir};
use crate::{Outcome, output};

/// Run a cluster of one on this machine
///
/// Serves a Kubernetes API on loopback, runs the usual controllers, and is a node whose
/// containers are processes of this machine. Objects are kept on disk. Ctrl-C stops it; pods run
/// on, and the next start takes them over.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    state_dir: StateDir,
    /// Port of the API; 0 picks a free one
    #[arg(long, default_value_t = 6480)]
    port: u16,
    /// Port of the console [default: 6481, or a free one with --port 0]; 0 picks a free one
    #[arg(long, value_name = "PORT")]
    console_port: Option<u16>,
    /// Keep objects in memory only; they and their pods are gone with the process
    #[arg(long)]
    in_memory: bool,
    /// Name of this machine's node [default: the host name]
    #[arg(long)]
    name: Option<NodeName>,
    /// Add this many nodes that only pretend to run pods
    #[arg(long, value_name = "N", default_value_t = 0)]
    hollow: u32,
    /// Control group around all pods; one for each cluster that runs on this machine
    #[arg(long, value_name = "NAME", default_value = "tidepool")]
    cgroup_root: NodeName,
    /// Stop when standard input ends, as with Ctrl-C
    #[arg(long, hide = true)]
    end_with_input: bool,
}

const EXAMPLES: &str = "\
Examples:
  tidepool up
  tidepool up --state-dir /tmp/try --port 0 --in-memory --hollow 100";

/// The argument that makes this program the companion of a container.
pub(crate) const SHIM: &str = "node-shim";

/// What is meant by the arguments.
struct Plan {
    dir: PathBuf,
    address: SocketAddr,
    console: SocketAddr,
    in_memory: bool,
    node: String,
    hollow: u32,
    cgroup_root: String,
    end_with_input: bool,
}

impl Arguments {
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        let name = match self.name {
            Some(name) => name,
            None => NodeName::of_host()?,
        };
        let here = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        // Whoever takes any port for the API takes any for the console.
        let console_port =
            self.console_port.unwrap_or(if self.port == 0 { 0 } else { console::PORT });
        let plan = Plan {
            dir: self.state_dir.resolve()?,
            address: here(self.port),
            console: here(console_port),
            in_memory: self.in_memory,
            node: name.into(),
            hollow: self.hollow,
            cgroup_root: self.cgroup_root.into(),
            end_with_input: self.end_with_input,
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(plan.run())
    }
}

/// Resolves when the user or the system wants an end.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    pub(crate) async fn received(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Resolves when whoever started this process is gone.
async fn input_ended() {
    let mut input = tokio::io::stdin();
    // An input that cannot be read has ended, too.
    let _ = tokio::io::copy(&mut input, &mut tokio::io::sink()).await;
}

/// Tells when the parts that take a moment are there.
struct Started {
    node: oneshot::Receiver<()>,
    hollow: watch::Receiver<u32>,
    webhooks: oneshot::Receiver<Readiness>,
}

impl Plan {
    async fn run(self) -> anyhow::Result<Outcome> {
        let progress = Progress::new();
        let mut signals = Signals::new()?;
        let lock = state::lock(&self.dir)?;

        progress.step("opening the store");
        let store = self.open_store().await?;
        let mut api = Api::start(&self, store.clone(), &progress).await?;
        let access = api.access();
        let mut components = Components::new();
        let result = tokio::select! {
            result = self.serve(&access, &mut components, &progress) => result,
            error = api.failure() => Err(error),
            () = signals.received() => Ok(()),
            () = input_ended(), if self.end_with_input => Ok(()),
        };

        progress.step("stopping");
        let stopped = components.stop().await;
        let closed = api.stop().await;
        store.shutdown().await;
        // Closing the store waits for its disk.
        let _ = spawn_blocking(move || drop(store)).await;
        if self.in_memory {
            // Nobody would know these pods again.
            node::purge(&self.node_dir()).await?;
        }
        drop(lock);
        result.and(stopped).and(closed).map(|()| Outcome::Done)
    }

    /// Starts everything, says so, and goes on until a component fails.
    async fn serve(
        &self,
        api: &api::Access,
        components: &mut Components,
        progress: &Progress,
    ) -> anyhow::Result<()> {
        let console = console::Bound::new(self.console).await?;
        let client = api.client().await?;
        progress.step("installing custom resources and priority classes");
        foundation::lay(&client).await?;
        progress.step("starting controllers and nodes");
        let logs = NodeLogs { node: self.node.clone(), logs: Logs::new(self.node_dir()) };
        api.server.set_log_source(Arc::new(logs));
        let agent = self.agent_config();
        let agent_at = agent.as_ref().and_then(|agent| agent.listener.as_ref()?.local_addr().ok());
        let started = self.start_all(&client, agent, components);
        let console_url = console.url.clone();
        let ledger = (!self.in_memory).then(|| state::benefit(&self.dir));
        console.start(client.clone(), api.config().await?, agent_at, ledger, components);
        tokio::select! {
            () = started.all(self.hollow, progress) => {}
            error = components.failure() => return Err(error),
        }
        let welcome = Welcome::look(self, api, console_url, &client).await?;
        output::print(&welcome.to_string())?;
        Err(components.failure().await)
    }

    /// Every component, one line each.
    fn start_all(
        &self,
        client: &Client,
        agent: Option<agent::Config>,
        components: &mut Components,
    ) -> Started {
        let (registered, node) = oneshot::channel();
        let (counted, hollow) = watch::channel(0);
        let config = self.node_config();
        let fleet = HollowConfig::new(self.hollow);
        let client = || client.clone();
        components.start("controllers", |token| controllers::run(client(), token).err_into());
        components.start("scheduler", |token| {
            scheduler::run(client(), scheduler::Options::on_one_machine(), token).err_into()
        });
        components.start("node", |token| node::run(config, client(), registered, token).err_into());
        if self.hollow > 0 {
            components.start("hollow nodes", |token| {
                hollow::run(fleet, client(), counted, token).map(Ok)
            });
        }
        let (bound, webhooks) = oneshot::channel();
        components.start("manager", |token| manage(client(), bound, token).err_into());
        if let Some(config) = agent {
            components.start("agent", |token| agent::run(config, client(), token).err_into());
        }
        Started { node, hollow, webhooks }
    }

    /// The agent of this machine's node; none where control groups cannot be read.
    fn agent_config(&self) -> Option<agent::Config> {
        let host: Arc<dyn HostFs> = Arc::new(RealFs::new(Mounts::host()));
        if let Err(error) = Tree::find(host.clone()) {
            warn!(%error, "this machine is not measured");
            return None;
        }
        let dir = state::agent(&self.dir);
        let listener = agent_listener(&dir)
            .inspect_err(|error| warn!(%error, "the agent's decisions are not served"));
        let mut config = agent::Config {
            listener: listener.ok(),
            ..agent::Config::one_machine(self.node.clone(), host, &self.cgroup_root, dir)
        };
        // As the reference's chart has it; the NodeSLO decides whether anybody is evicted. Pressure is
        // what the console's hints are made of, where the kernel measures it.
        for gate in [AgentGate::BECPUEvict, AgentGate::BEMemoryEvict, AgentGate::PSICollector] {
            config.gates.set(gate, true);
        }
        Some(match self.in_memory {
            true => config.without_files(),
            false => config,
        })
    }

    fn node_config(&self) -> NodeConfig {
        NodeConfig {
            cgroup_root: self.cgroup_root.clone(),
            ..NodeConfig::new(self.node.clone(), self.node_dir(), Shim::own(SHIM))
        }
    }

    fn node_dir(&self) -> PathBuf {
        match self.in_memory {
            // Pods of the cluster on disk must not be taken for strangers.
            true => state::passing_node(&self.dir),
            false => state::node(&self.dir),
        }
    }

    async fn open_store(&self) -> anyhow::Result<Store> {
        if self.in_memory {
            return Ok(Store::in_memory(Limits::default())?);
        }
        let path = state::store(&self.dir);
        // Reads all that is on disk.
        let opened = spawn_blocking(move || Store::open(&path, Limits::default())).await?;
        opened.with_context(|| {
            format!("cannot use {}; name another place with --state-dir", self.dir.display())
        })
    }
}

/// Where the agent serves its metrics and decisions; the address is kept beside its other files.
fn agent_listener(dir: &Path) -> std::io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    std::fs::create_dir_all(dir)?;
    let mut file = OpenOptions::new();
    file.write(true).create(true).truncate(true).mode(0o600);
    writeln!(file.open(state::agent_address(dir))?, "{}", listener.local_addr()?)?;
    TcpListener::from_std(listener)
}

/// Runs the manager, and says when its webhooks can be waited for.
async fn manage(
    client: Client,
    bound: oneshot::Sender<Readiness>,
    shutdown: CancellationToken,
) -> Result<(), ManagerError> {
    let manager = Manager::bind(client, control::manager::Options::on_one_machine()).await?;
    if let Some(webhooks) = manager.status().webhooks {
        // Nobody waits any more when the cluster is stopping.
        let _ = bound.send(webhooks);
    }
    manager.run(shutdown).await
}

impl Started {
    /// Waits for the webhooks, the node and all hollow ones. What fails meanwhile is seen elsewhere.
    async fn all(mut self, hollow: u32, progress: &Progress) {
        let Ok(mut webhooks) = self.webhooks.await else {
            return std::future::pending().await;
        };
        webhooks.until_ready().await;
        progress.step("the manager is ready");
        if self.node.await.is_err() {
            return std::future::pending().await;
        }
        progress.step("the node is ready");
        loop {
            let count = *self.hollow.borrow_and_update();
            if hollow > 0 {
                progress.count("hollow nodes", count, hollow);
            }
            if count >= hollow {
                return;
            }
            if self.hollow.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}
