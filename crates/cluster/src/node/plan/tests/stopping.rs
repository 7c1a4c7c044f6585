use super::*;

fn with_hook() -> Value {
    json!({
        "containers": [{"name": "web", "lifecycle": {"preStop": {"exec": {"command": ["x"]}}}}],
    })
}

fn hook_done(play: &mut Play) {
    play.seen.run_mut("web").unwrap().stop.as_mut().unwrap().pre_stop = Hook::Done;
}

#[test]
fn a_deleted_pod_is_asked_then_killed_then_removed() {
    let mut play = Play::running(one("Always"));
    play.delete(5);
    assert_eq!(play.settle(), ["stop web 5s", "term web"]);
    assert_eq!(play.shown(), "web: running ready");
    assert_eq!(play.wait(), 5);
    assert_eq!(play.settle(), ["kill web"]);
    play.ended("web", 137);
    assert_eq!(play.settle(), ["tear down"]);
    assert_eq!((play.phase(), play.shown().as_str()), ("Failed", "web: Error"));
    assert!(!play.is_gone);
    play.torn_down();
    assert_eq!(play.settle(), ["delete"]);
    assert!(play.is_gone);
}

#[test]
fn the_object_is_removed_only_when_the_last_status_is_written() {
    let mut play = Play::running(one("Always"));
    play.delete(5);
    play.settle();
    play.ended("web", 0);
    play.seen.setup = Setup::Gone;
    let decision = plan(&play.pod, &play.seen, host(), play.now);
    assert_eq!(decision.actions, [Action::WriteStatus]);
    play.pod.status = Some(decision.status);
    let decision = plan(&play.pod, &play.seen, host(), play.now);
    assert_eq!(decision.actions, [Action::Delete]);
    assert_eq!(decision.status.phase.as_deref(), Some("Succeeded"));
}

#[test]
fn the_hook_comes_before_the_signal_and_uses_up_the_grace_period() {
    let mut play = Play::running(with_hook());
    play.delete(10);
    assert_eq!(play.settle(), ["stop web 10s", "preStop web"]);
    play.pass(4);
    hook_done(&mut play);
    assert_eq!(play.settle(), ["term web"]);
    assert_eq!(play.wait(), 6);
    assert_eq!(play.settle(), ["kill web"]);

    let mut play = Play::running(with_hook());
    play.delete(10);
    play.settle();
    play.pass(9);
    hook_done(&mut play);
    assert_eq!(play.settle(), ["term web"]);
    assert_eq!(play.wait(), 2, "two seconds are left in any case");

    let mut play = Play::running(with_hook());
    play.delete(10);
    play.settle();
    assert_eq!(play.wait(), 10);
    assert_eq!(play.settle(), ["term web"], "a hook that hangs is not waited for");
    assert_eq!(play.wait(), 2);
    assert_eq!(play.settle(), ["kill web"]);
}

#[test]
fn a_second_delete_may_only_hurry_things() {
    let mut play = Play::running(one("Always"));
    play.delete(60);
    assert_eq!(play.settle(), ["stop web 60s", "term web"]);
    play.pass(1);
    play.delete(120);
    assert_eq!(play.settle(), Vec::<String>::new());
    play.delete(3);
    assert_eq!(play.settle(), ["stop web 3s"]);
    assert_eq!(play.wait(), 3);
    assert_eq!(play.settle(), ["kill web"]);
    assert_eq!(play.wait(), 10);
    assert_eq!(play.settle(), ["kill web"], "what does not die is killed again");
}

#[test]
fn a_pod_deleted_while_it_starts_is_stopped_when_it_runs() {
    let mut play = Play::new(one("Always"));
    play.settle();
    play.delete(5);
    assert_eq!(play.settle(), Vec::<String>::new(), "the preparation is still under way");
    play.prepared();
    assert_eq!(play.settle(), ["tear down"]);
    assert_eq!(play.phase(), "Failed");

    let mut play = Play::new(one("Always"));
    play.settle();
    play.prepared();
    play.settle();
    play.delete(5);
    assert_eq!(play.settle(), Vec::<String>::new(), "the start is still under way");
    play.started("web");
    assert_eq!(play.settle(), ["stop web 5s", "term web"]);
}

#[test]
fn a_deleted_pod_with_sidecars_ends_them_last_first() {
    let mut play = Play::running(json!({
        "initContainers": [
            {"name": "s1", "restartPolicy": "Always"},
            {"name": "s2", "restartPolicy": "Always"},
        ],
        "containers": [{"name": "a"}, {"name": "b"}],
    }));
    play.delete(10);
    assert_eq!(play.settle(), ["stop a 10s", "stop b 10s", "term a", "term b"]);
    play.pass(3);
    play.ended("a", 0);
    assert_eq!(play.settle(), Vec::<String>::new());
    play.ended("b", 0);
    assert_eq!(play.settle(), ["stop s2 7s", "term s2"]);
    play.pass(9);
    play.ended("s2", 0);
    assert_eq!(play.settle(), ["stop s1 0s", "term s1"]);
    assert_eq!(play.wait(), 2);
    assert_eq!(play.settle(), ["kill s1"]);
}

#[test]
fn nothing_restarts_in_a_pod_that_ends() {
    let mut play = Play::running(json!({"containers": [{"name": "a"}, {"name": "b"}]}));
    play.delete(10);
    play.settle();
    play.ended("a", 1);
    assert_eq!(play.settle(), Vec::<String>::new());
    assert_eq!(play.shown(), "a: Error, b: running ready");
}

#[test]
fn a_deadline_ends_the_pod() {
    let mut spec = one("Never");
    spec["activeDeadlineSeconds"] = json!(20);
    spec["terminationGracePeriodSeconds"] = json!(3);
    let mut play = Play::running(spec);
    assert_eq!(play.settle(), Vec::<String>::new());
    assert_eq!(play.wait(), 19);
    assert_eq!(play.settle(), ["stop web 3s", "term web"]);
    assert_eq!(play.phase(), "Running");
    play.ended("web", 0);
    assert_eq!(play.settle(), ["tear down"]);
    assert_eq!(play.phase(), "Failed");
    assert_eq!(play.status.reason.as_deref(), Some("DeadlineExceeded"));
    play.torn_down();
    assert_eq!(play.settle(), Vec::<String>::new());
    assert_eq!(play.status.reason.as_deref(), Some("DeadlineExceeded"), "and stays so");
}

#[test]
fn a_pod_the_api_calls_failed_is_stopped_and_keeps_its_reason() {
    let mut play = Play::running(one("Always"));
    play.settle();
    let status = play.pod.status.as_mut().unwrap();
    status.phase = Some("Failed".into());
    status.reason = Some("Evicted".into());
    assert_eq!(play.settle(), ["stop web 30s", "term web"]);
    play.ended("web", 0);
    assert_eq!(play.settle(), ["tear down"]);
    play.torn_down();
    play.settle();
    assert_eq!((play.phase(), play.status.reason.as_deref()), ("Failed", Some("Evicted")));
    play.delete(0);
    assert_eq!(play.settle(), ["delete"]);
}

#[test]
fn a_finished_pod_of_before_our_time_is_not_rewritten() {
    let mut play = Play::new(one("Never"));
    let status = json!({"phase": "Succeeded", "containerStatuses": [{
        "name": "web", "image": "", "imageID": "", "ready": false, "restartCount": 2,
    }]});
    let status: PodStatus = serde_json::from_value(status).unwrap();
    play.pod.status = Some(status.clone());
    assert_eq!(play.settle(), ["tear down"]);
    assert_eq!(play.pod.status, Some(status));
}
