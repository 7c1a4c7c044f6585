//! What the agent changes on this machine, and that it can all be taken back.

use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;

use api::qos::KubeQos;
use groups::{CgroupPath, Driver, Knob, Layout, PodUid};
use host::Reading;
use host::cgroup::Tree;
use host::fs::{Mounts, RealFs};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::PostParams;
use kube::{Api, Client};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::rig::{TIDEPOOL, Up, create, is_ready, said, until, until_pods};

/// A kernel file of the pod, as it is now.
fn text(tree: &Tree, group: &CgroupPath, knob: Knob) -> Option<String> {
    let Ok(Reading::Value((text, _))) = tree.get_text(group, knob) else { return None };
    Some(text)
}

const KNOBS: [Knob; 4] = [Knob::CpuShares, Knob::CfsQuota, Knob::CpuIdle, Knob::MemoryLimit];

fn all(tree: &Tree, group: &CgroupPath) -> Vec<Option<String>> {
    KNOBS.iter().map(|knob| text(tree, group, *knob)).collect()
}

/// A batch pod on a node; a machine that runs tests may have nothing to lend.
fn job(node: &str) -> Value {
    let resources =
        json!({"kubernetes.io/batch-cpu": "700", "kubernetes.io/batch-memory": "256Mi"});
    json!({
        "metadata": {"name": "job", "labels": {"app": "job", "koordinator.sh/qosClass": "BE"}},
        "spec": {
            "nodeName": node,
            "priorityClassName": "koord-batch",
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "c", "image": "host", "command": ["sleep", "1d"],
                "resources": {"limits": resources, "requests": resources},
            }],
        },
    })
}

/// Whether the limits of such a pod are in force.
fn is_limited(tree: &Tree, group: &CgroupPath) -> Option<()> {
    let limit = text(tree, group, Knob::MemoryLimit)?;
    let idle = text(tree, group, Knob::CpuIdle)?;
    (limit == (256 << 20).to_string() && idle == "1").then_some(())
}

fn tree() -> Tree {
    Tree::find(Arc::new(RealFs::new(Mounts::host()))).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_batch_pods_come_and_go_with_the_switch() {
    let mut up = Up::start();
    let client = up.client().await;
    assert!(up.tidepool(&["off"]).status.success());
    let pod: Pod = create(&client, job("n1")).await;
    until_pods(&client, "app=job", "it runs", |pods| pods.iter().any(is_ready)).await;
    let tree = tree();
    let layout = Layout::new(Driver::Cgroupfs).below(up.cgroup_root());
    let uid = PodUid::new(pod.metadata.uid.clone().unwrap());
    let group = layout.pod(KubeQos::BestEffort, &uid);
    let before = all(&tree, &group);

    let (tree, group) = (&tree, &group);
    let limited = || async move { is_limited(tree, group) };
    assert!(up.tidepool(&["on"]).status.success());
    until("its limits are written", limited).await;

    let off = up.tidepool(&["off", "--reason", "a test"]);
    assert!(off.status.success(), "{}", said(&off));
    assert!(said(&off).contains("given back by the agent"), "{}", said(&off));
    assert_eq!(all(tree, group), before);
    assert!(up.tidepool(&["on"]).status.success());
    until("its limits are written again", limited).await;

    let up_ref = &up;
    let off = until("the agent has obeyed", || async move {
        let off = up_ref.tidepool(&["off", "--cluster", "--reason", "a test"]);
        off.status.success().then_some(off)
    })
    .await;
    assert_eq!(said(&off), "n1: off; every kernel file is as it was found\n");
    assert_eq!(all(tree, group), before);
    let nodes: Api<Node> = Api::all(client.clone());
    let annotations = nodes.get("n1").await.unwrap().metadata.annotations.unwrap_or_default();
    assert_eq!(annotations["tidepool.io/switch-reason"], "a test");
    let on = up.tidepool(&["on", "--cluster"]);
    assert_eq!(said(&on), "n1: on\n");
    until("its limits are written once more", limited).await;

    up.kill();
    assert!(limited().await.is_some(), "a dead agent leaves best-effort held back");
    up.again();
    until("the next agent takes over", limited).await;
    up.kill();
    let off = up.tidepool(&["off", "--json"]);
    let given: serde_json::Value = serde_json::from_slice(&off.stdout).unwrap();
    assert_eq!((&given["byAgent"], &given["left"]), (&json!(false), &json!([])), "{}", said(&off));
    assert_eq!(all(tree, group), before, "nobody has to run to put things right");
}

/// A node of its own: groups that a kubelet would have made, and a `tidepool agent`.
struct Machine {
    tree: Tree,
    /// Innermost first.
    groups: Vec<CgroupPath>,
    agent: Option<Child>,
}

impl Machine {
    fn new(root: &str, uid: &str) -> Self {
        let layout = Layout::new(Driver::Cgroupfs).below(root);
        let pod = layout.pod(KubeQos::BestEffort, &PodUid::new(uid));
        let tier = layout.class(KubeQos::BestEffort);
        let mut groups = vec![pod, tier, layout.class(KubeQos::Burstable), layout.kubepods()];
        groups.push(CgroupPath::new(root));
        let tree = tree();
        groups.iter().rev().for_each(|group| tree.make(group).unwrap());
        Self { tree, groups, agent: None }
    }

    fn all(&self) -> Vec<Vec<Option<String>>> {
        self.groups.iter().map(|group| all(&self.tree, group)).collect()
    }

    fn start(&mut self, kubeconfig: &Path, state: &Path, more: &[&str]) {
        let mut command = Command::new(TIDEPOOL);
        command.args(["agent", "--node-name", "n2", "--no-kubelet", "--listen", "127.0.0.1:0"]);
        command.args(["--cgroup-driver", "cgroupfs", "--cgroup-root"]);
        command.arg(self.groups.last().unwrap().as_str());
        command.arg("--kubeconfig").arg(kubeconfig).arg("--state-dir").arg(state).args(more);
        self.agent = Some(command.spawn().unwrap());
    }

    /// SIGTERM; whether it was content.
    fn terminate(&mut self) -> bool {
        let mut agent = self.agent.take().unwrap();
        let pid = Pid::from_raw(i32::try_from(agent.id()).unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        agent.wait().unwrap().success()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(agent) = &mut self.agent {
            let _ = agent.kill();
            let _ = agent.wait();
        }
        for group in &self.groups {
            let _ = self.tree.remove(group);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_told_to_end_gives_everything_back_if_it_shall() {
    let up = Up::start();
    let client: Client = up.client().await;
    let nodes: Api<Node> = Api::all(client.clone());
    let amounts = json!({"cpu": "2", "memory": "4Gi"});
    let node = json!({"metadata": {"name": "n2"},
        "status": {"capacity": amounts, "allocatable": amounts}});
    let node: Node = serde_json::from_value(node).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let pod: Pod = create(&client, job("n2")).await;
    let root = format!("tidepool-test-{}-told", std::process::id());
    let mut machine = Machine::new(&root, &pod.metadata.uid.unwrap());
    let before = machine.all();
    let state = tempfile::tempdir().unwrap();

    machine.start(&up.kubeconfig(), state.path(), &[]);
    let (tree, group) = (&machine.tree.clone(), &machine.groups[0].clone());
    let limited = || async move { is_limited(tree, group) };
    until("its limits are written", limited).await;
    assert!(machine.terminate());
    assert!(limited().await.is_some(), "best-effort stays held back while nobody is there");

    // Made anew, so that the next agent has something to do.
    tree.remove(group).unwrap();
    tree.make(group).unwrap();
    machine.start(&up.kubeconfig(), state.path(), &["--cleanup-on-exit"]);
    until("its limits are written again", limited).await;
    assert!(machine.terminate());
    assert_eq!(machine.all(), before);
}
