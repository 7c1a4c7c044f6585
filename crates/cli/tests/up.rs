//! One machine, as a person uses it: start, apply, crash, start again, stop.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const TIDEPOOL: &str = env!("CARGO_BIN_EXE_tidepool");

/// A running `tidepool up`, killed when the test ends.
struct Up(Child);

impl Up {
    /// Starts and waits for the line that says it is ready.
    fn start(dir: &Path) -> Self {
        let mut child = Command::new(TIDEPOOL)
            .args(["up", "--port", "0", "--state-dir"])
            .arg(dir)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary was built with this test");
        let output = child.stdout.take().expect("stdout is piped");
        let line = BufReader::new(output).lines().next();
        let line = line.and_then(Result::ok).unwrap_or_default();
        assert!(line.starts_with("ready"), "{line:?}");
        Self(child)
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn tidepool(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(TIDEPOOL)
        .args(arguments)
        .env("TIDEPOOL_STATE_DIR", dir)
        .env_remove("KUBECONFIG")
        .output()
        .expect("the binary was built with this test")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn an_object_survives_a_crash_and_a_second_start_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut up = Up::start(dir);

    let namespace = "tests/cmd/namespace.yaml";
    let applied = tidepool(dir, &["apply", "-f", namespace]);
    assert_eq!(said(&applied), "namespace/team-a created\n");
    assert_eq!(said(&tidepool(dir, &["apply", "-f", namespace])), "namespace/team-a unchanged\n");

    let second = tidepool(dir, &["up", "--port", "0"]);
    assert_eq!(second.status.code(), Some(2));
    let pid = up.0.id().to_string();
    assert!(said(&second).contains(&pid), "{} does not name process {pid}", said(&second));

    up.0.kill().unwrap();
    up.0.wait().unwrap();
    let up = Up::start(dir);
    let got = said(&tidepool(dir, &["get", "ns", "team-a"]));
    assert!(got.starts_with("NAME") && got.contains("\nteam-a"), "{got}");

    let deleted = tidepool(dir, &["delete", "-f", namespace, "--dry-run"]);
    assert_eq!(said(&deleted), "namespace/team-a deleted (dry run)\n");

    let down = tidepool(dir, &["down"]);
    assert_eq!(said(&down), format!("stopped process {}\n", up.0.id()));
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

    let _up = Up::start(dir);
    let unknown = tidepool(dir, &["get", "bananas"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(said(&unknown).contains("does not know \"bananas\""), "{}", said(&unknown));

    let homeless = tidepool(dir, &["apply", "-f", "../../examples/slo-controller-config.yaml"]);
    assert_eq!(homeless.status.code(), Some(1));
    let message = said(&homeless);
    assert!(message.contains("namespaces \"koordinator-system\" not found"), "{message}");
}

/// All state is the user's alone: it holds the key to the cluster.
#[test]
fn state_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;

    let dir = tempfile::tempdir().unwrap();
    let _up = Up::start(dir.path());
    let mut folders = vec![dir.path().to_owned()];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
                continue;
            }
            let mode = entry.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", entry.path().display());
            files += 1;
        }
    }
    assert!(files >= 5, "only {files} files");
}
