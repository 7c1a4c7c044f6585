//! Counts that follow every pod equal a count from end to end.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// A step of a random life of a cluster: a pod of some kind comes to or leaves a node.
type Step = (bool, usize, usize);

fn kinds() -> Vec<Value> {
    let like = |kind, weight, selects, key| prefers(kind, &[(weight, term(selects, key))]);
    vec![
        pod("app=web", json!({})),
        pod("app=db", json!({})),
        pod("app=web tier=1", near(&[term("app=web", "zone")])),
        pod("app=db", near(&[term("app=web", "host"), term("tier=1", "zone")])),
        pod("app=web", apart(&[term("app=db", "zone")])),
        pod("app=db tier=1", apart(&[term("app=web", "host"), term("tier=1", "rack")])),
        pod("app=web", like("podAffinity", 7, "app=db", "zone")),
        pod("app=db", like("podAntiAffinity", 3, "app=web", "host")),
    ]
}

/// What the rules say, counted from end to end over pods and nodes.
fn brute(rig: &Rig, class: &Class, running: &[(NodeIx, Arc<Class>)]) -> (String, Vec<i64>) {
    let snapshot = &rig.snapshot;
    let own = &class.pod_affinity;
    let value = |at: NodeIx, key| snapshot.node(at).and_then(|node| node.labels.get(key));
    let shares = |at, other, key| value(at, key).is_some() && value(at, key) == value(other, key);
    let all = |pod: &Class| own.required.iter().all(|term| admits(term, pod, snapshot));
    let placed = |key| running.iter().filter(move |(at, _)| value(*at, key).is_some());
    let nobody =
        own.required.iter().all(|term| !placed(term.topology_key).any(|(_, pod)| all(pod)));
    let judge = |at: NodeIx| {
        let has_keys = own.required.iter().all(|term| value(at, term.topology_key).is_some());
        let has_all = own.required.iter().all(|term| {
            running.iter().any(|(other, pod)| all(pod) && shares(at, *other, term.topology_key))
        });
        let shuns = |terms: &[PodTerm], at, other, pod: &Class| {
            terms
                .iter()
                .any(|term| admits(term, pod, snapshot) && shares(at, other, term.topology_key))
        };
        if !has_keys || !(has_all || (nobody && all(class))) {
            'A'
        } else if running.iter().any(|(other, pod)| shuns(&own.anti_required, at, *other, pod)) {
            'X'
        } else if running
            .iter()
            .any(|(other, pod)| shuns(&pod.pod_affinity.anti_required, at, *other, class))
        {
            'E'
        } else {
            '.'
        }
    };
    let worth = |at: NodeIx| {
        let mut sum = 0;
        for (other, pod) in running {
            let theirs = &pod.pod_affinity;
            let mut add = |term: &PodTerm, of: &Class, weight: i64| {
                if admits(term, of, snapshot) && shares(at, *other, term.topology_key) {
                    sum += weight;
                }
            };
            own.preferred.iter().for_each(|one| add(&one.term, pod, one.weight));
            own.anti_preferred.iter().for_each(|one| add(&one.term, pod, -one.weight));
            theirs.preferred.iter().for_each(|one| add(&one.term, class, one.weight));
            theirs.anti_preferred.iter().for_each(|one| add(&one.term, class, -one.weight));
            theirs.required.iter().for_each(|term| add(term, class, 1));
        }
        sum
    };
    let nodes: Vec<NodeIx> = snapshot.nodes().map(|(at, _)| at).collect();
    let verdicts: String = nodes.iter().map(|at| judge(*at)).collect();
    let feasible = nodes.iter().zip(verdicts.chars()).filter(|(_, one)| *one == '.');
    let raw: Vec<i64> = feasible.map(|(at, _)| worth(*at)).collect();
    let (min, max) = (raw.iter().min().copied(), raw.iter().max().copied());
    let (min, max) = (min.unwrap_or(0), max.unwrap_or(0));
    #[expect(clippy::cast_possible_truncation, reason = "between 0 and 100")]
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let normal = |one: &i64| match max - min {
        0 => 0,
        span => (100.0 * ((one - min) as f64 / span as f64)) as i64,
    };
    (verdicts, raw.iter().map(normal).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Prepared once and followed, prepared again, counted from end to end: all the same.
    #[test]
    fn counts_equal_a_recount(
        steps in proptest::collection::vec((any::<bool>(), 0..8usize, 0..6usize), 1..40),
        asked in 0..8usize,
    ) {
        let nodes = ["a host=a zone=1", "b host=b zone=1 rack=r", "c host=c zone=2 rack=r",
            "d host=d zone=2", "e host=e", "f zone=3"];
        let mut rig = Rig::new(&nodes);
        let plugin = plugin(&mut rig, &Value::Null);
        let kinds = kinds();
        let class = rig.class(&kinds[asked]);
        let mut kept = rig.prepare(&*plugin, &class);
        let (mut cursor, mut epoch) = (rig.snapshot.log().end(), rig.snapshot.epoch(Epoch::Company));
        let mut running = Vec::new();
        for (comes, kind, node) in steps as Vec<Step> {
            if comes || running.is_empty() {
                running.push(rig.run(&nodes[node][..1], &kinds[kind]));
            } else {
                rig.snapshot.detach(running.swap_remove(kind % running.len()));
            }
            let is_current = rig.snapshot.epoch(Epoch::Company) == epoch;
            if !is_current || !follow_all(&rig, &mut kept, cursor) {
                kept = rig.prepare(&*plugin, &class);
            }
            (cursor, epoch) = (rig.snapshot.log().end(), rig.snapshot.epoch(Epoch::Company));
            let placed: Vec<_> = running.iter().filter_map(|pod| {
                let pod = rig.snapshot.pods.get(*pod)?;
                Some((pod.node?, Arc::clone(&pod.class)))
            }).collect();
            let (verdicts, scores) = brute(&rig, &class, &placed);
            prop_assert_eq!(letters(&rig, &kept), verdicts);
            let found = rig.scores(&mut kept).unwrap_or_else(|| vec![0; scores.len()]);
            prop_assert_eq!(found, scores);
        }
    }
}
