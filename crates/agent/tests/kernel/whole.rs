//! The picture everybody draws of co-location, by a whole agent on a real kernel of eight CPUs:
//!
//! ```text
//! CPU   0 1   2 3   4 5 6 7
//!       LSE   LSR   LS
//!             BE .........      fewer of them the more the others use
//! ```

use std::fs;

use agent::act::switch::{Off, turn_off, turn_on};
use api::qos::KubeQos;
use groups::{CgroupPath, Knob};
use host::Reading;
use host::topology::Topology;
use serde_json::json;
use testkit::wait::until_blocking as until;
use units::CpuSet;

use crate::acting::snapshot;
use crate::node::{self, NodeProcess, Plan};
use crate::sandbox::Sandbox;
use crate::sandbox_or_skip;
use crate::workload::Workload;

const TEST: &str =
    "whole::four_classes_share_a_machine_and_an_agent_that_dies_is_followed_by_another";

const PODS: [(&str, &str, &str); 4] =
    [("lse", "LSE", "0-1"), ("lsr", "LSR", "2-3"), ("ls", "LS", ""), ("be", "BE", "")];

fn set(text: &str) -> CpuSet {
    text.parse().unwrap()
}

struct Machine {
    /// Gone before their groups are.
    workloads: Vec<Workload>,
    groups: Vec<CgroupPath>,
    sandbox: Sandbox,
}

impl Machine {
    fn new(sandbox: Sandbox) -> Self {
        let mut groups = vec![sandbox.root.clone()];
        groups.extend(node::make_classes(&sandbox));
        let mut workloads = Vec::new();
        for (name, qos, _) in PODS {
            workloads.push(node::run_pod(&sandbox, name, qos));
            groups.extend(node::groups(&sandbox, name, qos));
        }
        Self { workloads, groups, sandbox }
    }

    fn cpus(&self, group: &CgroupPath) -> CpuSet {
        match self.sandbox.tree.get_text(group, Knob::CpusetCpus) {
            Ok(Reading::Value((text, _))) => set(&text),
            other => panic!("{group}: {other:?}"),
        }
    }

    /// CPUs of a pod's container.
    fn of(&self, pod: usize) -> CpuSet {
        let (name, qos, _) = PODS[pod];
        self.cpus(&node::groups(&self.sandbox, name, qos)[0])
    }

    /// Where the kernel lets the process of a pod run.
    fn allowed(&self, pod: usize) -> CpuSet {
        let path = format!("/proc/{}/status", self.workloads[pod].id());
        let status = fs::read_to_string(path).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        set(line.unwrap().trim())
    }

    /// Everybody runs where the picture says: by the files, and by what processes may do. While
    /// other tests need CPUs, best-effort has fewer.
    fn until_as_drawn(&self) {
        let tier = node::layout(&self.sandbox).class(KubeQos::BestEffort);
        until("as drawn", || {
            let drawn = ["0-1", "2-3", "4-7", "2-7"].map(set);
            let is_so = (0..PODS.len())
                .all(|pod| self.of(pod) == drawn[pod] && self.allowed(pod) == drawn[pod]);
            (is_so && self.cpus(&tier) == drawn[3]).then_some(())
        });
    }
}

#[test]
fn four_classes_share_a_machine_and_an_agent_that_dies_is_followed_by_another() {
    if node::was_node() {
        return;
    }
    let sandbox = sandbox_or_skip!("whole");
    let cpus = Topology::read(sandbox.tree.fs()).unwrap().cpus.online();
    if cpus != set("0-7") {
        println!("this machine has CPUs {cpus}; the guest has the eight that are needed");
        return;
    }
    let machine = Machine::new(sandbox);
    let before = snapshot(&machine.sandbox.tree, &machine.groups);
    let is_as_before = || {
        let now = snapshot(&machine.sandbox.tree, &machine.groups);
        (now == before).then_some(())
    };
    let dir = tempfile::tempdir().unwrap();
    let mut plan = Plan {
        root: machine.sandbox.root.as_str().to_owned(),
        state: dir.path().to_owned(),
        slo: json!({ "resourceUsedThresholdWithBE": {
            "enable": true, "cpuSuppressThresholdPercent": 100 } }),
        pods: PODS.iter().map(|(name, qos, cpus)| node::pod(name, qos, cpus)).collect(),
        cleanup_on_exit: false,
    };
    let agent = NodeProcess::start(&plan, TEST);
    machine.until_as_drawn();

    let [online, _] = node::groups(&machine.sandbox, "ls", "LS");
    let load: Vec<_> = (0..4)
        .map(|_| {
            let mut workload = Workload::start();
            machine.sandbox.tree.enter(&online, workload.id()).unwrap();
            workload.burn();
            workload
        })
        .collect();
    let left =
        until("best-effort gives way", || Some(machine.allowed(3)).filter(|cpus| cpus.len() <= 4));
    assert!(left.len() >= 2, "the floor: {left}");
    assert!(left.is_disjoint(&set("0-1")), "never on LSE's: {left}");
    assert_eq!((machine.of(0), machine.of(2)), (set("0-1"), set("4-7")), "nobody else moved");

    agent.kill();
    drop(load);
    assert!(machine.allowed(3).len() <= 4, "a dead agent leaves best-effort held back");
    plan.cleanup_on_exit = true;
    let agent = NodeProcess::start(&plan, TEST);
    machine.until_as_drawn();

    let off = Off::new("a test".to_owned());
    let lock = plan.state.join("agent.lock");
    let given = turn_off(&plan.state, &machine.sandbox.tree, &lock, &off).unwrap();
    assert!(!given.is_unanswered, "the agent has seen the switch");
    until("off gives everything back", is_as_before);
    assert!(turn_on(&plan.state).unwrap());
    machine.until_as_drawn();

    assert!(agent.terminate(), "it ends well");
    assert_eq!(
        snapshot(&machine.sandbox.tree, &machine.groups),
        before,
        "as --cleanup-on-exit says"
    );
}
