//! Do the measurements run, and print what they promise?

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

const TIDEPOOL: &str = env!("CARGO_BIN_EXE_tidepool");

fn measure(arguments: &[&str]) -> Value {
    let output = Command::new(TIDEPOOL)
        .args(["bench", "api", "--json", "--clients", "2"])
        .args(arguments)
        .output()
        .expect("the binary was built with this test");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    assert_eq!(errors, "", "stderr is no terminal, so there is no progress");
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

fn is_positive(report: &Value, key: &str) -> bool {
    report[key].as_f64().is_some_and(|number| number > 0.0)
}

#[test]
fn both_stores_are_measured() {
    for store in ["memory", "disk"] {
        let arguments = ["--store", store, "--pods", "20", "--nodes", "3", "--watchers", "2"];
        let report = measure(&arguments);
        assert_eq!(report["store"], store);
        assert_eq!((&report["pods"], &report["nodes"]), (&20.into(), &3.into()));
        assert_eq!(report["watch_missed"], 0);
        for key in ["pods_per_s", "writes_per_s", "watch_events_per_s", "rss_mib"] {
            assert!(is_positive(&report, key), "{key} in {report}");
        }
        for verb in ["create", "bind", "status"] {
            assert!(is_positive(&report[verb], "p99_ms"), "{verb} in {report}");
        }
    }
}

#[test]
fn a_start_finds_every_object() {
    let report = measure(&["--start", "--objects", "50"]);
    assert_eq!(report["objects"], 50);
    assert!(is_positive(&report, "start_ms"), "{report}");
}

#[test]
fn a_start_is_measured_on_disk_only() {
    let output = Command::new(TIDEPOOL)
        .args(["bench", "api", "--start", "--store", "memory"])
        .output()
        .expect("the binary was built with this test");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn every_mix_of_pods_is_scheduled_and_agrees_with_a_second_look() {
    for mix in ["basic", "affinity", "spread", "numa", "loadaware", "preempt"] {
        let output = Command::new(TIDEPOOL)
            .args(["bench", "scheduler", "--nodes", "30", "--pods", "100", "--json", "--mix", mix])
            .output()
            .expect("the binary was built with this test");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
        assert!(output.status.success(), "{mix}: {errors}{report}");
        assert_eq!(report["mix"], mix);
        assert_eq!(report["equal_to_brute_force"], true, "{report}");
        for key in ["decisions_per_s", "p99_us", "rss_mib", "placed"] {
            assert!(is_positive(&report, key), "{mix}: {key} in {report}");
        }
    }
}

#[test]
fn pods_are_bound_through_the_api_beside_a_binder_that_decides_nothing() {
    let output = Command::new(TIDEPOOL)
        .args(["bench", "scheduler", "--nodes", "20", "--pods", "60", "--through-api", "--json"])
        .output()
        .expect("the binary was built with this test");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    for key in ["pods_per_s", "null_pods_per_s", "ratio"] {
        assert!(is_positive(&report["through_api"], key), "{key} in {report}");
    }
}

fn drive(arguments: &[&str]) -> std::process::Output {
    Command::new(TIDEPOOL)
        .args(["bench", "cluster", "drive", "--embedded", "memory", "--nodes", "20", "--json"])
        .args(arguments)
        .output()
        .expect("the binary was built with this test")
}

#[test]
fn a_binder_is_measured_with_pods_that_wait_and_pods_that_come() {
    let null = ["bench", "cluster", "bind"];
    let ours = ["scheduler", "--no-leader-election", "--address", "127.0.0.1:0"];
    for (name, binder) in [("any", &null[..]), ("koord-scheduler", &ours[..])] {
        let pods = ["--pods", "60", "--steady-pods", "20", "--scheduler-name", name];
        let output = drive(&[&pods[..], &["--", TIDEPOOL], binder].concat());
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{binder:?}: {errors}");
        let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
        for key in ["created_per_s", "pods_per_s", "start_s", "binder_mib", "server_mib"] {
            assert!(is_positive(&report, key), "{key} in {report}");
        }
        for key in ["binder_cpu_s", "server_cpu_s", "quiet_s"] {
            assert!(report[key].is_f64(), "{key} in {report}");
        }
        assert!(is_positive(&report["steady"], "p99_ms"), "{report}");
    }
}

#[test]
fn a_binder_that_ends_is_an_error_with_its_last_words() {
    let output = drive(&["--pods", "1", "--", TIDEPOOL, "no-such-command"]);
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("the binder ended") && errors.contains("no-such-command"), "{errors}");
}

/// A server on loopback, until its standard input ends.
fn server(dir: &Path) -> Child {
    let mut server = Command::new(TIDEPOOL)
        .args(["bench", "api-server", "--store", "memory", "--dir"])
        .arg(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary was built with this test");
    let said = server.stdout.take().expect("it is a pipe");
    let ready = BufReader::new(said).lines().next().expect("it says that it is ready");
    assert_eq!(ready.expect("it is text"), "ready");
    server
}

#[test]
fn a_cluster_is_filled_used_and_cleared() {
    let dir = tempfile::tempdir().expect("temporary files can be made");
    let mut server = server(dir.path());
    let kubeconfig = dir.path().join("kubeconfig");
    let run = |arguments: &[&str]| {
        let output = Command::new(TIDEPOOL)
            .args(arguments)
            .env("KUBECONFIG", &kubeconfig)
            .output()
            .expect("the binary was built with this test");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).expect("it is text")
    };
    let count = |kind: &str| {
        let list: Value = serde_json::from_str(&run(&["get", kind, "-A", "-o", "json"]))
            .expect("one JSON object");
        list["items"].as_array().map(Vec::len)
    };

    run(&["bench", "cluster", "fill", "--nodes", "3"]);
    run(&["bench", "cluster", "fill", "--nodes", "5"]);
    assert_eq!(count("nodes"), Some(5));
    let drive = ["bench", "cluster", "drive", "--pods", "20", "--rate", "0", "--", TIDEPOOL];
    let text = run(&[&drive[..], &["bench", "cluster", "bind"]].concat());
    assert!(text.starts_with("20 pods: "), "{text}");
    run(&["bench", "cluster", "clear"]);
    assert_eq!((count("nodes"), count("pods")), (Some(0), Some(0)));

    drop(server.stdin.take());
    server.wait().expect("it ends with its input");
}
