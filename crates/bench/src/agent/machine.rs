//! A tree of pods to watch: control groups below a root of their own, a sleeping process in each.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use anyhow::Context;
use api::priority::PriorityClass;
use api::qos::{KubeQos, QosClass};
use groups::{CgroupPath, ContainerId, Driver, Layout, PodUid};
use host::cgroup::Tree;
use host::fs::{Mounts, RealFs};
use qos::node::NodeState;
use qos::node::{Container, ContainerState, Pod, PodPhase, next};
use units::{Bytes, CpuMemory, MilliCpu};

/// Made groups and started processes; dropping it removes them all.
#[derive(Debug)]
pub(super) struct Machine {
    tree: Tree,
    root: String,
    groups: Vec<CgroupPath>,
    processes: Vec<Child>,
}

impl Machine {
    /// Makes `pods` pods. What was made before an error is removed.
    pub(super) fn make(pods: u16) -> anyhow::Result<Self> {
        let tree = Tree::find(Arc::new(RealFs::new(Mounts::host())))?;
        let root = format!("tidepool-bench-{}", std::process::id());
        let mut machine = Self { tree, root, groups: Vec::new(), processes: Vec::new() };
        let layout = layout(&machine.root);
        machine.group(CgroupPath::new(&machine.root))?;
        machine.group(layout.kubepods())?;
        for class in [api::qos::KubeQos::Burstable, api::qos::KubeQos::BestEffort] {
            machine.group(layout.class(class))?;
        }
        for pod in state(&machine.root, pods).pods.values() {
            machine.group(pod.cgroup.clone())?;
            for container in &pod.containers {
                machine.group(container.cgroup.clone())?;
                machine.process(&container.cgroup)?;
            }
        }
        Ok(machine)
    }

    pub(super) fn root(&self) -> &str {
        &self.root
    }

    fn group(&mut self, group: CgroupPath) -> anyhow::Result<()> {
        // Remembered first: a group may be there in some hierarchies when making it fails.
        self.groups.push(group.clone());
        self.tree.make(&group).with_context(|| format!("cannot make the control group {group}"))
    }

    fn process(&mut self, group: &CgroupPath) -> anyhow::Result<()> {
        let mut command = Command::new("sleep");
        command.arg("infinity").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().context("cannot start sleep")?;
        let id = child.id();
        self.processes.push(child);
        self.tree.enter(group, id).with_context(|| format!("cannot move a process into {group}"))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // A process that is gone already is what we want.
            let _ = process.kill();
            let _ = process.wait();
        }
        for group in self.groups.iter().rev() {
            if let Err(error) = self.tree.remove(group) {
                tracing::warn!(%group, error = &error as &dyn std::error::Error, "cannot remove a control group");
            }
        }
    }
}

fn layout(root: &str) -> Layout {
    Layout::new(Driver::Cgroupfs).below(root)
}

/// Where best-effort pods are.
pub(super) fn best_effort(root: &str) -> CgroupPath {
    layout(root).class(api::qos::KubeQos::BestEffort)
}

/// Where all pods are.
pub(super) fn all_pods(root: &str) -> CgroupPath {
    layout(root).kubepods()
}

/// The pods of the tree as the agent sees them: of ten pods one guaranteed, seven burstable and two
/// best-effort.
pub(super) fn state(root: &str, pods: u16) -> NodeState {
    let layout = layout(root);
    let pods = next(&Arc::default(), (0..pods).map(|number| pod(&layout, number)));
    NodeState { pods, ..NodeState::default() }
}

fn pod(layout: &Layout, number: u16) -> Pod {
    let (kube_qos, class) = match number % 10 {
        0 => (KubeQos::Guaranteed, api::qos::KubeQos::Guaranteed),
        1..8 => (KubeQos::Burstable, api::qos::KubeQos::Burstable),
        _ => (KubeQos::BestEffort, api::qos::KubeQos::BestEffort),
    };
    let qos = QosClass::from(kube_qos);
    let uid = PodUid::new(format!("00000000-0000-4000-8000-{number:012}"));
    let id = format!("{number:064x}");
    let container = format!("tidepool://{id}").parse::<ContainerId>();
    let cgroup = layout.pod(class, &uid);
    let containers = container.iter().map(|container| Container {
        name: "main".to_owned(),
        id: container.to_string(),
        cgroup: layout.container(class, &uid, container),
        state: ContainerState::Running,
    });
    Pod {
        namespace: "bench".to_owned(),
        name: format!("pod-{number}"),
        uid: uid.as_str().to_owned(),
        kube_qos,
        raw_qos: Some(qos),
        qos,
        priority_class: PriorityClass::from(qos),
        phase: PodPhase::Running,
        requests: CpuMemory { cpu: MilliCpu(100), memory: Bytes::from_mib(64) },
        containers: containers.collect(),
        cgroup,
        ..Pod::default()
    }
}
