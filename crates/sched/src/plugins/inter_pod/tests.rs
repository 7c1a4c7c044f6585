//! Who may be near whom, case by case, and against a count from end to end.

mod recount;

use serde_json::{Value, json};

use super::*;
use crate::plugins::rig::{Rig, labels, pod};

/// Two nodes in zone 1, one in zone 2, one without a zone.
const NODES: [&str; 4] = ["a host=a zone=1", "b host=b zone=1", "c host=c zone=2", "d host=d"];

fn plugin(rig: &mut Rig, args: &Value) -> Box<dyn Plugin> {
    build(args, &mut rig.snapshot).unwrap()
}

fn term(selects: &str, key: &str) -> Value {
    json!({"labelSelector": {"matchLabels": labels(selects)}, "topologyKey": key})
}

/// `term` with further fields.
fn with(mut term: Value, field: &str, value: Value) -> Value {
    term[field] = value;
    term
}

fn near(terms: &[Value]) -> Value {
    json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
}

fn apart(terms: &[Value]) -> Value {
    json!({"affinity": {"podAntiAffinity":
        {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
}

fn prefers(kind: &str, terms: &[(i64, Value)]) -> Value {
    let terms: Vec<Value> = terms
        .iter()
        .map(|(weight, term)| json!({"weight": weight, "podAffinityTerm": term}))
        .collect();
    json!({"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": terms}}})
}

fn in_namespace(mut pod: Value, namespace: &str) -> Value {
    pod["metadata"]["namespace"] = json!(namespace);
    pod
}

/// One letter a node: `.` passes, `A` affinity, `X` anti-affinity, `E` existing pods' anti-affinity.
fn letters(rig: &Rig, prepared: &Prepared) -> String {
    let letter = |reason: String| match reason.as_str() {
        "" => '.',
        "!node(s) didn't match pod affinity rules" => 'A',
        "node(s) didn't match pod anti-affinity rules" => 'X',
        "node(s) didn't satisfy existing pods anti-affinity rules" => 'E',
        _ => '?',
    };
    rig.reasons(prepared).into_iter().map(letter).collect()
}

struct Case {
    name: &'static str,
    running: Vec<(&'static str, Value)>,
    pod: Value,
    want: &'static str,
}

fn web() -> Value {
    pod("app=web", json!({}))
}

#[test]
fn required_terms_decide() {
    let db = || pod("app=db", json!({}));
    let wants_db = |key| pod("app=web", near(&[term("app=db", key)]));
    let shuns_db = |key| pod("app=web", apart(&[term("app=db", key)]));
    let cases = vec![
        Case { name: "no terms, nobody around", running: vec![], pod: web(), want: "...." },
        Case {
            name: "no terms, others around",
            running: vec![("a", db())],
            pod: web(),
            want: "....",
        },
        Case {
            name: "wanted on a node",
            running: vec![("a", db())],
            pod: wants_db("host"),
            want: ".AAA",
        },
        Case {
            name: "wanted in a zone",
            running: vec![("a", db())],
            pod: wants_db("zone"),
            want: "..AA",
        },
        Case {
            name: "wanted, on a node without the key",
            running: vec![("d", db())],
            pod: wants_db("zone"),
            want: "AAAA",
        },
        Case {
            name: "wanted, nowhere",
            running: vec![("a", web())],
            pod: wants_db("zone"),
            want: "AAAA",
        },
        Case {
            name: "wanted, on a node nobody knows",
            running: vec![("x", db())],
            pod: wants_db("zone"),
            want: "AAAA",
        },
        Case {
            name: "a key no node has",
            running: vec![("a", db())],
            pod: wants_db("rack"),
            want: "AAAA",
        },
        Case {
            name: "the first of its kind needs only the key",
            running: vec![],
            pod: pod("app=web", near(&[term("app=web", "zone")])),
            want: "...A",
        },
        Case {
            name: "the second does not",
            running: vec![("c", web())],
            pod: pod("app=web", near(&[term("app=web", "zone")])),
            want: "AA.A",
        },
        Case {
            name: "the first, with its kind out of any domain",
            running: vec![("d", web())],
            pod: pod("app=web", near(&[term("app=web", "zone")])),
            want: "...A",
        },
        Case {
            name: "the first must match all its own terms",
            running: vec![],
            pod: pod("app=web", near(&[term("app=web", "zone"), term("app=db", "zone")])),
            want: "AAAA",
        },
        Case {
            name: "the first of its kind elsewhere is another kind",
            running: vec![],
            pod: in_namespace(
                pod("app=web", near(&[with(term("app=web", "zone"), "namespaces", json!(["x"]))])),
                "default",
            ),
            want: "AAAA",
        },
        Case {
            name: "two terms want one pod that matches both",
            running: vec![("a", pod("app=db tier=1", json!({})))],
            pod: pod("app=web", near(&[term("app=db", "zone"), term("tier=1", "host")])),
            want: ".AAA",
        },
        Case {
            name: "two pods that match one term each do not",
            running: vec![("a", db()), ("a", pod("tier=1", json!({})))],
            pod: pod("app=web", near(&[term("app=db", "zone"), term("tier=1", "host")])),
            want: "AAAA",
        },
        Case {
            name: "shunned on a node",
            running: vec![("a", db())],
            pod: shuns_db("host"),
            want: "X...",
        },
        Case {
            name: "shunned in a zone; a node without the key passes",
            running: vec![("a", db())],
            pod: shuns_db("zone"),
            want: "XX..",
        },
        Case {
            name: "shunned, on a node without the key",
            running: vec![("d", db())],
            pod: shuns_db("zone"),
            want: "....",
        },
        Case {
            name: "one shunned term is enough",
            running: vec![("a", db()), ("c", web())],
            pod: pod("app=web", apart(&[term("app=db", "host"), term("app=web", "zone")])),
            want: "X.X.",
        },
        Case {
            name: "shunning oneself does not keep the first away",
            running: vec![],
            pod: pod("app=web", apart(&[term("app=web", "host")])),
            want: "....",
        },
        Case {
            name: "existing pods shun",
            running: vec![("a", pod("app=db", apart(&[term("app=web", "zone")])))],
            pod: web(),
            want: "EE..",
        },
        Case {
            name: "existing pods shun others",
            running: vec![("a", pod("app=db", apart(&[term("app=api", "zone")])))],
            pod: web(),
            want: "....",
        },
        Case {
            name: "existing pods' affinity asks nothing of the newcomer",
            running: vec![("a", pod("app=db", near(&[term("app=web", "zone")])))],
            pod: web(),
            want: "....",
        },
        Case {
            name: "both shun: its own word counts first",
            running: vec![("a", pod("app=db", apart(&[term("app=web", "zone")])))],
            pod: shuns_db("host"),
            want: "XE..",
        },
        Case {
            name: "affinity counts before anti-affinity",
            running: vec![("a", db())],
            pod: {
                let mut pod = wants_db("zone");
                pod["spec"]["affinity"]["podAntiAffinity"] =
                    apart(&[term("app=db", "host")])["affinity"]["podAntiAffinity"].clone();
                pod
            },
            want: "X.AA",
        },
        Case {
            name: "a terminating pod still counts",
            running: vec![("a", {
                let mut pod = db();
                pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                pod
            })],
            pod: shuns_db("host"),
            want: "X...",
        },
    ];
    check(cases);
}

#[test]
fn terms_reach_as_far_as_their_namespaces_and_keys() {
    let elsewhere = || in_namespace(pod("app=db", json!({})), "prod");
    let shuns = |term: Value| pod("app=web version=2", apart(&[term]));
    let by_team = |team: &str| json!({"matchLabels": {"team": team}});
    let cases = vec![
        Case {
            name: "own namespace only",
            running: vec![("a", elsewhere())],
            pod: shuns(term("app=db", "host")),
            want: "....",
        },
        Case {
            name: "a listed namespace",
            running: vec![("a", elsewhere())],
            pod: shuns(with(term("app=db", "host"), "namespaces", json!(["prod"]))),
            want: "X...",
        },
        Case {
            name: "listed namespaces replace the own one",
            running: vec![("a", pod("app=db", json!({})))],
            pod: shuns(with(term("app=db", "host"), "namespaces", json!(["prod"]))),
            want: "....",
        },
        Case {
            name: "namespaces by label",
            running: vec![("a", elsewhere())],
            pod: shuns(with(term("app=db", "host"), "namespaceSelector", by_team("blue"))),
            want: "X...",
        },
        Case {
            name: "namespaces by another label",
            running: vec![("a", elsewhere())],
            pod: shuns(with(term("app=db", "host"), "namespaceSelector", by_team("red"))),
            want: "....",
        },
        Case {
            name: "every namespace",
            running: vec![("a", elsewhere()), ("b", in_namespace(pod("app=db", json!({})), "new"))],
            pod: shuns(with(term("app=db", "host"), "namespaceSelector", json!({}))),
            want: "XX..",
        },
        Case {
            name: "listed or by label",
            running: vec![("a", elsewhere()), ("b", in_namespace(pod("app=db", json!({})), "new"))],
            pod: shuns(with(
                with(term("app=db", "host"), "namespaceSelector", by_team("blue")),
                "namespaces",
                json!(["new"]),
            )),
            want: "XX..",
        },
        Case {
            name: "existing pods shun across namespaces",
            running: vec![(
                "a",
                in_namespace(
                    pod(
                        "app=db",
                        apart(&[with(term("app=web", "host"), "namespaceSelector", json!({}))]),
                    ),
                    "prod",
                ),
            )],
            pod: web(),
            want: "E...",
        },
        Case {
            name: "existing pods shun in their own namespace",
            running: vec![(
                "a",
                in_namespace(pod("app=db", apart(&[term("app=web", "host")])), "prod"),
            )],
            pod: web(),
            want: "....",
        },
        Case {
            name: "an absent selector selects nobody",
            running: vec![("a", pod("app=db", json!({})))],
            pod: shuns(json!({"topologyKey": "host"})),
            want: "....",
        },
        Case {
            name: "an empty selector selects everybody",
            running: vec![("a", pod("app=db", json!({})))],
            pod: shuns(json!({"topologyKey": "host", "labelSelector": {}})),
            want: "X...",
        },
        Case {
            name: "expressions",
            running: vec![("a", pod("app=db", json!({}))), ("b", pod("app=api", json!({})))],
            pod: shuns(json!({"topologyKey": "host", "labelSelector": {"matchExpressions":
                [{"key": "app", "operator": "NotIn", "values": ["db"]}]}})),
            want: ".X..",
        },
        Case {
            name: "matchLabelKeys narrow to the own value",
            running: vec![
                ("a", pod("app=web version=1", json!({}))),
                ("b", pod("app=web version=2", json!({}))),
            ],
            pod: shuns(with(term("app=web", "host"), "matchLabelKeys", json!(["version"]))),
            want: ".X..",
        },
        Case {
            name: "matchLabelKeys the pod lacks mean nothing",
            running: vec![("a", pod("app=web", json!({})))],
            pod: shuns(with(term("app=web", "host"), "matchLabelKeys", json!(["color"]))),
            want: "X...",
        },
        Case {
            name: "mismatchLabelKeys leave the own value out",
            running: vec![
                ("a", pod("app=web version=1", json!({}))),
                ("b", pod("app=web version=2", json!({}))),
            ],
            pod: shuns(with(term("app=web", "host"), "mismatchLabelKeys", json!(["version"]))),
            want: "X...",
        },
    ];
    check(cases);
}

/// Each case is asked of a cluster that has the pods, and of one where they arrive after the
/// question was prepared.
fn check(cases: Vec<Case>) {
    for Case { name, running, pod, want } in cases {
        let mut rig = Rig::new(&NODES);
        let prod = rig.snapshot.names.intern("prod");
        let team = (rig.snapshot.names.intern("team"), rig.snapshot.names.intern("blue"));
        rig.snapshot.extras.workloads.set_namespace(prod, Some([team].into_iter().collect()));
        let plugin = plugin(&mut rig, &Value::Null);
        let class = rig.class(&pod);
        let mut early = rig.prepare(&*plugin, &class);
        let start = rig.snapshot.log().end();
        let epoch = rig.snapshot.epoch(Epoch::Company);
        let placed: Vec<_> = running.iter().map(|(node, pod)| rig.run(node, pod)).collect();
        let late = rig.prepare(&*plugin, &class);
        assert_eq!(letters(&rig, &late), want, "{name}");
        assert!(late.depends.contains(&Epoch::Company), "{name}");

        let is_current = rig.snapshot.epoch(Epoch::Company) == epoch;
        if is_current && follow_all(&rig, &mut early, start) {
            assert_eq!(letters(&rig, &early), want, "{name}, followed");
        }
        let mut late = late;
        let start = rig.snapshot.log().end();
        for pod in placed {
            rig.snapshot.detach(pod);
        }
        let empty = rig.prepare(&*plugin, &class);
        assert!(follow_all(&rig, &mut late, start), "{name}");
        assert_eq!(letters(&rig, &late), letters(&rig, &empty), "{name}, all gone");
    }
}

/// False when the work must be made again.
fn follow_all(rig: &Rig, prepared: &mut Prepared, start: u64) -> bool {
    let Some(work) = &mut prepared.work else { return true };
    let mut changes = rig.snapshot.log().since(start).unwrap();
    changes.all(|change| work.follow(&rig.snapshot, change) == Follow::Kept)
}

#[test]
fn preferred_terms_score() {
    struct Case {
        name: &'static str,
        args: Value,
        running: Vec<(&'static str, Value)>,
        pod: Value,
        want: Option<[i64; 4]>,
    }
    let db = || pod("app=db", json!({}));
    let likes_db =
        |weight| pod("app=web", prefers("podAffinity", &[(weight, term("app=db", "zone"))]));
    let shuns =
        |weight| pod("app=db", prefers("podAntiAffinity", &[(weight, term("app=web", "host"))]));
    let hard = |weight| json!({"hardPodAffinityWeight": weight});
    let none = Value::Null;
    let ignoring = json!({"ignorePreferredTermsOfExistingPods": true});
    let cases = vec![
        Case {
            name: "nobody says anything",
            args: none.clone(),
            running: vec![("a", db())],
            pod: web(),
            want: None,
        },
        Case {
            name: "nobody matches",
            args: none.clone(),
            running: vec![],
            pod: likes_db(5),
            want: Some([0, 0, 0, 0]),
        },
        Case {
            name: "liked company",
            args: none.clone(),
            running: vec![("a", db())],
            pod: likes_db(5),
            want: Some([100, 100, 0, 0]),
        },
        Case {
            name: "more of it",
            args: none.clone(),
            running: vec![("a", db()), ("b", db()), ("c", db())],
            pod: likes_db(5),
            want: Some([100, 100, 50, 0]),
        },
        Case {
            name: "disliked company",
            args: none.clone(),
            running: vec![("a", db())],
            pod: pod("app=web", prefers("podAntiAffinity", &[(5, term("app=db", "host"))])),
            want: Some([0, 100, 100, 100]),
        },
        Case {
            name: "existing pods like it",
            args: none.clone(),
            running: vec![(
                "c",
                pod("app=db", prefers("podAffinity", &[(9, term("app=web", "zone"))])),
            )],
            pod: web(),
            want: Some([0, 0, 100, 0]),
        },
        Case {
            name: "existing pods shun it",
            args: none.clone(),
            running: vec![("c", shuns(9))],
            pod: web(),
            want: Some([100, 100, 0, 100]),
        },
        Case {
            name: "required affinity of existing pods weighs one",
            args: none.clone(),
            running: vec![("c", pod("app=db", near(&[term("app=web", "zone")])))],
            pod: web(),
            want: Some([0, 0, 100, 0]),
        },
        Case {
            name: "unless it weighs nothing",
            args: hard(0),
            running: vec![("c", pod("app=db", near(&[term("app=web", "zone")])))],
            pod: web(),
            want: None,
        },
        Case {
            name: "hard weight against a wish",
            args: hard(10),
            running: vec![("c", pod("app=api", near(&[term("app=web", "zone")]))), ("a", db())],
            pod: likes_db(5),
            want: Some([50, 50, 100, 0]),
        },
        Case {
            name: "others ignored, no wishes of its own",
            args: ignoring.clone(),
            running: vec![("c", shuns(9))],
            pod: web(),
            want: None,
        },
        Case {
            name: "others ignored, but wishes of its own: they count after all",
            args: ignoring,
            running: vec![("c", shuns(5)), ("a", pod("app=cache", json!({})))],
            pod: pod("app=web", prefers("podAffinity", &[(5, term("app=cache", "host"))])),
            want: Some([100, 50, 0, 50]),
        },
        Case {
            name: "vector P9: -5, 0, 15",
            args: none,
            running: vec![
                ("a", shuns(5)),
                ("c", pod("app=db", prefers("podAffinity", &[(15, term("app=web", "host"))]))),
            ],
            pod: web(),
            want: Some([0, 25, 100, 25]),
        },
    ];
    for Case { name, args, running, pod, want } in cases {
        let mut rig = Rig::new(&NODES);
        let plugin = plugin(&mut rig, &args);
        for (node, pod) in &running {
            rig.run(node, pod);
        }
        let class = rig.class(&pod);
        let mut prepared = rig.prepare(&*plugin, &class);
        assert_eq!(
            rig.scores(&mut prepared).as_deref(),
            want.as_ref().map(|all| &all[..]),
            "{name}"
        );
    }
}

#[test]
fn args_outside_of_their_range_are_refused() {
    let mut rig = Rig::default();
    for (args, is_good) in [
        (json!({"hardPodAffinityWeight": 100}), true),
        (json!({"hardPodAffinityWeight": 101}), false),
        (json!({"hardPodAffinityWeight": -1}), false),
        (json!({"hardPodAffinity": 1}), false),
        (
            json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "InterPodAffinityArgs"}),
            true,
        ),
    ] {
        assert_eq!(build(&args, &mut rig.snapshot).is_ok(), is_good, "{args}");
    }
}

#[test]
fn another_label_makes_the_count_again() {
    let mut rig = Rig::new(&NODES);
    let plugin = plugin(&mut rig, &Value::Null);
    let class = rig.class(&pod("app=web", near(&[term("app=web", "zone")])));
    let mut prepared = rig.prepare(&*plugin, &class);
    let steps = [
        ("the same domain", "a host=a zone=1 color=blue", true),
        ("another domain", "a host=a zone=2", false),
        ("a domain nobody knew", "a host=a zone=9", false),
        ("no domain", "a host=a", false),
    ];
    for (name, node, is_kept) in steps {
        let start = rig.snapshot.log().end();
        let (node, text) = node.split_once(' ').unwrap();
        rig.node(&json!({"metadata": {"name": node, "labels": labels(text)}}));
        assert_eq!(follow_all(&rig, &mut prepared, start), is_kept, "{name}");
    }
}
