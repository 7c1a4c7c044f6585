//! `tidepool manager`: webhooks and controllers of a cluster.
//!
//! Two command lines lead to the same options: ours, and koord-manager's
//! through a link of that name (see [`koord_manager`]).

pub(crate) mod koord_manager;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use api::protocol::endpoint::manager::{HEALTH_PORT, METRICS_PORT, WEBHOOK_PORT};
use api::protocol::gate::{Gates, ManagerGate};
use api::protocol::name::{MANAGER_USER_AGENT, NAMESPACE};
use clap::Args;
use console::{Console, Door, Feed, feed};
use control::manager::{Options, run};
use control::webhook::{self, Reach, Vault};
use futures_util::FutureExt;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use reconcile::elect;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::Outcome;

/// Run the webhooks and controllers of a cluster
///
/// Several replicas may run: all answer webhooks, one of them writes. Certificates
/// are made and renewed in the process. Stops on Ctrl-C and gives its lease back.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Use this kubeconfig [default: the pod's service account, then $KUBECONFIG and ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Namespace of the lease, the certificates and the configuration
    #[arg(long, default_value = NAMESPACE)]
    namespace: String,
    /// Where webhooks listen
    #[arg(long, value_name = "ADDRESS", default_value_t = any(WEBHOOK_PORT))]
    webhook_address: SocketAddr,
    /// Let the API server call webhooks by URL at this host instead of through the Service
    #[arg(long, value_name = "HOST")]
    webhook_host: Option<String>,
    /// Create the webhook configurations if they are missing
    #[arg(long)]
    install_webhooks: bool,
    /// Where `/healthz` and `/readyz` are
    #[arg(long, value_name = "ADDRESS", default_value_t = any(HEALTH_PORT))]
    health_address: SocketAddr,
    /// Where `/metrics` and `/all-metrics` are
    #[arg(long, value_name = "ADDRESS", default_value_t = any(METRICS_PORT))]
    metrics_address: SocketAddr,
    /// Where the console is; keep it on loopback unless everyone may see the cluster
    #[arg(long, value_name = "ADDRESS", default_value_t = SocketAddr::from(([127, 0, 0, 1], 6481)))]
    console_address: SocketAddr,
    /// Serve no console
    #[arg(long, conflicts_with = "console_address")]
    no_console: bool,
    /// Write without holding the lease; only for a manager that is alone
    #[arg(long)]
    no_leader_election: bool,
    /// Controllers to run: names, `*` for all, `-name` for all but one
    #[arg(long, value_delimiter = ',', default_value = "*", allow_hyphen_values = true)]
    controllers: Vec<String>,
    /// Switches, as `A=true,B=false`
    #[arg(long, default_value = "")]
    feature_gates: String,
    #[command(flatten)]
    choices: Choices,
}

/// Where the reference's behaviour may be left; all off by default.
#[derive(Debug, Clone, Copy, Default, Args)]
struct Choices {
    /// Charge mid pods their mid requests when batch resources are calculated by request
    #[arg(long)]
    batch_count_mid_requests: bool,
    /// Let a node's own entry or annotation enable co-location while the cluster's switch is off
    #[arg(long)]
    colocation_node_enable_overrides: bool,
    /// Show GPUs and RDMA cards on nodes without co-location, too
    #[arg(long)]
    device_resources_independent: bool,
    /// Refuse LSE without koord-prod, LS without koord-prod or koord-mid, SYSTEM with any
    #[arg(long)]
    strict_qos_priority_matrix: bool,
}

impl Choices {
    fn apply(self, options: &mut Options) {
        let node = &mut options.node_resource;
        node.count_mid_requests = self.batch_count_mid_requests;
        node.node_enable_overrides = self.colocation_node_enable_overrides;
        node.are_devices_independent = self.device_resources_independent;
        options.webhook.rules.strict_classes = self.strict_qos_priority_matrix;
    }
}

const EXAMPLES: &str = "\
Examples:
  tidepool manager --kubeconfig ~/.local/state/tidepool/kubeconfig --webhook-host 127.0.0.1 --install-webhooks
  tidepool manager --no-leader-election --controllers '*,-nodeslo'";

fn any(port: u16) -> SocketAddr {
    SocketAddr::from(([0, 0, 0, 0], port))
}

/// What is meant by either command line.
#[derive(Debug)]
pub(crate) struct Plan {
    kubeconfig: Option<PathBuf>,
    options: Options,
    console: Option<SocketAddr>,
}

impl Arguments {
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        self.resolve()?.run()
    }

    fn resolve(self) -> anyhow::Result<Plan> {
        let gates = gates(&self.feature_gates)?;
        let mut options = gated(gates);
        options.config.namespace.clone_from(&self.namespace);
        options.webhook.rules.config_map = options.config.clone();
        options.webhook.listen = self.webhook_address;
        options.webhook.install_missing = self.install_webhooks;
        place(&mut options.webhook, &self.namespace, self.webhook_host);
        options.health = Some(self.health_address);
        options.metrics = Some(self.metrics_address);
        options.controllers = self.controllers;
        self.choices.apply(&mut options);
        if !self.no_leader_election {
            let namespace = self.namespace.clone();
            options.election =
                Some(elect::Settings { namespace, ..elect::Settings::manager(identity()) });
        }
        let console = (!self.no_console).then_some(self.console_address);
        Ok(Plan { kubeconfig: self.kubeconfig, options, console })
    }
}

/// The switches, or what cannot be followed.
fn gates(text: &str) -> anyhow::Result<Gates<ManagerGate>> {
    let (gates, errors) = Gates::parse(text);
    if !errors.is_empty() {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        bail!("--feature-gates: {}", errors.join("; "));
    }
    Ok(gates)
}

/// Options with the switches in all their places.
fn gated(gates: Gates<ManagerGate>) -> Options {
    let mut options = Options::default();
    options.node_resource.is_gpu_shared = gates.is_on(ManagerGate::EnableSyncGPUSharedResource);
    options.colocation_profile.gates = gates.clone();
    options.webhook.rules.gates = gates.clone();
    options.gates = gates;
    options
}

/// Puts the webhooks' Secret and Service into a namespace, or their address at a host.
fn place(webhook: &mut webhook::Options, namespace: &str, host: Option<String>) {
    if let Vault::Secret { namespace: own, .. } = &mut webhook.vault {
        namespace.clone_into(own);
    }
    match (host, &mut webhook.reach) {
        (Some(host), reach) => *reach = Reach::Host(host),
        (None, Reach::Service { namespace: own, .. }) => namespace.clone_into(own),
        (None, Reach::Host(_)) => {}
    }
}

/// A name that no other replica has: the host's and this process's.
pub(crate) fn identity() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{host}_{}", std::process::id())
}

impl Plan {
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            let config = access(self.kubeconfig.as_deref(), MANAGER_USER_AGENT).await?;
            let client = Client::try_from(config.clone())?;
            let namespace = self.options.config.namespace.clone();
            until_signal(async |shutdown| {
                // Whichever ends first ends the other.
                let end = || shutdown.cancel();
                let manager = run(client.clone(), self.options, shutdown.clone());
                let console = show(self.console, client, config, namespace, shutdown.clone());
                let (managed, shown) =
                    tokio::join!(manager.inspect(|_| end()), console.inspect(|_| end()));
                managed?;
                shown
            })
            .await??;
            Ok(Outcome::Done)
        })
    }
}

/// Runs something that Ctrl-C or a termination tells to end.
pub(crate) async fn until_signal<F: Future>(
    run: impl FnOnce(CancellationToken) -> F,
) -> anyhow::Result<F::Output> {
    let shutdown = CancellationToken::new();
    let (mut interrupt, mut terminate) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let stop = shutdown.clone();
    let signals = tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        stop.cancel();
    });
    let result = run(shutdown).await;
    signals.abort();
    Ok(result)
}

/// Serves the console until told to stop.
async fn show(
    address: Option<SocketAddr>,
    client: Client,
    config: kube::Config,
    config_namespace: String,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let listener = match address {
        Some(address) => TcpListener::bind(address)
            .await
            .inspect_err(|error| warn!(%address, %error, "there is no console: cannot listen"))
            .ok(),
        None => None,
    };
    // A cluster is managed without one, too.
    let Some(listener) = listener else {
        shutdown.cancelled().await;
        return Ok(());
    };
    let feed = Feed::default();
    // Several managers would write over each other; Prometheus has the sums of all of them.
    let settings =
        feed::Settings { config_namespace, agents: feed::Agents::at_nodes(), ledger: None };
    let console = Console { feed: feed.clone(), door: Some(Door::new(config)) };
    let ((), served) = tokio::join!(
        feed.run(client, settings, shutdown.clone()),
        console.serve(listener, shutdown.clone()).inspect(|_| shutdown.cancel()),
    );
    served.context("the console failed")
}

/// A client for a long-running part of the cluster, which says its name.
pub(crate) async fn connect(
    kubeconfig: Option<&Path>,
    name: &'static str,
) -> anyhow::Result<Client> {
    Ok(Client::try_from(access(kubeconfig, name).await?)?)
}

/// The way to the cluster, for a part that says its name.
async fn access(kubeconfig: Option<&Path>, name: &'static str) -> anyhow::Result<kube::Config> {
    let mut config = match kubeconfig {
        Some(path) => {
            let read = Kubeconfig::read_from(path)?;
            kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?
        }
        None => kube::Config::infer()
            .await
            .context("no cluster to work for; name one with --kubeconfig")?,
    };
    config.headers.push((http::header::USER_AGENT, http::HeaderValue::from_static(name)));
    Ok(config)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn resolve(line: &str) -> anyhow::Result<Plan> {
        let words = std::iter::once("manager").chain(line.split_whitespace());
        Line::try_parse_from(words)?.arguments.resolve()
    }

    #[test]
    fn our_flags_become_options() {
        let plan =
            resolve("--namespace ns --webhook-host 127.0.0.1 --controllers *,-nodeslo").unwrap();
        let options = plan.options;
        assert_eq!(options.webhook.reach, Reach::Host("127.0.0.1".to_owned()));
        assert_eq!(options.config.namespace, "ns");
        assert_eq!(options.controllers, ["*", "-nodeslo"]);
        assert!(plan.console.is_some_and(|address| address.ip().is_loopback()));
        assert_eq!(options.election.map(|election| election.namespace).as_deref(), Some("ns"));
        assert!(!options.node_resource.count_mid_requests && !options.webhook.rules.strict_classes);
        let chosen = "--batch-count-mid-requests --colocation-node-enable-overrides \
            --device-resources-independent --strict-qos-priority-matrix";
        let chosen = resolve(chosen).unwrap().options;
        assert!(chosen.node_resource.count_mid_requests && chosen.webhook.rules.strict_classes);
        let node = chosen.node_resource;
        assert!(node.are_devices_independent && node.node_enable_overrides);
        let alone = resolve("--no-leader-election --feature-gates MultiQuotaTree=true").unwrap();
        assert!(alone.options.election.is_none());
        assert_eq!(resolve("--no-console").unwrap().console, None);
        assert!(alone.options.webhook.rules.gates.is_on(ManagerGate::MultiQuotaTree));
        let error = resolve("--feature-gates MultiQuotaTre=true").unwrap_err().to_string();
        assert!(error.contains("did you mean MultiQuotaTree"), "{error}");
    }
}
