//! Somebody who is not root has a cluster too.

use std::os::unix::fs::chown;
use std::process::Command;

use k8s_openapi::api::core::v1::Pod;
use rustix::process::geteuid;
use serde_json::json;

use crate::rig::{TIDEPOOL, Up, create, logs, phase, until_pods};

const USER: u32 = 65_534;

#[tokio::test(flavor = "multi_thread")]
async fn pods_run_without_root_and_what_is_missing_is_said() {
    let user = USER.to_string();
    let prefix = ["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups", "--"];
    let prefix: &[&str] = if geteuid().is_root() { &prefix } else { &[] };
    if let [first, rest @ ..] = prefix {
        let tried = Command::new(first).args(rest).args([TIDEPOOL, "--version"]).output();
        if !tried.is_ok_and(|output| output.status.success()) {
            println!("skipped: no other user can run {TIDEPOOL}");
            return;
        }
    }
    let dir = tempfile::tempdir().unwrap();
    if geteuid().is_root() {
        chown(dir.path(), Some(USER), Some(USER)).unwrap();
    }
    let up = Up::launch(dir, prefix, &["--in-memory"]);
    assert!(up.said.contains("missing     "), "{}", up.said);
    let client = up.client().await;
    let pod = json!({
        "metadata": {"name": "p", "labels": {"app": "p"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{
                "name": "c",
                "image": "host",
                "command": ["id", "-u"],
                "resources": {"limits": {"cpu": "1", "memory": "64Mi"}},
            }],
        },
    });
    create::<Pod>(&client, pod).await;
    let is_done = |pods: &[Pod]| phase(&pods[0]) == "Succeeded";
    let pods = until_pods(&client, "app=p", "it is done", is_done).await;
    let uid = if geteuid().is_root() { user } else { geteuid().as_raw().to_string() };
    assert_eq!(logs(&client, &pods[0]).await.trim(), uid);
}
