use serde_json::json;

use super::super::trial::Trial;
use super::*;
use crate::time::Time;

fn node(name: &str) -> Value {
    json!({"metadata": {"name": name, "uid": name},
           "status": {"allocatable": {"cpu": "10", "memory": "10Gi", "pods": "110"}}})
}

fn report(trial: &mut Trial, name: &str, seconds: i64, cpu: &str) {
    let time = jiff::Timestamp::from_second(seconds).unwrap().to_string();
    let metric = serde_json::from_value(json!({
        "metadata": {"name": name}, "spec": {},
        "status": {"updateTime": time,
                   "nodeMetric": {"nodeUsage": {"resources": {"cpu": cpu, "memory": "1Gi"}}}},
    }))
    .unwrap();
    trial.snapshot.set_metric(name, Some(&metric));
}

fn pod(name: &str, kind: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default", "uid": name,
                     "ownerReferences": [{"apiVersion": "v1", "kind": kind, "name": "o",
                                          "uid": "o", "controller": true}]},
        "spec": {"priority": 9_000, "containers": [
            {"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}]},
    })
}

#[test]
fn a_cold_node_is_not_overrun_between_two_reports() {
    let mut trial = Trial::new(NAME, &Value::Null);
    let at = trial.node(node("n"));
    trial.snapshot.extras.expire(Time::from_secs(1_000), &mut Vec::new());
    report(&mut trial, "n", 1_000, "1");
    let mut placed = Vec::new();
    for number in 0..4 {
        let pod = trial.pod(&pod(&format!("p{number}"), "ReplicaSet"));
        let verdict = trial.verdict(pod, at);
        if number < 3 {
            // 1000 m used, 1700 m for each pod there and for the one that comes: 27, 44, 61 %.
            assert_eq!(verdict, Ok(()), "{number}");
            trial.place(pod, at).unwrap();
            placed.push(pod);
        } else {
            let want = Err("node(s) cpu usage exceed threshold".to_owned());
            assert_eq!(verdict, want, "78 %");
        }
    }
    assert_eq!(trial.snapshot.extras.check(), Vec::<String>::new());
    let late = trial.pod(&pod("late", "ReplicaSet"));
    let score = trial.score(late, at);
    trial.give_up(placed[0], at);
    assert_eq!(trial.verdict(late, at), Ok(()), "one went");
    assert!(trial.score(late, at) > score);
    assert_eq!(trial.snapshot.extras.check(), Vec::<String>::new());
}

#[test]
fn daemons_go_where_they_must() {
    let mut trial = Trial::new(NAME, &Value::Null);
    let at = trial.node(node("n"));
    trial.snapshot.extras.expire(Time::from_secs(1_000), &mut Vec::new());
    report(&mut trial, "n", 1_000, "9");
    let daemon = trial.pod(&pod("daemon", "DaemonSet"));
    let other = trial.pod(&pod("other", "ReplicaSet"));
    assert_eq!(trial.verdict(daemon, at), Ok(()));
    assert!(trial.verdict(other, at).is_err());
}

#[test]
fn an_old_report_touches_its_node() {
    let mut trial = Trial::new(NAME, &Value::Null);
    let at = trial.node(node("n"));
    trial.snapshot.extras.expire(Time::from_secs(1_000), &mut Vec::new());
    report(&mut trial, "n", 1_000, "1");
    let pod = trial.pod(&pod("p", "ReplicaSet"));
    let mut touched = Vec::new();
    trial.snapshot.extras.expire(Time::from_secs(1_179), &mut touched);
    assert_eq!((touched.len(), trial.verdict(pod, at)), (0, Ok(())));
    trial.snapshot.extras.expire(Time::from_secs(1_180), &mut touched);
    assert_eq!(touched, [at]);
    assert_eq!(trial.verdict(pod, at), Err("node(s) nodeMetric expired".to_owned()));
}

#[test]
fn own_estimates_count_where_they_are_allowed() {
    let mut object = pod("p", "ReplicaSet");
    object["metadata"]["annotations"] = json!({
        "scheduling.koordinator.sh/load-estimated-scaling-factors": r#"{"cpu":50}"#,
    });
    let totals = |args: Value| {
        let mut trial = Trial::new(NAME, &args);
        let at = trial.node(node("n"));
        let pod = trial.pod(&object);
        trial.place(pod, at).unwrap();
        let page = trial.snapshot.extras.load.books()[0].page(at).unwrap();
        page.sums.estimated[0]
    };
    assert_eq!(totals(Value::Null), 1_700);
    assert_eq!(totals(json!({"allowCustomizeEstimation": true})), 1_000);
}

#[test]
fn unusable_args_are_all_named() {
    let args = json!({"usageThresholds": {"cpu": 101}, "resourceWeights": {"cpu": 0}});
    let error = build(&args, &mut Snapshot::default()).unwrap_err().to_string();
    assert!(error.contains("usageThresholds.cpu") && error.contains("resourceWeights.cpu"));
    assert!(build(&json!({"usageTresholds": {}}), &mut Snapshot::default()).is_err());
}

#[test]
fn the_endpoint_shows_pods_and_sums() {
    let mut trial = Trial::new(NAME, &Value::Null);
    let at = trial.node(node("n"));
    trial.snapshot.extras.expire(Time::from_secs(1_000), &mut Vec::new());
    report(&mut trial, "n", 990, "1");
    let pod = trial.pod(&pod("web", "ReplicaSet"));
    trial.place(pod, at).unwrap();
    insta::assert_json_snapshot!(trial.snapshot.load_of("n"));
    assert_eq!(trial.snapshot.load_of("other"), None);
    assert_eq!(trial.snapshot.extras.wake_at(), Some(Time::from_secs(1_170)));
}
