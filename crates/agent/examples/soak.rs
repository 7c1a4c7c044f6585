//! Do the collectors stay as small as they started when pods come and go all the time?
//!
//! ```text
//! cargo run --release -p agent --example soak            # 20 minutes
//! cargo run --release -p agent --example soak -- 60      # seconds
//! ```
//!
//! As root, on this machine's control groups: 110 pods with a container and a process each, five of
//! which are replaced every second, half of them removed before the collectors are told and half after.
//! Resident memory and open descriptors of this process are printed every ten seconds; the last
//! line is one JSON object. Exit code 1 when either grew after the warm-up, or pods were not measured.

#[path = "../tests/kernel/sandbox.rs"]
mod sandbox;

use std::collections::VecDeque;
use std::process::{Child, Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use agent::clock::Clock;
use agent::collect::{CollectSettings, CollectThread};
use agent::node_state::SharedNodeState;
use agent::series::{Measure, Subject};
use api::priority::PriorityClass;
use api::qos::{KubeQos, QosClass};
use arc_swap::ArcSwap;
use groups::CgroupPath;
use qos::node::{Container, ContainerState, NodeState, Pod as NodePod, PodPhase, next};
use sandbox::Sandbox;

const PODS: u64 = 110;
const CHURN: Duration = Duration::from_millis(200);
const LOOK: Duration = Duration::from_secs(10);
/// Share of the run after which nothing may grow any more.
const WARM_UP: f64 = 0.25;
/// What an allocator may keep back, whatever we do.
const SLACK_KIB: u64 = 512;
/// Descriptors of pods that came and went at the moment of a look.
const SLACK_DESCRIPTORS: usize = 32;
/// Pods younger than two ticks have no sample, and a busy machine is late.
const FEWEST_SAMPLED: usize = 80;

fn main() -> ExitCode {
    let seconds = env::args().nth(1).map_or(1200, |text| text.parse().expect("seconds"));
    let sandbox = Sandbox::new("soak").expect("control groups, as root");
    let state = SharedNodeState::new(ArcSwap::from_pointee(NodeState::default()));
    let settings = CollectSettings {
        best_effort_cgroup: sandbox.root.child("kubepods/besteffort"),
        ..CollectSettings::default()
    };
    let clock = Clock::start();
    let (collectors, metrics) =
        CollectThread::start(settings, sandbox.tree.clone(), state.clone(), clock)
            .expect("a thread");

    let mut pods: VecDeque<Pod> = (0..PODS).map(|number| Pod::start(&sandbox, number)).collect();
    publish(&state, &pods);
    let mut looks = Vec::new();
    let (start, mut number) = (Instant::now(), PODS);
    while start.elapsed() < Duration::from_secs(seconds) {
        thread::sleep(CHURN);
        let old = pods.pop_front().expect("there are always pods");
        pods.push_back(Pod::start(&sandbox, number));
        if number.is_multiple_of(2) {
            old.end(&sandbox);
            publish(&state, &pods);
        } else {
            publish(&state, &pods);
            old.end(&sandbox);
        }
        number += 1;
        if start.elapsed() >= LOOK * u32::try_from(looks.len() + 1).expect("a short run") {
            let is_sampled =
                |pod: &&Pod| metrics.latest(Subject::Pod(&pod.view.uid), Measure::Cpu).is_some();
            let look = Look::take(pods.iter().filter(is_sampled).count());
            println!("{:5} s  {look:?}  {:?}", start.elapsed().as_secs(), metrics.size());
            looks.push(look);
        }
    }
    pods.into_iter().for_each(|pod| pod.end(&sandbox));
    collectors.stop();
    judge(&looks, seconds, number - PODS)
}

#[derive(Debug)]
struct Pod {
    view: NodePod,
    group: CgroupPath,
    process: Child,
}

impl Pod {
    fn start(sandbox: &Sandbox, number: u64) -> Self {
        let uid = format!("{number:08}-0000-0000-0000-000000000000");
        let path = format!("kubepods/besteffort/pod{uid}");
        let id = format!("{number:064}");
        let container = sandbox.make(&format!("{path}/{id}"));
        let process = Command::new("sleep").arg("3600").spawn().expect("the program sleep");
        sandbox.tree.enter(&container, process.id()).expect("a new group takes a process");
        let group = container.parent().expect("a container is in a pod");
        let view = NodePod {
            namespace: "soak".to_owned(),
            name: format!("pod-{number}"),
            uid,
            kube_qos: KubeQos::BestEffort,
            raw_qos: Some(QosClass::Be),
            qos: QosClass::Be,
            priority_class: PriorityClass::Batch,
            phase: PodPhase::Running,
            cgroup: group.clone(),
            containers: vec![Container {
                name: "main".to_owned(),
                id: format!("containerd://{id}"),
                cgroup: container,
                state: ContainerState::Running,
            }],
            ..NodePod::default()
        };
        Self { view, group, process }
    }

    fn end(mut self, sandbox: &Sandbox) {
        self.process.kill().expect("our own child");
        self.process.wait().expect("our own child");
        sandbox.remove(&self.group).expect("the group is empty");
    }
}

fn publish(state: &SharedNodeState, pods: &VecDeque<Pod>) {
    let pods = next(&state.load().pods, pods.iter().map(|pod| pod.view.clone()));
    state.store(Arc::new(NodeState { pods, ..NodeState::default() }));
}

/// This process at one moment.
#[derive(Debug, Clone, Copy)]
struct Look {
    resident_kib: u64,
    descriptors: usize,
    /// Pods of the moment that have a sample; the newest have none yet.
    sampled: usize,
}

impl Look {
    fn take(sampled: usize) -> Self {
        let status = fs::read_to_string("/proc/self/status").expect("proc is mounted");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
        let resident = resident.trim().trim_end_matches(" kB").parse().expect("a number");
        let descriptors = fs::read_dir("/proc/self/fd").expect("proc is mounted").count();
        Self { resident_kib: resident, descriptors, sampled }
    }
}

/// Compares the largest look after the warm-up with the largest of the last quarter.
fn judge(looks: &[Look], seconds: u64, replaced: u64) -> ExitCode {
    #[expect(clippy::cast_precision_loss, reason = "a few hundred looks")]
    let part = |from: f64, to: f64| {
        let count = looks.len() as f64;
        let inside = looks
            .iter()
            .enumerate()
            .filter(|(index, _)| (count * from..count * to).contains(&(*index as f64)));
        inside.fold((0, 0), |(resident, descriptors), (_, look)| {
            (look.resident_kib.max(resident), look.descriptors.max(descriptors))
        })
    };
    let (early, late) = (part(WARM_UP, 0.5), part(0.75, 1.0));
    let grew = late.0 > early.0 + SLACK_KIB || late.1 > early.1 + SLACK_DESCRIPTORS;
    let sampled = looks.iter().map(|look| look.sampled).min().unwrap_or_default();
    println!(
        "{{\"seconds\": {seconds}, \"pods\": {PODS}, \"pods_replaced\": {replaced}, \
         \"rss_kib_second_quarter\": {}, \"rss_kib_last_quarter\": {}, \
         \"descriptors_second_quarter\": {}, \"descriptors_last_quarter\": {}, \"fewest_sampled\": {sampled}, \"grew\": {grew}}}",
        early.0, late.0, early.1, late.1
    );
    // Collectors that do not follow the pods cannot grow either.
    ExitCode::from(u8::from(grew || looks.len() < 4 || sampled < FEWEST_SAMPLED))
}
