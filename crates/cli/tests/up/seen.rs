//! What is seen of a cluster over time and from elsewhere: benefit that outlives the process, the
//! manager's console, and every metric that dashboards and alerts ask for.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use regex::Regex;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::console::{ask, console_of, fetch};
use crate::rig::{TIDEPOOL, Up, until};

/// Four cores half used for an hour, one of them by best-effort pods.
fn kept() -> Value {
    let sums = json!({"capacity": 14_400_000, "busy": 7_200_000, "shared": 3_600_000, "lent": 0});
    json!({"form": 1, "ledger": {
        "since": "2020-01-01T00:00:00Z", "until": "2020-01-01T01:00:00Z", "seconds": 3_600,
        "hours": [{"start": 1_577_836_800, "sums": sums}], "total": sums,
    }})
}

fn ledger(dir: &Path) -> PathBuf {
    dir.join("console").join("benefit.json")
}

/// A directory in which somebody has counted before.
fn used() -> TempDir {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("console")).unwrap();
    fs::write(ledger(dir.path()), kept().to_string()).unwrap();
    dir
}

async fn benefit(up: &Up) -> Value {
    let address = console_of(&up.said);
    until("what was kept is read", || async {
        let answer: Value = serde_json::from_str(&fetch(&address, "/api/benefit")).unwrap();
        (answer["data"]["isKept"] == true).then(|| answer["data"].clone())
    })
    .await
}

#[tokio::test]
async fn benefit_outlives_the_process_and_a_broken_file_stops_nobody() {
    let mut up = Up::launch(used(), &[], &[]);
    let before = benefit(&up).await;
    assert_eq!(before["since"], "2020-01-01T00:00:00Z", "{before}");
    assert!(before["sharedMilliCoreSeconds"].as_i64() >= Some(3_600_000), "{before}");
    assert_eq!(before["finding"], Value::Null, "{before}");

    up.kill();
    let file = ledger(up.dir());
    fs::write(&file, "{\"form\":1,\"ledg").unwrap();
    up.again();
    let anew = benefit(&up).await;
    assert_eq!(anew["finding"]["code"], "TP1501", "{anew}");
    assert_ne!(anew["since"], "2020-01-01T00:00:00Z", "{anew}");
    let aside = file.with_added_extension("unreadable");
    assert_eq!(fs::read_to_string(aside).unwrap(), "{\"form\":1,\"ledg");
}

/// A manager beside `up`; gone when the test ends.
struct Manager {
    child: Child,
    console: String,
    metrics: String,
}

impl Drop for Manager {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address where nobody listens.
fn free() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

fn manage(up: &Up) -> Manager {
    let (console, metrics) = (free(), free());
    let child = Command::new(TIDEPOOL)
        .args(["manager", "--no-leader-election", "--webhook-host", "127.0.0.1"])
        .args(["--webhook-address", "127.0.0.1:0", "--health-address", "127.0.0.1:0"])
        .args(["--metrics-address", &metrics, "--console-address", &console])
        .arg("--kubeconfig")
        .arg(up.kubeconfig())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    Manager { child, console, metrics }
}

#[tokio::test]
async fn a_manager_serves_the_console_too() {
    let up = Up::with(&["--in-memory"]);
    let manager = manage(&up);
    until("its console has the node", || async {
        let page = try_fetch(&manager.console, "/api/nodes/n1")?;
        page.contains("\"used\":{").then_some(())
    })
    .await;
    assert!(fetch(&manager.console, "/").contains("<title>Tidepool</title>"));
    let benefit: Value = serde_json::from_str(&fetch(&manager.console, "/api/benefit")).unwrap();
    assert_eq!(benefit["data"]["isKept"], false, "Prometheus keeps it");
    assert_eq!(benefit["hasSwitch"], true);
}

/// Nothing while nobody listens, or while there is no such page.
fn try_fetch(address: &str, path: &str) -> Option<String> {
    std::net::TcpStream::connect(address).ok()?;
    let (status, body) = ask(address, path);
    status.contains(" 200 ").then_some(body)
}

/// Names of metrics in the files that we ship.
fn asked_for() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    let files = ["dashboards/co-location.json", "alerts/tidepool.yaml"];
    let text: String =
        files.iter().map(|file| fs::read_to_string(root.join(file)).unwrap()).collect();
    let name = Regex::new(r"\b(koordlet|koord_manager|tidepool|process)_[a-z0-9_]+").unwrap();
    name.find_iter(&text).map(|found| found.as_str().to_owned()).collect()
}

/// What this machine need not have: an eviction, and what its kernel may not measure.
const NOT_ALWAYS: [&str; 3] =
    ["koordlet_pod_eviction", "koordlet_pod_psi", "koordlet_container_cpi"];

#[tokio::test]
async fn dashboards_and_alerts_ask_for_what_is_exported() {
    let up = Up::launch(used(), &[], &[]);
    let manager = manage(&up);
    let agent = fs::read_to_string(up.dir().join("agent").join("address")).unwrap();
    let (agent, console) = (agent.trim().to_owned(), console_of(&up.said));
    let asked = asked_for();
    assert!(asked.len() > 20, "{asked:?}");
    let told = Mutex::new(Vec::new());
    until("every metric is exported", || async {
        let pages = [
            try_fetch(&agent, "/metrics")?,
            try_fetch(&console, "/metrics")?,
            try_fetch(&manager.metrics, "/all-metrics")?,
        ];
        let text = pages.concat();
        let is_there = |name: &str| text.lines().any(|line| line.starts_with(name));
        let absent = asked.iter().filter(|name| !is_there(name));
        let absent = absent.filter(|name| !NOT_ALWAYS.contains(&name.as_str()));
        let absent: Vec<String> = absent.cloned().collect();
        let mut told = told.lock().unwrap();
        if *told != absent {
            println!("still missing: {absent:?}");
            told.clone_from(&absent);
        }
        absent.is_empty().then_some(())
    })
    .await;
}
