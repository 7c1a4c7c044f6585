//! Laws that hold whatever happens in whichever order.

use proptest::prelude::*;

use super::*;

/// Something that happens to a pod.
#[derive(Debug, Clone, Copy)]
enum Happening {
    Prepared(bool),
    Starts(usize),
    Ends(usize, i32),
    Answers(usize, bool),
    HooksReturn,
    Passes(i64),
    Deleted(i64),
}

const NAMES: [&str; 4] = ["side", "init", "a", "b"];

fn happening() -> impl Strategy<Value = Happening> {
    let name = 0..NAMES.len();
    prop_oneof![
        any::<bool>().prop_map(Happening::Prepared),
        name.clone().prop_map(Happening::Starts),
        (name.clone(), 0..3_i32).prop_map(|(name, code)| Happening::Ends(name, code)),
        (name, any::<bool>()).prop_map(|(name, good)| Happening::Answers(name, good)),
        Just(Happening::HooksReturn),
        (0..400_i64).prop_map(Happening::Passes),
        (0..40_i64).prop_map(Happening::Deleted),
    ]
}

fn spec(policy: &str) -> Value {
    let probe = json!({"exec": {"command": ["true"]}, "failureThreshold": 1});
    json!({
        "restartPolicy": policy,
        "initContainers": [{"name": "side", "restartPolicy": "Always"}, {"name": "init"}],
        "containers": [
            {
                "name": "a",
                "livenessProbe": probe,
                "lifecycle": {"preStop": {"exec": {"command": ["x"]}}, "postStart": {"exec": {"command": ["x"]}}},
            },
            {"name": "b", "startupProbe": probe, "readinessProbe": probe},
        ],
    })
}

fn happen(play: &mut Play, what: Happening) {
    match what {
        Happening::Prepared(good) if play.seen.setup == Setup::InFlight => {
            let retry_at = play.now;
            let failed = Setup::Failed { message: "x".into(), retry_at };
            play.seen.setup = if good { Setup::Ready } else { failed };
        }
        Happening::Starts(name) if *play.seen.state(NAMES[name]) == State::Starting => {
            play.started(NAMES[name]);
        }
        Happening::Ends(name, code)
            if matches!(play.seen.state(NAMES[name]), State::Running(_)) =>
        {
            play.ended(NAMES[name], code);
        }
        Happening::Answers(name, good) => {
            for kind in [ProbeKind::Startup, ProbeKind::Readiness, ProbeKind::Liveness] {
                let run = play.seen.run_mut(NAMES[name]);
                if run.is_some_and(|run| run.probe(kind).in_flight) {
                    play.answer(NAMES[name], kind, good);
                }
            }
        }
        Happening::HooksReturn => hooks_return(play),
        Happening::Passes(seconds) => play.pass(seconds),
        Happening::Deleted(grace) => play.delete(grace),
        _ => {}
    }
}

fn hooks_return(play: &mut Play) {
    for name in NAMES {
        let Some(run) = play.seen.run_mut(name) else { continue };
        if run.post_start == Hook::InFlight {
            run.post_start = Hook::Done;
        }
        if let Some(stop) = run.stop.as_mut().filter(|stop| stop.pre_stop == Hook::InFlight) {
            stop.pre_stop = Hook::Done;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Asking again settles at once, a deleted pod starts nothing, and it ends when its processes do.
    #[test]
    fn every_pod_settles_and_can_be_deleted(
        policy in prop_oneof![Just("Always"), Just("OnFailure"), Just("Never")],
        happenings in proptest::collection::vec(happening(), 0..60),
    ) {
        let mut play = Play::new(spec(policy));
        for what in happenings {
            happen(&mut play, what);
            let is_deleted = play.pod.metadata.deletion_timestamp.is_some();
            let begun = play.settle();
            let starts = begun.iter().any(|action| action.starts_with("start ") || action == "prepare");
            prop_assert!(!(is_deleted && starts), "{begun:?}");
        }

        play.delete(30);
        for _ in 0..40 {
            if play.is_gone {
                break;
            }
            for action in play.settle() {
                if let Some(name) = action.strip_prefix("kill ") {
                    play.ended(name, 137);
                }
            }
            hooks_return(&mut play);
            for at in 0..NAMES.len() {
                happen(&mut play, Happening::Starts(at));
            }
            happen(&mut play, Happening::Prepared(true));
            if play.seen.setup == Setup::TearingDown {
                play.torn_down();
            }
            play.pass(30);
        }
        prop_assert!(play.is_gone);
        prop_assert!(matches!(play.phase(), "Failed" | "Succeeded"));
    }
}
