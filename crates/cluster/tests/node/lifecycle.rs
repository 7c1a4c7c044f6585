//! Starting, ending, restarting, probing.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::LogParams;
use serde_json::json;

use crate::rig::{Rig, is_ready, status, until, until_written};

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_runs_to_its_end() {
    let rig = Rig::new().await;
    rig.run("job", "echo hello; echo oops >&2", json!({})).await;
    let pod = rig.until_phase("job", "Succeeded").await;
    let own = status(&pod);
    let ended = own.state.unwrap().terminated.unwrap();
    assert_eq!((ended.exit_code, ended.reason.as_deref()), (0, Some("Completed")));
    assert!(ended.finished_at >= ended.started_at && ended.started_at.is_some());
    let id = own.container_id.unwrap();
    assert!(id.starts_with("tidepool://") && id.len() == "tidepool://".len() + 64, "{id}");
    assert!(!own.ready);
    let log = rig.logs("job", LogParams::default()).await;
    let mut lines: Vec<&str> = log.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["hello", "oops"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_told_with_code_and_last_words() {
    let rig = Rig::new().await;
    rig.run("own-words", "printf because > $TIDEPOOL_TERMINATION_LOG; exit 3", json!({})).await;
    let policy = json!({"containers": {"terminationMessagePolicy": "FallbackToLogsOnError"}});
    rig.run("log", "echo the end of the log; exit 4", policy).await;
    for (name, code, message) in [("own-words", 3, "because"), ("log", 4, "the end of the log\n")] {
        let pod = rig.until_phase(name, "Failed").await;
        let ended = status(&pod).state.unwrap().terminated.unwrap();
        assert_eq!((ended.exit_code, ended.reason.as_deref()), (code, Some("Error")), "{name}");
        assert_eq!(ended.message.as_deref(), Some(message), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_run_says_why() {
    let rig = Rig::new().await;
    let container = json!([{"name": "c", "image": "host", "command": ["/no/such/program"]}]);
    rig.create("missing", json!({"containers": container}), json!({})).await;
    rig.create("empty", json!({"containers": [{"name": "c", "image": "nginx"}]}), json!({})).await;
    let dir = json!({"containers": {"workingDir": "/no/such/dir"}});
    rig.run("nowhere", "true", dir).await;

    for (name, words) in [("missing", "/no/such/program"), ("nowhere", "/no/such/dir")] {
        let pod = rig.until_phase(name, "Failed").await;
        let ended = status(&pod).state.unwrap().terminated.unwrap();
        assert_eq!((ended.exit_code, ended.reason.as_deref()), (128, Some("StartError")), "{name}");
        assert!(ended.message.unwrap().contains(words), "{name}");
    }

    let waits = |pod: &k8s_openapi::api::core::v1::Pod| {
        status(pod).state.unwrap().waiting.map(|waiting| waiting.reason.unwrap())
    };
    let config_error = Some("CreateContainerConfigError".to_owned());
    let pod = rig
        .until("empty", "waiting", |pod| pod.status.is_some() && waits(pod) == config_error)
        .await;
    let message = status(&pod).state.unwrap().waiting.unwrap().message.unwrap();
    assert_eq!(message, "no command: images are not run here, give the container a command");
    let note = rig.until_event("empty", "ImageIgnored").await;
    assert!(note.contains("processes of this machine"), "{note}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_container_restarts_and_then_waits() {
    let rig = Rig::new().await;
    rig.run("flappy", "echo run; exit 1", json!({"restartPolicy": "Always"})).await;
    let pod = rig
        .until("flappy", "backing off", |pod| {
            let statuses =
                pod.status.iter().flat_map(|own| own.container_statuses.iter().flatten());
            let mut states = statuses.filter_map(|own| own.state.as_ref()?.waiting.as_ref());
            states.any(|waiting| waiting.reason.as_deref() == Some("CrashLoopBackOff"))
        })
        .await;
    let own = status(&pod);
    assert_eq!(own.restart_count, 1, "the first restart is immediate");
    let message = own.state.unwrap().waiting.unwrap().message.unwrap();
    assert!(message.starts_with("back-off 10s restarting failed container=c"), "{message}");
    assert_eq!(own.last_state.unwrap().terminated.unwrap().exit_code, 1);
    assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Running"));
    rig.until_event("flappy", "BackOff").await;

    let previous = LogParams { previous: true, ..LogParams::default() };
    assert_eq!(rig.logs("flappy", previous).await, "run\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn init_containers_and_sidecars_keep_their_order() {
    let rig = Rig::new().await;
    let log = |word: &str| format!("echo {word} >> $TIDEPOOL_VOLUME_DATA/order");
    let container = |name: &str, script: String| {
        json!({
            "name": name, "image": "host", "command": ["sh", "-c", script],
            "volumeMounts": [{"name": "data", "mountPath": "/tidepool-test-order"}],
        })
    };
    let mut side = container("side", log("side") + "; exec sleep 600");
    side["restartPolicy"] = json!("Always");
    let spec = json!({
        "initContainers": [
            container("first", log("first")), side, container("second", log("second")),
        ],
        "containers": [container("main", log("main"))],
        "volumes": [{"name": "data", "emptyDir": {}}],
    });
    rig.create("ordered", spec, json!({})).await;
    let pod = rig.until_phase("ordered", "Succeeded").await;
    let order = std::fs::read_to_string(rig.volume(&pod, "data/order")).unwrap();
    let words: Vec<&str> = order.lines().collect();
    // A sidecar has started when its process runs; what it does first may come a moment later.
    let plain: Vec<&str> = words.iter().copied().filter(|word| *word != "side").collect();
    assert_eq!(plain, ["first", "second", "main"]);
    let inits = pod.status.unwrap().init_container_statuses.unwrap();
    let side = inits[1].state.clone().unwrap().terminated.unwrap();
    assert_eq!(side.exit_code, 143, "stopped when the work was done");
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_follows_its_probe() {
    let rig = Rig::new().await;
    let pod = rig
        .create(
            "probed",
            json!({
                "containers": [{
                    "name": "c", "image": "host", "command": ["sleep", "600"],
                    "volumeMounts": [{"name": "data", "mountPath": "/tidepool-test-probe"}],
                    "readinessProbe": {
                        "exec": {"command": ["sh", "-c", "test -e $TIDEPOOL_VOLUME_DATA/ready"]},
                        "periodSeconds": 1, "failureThreshold": 1,
                    },
                }],
                "volumes": [{"name": "data", "emptyDir": {}}],
            }),
            json!({}),
        )
        .await;
    let note = rig.until_event("probed", "Unhealthy").await;
    assert!(note.starts_with("Readiness probe failed: "), "{note}");
    assert!(!is_ready(&rig.until_phase("probed", "Running").await));
    let file = rig.volume(&pod, "data/ready");
    std::fs::write(&file, "").unwrap();
    rig.until_ready("probed").await;
    std::fs::remove_file(&file).unwrap();
    rig.until("probed", "unready", |pod| !is_ready(pod)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_liveness_probe_restarts_the_container() {
    let rig = Rig::new().await;
    let probe = json!({
        "restartPolicy": "Always",
        "containers": {"livenessProbe": {
            "exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1,
        }},
    });
    rig.run("sick", "exec sleep 600", probe).await;
    let pod = rig.until("sick", "restarted", |pod| {
        pod.status.as_ref().is_some_and(|own| own.container_statuses.is_some())
            && status(pod).restart_count >= 1
    });
    let ended = status(&pod.await).last_state.unwrap().terminated.unwrap();
    assert_eq!(ended.exit_code, 143);
    let note = rig.until_event("sick", "Killing").await;
    assert_eq!(note, "Container c failed liveness probe, will be restarted");
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_run_inside_the_container() {
    let rig = Rig::new().await;
    let hook = |word: &str| json!({"exec": {"command": ["sh", "-c", format!("echo {word} $HOSTNAME >> $TIDEPOOL_VOLUME_DATA/hooks")]}});
    let spec = json!({
        "containers": [{
            "name": "c", "image": "host", "command": ["sleep", "600"],
            "volumeMounts": [{"name": "data", "mountPath": "/tidepool-test-hooks"}],
            "lifecycle": {"postStart": hook("start"), "preStop": hook("stop")},
        }],
        "volumes": [{"name": "data", "emptyDir": {}}],
    });
    let pod = rig.create("hooked", spec, json!({})).await;
    let hooks = rig.volume(&pod, "data/hooks");
    rig.until_ready("hooked").await;
    assert_eq!(until_written(hooks.clone()).await, "start hooked\n");
    // The volume goes with the pod; a second name keeps the file.
    let keeper = tempfile::tempdir().unwrap();
    let kept = keeper.path().join("hooks");
    std::fs::hard_link(&hooks, &kept).unwrap();
    rig.delete("hooked").await;
    rig.until_gone("hooked").await;
    assert_eq!(std::fs::read_to_string(kept).unwrap(), "start hooked\nstop hooked\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_fails_the_pod() {
    let rig = Rig::new().await;
    rig.run("slow", "exec sleep 600", json!({"activeDeadlineSeconds": 1})).await;
    let pod = rig.until_phase("slow", "Failed").await;
    assert_eq!(pod.status.unwrap().reason.as_deref(), Some("DeadlineExceeded"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_registers_and_renews_its_lease() {
    let rig = Rig::with(|config| {
        config.labels.insert("example.com/zone".into(), "a".into());
    })
    .await;
    let nodes: Api<Node> = Api::all(rig.client.clone());
    let node = until("a ready node", || async {
        let node = nodes.get_opt("n1").await.unwrap()?;
        let conditions = node.status.as_ref()?.conditions.as_ref()?;
        let ready = conditions.iter().any(|own| own.type_ == "Ready" && own.status == "True");
        ready.then_some(node)
    })
    .await;
    let labels = node.metadata.labels.unwrap();
    assert_eq!(labels["kubernetes.io/hostname"], "n1");
    assert_eq!(labels["example.com/zone"], "a");
    let status = node.status.unwrap();
    let (capacity, allocatable) = (status.capacity.unwrap(), status.allocatable.unwrap());
    assert_eq!(capacity["cpu"], allocatable["cpu"]);
    assert_ne!(capacity["memory"], allocatable["memory"]);
    assert_eq!(allocatable["pods"].0, "110");
    assert!(status.node_info.unwrap().kubelet_version.starts_with("v1.35"));
    let addresses: Vec<_> = status.addresses.unwrap().into_iter().map(|own| own.address).collect();
    assert_eq!(addresses, ["127.0.0.1", "n1"]);

    let leases: Api<Lease> = Api::namespaced(rig.client.clone(), "kube-node-lease");
    let lease = until("a lease", || async { leases.get_opt("n1").await.unwrap() }).await;
    let spec = lease.spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some("n1"));
    assert_eq!(spec.lease_duration_seconds, Some(40));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_control_groups_runs_pods_and_says_so() {
    // There is no such group to make ours in.
    let rig = Rig::with(|config| config.cgroup_root = "tidepool-test/none/such".into()).await;
    let limits =
        json!({"containers": {"resources": {"limits": {"cpu": "100m", "memory": "16Mi"}}}});
    rig.run("free", "echo here", limits).await;
    rig.until_phase("free", "Succeeded").await;
    let nodes: Api<Node> = Api::all(rig.client.clone());
    let node = nodes.get("n1").await.unwrap();
    let missing = &node.metadata.annotations.unwrap()["tidepool.io/missing"];
    assert!(missing.contains("cannot make control group"), "{missing}");
    let conditions = node.status.unwrap().conditions.unwrap();
    let isolation = conditions.iter().find(|own| own.type_ == "tidepool.io/Isolation").unwrap();
    assert_eq!(isolation.status, "False");
    let note = rig.until_event("n1", "MissingAbility").await;
    assert!(note.contains("control group"), "{note}");
}
