//! Who has to go, and where.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use sched::scheduler::{Attempt, Change, Key, Nominate, Outcome, Reject, Update};
use sched::time::Time;
use serde_json::{Value, json};

use crate::{Cluster, NOW, asks, node, on, pod};

/// A pod of one CPU with a priority, running on a node since a minute of the hour.
fn there(name: &str, on_node: &str, priority: i32, cpu: &str, minute: u32) -> Pod {
    let mut spec = asks(json!({"cpu": cpu}));
    spec["priority"] = json!(priority);
    let mut pod = on(on_node, pod(name, spec));
    let start = format!("2026-01-01T00:{minute:02}:00Z");
    pod.status = serde_json::from_value(json!({"startTime": start})).unwrap();
    pod
}

fn wants(priority: i32, cpu: &str) -> Pod {
    let mut spec = asks(json!({"cpu": cpu}));
    spec["priority"] = json!(priority);
    pod("p", spec)
}

fn rejected(attempt: Attempt) -> Reject {
    match attempt.outcome {
        Outcome::Reject(reject) => *reject,
        other => panic!("{other:?}"),
    }
}

fn small(name: &str) -> Node {
    node(name, json!({"status": {"allocatable": {"cpu": "2"}}}))
}

fn budget(app: &str, allowed: i32) -> Change {
    let budget = json!({
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {
            "disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1,
            "expectedPods": 1,
        },
    });
    Change::Pdb(Update::Upsert(Arc::new(serde_json::from_value(budget).unwrap())))
}

#[test]
fn the_least_painful_node_is_cleared() {
    struct Case {
        name: &'static str,
        there: Vec<Pod>,
        budgets: Vec<Change>,
        want: (&'static str, &'static [&'static str]),
    }
    let cases = [
        Case {
            name: "fewer broken budgets before lower priorities",
            there: vec![there("a1", "a", 1, "2", 0), there("b1", "b", 5, "2", 0)],
            budgets: vec![budget("a1", 0)],
            want: ("b", &["b1"]),
        },
        Case {
            name: "a budget with room is not broken",
            there: vec![there("a1", "a", 1, "2", 0), there("b1", "b", 5, "2", 0)],
            budgets: vec![budget("a1", 1)],
            want: ("a", &["a1"]),
        },
        Case {
            name: "the lowest top priority",
            there: vec![
                there("a1", "a", 5, "2", 0),
                there("b1", "b", 4, "1", 0),
                there("b2", "b", 4, "1", 0),
            ],
            budgets: vec![],
            want: ("b", &["b1", "b2"]),
        },
        Case {
            name: "the smaller sum of priorities",
            there: vec![
                there("a1", "a", 5, "1", 0),
                there("a2", "a", 4, "1", 0),
                there("b1", "b", 5, "1", 0),
                there("b2", "b", 3, "1", 0),
            ],
            budgets: vec![],
            want: ("b", &["b1", "b2"]),
        },
        Case {
            name: "the latest start of the top victim",
            there: vec![there("a1", "a", 5, "2", 10), there("b1", "b", 5, "2", 20)],
            budgets: vec![],
            want: ("b", &["b1"]),
        },
        Case {
            name: "the earliest of several top victims counts",
            there: vec![
                there("a1", "a", 5, "1", 10),
                there("a2", "a", 5, "1", 50),
                there("b1", "b", 5, "1", 20),
                there("b2", "b", 5, "1", 30),
            ],
            budgets: vec![],
            want: ("b", &["b1", "b2"]),
        },
        Case {
            name: "only as many as needed, the least important",
            there: vec![
                there("a1", "a", 5, "1", 0),
                there("a2", "a", 4, "500m", 0),
                there("b1", "b", 50, "2", 0),
            ],
            budgets: vec![],
            want: ("a", &["a1"]),
        },
        Case {
            name: "pods that are as important stay",
            there: vec![there("a1", "a", 10, "2", 0), there("b1", "b", 9, "2", 0)],
            budgets: vec![],
            want: ("b", &["b1"]),
        },
    ];
    for Case { name, there, budgets, want } in cases {
        let mut cluster = Cluster::new(vec![small("a"), small("b")], there);
        for budget in budgets {
            cluster.0.apply(budget, NOW);
        }
        let cpu = if name.starts_with("only") { "1500m" } else { "2" };
        let reject = rejected(cluster.attempt(wants(10, cpu)));
        assert_eq!(reject.nominate, Nominate::Set(want.0.to_owned()), "{name}");
        let victims: Vec<&str> = reject.victims.iter().map(|v| v.pod.name.as_str()).collect();
        assert_eq!(victims, want.1, "{name}");
    }
}

#[test]
fn reprieve_spares_budgets_first_and_then_the_important() {
    let pods = vec![
        there("a1", "a", 1, "500m", 0),
        there("a2", "a", 2, "500m", 0),
        there("a3", "a", 3, "500m", 0),
        there("a4", "a", 4, "500m", 0),
    ];
    let victims = |budgets: Vec<Change>| -> Vec<(String, bool)> {
        let mut cluster = Cluster::new(vec![small("a")], pods.clone());
        for budget in budgets {
            cluster.0.apply(budget, NOW);
        }
        let reject = rejected(cluster.attempt(wants(10, "1")));
        reject.victims.into_iter().map(|v| (v.pod.name, v.violates_pdb)).collect()
    };
    let named = |names: &[(&str, bool)]| -> Vec<(String, bool)> {
        names.iter().map(|(name, violates)| ((*name).to_owned(), *violates)).collect()
    };
    assert_eq!(victims(vec![]), named(&[("a2", false), ("a1", false)]));
    assert_eq!(victims(vec![budget("a1", 0)]), named(&[("a3", false), ("a2", false)]));
    let all: Vec<Change> = ["a1", "a2", "a3", "a4"].iter().map(|app| budget(app, 0)).collect();
    assert_eq!(victims(all), named(&[("a2", true), ("a1", true)]));
}

#[test]
fn some_pods_preempt_nobody() {
    let full = || Cluster::new(vec![small("a")], vec![there("a1", "a", 5, "2", 0)]);
    let message = |pod: Pod| rejected(full().attempt(pod)).why.message();
    let mut never = wants(10, "2");
    never.spec.as_mut().unwrap().preemption_policy = Some("Never".to_owned());
    assert_eq!(
        message(never),
        "0/1 nodes are available: 1 Insufficient cpu. \
         preemption: not eligible due to preemptionPolicy=Never."
    );
    assert_eq!(
        message(wants(5, "2")),
        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: \
         1 No preemption victims found for incoming pod."
    );
    assert_eq!(
        message(wants(10, "3")),
        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: \
         1 Preemption is not helpful for scheduling."
    );
    let mut both = wants(10, "1");
    both.spec.as_mut().unwrap().node_selector = Some([("x".to_owned(), "y".to_owned())].into());
    assert_eq!(
        message(both),
        "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. \
         preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    );
}

#[test]
fn clearing_that_is_not_enough_tells_what_is_missing() {
    let pods = vec![there("a1", "a", 50, "1500m", 0), there("a2", "a", 5, "500m", 0)];
    let mut cluster = Cluster::new(vec![small("a")], pods);
    let reject = rejected(cluster.attempt(wants(10, "1")));
    assert!(reject.victims.is_empty());
    assert_eq!(
        reject.why.message(),
        "0/1 nodes are available: 1 Insufficient cpu. \
         preemption: 0/1 nodes are available: 1 Insufficient cpu."
    );
}

fn delete(name: &str) -> Change {
    Change::Pod(Update::Delete(Key::new("default", name).with_uid(name)))
}

fn later(seconds: i64) -> Time {
    Time(NOW.0 + seconds * 1_000_000_000)
}

/// The whole story: victims go, the room is kept for the preemptor, and it gets it.
#[test]
fn room_that_was_made_is_kept() {
    let mut cluster = Cluster::new(vec![small("a")], vec![there("a1", "a", 5, "2", 0)]);
    let reject = rejected(cluster.attempt(wants(10, "2")));
    assert_eq!(reject.victims.len(), 1);

    cluster.0.preempted("p", later(1));
    cluster.0.apply(delete("a1"), later(1));
    let mut rival = wants(7, "1");
    rival.metadata.name = Some("rival".to_owned());
    rival.metadata.uid = Some("rival".to_owned());
    let mut high = rival.clone();
    high.metadata.name = Some("second".to_owned());
    high.metadata.uid = Some("second".to_owned());
    high.spec.as_mut().unwrap().priority = Some(20);
    cluster.add(rival);
    cluster.add(high);

    let outcomes: Vec<(String, String)> = std::iter::from_fn(|| cluster.0.next(later(5)))
        .take(3)
        .map(|attempt| {
            let told = match attempt.outcome {
                Outcome::Place(place) => place.node,
                Outcome::Reject(reject) => reject.why.message(),
                Outcome::Skip { reason } => reason.to_owned(),
                other => panic!("nobody is asked: {other:?}"),
            };
            (attempt.pod.name, told)
        })
        .collect();
    let told = |at: usize| (outcomes[at].0.as_str(), outcomes[at].1.as_str());
    assert_eq!(told(0), ("second", "a"), "more important than the promise");
    assert_eq!(told(1).0, "rival", "there is a CPU left, but not for this one");
    assert!(told(1).1.contains("1 Insufficient cpu"), "{:?}", told(1));
    assert_eq!(told(2).0, "p", "paused after its rejection, hence last");
    assert!(told(2).1.contains("1 Insufficient cpu"), "{:?}", told(2));
    assert_eq!(cluster.0.check(), Vec::<String>::new());
}

/// The watch may be late: who was told to go is not told again.
#[test]
fn a_victim_that_was_told_is_not_chosen_again() {
    let victim = there("a1", "a", 5, "2", 0);
    let mut cluster = Cluster::new(vec![small("a")], vec![victim.clone()]);
    assert_eq!(rejected(cluster.attempt(wants(10, "2"))).victims.len(), 1);
    cluster.0.leaving("a1", later(1));
    cluster.0.preempted("p", later(1));
    // A copy from before the deletion.
    cluster.0.apply(Change::Pod(Update::Upsert(victim.into())), later(2));
    cluster.0.apply(Change::Node(Update::Upsert(small("b").into())), later(2));
    let mut big = wants(10, "2");
    big.metadata.name = Some("other".to_owned());
    big.metadata.uid = Some("other".to_owned());
    cluster.add(big);
    cluster.0.tick(later(30));
    while let Some(attempt) = cluster.0.next(later(30)) {
        if let Outcome::Reject(reject) = attempt.outcome {
            let told = reject.victims.iter().filter(|victim| !victim.is_terminating).count();
            assert_eq!(told, 0, "{:?}", reject.victims);
        }
    }
    assert_eq!(cluster.0.check(), Vec::<String>::new());
}

#[test]
fn less_important_pods_do_not_take_promised_room() {
    let mut cluster = Cluster::new(vec![small("a")], vec![there("a1", "a", 5, "2", 0)]);
    let reject = rejected(cluster.attempt(wants(10, "2")));
    assert_eq!(reject.nominate, Nominate::Set("a".to_owned()));
    cluster.0.apply(delete("a1"), later(1));
    let mut rival = wants(7, "1");
    rival.metadata.name = Some("rival".to_owned());
    rival.metadata.uid = Some("rival".to_owned());
    cluster.add(rival);
    // The preemptor is held back until its victims have been told.
    let first = cluster.0.next(later(1)).unwrap();
    assert_eq!(first.pod.name, "rival");
    let why = rejected(first).why.message();
    assert!(why.starts_with("0/1 nodes are available: 1 Insufficient cpu."), "{why}");
    cluster.0.preempted("p", later(2));
    let second = cluster.0.next(later(3)).unwrap();
    assert_eq!(second.pod.name, "p");
    match second.outcome {
        Outcome::Place(place) => {
            assert_eq!(place.node, "a");
            assert!(place.why.was_nominated);
        }
        other => panic!("{other:?}"),
    }
}

/// The promised pod is the first in the cluster that says anything about others. Whoever was
/// decided before it came, and whoever comes later, must heed it.
#[test]
fn a_promised_pod_is_heard_though_none_of_its_kind_runs() {
    for (name, is_class_known) in [("a new class", false), ("a class that was decided", true)] {
        let a = node("a", json!({"metadata": {"labels": {"host": "a"}}}));
        let b = node("b", json!({"metadata": {"labels": {"host": "b"}}}));
        let mut cluster = Cluster::new(vec![a, b], vec![there("low", "a", 1, "4", 0)]);
        let web = |name: &str| {
            let mut web = pod(name, asks(json!({"cpu": "1"})));
            web.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
            web
        };
        if is_class_known {
            assert_eq!(cluster.try_pod(web("first")), Ok("b".to_owned()), "{name}");
        }
        let mut spec = asks(json!({"cpu": "3"}));
        spec["priority"] = json!(10);
        spec["nodeSelector"] = json!({"host": "a"});
        let term = json!({"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "web"}}});
        spec["affinity"] = json!({"podAntiAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        let reject = rejected(cluster.attempt(pod("boss", spec)));
        assert_eq!(reject.nominate, Nominate::Set("a".to_owned()), "{name}");
        cluster.0.apply(delete("low"), later(1));
        // There is room for both on `a`, but not in each other's company.
        let full = on("b", pod("full", asks(json!({"cpu": "3"}))));
        cluster.add(full);
        cluster.add(web("second"));
        let attempt = cluster.0.next(later(1)).expect("the preemptor is held back");
        assert_eq!(attempt.pod.name, "second", "{name}");
        match attempt.outcome {
            Outcome::Place(place) if !is_class_known => assert_eq!(place.node, "b", "{name}"),
            Outcome::Reject(reject) if is_class_known => {
                let want = "1 node(s) didn't satisfy existing pods anti-affinity rules";
                assert!(reject.why.message().contains(want), "{name}: {}", reject.why.message());
            }
            other => panic!("{name}: {other:?}"),
        }
        // Once the promise is over nobody heeds it any more.
        cluster.0.apply(delete("boss"), later(2));
        cluster.0.tick(later(30));
        let mut third = web("third");
        third.spec.as_mut().unwrap().node_selector =
            Some([("host".to_owned(), "a".to_owned())].into());
        cluster.add(third);
        let mut outcomes = std::iter::from_fn(|| cluster.0.next(later(30))).take(3);
        let third = outcomes.find(|one| one.pod.name == "third").expect("tried");
        assert!(matches!(third.outcome, Outcome::Place(_)), "{name}: {:?}", third.outcome);
        assert_eq!(cluster.0.check(), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn a_pod_waits_for_its_terminating_victim() {
    let mut cluster = Cluster::new(vec![small("a")], vec![there("a1", "a", 5, "2", 0)]);
    rejected(cluster.attempt(wants(10, "2")));
    cluster.0.preempted("p", NOW);
    let mut dying = there("a1", "a", 5, "2", 0);
    dying.metadata.deletion_timestamp = serde_json::from_value::<Pod>(
        json!({"metadata": {"deletionTimestamp": "2026-01-01T01:00:00Z"}}),
    )
    .unwrap()
    .metadata
    .deletion_timestamp;
    let status: Value = json!({"conditions": [{
        "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
    }]});
    dying.status = serde_json::from_value(status).unwrap();
    cluster.add(dying);
    // Something else happens that wakes it.
    cluster.0.apply(Change::Node(Update::Upsert(Arc::new(small("b")))), later(2));
    cluster.0.apply(Change::Pod(Update::Upsert(Arc::new(there("b1", "b", 50, "2", 0)))), later(2));
    cluster.0.tick(later(4));
    let reject = rejected(cluster.0.next(later(4)).unwrap());
    assert_eq!(reject.nominate, Nominate::Leave);
    assert!(reject.victims.is_empty());
    let why = reject.why.message();
    let want = "preemption: not eligible due to a terminating pod on the nominated node.";
    assert!(why.ends_with(want), "{why}");
}

#[test]
fn host_ports_are_cleared_too() {
    let port = json!({"containers": [{
        "name": "main", "image": "web:1", "ports": [{"containerPort": 1, "hostPort": 80}],
    }]});
    let holder = |priority: i32| {
        let mut spec = port.clone();
        spec["priority"] = json!(priority);
        on("a", pod("a1", spec))
    };
    let mut spec = port.clone();
    spec["priority"] = json!(10);
    let mut cluster = Cluster::new(vec![small("a")], vec![holder(1)]);
    let reject = rejected(cluster.attempt(pod("p", spec.clone())));
    assert_eq!(reject.victims.len(), 1);
    let mut cluster = Cluster::new(vec![small("a")], vec![holder(20)]);
    let reject = rejected(cluster.attempt(pod("p", spec)));
    assert!(reject.victims.is_empty());
}
