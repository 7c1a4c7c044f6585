//! A day of one node, decided without a file system.

use std::sync::Arc;
use std::time::Duration;

use api::policy::resolve;
use api::qos::{KubeQos, QosClass};
use groups::{CgroupPath, Driver, Knob, Layout, Version};
use serde_json::json;
use units::{Bytes, Cpu, CpuMemory, CpuSet, MilliCpu};

use super::*;
use crate::claim::{Bound, Value};
use crate::wish::Target;

const STEP: Duration = Duration::from_secs(10);
const TIER: &str = "kubepods/besteffort";

fn pod(name: &str, qos: QosClass, kube_qos: KubeQos, group: &str) -> Arc<Pod> {
    Arc::new(Pod {
        namespace: "d".to_owned(),
        name: name.to_owned(),
        uid: name.to_owned(),
        raw_qos: Some(qos),
        qos,
        kube_qos,
        phase: PodPhase::Running,
        cgroup: CgroupPath::new(group),
        ..Pod::default()
    })
}

fn state() -> State {
    let spec = json!({ "resourceUsedThresholdWithBE": { "enable": true } });
    let spec = serde_json::from_value(spec).unwrap();
    let amounts = CpuMemory { cpu: MilliCpu(16_000), memory: Bytes::from_gib(64) };
    let pods = [
        pod("web", QosClass::Ls, KubeQos::Burstable, "kubepods/burstable/podweb"),
        pod("job", QosClass::Be, KubeQos::BestEffort, "kubepods/besteffort/podjob"),
    ];
    let layout = (0..16u16).map(|id| Cpu { id, core: id / 2, socket: 0, numa: 0 });
    let group = CgroupPath::new;
    let job = group("kubepods/besteffort/podjob");
    State {
        now: Duration::ZERO,
        revision: 0,
        settings: Settings { interval: STEP, ..Settings::default() },
        layout: Layout::new(Driver::Cgroupfs),
        kernel: Kernel {
            version: Version::V2,
            has_identity: false,
            has_idle: true,
            has_core_scheduling: false,
        },
        cluster: Arc::new(NodeState {
            node: Some(Arc::new(Node {
                capacity: amounts,
                allocatable: amounts,
                ..Node::default()
            })),
            slo: Arc::new(resolve(Some(&spec), None)),
            pods: Arc::new(pods.into_iter().map(|pod| (pod.uid.clone(), pod)).collect()),
            is_complete: true,
            ..NodeState::default()
        }),
        cpus: Some(Arc::new(NodeCpus {
            layout: layout.collect(),
            excluded: "0".parse().unwrap(),
            ..NodeCpus::default()
        })),
        usage: Usage::default(),
        machine: Machine {
            children: [(group(TIER), vec![job.clone()]), (job.clone(), vec![job.child("main")])]
                .into(),
            ..Machine::default()
        },
        wake: None,
    }
}

fn granted(round: &Round) -> CpuSet {
    let wishes = round.posts.iter().filter(|post| post.strategy == "suppress");
    let mut cpus =
        wishes.flat_map(|post| &post.wishes).filter_map(|wish| match (&wish.target, &wish.bound) {
            (Target::Knob { group, knob: Knob::CpusetCpus }, Bound::Set(Value::Cpus(cpus)))
                if group.as_str() == TIER =>
            {
                Some(cpus.clone())
            }
            _ => None,
        });
    cpus.next().unwrap()
}

/// What the online side uses in the hour, and on how many CPUs best-effort runs at its end.
const DAY: [(f64, usize); 24] = [
    (0.4, 10),
    (0.3, 11),
    (0.2, 11),
    (0.2, 11),
    (0.3, 11),
    (0.8, 10),
    (2.1, 9),
    (4.0, 7),
    (6.2, 5),
    (7.4, 3),
    (8.0, 3),
    (8.3, 3),
    (9.9, 2),
    (12.0, 2),
    (8.1, 3),
    (7.0, 4),
    (6.4, 4),
    (7.7, 3),
    (9.1, 2),
    (8.8, 2),
    (6.0, 5),
    (4.5, 6),
    (2.2, 9),
    (1.0, 10),
];

#[test]
fn a_day_is_decided_from_values_alone() {
    let (mut state, mut memory) = (state(), Memory::default());
    let mut before: Option<CpuSet> = None;
    for (hour, (online, want)) in DAY.into_iter().enumerate() {
        for _ in 0..3_600 / STEP.as_secs() {
            state.now += STEP;
            let cpu = |cores| CpuUsage { last: Some(cores), mean: None };
            let best_effort = before.as_ref().map_or(0.0, |cpus| cpus.len() as f64);
            state.usage.node = cpu(online + best_effort);
            state.usage.pods =
                [("web".to_owned(), cpu(online)), ("job".to_owned(), cpu(best_effort))].into();
            let round = round(&state, &mut memory);
            for why in round.posts.iter().flat_map(|post| post.whys.iter().flatten()) {
                assert_eq!(why.sum.mistake(), None, "{why:?}");
            }
            let cpus = granted(&round);
            assert!(!cpus.contains(0), "CPU 0 is reserved: {cpus}");
            if let Some(before) = &before {
                assert!(cpus.len() <= before.len() + 2, "hour {hour}: {before} to {cpus}");
            }
            before = Some(cpus);
        }
        assert_eq!(before.as_ref().map(CpuSet::len), Some(want), "hour {hour}, {online} cores");
    }
}

#[test]
fn a_round_of_the_same_values_is_the_same_round() {
    let mut state = state();
    let cpu = |cores| CpuUsage { last: Some(cores), mean: None };
    let mut memory = Memory::default();
    for second in 1..200 {
        state.now = Duration::from_secs(second);
        state.usage.node = cpu((second % 13) as f64);
        let mut other = memory.clone();
        let asked = readings(&state, &memory);
        assert_eq!(asked, readings(&state, &other));
        assert_eq!(round(&state, &mut memory), round(&state, &mut other));
        assert_eq!(memory, other);
    }
}

#[test]
fn strategies_that_follow_pods_are_asked_when_something_changed() {
    let (mut state, mut memory) = (state(), Memory::default());
    let asked = |state: &State, memory: &mut Memory| {
        round(state, memory).posts.iter().any(|post| post.strategy == "batch")
    };
    assert!(asked(&state, &mut memory), "at first");
    state.now += Duration::from_secs(1);
    assert!(!asked(&state, &mut memory));
    state.revision += 1;
    assert!(asked(&state, &mut memory));
    state.now += Duration::from_secs(10);
    assert!(asked(&state, &mut memory), "and every ten seconds");
    memory.hurry();
    assert!(asked(&state, &mut memory));
}

fn with_containers(name: &str, containers: Vec<ContainerSpec>) -> State {
    let mut state = state();
    let cluster = Arc::make_mut(&mut state.cluster);
    let pods = Arc::make_mut(&mut cluster.pods);
    if let Some(pod) = pods.get_mut(name) {
        Arc::make_mut(pod).specs = containers;
    }
    state
}

fn container(name: &str, group: &str) -> ContainerSpec {
    ContainerSpec {
        name: name.to_owned(),
        id: Some(format!("containerd://{name}")),
        cgroup: Some(CgroupPath::new(group)),
        is_running: true,
        ..ContainerSpec::default()
    }
}

fn wish<'r>(round: &'r Round, strategy: &str, group: &str, knob: Knob) -> Option<&'r Bound> {
    let target = Target::knob(CgroupPath::new(group), knob);
    let posts = round.posts.iter().filter(|post| post.strategy == strategy);
    let mut wishes = posts.flat_map(|post| &post.wishes);
    wishes.find(|wish| wish.target == target).map(|wish| &wish.bound)
}

#[test]
fn a_native_container_of_a_batch_pod_keeps_its_own_limits() {
    let job = "kubepods/besteffort/podjob";
    let bounds = |cpu, memory| api::resources::Bounds {
        cpu_limit: Some(MilliCpu(cpu)),
        memory_limit: Some(Bytes(memory)),
        ..Default::default()
    };
    let batch = ContainerSpec {
        batch: Some(bounds(2_000, 1 << 30)),
        ..container("batch", &format!("{job}/batch"))
    };
    let native = ContainerSpec {
        native: bounds(500, 1 << 20),
        ..container("native", &format!("{job}/native"))
    };
    let round = round(&with_containers("job", vec![batch, native]), &mut Memory::default());
    let number = |number| Bound::Set(Value::Number(Some(number)));
    let quota = |group: &str| wish(&round, "batch", group, Knob::CfsQuota).cloned();
    assert_eq!(quota(&format!("{job}/batch")), Some(number(200_000)));
    assert_eq!(quota(&format!("{job}/native")), None, "the kubelet has set it");
    assert_eq!(quota(job), Some(number(250_000)), "both together");
    let memory = wish(&round, "batch", job, Knob::MemoryLimit);
    assert_eq!(memory, Some(&number((1 << 30) + (1 << 20))));
}

#[test]
fn limited_containers_burst_in_a_pod_without_a_quota() {
    let web = "kubepods/burstable/podweb";
    let limited = ContainerSpec {
        native: api::resources::Bounds { cpu_limit: Some(MilliCpu(1_000)), ..Default::default() },
        ..container("main", &format!("{web}/main"))
    };
    let free = container("free", &format!("{web}/free"));
    let mut state = with_containers("web", vec![limited, free]);
    let spec = json!({ "cpuBurstStrategy": { "policy": "auto" } });
    let spec = serde_json::from_value(spec).unwrap();
    Arc::make_mut(&mut state.cluster).slo = Arc::new(resolve(Some(&spec), None));
    let asked = readings(&state, &Memory::default());
    assert!(asked.quotas.contains(&CgroupPath::new(web)), "{asked:?}");
    let main = format!("{web}/main");
    state.machine.quotas =
        [(CgroupPath::new(web), None), (CgroupPath::new(&main), Some(units::Micros(100_000)))]
            .into();
    state.usage.node = CpuUsage { last: Some(1.0), mean: Some(1.0) };
    let busy = ContainerUsage { cpu: Some(1.0), throttled: Some(0.5) };
    state.usage.containers = [("containerd://main".to_owned(), busy)].into();
    let round = round(&state, &mut Memory::default());
    let grown = wish(&round, "burst", &main, Knob::CfsQuota);
    assert_eq!(grown, Some(&Bound::Set(Value::Number(Some(120_000)))));
    assert_eq!(wish(&round, "burst", web, Knob::CfsQuota), None, "the pod stays without");
}
