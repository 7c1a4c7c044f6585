//! What does one agent need to know before it starts?

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::protocol::endpoint::agent::DEVICE_INFO_DIR;
use api::protocol::gate::{AgentGate, Gates};
use groups::{Driver, Layout};
use host::fs::HostFs;
use tokio::net::TcpListener;

use crate::act;
use crate::audit;
use crate::collect::CollectSettings;
use crate::evict;
use crate::kubelet;
use crate::predict::PredictSettings;
use crate::status::cadence;

/// Everything fixed at start; what changes later comes from the cluster.
#[derive(Debug)]
pub struct Config {
    pub node_name: String,
    /// The kernel's files: real ones, or those of a text in tests.
    pub host: Arc<dyn HostFs>,
    pub groups: Groups,
    /// `None` on nodes without one: pods then come from the API server.
    pub kubelet: Option<KubeletAccess>,
    pub gates: Gates<AgentGate>,
    pub collect: CollectSettings,
    pub predict: PredictSettings,
    /// `None` writes no NodeMetric.
    pub report: Option<cadence::Settings>,
    /// How often NodeResourceTopology and Device are compared with the machine.
    pub topology_interval: Duration,
    /// Where vendors' daemons describe their devices.
    pub device_dir: PathBuf,
    /// A file that one agent at a time may hold.
    pub lock: Option<PathBuf>,
    pub audit: audit::Settings,
    /// `None` only looks.
    pub act: Option<Acting>,
    /// How pods are sent away, by an agent that acts.
    pub evict: evict::Settings,
    /// Where metrics, health and audit records are served; `None` serves nothing.
    pub listener: Option<TcpListener>,
}

/// How the agent acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acting {
    /// Where the ledger and this machine's switch are; must survive the process.
    pub dir: PathBuf,
    /// Gives every kernel file back when the agent is told to end.
    pub cleanup_on_exit: bool,
    /// `--disable-unset-cpu-quota`: pods on CPUs of their own keep their quota.
    pub keep_quota_of_bound: bool,
    /// Measures how late threads wake up, once; `None` trusts the kernel's files.
    pub prober: Option<act::Prober>,
}

impl Acting {
    pub fn new(dir: PathBuf) -> Self {
        Self { dir, cleanup_on_exit: false, keep_quota_of_bound: false, prober: None }
    }
}

/// How the groups of pods are called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Groups {
    Known(Layout),
    /// By the directories that the kubelet has made below this root.
    Find {
        below: String,
    },
}

/// The node's kubelet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeletAccess {
    pub settings: kubelet::Settings,
    /// Its directory, with `cpu_manager_state`.
    pub root: PathBuf,
    /// Whether it is asked how it is configured.
    pub ask_config: bool,
}

impl Config {
    /// An agent for a node of a real cluster, with the reference's defaults.
    pub fn new(node_name: impl Into<String>, host: Arc<dyn HostFs>) -> Self {
        Self {
            node_name: node_name.into(),
            host,
            groups: Groups::Find { below: String::new() },
            kubelet: Some(KubeletAccess {
                settings: kubelet::Settings::default(),
                root: "/var/lib/kubelet".into(),
                ask_config: true,
            }),
            gates: Gates::default(),
            collect: CollectSettings::default(),
            predict: PredictSettings::default(),
            report: Some(cadence::Settings::default()),
            topology_interval: Duration::from_secs(3),
            device_dir: DEVICE_INFO_DIR.into(),
            lock: None,
            audit: audit::Settings::default(),
            act: None,
            evict: evict::Settings::default(),
            listener: None,
        }
    }

    /// An agent for the node of one-machine mode: no kubelet, its groups below `below`, its state
    /// in `state_dir`.
    pub fn one_machine(
        node_name: impl Into<String>,
        host: Arc<dyn HostFs>,
        below: &str,
        state_dir: PathBuf,
    ) -> Self {
        let layout = Layout::new(Driver::Cgroupfs).below(below);
        let new = Self::new(node_name, host);
        Self {
            groups: Groups::Known(layout),
            kubelet: None,
            predict: PredictSettings {
                checkpoint_dir: Some(state_dir.join("prediction")),
                ..new.predict
            },
            device_dir: state_dir.join("devices"),
            lock: Some(state_dir.join("agent.lock")),
            act: Some(Acting::new(state_dir)),
            ..new
        }
    }

    /// What was learned goes with the process. What was changed on the machine stays on disk: it
    /// outlives the process, and somebody has to know how it was.
    #[must_use]
    pub fn without_files(self) -> Self {
        let predict = PredictSettings { checkpoint_dir: None, ..self.predict };
        Self { predict, ..self }
    }
}
