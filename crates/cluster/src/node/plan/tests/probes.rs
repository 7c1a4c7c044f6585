use super::*;

fn probed(probes: Value) -> Play {
    let mut container = json!({"name": "web"});
    container.as_object_mut().unwrap().extend(probes.as_object().unwrap().clone());
    let mut play = Play::new(json!({"containers": [container]}));
    play.settle();
    play.prepared();
    play.settle();
    play.started("web");
    play
}

fn exec(extra: Value) -> Value {
    let mut probe = json!({"exec": {"command": ["true"]}});
    probe.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    probe
}

#[test]
fn readiness_waits_its_delay_and_comes_back_every_period() {
    let mut play = probed(json!({
        "readinessProbe": exec(json!({"initialDelaySeconds": 5, "periodSeconds": 3})),
    }));
    assert_eq!(play.settle(), Vec::<String>::new());
    assert_eq!(play.shown(), "web: running");
    assert_eq!(
        play.condition("Ready").message.as_deref(),
        Some("containers with unready status: [web]")
    );
    assert_eq!(play.wait(), 5);
    assert_eq!(play.settle(), ["readiness web"]);
    assert_eq!(play.settle(), Vec::<String>::new(), "one question at a time");
    play.pass(1);
    play.answer("web", ProbeKind::Readiness, true);
    assert_eq!(play.settle(), Vec::<String>::new());
    assert_eq!(play.shown(), "web: running ready");
    assert_eq!(play.wait(), 2, "periods count from question to question");
    assert_eq!(play.settle(), ["readiness web"]);
}

#[test]
fn verdicts_take_as_many_answers_as_the_thresholds_say() {
    let mut play = probed(json!({
        "readinessProbe": exec(json!({"periodSeconds": 1, "failureThreshold": 2, "successThreshold": 3})),
    }));
    let mut ready = Vec::new();
    for answer in [true, true, true, false, true, false, false, true, true, true] {
        assert_eq!(play.settle(), ["readiness web"]);
        play.answer("web", ProbeKind::Readiness, answer);
        play.settle();
        ready.push(play.status.container_statuses.as_ref().unwrap()[0].ready);
        play.wait();
    }
    let want = [false, false, true, true, true, true, false, false, false, true];
    assert_eq!(ready, want);
}

#[test]
fn a_failing_liveness_probe_restarts_the_container() {
    let mut play = probed(json!({
        "livenessProbe": exec(json!({
            "periodSeconds": 1, "failureThreshold": 2, "terminationGracePeriodSeconds": 4,
        })),
    }));
    assert_eq!(play.settle(), ["liveness web"]);
    assert_eq!(play.shown(), "web: running ready", "well until proven otherwise");
    play.answer("web", ProbeKind::Liveness, false);
    assert_eq!(play.settle(), Vec::<String>::new());
    play.wait();
    assert_eq!(play.settle(), ["liveness web"]);
    play.answer("web", ProbeKind::Liveness, false);
    assert_eq!(play.settle(), ["stop web 4s", "term web"]);
    play.pass(1);
    play.ended("web", 143);
    assert_eq!(play.settle(), ["start web#1"]);
    play.started("web");
    assert_eq!(play.settle(), ["liveness web"], "a new run starts with a clean record");
}

#[test]
fn nothing_else_is_asked_before_the_startup_probe_succeeds() {
    let mut play = probed(json!({
        "startupProbe": exec(json!({"periodSeconds": 1, "failureThreshold": 3})),
        "readinessProbe": exec(json!({"periodSeconds": 1})),
        "livenessProbe": exec(json!({"periodSeconds": 1})),
    }));
    assert_eq!(play.settle(), ["startup web"]);
    play.answer("web", ProbeKind::Startup, false);
    play.settle();
    let status = &play.status.container_statuses.as_ref().unwrap()[0];
    assert_eq!((status.started, status.ready), (Some(false), false));
    play.wait();
    assert_eq!(play.settle(), ["startup web"]);
    play.answer("web", ProbeKind::Startup, true);
    assert_eq!(play.settle(), ["readiness web", "liveness web"]);
    assert_eq!(play.status.container_statuses.as_ref().unwrap()[0].started, Some(true));
    play.answer("web", ProbeKind::Readiness, true);
    play.answer("web", ProbeKind::Liveness, true);
    play.settle();
    play.wait();
    assert_eq!(play.settle(), ["readiness web", "liveness web"]);
}

#[test]
fn a_container_that_never_starts_is_restarted() {
    let mut play = probed(json!({
        "startupProbe": exec(json!({"periodSeconds": 1, "failureThreshold": 2})),
    }));
    for _ in 0..2 {
        assert_eq!(play.settle(), ["startup web"]);
        play.answer("web", ProbeKind::Startup, false);
        if play.seen.run_mut("web").unwrap().startup.verdict.is_none() {
            play.settle();
            play.wait();
        }
    }
    assert_eq!(play.settle(), ["stop web 30s", "term web"]);
}

#[test]
fn a_pod_on_its_way_out_is_only_asked_whether_it_is_ready() {
    let mut play = probed(json!({
        "readinessProbe": exec(json!({"periodSeconds": 1})),
        "livenessProbe": exec(json!({"periodSeconds": 1})),
    }));
    play.settle();
    play.answer("web", ProbeKind::Readiness, true);
    play.answer("web", ProbeKind::Liveness, false);
    play.delete(30);
    assert_eq!(play.settle(), ["stop web 30s", "term web"]);
    play.pass(1);
    assert_eq!(play.settle(), ["readiness web"]);
}
