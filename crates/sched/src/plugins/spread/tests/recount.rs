//! Counts that follow every pod equal a count from end to end.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::model::Class;

/// What the rules say, counted from end to end.
#[expect(clippy::cast_possible_wrap, clippy::cast_possible_truncation, reason = "small numbers")]
fn brute(rig: &Rig, class: &Class, running: &[(NodeIx, Arc<Class>, bool)]) -> (String, Vec<i64>) {
    let snapshot = &rig.snapshot;
    let names = &snapshot.names;
    let hostname = names.find(HOSTNAME);
    let nodes: Vec<NodeIx> = snapshot.nodes().map(|(at, _)| at).collect();
    let value = |at: NodeIx, key| snapshot.node(at).and_then(|node| node.labels.get(key));
    let hard: Vec<_> =
        class.spread.iter().filter(|one| one.when == Unsatisfiable::DoNotSchedule).collect();
    let soft: Vec<_> =
        class.spread.iter().filter(|one| one.when == Unsatisfiable::ScheduleAnyway).collect();
    let has_all = |at: NodeIx, all: &[&SpreadConstraint]| {
        all.iter().all(|one| value(at, one.topology_key).is_some())
    };
    let on = |at: NodeIx, one: &SpreadConstraint| {
        let counted = running.iter().filter(|(node, pod, is_terminating)| {
            *node == at
                && !is_terminating
                && pod.namespace == class.namespace
                && !one.selector.is_empty()
                && one.selector.matches(&pod.labels, names)
        });
        counted.count()
    };
    let within = |all: &[&SpreadConstraint], one: &SpreadConstraint, domain| {
        let members = nodes.iter().filter(|at| has_all(**at, all));
        let members = members.filter(|at| value(**at, one.topology_key) == domain);
        members.map(|at| on(*at, one)).sum::<usize>()
    };
    let judge = |at: NodeIx| {
        for one in &hard {
            let Some(domain) = value(at, one.topology_key) else { return 'M' };
            let mut domains: Vec<_> = nodes
                .iter()
                .filter(|at| has_all(**at, &hard))
                .filter_map(|at| value(*at, one.topology_key))
                .collect();
            domains.sort_unstable();
            domains.dedup();
            let least = domains.iter().map(|domain| within(&hard, one, Some(*domain))).min();
            let is_enough = domains.len() as i64 >= one.min_domains;
            let least = least.filter(|_| is_enough).unwrap_or(0) as i64;
            let own = i64::from(one.selector.matches(&class.labels, names));
            if within(&hard, one, Some(domain)) as i64 + own - least > one.max_skew {
                return 'S';
            }
        }
        '.'
    };
    let verdicts: String = nodes.iter().map(|at| judge(*at)).collect();
    let feasible: Vec<NodeIx> = nodes
        .iter()
        .zip(verdicts.chars())
        .filter(|(_, one)| *one == '.')
        .map(|(at, _)| *at)
        .collect();
    let scored: Vec<NodeIx> = feasible.iter().copied().filter(|at| has_all(*at, &soft)).collect();
    let raw = |at: NodeIx| {
        let parts = soft.iter().map(|one| {
            let is_host = Some(one.topology_key) == hostname;
            let mut domains: Vec<_> =
                scored.iter().map(|at| value(*at, one.topology_key)).collect();
            domains.sort_unstable();
            domains.dedup();
            let size = if is_host { scored.len() } else { domains.len() };
            let count = match is_host {
                true => on(at, one),
                false => within(&soft, one, value(at, one.topology_key)),
            };
            count as f64 * (size as f64 + 2.0).ln() + (one.max_skew - 1) as f64
        });
        parts.sum::<f64>().round() as i64
    };
    let raws: Vec<i64> = scored.iter().map(|at| raw(*at)).collect();
    let (min, max) = (raws.iter().min().copied(), raws.iter().max().copied());
    let score = |at: &NodeIx| match (scored.contains(at), min, max) {
        (true, Some(_), Some(0)) => 100,
        (true, Some(min), Some(max)) => 100 * (max + min - raw(*at)) / max,
        _ => 0,
    };
    (verdicts, feasible.iter().map(score).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Prepared once and followed, prepared again, counted from end to end: all the same.
    #[test]
    fn counts_equal_a_recount(
        steps in proptest::collection::vec((any::<bool>(), 0..4usize, 0..4usize), 1..40),
        skews in (1..3i64, 1..4i64, 1..3i64),
        min_domains in 1..4i64,
        is_soft in any::<bool>(),
    ) {
        let mut rig = Rig::new(&NODES);
        let plugin = build(&Value::Null, &mut rig.snapshot).unwrap();
        let kinds = [web(), pod("app=api", json!({})), terminating(), pod("app=web v=2", json!({}))];
        let zone = with(constraint("zone", skews.0), "minDomains", json!(min_domains));
        let host = constraint("kubernetes.io/hostname", skews.1);
        let mut constraints = vec![soft("kubernetes.io/hostname", skews.1), soft("zone", skews.2)];
        if !is_soft {
            constraints.extend([zone, host]);
        }
        let class = rig.class(&spread(&constraints));
        let mut kept = rig.prepare(&*plugin, &class);
        let mut cursor = rig.snapshot.log().end();
        let mut running = Vec::new();
        for (comes, kind, node) in steps {
            if comes || running.is_empty() {
                running.push(rig.run(&NODES[node][..1], &kinds[kind]));
            } else {
                rig.snapshot.detach(running.swap_remove(kind % running.len()));
            }
            prop_assert!(follow_all(&rig, &mut kept, cursor));
            cursor = rig.snapshot.log().end();
            let placed: Vec<_> = running.iter().filter_map(|pod| {
                let pod = rig.snapshot.pods.get(*pod)?;
                Some((pod.node?, Arc::clone(&pod.class), pod.is_terminating))
            }).collect();
            let (verdicts, scores) = brute(&rig, &class, &placed);
            prop_assert_eq!(letters(&rig, &kept), verdicts);
            prop_assert_eq!(rig.scores(&mut kept), Some(scores));
        }
    }
}
