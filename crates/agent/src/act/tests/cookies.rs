//! Who shares a core with whom.

use std::collections::BTreeMap;

use api::protocol::gate::AgentGate;
use groups::{Knob, Version};
use host::cookies::FakeCookies;
use rustix::io::Errno;
use serde_json::{Value, json};

use super::rig::{POD, Pod, Rig};

fn on() -> Value {
    json!({ "resourceQOSStrategy": {
        "policies": { "cpuPolicy": "coreSched" },
        "lsClass": { "cpuQOS": { "enable": true } },
        "beClass": { "cpuQOS": { "enable": true, "schedIdle": 1 } },
    } })
}

/// Two online pods and two best-effort ones, with a process each; one pod shares with nobody.
fn rig(version: Version, cookies: &FakeCookies) -> Rig {
    let mut rig = Rig::with_gates(version, &[AgentGate::CoreSched]);
    rig.use_cookies(cookies);
    rig.slo(on());
    for (name, qos, process) in [("web", "LS", 11), ("api", "LS", 12), ("job", "BE", 21)] {
        rig.add(Pod { name, qos, ..POD });
        start(&rig, cookies, name, process, 0);
    }
    rig
}

fn start(rig: &Rig, cookies: &FakeCookies, pod: &str, process: u32, cookie: u64) {
    cookies.start(process, cookie);
    rig.run_process(pod, process);
}

#[test]
fn groups_have_cookies_of_their_own_and_give_them_back() {
    for version in [Version::V1, Version::V2] {
        let cookies = FakeCookies::default();
        let mut rig = rig(version, &cookies);
        rig.tick();
        assert_eq!(cookies.all(), BTreeMap::from([(11, 2), (12, 2), (21, 1)]), "{version:?}");
        let page = rig.journal.page();
        let headline = |about: &str| {
            let mut all = page.decisions.iter().filter(|one| one.strategy == "cookies");
            all.find(|one| one.why.about == about).unwrap().why.headline.clone()
        };
        let node = "cores are shared within groups only: 1 processes of the default group, \
                    2 processes of group -expeller";
        assert_eq!(headline("node"), node);
        assert_eq!(headline("d/job"), "shares cores only with the default group");
        assert_eq!(rig.text(&rig.tier().child("podjob"), Knob::CpuIdle), "1", "schedIdle");
        let changes = cookies.changes();
        rig.slow_round();
        assert_eq!(cookies.changes(), changes, "deciding twice is quiet");

        // A child of the job left its group for another one.
        cookies.start(99, 1);
        rig.kernel.fake.set("proc/99/stat", "");
        rig.off_by = Some("a test".to_owned());
        rig.tick();
        assert_eq!(
            cookies.all().into_values().collect::<Vec<_>>(),
            [0; 4],
            "nobody has one, {version:?}"
        );
        assert!(rig.rounds.is_clean(), "{version:?}");
        rig.off_by = None;
        rig.tick();
        assert_eq!(cookies.all()[&11], cookies.all()[&12], "{version:?}");
        assert_ne!(cookies.all()[&11], 0, "{version:?}");
    }
}

#[test]
fn a_new_life_knows_its_own_cookies_and_leaves_those_of_others() {
    let cookies = FakeCookies::default();
    let mut rig = rig(Version::V2, &cookies);
    rig.tick();
    let before = cookies.all();
    rig.restart();
    // A virtual machine has made a cookie for itself.
    start(&rig, &cookies, "web", 13, 77);
    start(&rig, &cookies, "api", 14, 0);
    rig.tick();
    let now = cookies.all();
    assert_eq!((now[&11], now[&12], now[&21]), (before[&11], before[&12], before[&21]));
    assert_eq!((now[&13], now[&14]), (77, before[&11]), "one is left alone, one joins");
    rig.off_by = Some("a test".to_owned());
    rig.tick();
    assert_eq!(cookies.all()[&13], 77);
    assert_eq!(cookies.all()[&14], 0);
}

#[test]
fn a_pod_may_stay_alone_or_out_of_it() {
    let cookies = FakeCookies::default();
    let mut rig = rig(Version::V2, &cookies);
    for (name, policy, process) in [("alone", "exclusive", 15), ("free", "none", 16)] {
        let labels = json!({ "koordinator.sh/core-sched-policy": policy });
        rig.add_with(Pod { name, ..POD }, &labels, None);
        start(&rig, &cookies, name, process, 0);
    }
    rig.tick();
    let now = cookies.all();
    assert_eq!(now[&16], 0);
    let others = [now[&11], now[&12], now[&21]];
    assert!(now[&15] != 0 && !others.contains(&now[&15]), "{now:?}");
    rig.slo(json!({}));
    rig.tick();
    assert_eq!(cookies.all().into_values().collect::<Vec<_>>(), [0; 5], "another policy");
    assert!(rig.rounds.is_clean());
}

#[test]
fn a_kernel_without_cookies_is_asked_once_and_says_so() {
    for errno in [Errno::INVAL, Errno::NODEV, Errno::PERM] {
        let cookies = FakeCookies::refusing(errno);
        let mut rig = rig(Version::V2, &cookies);
        rig.tick();
        rig.slow_round();
        let decisions = rig.journal.about("node");
        let why = decisions.iter().find(|one| one.strategy == "cookies").unwrap();
        let reason = std::io::Error::from(errno).to_string();
        assert_eq!(why.why.headline, format!("cores are shared with everybody: {reason}"));
        assert_eq!((cookies.changes(), rig.rounds.is_clean()), (0, false), "idle pods are held");
    }
}

#[test]
fn a_process_that_refuses_does_not_keep_others_from_it() {
    let cookies = FakeCookies::default();
    let mut rig = rig(Version::V2, &cookies);
    cookies.guard(12, Errno::PERM);
    rig.tick();
    let now = cookies.all();
    assert_eq!(now[&12], 0);
    assert!(now[&11] != 0 && now[&21] != 0, "{now:?}");
}

#[test]
fn vendor_kernels_lose_their_identities_first() {
    let cookies = FakeCookies::default();
    let mut rig = rig(Version::V2, &cookies);
    rig.kernel.fake.set("proc/sys/kernel/sched_group_identity_enabled", "1\n");
    rig.kernel.fake.set("proc/sys/kernel/sched_core", "0\n");
    rig.tick();
    let read = |rig: &Rig, file: &str| rig.kernel.fake.text(format!("proc/sys/kernel/{file}"));
    assert_eq!(read(&rig, "sched_group_identity_enabled").unwrap(), "0");
    assert_eq!(read(&rig, "sched_core").unwrap(), "0", "not in the same round");
    assert_eq!(cookies.changes(), 0);
    rig.slow_round();
    assert_eq!(read(&rig, "sched_core").unwrap(), "1");
    assert_eq!(cookies.changes(), 0);
    rig.slow_round();
    assert!(cookies.changes() > 0);
    rig.off_by = Some("a test".to_owned());
    rig.tick();
    assert_eq!(read(&rig, "sched_group_identity_enabled").unwrap(), "1");
    assert_eq!(read(&rig, "sched_core").unwrap(), "0");
    assert!(cookies.all().into_values().all(|cookie| cookie == 0));
}
