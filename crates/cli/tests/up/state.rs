//! What is in the state directory, and who may use it?

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use crate::rig::{Up, said, tidepool, until};

#[test]
fn an_object_survives_a_crash_and_a_second_start_is_refused() {
    let mut up = Up::start();
    let dir = up.dir().to_owned();
    let dir = dir.as_path();

    let namespace = "tests/cmd/namespace.yaml";
    let applied = tidepool(dir, &["apply", "-f", namespace]);
    assert_eq!(said(&applied), "namespace/team-a created\n");
    assert_eq!(said(&tidepool(dir, &["apply", "-f", namespace])), "namespace/team-a unchanged\n");

    let second = tidepool(dir, &["up", "--port", "0"]);
    assert_eq!(second.status.code(), Some(2));
    let pid = up.child.id().to_string();
    assert!(said(&second).contains(&pid), "{} does not name process {pid}", said(&second));

    up.kill();
    up.again();
    let got = said(&tidepool(dir, &["get", "ns", "team-a"]));
    assert!(got.starts_with("NAME") && got.contains("\nteam-a"), "{got}");

    let deleted = tidepool(dir, &["delete", "-f", namespace, "--dry-run"]);
    assert_eq!(said(&deleted), "namespace/team-a deleted (dry run)\n");

    let down = tidepool(dir, &["down"]);
    assert_eq!(said(&down), format!("stopped process {}\n", up.child.id()));
    let purged = said(&tidepool(dir, &["down", "--purge"]));
    assert!(purged.contains("nothing is running"), "{purged}");
    assert!(!dir.join("store").exists());
}

#[test]
fn mistakes_are_answered_with_the_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let lonely = tidepool(dir, &["get", "ns", "--kubeconfig", "no-such-file"]);
    assert_eq!(lonely.status.code(), Some(2));
    assert!(said(&lonely).contains("tidepool up"), "{}", said(&lonely));

    let up = Up::start();
    let dir = up.dir();
    let unknown = tidepool(dir, &["get", "bananas"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(said(&unknown).contains("does not know \"bananas\""), "{}", said(&unknown));

    let homeless = tidepool(dir, &["apply", "-f", "tests/cmd/homeless.yaml"]);
    assert_eq!(homeless.status.code(), Some(1));
    let message = said(&homeless);
    assert!(message.contains("namespaces \"nowhere\" not found"), "{message}");
}

/// All state is the user's alone: it holds the key to the cluster. Files may go while we look.
#[tokio::test(flavor = "multi_thread")]
async fn state_is_for_its_owner_only() {
    let up = Up::start();
    let ledger = up.dir().join("agent/ledger");
    until("the agent acts", || async { ledger.exists().then_some(()) }).await;
    let mut folders = vec![up.dir().to_owned()];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
                continue;
            }
            let Ok(metadata) = entry.metadata() else { continue };
            let mode = metadata.permissions().mode();
            assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", entry.path().display());
            files += 1;
        }
    }
    assert!(files >= 5, "only {files} files");
}

#[test]
fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let dir = tempfile::tempdir().unwrap();
    let refused = tidepool(dir.path(), &["up", "--port", &port]);
    assert_eq!(refused.status.code(), Some(2));
    let message = said(&refused);
    assert!(
        message.contains(&format!("127.0.0.1:{port}")) && message.contains("--port"),
        "{message}"
    );
}

#[test]
fn a_cluster_in_memory_leaves_only_its_keys_and_what_the_agent_changed() {
    let mut up = Up::with(&["--in-memory"]);
    let refused = tidepool(up.dir(), &["up", "--port", "0"]);
    assert!(said(&refused).contains(&up.child.id().to_string()), "{}", said(&refused));
    let down = tidepool(up.dir(), &["down"]);
    assert_eq!(said(&down), format!("stopped process {}\n", up.child.id()));
    assert!(up.child.wait().unwrap().success());
    let mut left: Vec<_> = fs::read_dir(up.dir())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    // Changes of the machine outlive the process, so their ledger does.
    assert_eq!(left, ["agent", "credentials", "kubeconfig", "lock"]);
}
