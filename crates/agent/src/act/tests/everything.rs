//! A node on which something of every kind is changed.

use std::collections::{BTreeMap, BTreeSet};

use api::protocol::gate::AgentGate;
use groups::{Knob, Setting, Version};
use host::cookies::FakeCookies;
use host::qdisc::FakeQdiscs;
use serde_json::{Value, json};

use super::super::writer::Devices;
use super::rig::{MoodyCookies, MoodyQdiscs, POD, Pod, Rig};

const GATES: [AgentGate; 7] = [
    AgentGate::CoreSched,
    AgentGate::SystemConfig,
    AgentGate::ColdPageCollector,
    AgentGate::Resctrl,
    AgentGate::OOMScoreAdj,
    AgentGate::TerwayQoS,
    AgentGate::TCNetworkQoS,
];

const FILES: [(&str, &str); 19] = [
    ("proc/net/route", "Iface\tDestination\neth0\t00000000\n"),
    ("proc/sys/vm/watermark_scale_factor", "10\n"),
    ("proc/sys/vm/min_free_kbytes", "67584\n"),
    ("proc/11/oom_score_adj", "900\n"),
    ("proc/21/oom_score_adj", "1000\n"),
    ("sys/kernel/mm/kidled/scan_period_in_seconds", "0\n"),
    ("sys/kernel/mm/kidled/use_hierarchy", "0\n"),
    ("sys/kernel/debug/sched/features", "GENTLE NO_HRTICK WAKEUP\n"),
    ("sys/fs/resctrl/schemata", "L3:0=7ff;1=7ff\nMB:0=100;1=100\n"),
    ("sys/fs/resctrl/tasks", "1\n11\n12\n21\n"),
    ("sys/fs/resctrl/info/L3/cbm_mask", "7ff\n"),
    ("sys/fs/resctrl/info/L3/min_cbm_bits", "1\n"),
    ("sys/fs/resctrl/info/L3/num_closids", "16\n"),
    ("sys/fs/resctrl/info/MB/min_bandwidth", "10\n"),
    ("sys/fs/resctrl/LS/schemata", "L3:0=7f0;1=7f0\nMB:0=50;1=50\n"),
    ("sys/fs/resctrl/LS/tasks", "7\n"),
    ("var/lib/terway/qos/pod.json", "{}"),
    ("proc/sys/kernel/sched_group_identity_enabled", "1\n"),
    ("proc/sys/kernel/sched_core", "0\n"),
];

/// What operators want: everything, with the network divided in one of two ways.
pub(super) fn slo(network: &str) -> Value {
    json!({
        "resourceUsedThresholdWithBE": { "enable": true, "cpuSuppressPolicy": "cpuset" },
        "systemStrategy": { "totalNetworkBandwidth": "1G", "watermarkScaleFactor": 150,
            "minFreeKbytesFactor": 100, "schedFeatures": { "HRTICK": true } },
        "resourceQOSStrategy": {
            "policies": { "netQOSPolicy": network, "cpuPolicy": "coreSched" },
            "lsClass": { "cpuQOS": { "enable": true }, "resctrlQOS": { "enable": true },
                "networkQOS": { "enable": true, "egressRequest": 60 } },
            "beClass": { "cpuQOS": { "enable": true, "schedIdle": 1 },
                "resctrlQOS": { "enable": true, "mbaPercent": 35 } },
        },
    })
}

pub(super) struct Everything {
    pub(super) rig: Rig,
    pub(super) cookies: FakeCookies,
    pub(super) qdiscs: FakeQdiscs,
}

impl Everything {
    pub(super) fn new(version: Version) -> Self {
        let mut rig = Rig::with_gates(version, &GATES);
        let (cookies, qdiscs) = (FakeCookies::default(), FakeQdiscs::of(&["eth0"]));
        let (kernel, given) = (rig.kernel.clone(), (cookies.clone(), qdiscs.clone()));
        rig.use_devices(move || Devices {
            cookies: Box::new(MoodyCookies(given.0.clone(), kernel.clone())),
            qdiscs: Box::new(MoodyQdiscs(given.1.clone(), kernel.clone())),
        });
        for (path, text) in FILES {
            rig.kernel.fake.set(path, text);
        }
        // A stranger has a cookie of its own.
        cookies.start(7, 70);
        rig.kernel.fake.set("proc/7/stat", "");
        rig.slo(slo("tc"));
        let mut node = Self { rig, cookies, qdiscs };
        node.rig.add(Pod { name: "lse", qos: "LSE", cpus: "0-1", ..POD });
        let score = json!({ "koordinator.sh/oom-score-adj": "-200" });
        node.add(Pod { name: "web", annotations: score, ..POD }, "10.0.0.7", &[11, 12]);
        let batch = json!({ "limits": { "kubernetes.io/batch-cpu": "2k" } });
        node.add(Pod { name: "job", qos: "BE", resources: batch, ..POD }, "10.0.0.8", &[21]);
        node.own_cpus();
        node
    }

    fn add(&mut self, pod: Pod, address: &str, processes: &[u32]) {
        let name = pod.name;
        self.rig.add_at(pod, address);
        for process in processes {
            self.cookies.start(*process, 0);
            self.rig.run_process(name, *process);
        }
    }

    /// v2 takes no set of CPUs away from a group with processes, so that all of them have one before.
    fn own_cpus(&self) {
        let tree = &self.rig.tree;
        let mut groups = vec![self.rig.tier()];
        while let Some(group) = groups.pop() {
            let all = Setting::Cpus("0-15".parse().unwrap());
            tree.set(&group, Knob::CpusetCpus, &all).unwrap();
            let below = tree.children(&group).unwrap().value().unwrap();
            groups.extend(below.iter().map(|name| group.child(name)));
        }
        for pod in ["kubepods/burstable/podweb", "kubepods/podlse"] {
            let pod = groups::CgroupPath::new(pod);
            let all = Setting::Cpus("0-15".parse().unwrap());
            for group in [pod.clone(), pod.child("web"), pod.child("lse"), pod.child("sandbox")] {
                if tree.exists(&group) {
                    tree.set(&group, Knob::CpusetCpus, &all).unwrap();
                }
            }
        }
    }

    /// Everything that can be changed, one a line. Cookies have no names, only sharers.
    pub(super) fn show(&self) -> BTreeSet<String> {
        let files = self.rig.kernel.fake.to_fixture();
        let files = files.split("-- ").filter_map(|file| file.split_once(" --\n"));
        let file = |(path, text): (&str, &str)| {
            let mut lines: Vec<&str> = text.lines().collect();
            if path.ends_with("/tasks") {
                lines.sort_unstable();
            }
            format!("{path}: {}", lines.join(", "))
        };
        let queues = self.qdiscs.show();
        let queues = queues.lines().map(|line| format!("queue {line}"));
        let mut sharers: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        for (process, cookie) in self.cookies.all() {
            sharers.entry(cookie).or_default().push(process);
        }
        let has_none = |cookie: &u64| if *cookie == 0 { "nothing" } else { "a cookie" };
        let cookies =
            sharers.iter().map(|(cookie, all)| format!("{all:?} share {}", has_none(cookie)));
        files.map(file).chain(queues).chain(cookies).collect()
    }

    pub(super) fn differs(&self, before: &BTreeSet<String>) -> Vec<String> {
        self.show().symmetric_difference(before).cloned().collect()
    }

    /// So much time passes that every kind is written: vendor switches one after the other, then cookies.
    pub(super) fn work(&mut self) {
        self.rig.uses("web", 8.0);
        for _ in 0..3 {
            self.rig.slow_round();
        }
    }
}
