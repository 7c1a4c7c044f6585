//! Who gets more of a CPU that two want?
//!
//! Two groups compete where their paths part. There best-effort's weight is never above the online
//! side's, whatever is configured and whatever pods ask for:
//!
//! ```text
//! kubepods ─┬─ podlse               a request of its own
//!           ├─ burstable  ── podls  the sum of what is below
//!           └─ besteffort ── podbe  the least there is
//! ```
//!
//! A best-effort pod that asks for CPUs as online pods do is among those of `burstable`, with the
//! weight the kubelet gave it for that; it is not made heavier.

use api::qos::KubeQos;
use groups::{CgroupPath, Knob, Setting, Shares, Version};
use proptest::prelude::*;
use serde_json::json;

use super::rig::{POD, Pod, Rig};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// What a kubelet gives to a request, in thousandths of a CPU.
fn shares(milli: u64) -> u64 {
    (milli * 1_024 / 1_000).clamp(Shares::LEAST, Shares::MOST)
}

fn give(rig: &Rig, group: &CgroupPath, shares: u64) {
    let setting = Setting::Shares(Shares::new(shares).unwrap());
    rig.tree.set(group, Knob::CpuShares, &setting).unwrap();
}

/// What a pod asks for, in thousandths of a CPU.
#[derive(Debug, Clone)]
struct Asking {
    qos: &'static str,
    cpu: u64,
    batch: u64,
}

fn some_pod() -> impl Strategy<Value = Asking> {
    let class = prop_oneof![Just("LSE"), Just("LSR"), Just("LS"), Just(""), Just("BE")];
    let amount = || prop_oneof![Just(0), 1..64_000u64];
    let few = prop_oneof![3 => Just(0), 1 => 1..64_000u64];
    (class, amount(), amount(), few).prop_map(|(qos, cpu, batch, mixed)| match qos {
        "BE" => Asking { qos, cpu: mixed, batch },
        _ => Asking { qos, cpu, batch: 0 },
    })
}

#[derive(Debug, Default)]
struct Groups {
    online: Vec<CgroupPath>,
    best_effort: Vec<CgroupPath>,
    /// Best-effort among online pods, and its weight.
    mixed: Vec<(CgroupPath, u64)>,
}

/// The groups of all pods, with weights as a kubelet leaves them.
fn furnish(rig: &mut Rig, pods: &[Asking]) -> Groups {
    let mut groups = Groups::default();
    let mut burstable = 0;
    for (name, Asking { qos, cpu, batch }) in NAMES.into_iter().zip(pods) {
        let mut resources = serde_json::Map::new();
        if *cpu > 0 {
            resources.insert("cpu".to_owned(), format!("{cpu}m").into());
        }
        if *batch > 0 {
            resources.insert("kubernetes.io/batch-cpu".to_owned(), batch.to_string().into());
        }
        let resources = json!({ "requests": resources, "limits": resources });
        let cpus = if matches!(*qos, "LSE" | "LSR") { "0-1" } else { "" };
        let kube = if *qos == "BE" && *cpu > 0 { "Burstable" } else { "" };
        let group = rig.add(Pod { name, qos, kube, cpus, resources, ..POD });
        give(rig, &group, shares(*cpu));
        if matches!(*qos, "LS" | "") || !kube.is_empty() {
            burstable += cpu;
        }
        match *qos {
            "BE" if *cpu > 0 => {
                let weight = weight(rig, &group);
                groups.mixed.push((group, weight));
            }
            "BE" => groups.best_effort.push(group),
            _ => groups.online.push(group),
        }
    }
    give(rig, &rig.layout.class(KubeQos::Burstable), shares(burstable));
    give(rig, &rig.tier(), Shares::LEAST);
    groups
}

/// The groups in which the two compete.
fn fork(one: &CgroupPath, other: &CgroupPath) -> (CgroupPath, CgroupPath) {
    let above = |group: &CgroupPath| {
        let mut all = vec![group.clone()];
        while let Some(parent) = all[all.len() - 1].parent() {
            all.push(parent);
        }
        all.reverse();
        all
    };
    let (one, other) = (above(one), above(other));
    let at = one.iter().zip(&other).position(|(one, other)| one != other).unwrap();
    (one[at].clone(), other[at].clone())
}

fn weight(rig: &Rig, group: &CgroupPath) -> u64 {
    rig.text(group, Knob::CpuShares).parse().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn best_effort_never_weighs_more_than_the_online_side(
        is_v1: bool, is_enabled: bool, by_quota: bool,
        identities in (-1..=2i64, -1..=2i64),
        pods in proptest::collection::vec(some_pod(), 2..=NAMES.len()),
        loads in proptest::collection::vec(0.0..16.0f64, 3),
    ) {
        let mut rig = Rig::new(if is_v1 { Version::V1 } else { Version::V2 });
        let qos = |identity| json!({ "cpuQOS": { "enable": is_enabled, "groupIdentity": identity } });
        let policy = if by_quota { "cfsQuota" } else { "cpuset" };
        rig.slo(json!({
            "resourceUsedThresholdWithBE": { "enable": true, "cpuSuppressPolicy": policy },
            "resourceQOSStrategy": { "lsClass": qos(identities.0), "beClass": qos(identities.1) },
        }));
        let Groups { online, best_effort, mixed } = furnish(&mut rig, &pods);
        for load in loads {
            rig.uses("a", load);
            rig.tick();
            for one in &online {
                for other in &best_effort {
                    let (ours, theirs) = fork(one, other);
                    let weights = (weight(&rig, &theirs), weight(&rig, &ours));
                    prop_assert!(weights.0 <= weights.1, "{} over {}: {:?}", theirs, ours, weights);
                }
                prop_assert_eq!(rig.text(one, Knob::CpuIdle), "0");
            }
            for (group, found) in &mixed {
                prop_assert!(weight(&rig, group) <= *found, "{} became heavier", group);
            }
        }
    }
}
