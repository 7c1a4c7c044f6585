//! Keeping the NodeResourceTopology object up to date.
//!
//! Every three seconds what should be said is computed from what is known, and compared with what
//! the object says; it is written only when they differ. The kubelet's configuration hardly ever
//! changes and is asked for once a minute.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::kind::NodeResourceTopology;
use api::metadata::topology::CpuSharedPools;
use api::protocol::metric::agent::internal::{
    BE_SHARE_POOL, BE_SHARE_POOL_INFO, COLLECT_CPU_INFO, COLLECT_NUMA_INFO, SHARE_POOL,
    SHARE_POOL_INFO,
};
use api::protocol::metric::status::{FAILED, SUCCEEDED};
use host::fs::HostFs;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use qos::node::Pods;
use reconcile::key::Key;
use reconcile::write::Writer;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use qos::topology::{Inputs, Machine, Topology, compute, object};

use super::{SharedTopology, machine};
use crate::exposition::{Exposition, Group};
use crate::health::Part;
use crate::kubelet::Kubelet;
use crate::kubelet::config::{ConfigError, through_api};
use crate::object::{Seen, chain};
use qos::topology::cpu_state::{self, CpuState};
use qos::topology::kubelet::KubeletConfig;

/// How often the kubelet is asked how it is configured, and the kernel which CPUs there are.
const RARELY: Duration = Duration::from_secs(60);

/// The longest pause after writes that failed.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// What the task needs.
#[derive(Debug)]
pub struct Publishing {
    pub node_name: String,
    /// `--node-topology-sync-interval`.
    pub interval: Duration,
    /// Whether the object is written; otherwise only the local copy is kept.
    pub is_written: bool,
    pub huge_pages: bool,
    pub per_cpu_metrics: bool,
    pub kubelet: KubeletSource,
    pub fs: Arc<dyn HostFs>,
    pub node: watch::Receiver<Seen<Node>>,
    pub pods: watch::Receiver<Pods>,
    pub object: watch::Receiver<Seen<NodeResourceTopology>>,
    pub exposition: Exposition,
    pub part: Part,
    /// Where the newest topology goes, for those who act on it.
    pub local: SharedTopology,
}

/// Where the kubelet's decisions come from.
#[derive(Debug)]
pub enum KubeletSource {
    /// There is none, or it must not be asked.
    None,
    Ask {
        connection: watch::Receiver<Option<Kubelet>>,
        /// The directory with `cpu_manager_state`.
        root: PathBuf,
    },
}

/// What is remembered from one round to the next.
struct State {
    machine: Option<Machine>,
    kubelet: Option<KubeletConfig>,
    refreshed: Option<Instant>,
    failures: u32,
    not_before: Option<Instant>,
    /// Why the last round said nothing, so that it is logged once.
    silent: Option<String>,
    /// What was last computed.
    local: Option<Topology>,
}

/// Publishes until shutdown.
pub async fn follow(mut publishing: Publishing, client: Client, shutdown: CancellationToken) {
    let writer = Writer::alone(client.clone());
    let mut state = State {
        machine: None,
        kubelet: None,
        refreshed: None,
        failures: 0,
        not_before: None,
        silent: None,
        local: None,
    };
    loop {
        publishing.part.beat(publishing.interval, Instant::now());
        refresh(&publishing, &client, &mut state).await;
        match round(&publishing, &mut state) {
            Ok(topology) => {
                state.silent = None;
                publishing.part.ready();
                // First to those who move containers off CPUs that were given away.
                if state.local.as_ref() != Some(&topology) {
                    show(&publishing, &topology);
                    publishing.local.store(Some(Arc::new(topology.clone())));
                    state.local = Some(topology.clone());
                }
                if publishing.is_written {
                    write(&publishing, &writer, &topology, &mut state).await;
                }
            }
            Err(reason) => {
                // At the start the Node is on its way; what is missing then is on /readyz.
                if state.silent.as_ref() != Some(&reason) && state.local.is_some() {
                    warn!(reason, "the node's topology is not known; what was said stays");
                }
                if state.local.is_none() {
                    publishing.part.lacks(reason.clone());
                }
                state.silent = Some(reason);
            }
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(publishing.interval) => {}
            // Pods that come or go change the pools, and others wait for their CPUs.
            Ok(()) = publishing.pods.changed() => {}
        }
    }
}

/// Reads what changes rarely. What cannot be read now stays as it was.
async fn refresh(publishing: &Publishing, client: &Client, state: &mut State) {
    let is_missing = state.machine.is_none()
        || matches!(publishing.kubelet, KubeletSource::Ask { .. }) && state.kubelet.is_none();
    let pause = if is_missing { publishing.interval * 3 } else { RARELY };
    if state.refreshed.is_some_and(|at| at.elapsed() < pause) {
        return;
    }
    state.refreshed = Some(Instant::now());
    let fs = publishing.fs.clone();
    let read = tokio::task::spawn_blocking(move || machine::read(&fs)).await;
    let status = match read {
        Ok(Ok(machine)) => {
            state.machine = Some(machine);
            SUCCEEDED
        }
        Ok(Err(error)) => {
            warn!(error = chain(&error), "cannot read the machine's topology");
            FAILED
        }
        Err(_) => FAILED,
    };
    publishing.exposition.count(&COLLECT_CPU_INFO, &[status]);
    publishing.exposition.count(&COLLECT_NUMA_INFO, &[status]);
    if let KubeletSource::Ask { connection, .. } = &publishing.kubelet {
        let kubelet = connection.borrow().clone();
        match kubelet_config(kubelet, client, &publishing.node_name).await {
            Ok(config) => state.kubelet = Some(config),
            Err(error) => {
                debug!(error = chain(&error), "the kubelet does not tell its configuration");
            }
        }
    }
}

/// The kubelet's own word, or the API server's.
async fn kubelet_config(
    kubelet: Option<Kubelet>,
    client: &Client,
    node: &str,
) -> Result<KubeletConfig, ConfigError> {
    if let Some(kubelet) = kubelet
        && let Ok(config) = kubelet.config().await
    {
        return Ok(config);
    }
    through_api(client, node).await
}

fn round(publishing: &Publishing, state: &mut State) -> Result<Topology, String> {
    let machine = state.machine.as_ref().ok_or("the machine's CPUs are not known yet")?;
    let node = publishing.node.borrow().clone();
    let node = node.present().ok_or("the Node object is not known yet")?;
    let bound = match (&publishing.kubelet, &state.kubelet) {
        (KubeletSource::None, _) => CpuState::default(),
        (KubeletSource::Ask { .. }, None) => {
            return Err("the kubelet has not told its configuration yet".to_owned());
        }
        (KubeletSource::Ask { root, .. }, Some(_)) => bound(root).map_err(|error| chain(&error))?,
    };
    let pods = publishing.pods.borrow().clone();
    let inputs = Inputs {
        machine,
        node,
        pods: &pods,
        kubelet: state.kubelet.as_ref(),
        bound: &bound,
        huge_pages: publishing.huge_pages,
    };
    compute(&inputs).map_err(|error| error.to_string())
}

fn bound(root: &std::path::Path) -> Result<CpuState, cpu_state::CpuStateError> {
    // A file that is not there means that the CPU manager has not decided anything.
    let text = std::fs::read_to_string(root.join(cpu_state::FILE)).unwrap_or_default();
    cpu_state::parse(&text)
}

/// The pools as gauges.
fn show(publishing: &Publishing, topology: &Topology) {
    publishing.exposition.publish("pools", |group| {
        group.set(&SHARE_POOL, &[], count(&topology.cpus.shared));
        group.set(&BE_SHARE_POOL, &[], count(&topology.cpus.best_effort));
        if publishing.per_cpu_metrics {
            for_each_cpu(&topology.cpus.shared, |cpu| group.set(&SHARE_POOL_INFO, &[cpu], 1.0));
            each_best_effort(&topology.cpus.best_effort, group);
        }
    });
}

fn each_best_effort(pools: &CpuSharedPools, group: &mut Group) {
    for_each_cpu(pools, |cpu| group.set(&BE_SHARE_POOL_INFO, &[cpu], 1.0));
}

fn for_each_cpu(pools: &CpuSharedPools, mut each: impl FnMut(&str)) {
    for cpu in pools.iter().flat_map(|pool| pool.cpuset.iter()) {
        each(&cpu.to_string());
    }
}

fn count(pools: &CpuSharedPools) -> f64 {
    let count: usize = pools.iter().map(|pool| pool.cpuset.len()).sum();
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Makes the object say what it should, if it does not, and remembers failures.
async fn write(publishing: &Publishing, writer: &Writer, topology: &Topology, state: &mut State) {
    if state.not_before.is_some_and(|at| Instant::now() < at) {
        return;
    }
    let name = &publishing.node_name;
    let seen = publishing.object.borrow().clone();
    let written = match seen {
        Seen::Waiting => return,
        Seen::Absent { .. } => {
            let node = publishing.node.borrow().clone();
            let owner = node.present().and_then(|node| object::owner(node));
            let new = object::create(name, owner, topology);
            writer.create(&new).await.map(drop)
        }
        Seen::Present(known) => {
            let Some(patch) = object::patch(&known, topology) else {
                state.failures = 0;
                return;
            };
            writer.patch::<NodeResourceTopology>(&Key::new("", name), &patch).await.map(drop)
        }
    };
    match written {
        Ok(()) => {
            info!(node = name, "the node's topology was reported");
            state.failures = 0;
        }
        // Somebody was faster; the watch brings the newer object.
        Err(error) if error.is_conflict() => {
            debug!(node = name, "the topology object has changed meanwhile");
        }
        Err(error) => {
            state.failures = state.failures.saturating_add(1);
            let pause = publishing.interval * 2u32.saturating_pow(state.failures.min(8));
            state.not_before = Some(Instant::now() + pause.min(MAX_PAUSE));
            if state.failures == 1 {
                warn!(
                    node = name,
                    error = chain(&error),
                    "cannot report the node's topology; will retry"
                );
            }
        }
    }
}
