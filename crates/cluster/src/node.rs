//! A node that runs pods as processes of this machine.
//!
//! ```text
//!  register ── Node, Lease                    the cluster sees a node
//!  watch ───── pods bound here ──> pod        one supervisor for each pod
//!                                   │  ^
//!                             plan ─┘  │      what is due: a pure function
//!                                      │
//!        process ── shim ── program    │      one shim for each container, alive without us
//!        cgroup, volume, env, handler ─┘      what a container is made of
//! ```
//!
//! To the API it is a kubelet: it registers, renews its Lease, takes pods whose `spec.nodeName` is its
//! name, and reports their status in kubelet's words. What differs is that images are not run:
//! [`compose`] says what becomes of them. All state is in files, so `tidepool` can be killed at any
//! moment and its next life goes on where the last one stopped.
//!
//! **Not here:** networks of pods (they share the machine's; two pods cannot have one port), images, exec and
//! attach and port-forward, ephemeral containers, changing resources of a running pod, eviction under
//! pressure (it is only reported), device plugins, volumes of other kinds than [`volume`] lists, HTTPS and
//! gRPC probes, security settings beyond user, groups and `allowPrivilegeEscalation`.

pub(crate) mod cgroup;
pub(crate) mod compose;
pub(crate) mod context;
pub(crate) mod dir;
pub(crate) mod downward;
pub(crate) mod env;
pub(crate) mod event;
pub(crate) mod handler;
pub(crate) mod log;
pub(crate) mod logs;
pub(crate) mod machine;
pub(crate) mod orphan;
pub(crate) mod plan;
pub(crate) mod pod;
pub(crate) mod process;
pub(crate) mod record;
pub(crate) mod register;
pub(crate) mod resource;
pub(crate) mod shim;
pub(crate) mod source;
pub(crate) mod volume;
pub(crate) mod watch;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use kube::Client;
use rustix::process::geteuid;
use tokio::sync::oneshot;
use tokio::task::{JoinSet, spawn_blocking};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use log::{LogOptions, LogStream, StreamChoice};
pub use logs::{LogError, Logs};
pub use process::Shim;
pub use register::Reserved;
pub(crate) use register::new_lease;
pub use shim::shim_main;

use cgroup::{Cgroups, Disk, Layout};
use compose::Powers;
use context::Context;
use dir::PodDir;
use downward::Facts;
use event::{Events, about_node};
use machine::{Machine, Pressure};
use plan::Host;
use record::{make_private_dirs, write_atomically};
use register::{Profile, keep_alive, keep_registered};

/// What comes before the id of a container in its status.
pub(crate) const ID_SCHEME: &str = "tidepool://";

/// How a node is set up.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    pub name: String,
    /// Where pods, their logs and their volumes are kept. One node at a time may use it.
    pub state_dir: PathBuf,
    /// The address of the node and of its pods.
    pub address: IpAddr,
    pub labels: BTreeMap<String, String>,
    pub shim: Shim,
    /// The control group around everything of this node, below each hierarchy's root.
    pub cgroup_root: String,
    pub reserved: Reserved,
    pub max_pods: u32,
    /// How many processes a pod may have.
    pub pids_limit: Option<u64>,
    /// A log that has grown to this is put aside.
    pub log_bytes: u64,
    /// How many logs of one run are kept, the current one included.
    pub log_files: u32,
}

impl NodeConfig {
    /// A node with kubelet's defaults.
    pub fn new(name: impl Into<String>, state_dir: impl Into<PathBuf>, shim: Shim) -> Self {
        Self {
            name: name.into(),
            state_dir: state_dir.into(),
            address: Ipv4Addr::LOCALHOST.into(),
            labels: BTreeMap::new(),
            shim,
            cgroup_root: "tidepool".into(),
            reserved: Reserved::default(),
            max_pods: 110,
            pids_limit: None,
            log_bytes: 10 << 20,
            log_files: 5,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error("cannot use state directory {}", path.display())]
    StateDir { path: PathBuf, source: io::Error },
    #[error("a part of the node failed")]
    Failed { source: tokio::task::JoinError },
}

/// Runs the node until shutdown. Containers outlive it; the next run on the same state directory
/// takes them over. `registered` is told once, when the API shows this node as ready.
pub async fn run(
    config: NodeConfig,
    client: Client,
    registered: oneshot::Sender<()>,
    shutdown: CancellationToken,
) -> Result<(), NodeError> {
    let failed = |source| NodeError::StateDir { path: config.state_dir.clone(), source };
    make_private_dirs(&config.state_dir).map_err(failed)?;
    note_cgroup_root(&config).map_err(failed)?;
    let (events, writing_events) = Events::new(client.clone(), &config.name, shutdown.clone());
    let (profile, context) = set_up(&config, client.clone(), events.clone()).await;
    let context = Arc::new(context);

    let mut tasks = JoinSet::new();
    let until_shutdown = |task| shutdown.clone().run_until_cancelled_owned(task);
    tasks.spawn(until_shutdown(Box::pin(writing_events) as Task));
    let state_dir = config.state_dir.clone();
    let missing = profile.missing.clone();
    let first = move |node: &_| {
        for missing in &missing {
            events.warning(&about_node(node), "MissingAbility", missing.clone());
        }
        // Nobody has to wait for it.
        let _ = registered.send(());
    };
    let pressure = move || Pressure::look(&state_dir);
    let keeping = keep_registered(client.clone(), profile, pressure, first);
    tasks.spawn(until_shutdown(Box::pin(keeping)));
    tasks.spawn(until_shutdown(Box::pin(keep_alive(client, config.name.clone()))));
    let (name, token) = (config.name.clone(), shutdown.clone());
    // Pods are told by the token themselves, so that nothing is cut off half done.
    tasks.spawn(async move {
        watch::run(context, &name, token).await;
        Some(())
    });

    while let Some(ended) = tasks.join_next().await {
        if let Err(source) = ended {
            shutdown.cancel();
            return Err(NodeError::Failed { source });
        }
    }
    Ok(())
}

type Task = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

async fn set_up(config: &NodeConfig, client: Client, events: Events) -> (Profile, Context) {
    let uid = geteuid().as_raw();
    let can_mount = uid == 0 && config.shim.can_mount().await;
    let (cgroups, mut missing) = find_cgroups(&config.cgroup_root);
    if !can_mount {
        missing.push("mounts: volumes and image directories need root".to_owned());
    }
    if !missing.is_empty() {
        info!(node = config.name, missing = missing.join("; "), "this node cannot do everything");
    }
    let machine = Machine::look(&config.state_dir);
    let memory_capacity = machine.memory;
    let profile = Profile {
        name: config.name.clone(),
        address: config.address,
        labels: config.labels.clone(),
        machine,
        reserved: config.reserved,
        max_pods: config.max_pods,
        cgroup: cgroups.as_ref().map(Cgroups::version),
        missing,
    };
    let allocatable = profile.allocatable();
    let context = Context {
        client,
        state_dir: config.state_dir.clone(),
        shim: config.shim.clone(),
        host: Host { address: config.address },
        facts: Facts {
            node: config.name.clone(),
            address: config.address,
            cpu: allocatable.cpu,
            memory: allocatable.memory,
            storage: allocatable.storage,
        },
        memory_capacity,
        powers: Powers { uid, can_mount },
        cgroups,
        burstable: Mutex::default(),
        pids_limit: config.pids_limit,
        log_bytes: config.log_bytes,
        log_files: config.log_files,
        events,
    };
    context.make_groups();
    (profile, context)
}

fn find_cgroups(root: &str) -> (Option<Cgroups>, Vec<String>) {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    Cgroups::found(Arc::new(Disk), Layout::find(&mounts), root)
}

/// Where the name of the control group is kept for whoever cleans up.
fn cgroup_root_file(state_dir: &Path) -> PathBuf {
    state_dir.join("cgroup-root")
}

fn note_cgroup_root(config: &NodeConfig) -> io::Result<()> {
    write_atomically(&cgroup_root_file(&config.state_dir), config.cgroup_root.as_bytes(), 0o600)
}

/// How many pods have something on this machine, running or not.
pub fn pods_left(state_dir: &Path) -> usize {
    PodDir::all(state_dir).len()
}

/// Ends every container that was ever started from this state directory and removes all that the
/// node has made on this machine. The node must not be running. Control groups that another node
/// uses as well are left to it.
pub async fn purge(state_dir: &Path) -> Result<(), NodeError> {
    let mut ends = JoinSet::new();
    let mut uids = Vec::new();
    for (uid, dir) in PodDir::all(state_dir) {
        uids.push(uid.clone());
        ends.spawn(async move { orphan::end(Arc::new(Disk), &uid, dir).await });
    }
    ends.join_all().await;
    if let Ok(root) = fs::read_to_string(cgroup_root_file(state_dir)) {
        let removed = spawn_blocking(move || {
            let (Some(cgroups), _) = find_cgroups(&root) else { return Ok(()) };
            cgroups.clear(&uids)
        });
        if let Ok(Err(error)) = removed.await {
            warn!(%error, "cannot remove the control groups of the node");
        }
    }
    match fs::remove_dir_all(state_dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(NodeError::StateDir { path: state_dir.to_owned(), source: error })
        }
        _ => Ok(()),
    }
}
