//! `tidepool demo` with real processes: what it prints, and what it leaves behind.
//!
//! Whether Tidepool helps is not asked here: a machine that runs tests is not quiet.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::fs;
use std::future::ready;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use testkit::wait::until;

fn demo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidepool"));
    command.arg("demo").args(arguments);
    command
}

/// Control groups of this demo, in any hierarchy.
fn groups(pid: u32) -> Vec<PathBuf> {
    let names = [format!("tidepool-demo-{pid}"), format!("tidepool-demo-client-{pid}")];
    let mut roots = vec![PathBuf::from("/sys/fs/cgroup")];
    roots.extend(fs::read_dir("/sys/fs/cgroup").unwrap().map(|entry| entry.unwrap().path()));
    let all = roots.iter().flat_map(|root| names.iter().map(|name| root.join(name)));
    all.filter(|group| group.exists()).collect()
}

/// Processes whose command line has these words.
fn processes(words: &str) -> usize {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).replace('\0', " ").contains(words)).count()
}

#[test]
fn three_phases_are_measured_and_nothing_is_left() {
    let child = demo(&["--seconds", "5", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", output.status);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    for phase in ["a", "b", "c"] {
        let phase = &report["phases"][phase];
        assert!(phase["requests"].as_u64() > Some(500), "{report:#}");
        let keys = ["utilisation_percent", "p50_ms", "p99_ms", "p999_ms", "missed_percent"];
        assert!(keys.iter().all(|key| phase[key].is_number()), "{report:#}");
    }
    assert_eq!(report["phases"]["a"]["batch_units"], 0, "{report:#}");
    assert!(report["phases"]["b"]["batch_units"].as_u64() > Some(0), "{report:#}");
    // Beside other tests there may be no room for best-effort.
    assert!(report["phases"]["c"]["batch_units"].is_u64(), "{report:#}");
    assert!(report["verdict"].as_str().is_some_and(|text| text.contains("Tidepool")), "{report:#}");
    assert_eq!(groups(pid), Vec::<PathBuf>::new());
    assert_eq!(processes(&format!("tidepool-demo-{pid}")), 0);
}

/// A demo that is in the middle of its first phase.
async fn playing() -> Child {
    let mut child = demo(&["--seconds", "60", "--json"]).stdout(Stdio::null()).spawn().unwrap();
    let pid = child.id();
    let client = format!("tidepool-demo-client-{pid}");
    until("the load runs", || {
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "the demo gave up: {ended:?}");
        let runs = groups(pid).iter().any(|group| {
            let procs = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
            group.ends_with(&client) && !procs.is_empty()
        });
        ready(runs.then_some(()))
    })
    .await;
    child
}

#[tokio::test]
async fn an_interrupt_cleans_up() {
    let mut child = playing().await;
    let pid = child.id();
    let interrupt = Command::new("kill").args(["-INT", &pid.to_string()]).status().unwrap();
    assert!(interrupt.success());
    assert_eq!(child.wait().unwrap().code(), Some(2));
    assert_eq!(groups(pid), Vec::<PathBuf>::new());
    assert_eq!(processes(&format!("tidepool-demo-{pid}")), 0);
}

#[tokio::test]
async fn a_killed_demo_leaves_no_process_and_the_next_one_sweeps_its_group() {
    let mut child = playing().await;
    let pid = child.id();
    child.kill().unwrap();
    child.wait().unwrap();
    until("its cluster ends and removes its pods", async || {
        let is_left = processes(&format!("tidepool-demo-{pid}")) > 0
            || groups(pid).iter().any(|group| !group.to_string_lossy().contains("client"));
        (!is_left).then_some(())
    })
    .await;
    let mut next = playing().await;
    assert_eq!(groups(pid), Vec::<PathBuf>::new());
    let interrupt = Command::new("kill").args(["-INT", &next.id().to_string()]).status().unwrap();
    assert!(interrupt.success());
    next.wait().unwrap();
}
