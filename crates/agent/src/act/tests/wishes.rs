//! What single strategies want, on both versions.

use api::protocol::gate::AgentGate;
use groups::{CgroupPath, Knob, Version};
use serde_json::{Value, json};

use super::rig::{POD, Pod, Rig, suppressing};

const BOTH: [Version; 2] = [Version::V1, Version::V2];

fn batch(name: &'static str) -> Pod {
    let resources = json!({
        "requests": { "kubernetes.io/batch-cpu": "1k", "kubernetes.io/batch-memory": "1Gi" },
        "limits": { "kubernetes.io/batch-cpu": "2k", "kubernetes.io/batch-memory": "2Gi" },
    });
    Pod { name, qos: "BE", resources, ..POD }
}

#[test]
fn batch_resources_become_kernel_limits() {
    for version in BOTH {
        let mut rig = Rig::new(version);
        let group = rig.add(batch("job"));
        rig.tick();
        for group in [group.clone(), group.child("job")] {
            let (shares, quota) = match version {
                Version::V1 => ("1024", "200000"),
                Version::V2 => ("39", "200000 100000"),
            };
            assert_eq!(rig.text(&group, Knob::CpuShares), shares, "{group} {version:?}");
            assert_eq!(rig.text(&group, Knob::CfsQuota), quota, "{group} {version:?}");
            assert_eq!(rig.text(&group, Knob::MemoryLimit), "2147483648", "{group} {version:?}");
        }
        assert!(rig.text(&group.child("sandbox"), Knob::CpuShares).starts_with("10"), "untouched");
    }
}

#[test]
fn a_quota_on_the_tier_takes_those_of_its_pods_away() {
    for version in BOTH {
        let mut rig = Rig::new(version);
        let group = rig.add(batch("job"));
        rig.tick();
        rig.slo(suppressing("cfsQuota"));
        rig.uses("job", 1.0);
        for _ in 0..3 {
            rig.tick();
        }
        let quota = |group: &CgroupPath| {
            rig.text(group, Knob::CfsQuota).split(' ').next().unwrap().to_owned()
        };
        assert_eq!(quota(&rig.tier()), "1040000", "65 % of 16 CPUs, {version:?}");
        let none = if version == Version::V1 { "-1" } else { "max" };
        assert_eq!(quota(&group.child("job")), none, "{version:?}");
        assert_eq!(quota(&group), none, "{version:?}");
    }
}

#[test]
fn without_vendor_kernels_best_effort_pods_are_idle_and_the_tier_never_is() {
    let on = json!({ "resourceQOSStrategy": { "beClass": { "cpuQOS": { "enable": true } } } });
    for version in BOTH {
        let mut rig = Rig::new(version);
        rig.slo(on.clone());
        let job = rig.add(batch("job"));
        let web = rig.add(Pod { name: "web", ..POD });
        let weight = rig.text(&job, Knob::CpuShares);
        rig.tick();
        rig.tick();
        assert_eq!(rig.text(&job, Knob::CpuIdle), "1", "{version:?}");
        assert_eq!(rig.text(&rig.tier(), Knob::CpuIdle), "0", "a kubelet could not start");
        assert_eq!(rig.text(&web, Knob::CpuIdle), "0", "{version:?}");
        rig.off_by = Some("a test".to_owned());
        rig.tick();
        assert_eq!(rig.text(&job, Knob::CpuIdle), "0", "{version:?}");
        assert_eq!(rig.text(&job, Knob::CpuShares), weight, "the weight is back, {version:?}");
        assert!(rig.rounds.is_clean(), "{version:?}");
    }
}

#[test]
fn a_vendor_kernel_gets_identities() {
    let mut rig = Rig::new(Version::V1);
    for dir in ["kubepods", "kubepods/burstable", "kubepods/besteffort"] {
        let path = format!("sys/fs/cgroup/cpu,cpuacct/{dir}/cpu.bvt_warp_ns");
        rig.kernel.fake.set(path, "0\n");
    }
    let class = json!({ "cpuQOS": { "enable": true } });
    rig.slo(json!({ "resourceQOSStrategy": {
        "lsrClass": class, "lsClass": class, "beClass": class } }));
    let wish = |text: &str| json!({ "koordinator.sh/cpuQOS": text });
    let own = wish(r#"{"enable":true,"groupIdentity":1}"#);
    let odd = wish(r#"{"enable":true,"groupIdentity":9}"#);
    let web = rig.add(Pod { name: "web", ..POD });
    let own = rig.add(Pod { name: "own", annotations: own, ..POD });
    let odd = rig.add(Pod { name: "odd", annotations: odd, ..POD });
    let job = rig.add(batch("job"));
    rig.tick();
    let identity = |group: &CgroupPath| rig.text(group, Knob::BvtWarp);
    assert_eq!(identity(&web), "2");
    assert_eq!(identity(&own), "1", "its own wish");
    assert_eq!(identity(&odd), "0", "what the kernel would refuse changes nothing");
    assert_eq!(identity(&job), "-1");
    assert_eq!(identity(&rig.tier()), "-1");
    assert_eq!(identity(&rig.layout.kubepods()), "0");
    assert_eq!(rig.text(&job, Knob::CpuIdle), "0", "never both");
}

#[test]
fn memory_is_protected_up_to_the_top_and_braked_below_the_limit() {
    let mut rig = Rig::with_gates(Version::V2, &[AgentGate::CgroupReconcile]);
    let memory = json!({ "enable": true, "minLimitPercent": 50, "lowLimitPercent": 80,
        "throttlingPercent": 50 });
    rig.slo(json!({ "resourceQOSStrategy": { "lsClass": { "memoryQOS": memory } } }));
    let resources = json!({ "requests": { "memory": "1Gi" }, "limits": { "memory": "2Gi" } });
    let web = rig.add(Pod { name: "web", resources: resources.clone(), ..POD });
    let none = json!({ "koordinator.sh/memoryQOS": r#"{"policy":"none"}"# });
    let out = rig.add(Pod { name: "out", resources, annotations: none, ..POD });
    rig.tick();
    let at = |group: &CgroupPath, knob| rig.text(group, knob);
    let (half, most) = ("536870912", "858992640");
    for group in [web.clone(), web.child("web"), rig.layout.kubepods()] {
        assert_eq!(at(&group, Knob::MemoryMin), half, "{group}");
        assert_eq!(at(&group, Knob::MemoryLow), most, "{group}");
    }
    assert_eq!(at(&web.child("web"), Knob::MemoryHigh), "1610612736", "half way to the limit");
    assert_eq!(at(&out, Knob::MemoryMin), "0");
    rig.slo(json!({}));
    rig.tick();
    assert!(rig.rounds.is_clean(), "a class that is off gives everything back");
}

#[test]
fn pods_on_their_own_cpus_have_no_quota() {
    for version in BOTH {
        let mut rig = Rig::new(version);
        let group = rig.add(Pod { name: "lsr", qos: "LSR", cpus: "2-3", ..POD });
        let setting = groups::Setting::Limit(groups::Limit::At(200_000));
        for group in [group.clone(), group.child("lsr")] {
            rig.tree.set(&group, Knob::CfsQuota, &setting).unwrap();
        }
        rig.tick();
        let none = if version == Version::V1 { "-1" } else { "max 100000" };
        assert_eq!(rig.text(&group.child("lsr"), Knob::CfsQuota), none, "{version:?}");
        assert_eq!(rig.text(&group, Knob::CfsQuota), none, "{version:?}");
    }
}

#[test]
fn deciding_twice_is_quiet() {
    for version in BOTH {
        let mut rig = Rig::with_gates(version, &[AgentGate::CgroupReconcile]);
        rig.slo(suppressing("cpuset"));
        rig.add(batch("job"));
        rig.add(Pod { name: "lse", qos: "LSE", cpus: "0-1", ..POD });
        rig.add(Pod { name: "web", resources: Value::Null, ..POD });
        rig.uses("web", 3.0);
        for _ in 0..10 {
            rig.tick();
        }
        let writes = || rig.kernel.writes.load(std::sync::atomic::Ordering::Relaxed);
        let before = writes();
        for _ in 0..30 {
            rig.tick();
        }
        let after = rig.kernel.writes.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(after, before, "{version:?}");
    }
}
