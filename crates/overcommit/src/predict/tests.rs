use units::{Bytes, CpuMemory, MilliCpu};

use super::estimate::estimate;
use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn start() -> Timestamp {
    at("2025-05-25T00:00:00Z")
}

fn minutes(number: i64) -> Timestamp {
    start() + jiff::SignedDuration::from_mins(number)
}

fn pod(uid: &str) -> Pod<'_> {
    Pod {
        uid,
        class: PriorityClass::Prod,
        started: Some(at("2025-05-01T00:00:00Z")),
        is_over: false,
        requests: amounts(4_000, 4_000),
    }
}

fn amounts(milli: i64, mib: i64) -> CpuMemory {
    CpuMemory { cpu: MilliCpu(milli), memory: Bytes::from_mib(mib) }
}

fn usage(cpu: f64) -> Usage {
    Usage { cpu, memory: cpu * 1e9 }
}

fn training(node: Option<f64>, pods: &[(&str, PriorityClass, f64)]) -> Training {
    let pods = pods.iter().map(|(uid, class, cpu)| ((*uid).to_owned(), *class, usage(*cpu)));
    Training { node: node.map(usage), pods: pods.collect() }
}

fn trained() -> Models {
    let mut models = Models::new(Settings::default());
    let sample = training(
        Some(4.0),
        &[("web", PriorityClass::Prod, 1.0), ("sort", PriorityClass::Batch, 2.0)],
    );
    for minute in 0..60 {
        models.train(&sample, minutes(minute));
    }
    models
}

/// Upper edge of the bucket of `cores`, in whole milli-cores.
#[expect(clippy::cast_possible_truncation, reason = "small constants")]
fn edge(cores: f64) -> i64 {
    let buckets = Buckets::cpu();
    (buckets.start(buckets.of(cores) + 1) * 1000.0) as i64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "the rule")]
fn margin(milli: i64) -> i64 {
    (milli as f64 * 1.1) as i64
}

#[test]
fn a_node_has_a_model_for_everything_that_is_asked() {
    let models = trained();
    let names: Vec<String> = models.iter().map(|(key, _)| key.name()).collect();
    let want = [
        "__node__",
        "__node-sys__",
        "__node-__",
        "__node-koord-prod__",
        "__node-koord-mid__",
        "__node-koord-batch__",
        "__node-koord-free__",
        "sort",
        "web",
    ];
    assert_eq!(names, want);
    for name in want {
        assert_eq!(ModelKey::from_name(name).unwrap().name(), name);
    }
    for name in ["", "../web", "a/b", "web.tmp", "__node-koord-gold__"] {
        assert_eq!(ModelKey::from_name(name), None, "{name:?}");
    }
}

#[test]
fn pods_leave_what_their_peak_does_not_need() {
    let models = trained();
    let class_peak = margin(edge(1.0) + edge(1.0) + 25);
    let web_peak = margin(edge(1.0));
    let young = Some(minutes(0));
    let big = amounts(100_000, 400_000);
    struct Case {
        name: &'static str,
        allocatable: CpuMemory,
        pods: Vec<Pod<'static>>,
        reclaimable: i64,
        peak: i64,
    }
    let case =
        |name, pods, reclaimable, peak| Case { name, allocatable: big, pods, reclaimable, peak };
    let cases = [
        case("a warm pod", vec![pod("web")], 4_000 - class_peak, class_peak),
        case(
            "a batch pod lends nothing here",
            vec![pod("web"), Pod { class: PriorityClass::Batch, ..pod("sort") }],
            4_000 - class_peak,
            class_peak,
        ),
        case("a young pod keeps its request", vec![Pod { started: young, ..pod("web") }], 0, 4_000),
        case(
            "a pod that never started is young",
            vec![Pod { started: None, ..pod("web") }],
            0,
            4_000,
        ),
        case(
            "a young pod counts in the sum of requests",
            vec![pod("web"), Pod { started: young, ..pod("web") }],
            4_000 - web_peak,
            web_peak + 4_000,
        ),
        case("a pod without a model keeps its request", vec![pod("new")], 0, 4_000),
        case(
            "a pod that is over is not there",
            vec![Pod { is_over: true, ..pod("web") }],
            0,
            class_peak,
        ),
        Case {
            allocatable: amounts(3_000, 400_000),
            ..case(
                "an oversold node lends what it has",
                vec![pod("web")],
                3_000 - class_peak,
                class_peak,
            )
        },
        Case {
            allocatable: amounts(1_000, 400_000),
            ..case("a full node lends nothing", vec![pod("web")], 0, class_peak)
        },
    ];
    for Case { name, allocatable, pods, reclaimable, peak } in cases {
        let found = estimate(&models, allocatable, pods.into_iter(), minutes(60)).unwrap();
        assert_eq!(found.reclaimable.cpu, MilliCpu(reclaimable), "{name}: reclaimable");
        assert_eq!(found.peak.cpu, MilliCpu(peak), "{name}: peak");
    }
}

#[test]
fn without_the_system_nothing_can_be_said() {
    let mut models = Models::new(Settings::default());
    models.train(&training(None, &[("web", PriorityClass::Prod, 1.0)]), start());
    assert_eq!(
        estimate(&models, amounts(8_000, 8_000), [pod("web")].into_iter(), minutes(1)),
        Err(EstimateError::NoModel { what: "the system" }),
    );
}

#[test]
fn who_is_silent_for_half_an_hour_is_forgotten() {
    let mut models = trained();
    let sample = training(Some(4.0), &[("web", PriorityClass::Prod, 1.0)]);
    models.train(&sample, minutes(89));
    assert_eq!(models.forget(minutes(89)), [], "half an hour is not over");
    models.train(&sample, minutes(90));
    assert_eq!(models.forget(minutes(90)), [ModelKey::Pod("sort".to_owned())]);
    assert_eq!(models.forget(start()), [], "a clock that was set back makes nobody old");
    assert_eq!(models.len(), 8);
}

#[test]
fn a_model_older_than_two_half_lives_is_no_evidence() {
    let saved = trained().get(&ModelKey::Node).unwrap().clone();
    let mut models = Models::new(Settings::default());
    let day = 24 * 60;
    assert!(models.restore(ModelKey::Node, saved.clone(), minutes(59 + day)));
    assert_eq!(models.get(&ModelKey::Node).unwrap().updated, minutes(59 + day));
    assert!(!models.restore(ModelKey::System, saved, minutes(60 + day)));
    assert_eq!(models.len(), 1);
}
