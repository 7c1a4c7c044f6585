//! The knobs, and a fake that obeys the kernel.

use std::collections::BTreeMap;
use std::path::Path;

use api::qos::KubeQos;
use groups::{CgroupPath, DeviceNumber, Knob, KnobError, Limit, Setting, Shares, Version};
use host::Reading;
use host::cgroup::SetError;
use host::fs::HostFs;
use rustix::io::Errno;
use units::CpuSet;

use super::{ANOLIS, Machine, machine, v1, v2};

fn disk() -> DeviceNumber {
    DeviceNumber { major: 259, minor: 0 }
}

fn cpus(list: &str) -> Setting {
    Setting::Cpus(list.parse::<CpuSet>().unwrap())
}

fn limit(value: i64) -> Setting {
    Setting::Limit(Limit::At(value))
}

fn rates(rate: u64) -> Setting {
    Setting::Rates(BTreeMap::from([(disk(), Limit::At(rate))]))
}

/// Every knob: a value, its text on v1 and on v2, and a neighbour that is refused.
#[test]
fn settings_have_one_meaning_and_two_spellings() {
    let number = Setting::Number;
    let none = Setting::Limit(Limit::Max);
    let words = Setting::Words(BTreeMap::from([(disk(), "enable=1 ctrl=user".to_owned())]));
    let weights = |weight| Setting::Weights(BTreeMap::from([(disk(), weight)]));
    let shares = |shares| Setting::Shares(Shares::new(shares).unwrap());
    let rows = [
        (Knob::CpuShares, shares(1_024), "1024", "39", number(1_024)),
        (Knob::CfsQuota, limit(50_000), "50000", "50000", limit(999)),
        (Knob::CfsQuota, none.clone(), "-1", "max", number(-1)),
        (Knob::CfsBurst, number(100_000_000), "100000000", "100000000", number(100_000_001)),
        (Knob::BvtWarp, number(-1), "-1", "-1", number(-2)),
        (Knob::BvtWarp, number(2), "2", "2", number(3)),
        (Knob::CpuIdle, number(1), "1", "1", number(2)),
        (Knob::CpusetCpus, cpus("0-3,8"), "0-3,8", "0-3,8", number(0)),
        (Knob::CpusetMems, cpus("0"), "0", "0", number(0)),
        (Knob::MemoryLimit, none.clone(), "-1", "max", limit(-1)),
        (Knob::MemoryLimit, limit(4_096), "4096", "4096", limit(-4_096)),
        (Knob::MemoryMin, limit(0), "0", "0", limit(-1)),
        (Knob::MemoryLow, limit(4_096), "4096", "4096", limit(-1)),
        (Knob::MemoryHigh, none, "9223372036854775807", "max", limit(-1)),
        (Knob::WmarkRatio, number(100), "100", "100", number(101)),
        (Knob::WmarkScaleFactor, number(1), "1", "1", number(0)),
        (Knob::WmarkMinAdj, number(-25), "-25", "-25", number(-26)),
        (Knob::MemoryPriority, number(12), "12", "12", number(13)),
        (Knob::UsePriorityOom, number(1), "1", "1", number(2)),
        (Knob::OomGroup, number(0), "0", "0", number(-1)),
        (Knob::PagecacheLimitEnable, number(1), "1", "1", number(2)),
        (Knob::PagecacheLimitSize, number(4_096), "4096", "4096", number(-1)),
        (Knob::PagecacheLimitSync, number(1), "1", "1", number(2)),
        (Knob::ReadBps, rates(7), "259:0 7", "259:0 rbps=7", number(7)),
        (Knob::WriteBps, rates(7), "259:0 7", "259:0 wbps=7", number(7)),
        (Knob::ReadIops, rates(7), "259:0 7", "259:0 riops=7", number(7)),
        (Knob::WriteIops, rates(7), "259:0 7", "259:0 wiops=7", number(7)),
        (Knob::IoWeight, weights(100), "259:0 100", "259:0 100", weights(101)),
        (
            Knob::IoCostQos,
            words.clone(),
            "259:0 enable=1 ctrl=user",
            "259:0 enable=1 ctrl=user",
            number(1),
        ),
        (
            Knob::IoCostModel,
            words,
            "259:0 enable=1 ctrl=user",
            "259:0 enable=1 ctrl=user",
            number(1),
        ),
    ];
    for (knob, setting, v1, v2, refused) in rows {
        for (version, text) in [(Version::V1, v1), (Version::V2, v2)] {
            assert_eq!(knob.encode(version, &setting).unwrap(), [text], "{knob:?} {version:?}");
            // The kernel shows the period beside the quota.
            let shown = match (knob, version) {
                (Knob::CfsQuota, Version::V2) => format!("{text} 100000\n"),
                _ => format!("{text}\n"),
            };
            let back = knob.decode(version, shown.as_bytes()).unwrap();
            match knob {
                // On the line of v2 many shares have one weight.
                Knob::CpuShares if version == Version::V2 => {
                    assert!(matches!(back, Setting::Shares(shares) if shares.get() == 998));
                }
                _ => assert_eq!(back, setting, "{knob:?} {version:?}"),
            }
            let error = knob.encode(version, &refused).unwrap_err();
            assert!(
                matches!(error, KnobError::Range { .. } | KnobError::Kind { .. }),
                "{knob:?}: {error}"
            );
        }
    }
}

#[test]
fn some_knobs_exist_on_one_version_only() {
    assert!(Knob::NetClassId.file(Version::V2).is_none());
    assert!(Knob::MemoryReclaim.file(Version::V1).is_none());
    let period = Setting::Number(50_000);
    assert_eq!(Knob::CfsPeriod.encode(Version::V1, &period).unwrap(), ["50000"]);
    assert!(Knob::CfsPeriod.encode(Version::V2, &period).is_err(), "not without the quota");
    assert_eq!(Knob::CfsPeriod.decode(Version::V2, b"max 50000\n").unwrap(), period);
}

#[test]
fn a_group_that_is_being_frozen_counts_as_frozen() {
    let frozen = |value| Setting::Number(value);
    assert_eq!(Knob::Frozen.encode(Version::V1, &frozen(1)).unwrap(), ["FROZEN"]);
    assert_eq!(Knob::Frozen.encode(Version::V1, &frozen(0)).unwrap(), ["THAWED"]);
    assert_eq!(Knob::Frozen.encode(Version::V2, &frozen(1)).unwrap(), ["1"]);
    assert!(Knob::Frozen.encode(Version::V2, &frozen(2)).is_err());
    assert_eq!(Knob::Frozen.decode(Version::V1, b"FREEZING\n").unwrap(), frozen(1));
    assert_eq!(Knob::Frozen.decode(Version::V2, b"0\n").unwrap(), frozen(0));
    assert!(Knob::Frozen.decode(Version::V1, b"ICE\n").is_err());
}

#[test]
fn no_limit_for_a_device_is_spelled_two_ways() {
    let none = Setting::Rates(BTreeMap::from([(disk(), Limit::Max)]));
    assert_eq!(Knob::ReadBps.encode(Version::V1, &none).unwrap(), ["259:0 0"]);
    assert_eq!(Knob::ReadBps.encode(Version::V2, &none).unwrap(), ["259:0 rbps=max"]);
    assert_eq!(Knob::ReadBps.decode(Version::V1, b"259:0 0\n").unwrap(), none);
    let line = b"259:0 rbps=max wbps=7 riops=max wiops=max\n";
    assert_eq!(Knob::ReadBps.decode(Version::V2, line).unwrap(), none);
    assert_eq!(Knob::WriteBps.decode(Version::V2, line).unwrap(), rates(7));
    assert!(Knob::ReadBps.decode(Version::V2, b"sda rbps=1\n").is_err());
    let weights = Knob::IoWeight.decode(Version::V2, b"default 100\n259:0 50\n").unwrap();
    assert_eq!(weights, Setting::Weights(BTreeMap::from([(disk(), 50)])));
}

fn refused(machine: &Machine, group: &CgroupPath, knob: Knob, setting: &Setting) -> Errno {
    match machine.tree.set(group, knob, setting).unwrap_err() {
        SetError::File(host::FileError::Write { source, .. }) => {
            Errno::from_io_error(&source).unwrap()
        }
        other => panic!("{other}"),
    }
}

#[test]
fn on_v1_a_cpu_set_fits_its_parent_and_holds_its_children() {
    let machine = v1();
    let class = machine.layout.class(KubeQos::BestEffort);
    assert_eq!(refused(&machine, &class, Knob::CpusetCpus, &cpus("0-32")), Errno::ACCESS);
    assert_eq!(refused(&machine, &class, Knob::CpusetCpus, &cpus("0-3")), Errno::BUSY);
    let web = &machine.web;
    assert_eq!(refused(&machine, web, Knob::CpusetCpus, &cpus("")), Errno::NOSPC);
    assert_eq!(machine.tree.set(web, Knob::CpusetCpus, &cpus("0-3")).unwrap(), Reading::Value(()));
    assert_eq!(machine.tree.get(web, Knob::CpusetCpus).unwrap(), Reading::Value(cpus("0-3")));
}

#[test]
fn on_v2_the_effective_cpus_follow() {
    let machine = v2();
    let class = machine.layout.class(KubeQos::BestEffort);
    machine.tree.set(&class, Knob::CpusetCpus, &cpus("0-3")).unwrap();
    let children = machine.tree.children(&class).unwrap().value().unwrap();
    let pod = class.child(children.first().unwrap());
    let mut buffer = host::fs::Buffer::new();
    let mut reader = machine.tree.reader(pod.clone());
    assert_eq!(reader.cpus(&mut buffer).unwrap().value().unwrap().to_string(), "0-3");
    machine.tree.set(&pod, Knob::CpusetCpus, &cpus("2-9")).unwrap();
    assert_eq!(reader.cpus(&mut buffer).unwrap().value().unwrap().to_string(), "2-3");
    assert_eq!(machine.tree.get(&pod, Knob::CpusetCpus).unwrap(), Reading::Value(cpus("2-9")));
}

#[test]
fn on_v1_a_quota_fits_its_parent() {
    let machine = v1();
    let pod = machine.web.parent().unwrap();
    assert_eq!(refused(&machine, &machine.web, Knob::CfsQuota, &limit(200_001)), Errno::INVAL);
    assert_eq!(refused(&machine, &pod, Knob::CfsQuota, &limit(199_999)), Errno::INVAL);
    machine.tree.set(&machine.web, Knob::CfsQuota, &limit(100_000)).unwrap();
    machine.tree.set(&pod, Knob::CfsQuota, &limit(150_000)).unwrap();
    let v2 = v2();
    v2.tree.set(&v2.web, Knob::CfsQuota, &limit(900_000)).unwrap();
    assert_eq!(v2.tree.get(&v2.web, Knob::CfsQuota).unwrap(), Reading::Value(limit(900_000)));
}

#[test]
fn a_quota_is_a_millisecond_at_least() {
    let machine = v2();
    let file = format!("/sys/fs/cgroup/{}/cpu.max", machine.web.as_str());
    let write = |value: &str| machine.fake.write(Path::new(&file), value);
    let error = write("999").unwrap_err();
    assert_eq!(Errno::from_io_error(&error), Some(Errno::INVAL));
    write("1000").unwrap();
    assert_eq!(machine.fake.text(&file).as_deref(), Some("1000 100000"));
}

#[test]
fn files_of_the_other_version_are_absent() {
    let (v1, v2) = (v1(), v2());
    assert!(!v2.fake.exists(Path::new("/sys/fs/cgroup/cpu")));
    let shares = format!("/sys/fs/cgroup/{}/cpu.shares", v2.web.as_str());
    assert!(v2.fake.write(Path::new(&shares), "2").is_err());
    let max = format!("/sys/fs/cgroup/cpu/{}/cpu.max", v1.web.as_str());
    assert!(v1.fake.read(Path::new(&max)).is_err());
    let bvt = Setting::Number(2);
    assert!(v1.tree.set(&v1.web, Knob::BvtWarp, &bvt).unwrap().is_unsupported());
    let anolis = machine(ANOLIS, "pouch");
    assert_eq!(anolis.tree.set(&anolis.web, Knob::BvtWarp, &bvt).unwrap(), Reading::Value(()));
    assert_eq!(anolis.tree.get(&anolis.web, Knob::BvtWarp).unwrap(), Reading::Value(bvt));
}

#[test]
fn groups_are_made_and_removed_as_the_kernel_does() {
    for machine in [v1(), v2(), machine(ANOLIS, "pouch")] {
        let pod = machine.layout.class(KubeQos::BestEffort).child("podnew");
        let container = pod.child("c0");
        machine.tree.make(&pod).unwrap();
        machine.tree.make(&container).unwrap();
        let mut buffer = host::fs::Buffer::new();
        let mut reader = machine.tree.reader(container.clone());
        assert!(reader.cpu_stat(&mut buffer).unwrap().value().unwrap().usage.is_zero());
        assert!(reader.memory_stat(&mut buffer).unwrap().value().unwrap().used().is_zero());
        assert!(!reader.cpus(&mut buffer).unwrap().value().unwrap().is_empty());
        machine.tree.enter(&container, 9_001).unwrap();
        assert_eq!(machine.tree.procs(&container).unwrap(), Reading::Value(vec![9_001]));
        assert!(machine.tree.remove(&pod).is_err(), "it has a child");
        assert!(machine.tree.remove(&container).is_err(), "it has a process");
        machine.tree.enter(&CgroupPath::root(), 9_001).unwrap();
        machine.tree.remove(&container).unwrap();
        assert!(reader.cpu_usage(&mut buffer).unwrap().is_gone());
        machine.tree.remove(&pod).unwrap();
        machine.tree.remove(&pod).unwrap();
        assert!(!machine.tree.exists(&pod));
    }
}
