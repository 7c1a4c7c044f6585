//! Daemons on nodes that come, go, and change their minds.

use k8s_openapi::{
    api::apps::v1::{DaemonSetSpec, DaemonSetUpdateStrategy, RollingUpdateDaemonSet},
    api::core::v1::Toleration,
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::ResourceExt;
use proptest::prelude::*;

use super::*;
use crate::{
    controllers::{
        claim::Owner,
        clock::stamp,
        fixture::{
            NOW, PodBuilder, ago, ahead, labels, meta, node, pod, selector, tainted, template,
        },
        placement::accepts,
    },
    well_known::{TAINT_DISK_PRESSURE, TAINT_NOT_READY},
};

fn daemon_set(strategy: Option<DaemonSetUpdateStrategy>) -> DaemonSet {
    DaemonSet {
        metadata: meta("agent"),
        spec: Some(DaemonSetSpec {
            selector: selector(&[("app", "agent")]),
            template: template("agent", "v1"),
            update_strategy: strategy,
            ..DaemonSetSpec::default()
        }),
        status: None,
    }
}

fn rolling(surge: i32, unavailable: i32) -> Option<DaemonSetUpdateStrategy> {
    Some(DaemonSetUpdateStrategy {
        type_: Some("RollingUpdate".into()),
        rolling_update: Some(RollingUpdateDaemonSet {
            max_surge: Some(IntOrString::Int(surge)),
            max_unavailable: Some(IntOrString::Int(unavailable)),
        }),
    })
}

fn on_delete() -> Option<DaemonSetUpdateStrategy> {
    Some(DaemonSetUpdateStrategy { type_: Some("OnDelete".into()), rolling_update: None })
}

fn nodes(count: usize) -> Vec<Arc<Node>> {
    (0..count).map(|n| Arc::new(node(&format!("n{n}")))).collect()
}

/// An available daemon pod of revision `hash` on a node.
fn daemon(name: &str, node: &str, hash: &str) -> PodBuilder {
    pod(name).on(node).label(CONTROLLER_REVISION_HASH, hash).ready_since(ago(60))
}

fn decide(set: &DaemonSet, nodes: &[Arc<Node>], pods: Vec<PodBuilder>) -> Plan {
    let pods: Vec<_> = pods.into_iter().map(|pod| Arc::new(pod.build())).collect();
    let held = HashMap::from([("held".to_owned(), ahead(30))]);
    let observed = Observed { set, nodes, pods: &pods, hash: "new", held: &held, is_current: true };
    plan(&observed, NOW)
}

fn deleted(plan: &Plan) -> Vec<(String, Why)> {
    plan.delete.iter().map(|(pod, why)| (pod.name_any(), *why)).collect()
}

fn named(list: &[(&str, Why)]) -> Vec<(String, Why)> {
    list.iter().map(|(name, why)| ((*name).to_owned(), *why)).collect()
}

#[test]
fn every_node_gets_exactly_one() {
    let here = || nodes(1);
    let held = || vec![Arc::new(node("held"))];
    let gone = pod("a").spec(|spec| {
        *spec = nodes::pod(
            &View::new(
                &Observed {
                    set: &daemon_set(None),
                    nodes: &[],
                    pods: &[],
                    hash: "new",
                    held: &HashMap::new(),
                    is_current: true,
                },
                NOW,
            ),
            &Owner::of(&daemon_set(None)),
            "gone",
        )
        .spec
        .unwrap();
    });
    type Row = (
        &'static str,
        Vec<Arc<Node>>,
        Vec<PodBuilder>,
        Vec<&'static str>,
        Vec<(&'static str, Why)>,
    );
    let cases: Vec<Row> = vec![
        ("none yet", nodes(2), vec![], vec!["n0", "n1"], vec![]),
        ("one is there", nodes(2), vec![daemon("a", "n0", "new")], vec!["n1"], vec![]),
        ("one is leaving", here(), vec![daemon("a", "n0", "new").terminating()], vec![], vec![]),
        (
            "a second one",
            here(),
            vec![daemon("b", "n0", "new").created(ago(5)), daemon("a", "n0", "new")],
            vec![],
            vec![("b", Why::Second)],
        ),
        (
            "a failed one",
            here(),
            vec![daemon("a", "n0", "new").phase("Failed")],
            vec![],
            vec![("a", Why::Failed)],
        ),
        (
            "a failed one that must wait",
            held(),
            vec![daemon("a", "held", "new").phase("Failed")],
            vec![],
            vec![],
        ),
        (
            "a finished one",
            here(),
            vec![daemon("a", "n0", "new").phase("Succeeded")],
            vec![],
            vec![("a", Why::Succeeded)],
        ),
        (
            "bound to a node that is gone: not ours",
            vec![],
            vec![daemon("a", "n9", "new")],
            vec![],
            vec![],
        ),
        ("waiting for a node that is gone", vec![], vec![gone], vec![], vec![("a", Why::NodeGone)]),
    ];
    for (name, nodes, pods, create, delete) in cases {
        let plan = decide(&daemon_set(None), &nodes, pods);
        assert_eq!(plan.create, create, "{name}");
        assert_eq!(deleted(&plan), named(&delete), "{name}");
    }
    let waiting =
        decide(&daemon_set(None), &held(), vec![daemon("a", "held", "new").phase("Failed")]);
    assert_eq!(waiting.recheck, Some(ahead(30)));
}

#[test]
fn taints_keep_new_pods_away_and_drive_old_ones_out() {
    let cases = [
        ("no taint", None, true, true),
        ("a taint that repels", Some(("gpu", "NoSchedule")), false, true),
        ("a taint that only discourages", Some(("gpu", "PreferNoSchedule")), true, true),
        ("a taint that evicts", Some(("gpu", "NoExecute")), false, false),
        (
            "daemons stay on nodes that are not ready",
            Some((TAINT_NOT_READY, "NoExecute")),
            true,
            true,
        ),
        ("and under pressure", Some((TAINT_DISK_PRESSURE, "NoSchedule")), true, true),
    ];
    for (name, taint, runs, keeps) in cases {
        let node = match taint {
            Some((key, effect)) => tainted(node("n0"), key, effect),
            None => node("n0"),
        };
        let node = [Arc::new(node)];
        let fresh = decide(&daemon_set(None), &node, vec![]);
        assert_eq!(!fresh.create.is_empty(), runs, "{name}");
        let there = decide(&daemon_set(None), &node, vec![daemon("a", "n0", "new")]);
        assert_eq!(there.delete.is_empty(), keeps, "{name}");
        assert_eq!(there.status.number_misscheduled, i32::from(!runs), "{name}");
    }
}

#[test]
fn selectors_choose_nodes() {
    let mut set = daemon_set(None);
    let spec = set.spec.as_mut().unwrap().template.spec.as_mut().unwrap();
    spec.node_selector = Some(labels(&[("disk", "ssd")]));
    let mut with = node("n1");
    with.metadata.labels = Some(labels(&[("disk", "ssd")]));
    let nodes = [Arc::new(node("n0")), Arc::new(with)];
    let plan = decide(&set, &nodes, vec![daemon("a", "n0", "new")]);
    assert_eq!(plan.create, ["n1"]);
    assert_eq!(deleted(&plan), named(&[("a", Why::Misplaced)]));
}

#[test]
fn a_daemon_is_pinned_labelled_and_hardened() {
    let mut set = daemon_set(None);
    let spec = set.spec.as_mut().unwrap().template.spec.as_mut().unwrap();
    let own = Toleration { key: Some("gpu".into()), ..Toleration::default() };
    spec.tolerations = Some(vec![own.clone()]);
    spec.host_network = Some(true);
    let held = HashMap::new();
    let observed =
        Observed { set: &set, nodes: &[], pods: &[], hash: "new", held: &held, is_current: true };
    let made = nodes::pod(&View::new(&observed, NOW), &Owner::of(&set), "n1");
    let labels = made.metadata.labels.clone().unwrap();
    assert_eq!(labels[CONTROLLER_REVISION_HASH], "new");
    assert_eq!(target(&made), Some("n1"));
    let spec = made.spec.unwrap();
    assert!(accepts(&spec, &node("n1")) && !accepts(&spec, &node("n2")));
    let tolerations = spec.tolerations.unwrap();
    assert_eq!(tolerations.len(), 8, "{tolerations:?}");
    assert_eq!(tolerations[0], own);
}

/// Two nodes and a bit: which pods an update touches next.
#[test]
fn an_update_keeps_within_its_limits() {
    type Row = (
        &'static str,
        Option<DaemonSetUpdateStrategy>,
        Vec<PodBuilder>,
        Vec<&'static str>,
        Vec<(&'static str, Why)>,
    );
    let old = |name: &str, node: &str| daemon(name, node, "old");
    let new = |name: &str, node: &str| daemon(name, node, "new");
    let broken = |name: &str, node: &str| {
        pod(name).on(node).label(CONTROLLER_REVISION_HASH, "old").running()
    };
    let starting = |name: &str, node: &str| {
        pod(name).on(node).label(CONTROLLER_REVISION_HASH, "new").running()
    };
    let cases: Vec<Row> = vec![
        (
            "one by one",
            rolling(0, 1),
            vec![old("a", "n0"), old("b", "n1"), old("c", "n2")],
            vec![],
            vec![("a", Why::Outdated)],
        ),
        (
            "two at a time",
            rolling(0, 2),
            vec![old("a", "n0"), old("b", "n1"), old("c", "n2")],
            vec![],
            vec![("a", Why::Outdated), ("b", Why::Outdated)],
        ),
        (
            "a new one that is starting counts",
            rolling(0, 1),
            vec![starting("a", "n0"), old("b", "n1"), old("c", "n2")],
            vec![],
            vec![],
        ),
        (
            "a broken old one costs nothing",
            rolling(0, 1),
            vec![starting("a", "n0"), broken("b", "n1"), old("c", "n2")],
            vec![],
            vec![("b", Why::Outdated)],
        ),
        (
            "a leaving one counts",
            rolling(0, 1),
            vec![old("a", "n0").terminating(), old("b", "n1"), old("c", "n2")],
            vec![],
            vec![],
        ),
        (
            "done",
            rolling(0, 1),
            vec![new("a", "n0"), new("b", "n1"), new("c", "n2")],
            vec![],
            vec![],
        ),
        (
            "on delete",
            on_delete(),
            vec![old("a", "n0"), old("b", "n1"), old("c", "n2")],
            vec![],
            vec![],
        ),
        (
            "surge: a new one beside the old",
            rolling(1, 0),
            vec![old("a", "n0"), old("b", "n1"), old("c", "n2")],
            vec!["n0"],
            vec![],
        ),
        (
            "surge: both stay while the new one starts",
            rolling(1, 0),
            vec![old("a", "n0"), starting("a2", "n0"), old("b", "n1"), old("c", "n2")],
            vec![],
            vec![],
        ),
        (
            "surge: the old one goes when the new one serves",
            rolling(1, 0),
            vec![old("a", "n0"), new("a2", "n0"), old("b", "n1"), old("c", "n2")],
            vec![],
            vec![("a", Why::Replaced)],
        ),
        (
            "surge: a broken old one goes at once",
            rolling(1, 0),
            vec![broken("a", "n0"), starting("a2", "n0"), old("b", "n1"), old("c", "n2")],
            vec![],
            vec![("a", Why::Replaced)],
        ),
        (
            "surge: a broken old one is replaced beyond the limit",
            rolling(1, 0),
            vec![old("a", "n0"), starting("a2", "n0"), broken("b", "n1"), old("c", "n2")],
            vec!["n1"],
            vec![],
        ),
    ];
    for (name, strategy, pods, create, delete) in cases {
        let plan = decide(&daemon_set(strategy), &nodes(3), pods);
        assert_eq!(plan.create, create, "{name}");
        assert_eq!(deleted(&plan), named(&delete), "{name}");
    }
}

#[test]
fn the_status_counts_nodes() {
    let mut set = daemon_set(rolling(0, 1));
    set.metadata.generation = Some(4);
    set.spec.as_mut().unwrap().min_ready_seconds = Some(10);
    let mut nodes = nodes(4);
    nodes.push(Arc::new(tainted(node("n4"), "gpu", "NoSchedule")));
    let pods = vec![
        daemon("a", "n0", "new"),
        daemon("b", "n1", "old"),
        daemon("c", "n2", "new").with(|pod| pod.status = None).ready_since(ago(4)),
        daemon("d", "n4", "old"),
    ];
    let plan = decide(&set, &nodes, pods);
    let want = DaemonSetStatus {
        desired_number_scheduled: 4,
        current_number_scheduled: 3,
        number_ready: 3,
        number_available: Some(2),
        number_unavailable: Some(2),
        number_misscheduled: 1,
        updated_number_scheduled: Some(2),
        observed_generation: Some(4),
        ..DaemonSetStatus::default()
    };
    assert_eq!(plan.status, want);
    assert_eq!(plan.recheck, Some(ahead(6)));
}

#[test]
fn neither_a_stale_cache_nor_a_leaving_set_changes_anything() {
    let mut set = daemon_set(None);
    let held = HashMap::new();
    let nodes = nodes(2);
    let stale = Observed {
        set: &set,
        nodes: &nodes,
        pods: &[],
        hash: "new",
        held: &held,
        is_current: false,
    };
    assert!(plan(&stale, NOW).create.is_empty());
    set.metadata.deletion_timestamp = Some(stamp(NOW));
    assert!(decide(&set, &nodes, vec![]).create.is_empty());
}

proptest! {
    /// Whatever becomes ready in whichever order: an update never leaves more nodes without an
    /// available pod than allowed, never puts more than two pods on a node, and ends.
    #[test]
    fn an_update_keeps_its_limits_and_ends(
        size in 1..6usize,
        surge in 0..3i32,
        unavailable in 0..3i32,
        ticks in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let set = daemon_set(rolling(surge, unavailable));
        let nodes = nodes(size);
        let mut pods: Vec<Pod> =
            (0..size).map(|n| daemon(&format!("old{n}"), &format!("n{n}"), "old").build()).collect();
        let limit = match Limits::of(&set, count(size)) {
            Limits::Unavailable(limit) => limit,
            Limits::Surge(_) => 0,
            Limits::OnDelete => unreachable!("the strategy rolls"),
        };
        for tick in ticks.into_iter().chain([u8::MAX; 40]) {
            let observed: Vec<_> = pods.iter().cloned().map(Arc::new).collect();
            let held = HashMap::new();
            let observed = Observed {
                set: &set, nodes: &nodes, pods: &observed, hash: "new", held: &held, is_current: true,
            };
            let plan = plan(&observed, NOW);
            for (pod, _) in &plan.delete {
                pods.retain(|other| other.name_any() != pod.name_any());
            }
            for node in &plan.create {
                let name = format!("new-{node}-{}", pods.len());
                pods.push(pod(&name).on(node).label(CONTROLLER_REVISION_HASH, "new").running().build());
            }
            for node in &nodes {
                let here = || pods.iter().filter(|pod| pod.node() == node.metadata.name.as_deref());
                prop_assert!(here().count() <= 2);
            }
            let served = nodes.iter().filter(|node| {
                pods.iter().any(|pod| pod.node() == node.metadata.name.as_deref() && pod.is_ready())
            }).count();
            prop_assert!(count(size - served) <= limit, "{} nodes without a pod", size - served);
            for (n, pod) in pods.iter_mut().enumerate() {
                if !pod.is_ready() && (tick >> (n % 8)) & 1 == 1 {
                    *pod = PodBuilder::from(pod.clone()).ready_since(ago(1)).build();
                }
            }
        }
        prop_assert_eq!(pods.len(), size);
        prop_assert!(pods.iter().all(|pod| pod.labels()[CONTROLLER_REVISION_HASH] == "new"));
    }
}
