//! What a person with `kubectl` sees on a cluster of one.
//!
//! The sessions are under `fixtures/up`, in the form of those under `fixtures/kubectl`, and what
//! `tidepool up` proposes to type next is typed here as well.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::kubectl::{self, Session};

use crate::rig::{TIDEPOOL, Up, said, until};

/// `kubectl`, or a reason to go without.
fn find() -> Option<PathBuf> {
    let found = kubectl::find();
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "no kubectl, and CI must not go without");
        println!("SKIPPED: no kubectl; name one with TIDEPOOL_KUBECTL");
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_read_as_recorded() {
    let Some(program) = find() else { return };
    let up = Up::start();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let config = fs::read_to_string(up.kubeconfig()).unwrap();
    let mut differences = Vec::new();
    for path in kubectl::sessions(&root.join("fixtures/up")) {
        let session = Session::start(&program, &config, &path).await;
        session.link(&root.join("examples"), "examples");
        session.link(Path::new(TIDEPOOL), "bin/tidepool");
        let (played, differing) = session.play().await;
        assert!(played > 0, "{} has no commands", path.display());
        differences.extend(differing.iter().map(ToString::to_string));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_proposed_works() {
    let Some(program) = find() else { return };
    let bin = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(&program, bin.path().join("kubectl")).unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.path().display());
    let prefix = ["env", &format!("PATH={path}")];
    let up = Up::launch(tempfile::tempdir().unwrap(), &prefix, &[]);
    let commands: Vec<&str> =
        up.said.lines().skip_while(|line| *line != "Next:").skip(1).take(3).collect();
    assert!(commands[0].trim().starts_with("export KUBECONFIG="), "{commands:?}");
    let run = |command: &str| {
        let script = format!("{}; {command}", commands[0]);
        Command::new("sh").args(["-c", &script]).env("PATH", &path).output().unwrap()
    };
    assert_eq!(said(&run(commands[1])), "deployment.apps/hello created\n");
    until("the pod runs", || async { said(&run(commands[2])).contains("Running").then_some(()) })
        .await;
}
