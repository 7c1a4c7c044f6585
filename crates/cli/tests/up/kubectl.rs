//! What a person with `kubectl` sees on a cluster of one.
//!
//! The sessions are under `fixtures/up`, in the form of those under `fixtures/kubectl`. What
//! `tidepool up` proposes to type next is typed here as well, and so are README and guide.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;
use testkit::kubectl::{self, Session, Step};

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
    let root = root();
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

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_readme_starts_a_cluster() {
    follow("README.md").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guide_to_one_machine_is_true() {
    follow("docs/guides/one-machine.md").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guide_to_lending_is_true() {
    follow("docs/guides/lend-idle-capacity.md").await;
}

/// Does what a page says, from its `tidepool up` on.
async fn follow(page: &str) {
    let Some(program) = find() else { return };
    let page = root().join(page);
    let steps = kubectl::steps(&fs::read_to_string(&page).unwrap());
    assert_eq!(steps[0].command, "tidepool up", "{}", page.display());
    let bin = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(&program, bin.path().join("kubectl")).unwrap();
    let path = format!("PATH={}:/usr/bin:/bin", bin.path().display());
    let mut up = Up::launch(tempfile::tempdir().unwrap(), &["env", &path], &[]);
    let config = fs::read_to_string(up.kubeconfig()).unwrap();
    let mut session = Session::start(&program, &config, &page).await;
    session.link(&root().join("examples"), "examples");
    session.link(Path::new(TIDEPOOL), "bin/tidepool");
    session.set("TIDEPOOL_STATE_DIR", up.dir());
    let mut is_first = true;
    for Step { command, output } in &steps {
        if command == "tidepool up" {
            if !is_first {
                up.child.wait().unwrap();
                up.again();
                session.reconnect(&fs::read_to_string(up.kubeconfig()).unwrap()).await;
            }
            is_first = false;
            let (said, want) = (anywhere(&up.said), anywhere(output));
            // A page may leave the rest to another one.
            assert!(said.starts_with(&want), "{}: {said}", page.display());
            continue;
        }
        let output = output.replace("~/.local/state/tidepool", up.dir().to_str().unwrap());
        let step = Step { command: command.clone(), output };
        let difference = session.check(&step).await;
        assert!(difference.is_none(), "{}", difference.unwrap());
    }
}

/// The text without what differs from machine to machine.
fn anywhere(said: &str) -> String {
    let mut text = said.trim_end().to_owned();
    for (expression, stand_in) in [
        (r"https://127.0.0.1:\d+", "<url>"),
        (r"http://127.0.0.1:\d+", "<console>"),
        (r"\S+/kubeconfig", "<kubeconfig>"),
        (r"n1: \S+ CPUs and \S+ GiB", "n1: <size>"),
    ] {
        text = Regex::new(expression).unwrap().replace_all(&text, stand_in).into_owned();
    }
    text
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
