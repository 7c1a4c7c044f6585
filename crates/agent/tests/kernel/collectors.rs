//! The collectors over pods with real processes.
//!
//! Time is a value: a tick a second later says that a second has passed, so that a process that used
//! 400 ms of CPU meanwhile must be measured as 0.4 cores, however long that took on a busy machine.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use agent::collect::{CollectSettings, Collector, Task};
use agent::series::{Measure, Metrics, Store, Subject};
use api::priority::PriorityClass;
use api::protocol::gate::AgentGate;
use api::qos::{KubeQos, QosClass};
use groups::{CgroupPath, Driver, Knob, Layout, Limit, PodUid, Setting, Version};
use host::Reading;
use qos::node::NodeState;
use qos::node::{Container, ContainerState, Pod as NodePod, PodPhase, next};
use units::CpuSet;

use crate::sandbox::Sandbox;
use crate::workload::Workload;
use crate::{assert_within, sandbox_or_skip};

const SECOND: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(20);

/// One pod with one container with one process.
struct Pod {
    view: NodePod,
    container: CgroupPath,
    workload: Workload,
}

impl Pod {
    fn start(sandbox: &Sandbox, driver: Driver, kube_qos: KubeQos, number: u8) -> Self {
        let class = match kube_qos {
            KubeQos::Guaranteed => api::qos::KubeQos::Guaranteed,
            KubeQos::Burstable => api::qos::KubeQos::Burstable,
            KubeQos::BestEffort => api::qos::KubeQos::BestEffort,
        };
        let uid = format!("{number:08}-1111-2222-3333-444444444444");
        let id = format!("containerd://{number:064}");
        let path = Layout::new(driver).container(class, &PodUid::new(&*uid), &id.parse().unwrap());
        let container = sandbox.make(path.as_str());
        let workload = Workload::start();
        sandbox.tree.enter(&container, workload.id()).unwrap();
        let view = NodePod {
            namespace: "default".to_owned(),
            name: format!("pod-{number}"),
            uid,
            kube_qos,
            qos: QosClass::from(kube_qos),
            priority_class: PriorityClass::Prod,
            phase: PodPhase::Running,
            cgroup: container.parent().unwrap(),
            containers: vec![Container {
                name: "main".to_owned(),
                id,
                cgroup: container.clone(),
                state: ContainerState::Running,
            }],
            ..NodePod::default()
        };
        Self { view, container, workload }
    }

    fn subjects(&self) -> [Subject<'_>; 2] {
        [Subject::Pod(&self.view.uid), Subject::Container(&self.view.containers[0].id)]
    }
}

/// The collectors of the sandbox, a second apart.
struct Rig {
    collector: Collector,
    metrics: Metrics,
    state: Arc<NodeState>,
    now: Duration,
}

impl Rig {
    fn new(sandbox: &Sandbox, driver: Driver, pods: &[&Pod]) -> Self {
        let tier = Layout::new(driver).class(api::qos::KubeQos::BestEffort);
        let mut settings = CollectSettings {
            best_effort_cgroup: sandbox.root.child(tier.as_str()),
            psi_interval: SECOND,
            ..CollectSettings::default()
        };
        settings.gates.set(AgentGate::PSICollector, true);
        let metrics = Metrics::new(Store::new(settings.usage_interval, settings.max_points));
        let collector = Collector::new(sandbox.tree.clone(), settings, metrics.clone());
        let pods = next(&Arc::default(), pods.iter().map(|pod| pod.view.clone()));
        let state = Arc::new(NodeState { pods, ..NodeState::default() });
        let mut rig = Self { collector, metrics, state, now: Duration::ZERO };
        rig.tick();
        rig
    }

    fn tick(&mut self) {
        self.now += SECOND;
        assert!(self.collector.tick(self.now, &self.state), "usage is due every second");
    }

    /// The kernel sums up what each CPU has counted every two seconds, on a busy machine later.
    fn tick_until(&mut self, subject: Subject<'_>, measure: Measure, real: f64) {
        let start = Instant::now();
        loop {
            self.tick();
            let measured = self.measured(subject, measure).unwrap_or_default();
            if (measured / real - 1.0).abs() <= 0.01 || start.elapsed() > PATIENCE {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// What was measured in the last tick; `None` when nothing was.
    fn measured(&self, subject: Subject<'_>, measure: Measure) -> Option<f64> {
        self.metrics.recent(subject, measure, self.now, Duration::ZERO)
    }

    #[track_caller]
    fn assert(&self, subject: Subject<'_>, measure: Measure, percent: f64, real: f64) {
        let measured = self.measured(subject, measure);
        let measured = measured.unwrap_or_else(|| panic!("no {measure:?} of {subject:?}"));
        assert_within(percent, measured, real);
    }
}

fn usage_is_what_the_processes_used(sandbox: &Sandbox, driver: Driver) {
    let mut busy = Pod::start(sandbox, driver, KubeQos::Guaranteed, 1);
    let mut half = Pod::start(sandbox, driver, KubeQos::BestEffort, 2);
    let idle = Pod::start(sandbox, driver, KubeQos::Burstable, 3);
    let mut rig = Rig::new(sandbox, driver, &[&busy, &half, &idle]);
    for subject in busy.subjects() {
        assert_eq!(rig.measured(subject, Measure::Cpu), None, "the first tick is a baseline");
    }

    let used = (busy.workload.spin(SECOND), half.workload.spin(SECOND / 2));
    rig.tick();
    for subject in busy.subjects() {
        rig.assert(subject, Measure::Cpu, 2.0, used.0.as_secs_f64());
    }
    for subject in half.subjects().into_iter().chain([Subject::BestEffort]) {
        rig.assert(subject, Measure::Cpu, 2.0, used.1.as_secs_f64());
    }

    let held = f64::from(256 << 20);
    busy.workload.hold(256 << 20);
    for subject in busy.subjects() {
        rig.tick_until(subject, Measure::Memory, held);
        rig.assert(subject, Measure::Memory, 1.0, held);
    }
    rig.tick();
    for subject in idle.subjects() {
        let cpu = rig.measured(subject, Measure::Cpu).unwrap();
        assert!(cpu < 0.02, "{cpu} cores of an idle pod");
    }
    let node = rig.measured(Subject::Node, Measure::Memory).unwrap();
    assert!(node > held, "the node has {node} bytes in use");
    let cpus = &rig.metrics.facts().node.unwrap().topology;
    assert_eq!(rig.metrics.numa_nodes().len(), cpus.cpu_nodes().count());
}

#[test]
fn usage_below_cgroupfs_names_is_what_the_processes_used() {
    let sandbox = sandbox_or_skip!("cgroupfs");
    usage_is_what_the_processes_used(&sandbox, Driver::Cgroupfs);
}

#[test]
fn usage_below_systemd_names_is_what_the_processes_used() {
    let sandbox = sandbox_or_skip!("systemd");
    usage_is_what_the_processes_used(&sandbox, Driver::Systemd);
}

#[test]
fn a_pod_that_vanishes_takes_nothing_from_the_others() {
    let sandbox = sandbox_or_skip!("vanish");
    let mut stays = Pod::start(&sandbox, Driver::Cgroupfs, KubeQos::Burstable, 1);
    let leaves = Pod::start(&sandbox, Driver::Cgroupfs, KubeQos::Burstable, 2);
    let mut rig = Rig::new(&sandbox, Driver::Cgroupfs, &[&stays, &leaves]);
    rig.tick();
    assert!(rig.measured(leaves.subjects()[0], Measure::Cpu).is_some());

    // The cluster has not said so yet: the collectors find out by themselves.
    let view = leaves.view.clone();
    let group = leaves.container.parent().unwrap();
    drop(leaves.workload);
    sandbox.remove(&group).unwrap();
    let used = stays.workload.spin(SECOND / 2);
    rig.tick();
    for subject in stays.subjects() {
        rig.assert(subject, Measure::Cpu, 2.0, used.as_secs_f64());
    }
    assert_eq!(rig.measured(Subject::Pod(&view.uid), Measure::Cpu), None);
    let health = rig.metrics.health(Task::Usage).unwrap();
    assert_eq!((health.last_error, health.failing_objects), (None, 0));
}

#[test]
fn a_pod_with_a_quota_is_seen_to_be_throttled() {
    let sandbox = sandbox_or_skip!("throttled");
    let mut pod = Pod::start(&sandbox, Driver::Cgroupfs, KubeQos::Burstable, 1);
    let quota = Setting::Limit(Limit::At(5_000));
    let set = sandbox.tree.set(&pod.container, Knob::CfsQuota, &quota).unwrap();
    assert_eq!(set, Reading::Value(()));
    let mut rig = Rig::new(&sandbox, Driver::Cgroupfs, &[&pod]);
    pod.workload.spin(Duration::from_millis(50));
    rig.tick();
    let [group_of_pod, container] = pod.subjects();
    let share = rig.measured(container, Measure::Throttled).unwrap();
    assert!(share > 0.2, "{share} of the container's periods");
    assert_eq!(rig.measured(group_of_pod, Measure::Throttled), Some(0.0), "it has no quota");
}

/// Two processes of a pod on one CPU wait for each other. Mainline v1 kernels do not say so.
#[test]
fn pressure_is_collected_where_the_kernel_tells_it() {
    let sandbox = sandbox_or_skip!("pressure");
    let mut pod = Pod::start(&sandbox, Driver::Cgroupfs, KubeQos::Burstable, 1);
    let mut second = Workload::start();
    sandbox.tree.enter(&pod.container, second.id()).unwrap();
    let one = Setting::Cpus(CpuSet::from_iter([1]));
    let set = sandbox.tree.set(&pod.container, Knob::CpusetCpus, &one).unwrap();
    assert_eq!(set, Reading::Value(()));
    let mut rig = Rig::new(&sandbox, Driver::Cgroupfs, &[&pod]);
    rig.tick();
    let waited = |rig: &Rig, pod: &Pod| {
        let sample = rig.metrics.pressure(pod.subjects()[1])?;
        Some(sample.cpu?.some.total)
    };
    let before = waited(&rig, &pod);
    thread::scope(|scope| {
        scope.spawn(|| pod.workload.spin(Duration::from_millis(300)));
        scope.spawn(|| second.spin(Duration::from_millis(300)));
    });
    rig.tick();
    let health = rig.metrics.health(Task::Pressure).unwrap();
    match sandbox.tree.version() {
        Version::V1 => assert!(health.is_unsupported && before.is_none(), "{health:?}"),
        Version::V2 => {
            let waited = waited(&rig, &pod).unwrap() - before.unwrap();
            assert!(waited > Duration::from_millis(150), "{waited:?}");
        }
    }
}
