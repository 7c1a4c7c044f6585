use super::*;

#[test]
fn conditions_of_others_stay_and_times_move_only_with_the_status() {
    let mut play = Play::running(json!({
        "containers": [{"name": "web"}],
        "readinessGates": [{"conditionType": "example.com/gate"}],
    }));
    play.settle();
    let ready = play.condition("Ready").clone();
    assert_eq!(ready.reason.as_deref(), Some("ReadinessGatesNotReady"));
    let want = "corresponding condition of pod readiness gate \"example.com/gate\" does not exist.";
    assert_eq!(ready.message.as_deref(), Some(want));
    assert_eq!(play.condition("ContainersReady").status, "True");
    let since = ready.last_transition_time;

    play.pass(5);
    let gate = |status: &str| v1::PodCondition {
        type_: "example.com/gate".into(),
        status: status.into(),
        ..v1::PodCondition::default()
    };
    let status = play.pod.status.as_mut().unwrap();
    status.conditions.as_mut().unwrap().push(gate("False"));
    play.settle();
    assert_eq!(play.condition("Ready").last_transition_time, since, "still not ready");
    assert!(play.condition("Ready").message.as_deref().unwrap().ends_with("but False"));

    let status = play.pod.status.as_mut().unwrap();
    *status.conditions.as_mut().unwrap().last_mut().unwrap() = gate("True");
    play.settle();
    assert_eq!(play.condition("Ready").status, "True");
    assert_ne!(play.condition("Ready").last_transition_time, since);
    assert_eq!(play.condition("example.com/gate"), &gate("True"));
}

#[test]
fn a_clobbered_status_is_written_again() {
    let mut play = Play::running(one("Always"));
    play.settle();
    let mut conditions = play.pod.status.clone().unwrap().conditions.unwrap();
    for condition in &mut conditions {
        condition.status = "False".into();
    }
    play.pod.status.as_mut().unwrap().conditions = Some(conditions);
    let decision = plan(&play.pod, &play.seen, host(), play.now);
    assert_eq!(decision.actions, [Action::WriteStatus]);
}

#[test]
fn addresses_class_and_start_are_there_from_the_beginning() {
    let mut play = Play::new(one("Always"));
    play.pod.metadata.generation = Some(4);
    play.settle();
    let status = &play.status;
    assert_eq!(status.pod_ip.as_deref(), Some("127.0.0.1"));
    assert_eq!(status.host_ip.as_deref(), Some("127.0.0.1"));
    assert_eq!(status.qos_class.as_deref(), Some("BestEffort"));
    assert_eq!(status.start_time.as_ref().map(|at| at.0), Some(time(0)));
    assert_eq!(status.observed_generation, Some(4));
    assert!(status.conditions.iter().flatten().all(|own| own.observed_generation == Some(4)));
}

#[test]
fn a_container_killed_for_memory_says_so() {
    let mut play = Play::running(one("Never"));
    play.ended("web", 137);
    if let State::Ended(ended) = &mut play.seen.containers.get_mut("web").unwrap().state {
        ended.reason = "OOMKilled".into();
    }
    play.settle();
    assert_eq!(play.shown(), "web: OOMKilled");
}

#[test]
fn a_pod_without_a_spec_is_left_as_it_is() {
    let decision = plan(&Pod::default(), &Observed::new(time(0)), host(), time(0));
    assert_eq!(decision.actions, []);
}

#[test]
fn a_status_kept_in_other_words_is_not_written_for_ever() {
    let mut play = Play::running(one("Always"));
    play.settle();
    let ours = play.pod.status.clone().unwrap();
    // A server that leaves empty fields out.
    let theirs = play.pod.status.as_mut().unwrap();
    theirs.container_statuses.as_mut().unwrap()[0].last_state = None;
    play.pod.metadata.resource_version = Some("7".into());
    let actions = |play: &Play| plan(&play.pod, &play.seen, host(), play.now).actions;
    assert_eq!(actions(&play), [Action::WriteStatus]);
    play.seen.acknowledged = Some((Some("7".into()), ours));
    assert_eq!(actions(&play), []);
    play.pod.metadata.resource_version = Some("8".into());
    assert_eq!(actions(&play), [Action::WriteStatus], "somebody has changed the object");
}
