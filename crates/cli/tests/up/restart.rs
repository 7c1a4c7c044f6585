//! Pods do not notice that `tidepool` goes and comes back.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::rig::{Up, create, is_alive, is_ready, logs, pid_of, said, status, until, until_pods};

fn deployment(replicas: u32) -> Value {
    // A dollar sign for the shell is two in a manifest.
    let script = "echo $$$$; exec sleep 1d";
    json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "terminationGracePeriodSeconds": 2,
                    "containers": [{"name": "c", "image": "host", "command": ["sh", "-c", script]}],
                },
            },
        },
    })
}

fn all_ready(count: usize) -> impl Fn(&[Pod]) -> bool {
    move |pods| pods.len() == count && pods.iter().all(is_ready)
}

async fn pids(client: &Client, pods: &[Pod]) -> BTreeMap<String, Pid> {
    let mut pids = BTreeMap::new();
    for pod in pods {
        pids.insert(pod.metadata.uid.clone().unwrap(), pid_of(client, pod).await);
    }
    pids
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_outlive_kill_and_are_found_again() {
    let mut up = Up::start();
    let client = up.client().await;
    create::<Deployment>(&client, deployment(3)).await;
    let pods = until_pods(&client, "app=web", "three are ready", all_ready(3)).await;
    let before = pids(&client, &pods).await;

    up.kill();
    assert!(before.values().all(|pid| is_alive(*pid)), "they run without it");
    up.again();
    let client = up.client().await;
    let pods = until_pods(&client, "app=web", "three are ready", all_ready(3)).await;
    assert_eq!(pids(&client, &pods).await, before);
    for pod in &pods {
        assert_eq!(status(pod).unwrap().restart_count, 0);
        assert_eq!(logs(&client, pod).await.lines().count(), 1, "started once");
    }

    // What ends while nobody looks is noticed by the next one.
    up.kill();
    let victim = pods[0].metadata.uid.clone().unwrap();
    kill_process(before[&victim], Signal::KILL).unwrap();
    up.again();
    let client = up.client().await;
    let restarted = |pods: &[Pod]| {
        let count = |pod: &Pod| status(pod).map_or(0, |own| own.restart_count);
        all_ready(3)(pods) && pods.iter().map(count).sum::<i32>() == 1
    };
    let pods = until_pods(&client, "app=web", "one was restarted", restarted).await;
    for pod in &pods {
        let uid = pod.metadata.uid.as_deref().unwrap();
        let own = status(pod).unwrap();
        if uid == victim {
            let ended = own.last_state.unwrap().terminated.unwrap();
            assert_eq!((ended.exit_code, ended.signal), (137, Some(9)));
        } else {
            assert_eq!(own.restart_count, 0);
            assert!(is_alive(before[uid]));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clean_stop_leaves_pods_and_a_purge_leaves_nothing() {
    let mut up = Up::start();
    let client = up.client().await;
    create::<Deployment>(&client, deployment(1)).await;
    let pods = until_pods(&client, "app=web", "one is ready", all_ready(1)).await;
    let pid = pid_of(&client, &pods[0]).await;

    assert!(up.interrupt(), "Ctrl-C is no failure");
    assert!(is_alive(pid));
    let plan = said(&up.tidepool(&["down", "--purge", "--dry-run"]));
    assert!(plan.contains("would end 1 pod"), "{plan}");
    assert!(is_alive(pid));

    let groups = groups(up.cgroup_root());
    let done = said(&up.tidepool(&["down", "--purge"]));
    assert!(done.contains("ended 1 pod"), "{done}");
    until("the process ends", || async { (!is_alive(pid)).then_some(()) }).await;
    for group in groups {
        assert!(!Path::new(&group).exists(), "{group} is still there");
    }
    assert!(!up.dir().exists());
}

/// Where the kernel has a control group of this name at its root.
fn groups(name: &str) -> Vec<String> {
    let hierarchies = fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
    let places = hierarchies.map(|entry| entry.path().join(name));
    let places = places.chain([Path::new("/sys/fs/cgroup").join(name)]);
    places.filter(|path| path.exists()).map(|path| path.display().to_string()).collect()
}
