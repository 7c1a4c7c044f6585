use super::*;

#[test]
fn a_pod_is_prepared_then_started_then_ready() {
    let mut play = Play::new(one("Always"));
    assert_eq!(play.settle(), ["prepare"]);
    assert_eq!(
        (play.phase(), play.shown().as_str()),
        ("Pending", "web: waiting ContainerCreating")
    );
    assert_eq!(play.condition("PodReadyToStartContainers").status, "False");

    play.prepared();
    assert_eq!(play.settle(), ["start web#0"]);
    assert_eq!(play.phase(), "Pending");

    play.started("web");
    assert_eq!(play.settle(), Vec::<String>::new());
    assert_eq!((play.phase(), play.shown().as_str()), ("Running", "web: running ready"));
    for kind in
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
    {
        assert_eq!(play.condition(kind).status, "True", "{kind}");
    }
    assert_eq!(play.wake_at, None, "a pod that runs without probes is left alone");
}

#[test]
fn a_failed_preparation_is_tried_again() {
    let mut play = Play::new(one("Always"));
    play.settle();
    play.seen.setup = Setup::Failed { message: "no such ConfigMap".into(), retry_at: time(7) };
    assert_eq!(play.settle(), Vec::<String>::new());
    assert_eq!(play.wait(), 7);
    assert_eq!(play.settle(), ["prepare"]);
}

#[test]
fn init_containers_run_one_after_the_other() {
    let mut play = Play::new(json!({
        "initContainers": [{"name": "a"}, {"name": "b"}],
        "containers": [{"name": "web"}],
    }));
    play.settle();
    play.prepared();
    assert_eq!(play.settle(), ["start a#0"]);
    play.started("a");
    assert_eq!(play.settle(), Vec::<String>::new());
    assert_eq!(
        (play.phase(), play.shown().as_str()),
        ("Pending", "a: running, b: waiting PodInitializing, web: waiting PodInitializing")
    );
    let condition = play.condition("Initialized");
    assert_eq!(condition.reason.as_deref(), Some("ContainersNotInitialized"));
    assert_eq!(condition.message.as_deref(), Some("containers with incomplete status: [a b]"));

    play.ended("a", 0);
    assert_eq!(play.settle(), ["start b#0"]);
    play.started("b");
    play.settle();
    play.ended("b", 0);
    assert_eq!(play.settle(), ["start web#0"]);
    play.started("web");
    play.settle();
    assert_eq!(
        (play.phase(), play.shown().as_str()),
        ("Running", "a: Completed ready, b: Completed ready, web: running ready")
    );
    play.ended("web", 1);
    assert_eq!(play.settle(), ["start web#1"], "init containers do not run again");
}

#[test]
fn a_failed_init_container_is_tried_again_or_fails_the_pod() {
    let spec = |policy: &str| {
        json!({
            "restartPolicy": policy,
            "initContainers": [{"name": "a"}],
            "containers": [{"name": "web"}],
        })
    };
    let mut play = Play::new(spec("OnFailure"));
    play.settle();
    play.prepared();
    play.settle();
    play.started("a");
    play.ended("a", 1);
    assert_eq!(play.settle(), ["start a#1"]);
    play.started("a");
    play.ended("a", 1);
    assert_eq!(play.settle(), Vec::<String>::new());
    assert_eq!(play.shown(), "a: waiting CrashLoopBackOff #1, web: waiting PodInitializing");
    assert_eq!(play.phase(), "Pending");
    assert_eq!(play.wait(), 10);
    assert_eq!(play.settle(), ["start a#2"]);

    let mut play = Play::new(spec("Never"));
    play.settle();
    play.prepared();
    play.settle();
    play.started("a");
    play.ended("a", 1);
    assert_eq!(play.settle(), ["tear down"]);
    assert_eq!(play.phase(), "Failed");
    assert_eq!(play.shown(), "a: Error, web: waiting PodInitializing");
}

#[test]
fn sidecars_start_before_and_stop_after_the_containers() {
    let mut play = Play::new(json!({
        "restartPolicy": "Never",
        "initContainers": [
            {"name": "s1", "restartPolicy": "Always"},
            {"name": "i"},
            {"name": "s2", "restartPolicy": "Always"},
        ],
        "containers": [{"name": "web"}],
    }));
    play.settle();
    play.prepared();
    assert_eq!(play.settle(), ["start s1#0"]);
    play.started("s1");
    assert_eq!(play.settle(), ["start i#0"]);
    play.started("i");
    play.settle();
    play.ended("s1", 0);
    assert_eq!(play.settle(), ["start s1#1"], "a sidecar is always started again");
    play.started("s1");
    play.ended("i", 0);
    assert_eq!(play.settle(), ["start s2#0"]);
    play.started("s2");
    assert_eq!(play.settle(), ["start web#0"]);
    play.started("web");
    play.settle();
    assert_eq!(play.phase(), "Running");

    play.ended("web", 0);
    assert_eq!(play.settle(), ["stop s2 30s", "term s2"]);
    assert_eq!(play.phase(), "Running");
    play.ended("s2", 143);
    assert_eq!(play.settle(), ["stop s1 30s", "term s1"]);
    play.ended("s1", 143);
    assert_eq!(play.settle(), ["tear down"]);
    assert_eq!(play.phase(), "Succeeded");
}

#[test]
fn a_sidecar_has_started_when_its_startup_probe_says_so() {
    let mut play = Play::new(json!({
        "initContainers": [{
            "name": "s",
            "restartPolicy": "Always",
            "startupProbe": {"exec": {"command": ["true"]}, "periodSeconds": 1},
        }],
        "containers": [{"name": "web"}],
    }));
    play.settle();
    play.prepared();
    play.settle();
    play.started("s");
    assert_eq!(play.settle(), ["startup s"]);
    assert_eq!(play.phase(), "Pending");
    play.answer("s", ProbeKind::Startup, true);
    assert_eq!(play.settle(), ["start web#0"]);
}

#[test]
fn restarts_wait_longer_each_time() {
    let mut play = Play::running(one("Always"));
    let mut waits = Vec::new();
    for restart in 1..=7 {
        play.ended("web", 1);
        let mut begun = play.settle();
        if begun.is_empty() {
            assert_eq!(play.shown(), format!("web: waiting CrashLoopBackOff #{}", restart - 1));
            assert_eq!(play.phase(), "Running");
            waits.push(play.wait());
            begun = play.settle();
        } else {
            waits.push(0);
        }
        assert_eq!(begun, [format!("start web#{restart}")]);
        play.started("web");
        play.settle();
        play.pass(1);
    }
    assert_eq!(waits, [0, 10, 20, 40, 80, 160, 300]);

    play.pass(600);
    play.ended("web", 1);
    assert_eq!(play.settle(), ["start web#8"], "a long run clears the record");
}

#[test]
fn the_back_off_message_is_kubelets() {
    let mut play = Play::running(one("Always"));
    for _ in 0..5 {
        play.ended("web", 1);
        if play.settle().is_empty() {
            play.wait();
            play.settle();
        }
        play.started("web");
    }
    play.ended("web", 1);
    play.settle();
    let statuses = play.status.container_statuses.as_ref().unwrap();
    let state = statuses[0].state.as_ref().unwrap().waiting.as_ref().unwrap();
    let want = "back-off 2m40s restarting failed container=web pod=p_ns(u)";
    assert_eq!(state.message.as_deref(), Some(want));
    let last = statuses[0].last_state.as_ref().unwrap().terminated.as_ref().unwrap();
    assert_eq!((last.exit_code, last.container_id.as_deref()), (1, Some("tidepool://web-5")));
}

#[test]
fn how_containers_end_decides_how_the_pod_ends() {
    let cases = [
        ("success", "Never", [0, 0], "Succeeded"),
        ("one failure", "Never", [0, 3], "Failed"),
        ("success on failure", "OnFailure", [0, 0], "Succeeded"),
    ];
    for (name, policy, codes, want) in cases {
        let mut play = Play::running(json!({
            "restartPolicy": policy,
            "containers": [{"name": "a"}, {"name": "b"}],
        }));
        play.ended("a", codes[0]);
        assert_eq!(play.settle(), Vec::<String>::new(), "{name}");
        assert_eq!(play.phase(), "Running", "{name}");
        play.ended("b", codes[1]);
        assert_eq!(play.settle(), ["tear down"], "{name}");
        assert_eq!(play.phase(), want, "{name}");
        play.torn_down();
        assert_eq!(play.settle(), Vec::<String>::new(), "{name}: the object stays");
        let reason = if want == "Succeeded" { "PodCompleted" } else { "PodFailed" };
        assert_eq!(play.condition("Ready").reason.as_deref(), Some(reason), "{name}");
    }
}

#[test]
fn a_container_that_cannot_be_made_says_why_and_is_tried_again() {
    let mut play = Play::new(one("Always"));
    play.settle();
    play.prepared();
    play.settle();
    let problem = Problem {
        reason: "CreateContainerConfigError".into(),
        message: "configmap \"x\" not found".into(),
        retry_at: time(10),
    };
    play.seen.containers.get_mut("web").unwrap().set_problem(problem.clone());
    assert_eq!(play.settle(), Vec::<String>::new());
    assert_eq!(play.shown(), "web: waiting CreateContainerConfigError");
    assert_eq!(play.wait(), 10);
    assert_eq!(play.settle(), ["start web#0"], "a start that was not made does not count");
    play.started("web");
    play.settle();
    play.ended("web", 1);
    assert_eq!(play.settle(), ["start web#1"]);
    play.seen
        .containers
        .get_mut("web")
        .unwrap()
        .set_problem(Problem { retry_at: time(20), ..problem });
    play.settle();
    assert_eq!(play.shown(), "web: waiting CreateContainerConfigError");
    play.wait();
    assert_eq!(play.settle(), ["start web#1"]);
}

#[test]
fn a_post_start_hook_holds_up_the_next_container() {
    let mut play = Play::new(json!({
        "containers": [
            {"name": "a", "lifecycle": {"postStart": {"exec": {"command": ["x"]}}}},
            {"name": "b"},
        ],
    }));
    play.settle();
    play.prepared();
    assert_eq!(play.settle(), ["start a#0"]);
    play.started("a");
    assert_eq!(play.settle(), ["postStart a"]);
    assert_eq!(play.shown(), "a: waiting ContainerCreating, b: waiting ContainerCreating");
    play.seen.run_mut("a").unwrap().post_start = Hook::Done;
    assert_eq!(play.settle(), ["start b#0"]);
    assert_eq!(play.shown(), "a: running ready, b: waiting ContainerCreating");

    play.seen.run_mut("a").unwrap().post_start = Hook::Failed("exit 1".into());
    assert_eq!(play.settle(), ["stop a 30s", "term a"]);
}

#[test]
fn an_adopted_pod_is_left_alone() {
    let mut play = Play::new(one("Always"));
    play.seen.setup = Setup::Ready;
    let mut own = Container { restarts: 3, ..Container::default() };
    own.set_running("web-3".into(), time(-60), Hook::Done);
    play.seen.containers.insert("web".into(), own);
    assert_eq!(play.settle(), Vec::<String>::new());
    assert_eq!((play.phase(), play.shown().as_str()), ("Running", "web: running ready #3"));
}

#[test]
fn restart_counts_go_on_from_what_the_api_remembers() {
    let mut play = Play::new(one("Always"));
    play.seen.setup = Setup::Ready;
    play.seen.containers.insert("web".into(), Container { restarts: 6, ..Container::default() });
    assert_eq!(play.settle(), ["start web#6"]);
}
