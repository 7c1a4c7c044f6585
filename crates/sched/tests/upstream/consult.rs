//! Pods about which others have a say.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use sched::lap::Timed;
use sched::profile::Point;
use sched::scheduler::{
    Answer, AskRoom, Attempt, Consult, Nominate, Outcome, Reject, RoomOffer, VictimRef,
};
use sched::time::Time;
use sched::verdict::Code;
use serde_json::json;

use crate::{Cluster, NOW, asks, node, on, pod};

fn consulted(mut cluster: Cluster, resources: Option<&str>, victims: bool) -> Cluster {
    let resources = resources.map(|name| BTreeSet::from([name.to_owned()]));
    cluster.0.consult(&Consult { resources, nodes: true, victims });
    cluster
}

fn three() -> Cluster {
    let nodes = ["a", "b", "c"].map(|name| node(name, json!({})));
    consulted(Cluster::new(nodes.to_vec(), vec![]), None, false)
}

fn asked(attempt: Attempt) -> Vec<String> {
    match attempt.outcome {
        Outcome::Ask(ask) => ask.nodes,
        other => panic!("{other:?}"),
    }
}

fn accepted(nodes: &[(&str, i64)]) -> Answer {
    let accepted = nodes.iter().map(|(name, score)| ((*name).to_owned(), *score)).collect();
    Answer::Nodes { accepted, refused: Vec::new() }
}

fn refused(nodes: &[(&str, Code, &str)]) -> Answer {
    let refused = nodes.iter().map(|(name, code, why)| ((*name).into(), *code, (*why).into()));
    Answer::Nodes { accepted: Vec::new(), refused: refused.collect() }
}

fn placed(attempt: Option<Attempt>) -> String {
    match attempt.expect("the pod is there").outcome {
        Outcome::Place(place) => place.node,
        other => panic!("{other:?}"),
    }
}

fn rejected(attempt: Option<Attempt>) -> Reject {
    match attempt.expect("the pod is there").outcome {
        Outcome::Reject(reject) => *reject,
        other => panic!("{other:?}"),
    }
}

#[test]
fn others_choose_among_the_nodes_that_fit() {
    for (name, answer, want) in [
        ("the only one accepted", accepted(&[("b", 0)]), "b"),
        ("the one they like best", accepted(&[("a", 0), ("b", 0), ("c", 500)]), "c"),
        ("a node nobody knows is no node", accepted(&[("x", 900), ("a", 0)]), "a"),
    ] {
        let mut cluster = three();
        assert_eq!(asked(cluster.attempt(pod("p", json!({})))), ["a", "b", "c"], "{name}");
        assert_eq!(placed(cluster.0.answer("p", answer, NOW)), want, "{name}");
        assert_eq!(cluster.0.check(), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn their_reasons_are_told_and_time_brings_the_pod_back() {
    let mut cluster = three();
    asked(cluster.attempt(pod("p", json!({}))));
    let answer = refused(&[
        ("a", Code::Unschedulable, "no licence"),
        ("b", Code::Unresolvable, "no licence"),
        ("c", Code::Unresolvable, "wrong colour"),
    ]);
    let reject = rejected(cluster.0.answer("p", answer, NOW));
    let message = reject.why.message();
    assert!(
        message.starts_with("0/3 nodes are available: 1 wrong colour, 2 no licence. preemption:"),
        "{message}"
    );
    assert!(cluster.0.next(NOW).is_none(), "it pauses");
    let later = Time::from_secs(NOW.whole_secs() + 3);
    cluster.0.tick(later);
    assert_eq!(asked(cluster.0.next(later).expect("no event is needed")).len(), 3);
}

#[test]
fn an_answer_is_held_against_the_cluster_as_it_is_now() {
    let mut cluster = three();
    let big = asks(json!({"cpu": "3"}));
    asked(cluster.attempt(pod("p", big.clone())));
    cluster.add(on("b", pod("other", big)));
    let reject = rejected(cluster.0.answer("p", accepted(&[("b", 0)]), NOW));
    assert!(reject.why.message().contains("1 Insufficient cpu"), "{}", reject.why.message());
    assert_eq!(cluster.0.check(), Vec::<String>::new());
}

#[test]
fn a_failure_to_ask_is_an_error_and_a_pod_that_is_gone_is_gone() {
    let mut cluster = three();
    asked(cluster.attempt(pod("p", json!({}))));
    let reject = rejected(cluster.0.answer("p", Answer::Failed("nobody answers".into()), NOW));
    assert!(reject.why.is_error);
    assert_eq!(
        (reject.why.message().as_str(), reject.nominate),
        ("nobody answers", Nominate::Leave)
    );

    let mut cluster = three();
    asked(cluster.attempt(pod("p", json!({}))));
    let key = sched::scheduler::Key::new("default", "p").with_uid("p");
    cluster.0.apply(sched::scheduler::Change::Pod(sched::scheduler::Update::Delete(key)), NOW);
    assert!(cluster.0.answer("p", accepted(&[("a", 0)]), NOW).is_none());
    assert_eq!(cluster.0.depth(), sched::queue::Depth::default(), "forgotten");
    assert!(cluster.0.answer("p", accepted(&[("a", 0)]), NOW).is_none(), "twice");
}

#[test]
fn only_pods_with_their_resources_are_asked_about() {
    let cards = json!({"status": {"allocatable": {"example.com/card": "4"}}});
    let cluster = Cluster::new(vec![node("a", cards)], vec![]);
    let mut cluster = consulted(cluster, Some("example.com/card"), false);
    assert_eq!(placed(Some(cluster.attempt(pod("plain", json!({}))))), "a");
    let wants = asks(json!({"example.com/card": "1"}));
    assert_eq!(asked(cluster.attempt(pod("carded", wants))), ["a"]);
}

fn there(name: &str, on_node: &str, priority: i32) -> Pod {
    let mut spec = asks(json!({"cpu": "4"}));
    spec["priority"] = json!(priority);
    on(on_node, pod(name, spec))
}

fn crowded() -> Cluster {
    let nodes = ["a", "b"].map(|name| node(name, json!({})));
    let running = vec![there("low", "a", 1), there("mid", "b", 5)];
    let mut cluster = consulted(Cluster::new(nodes.to_vec(), running), None, true);
    let mut spec = asks(json!({"cpu": "2"}));
    spec["priority"] = json!(100);
    cluster.add(pod("boss", spec));
    cluster
}

fn ask_room(cluster: &mut Cluster) -> AskRoom {
    match cluster.0.next(NOW).expect("tried").outcome {
        Outcome::AskRoom(ask) => *ask,
        other => panic!("{other:?}"),
    }
}

#[test]
fn others_agree_to_who_is_preempted() {
    let mut cluster = crowded();
    let AskRoom { why, rooms } = ask_room(&mut cluster);
    let nodes: Vec<&str> = rooms.iter().map(|room| room.node.as_str()).collect();
    assert_eq!(nodes, ["a", "b"], "cheapest first");
    let kept = vec![rooms[1].clone()];
    let reject = rejected(cluster.0.answer_room("boss", why, Ok(kept), NOW));
    assert_eq!(reject.nominate, Nominate::Set("b".to_owned()));
    assert_eq!(reject.victims.len(), 1);
    assert_eq!(reject.victims[0].pod.name, "mid");
    assert_eq!(cluster.0.check(), Vec::<String>::new());
}

#[test]
fn others_may_refuse_all_or_name_somebody_who_is_not_there() {
    let mut cluster = crowded();
    let AskRoom { why, .. } = ask_room(&mut cluster);
    let reject = rejected(cluster.0.answer_room("boss", why, Ok(Vec::new()), NOW));
    assert_eq!((reject.nominate, reject.victims.len()), (Nominate::Leave, 0));
    assert!(reject.why.message().contains("extenders agree to none"), "{}", reject.why.message());

    for (node, victim, want) in [
        ("a", "nobody", "pod nobody is not on node a"),
        ("a", "mid", "pod mid is not on node a"),
        ("x", "low", "node x is gone"),
    ] {
        let mut cluster = crowded();
        let AskRoom { why, .. } = ask_room(&mut cluster);
        let victims = vec![VictimRef { uid: victim.into(), violates_pdb: false }];
        let kept = vec![RoomOffer { node: node.to_owned(), victims }];
        let reject = rejected(cluster.0.answer_room("boss", why, Ok(kept), NOW));
        assert!(reject.why.is_error && reject.victims.is_empty(), "{node} {victim}");
        assert_eq!(reject.why.message(), want);
    }
}

#[test]
fn plugins_are_timed_while_a_clock_is_lent() {
    let mut cluster = Cluster::new(vec![node("a", json!({}))], vec![]);
    cluster.0.lend_clock(|| std::time::Duration::from_secs(1));
    assert_eq!(placed(Some(cluster.attempt(pod("p", json!({}))))), "a");
    let mut seen = BTreeSet::new();
    cluster.0.take_laps(|profile, lap| {
        assert_eq!(profile, "default-scheduler");
        if let Timed::Plugin { plugin, point, .. } = lap.what {
            seen.insert((plugin, point));
        }
    });
    for want in [
        ("NodeResourcesFit", Point::PreFilter),
        ("NodeResourcesFit", Point::Filter),
        ("NodeResourcesFit", Point::Score),
        ("VolumeBinding", Point::Reserve),
    ] {
        assert!(seen.contains(&want), "{want:?} is not in {seen:?}");
    }
    placed(Some(cluster.attempt(pod("q", json!({})))));
    cluster.0.take_laps(|_, lap| panic!("nobody lends a clock: {lap:?}"));
    let count = |cluster: &mut Cluster, point| {
        let all = cluster.0.evaluations().into_iter();
        all.filter(|own| (own.1, own.2) == ("NodeResourcesFit", point))
            .map(|own| own.3)
            .sum::<u64>()
    };
    assert_eq!(count(&mut cluster, Point::Filter), 2, "one for each pod");
    assert_eq!(count(&mut cluster, Point::Filter), 2, "asking changes nothing");
}
