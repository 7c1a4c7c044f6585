use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// A fleet whose nodes are registered and have their leases.
fn fleet(count: u32) -> Fleet {
    let mut fleet = Fleet::new(HollowConfig::new(count));
    while let Some(write) = fleet.next(at(0)) {
        fleet.take_done(write, Done::Good, at(0));
    }
    fleet
}

fn pod(fields: Value) -> HollowPod {
    let mut pod = json!({
        "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
        "spec": {"nodeName": "hollow-00000", "restartPolicy": "Never", "containers": [{"name": "c"}]},
        "status": {"phase": "Pending"},
    });
    merge(&mut pod, &fields);
    serde_json::from_value(pod).unwrap()
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

fn deleted(fields: Value) -> HollowPod {
    let mut deleted = json!({"metadata": {"deletionTimestamp": "2027-01-15T08:00:30Z"}});
    merge(&mut deleted, &fields);
    pod(deleted)
}

fn uid() -> Arc<str> {
    "u".into()
}

/// Everything due that is no renewal, carried out with success.
fn play(fleet: &mut Fleet, now: Timestamp) -> Vec<Write> {
    let mut writes = Vec::new();
    while let Some(write) = fleet.next(now) {
        if !matches!(write, Write::Lease { .. }) {
            writes.push(write.clone());
        }
        fleet.take_done(write, Done::Good, now);
    }
    writes
}

#[test]
fn nodes_register_then_renew_their_leases() {
    let mut fleet = Fleet::new(HollowConfig::new(2));
    assert_eq!(fleet.next(at(0)), Some(Write::Node(0)));
    assert_eq!(fleet.next(at(0)), Some(Write::Node(1)));
    assert_eq!(fleet.next(at(0)), None);
    fleet.take_done(Write::Node(0), Done::Good, at(0));
    let new = Write::Lease { node: 0, is_new: true };
    assert_eq!(fleet.next(at(0)), Some(new.clone()));
    fleet.take_done(new, Done::Good, at(0));
    assert_eq!(fleet.wake_at(), Some(at(10)));
    assert_eq!(fleet.next(at(9)), None);
    let renewal = Write::Lease { node: 0, is_new: false };
    assert_eq!(fleet.next(at(10)), Some(renewal.clone()));
    fleet.take_done(renewal, Done::Missing, at(10));
    assert_eq!(fleet.next(at(10)), Some(Write::Lease { node: 0, is_new: true }), "made again");

    fleet.take_done(Write::Node(1), Done::Failed, at(10));
    assert_eq!(fleet.next(at(11)), None);
    assert_eq!(fleet.next(at(12)), Some(Write::Node(1)), "a failure is tried again");
}

#[test]
fn many_nodes_renew_less_often() {
    let every = |count| Fleet::new(HollowConfig::new(count)).renew_every.as_secs();
    assert_eq!([every(1), every(4_000), every(10_000), every(100_000)], [10, 10, 25, 30]);
}

#[test]
fn names_lead_back_to_nodes() {
    let fleet = fleet(10);
    assert_eq!(fleet.number_of("hollow-00003"), Some(3));
    for name in ["hollow-00010", "hollow-3", "hollow-", "n1", "hollow-0000x", "hollow-+0003"] {
        assert_eq!(fleet.number_of(name), None, "{name}");
    }
}

#[test]
fn a_pod_starts_after_its_delay_and_ends_after_its_time() {
    let mut fleet = fleet(1);
    let script = json!({"metadata": {"annotations": {
        "tidepool.io/hollow-start-seconds": "3", "tidepool.io/hollow-run-seconds": "5",
    }}});
    fleet.take(Update::Applied(pod(script)), at(0));
    assert_eq!(play(&mut fleet, at(2)), []);
    assert_eq!(play(&mut fleet, at(3)), [Write::Run(uid())]);
    assert_eq!(play(&mut fleet, at(7)), []);
    assert_eq!(play(&mut fleet, at(8)), [Write::Finish(uid())]);
    assert_eq!(play(&mut fleet, at(99)), []);
}

#[test]
fn a_pod_that_restarts_always_never_ends() {
    let mut fleet = fleet(1);
    let script = json!({
        "metadata": {"annotations": {"tidepool.io/hollow-run-seconds": "5"}},
        "spec": {"restartPolicy": "Always"},
    });
    fleet.take(Update::Applied(pod(script)), at(0));
    assert_eq!(play(&mut fleet, at(99)), [Write::Run(uid())]);
}

#[test]
fn a_running_pod_found_at_the_start_goes_on() {
    let mut fleet = fleet(1);
    let running = json!({
        "metadata": {"annotations": {"tidepool.io/hollow-run-seconds": "60"}},
        "status": {"phase": "Running", "startTime": "2027-01-15T08:00:00Z"},
    });
    fleet.take(Update::Relist, at(20));
    fleet.take(Update::Applied(pod(running)), at(20));
    fleet.take(Update::Listed, at(20));
    assert_eq!(play(&mut fleet, at(59)), []);
    assert_eq!(play(&mut fleet, at(60)), [Write::Finish(uid())]);
}

#[test]
fn a_deleted_pod_is_confirmed_once() {
    let mut fleet = fleet(1);
    fleet.take(Update::Applied(pod(json!({}))), at(0));
    play(&mut fleet, at(1));
    fleet.take(Update::Applied(deleted(json!({}))), at(2));
    fleet.take(Update::Applied(deleted(json!({}))), at(2));
    assert_eq!(play(&mut fleet, at(2)), [Write::Delete(uid())]);
    fleet.take(Update::Deleted(deleted(json!({}))), at(3));
    assert!(fleet.pods.is_empty());
}

#[test]
fn a_pod_somebody_waits_for_says_that_it_ended_first() {
    let mut fleet = fleet(1);
    let held = json!({"metadata": {"finalizers": ["batch.kubernetes.io/job-tracking"]}});
    fleet.take(Update::Applied(pod(held.clone())), at(0));
    play(&mut fleet, at(1));
    fleet.take(Update::Applied(deleted(held)), at(2));
    assert_eq!(play(&mut fleet, at(2)), [Write::Abort(uid()), Write::Delete(uid())]);
}

#[test]
fn a_pod_deleted_before_it_started_never_runs() {
    let mut fleet = fleet(1);
    fleet.take(Update::Applied(pod(json!({}))), at(0));
    fleet.take(Update::Applied(deleted(json!({}))), at(0));
    assert_eq!(play(&mut fleet, at(60)), [Write::Delete(uid())]);
}

#[test]
fn pods_of_other_nodes_and_finished_ones_are_left_alone() {
    let mut fleet = fleet(1);
    fleet.take(Update::Applied(pod(json!({"spec": {"nodeName": "n1"}}))), at(0));
    fleet.take(Update::Applied(pod(json!({"spec": {"nodeName": ""}}))), at(0));
    fleet.take(Update::Applied(pod(json!({"status": {"phase": "Failed"}}))), at(0));
    assert_eq!(play(&mut fleet, at(60)), []);
    fleet.take(Update::Relist, at(60));
    fleet.take(Update::Listed, at(60));
    assert!(fleet.pods.is_empty(), "what is not listed any more is forgotten");
}

#[test]
fn renewals_go_first() {
    let mut fleet = fleet(1);
    fleet.take(Update::Applied(pod(json!({}))), at(0));
    assert_eq!(fleet.next(at(10)), Some(Write::Lease { node: 0, is_new: false }));
    assert_eq!(fleet.next(at(10)), Some(Write::Run(uid())));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However the API answers, each node has at most one renewal out, and none is ever lost.
    #[test]
    fn renewals_are_neither_lost_nor_doubled(answers in proptest::collection::vec(0..3_u8, 1..80)) {
        let mut fleet = fleet(3);
        let mut out: Vec<Write> = Vec::new();
        let mut now = 0;
        for answer in answers {
            now += 5;
            while let Some(write) = fleet.next(at(now)) {
                prop_assert!(!out.contains(&write));
                out.push(write);
            }
            if let Some(write) = out.pop() {
                let done = [Done::Good, Done::Missing, Done::Failed][usize::from(answer)];
                fleet.take_done(write, done, at(now));
            }
            let waiting = fleet.timers.len() + fleet.urgent.len() + fleet.queue.len();
            prop_assert_eq!(waiting + out.len(), 3);
        }
    }
}
