//! Every kind of target: off is off, to the byte, whenever the process was killed.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use groups::Version;
use qos::cache::CacheAllocation;
use qos::network::{Band, BitRate, Class, Pod, Shape, Tier, plan};
use qos::wish::KernelFile;

use super::machine::OTHER;
use super::*;

fn members(pods: &[&str]) -> BTreeSet<CgroupPath> {
    pods.iter().map(|pod| CgroupPath::new(pod)).collect()
}

pub(super) fn cache(group: &str, schemata: &str, pods: &[&str]) -> Wish {
    let (schemata, members) = (schemata.to_owned(), members(pods));
    let allocation = Some(CacheAllocation { schemata, members });
    set(Target::CacheGroup(group.to_owned()), Value::Cache(allocation))
}

pub(super) fn cookie(group: &str, pods: &[&str]) -> Wish {
    set(Target::CoreCookie(group.to_owned()), Value::Members(members(pods)))
}

pub(super) fn classes(device: &str, online: u64, pods: u8) -> Wish {
    let total = BitRate(1_000_000_000);
    let band = |least| Band { least: BitRate(least), most: total };
    let class = |least| Class { sent: band(least), received: band(least) };
    let shape = Shape { total, online: class(online), behind: class(10_000_000) };
    let pod = |last: u8| Pod {
        uid: last.to_string(),
        address: [10, 0, 0, last].into(),
        tier: Tier::Behind,
        limit: Some(BitRate(5_000_000)),
    };
    let pods: Vec<Pod> = (0..pods).map(pod).collect();
    set(Target::Qdisc(device.to_owned()), Value::Qdisc(plan(&shape, &pods)))
}

fn terway(file: &str, content: &str) -> Wish {
    let target = Target::TerwayFile(format!("/var/lib/terway/qos/{file}"));
    set(target, Value::Content(Some(content.to_owned())))
}

fn file(path: &str, value: &str) -> Wish {
    Wish::file(KernelFile::whole(path), Rank::POD, value, "because")
}

fn hrtick(is_on: bool) -> Wish {
    let file = KernelFile::word("/sys/kernel/debug/sched/features", "HRTICK");
    Wish::file(file, Rank::POD, if is_on { "HRTICK" } else { "NO_HRTICK" }, "because")
}

/// Something of every kind.
pub(super) fn every_kind() -> Vec<Wish> {
    vec![
        quota(TIER, 50_000),
        // The kernel makes whole pages of it.
        set(knob(POD, Knob::MemoryLimit), Value::Number(Some(12_345_678))),
        set(knob(&format!("{POD}/main"), Knob::CpusetCpus), Value::Cpus("2-3".parse().unwrap())),
        set(knob(POD, Knob::Frozen), Value::Number(Some(1))),
        file("/proc/sys/vm/watermark_scale_factor", "150"),
        file("/sys/kernel/mm/kidled/scan_period_in_seconds", "5"),
        file("/sys/kernel/mm/kidled/use_hierarchy", "1"),
        hrtick(true),
        cache("BE", "L3:0=f;1=f\nMB:0=40;1=40\n", &[POD]),
        cache("LS", "L3:0=ff;1=ff\n", &[OTHER]),
        cookie("", &[POD]),
        cookie("-expeller", &[OTHER]),
        classes("eth0", 600_000_000, 2),
        terway("global_bps_config", "hw_tx_bps_max 125000000\n"),
        terway("pod.json", "{\"web\":{}}"),
    ]
}

#[test]
fn every_kind_is_written_once_and_restored_also_by_another_process() {
    for version in [Version::V1, Version::V2] {
        let mut rig = Machine::new(version);
        let before = rig.show();
        rig.arbiter.post("all", every_kind(), None);
        let outcomes = rig.settle();
        let is_written = |outcome: &Outcome| matches!(outcome, Outcome::Written { .. });
        assert!(outcomes.len() == 15 && outcomes.iter().all(is_written), "{outcomes:?}");
        assert_eq!(rig.arbiter.held_count(), 15, "{version:?}");
        let during = rig.show();
        assert_eq!(rig.settle(), [], "{version:?}");
        rig.now += TRUST.as_secs();
        assert_eq!(rig.settle(), [], "looked at again, and nothing is to do");

        rig.restart();
        rig.arbiter.post("all", every_kind(), None);
        let again = rig.settle();
        // A plan is applied anew, because it cannot be compared, and what the kernel rounds is written once.
        let want = [written("htb", "htb"), written("12345344", "12345344")];
        assert_eq!(again, want, "{version:?}");
        assert_eq!(rig.differs(&during), [""; 0], "{version:?}");

        rig.restart();
        assert_eq!(rig.settle().len(), 15, "{version:?}");
        assert!(rig.arbiter.is_clean(), "{version:?}: {:?}", rig.arbiter.held());
        assert_eq!(rig.differs(&before), [""; 0], "{version:?}");
    }
}

/// Kills the process before or after each single write in turn, while things are changed and while they are
/// restored, and lets the next one restore what is left.
#[test]
fn whichever_write_a_process_is_killed_at_the_next_one_restores_everything() {
    for version in [Version::V1, Version::V2] {
        for (is_after, is_restoring) in [(false, false), (true, false), (false, true), (true, true)]
        {
            let mut deaths = 0;
            for writes in 0.. {
                let mut rig = Machine::new(version);
                let before = rig.show();
                rig.arbiter.post("all", every_kind(), None);
                if is_restoring {
                    rig.settle();
                    rig.arbiter.withdraw_all();
                }
                rig.fuse.kill_after(writes, is_after);
                let is_killed = catch_unwind(AssertUnwindSafe(|| rig.settle())).is_err();
                rig.restart();
                rig.settle();
                rig.settle();
                let when = format!("{version:?}, write {writes}, {is_after} {is_restoring}");
                assert_eq!(rig.differs(&before), [""; 0], "{when}");
                assert!(rig.arbiter.is_clean(), "{when}");
                if !is_killed {
                    break;
                }
                deaths += 1;
            }
            assert!(deaths > 15, "{deaths} deaths");
        }
    }
}

#[test]
fn a_new_thread_and_a_new_process_join_and_a_pod_that_leaves_loses() {
    let mut rig = Machine::new(Version::V2);
    let before = rig.show();
    let wishes = |pods: &[&str]| vec![cache("BE", "L3:0=f;1=f\n", pods), cookie("", pods)];
    rig.arbiter.post("all", wishes(&[POD]), None);
    rig.settle();
    let cookie = rig.cookies.all()[&11];
    let list = format!("sys/fs/cgroup/{POD}/main");
    let processes = |list: &str| (format!("{list}/cgroup.procs"), format!("{list}/cgroup.threads"));
    let (procs, threads) = processes(&list);
    rig.cookies.start(13, 0);
    rig.fake.set("proc/13/stat", "");
    for path in [&procs, &threads] {
        rig.fake.set(path, "11\n12\n13\n");
    }
    rig.now += TRUST_IN_MEMBERS.as_secs();
    rig.settle();
    assert_eq!(rig.cookies.all()[&13], cookie);
    assert!(rig.text("sys/fs/resctrl/BE/tasks").contains("13"));
    rig.arbiter.post("all", wishes(&[POD, OTHER]), None);
    rig.settle();
    assert_eq!(rig.cookies.all()[&21], cookie);
    rig.arbiter.post("all", wishes(&[POD]), None);
    rig.settle();
    assert_eq!((rig.cookies.all()[&21], rig.cookies.all()[&7]), (0, 70));
    rig.arbiter.withdraw_all();
    rig.settle();
    for path in [&procs, &threads] {
        rig.fake.set(path, "11\n12\n");
    }
    rig.fake.remove("proc/13");
    rig.cookies.end(13);
    let tasks = rig.text("sys/fs/resctrl/tasks").replace("\n13", "");
    rig.fake.set("sys/fs/resctrl/tasks", tasks + "\n");
    assert_eq!(rig.differs(&before), [""; 0]);
}

#[test]
fn somebody_else_s_change_of_any_kind_is_kept() {
    let mut rig = Machine::new(Version::V2);
    rig.arbiter.post("all", every_kind(), None);
    rig.settle();
    rig.fake.set("sys/fs/resctrl/BE/schemata", "L3:0=1;1=1\nMB:0=40;1=40\n");
    rig.qdiscs.choose("eth0", "fq 8001:");
    rig.fake.set("var/lib/terway/qos/pod.json", "theirs");
    rig.now += TRUST.as_secs();
    let outcomes = rig.settle();
    let is_so = |outcome: &Outcome| matches!(outcome, Outcome::Overridden { .. });
    assert!(outcomes.len() == 3 && outcomes.iter().all(is_so), "{outcomes:?}");
    let (queues, held) = (rig.qdiscs.show(), rig.arbiter.held_count());
    assert_eq!(held, 12);
    rig.arbiter.withdraw_all();
    rig.settle();
    assert!(rig.arbiter.is_clean());
    assert_eq!(rig.text("sys/fs/resctrl/BE/schemata"), "L3:0=1;1=1\nMB:0=40;1=40");
    assert_eq!(rig.text("var/lib/terway/qos/pod.json"), "theirs");
    assert_eq!(rig.qdiscs.show(), queues);
}

#[test]
fn memory_is_reclaimed_once_a_wish_and_leaves_nothing_to_restore() {
    let mut rig = Machine::new(Version::V2);
    let tier = CgroupPath::new(TIER);
    let reclaim = |bytes: i64| {
        let value = Value::Number(Some(bytes));
        wish(Target::Reclaim(tier.clone()), Rank::CRITICAL, Bound::Set(value))
    };
    rig.arbiter.post("emergency", vec![reclaim(100 << 20)], None);
    assert_eq!(rig.settle(), [Outcome::Unsupported], "this kernel has no such file");
    rig.arbiter.post("emergency", vec![reclaim(100 << 20)], None);
    assert_eq!(rig.settle(), [], "and is not asked again");

    let mut rig = Machine::new(Version::V2);
    rig.fake.set(format!("sys/fs/cgroup/{TIER}/memory.reclaim"), "");
    let before = rig.fuse.writes_left.load(std::sync::atomic::Ordering::Relaxed);
    for _ in 0..2 {
        rig.arbiter.post("emergency", vec![reclaim(100 << 20)], None);
        assert_eq!(rig.settle(), [Outcome::Asked { value: (100 << 20).to_string() }]);
        assert_eq!(rig.settle(), [], "once");
    }
    let after = rig.fuse.writes_left.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(before - after, 4, "64 MiB at a time");
    assert!(rig.arbiter.is_clean());
}

#[derive(Debug, Clone)]
enum Step {
    Post(&'static str, Vec<Wish>),
    Settle,
    /// So much time passes that everything is looked at again.
    Wait,
    /// The machine takes this many more writes, then refuses, and the process dies later.
    Die(usize),
    /// The process dies right before or right after the next write after this many, or when there are none.
    Killed(usize, bool),
}

fn some_pods() -> impl Strategy<Value = Vec<&'static str>> {
    prop_oneof![Just(vec![]), Just(vec![POD]), Just(vec![OTHER]), Just(vec![POD, OTHER])]
}

fn some_knob() -> impl Strategy<Value = Wish> {
    let group = prop_oneof![Just("kubepods"), Just(TIER), Just(POD)];
    let rank = prop_oneof![Just(Rank::POD), Just(Rank::SUPPRESSION), Just(Rank::CRITICAL)];
    let number = prop_oneof![
        (1_000..100_000i64).prop_map(|quota| (Knob::CfsQuota, Value::Number(Some(quota)))),
        (2..10_000i64).prop_map(|shares| (Knob::CpuShares, Value::Number(Some(shares)))),
        (0..1_000_000i64).prop_map(|bytes| (Knob::MemoryHigh, Value::Number(Some(bytes)))),
        proptest::collection::vec(0..8u16, 1..8)
            .prop_map(|cpus| (Knob::CpusetCpus, Value::Cpus(cpus.into_iter().collect()))),
        (0..2i64).prop_map(|frozen| (Knob::Frozen, Value::Number(Some(frozen)))),
    ];
    (group, rank, number, 0..3).prop_map(|(group, rank, (name, value), bound)| {
        let bound = match bound {
            0 => Bound::Set(value),
            1 => Bound::Min(value),
            _ => Bound::Max(value),
        };
        wish(knob(group, name), rank, bound)
    })
}

fn some_wish() -> impl Strategy<Value = Wish> {
    let sysctl = prop_oneof![
        Just("/proc/sys/vm/watermark_scale_factor"),
        Just("/proc/sys/kernel/sched_group_identity_enabled"),
        Just("/sys/kernel/mm/kidled/scan_period_in_seconds"),
    ];
    let lines = prop_oneof![
        (1..0x7ffu32).prop_map(|mask| format!("L3:0={mask:x};1={mask:x}\n")),
        (1..10u32).prop_map(|share| format!("L3:0=f;1=f\nMB:0={0};1={0}\n", share * 10)),
    ];
    let group = prop_oneof![Just("BE"), Just("LS")];
    prop_oneof![
        4 => some_knob(),
        1 => (sysctl, 0..3u8).prop_map(|(path, value)| file(path, &value.to_string())),
        1 => any::<bool>().prop_map(hrtick),
        2 => (group, lines, some_pods())
            .prop_map(|(group, lines, pods)| cache(group, &lines, &pods)),
        1 => Just(set(Target::CacheGroup("BE".to_owned()), Value::Cache(None))),
        2 => (prop_oneof![Just(""), Just("-expeller")], some_pods())
            .prop_map(|(group, pods)| cookie(group, &pods)),
        2 => (1..9u64, 0..3u8).prop_map(|(online, pods)| classes("eth0", online * 10_000_000, pods)),
        2 => (prop_oneof![Just("global_bps_config"), Just("pod.json")], "[ab]{0,3}")
            .prop_map(|(file, content)| terway(file, &content)),
        1 => (1..1_000_000i64).prop_map(|bytes| {
            set(Target::Reclaim(CgroupPath::new(TIER)), Value::Number(Some(bytes)))
        }),
    ]
}

fn some_step() -> impl Strategy<Value = Step> {
    let owner = prop_oneof![Just("a"), Just("b")];
    prop_oneof![
        3 => (owner, proptest::collection::vec(some_wish(), 0..6))
            .prop_map(|(owner, wishes)| Step::Post(owner, wishes)),
        2 => Just(Step::Settle),
        1 => Just(Step::Wait),
        1 => (0..6usize).prop_map(Step::Die),
        3 => (0..10usize, any::<bool>()).prop_map(|(writes, after)| Step::Killed(writes, after)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever was wished for, whenever the process died: off is off, to the byte.
    #[test]
    fn everything_goes_back(is_v2: bool, steps in proptest::collection::vec(some_step(), 1..12)) {
        let mut rig = Machine::new(if is_v2 { Version::V2 } else { Version::V1 });
        let before = rig.show();
        for step in steps {
            match step {
                Step::Post(owner, wishes) => rig.arbiter.post(owner, wishes, None),
                Step::Settle => drop(rig.settle()),
                Step::Wait => {
                    rig.now += LONGEST_PAUSE.as_secs();
                    rig.settle();
                }
                Step::Die(writes) => {
                    rig.fuse.refuse_after(writes);
                    rig.settle();
                    rig.restart();
                }
                Step::Killed(writes, is_after) => {
                    rig.fuse.kill_after(writes, is_after);
                    // Nothing of the old process is used after this, so nothing half-done is seen.
                    let _ = catch_unwind(AssertUnwindSafe(|| rig.settle()));
                    rig.restart();
                }
            }
        }
        rig.arbiter.withdraw_all();
        for _ in 0..3 {
            rig.now += LONGEST_PAUSE.as_secs();
            rig.settle();
        }
        prop_assert_eq!(rig.differs(&before), Vec::<String>::new());
        prop_assert!(rig.arbiter.is_clean(), "{:?}", rig.arbiter.held());
    }
}
