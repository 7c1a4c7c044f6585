//! Rows of pods, step by step.

use k8s_openapi::{
    api::apps::v1::{
        RollingUpdateStatefulSetStrategy, StatefulSetOrdinals, StatefulSetUpdateStrategy,
    },
    api::core::v1::{PersistentVolumeClaim, Volume},
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::ResourceExt;
use proptest::prelude::*;

use super::*;
use crate::{
    controllers::{
        amount::count,
        clock::stamp,
        fixture::{NOW, PodBuilder, ago, ahead, meta, pod, selector, template},
        revision,
    },
    well_known::POD_INDEX,
};

fn set(replicas: i32) -> StatefulSet {
    StatefulSet {
        metadata: meta("web"),
        spec: Some(StatefulSetSpec {
            replicas: Some(replicas),
            selector: selector(&[("app", "web")]),
            template: template("web", "v2"),
            service_name: Some("www".into()),
            update_strategy: Some(StatefulSetUpdateStrategy {
                type_: Some("RollingUpdate".into()),
                rolling_update: Some(RollingUpdateStatefulSetStrategy {
                    partition: Some(0),
                    max_unavailable: None,
                }),
            }),
            ..StatefulSetSpec::default()
        }),
        status: None,
    }
}

fn with(mut set: StatefulSet, change: impl FnOnce(&mut StatefulSetSpec)) -> StatefulSet {
    change(set.spec.get_or_insert_default());
    set
}

fn parallel(set: StatefulSet) -> StatefulSet {
    with(set, |spec| spec.pod_management_policy = Some("Parallel".into()))
}

fn partition(set: StatefulSet, partition: i32, unavailable: Option<i32>) -> StatefulSet {
    with(set, |spec| {
        spec.update_strategy.get_or_insert_default().rolling_update =
            Some(RollingUpdateStatefulSetStrategy {
                partition: Some(partition),
                max_unavailable: unavailable.map(IntOrString::Int),
            });
    })
}

fn revision(name: &str, image: &str) -> ControllerRevision {
    ControllerRevision {
        metadata: meta(name),
        data: Some(k8s_openapi::apimachinery::pkg::runtime::RawExtension(revision::data(
            &template("web", image),
        ))),
        revision: 1,
    }
}

fn old(ordinal: i32) -> PodBuilder {
    member(ordinal, "web-old").ready_since(ago(60))
}

fn new(ordinal: i32) -> PodBuilder {
    member(ordinal, "web-new").ready_since(ago(60))
}

fn member(ordinal: i32, revision: &str) -> PodBuilder {
    let name = format!("web-{ordinal}");
    pod(&name).label(STATEFUL_SET_POD_NAME, &name).label(CONTROLLER_REVISION_HASH, revision)
}

fn decide(set: &StatefulSet, pods: Vec<PodBuilder>, claims: &[(&str, bool)]) -> Plan {
    let pods: Vec<_> = pods.into_iter().map(|pod| Arc::new(pod.build())).collect();
    let claims = claims.iter().map(|(name, leaves)| ((*name).to_owned(), *leaves)).collect();
    let (current, update) = (revision("web-old", "v1"), revision("web-new", "v2"));
    let observed =
        Observed { set, pods: &pods, claims: &claims, current: &current, update: &update };
    plan(&observed, NOW)
}

/// `+1` creates number 1 new, `+1c` from the current revision, `-1` deletes it.
fn told(plan: &Plan) -> String {
    let words = plan.actions.iter().map(|action| match action {
        Action::Create { ordinal, version: Version::Update } => format!("+{ordinal}"),
        Action::Create { ordinal, version: Version::Current } => format!("+{ordinal}c"),
        Action::Delete { pod, why } => {
            let ordinal = identity::ordinal("web", pod).unwrap();
            format!("-{ordinal}{}", if *why == Why::Failed { "f" } else { "" })
        }
        Action::Claims { missing, .. } => missing.join(","),
        Action::Relabel(pod) => format!("label {}", pod.name_any()),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn an_ordered_row_takes_one_step_at_a_time() {
    let running = |ordinal| member(ordinal, "web-new").running();
    let cases = [
        ("the first", set(3), vec![], "+0"),
        ("the first is not ready", set(3), vec![running(0)], ""),
        ("the second", set(3), vec![new(0)], "+1"),
        ("a gap is filled first", set(3), vec![new(1), new(2)], "+0"),
        ("complete", set(3), vec![new(0), new(1), new(2)], ""),
        ("a failed one is made anew", set(2), vec![new(0).phase("Failed"), new(1)], "-0f"),
        ("a failed one that goes", set(2), vec![new(0).phase("Failed").terminating(), new(1)], ""),
        ("one that goes is waited for", set(2), vec![new(0).terminating()], ""),
        ("the last goes first", set(1), vec![new(0), new(1), new(2)], "-2"),
        ("and is waited for", set(1), vec![new(0), new(1), new(2).terminating()], ""),
        ("then the next", set(1), vec![new(0), new(1)], "-1"),
        ("a broken one below blocks", set(1), vec![running(0), new(1)], ""),
        ("a broken last one may go", set(1), vec![new(0), running(1)], "-1"),
        (
            "but not while one before it is broken too",
            set(1),
            vec![new(0), running(1), running(2)],
            "",
        ),
        ("to nothing", set(0), vec![new(0)], "-0"),
        (
            "no label of its place",
            set(1),
            vec![new(0).label(STATEFUL_SET_POD_NAME, "x")],
            "label web-0",
        ),
    ];
    for (name, set, pods, want) in cases {
        assert_eq!(told(&decide(&set, pods, &[])), want, "{name}");
    }
}

#[test]
fn a_parallel_row_waits_for_nobody() {
    let running = |ordinal| member(ordinal, "web-new").running();
    let cases = [
        ("all at once", parallel(set(3)), vec![], "+0 +1 +2"),
        ("the missing ones", parallel(set(3)), vec![running(1)], "+0 +2"),
        ("all surplus at once", parallel(set(1)), vec![running(0), new(1), running(2)], "-2 -1"),
    ];
    for (name, set, pods, want) in cases {
        assert_eq!(told(&decide(&set, pods, &[])), want, "{name}");
    }
}

#[test]
fn an_update_goes_down_to_the_partition() {
    let starting = |ordinal| member(ordinal, "web-new").running();
    let broken = |ordinal| member(ordinal, "web-old").running();
    let on_delete = with(set(3), |spec| {
        spec.update_strategy.get_or_insert_default().type_ = Some("OnDelete".into());
    });
    let cases = [
        ("the highest first", set(3), vec![old(0), old(1), old(2)], "-2"),
        ("it comes back new", set(3), vec![old(0), old(1)], "+2"),
        ("and is waited for", set(3), vec![old(0), old(1), starting(2)], ""),
        ("then the next", set(3), vec![old(0), old(1), new(2)], "-1"),
        ("not below the partition", partition(set(3), 2, None), vec![old(0), old(1), new(2)], ""),
        (
            "below it old ones come back old",
            partition(set(3), 2, None),
            vec![old(1), new(2)],
            "+0c",
        ),
        ("the user deletes", on_delete.clone(), vec![old(0), old(1), old(2)], ""),
        ("and then it is new", on_delete, vec![old(0), old(2)], "+1"),
        (
            "two may be unavailable",
            parallel(partition(set(4), 0, Some(2))),
            vec![old(0), old(1), old(2), old(3)],
            "-3 -2",
        ),
        (
            "one is already",
            parallel(partition(set(4), 0, Some(2))),
            vec![old(0), old(1), old(2), starting(3)],
            "-2",
        ),
        (
            "a broken old one is free",
            parallel(partition(set(3), 0, Some(1))),
            vec![broken(0), old(1), old(2)],
            "-0",
        ),
    ];
    for (name, set, pods, want) in cases {
        assert_eq!(told(&decide(&set, pods, &[])), want, "{name}");
    }
}

#[test]
fn numbers_may_start_anywhere() {
    let from_five =
        with(set(2), |spec| spec.ordinals = Some(StatefulSetOrdinals { start: Some(5) }));
    assert_eq!(told(&decide(&from_five, vec![], &[])), "+5");
    assert_eq!(told(&decide(&from_five, vec![new(5), new(6), new(0)], &[])), "-0");
    for (name, want) in [
        ("web-0", Some(0)),
        ("web-12", Some(12)),
        ("web-01", None),
        ("web--1", None),
        ("web-+1", None),
        ("web-x", None),
        ("web", None),
        ("other-1", None),
        ("web-99999999999", None),
    ] {
        assert_eq!(identity::ordinal("web", &pod(name).build()), want, "{name}");
    }
}

#[test]
fn claims_come_before_their_pod_and_are_waited_for() {
    let mut claim = PersistentVolumeClaim { metadata: meta("data"), ..Default::default() };
    claim.metadata.labels = None;
    let set = with(set(2), |spec| spec.volume_claim_templates = Some(vec![claim]));
    assert_eq!(told(&decide(&set, vec![], &[])), "data-web-0 +0");
    assert_eq!(told(&decide(&set, vec![], &[("data-web-0", false)])), "+0");
    let leaving = decide(&set, vec![], &[("data-web-0", true)]);
    assert_eq!((told(&leaving).as_str(), leaving.wait), ("", Wait::Claim(0)));
    let waiting = decide(&set, vec![member(0, "web-new")], &[]);
    assert_eq!(told(&waiting), "data-web-0", "a pending pod gets its claim back");
}

#[test]
fn a_member_knows_its_place() {
    let mut data = PersistentVolumeClaim { metadata: meta("data"), ..Default::default() };
    data.metadata.labels = None;
    let set = with(set(1), |spec| {
        spec.volume_claim_templates = Some(vec![data]);
        let volumes =
            ["data", "other"].map(|name| Volume { name: name.into(), ..Volume::default() });
        spec.template.spec.get_or_insert_default().volumes = Some(volumes.into());
    });
    let (current, mut update) = (revision("web-old", "v1"), revision("web-new", "v2"));
    let spec = set.spec.clone().unwrap();
    update.data =
        Some(k8s_openapi::apimachinery::pkg::runtime::RawExtension(revision::data(&spec.template)));
    let claims = HashMap::new();
    let observed =
        Observed { set: &set, pods: &[], claims: &claims, current: &current, update: &update };
    let view = View::new(&observed, NOW);
    let made = identity::pod(&view, 3, Version::Update);
    let labels = made.metadata.labels.clone().unwrap();
    assert_eq!(made.name_any(), "web-3");
    assert_eq!(labels[STATEFUL_SET_POD_NAME], "web-3");
    assert_eq!(labels[POD_INDEX], "3");
    assert_eq!(labels[CONTROLLER_REVISION_HASH], "web-new");
    let spec = made.spec.unwrap();
    assert_eq!((spec.hostname.as_deref(), spec.subdomain.as_deref()), (Some("web-3"), Some("www")));
    let volumes: Vec<_> = spec
        .volumes
        .unwrap()
        .into_iter()
        .map(|volume| (volume.name, volume.persistent_volume_claim.map(|claim| claim.claim_name)))
        .collect();
    let want = [("data".to_owned(), Some("data-web-3".to_owned())), ("other".to_owned(), None)];
    assert_eq!(volumes, want);
    let claim = identity::claim(&view, 3, "data-web-3").unwrap();
    assert_eq!(claim.labels()["app"], "web");
    assert_eq!(claim.metadata.owner_references, None, "data outlives the set");
    let image = |version| {
        let spec = identity::pod(&view, 0, version).spec.unwrap();
        spec.containers[0].image.clone().unwrap()
    };
    assert_eq!((image(Version::Current), image(Version::Update)), ("v1".into(), "v2".into()));
}

#[test]
fn the_status_counts_by_revision_and_ends_a_rollout() {
    let mut three = with(set(3), |spec| spec.min_ready_seconds = Some(10));
    three.metadata.generation = Some(3);
    let fresh = |ordinal| new(ordinal).with(|pod| pod.status = None).ready_since(ago(4));
    let half = decide(&three, vec![old(0), old(1).terminating(), fresh(2)], &[]);
    let want = StatefulSetStatus {
        replicas: 3,
        ready_replicas: Some(3),
        available_replicas: Some(2),
        current_replicas: Some(1),
        updated_replicas: Some(1),
        current_revision: Some("web-old".into()),
        update_revision: Some("web-new".into()),
        observed_generation: Some(3),
        collision_count: Some(0),
        conditions: None,
    };
    assert_eq!(half.status, want);
    assert_eq!(half.recheck, Some(ahead(6)));
    let done = decide(&three, vec![new(0), new(1), new(2)], &[]).status;
    assert_eq!(done.current_revision.as_deref(), Some("web-new"));
    assert_eq!((done.current_replicas, done.updated_replicas), (Some(3), Some(3)));
}

#[test]
fn a_leaving_set_only_reports() {
    let mut leaving = set(3);
    leaving.metadata.deletion_timestamp = Some(stamp(NOW));
    let plan = decide(&leaving, vec![new(0)], &[]);
    assert_eq!((told(&plan).as_str(), plan.status.replicas), ("", 1));
}

proptest! {
    /// An ordered row never has a number without all lower ones being available first, never
    /// deletes two at once, and ends as wanted.
    #[test]
    fn an_ordered_row_keeps_its_order_and_converges(
        from in 0..5i32,
        to in 0..5i32,
        ticks in prop::collection::vec(any::<bool>(), 0..30),
    ) {
        let set = set(to);
        let mut pods: BTreeMap<i32, PodBuilder> = (0..from).map(|n| (n, old(n))).collect();
        for ready in ticks.into_iter().chain([true; 40]) {
            let plan = decide(&set, pods.values().cloned().collect(), &[]);
            prop_assert!(plan.actions.len() <= 1, "{}", told(&plan));
            for action in plan.actions {
                match action {
                    Action::Create { ordinal, .. } => {
                        let below = (0..ordinal).all(|n| {
                            pods.get(&n).is_some_and(|pod| pod.clone().build().is_ready())
                        });
                        prop_assert!(below, "{ordinal} before a lower one");
                        pods.insert(ordinal, member(ordinal, "web-new").running());
                    }
                    Action::Delete { pod, .. } => {
                        pods.remove(&identity::ordinal("web", &pod).unwrap());
                    }
                    other => prop_assert!(false, "{other:?}"),
                }
            }
            if ready {
                for pod in pods.values_mut().filter(|pod| !(*pod).clone().build().is_ready()) {
                    *pod = pod.clone().ready_since(ago(1));
                }
            }
        }
        prop_assert_eq!(count(pods.len()), to);
        let all_new = pods.into_values().all(|pod| {
            pod.build().labels()[CONTROLLER_REVISION_HASH] == "web-new"
        });
        prop_assert!(all_new);
    }
}

/// A number in an object costs nothing by itself: neither memory nor time.
#[test]
fn a_set_of_two_billion_pods_is_planned_in_bursts() {
    for set in [parallel(set(i32::MAX)), set(i32::MAX)] {
        let plan = decide(&set, vec![new(0), old(1)], &[]);
        assert!(plan.actions.len() <= BURST, "{} steps", plan.actions.len());
        assert!(matches!(plan.wait, Wait::Pod(_)), "{:?}", plan.wait);
    }
    let shrunk = parallel(set(0));
    let plan = decide(&shrunk, (0..250).map(new).collect(), &[]);
    assert_eq!(plan.actions.len(), BURST);
    let outdated = decide(&parallel(partition(set(i32::MAX), i32::MAX, None)), vec![old(7)], &[]);
    assert!(outdated.actions.len() <= BURST);
}
