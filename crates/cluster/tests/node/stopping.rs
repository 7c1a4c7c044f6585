//! Ending pods, with everything that belongs to them.

use kube::api::{DeleteParams, LogParams};
use serde_json::json;

use crate::rig::{Rig, status, until_dead, until_written};

/// A pod whose script writes the number of its process.
fn with_pid(script: &str) -> (String, serde_json::Value) {
    let script = format!("echo $$ > $TIDEPOOL_VOLUME_DATA/pid; {script}");
    let fields = json!({
        "containers": {"volumeMounts": [{"name": "data", "mountPath": "/tidepool-test-stop"}]},
        "volumes": [{"name": "data", "emptyDir": {}}],
    });
    (script, fields)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_pod_is_asked_first() {
    let rig = Rig::new().await;
    let trap = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done";
    rig.run("polite", trap, json!({"terminationGracePeriodSeconds": 30})).await;
    rig.until_ready("polite").await;
    let follow = LogParams { follow: true, ..LogParams::default() };
    let (log, ()) = tokio::join!(rig.logs("polite", follow), async {
        rig.until_event("polite", "Started").await;
        crate::rig::until("the trap to be set", || async {
            let log = rig.logs("polite", LogParams::default()).await;
            log.contains("up").then_some(())
        })
        .await;
        rig.delete("polite").await;
    });
    // The signal goes to the whole process group, so the shell may have something to say too.
    assert!(log.starts_with("up\n") && log.contains("bye\n"), "{log}");
    rig.until_gone("polite").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stubborn_pod_is_killed_with_everything_it_started() {
    let rig = Rig::new().await;
    // The grandchild leaves the process group and its parent.
    let script = "trap '' TERM; \
        (setsid sh -c 'trap \"\" TERM; echo $$ > $TIDEPOOL_VOLUME_DATA/child; while :; do sleep 1; done' &) ; \
        while :; do sleep 1; done";
    let (script, fields) = with_pid(script);
    let pod = rig.run("stubborn", &script, fields).await;
    rig.until_ready("stubborn").await;
    let pid = until_written(rig.volume(&pod, "data/pid")).await;
    let child = until_written(rig.volume(&pod, "data/child")).await;
    rig.delete("stubborn").await;
    rig.until_gone("stubborn").await;
    until_dead(&pid).await;
    until_dead(&child).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_program_leaves_behind_ends_with_it() {
    let rig = Rig::new().await;
    let (script, fields) = with_pid(
        "(setsid sh -c 'echo $$ > $TIDEPOOL_VOLUME_DATA/child; sleep 600' &); \
                  while ! test -s $TIDEPOOL_VOLUME_DATA/child; do sleep 0.05; done; exit 5",
    );
    let pod = rig.run("daemonizer", &script, fields).await;
    let pod_now = rig.until_phase("daemonizer", "Failed").await;
    assert_eq!(status(&pod_now).state.unwrap().terminated.unwrap().exit_code, 5);
    let child = until_written(rig.volume(&pod, "data/child")).await;
    until_dead(&child).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_vanishes_takes_its_processes_along() {
    let rig = Rig::new().await;
    let (script, fields) = with_pid("exec sleep 600");
    let pod = rig.run("forced", &script, fields).await;
    rig.until_ready("forced").await;
    let pid = until_written(rig.volume(&pod, "data/pid")).await;
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    rig.pods().delete("forced", &now).await.unwrap();
    rig.until_gone("forced").await;
    until_dead(&pid).await;
    let dir = rig.config.state_dir.join("pods").join(pod.metadata.uid.unwrap());
    crate::rig::until("the pod's directory to go", || async { (!dir.exists()).then_some(()) })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_never_started_can_be_deleted() {
    let rig = Rig::new().await;
    rig.create("empty", json!({"containers": [{"name": "c", "image": "nginx"}]}), json!({})).await;
    rig.until_phase("empty", "Pending").await;
    rig.delete("empty").await;
    rig.until_gone("empty").await;
}
