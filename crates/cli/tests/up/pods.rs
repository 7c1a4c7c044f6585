//! What becomes of pods and of those who own them.

use futures_util::{AsyncBufReadExt, TryStreamExt};
use k8s_openapi::api::apps::v1::{DaemonSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Node, Pod};
use kube::api::{LogParams, Patch, PatchParams, WatchEvent, WatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::rig::{Up, create, is_ready, logs, phase, status, until, until_pods};

fn pod(name: &str, policy: &str, script: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": template(policy, script),
    })
}

fn template(policy: &str, script: &str) -> Value {
    json!({
        "restartPolicy": policy,
        "terminationGracePeriodSeconds": 2,
        "containers": [{"name": "c", "image": "host", "command": ["sh", "-c", script]}],
    })
}

fn terminated(pod: &Pod) -> Option<ContainerStateTerminated> {
    status(pod)?.state?.terminated
}

/// One cluster for all that does not need one for itself: starting takes the most time.
#[tokio::test(flavor = "multi_thread")]
async fn pods_end_as_they_would_on_kubernetes() {
    let up = Up::start();
    let client = up.client().await;
    tokio::join!(
        an_exit_code_is_told(&client),
        memory_is_limited(&client),
        failures_are_retried_ever_later(&client),
        jobs_run_to_completion(&client),
        logs_can_be_followed_and_cut(&client),
    );
}

async fn an_exit_code_is_told(client: &Client) {
    create::<Pod>(client, pod("leaver", "Never", "echo bye; exit 7")).await;
    let ended = until_pods(client, "app=leaver", "it failed", |pods| phase(&pods[0]) == "Failed");
    let ended = ended.await;
    let end = terminated(&ended[0]).unwrap();
    assert_eq!((end.exit_code, end.reason.as_deref()), (7, Some("Error")));
    assert_eq!(logs(client, &ended[0]).await, "bye\n");
}

async fn memory_is_limited(client: &Client) {
    let node = Api::<Node>::all(client.clone()).get("n1").await.unwrap();
    let conditions = node.status.unwrap().conditions.unwrap();
    let isolation = conditions.iter().find(|own| own.type_ == "tidepool.io/Isolation").unwrap();
    if isolation.message.as_deref().unwrap_or_default().contains("memory") {
        println!("skipped: {}", isolation.message.as_deref().unwrap_or_default());
        return;
    }
    let mut hungry = pod("hungry", "Never", "exec tail /dev/zero");
    hungry["spec"]["containers"][0]["resources"] = json!({"limits": {"memory": "32Mi"}});
    create::<Pod>(client, hungry).await;
    let ended = until_pods(client, "app=hungry", "it failed", |pods| phase(&pods[0]) == "Failed");
    let end = terminated(&ended.await[0]).unwrap();
    assert_eq!((end.exit_code, end.reason.as_deref()), (137, Some("OOMKilled")));
}

async fn failures_are_retried_ever_later(client: &Client) {
    create::<Pod>(client, pod("loop", "Always", "echo once more; exit 3")).await;
    let waiting = |pods: &[Pod]| {
        let state = status(&pods[0]).and_then(|own| own.state?.waiting);
        state.is_some_and(|state| state.reason.as_deref() == Some("CrashLoopBackOff"))
    };
    let pods = until_pods(client, "app=loop", "it is held back", waiting).await;
    let own = status(&pods[0]).unwrap();
    assert!(own.restart_count >= 1, "the first failure is retried at once");
    assert_eq!(own.last_state.unwrap().terminated.unwrap().exit_code, 3);
    let message = own.state.unwrap().waiting.unwrap().message.unwrap();
    assert!(message.starts_with("back-off 10s restarting failed container=c"), "{message}");
    let api: Api<Pod> = Api::default_namespaced(client.clone());
    let previous = LogParams { previous: true, ..LogParams::default() };
    assert_eq!(api.logs("loop", &previous).await.unwrap(), "once more\n");
}

async fn jobs_run_to_completion(client: &Client) {
    let job = json!({
        "metadata": {"name": "count"},
        "spec": {
            "completions": 3,
            "parallelism": 2,
            "template": {"spec": template("Never", "echo done")},
        },
    });
    create::<Job>(client, job).await;
    let api: Api<Job> = Api::default_namespaced(client.clone());
    let api = &api;
    let status = until("the job is complete", || async move {
        let status = api.get("count").await.unwrap().status?;
        let mut conditions = status.conditions.iter().flatten();
        conditions.any(|own| own.type_ == "Complete" && own.status == "True").then_some(status)
    });
    let status = status.await;
    assert_eq!((status.succeeded, status.failed.unwrap_or(0)), (Some(3), 0));
}

async fn logs_can_be_followed_and_cut(client: &Client) {
    let script = "for i in 1 2 3 4; do echo line $$i; done; while ! test -e $GO; do sleep 0.1; done; echo last";
    let go = tempfile::tempdir().unwrap();
    let go = go.path().join("go");
    let mut talker = pod("talker", "Never", script);
    talker["spec"]["containers"][0]["env"] = json!([{"name": "GO", "value": go}]);
    create::<Pod>(client, talker).await;
    until_pods(client, "app=talker", "it is ready", |pods| is_ready(&pods[0])).await;
    let api: Api<Pod> = Api::default_namespaced(client.clone());
    let tail = LogParams { tail_lines: Some(2), ..LogParams::default() };
    let api = &api;
    let (tail, wanted) = (&tail, "line 3\nline 4\n");
    until("the tail is printed", || async move {
        (api.logs("talker", tail).await.unwrap() == wanted).then_some(())
    })
    .await;
    let follow = LogParams { follow: true, since_seconds: Some(600), ..LogParams::default() };
    let mut lines = api.log_stream("talker", &follow).await.unwrap().lines();
    for number in 1..=4 {
        let line = lines.try_next().await.unwrap().unwrap();
        assert_eq!(line, format!("line {number}"));
    }
    std::fs::write(&go, "").unwrap();
    assert_eq!(lines.try_next().await.unwrap().as_deref(), Some("last"));
    assert_eq!(lines.try_next().await.unwrap(), None, "the stream ends with the container");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_gets_its_daemon() {
    let up = Up::with(&["--hollow", "3", "--in-memory"]);
    let client = up.client().await;
    let daemon = json!({
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"app": "d"}},
            "template": {
                "metadata": {"labels": {"app": "d"}},
                "spec": template("Always", "exec sleep 1d"),
            },
        },
    });
    create::<DaemonSet>(&client, daemon).await;
    let pods = until_pods(&client, "app=d", "four are ready", |pods| {
        pods.len() == 4 && pods.iter().all(is_ready)
    });
    let mut nodes: Vec<String> =
        pods.await.into_iter().map(|pod| pod.spec.unwrap().node_name.unwrap()).collect();
    nodes.sort();
    assert_eq!(nodes, ["hollow-00000", "hollow-00001", "hollow-00002", "n1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_is_built_up_and_taken_down_in_order() {
    let up = Up::with(&["--in-memory"]);
    let client = up.client().await;
    let api: Api<Pod> = Api::default_namespaced(client.clone());
    let events = api.watch(&WatchParams::default().labels("app=row"), "0").await.unwrap();
    let mut events = Box::pin(events);
    let row = json!({
        "metadata": {"name": "row"},
        "spec": {
            "replicas": 3,
            "serviceName": "row",
            "selector": {"matchLabels": {"app": "row"}},
            "template": {
                "metadata": {"labels": {"app": "row"}},
                "spec": template("Always", "exec sleep 1d"),
            },
        },
    });
    create::<StatefulSet>(&client, row).await;
    let mut story = Vec::new();
    let mut ready = 0;
    while ready < 3 {
        match events.try_next().await.unwrap().unwrap() {
            WatchEvent::Added(pod) => story.push(format!("{} comes", name(&pod))),
            WatchEvent::Modified(pod) if is_ready(&pod) => {
                let line = format!("{} is ready", name(&pod));
                if !story.contains(&line) {
                    story.push(line);
                    ready += 1;
                }
            }
            _ => {}
        }
    }
    let sets: Api<StatefulSet> = Api::default_namespaced(client.clone());
    let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
    sets.patch("row", &PatchParams::default(), &none).await.unwrap();
    let mut gone = 0;
    while gone < 3 {
        if let WatchEvent::Deleted(pod) = events.try_next().await.unwrap().unwrap() {
            story.push(format!("{} goes", name(&pod)));
            gone += 1;
        }
    }
    let want = [
        "row-0 comes",
        "row-0 is ready",
        "row-1 comes",
        "row-1 is ready",
        "row-2 comes",
        "row-2 is ready",
        "row-2 goes",
        "row-1 goes",
        "row-0 goes",
    ];
    assert_eq!(story, want);
}

fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}
