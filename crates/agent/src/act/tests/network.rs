//! The network, divided by files and by classes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use api::protocol::gate::AgentGate;
use groups::Version;
use host::cookies::FakeCookies;
use host::qdisc::Tc;
use rustix::io::Errno;
use serde_json::{Value, json};

use super::super::writer::Devices;
use super::rig::{POD, Pod, Rig};

const GATES: [AgentGate; 2] = [AgentGate::TerwayQoS, AgentGate::TCNetworkQoS];

fn slo(policy: &str, total: &str) -> Value {
    json!({
        "systemStrategy": { "totalNetworkBandwidth": total },
        "resourceQOSStrategy": {
            "policies": { "netQOSPolicy": policy },
            "lsClass": { "networkQOS": { "enable": true, "egressRequest": 60, "egressLimit": 90 } },
            "beClass": { "networkQOS": { "enable": true, "egressRequest": "100M", "ingressLimit": 50 } },
        },
    })
}

/// A script in place of `tc` that writes down how it was called.
fn tc(dir: &Path, queue: &str) -> Tc {
    let script = dir.join("tc");
    let log = dir.join("log");
    let text = format!(
        "#!/bin/sh\necho \"$@\" >> {0}\ncase \"$*\" in\n\
         'qdisc show'*) cat {1} 2>/dev/null || true;;\n\
         'qdisc del'*) rm -f {1};;\n\
         *-batch*) cat >> {0}; echo 'qdisc htb 1: root refcnt 2' > {1};;\nesac\n",
        log.display(),
        dir.join("queue").display()
    );
    std::fs::write(&script, text).unwrap();
    if !queue.is_empty() {
        std::fs::write(dir.join("queue"), queue).unwrap();
    }
    let before = vec![script.display().to_string()];
    Tc { program: "sh".to_owned(), before, limit: Duration::from_secs(60) }
}

fn headline(rig: &Rig) -> Option<String> {
    let all = rig.journal.about("node");
    all.into_iter().find(|one| one.strategy == "network").map(|one| one.why.headline)
}

fn files(rig: &Rig) -> [Option<String>; 2] {
    ["global_bps_config", "pod.json"]
        .map(|name| rig.kernel.fake.text(format!("var/lib/terway/qos/{name}")))
}

fn rig(dir: &Path, queue: &str) -> Rig {
    let mut rig = Rig::with_gates(Version::V2, &GATES);
    let tc = tc(dir, queue);
    rig.use_devices(move || Devices {
        cookies: Box::new(FakeCookies::refusing(Errno::OPNOTSUPP)),
        qdiscs: Box::new(tc.clone()),
    });
    rig.kernel.fake.set("proc/net/route", "Iface\tDestination\neth0\t00000000\n");
    rig
}

#[test]
fn terway_is_told_in_files_that_go_with_the_policy() {
    let dir = tempfile::tempdir().unwrap();
    let mut rig = rig(dir.path(), "");
    let limits = json!({ "koordinator.sh/networkQOS": r#"{"egressLimit":"8M"}"# });
    rig.add(Pod { name: "web", annotations: limits, ..POD });
    rig.add(Pod { name: "job", qos: "BE", ..POD });
    rig.add(Pod { name: "bare", qos: "", ..POD });
    rig.slo(slo("terway-qos", "1G"));
    rig.tick();
    let why = headline(&rig).unwrap();
    assert!(why.contains("terway is not installed"), "{why}");
    rig.kernel.fake.set("var/lib/terway/daemon", "");
    rig.slow_round();
    let [global, pods] = files(&rig);
    let global = global.unwrap() + "\n";
    assert!(global.starts_with("hw_tx_bps_max 125000000\n"), "{global}");
    assert!(global.contains("offline_l2_tx_bps_min 12500000\n"), "bytes, not bits: {global}");
    assert!(global.contains("offline_l2_rx_bps_max 62500000\n"), "{global}");
    let pods: Value = serde_json::from_str(&pods.unwrap()).unwrap();
    let prio = |name: &str| pods[name]["prio"].as_u64();
    assert_eq!([prio("web"), prio("job"), prio("bare")], [Some(1), Some(2), Some(1)]);
    assert_eq!(
        pods["web"]["qosConfig"],
        json!({ "ingressBandwidth": 0, "egressBandwidth": 1_000_000 })
    );
    assert_eq!(pods["web"]["cgroupDir"], "/sys/fs/cgroup/net_cls/kubepods/burstable/podweb");
    assert!(!rig.rounds.is_clean());
    rig.slo(slo("tc", "0"));
    rig.tick();
    assert_eq!(files(&rig), [None, None]);
}

#[test]
fn files_that_were_there_come_back_even_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let mut rig = rig(dir.path(), "");
    rig.kernel.fake.set("var/lib/terway/qos/pod.json", "{}");
    rig.slo(slo("terway-qos", "1G"));
    rig.tick();
    assert_ne!(files(&rig)[0], None);
    rig.restart();
    rig.off_by = Some("a test".to_owned());
    rig.tick();
    assert_eq!(files(&rig), [None, Some("{}".to_owned())]);
    assert!(rig.rounds.is_clean());
}

fn log(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("log")).unwrap_or_default()
}

#[test]
fn classes_are_made_once_followed_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let mut rig = rig(dir.path(), "");
    rig.add_at(Pod { name: "web", ..POD }, "10.0.0.7");
    rig.slo(slo("tc", "1G"));
    rig.tick();
    let first = log(dir.path());
    assert!(
        first.contains("classid 1:3 htb prio 2 rate 600000000bit ceil 900000000bit"),
        "{first}"
    );
    assert!(first.contains("match ip src 10.0.0.7/32 flowid 1:3"), "{first}");
    let why = "1000 Mbit/s by htb on eth0: the online side 600 to 900, best-effort 100 to 1000";
    assert_eq!(headline(&rig).as_deref(), Some(why));
    rig.slow_round();
    assert_eq!(log(dir.path()), first, "deciding twice is quiet");
    rig.add_at(Pod { name: "job", qos: "BE", ..POD }, "10.0.0.8");
    rig.tick();
    assert!(log(dir.path()).contains("match ip src 10.0.0.8/32 flowid 1:4"));
    rig.off_by = Some("a test".to_owned());
    rig.tick();
    let said = log(dir.path());
    let last = said.lines().rfind(|line| !line.starts_with("qdisc show"));
    assert_eq!(last, Some("qdisc del dev eth0 root"), "{said}");
    assert!(!dir.path().join("queue").exists());
    assert!(rig.rounds.is_clean());
}

#[test]
fn a_queue_that_somebody_chose_and_a_network_of_unknown_size_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let chosen = "qdisc fq 8001: root refcnt 2 limit 10000p\n";
    let mut rig = rig(dir.path(), chosen);
    rig.slo(slo("tc", "1G"));
    rig.tick();
    let why = headline(&rig).unwrap();
    assert!(why.contains("eth0 has a queue that somebody chose: fq 8001: root"), "{why}");
    assert!(!log(dir.path()).contains("-batch"));
    rig.off_by = Some("a test".to_owned());
    rig.tick();
    let queue: PathBuf = dir.path().join("queue");
    assert_eq!(std::fs::read_to_string(queue).unwrap(), chosen);
    assert!(rig.rounds.is_clean());

    let dir = tempfile::tempdir().unwrap();
    let mut rig = self::rig(dir.path(), "");
    rig.slo(slo("tc", "0"));
    rig.tick();
    assert_eq!((log(dir.path()).as_str(), headline(&rig)), ("", None));
}
