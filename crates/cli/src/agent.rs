//! `tidepool agent`: the daemon of one node.
//!
//! | file | question |
//! |---|---|
//! | this one | what do our own arguments mean? |
//! | [`plan`] | what is run in the end? |
//! | [`koordlet`] | what do the reference's flags mean? |

pub(crate) mod koordlet;
mod plan;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use agent::act::Prober;
use agent::collect::CollectSettings;
use agent::config::{Acting, Groups, KubeletAccess};
use agent::kubelet::{self, Access, Identity, Trust};
use agent::predict::PredictSettings;
use agent::status::cadence;
use agent::{audit, config};
use anyhow::{Context, bail};
use api::protocol::endpoint::agent::{KUBELET_READ_ONLY_PORT, PORT};
use api::protocol::gate::{AgentGate, Gates};
use clap::{Args, ValueEnum};
use groups::{Driver, Layout};
use host::fs::Mounts;
use units::GoDuration;

use self::plan::Plan;
use crate::Outcome;

/// Where a pod finds its service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Watch over this node: measure it, report it, protect its online pods
///
/// Runs on every node of a cluster, as a DaemonSet or on the host itself. Writes the status of the
/// node's NodeMetric, its NodeResourceTopology and its Device, holds best-effort pods back as the
/// node's NodeSLO says, and serves metrics, health and its decisions. `tidepool off` takes all
/// back that it changed on the machine.
/// Through a link named `koordlet` it takes that program's flags instead.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Name of this machine's Node
    #[arg(long, env = "NODE_NAME", hide_env_values = true)]
    node_name: String,
    /// Kubeconfig to use [default: the pod's service account, or $KUBECONFIG, or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Where the host's files are [default: container if /host-cgroup is there, else host]
    #[arg(long, value_enum)]
    mounts: Option<MountPlaces>,
    /// Address of metrics and health
    #[arg(long, value_name = "ADDRESS", default_value_t = SocketAddr::from(([0, 0, 0, 0], PORT)))]
    listen: SocketAddr,
    /// Directory for what must survive a restart
    #[arg(long, value_name = "DIR", default_value = "/var/lib/tidepool/agent")]
    state_dir: PathBuf,
    /// Who names the control groups of pods
    #[arg(long, value_enum, default_value_t = DriverName::Auto)]
    cgroup_driver: DriverName,
    /// Control group around all pods, as the kubelet's --cgroup-root
    #[arg(long, value_name = "PATH", default_value = "/")]
    cgroup_root: String,
    #[command(flatten)]
    kubelet: KubeletArguments,
    /// Time between two samples, at least 1s
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    interval: GoDuration,
    /// Report early when load changes and late while it does not, instead of at a fixed interval
    #[arg(long)]
    adaptive_reports: bool,
    /// Only look: write to no kernel file
    #[arg(long)]
    observe_only: bool,
    /// Give every kernel file back when the agent is told to end
    #[arg(long, env = "TIDEPOOL_CLEANUP_ON_EXIT", conflicts_with = "observe_only")]
    cleanup_on_exit: bool,
    /// Kill the processes of a best-effort pod that was asked to leave in vain while memory runs out
    #[arg(long, conflicts_with = "observe_only")]
    kill_on_critical_memory: bool,
    /// Features to turn on and off: A=true,B=false
    #[arg(long, value_name = "LIST", default_value = "")]
    feature_gates: String,
}

#[derive(Debug, Args)]
struct KubeletArguments {
    /// Take pods from the API server only
    #[arg(long)]
    no_kubelet: bool,
    /// How the kubelet is asked
    #[arg(long, value_enum, default_value_t = KubeletTls::Verified)]
    kubelet_tls: KubeletTls,
    /// Authority that signed the kubelet's certificate [default: the cluster's]
    #[arg(long, value_name = "FILE")]
    kubelet_ca: Option<PathBuf>,
    /// Certificate to show to the kubelet instead of the service account's token
    #[arg(long, value_name = "FILE", requires = "kubelet_client_key")]
    kubelet_client_certificate: Option<PathBuf>,
    /// Key of that certificate
    #[arg(long, value_name = "FILE", requires = "kubelet_client_certificate")]
    kubelet_client_key: Option<PathBuf>,
}

/// Where the host's files are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MountPlaces {
    /// At their usual places
    Host,
    /// Where the DaemonSet mounts them
    Container,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DriverName {
    /// By the directories that are there
    Auto,
    Systemd,
    Cgroupfs,
}

/// How the kubelet is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KubeletTls {
    /// Its certificate must be signed by an authority we know
    Verified,
    /// Any certificate will do
    Unverified,
    /// Without TLS, at its read-only port
    ReadOnly,
}

const EXAMPLES: &str = "\
Examples:
  tidepool agent --node-name $(hostname) --mounts host --kubeconfig ~/.kube/config
  tidepool agent --node-name n1 --no-kubelet --cgroup-driver cgroupfs --cgroup-root /tidepool";

impl Arguments {
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        self.resolve()?.run()
    }

    fn resolve(self) -> anyhow::Result<Plan> {
        let (gates, errors) = Gates::<AgentGate>::parse(&self.feature_gates);
        if let Some(error) = errors.first() {
            bail!("--feature-gates: {error}");
        }
        let interval = at_least_a_second("--interval", self.interval)?;
        let places = self.mounts.unwrap_or_else(|| match Path::new("/host-cgroup").exists() {
            true => MountPlaces::Container,
            false => MountPlaces::Host,
        });
        let groups = match self.cgroup_driver {
            DriverName::Auto => Groups::Find { below: self.cgroup_root.clone() },
            DriverName::Systemd => known(Driver::Systemd, &self.cgroup_root),
            DriverName::Cgroupfs => known(Driver::Cgroupfs, &self.cgroup_root),
        };
        let defaults = CollectSettings::default();
        Ok(Plan {
            node_name: self.node_name,
            kubeconfig: self.kubeconfig,
            mounts: match places {
                MountPlaces::Host => Mounts::host(),
                MountPlaces::Container => Mounts::container(),
            },
            listen: self.listen.to_string(),
            groups,
            kubelet: self.kubelet.resolve(),
            gates,
            collect: CollectSettings { usage_interval: interval, ..defaults },
            predict: PredictSettings {
                checkpoint_dir: Some(self.state_dir.join("prediction")),
                ..PredictSettings::default()
            },
            report: Some(cadence::Settings {
                adaptive: self.adaptive_reports,
                ..cadence::Settings::default()
            }),
            topology_interval: Duration::from_secs(3),
            device_dir: api::protocol::endpoint::agent::DEVICE_INFO_DIR.into(),
            lock: Some(self.state_dir.join("agent.lock")),
            act: (!self.observe_only).then(|| Acting {
                cleanup_on_exit: self.cleanup_on_exit,
                prober: Some(Prober::this_program()),
                ..Acting::new(self.state_dir.clone())
            }),
            evict: evictions(self.kill_on_critical_memory),
            audit: audit::Settings {
                log: Some(audit::LogSettings {
                    dir: self.state_dir.join("audit"),
                    max_disk_mib: 16,
                }),
                ..audit::Settings::default()
            },
        })
    }
}

/// One of the two processes of a probe of wake-up delays; it is told what to do by its input.
pub(crate) fn probe_wake() -> ExitCode {
    match host::wake::serve(io::stdin().lock(), io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(2),
    }
}

fn known(driver: Driver, below: &str) -> Groups {
    config::Groups::Known(Layout::new(driver).below(below))
}

/// Rates over shorter spans are noise, and cost more than they tell.
fn at_least_a_second(flag: &str, value: GoDuration) -> anyhow::Result<Duration> {
    let value = value.to_std().with_context(|| format!("{flag}: {value} is negative"))?;
    if value < Duration::from_secs(1) {
        bail!("{flag}: {} is too short; use 1s or more", GoDuration::from_std(value));
    }
    Ok(value)
}

impl KubeletArguments {
    fn resolve(self) -> Option<KubeletAccess> {
        if self.no_kubelet {
            return None;
        }
        let identity = match (self.kubelet_client_certificate, self.kubelet_client_key) {
            (Some(certificate), Some(key)) => Identity::Certificate { certificate, key },
            _ => service_account(),
        };
        let access = access(self.kubelet_tls, self.kubelet_ca, identity, KUBELET_READ_ONLY_PORT);
        Some(KubeletAccess {
            settings: kubelet::Settings { access, ..kubelet::Settings::default() },
            root: "/var/lib/kubelet".into(),
            ask_config: true,
        })
    }
}

fn access(tls: KubeletTls, ca: Option<PathBuf>, identity: Identity, read_only: u16) -> Access {
    let cluster_ca = Path::new(SERVICE_ACCOUNT).join("ca.crt");
    let ca = ca.or_else(|| cluster_ca.exists().then_some(cluster_ca));
    match tls {
        KubeletTls::Verified => Access::Secure { trust: Trust::Authority(ca), identity },
        KubeletTls::Unverified => Access::Secure { trust: Trust::Anybody, identity },
        KubeletTls::ReadOnly => Access::ReadOnly { port: read_only },
    }
}

fn service_account() -> Identity {
    let token = Path::new(SERVICE_ACCOUNT).join("token");
    if token.exists() { Identity::TokenFile(token) } else { Identity::Nobody }
}
/// How long memory must have been critical before processes are killed.
const KILL_AFTER: Duration = Duration::from_secs(10);

/// How pods are sent away, and whether killing is the last rung.
fn evictions(kills: bool) -> agent::evict::Settings {
    let mut settings = agent::evict::Settings::default();
    settings.manners.kill_after = kills.then_some(KILL_AFTER);
    settings
}
