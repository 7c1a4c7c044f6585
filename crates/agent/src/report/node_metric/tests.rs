use std::sync::Arc;

use api::priority::PriorityClass;
use api::qos::{KubeQos, QosClass};
use overcommit::predict::{Training, Usage};
use qos::node::{HostApplication, Node, PodPhase, next};

use super::*;
use crate::predict::{PredictSettings, Predictor};
use crate::series::Store;
use qos::node::MetricPolicy;

const SECOND: Duration = Duration::from_secs(1);
const KIB: f64 = 1024.0;

fn metrics() -> Metrics {
    Metrics::new(Store::new(SECOND, usize::MAX))
}

/// A second-by-second saw tooth: cores from `low` up in steps of 10 m, memory in steps of 4 KiB.
fn measure(metrics: &Metrics, subject: Subject<'_>, seconds: u32, low: f64) {
    let mut store = metrics.lock();
    for second in 0..seconds {
        let step = f64::from(second % 100);
        let at = SECOND * second;
        store.push(subject, Measure::Cpu, at, low + step / 100.0);
        store.push(subject, Measure::Memory, at, low * 1_048_576.0 * KIB + step * 4.0 * KIB);
    }
}

fn pod(namespace: &str, name: &str, qos: QosClass) -> Pod {
    Pod {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        kube_qos: KubeQos::Burstable,
        raw_qos: Some(qos),
        qos,
        priority_class: PriorityClass::from(qos),
        phase: PodPhase::Running,
        started: Some("2025-05-20T00:00:00Z".parse().unwrap()),
        requests: CpuMemory { cpu: MilliCpu(4_000), memory: Bytes::from_gib(8) },
        ..Pod::default()
    }
}

fn state() -> NodeState {
    let allocatable = CpuMemory { cpu: MilliCpu(16_000), memory: Bytes::from_gib(64) };
    NodeState {
        node: Some(Arc::new(Node { capacity: allocatable, allocatable, ..Node::default() })),
        pods: next(
            &Arc::default(),
            [
                pod("mysql", "db-0", QosClass::Lsr),
                pod("default", "web", QosClass::Ls),
                pod("batch", "sort", QosClass::Be),
                pod("default", "no-samples", QosClass::Ls),
            ],
        ),
        host_applications: Arc::new(vec![HostApplication {
            name: "nginx".to_owned(),
            priority: Some(PriorityClass::Prod),
            qos: Some(QosClass::Ls),
            cgroup: groups::CgroupPath::new("host-latency-sensitive/nginx"),
        }]),
        ..NodeState::default()
    }
}

fn now() -> Timestamp {
    "2025-05-25T03:36:38Z".parse().unwrap()
}

fn trained() -> Prediction {
    let mut predictor = Predictor::new(PredictSettings::default());
    let pod =
        |name: &str, class, cpu| (format!("uid-{name}"), class, Usage { cpu, memory: cpu * 1e9 });
    let training = Training {
        node: Some(Usage { cpu: 5.0, memory: 6e9 }),
        pods: vec![
            pod("db-0", PriorityClass::Prod, 1.0),
            pod("web", PriorityClass::Prod, 2.0),
            pod("sort", PriorityClass::Batch, 1.5),
        ],
    };
    predictor.models.train(&training, now());
    Prediction::new(predictor)
}

fn full_metrics() -> Metrics {
    let metrics = metrics();
    // Twelve minutes: half of ten minutes is there, half of thirty is not.
    for (subject, low) in [
        (Subject::Node, 4.0),
        (Subject::System, 0.25),
        (Subject::Numa(0), 3.0),
        (Subject::Numa(1), 1.0),
        (Subject::NumaSystem(0), 0.2),
        (Subject::Pod("uid-db-0"), 1.0),
        (Subject::Pod("uid-web"), 2.0),
        (Subject::Pod("uid-sort"), 0.5),
        (Subject::HostApplication("nginx"), 0.125),
    ] {
        measure(&metrics, subject, 720, low);
    }
    metrics
}

#[test]
fn a_report_is_complete_and_ordered() {
    let (metrics, state, prediction) = (full_metrics(), state(), trained());
    let report = assemble(&Inputs {
        metrics: &metrics,
        state: &state,
        prediction: Some(&prediction),
        now: SECOND * 719,
        wall: now(),
    });
    assert!(!report.is_node_missing);
    assert_eq!((report.fell_back_to, report.prediction_error), (None, None));
    insta::assert_yaml_snapshot!(report.status);
}

#[test]
fn an_agent_that_just_started_says_so() {
    let state = state();
    let prediction = Prediction::new(Predictor::new(PredictSettings::default()));
    let report = assemble(&Inputs {
        metrics: &metrics(),
        state: &state,
        prediction: Some(&prediction),
        now: SECOND,
        wall: now(),
    });
    assert!(report.is_node_missing);
    assert_eq!(report.prediction_error.as_deref(), Some("there is no model of the system yet"));
    insta::assert_yaml_snapshot!(report.status);
}

#[test]
fn a_window_is_reported_from_half_of_it_on() {
    let state = state();
    let cases = [("half", 150, true), ("less than half", 149, false)];
    for (name, seconds, is_reported) in cases {
        let metrics = metrics();
        measure(&metrics, Subject::Node, seconds + 1, 1.0);
        let inputs = Inputs {
            metrics: &metrics,
            state: &state,
            prediction: None,
            now: SECOND * seconds,
            wall: now(),
        };
        let usage = assemble(&inputs).status.node_metric.unwrap();
        let five = &usage.aggregated_node_usages[0];
        assert_eq!(five.usage["p90"] != ResourceMap::default(), is_reported, "{name}");
        assert_eq!(five.usage.len(), 5, "{name}: entries are there in any case");
        assert_ne!(
            usage.node_usage,
            Some(ResourceMap::default()),
            "{name}: the mean needs no span"
        );
    }
}

#[test]
fn old_points_leave_the_window_and_then_the_report_stops_claiming_to_be_new() {
    let (metrics, state) = (full_metrics(), state());
    let at = |now| {
        assemble(&Inputs {
            metrics: &metrics,
            state: &state,
            prediction: None,
            now,
            wall: Timestamp::UNIX_EPOCH,
        })
    };
    assert!(at(SECOND * 1019).status.update_time.is_some(), "one point is left");
    let silent = at(SECOND * 1020);
    assert!(silent.is_node_missing);
    assert_eq!(silent.status.update_time, None);
    assert_eq!(silent.status.pods_metric, []);
    assert_eq!(silent.status.prod_reclaimable_metric, None, "prediction is off");
}

#[test]
fn a_memory_policy_nobody_collects_for_falls_back() {
    use MemoryPolicy::{WithHotPageCache, WithPageCache, WithoutPageCache};
    let collected = full_metrics();
    let page_cache = Measure::MemoryWithPageCache;
    collected.lock().push(Subject::Node, page_cache, SECOND * 719, 7.0 * KIB);
    let plain = full_metrics();
    let cases = [
        ("the default", &plain, WithoutPageCache, None, "4Gi"),
        ("page cache is collected", &collected, WithPageCache, None, "7Ki"),
        ("page cache is not collected", &plain, WithPageCache, Some(WithoutPageCache), "4Gi"),
        ("no kernel finds cold pages", &plain, WithHotPageCache, Some(WithoutPageCache), "4Gi"),
    ];
    for (name, metrics, policy, fell_back_to, memory) in cases {
        let mut state = state();
        let aggregate = Duration::ZERO;
        let given = MetricPolicy { memory: policy, aggregate, ..(*state.policy).clone() };
        state.policy = Arc::new(given);
        let now_at = SECOND * 700;
        let at =
            if fell_back_to.is_none() && policy == WithPageCache { SECOND * 719 } else { now_at };
        let inputs = Inputs { metrics, state: &state, prediction: None, now: at, wall: now() };
        let report = assemble(&inputs);
        let usage = report.status.node_metric.unwrap().node_usage.unwrap();
        let got = usage.resources[MEMORY].to_string();
        assert_eq!((report.fell_back_to, got.as_str()), (fell_back_to, memory), "{name}");
    }
}
