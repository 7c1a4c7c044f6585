//! Rollouts, step by step.

mod world;

use k8s_openapi::{
    api::apps::v1::{DeploymentStrategy, ReplicaSetCondition, ReplicaSetStatus},
    apimachinery::pkg::util::intstr::IntOrString,
};
use proptest::{prelude::*, strategy::Strategy};

use self::world::{World, deployment, find, int, percent};
use super::*;
use crate::{
    controllers::{
        clock::stamp,
        fixture::{NOW, labels, meta, reference, template},
    },
    well_known::{DESIRED_REPLICAS, MAX_REPLICAS, POD_TEMPLATE_HASH, REVISION, REVISION_HISTORY},
};

/// The sizes of new and old ReplicaSet after every step, when every new pod is ready at once.
#[test]
fn a_rolling_update_goes_step_by_step() {
    let cases = [
        (
            "one more, none less",
            deployment(3, int(1), int(0)),
            vec!["1/3", "1/2", "2/2", "2/1", "3/1", "3/0"],
        ),
        (
            "one less, none more",
            deployment(3, int(0), int(1)),
            vec!["0/2", "1/2", "1/1", "2/1", "2/0", "3/0"],
        ),
        (
            "the defaults, a quarter each, of four",
            deployment(4, percent(25), percent(25)),
            vec!["1/3", "2/3", "2/1", "4/1", "4/0"],
        ),
        (
            "percentages that come out as nothing still move",
            deployment(2, percent(0), percent(25)),
            vec!["0/1", "1/1", "1/0", "2/0"],
        ),
        ("everything at once", deployment(3, percent(100), percent(100)), vec!["3/0"]),
        ("all new beside all old", deployment(3, percent(100), int(0)), vec!["3/3", "3/0"]),
        ("a single replica with room", deployment(1, int(1), int(0)), vec!["1/1", "1/0"]),
        ("nothing is wanted", deployment(0, percent(25), percent(25)), vec!["0/0"]),
    ];
    for (name, deployment, want) in cases {
        let mut world = World::updated(deployment);
        let mut got = Vec::new();
        for _ in 0..20 {
            world.step();
            let sizes = world.sizes();
            if got.last() != Some(&sizes) {
                got.push(sizes);
            }
            world.run_pods();
            world.make_ready(i32::MAX);
            world.report();
        }
        assert_eq!(got, want, "{name}");
        assert_eq!(world.progressing(), ("True".into(), "NewReplicaSetAvailable".into()), "{name}");
    }
}

#[test]
fn limits_round_and_never_stand_still() {
    let cases = [
        ("percentages", 10, percent(25), percent(25), (3, 2)),
        ("numbers", 10, int(4), int(1), (4, 1)),
        ("both zero", 10, int(0), int(0), (0, 1)),
        ("both round to zero", 3, int(0), percent(25), (0, 1)),
        ("more than there are", 2, int(0), int(5), (0, 2)),
        ("nothing is wanted", 0, percent(50), percent(50), (0, 0)),
    ];
    for (name, replicas, surge, unavailable, want) in cases {
        let limits = Limits::of(&deployment(replicas, surge, unavailable).spec.unwrap());
        assert_eq!((limits.surge, limits.unavailable), want, "{name}");
    }
    let mut spec = deployment(3, int(1), int(1)).spec.unwrap();
    spec.strategy = None;
    let limits = Limits::of(&spec);
    assert_eq!((limits.surge, limits.unavailable), (1, 0), "a quarter each by default");
}

#[test]
fn the_first_rollout_labels_numbers_and_remembers() {
    let mut world = World::new(deployment(3, int(1), int(0)));
    let annotations = world.deployment.metadata.annotations.get_or_insert_default();
    annotations.extend(labels(&[
        ("team", "blue"),
        ("kubectl.kubernetes.io/last-applied-configuration", "{}"),
    ]));
    let plan = world.step();
    assert_eq!(plan.actions.len(), 1, "{:?}", plan.actions);
    assert_eq!(plan.revision.as_deref(), Some("1"));
    assert_eq!(world.plan().revision, None, "written once");
    let set = world.set("v1").unwrap();
    let hash = set.metadata.labels.as_ref().unwrap()[POD_TEMPLATE_HASH].clone();
    assert_eq!(set.metadata.name, Some(format!("web-{hash}")));
    assert_eq!(set.metadata.owner_references, Some(vec![reference(&world.deployment)]));
    let spec = set.spec.as_ref().unwrap();
    assert_eq!(spec.replicas, Some(3), "there is nothing to be careful about");
    assert_eq!(spec.selector.match_labels.as_ref().unwrap()[POD_TEMPLATE_HASH], hash);
    let made = spec.template.as_ref().unwrap().metadata.as_ref().unwrap();
    assert_eq!(made.labels, Some(labels(&[("app", "web"), (POD_TEMPLATE_HASH, &hash)])));
    let want = [("team", "blue"), (REVISION, "1"), (DESIRED_REPLICAS, "3"), (MAX_REPLICAS, "4")];
    assert_eq!(set.metadata.annotations, Some(labels(&want)));
    assert_eq!(world.progressing(), ("True".into(), "NewReplicaSetCreated".into()));
    assert_eq!(plan.status.unavailable_replicas, Some(3));
    assert_eq!(find(&plan.status, "Available").unwrap().status, "False");
}

#[test]
fn a_template_that_comes_back_is_found_and_renumbered() {
    let mut world = World::updated(deployment(2, int(1), int(0)));
    world.settle();
    assert_eq!(world.annotation("v2", REVISION).as_deref(), Some("2"));
    world.edit(|spec| spec.template = template("web", "v1"));
    world.settle();
    assert_eq!(world.sets.len(), 2, "nothing new was created");
    assert_eq!(world.sizes(), "0/2");
    assert_eq!(world.annotation("v1", REVISION).as_deref(), Some("3"));
    assert_eq!(world.annotation("v1", REVISION_HISTORY).as_deref(), Some("1"));
    let annotations = world.deployment.metadata.annotations.clone().unwrap();
    assert_eq!(annotations[REVISION], "3");
    world.edit(|spec| spec.template = template("web", "v2"));
    world.settle();
    world.edit(|spec| spec.template = template("web", "v1"));
    world.settle();
    assert_eq!(world.annotation("v1", REVISION_HISTORY).as_deref(), Some("1,3"));
}

#[test]
fn history_keeps_the_newest_and_never_one_with_pods() {
    let mut world = World::new(deployment(1, int(1), int(0)));
    world.edit(|spec| spec.revision_history_limit = Some(2));
    for image in ["v1", "v2", "v3", "v4", "v5"] {
        world.edit(|spec| spec.template = template("web", image));
        world.settle();
    }
    let kept: Vec<_> = ["v1", "v2", "v3", "v4", "v5"]
        .into_iter()
        .filter(|image| world.set(image).is_some())
        .collect();
    assert_eq!(kept, ["v3", "v4", "v5"]);

    // Its controller has not reported yet that the pods are gone.
    world.edit(|spec| spec.revision_history_limit = Some(0));
    for set in world.sets.values_mut() {
        set.metadata.generation = Some(9);
    }
    assert!(world.plan().actions.is_empty());
    world.report();
    assert_eq!(world.plan().actions.len(), 2);
}

#[test]
fn a_rollout_that_does_not_come_up_stops_and_is_reported_late() {
    let mut world = World::updated(deployment(3, int(1), int(0)));
    for _ in 0..5 {
        world.step();
        world.run_pods();
        world.report();
    }
    assert_eq!(world.sizes(), "1/3", "the old pods keep running");
    let plan = world.plan();
    let deadline = plan.recheck.expect("the deadline is watched");
    world.now = deadline;
    world.step();
    assert_eq!(world.progressing(), ("False".into(), "ProgressDeadlineExceeded".into()));
    assert_eq!(world.plan().recheck, None);

    // Late is better than never.
    world.make_ready(1);
    world.report();
    world.step();
    assert_eq!(world.progressing(), ("True".into(), "ReplicaSetUpdated".into()));
    world.settle();
    assert_eq!(world.progressing(), ("True".into(), "NewReplicaSetAvailable".into()));
}

#[test]
fn without_a_deadline_nothing_is_said_about_progress() {
    let mut world = World::updated(deployment(3, int(1), int(0)));
    world.edit(|spec| spec.progress_deadline_seconds = Some(i32::MAX));
    let plan = world.step();
    assert_eq!(find(&plan.status, "Progressing"), None);
    assert_eq!(plan.recheck, None);
}

#[test]
fn unhealthy_old_pods_go_first() {
    let mut world = World::new(deployment(4, int(1), int(1)));
    world.settle();
    let pods = world.pods.values_mut().next().unwrap();
    (pods.ready, pods.unready) = (2, 2);
    world.report();
    world.edit(|spec| spec.template = template("web", "v2"));
    world.step();
    // One more is allowed; of the old four, two serve and must stay, although three are wanted.
    assert_eq!(world.sizes(), "1/3");
    world.run_pods();
    assert_eq!(world.available(), 2, "nobody who served was taken");
}

#[test]
fn recreate_waits_for_the_last_old_pod() {
    let mut recreate = deployment(2, int(1), int(0));
    let strategy = DeploymentStrategy { type_: Some("Recreate".into()), rolling_update: None };
    recreate.spec.get_or_insert_default().strategy = Some(strategy);
    let mut world = World::updated(recreate);
    assert_eq!(world.step().why, Why::OldDown);
    assert_eq!(world.sizes(), "-/0");
    world.report();
    assert_eq!(world.step().why, Why::OldRunning, "two old pods are still there");
    assert_eq!(world.sizes(), "-/0");
    world.run_pods();
    world.report();
    world.step();
    assert_eq!(world.sizes(), "2/0");
    world.settle();
    assert_eq!(world.progressing(), ("True".into(), "NewReplicaSetAvailable".into()));
}

#[test]
fn a_paused_rollout_scales_but_does_not_roll() {
    let mut world = World::updated(deployment(3, int(1), int(0)));
    world.edit(|spec| spec.paused = Some(true));
    assert_eq!(world.step().why, Why::Paused);
    assert_eq!(world.sizes(), "-/3");
    assert_eq!(world.progressing(), ("Unknown".into(), "DeploymentPaused".into()));
    world.edit(|spec| spec.replicas = Some(5));
    world.step();
    assert_eq!(world.sizes(), "-/5");
    world.edit(|spec| spec.paused = Some(false));
    world.step();
    assert_eq!(world.progressing().1, "NewReplicaSetCreated");
    world.settle();
    assert_eq!(world.sizes(), "5/0");
}

/// The example of the Kubernetes documentation on proportional scaling, and its neighbours.
#[test]
fn scaling_keeps_the_proportions_of_a_rollout() {
    let cases = [
        ("up: three for the larger, two for the smaller", 15, "7/11"),
        ("down by five", 5, "3/5"),
        ("to nothing", 0, "0/0"),
    ];
    for (name, replicas, want) in cases {
        let mut world = World::updated(deployment(10, int(3), int(2)));
        for _ in 0..6 {
            world.step();
            world.run_pods();
            world.report();
        }
        assert_eq!(world.sizes(), "5/8", "{name}: the rollout is stuck half-way");
        world.edit(|spec| spec.replicas = Some(replicas));
        assert_eq!(world.step().why, Why::Scaled, "{name}");
        assert_eq!(world.sizes(), want, "{name}");
        let most = (replicas + 3).to_string();
        assert_eq!(world.annotation("v1", MAX_REPLICAS), Some(most), "{name}");
        assert!(!scale_is_due(&world), "{name}: and then it is done");
    }
}

#[test]
fn a_set_that_has_the_new_size_by_chance_does_not_hold_the_rollout_up() {
    let mut world = World::updated(deployment(5, int(0), int(1)));
    world.step();
    assert_eq!(world.sizes(), "0/4");
    world.edit(|spec| spec.replicas = Some(4));
    world.step();
    assert!(!scale_is_due(&world));
    world.settle();
    assert_eq!(world.sizes(), "4/0");
}

fn scale_is_due(world: &World) -> bool {
    let sets: Vec<_> = world.sets.values().cloned().map(Arc::new).collect();
    let observed = Observed { deployment: &world.deployment, sets: &sets, pods: &[] };
    scale::is_due(&Rollout::new(&observed, NOW))
}

#[test]
fn a_failing_replica_set_fails_its_deployment() {
    let mut world = World::updated(deployment(3, int(1), int(0)));
    world.step();
    let failure = ReplicaSetCondition {
        type_: "ReplicaFailure".into(),
        status: "True".into(),
        reason: Some("FailedCreate".into()),
        message: Some("quota".into()),
        last_transition_time: Some(stamp(NOW)),
    };
    let name = world.set("v2").unwrap().metadata.name.clone().unwrap();
    let status =
        ReplicaSetStatus { conditions: Some(vec![failure]), ..ReplicaSetStatus::default() };
    world.sets.get_mut(&name).unwrap().status = Some(status);
    let plan = world.step();
    let carried = find(&plan.status, "ReplicaFailure").unwrap();
    assert_eq!(carried.reason.as_deref(), Some("FailedCreate"));
    world.sets.get_mut(&name).unwrap().status = None;
    assert_eq!(find(&world.step().status, "ReplicaFailure"), None);
}

#[test]
fn a_refused_replica_set_is_told() {
    let world = World::new(deployment(1, int(1), int(0)));
    let observed = Observed { deployment: &world.deployment, sets: &[], pods: &[] };
    let condition = find(&refused(&observed, "web-x", "quota", NOW), "Progressing").unwrap();
    assert_eq!(condition.reason.as_deref(), Some("ReplicaSetCreateError"));
    assert_eq!(condition.status, "False");
}

#[test]
fn only_our_own_set_with_our_template_is_ours() {
    let mut world = World::new(deployment(1, int(1), int(0)));
    world.step();
    let ours = world.set("v1").unwrap().clone();
    assert!(sets::is_own(&world.deployment, &ours, &ours));
    let foreign = ReplicaSet { metadata: meta("web-x"), ..ours.clone() };
    assert!(!sets::is_own(&world.deployment, &foreign, &ours));
    let mut other = ours.clone();
    other.spec.get_or_insert_default().template = Some(template("web", "v9"));
    assert!(!sets::is_own(&world.deployment, &other, &ours), "a collision of hashes");
    world.deployment.status.get_or_insert_default().collision_count = Some(1);
    world.sets.clear();
    world.step();
    assert_ne!(world.set("v1").unwrap().metadata.name, ours.metadata.name);
}

#[test]
fn a_deployment_on_its_way_out_only_reports() {
    let mut world = World::updated(deployment(3, int(1), int(0)));
    world.deployment.metadata.deletion_timestamp = Some(stamp(NOW));
    let plan = world.step();
    assert_eq!((plan.why, plan.actions.len()), (Why::Leaving, 0));
    assert_eq!(plan.status.replicas, Some(3));
}

fn amount() -> impl Strategy<Value = IntOrString> {
    prop_oneof![(0..5i32).prop_map(int), (0..120i32).prop_map(percent)]
}

proptest! {
    /// However slowly pods come up and however late ReplicaSets report: there are never too many
    /// pods wanted, never too few available, and in the end all are new.
    #[test]
    fn a_rollout_keeps_its_limits_and_converges(
        replicas in 0..9i32,
        surge in amount(),
        unavailable in amount(),
        ticks in prop::collection::vec((0..4i32, any::<bool>(), any::<bool>()), 0..40),
    ) {
        let mut world = World::updated(deployment(replicas, surge, unavailable));
        let limits = Limits::of(world.spec());
        for (ready, runs, reports) in ticks {
            world.step();
            prop_assert!(world.wanted() <= limits.most(), "{} of {limits:?}", world.wanted());
            if runs {
                world.run_pods();
            }
            world.make_ready(ready);
            if reports {
                world.report();
            }
            prop_assert!(world.available() >= limits.fewest(), "{} of {limits:?}", world.available());
        }
        world.run_pods();
        world.report();
        world.settle();
        prop_assert_eq!(world.sizes(), format!("{replicas}/0"));
        prop_assert_eq!(world.plan().actions, vec![]);
    }

    /// Scaling at any moment of a rollout ends at the new size, and asking twice changes nothing.
    #[test]
    fn scaling_in_the_middle_converges(
        replicas in 1..9i32,
        next in 0..12i32,
        surge in amount(),
        unavailable in amount(),
        steps in 0..6usize,
    ) {
        let mut world = World::updated(deployment(replicas, surge, unavailable));
        for _ in 0..steps {
            world.step();
            world.run_pods();
            world.make_ready(1);
            world.report();
        }
        world.edit(|spec| spec.replicas = Some(next));
        world.step();
        let again = world.plan();
        let resized = again.actions.iter().any(|action| matches!(action, Action::Update { .. }));
        prop_assert!(!resized || again.why != Why::Scaled, "{again:?}");
        world.settle();
        prop_assert_eq!(world.sizes(), format!("{next}/0"));
    }
}
