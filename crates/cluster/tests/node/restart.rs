//! The node comes and goes; containers stay.

use kube::api::{DeleteParams, LogParams};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::rig::{Rig, is_alive, is_ready, status, until, until_dead, until_written};

fn fields() -> serde_json::Value {
    json!({
        "containers": {"volumeMounts": [{"name": "data", "mountPath": "/tidepool-test-restart"}]},
        "volumes": [{"name": "data", "emptyDir": {}}],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_node_takes_over_what_runs() {
    let mut rig = Rig::new().await;
    let script = "echo $$ > $TIDEPOOL_VOLUME_DATA/pid; i=0; \
                  while :; do echo tick $i; i=$((i+1)); sleep 0.05; done";
    let pod = rig.run("steady", script, fields()).await;
    let before = status(&rig.until_ready("steady").await);
    let pid = until_written(rig.volume(&pod, "data/pid")).await;

    for clean in [true, false] {
        if clean {
            rig.stop().await
        } else {
            rig.crash().await
        }
        assert!(is_alive(&pid), "nothing is killed");
        let log = rig.logs("steady", LogParams::default()).await;
        until("output while the node is away", || async {
            (rig.logs("steady", LogParams::default()).await.len() > log.len()).then_some(())
        })
        .await;
        rig.start();
        // A change that only a node can make shows that it is back.
        let started = rig.config.state_dir.clone();
        assert!(started.exists());
    }
    rig.run("other", "true", json!({})).await;
    rig.until_phase("other", "Succeeded").await;
    let after = status(&rig.pods().get("steady").await.unwrap());
    assert_eq!((after.restart_count, &after.container_id), (0, &before.container_id));
    assert!(is_alive(&pid));
    rig.delete("steady").await;
    rig.until_gone("steady").await;
    until_dead(&pid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exit_while_the_node_is_away_is_not_lost() {
    let mut rig = Rig::new().await;
    let script = "while ! test -e $TIDEPOOL_VOLUME_DATA/go; do sleep 0.05; done; exit 7";
    let pod = rig.run("waiting", script, fields()).await;
    rig.until_ready("waiting").await;
    rig.crash().await;
    let go = rig.volume(&pod, "data/go");
    std::fs::write(&go, "").unwrap();
    let exit = rig.config.state_dir.join("pods").join(pod.metadata.uid.unwrap());
    let exit = exit.join("containers/c/0/exit.json");
    until("the shim's record", || async { exit.exists().then_some(()) }).await;
    assert!(is_ready(&rig.pods().get("waiting").await.unwrap()), "nobody has told the API");
    rig.start();
    let pod = rig.until_phase("waiting", "Failed").await;
    assert_eq!(status(&pod).state.unwrap().terminated.unwrap().exit_code, 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn restart_counts_survive() {
    let mut rig = Rig::new().await;
    let script = "echo run; test -e $TIDEPOOL_VOLUME_DATA/again && exec sleep 600; \
                  touch $TIDEPOOL_VOLUME_DATA/again; exit 1";
    let mut fields = fields();
    fields["restartPolicy"] = json!("Always");
    rig.run("second", script, fields).await;
    rig.until_ready("second").await;
    rig.stop().await;
    rig.start();
    rig.run("other", "true", json!({})).await;
    rig.until_phase("other", "Succeeded").await;
    let own = status(&rig.until_ready("second").await);
    assert_eq!(own.restart_count, 1);
    assert_eq!(own.last_state.unwrap().terminated.unwrap().exit_code, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_deleted_while_the_node_is_away_are_ended_when_it_comes_back() {
    let mut rig = Rig::new().await;
    let script = "echo $$ > $TIDEPOOL_VOLUME_DATA/pid; exec sleep 600";
    let pod = rig.run("orphan", script, fields()).await;
    rig.until_ready("orphan").await;
    let pid = until_written(rig.volume(&pod, "data/pid")).await;
    rig.stop().await;
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    rig.pods().delete("orphan", &now).await.unwrap();
    rig.until_gone("orphan").await;
    assert!(is_alive(&pid));
    rig.start();
    until_dead(&pid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_whose_shim_was_killed_is_ended_and_restarted() {
    let rig = Rig::new().await;
    let script =
        "echo $$ > $TIDEPOOL_VOLUME_DATA/pid-$(ls $TIDEPOOL_VOLUME_DATA | wc -l); exec sleep 600";
    let mut fields = fields();
    fields["restartPolicy"] = json!("Always");
    let pod = rig.run("shimless", script, fields).await;
    rig.until_ready("shimless").await;
    let pid = until_written(rig.volume(&pod, "data/pid-0")).await;
    let uid = pod.metadata.uid.as_deref().unwrap();
    let record = rig.config.state_dir.join("pods").join(uid).join("containers/c/0/running.json");
    let record: serde_json::Value =
        serde_json::from_slice(&std::fs::read(record).unwrap()).unwrap();
    let shim = i32::try_from(record["shim"]["pid"].as_i64().unwrap()).unwrap();
    kill_process(Pid::from_raw(shim).unwrap(), Signal::KILL).unwrap();
    until_dead(&pid).await;
    let pod =
        rig.until("shimless", "restarted", |pod| is_ready(pod) && status(pod).restart_count == 1);
    let ended = status(&pod.await).last_state.unwrap().terminated.unwrap();
    assert_eq!(ended.reason.as_deref(), Some("ContainerStatusUnknown"));
    until_written(rig.volume(&rig.pods().get("shimless").await.unwrap(), "data/pid-1")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ready_container_stays_ready_while_the_node_comes_back() {
    let mut rig = Rig::new().await;
    let probes = json!({"containers": {
        "startupProbe": {"exec": {"command": ["true"]}, "periodSeconds": 1},
        "readinessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 1},
    }});
    rig.run("probed", "exec sleep 600", probes).await;
    let before = rig.until_ready("probed").await;
    rig.stop().await;
    rig.start();
    rig.run("other", "true", json!({})).await;
    rig.until_phase("other", "Succeeded").await;
    let after = rig.pods().get("probed").await.unwrap();
    let version = |pod: k8s_openapi::api::core::v1::Pod| pod.metadata.resource_version;
    assert_eq!(version(before), version(after), "there was nothing to write");
}

/// Pods come while the node goes, again and again: each of them is started once and never killed.
#[tokio::test(flavor = "multi_thread")]
async fn crashes_at_any_moment_neither_lose_nor_double_a_container() {
    let mut rig = Rig::new().await;
    let script = "echo started >> $TIDEPOOL_VOLUME_DATA/starts; exec sleep 600";
    let mut pods = Vec::new();
    for round in 0..12_u64 {
        let pod = rig.run(&format!("p{round}"), script, fields()).await;
        pods.push(pod);
        // Another point of the start each time.
        tokio::time::sleep(std::time::Duration::from_millis(round * 4)).await;
        rig.crash().await;
        rig.start();
    }
    for (round, pod) in pods.iter().enumerate() {
        let now = rig.until_ready(&format!("p{round}")).await;
        assert_eq!(status(&now).restart_count, 0, "p{round}");
        let starts = until_written(rig.volume(pod, "data/starts")).await;
        assert_eq!(starts, "started\n", "p{round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_that_is_away_is_waited_for() {
    let rig = Rig::new().await;
    let script = "echo $$ > $TIDEPOOL_VOLUME_DATA/pid; \
                  while ! test -e $TIDEPOOL_VOLUME_DATA/go; do sleep 0.05; done; exit 3";
    let mut fields = fields();
    fields["restartPolicy"] = json!("OnFailure");
    let pod = rig.run("outage", script, fields).await;
    rig.until_ready("outage").await;
    let pid = until_written(rig.volume(&pod, "data/pid")).await;
    rig.set_api(false);
    std::fs::write(rig.volume(&pod, "data/go"), "").unwrap();
    until_dead(&pid).await;
    rig.set_api(true);
    let pod = rig.until("outage", "restarted", |pod| status(pod).restart_count >= 1).await;
    let last = status(&pod).last_state.or(status(&pod).state).unwrap();
    assert_eq!(last.terminated.unwrap().exit_code, 3);
}
