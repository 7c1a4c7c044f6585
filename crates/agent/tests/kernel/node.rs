//! A whole agent on this kernel and the API server it listens to, in one process.
//!
//! Pods are objects of that server and groups that a test has made; their groups have their names,
//! as those of static pods have the hash of their manifest.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use agent::config::Acting;
use agent::{Config, RunError};
use api::kind::{NodeSlo, definitions};
use api::protocol::gate::AgentGate;
use api::qos::KubeQos;
use groups::{CgroupPath, Driver, Layout, PodUid};
use host::fs::{Mounts, RealFs};
use host::topology::Topology;
use k8s_openapi::api::core::v1::{Node as NodeObject, Pod};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use testkit::embedded::{in_process, router};
use testkit::wait::LIMIT;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::sandbox::Sandbox;
use crate::workload::Workload;

/// What a node is to be.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The group around all pods.
    pub(crate) root: String,
    /// What outlives the process.
    pub(crate) state: PathBuf,
    pub(crate) slo: Value,
    pub(crate) pods: Vec<Value>,
    pub(crate) cleanup_on_exit: bool,
}

/// A pod as the scheduler left it. `cpus` are those it chose, if any.
pub(crate) fn pod(name: &str, qos: &str, cpus: &str) -> Value {
    let amounts = json!({ "cpu": "1", "memory": "64Mi" });
    let resources = match qos {
        "LSE" | "LSR" => json!({ "requests": amounts, "limits": amounts }),
        "BE" => {
            let batch = json!({ "kubernetes.io/batch-cpu": "1k" });
            json!({ "requests": batch, "limits": batch })
        }
        _ => json!({ "requests": amounts }),
    };
    let mut annotations = json!({ "kubernetes.io/config.hash": name });
    if !cpus.is_empty() {
        let status = json!({ "cpuset": cpus }).to_string();
        annotations["scheduling.koordinator.sh/resource-status"] = status.into();
    }
    json!({
        "metadata": { "name": name, "labels": { "koordinator.sh/qosClass": qos },
            "annotations": annotations },
        "spec": { "nodeName": "n1",
            "containers": [{ "name": "main", "image": "none", "resources": resources }] },
    })
}

/// The group of such a pod, and that of its container.
pub(crate) fn groups(sandbox: &Sandbox, name: &str, qos: &str) -> [CgroupPath; 2] {
    let class = match qos {
        "LSE" | "LSR" => KubeQos::Guaranteed,
        "BE" => KubeQos::BestEffort,
        _ => KubeQos::Burstable,
    };
    let pod = layout(sandbox).pod(class, &PodUid::new(name));
    [pod.child("main"), pod]
}

pub(crate) fn layout(sandbox: &Sandbox) -> Layout {
    Layout::new(Driver::Cgroupfs).below(sandbox.root.as_str())
}

/// The groups above pods, as a kubelet makes them.
pub(crate) fn make_classes(sandbox: &Sandbox) -> Vec<CgroupPath> {
    let layout = layout(sandbox);
    let classes = [KubeQos::Guaranteed, KubeQos::Burstable, KubeQos::BestEffort];
    let groups: Vec<_> = classes.into_iter().map(|class| layout.class(class)).collect();
    groups.iter().for_each(|group| sandbox.tree.make(group).unwrap());
    groups
}

/// The groups of a pod, with an idle process in its container.
pub(crate) fn run_pod(sandbox: &Sandbox, name: &str, qos: &str) -> Workload {
    let [container, pod] = groups(sandbox, name, qos);
    [pod, container.clone()].iter().for_each(|group| sandbox.tree.make(group).unwrap());
    let workload = Workload::start();
    sandbox.tree.enter(&container, workload.id()).unwrap();
    workload
}

/// A node that runs in this process.
pub(crate) struct Node {
    pub(crate) client: Client,
    shutdown: CancellationToken,
    running: JoinHandle<Result<(), RunError>>,
}

impl Node {
    pub(crate) async fn start(plan: &Plan) -> Self {
        let server = in_process().await.unwrap();
        let client = Client::new(router(server), "default");
        let new = PostParams::default();
        for definition in definitions() {
            Api::all(client.clone()).create(&new, &definition).await.unwrap();
        }
        let fs = Arc::new(RealFs::new(Mounts::host()));
        let cpus = Topology::read(&*fs).unwrap().cpus.online().len();
        let amounts = json!({ "cpu": cpus.to_string(), "memory": "1Gi" });
        let node = json!({ "metadata": { "name": "n1" },
            "status": { "capacity": amounts, "allocatable": amounts } });
        let nodes: Api<NodeObject> = Api::all(client.clone());
        nodes.create(&new, &serde_json::from_value(node).unwrap()).await.unwrap();
        let slos: Api<NodeSlo> = Api::all(client.clone());
        let slo = json!({ "apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO",
            "metadata": { "name": "n1" }, "spec": plan.slo });
        slos.create(&new, &serde_json::from_value(slo).unwrap()).await.unwrap();

        let shutdown = CancellationToken::new();
        let mut config = Config::one_machine("n1", fs, &plan.root, plan.state.clone());
        config.gates.set(AgentGate::BEMemoryEvict, true);
        config.topology_interval = Duration::from_millis(500);
        // Emulated processors answer late.
        config.evict.patience = LIMIT;
        config.report = None;
        let acting = Acting::new(plan.state.clone());
        config.act = Some(Acting { cleanup_on_exit: plan.cleanup_on_exit, ..acting });
        let running = tokio::spawn(agent::run(config, client.clone(), shutdown.clone()));
        let node = Self { client, shutdown, running };
        for pod in &plan.pods {
            node.add(pod).await;
        }
        node
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    /// Makes a pod that runs.
    pub(crate) async fn add(&self, pod: &Value) {
        let pods = self.pods();
        let made: Pod = serde_json::from_value(pod.clone()).unwrap();
        let made = pods.create(&PostParams::default(), &made).await.unwrap();
        let running = json!({ "status": { "phase": "Running" } });
        let name = made.metadata.name.unwrap();
        pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(&running)).await.unwrap();
    }

    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.running.await.unwrap().unwrap();
    }
}

const ROLE: &str = "TIDEPOOL_TEST_NODE";

/// A node in a process of its own, which is this test binary once more, running `test`.
pub(crate) struct NodeProcess(Child);

impl NodeProcess {
    pub(crate) fn start(plan: &Plan, test: &str) -> Self {
        let file = plan.state.join("plan.json");
        fs::create_dir_all(&plan.state).unwrap();
        fs::write(&file, serde_json::to_string(plan).unwrap()).unwrap();
        let mut command = Command::new("/proc/self/exe");
        command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(ROLE, file);
        Self(command.spawn().unwrap())
    }

    /// kill -9.
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Asks it to end; whether it was content.
    pub(crate) fn terminate(mut self) -> bool {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        self.0.wait().unwrap().success()
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether this process is to be a node; it was one when this returns.
pub(crate) fn was_node() -> bool {
    let Some(file) = std::env::var_os(ROLE) else { return false };
    let plan: Plan = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut told = signal(SignalKind::terminate()).unwrap();
        let node = Node::start(&plan).await;
        told.recv().await;
        node.stop().await;
    });
    true
}
