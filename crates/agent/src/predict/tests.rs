use std::fs;
use std::path::Path;

use api::priority::PriorityClass;
use overcommit::predict::Estimate;
use qos::node::{Pod, PodPhase, Pods, next};
use stats::Buckets;
use units::{Bytes, CpuMemory, MilliCpu};

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

fn pod(uid: &str) -> Pod {
    Pod {
        uid: uid.to_owned(),
        priority_class: PriorityClass::Prod,
        phase: PodPhase::Running,
        started: Some(at("2025-05-01T00:00:00Z")),
        requests: amounts(4_000, 4_000),
        ..Pod::default()
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

fn trained(settings: PredictSettings) -> Predictor {
    let mut predictor = Predictor::new(settings);
    let sample = training(
        Some(4.0),
        &[("web", PriorityClass::Prod, 1.0), ("sort", PriorityClass::Batch, 2.0)],
    );
    for minute in 0..60 {
        predictor.models.train(&sample, minutes(minute));
    }
    predictor
}

fn settings(dir: &Path) -> PredictSettings {
    PredictSettings { checkpoint_dir: Some(dir.to_owned()), ..PredictSettings::default() }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn state(uids: &[&str]) -> NodeState {
    let pods = next(&Pods::default(), uids.iter().map(|uid| pod(uid)));
    NodeState { pods, ..NodeState::default() }
}

#[test]
fn a_restart_keeps_what_was_learned() {
    let dir = tempfile::tempdir().unwrap();
    let mut before = trained(settings(dir.path()));
    before.checkpoint_all(minutes(60));
    let mut after = Predictor::new(settings(dir.path()));
    after.restore(&state(&["web", "sort"]), minutes(61));
    assert_eq!(after.models.len(), before.models.len());
    let estimate = |predictor: Predictor| -> Estimate {
        let prediction = Prediction::new(predictor);
        prediction.estimate(amounts(8_000, 8_000), [&pod("web")].into_iter(), minutes(61)).unwrap()
    };
    assert_eq!(estimate(after), estimate(before));
}

#[test]
fn files_that_mean_nothing_are_removed_on_restart() {
    let dir = tempfile::tempdir().unwrap();
    trained(settings(dir.path())).checkpoint_all(minutes(60));
    let good = fs::read_to_string(dir.path().join("web")).unwrap();
    let put = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    put("broken", "{\"UID\":");
    put("half.tmp", &good);
    put("newer", &good.replace("\"Version\":1", "\"Version\":2"));
    put("odd", &good.replace("\"22\":10000", "\"999\":10000"));
    put("huge", &" ".repeat(100_000));
    let mut predictor = Predictor::new(settings(dir.path()));
    predictor.restore(&state(&["web", "broken", "half", "newer", "odd", "huge"]), minutes(61));
    assert!(predictor.models.get(&ModelKey::Pod("web".to_owned())).is_some());
    let want = [
        "__node-__",
        "__node-koord-batch__",
        "__node-koord-free__",
        "__node-koord-mid__",
        "__node-koord-prod__",
        "__node-sys__",
        "__node__",
        "web",
    ];
    assert_eq!(names(dir.path()), want, "sort left the node, the others are unusable");
    assert_eq!(predictor.models.len(), want.len());
}

#[test]
fn a_checkpoint_older_than_two_half_lives_is_no_evidence() {
    let dir = tempfile::tempdir().unwrap();
    trained(settings(dir.path())).checkpoint_all(minutes(60));
    let cases = [("a day later", 24 * 60, 8), ("and a minute", 24 * 60 + 60, 0)];
    for (name, later, want) in cases {
        let mut predictor = Predictor::new(settings(dir.path()));
        predictor.restore(&state(&["web"]), minutes(later));
        assert_eq!(predictor.models.len(), want, "{name}");
    }
}

#[test]
fn a_file_of_the_reference_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"{"UID":"","CPU":{"referenceTimestamp":"2025-05-25T00:00:00Z","bucketWeights":{"22":10000,"30":3},"totalWeight":61.5},"Memory":{"referenceTimestamp":"2025-05-25T00:00:00Z","bucketWeights":{"40":10000},"totalWeight":60.25},"LastUpdated":"2025-05-25T08:30:00.123456789+08:00"}"#;
    fs::write(dir.path().join("web"), text).unwrap();
    let mut predictor = Predictor::new(settings(dir.path()));
    predictor.restore(&state(&["web"]), minutes(60));
    let model = predictor.models.get(&ModelKey::Pod("web".to_owned())).unwrap();
    assert_eq!(model.cpu.percentile(0.95), Buckets::cpu().start(23));
    assert_eq!(model.memory.percentile(0.98), Buckets::memory().start(41));
}

#[test]
fn checkpoints_are_written_in_turns() {
    let dir = tempfile::tempdir().unwrap();
    let mut predictor =
        Predictor::new(PredictSettings { checkpoints_per_step: 4, ..settings(dir.path()) });
    let sample = training(Some(4.0), &[("web", PriorityClass::Prod, 1.0)]);
    let mut counts = Vec::new();
    for minute in 0..4 {
        predictor.models.train(&sample, minutes(minute));
        predictor.checkpoint(minutes(minute));
        counts.push(names(dir.path()).len());
    }
    assert_eq!(counts, [4, 8, 8, 8], "eight models, four a step, none twice in ten minutes");
    let written = |predictor: &Predictor| {
        predictor.written.values().filter(|written| **written == minutes(10)).count()
    };
    predictor.models.train(&sample, minutes(10));
    predictor.checkpoint(minutes(10));
    assert_eq!(written(&predictor), 4, "the first four are due again");
}

#[test]
fn a_full_disk_does_not_stop_training() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("not-a-directory");
    fs::write(&file, "").unwrap();
    let mut predictor = trained(settings(&file));
    predictor.checkpoint(minutes(60));
    predictor.restore(&NodeState::default(), minutes(60));
    assert_eq!(predictor.models.len(), 9);
}

#[test]
fn who_is_silent_for_half_an_hour_is_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let mut predictor = trained(settings(dir.path()));
    predictor.checkpoint_all(minutes(60));
    let sample = training(Some(4.0), &[("web", PriorityClass::Prod, 1.0)]);
    predictor.models.train(&sample, minutes(89));
    predictor.forget(minutes(89));
    assert_eq!(predictor.models.len(), 9, "half an hour is not over");
    predictor.models.train(&sample, minutes(90));
    predictor.forget(minutes(90));
    assert_eq!(predictor.models.len(), 8);
    assert!(!dir.path().join("sort").exists());
    predictor.forget(start());
    assert_eq!(predictor.models.len(), 8, "a clock that was set back makes nobody old");
}

#[test]
fn a_pod_that_is_deleted_or_has_ended_lends_nothing() {
    let prediction = Prediction::new(trained(PredictSettings::default()));
    let lent = |pod: &Pod| {
        let estimate =
            prediction.estimate(amounts(100_000, 400_000), [pod].into_iter(), minutes(60));
        estimate.unwrap().reclaimable.cpu
    };
    assert!(lent(&pod("web")) > MilliCpu::ZERO);
    assert_eq!(lent(&Pod { is_deleting: true, ..pod("web") }), MilliCpu::ZERO);
    assert_eq!(lent(&Pod { phase: PodPhase::Succeeded, ..pod("web") }), MilliCpu::ZERO);
}
