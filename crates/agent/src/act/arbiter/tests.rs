use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use host::fs::{Entry as DirEntry, FakeFs, HostFs, Source};
use proptest::prelude::*;
use qos::claim::{Bound, Rank};
use tempfile::TempDir;

use super::*;

/// A kernel that counts what is asked of it, and refuses or kills when told to.
#[derive(Debug)]
struct Kernel {
    fake: FakeFs,
    reads: AtomicUsize,
    /// How many more writes it takes.
    writes_left: AtomicUsize,
    /// Kills whoever writes more.
    is_deadly: AtomicBool,
}

impl HostFs for Kernel {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Source>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.fake.open(path)
    }

    fn write(&self, path: &Path, value: &str) -> io::Result<()> {
        let left = self.writes_left.load(Ordering::Relaxed);
        if left == 0 {
            if self.is_deadly.load(Ordering::Relaxed) {
                resume_unwind(Box::new("killed"));
            }
            return Err(io::ErrorKind::Interrupted.into());
        }
        self.writes_left.store(left - 1, Ordering::Relaxed);
        self.fake.write(path, value)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.fake.list(dir)
    }

    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        self.fake.make_dir(dir)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.fake.remove_dir(dir)
    }

    fn replace_file(&self, path: &Path, text: &str) -> io::Result<()> {
        self.fake.replace_file(path, text)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.fake.remove_file(path)
    }

    fn exists(&self, path: &Path) -> bool {
        self.fake.exists(path)
    }

    fn real_path(&self, _path: &Path) -> Option<PathBuf> {
        None
    }
}

struct Rig {
    kernel: Arc<Kernel>,
    fake: FakeFs,
    arbiter: Arbiter,
    dir: TempDir,
    /// Seconds.
    now: u64,
}

const V1: &str = "\
-- sys/fs/cgroup/cpu,cpuacct/cgroup.procs --
-- sys/fs/cgroup/cpuset/cgroup.procs --
-- sys/fs/cgroup/cpuset/cpuset.cpus --
0-7
-- sys/fs/cgroup/cpuset/cpuset.mems --
0
-- sys/fs/cgroup/memory/cgroup.procs --
";

const V2: &str = "\
-- sys/fs/cgroup/cgroup.controllers --
cpuset cpu io memory pids
-- sys/fs/cgroup/cgroup.subtree_control --
cpuset cpu io memory pids
-- sys/fs/cgroup/cpuset.cpus.effective --
0-7
";

const TIER: &str = "kubepods/besteffort";
const POD: &str = "kubepods/besteffort/pod1";

impl Rig {
    fn new(host: &str) -> Self {
        let fake = FakeFs::from_fixture(host).unwrap();
        let tree = Tree::find(Arc::new(fake.clone())).unwrap();
        for group in ["kubepods", TIER, POD] {
            tree.make(&CgroupPath::new(group)).unwrap();
        }
        for group in ["kubepods", TIER, POD] {
            let cpus = Setting::Cpus("0-7".parse().unwrap());
            tree.set(&CgroupPath::new(group), Knob::CpusetCpus, &cpus).unwrap();
        }
        let dir = tempfile::tempdir().unwrap();
        let (kernel, arbiter) = begin(&fake, &dir);
        Self { kernel, fake, arbiter, dir, now: 0 }
    }

    /// The process dies and is started again.
    fn restart(&mut self) {
        (self.kernel, self.arbiter) = begin(&self.fake, &self.dir);
    }

    fn settle(&mut self) -> Vec<Outcome> {
        self.now += 1;
        let changes = self.arbiter.settle(Duration::from_secs(self.now));
        changes.into_iter().map(|change| change.outcome).collect()
    }

    fn text(&self, v1: &str) -> String {
        self.fake.text(format!("sys/fs/cgroup/{v1}")).unwrap()
    }

    fn reads(&self) -> usize {
        self.kernel.reads.swap(0, Ordering::Relaxed)
    }
}

fn begin(fake: &FakeFs, dir: &TempDir) -> (Arc<Kernel>, Arbiter) {
    let kernel = Arc::new(Kernel {
        fake: fake.clone(),
        reads: AtomicUsize::new(0),
        writes_left: AtomicUsize::new(usize::MAX),
        is_deadly: AtomicBool::new(false),
    });
    let tree = Tree::find(Arc::clone(&kernel) as Arc<dyn HostFs>).unwrap();
    let ledger = Ledger::open(&dir.path().join("ledger")).unwrap();
    (kernel, Arbiter::new(tree, ledger))
}

fn wish(group: &str, knob: Knob, rank: Rank, bound: Bound) -> Wish {
    let target = Target::knob(CgroupPath::new(group), knob);
    Wish { target, rank, bound, why: "because".to_owned() }
}

fn quota(group: &str, quota: i64) -> Wish {
    let bound = Bound::Max(Value::Number(Some(quota)));
    wish(group, Knob::CfsQuota, Rank::SUPPRESSION, bound)
}

const TIER_QUOTA: &str = "cpu,cpuacct/kubepods/besteffort/cpu.cfs_quota_us";

fn written(old: &str, new: &str) -> Outcome {
    Outcome::Written { old: old.to_owned(), new: new.to_owned() }
}

#[test]
fn a_wish_is_written_once_and_taken_back() {
    let mut rig = Rig::new(V1);
    let before = rig.fake.to_fixture();
    rig.arbiter.post("suppress", vec![quota(TIER, 50_000)], None);
    assert_eq!(rig.settle(), [written("-1", "50000")]);
    assert_eq!(rig.text(TIER_QUOTA), "50000");
    rig.reads();
    assert_eq!((rig.settle(), rig.reads()), (vec![], 0), "a quiet round costs nothing");

    rig.arbiter.withdraw_all();
    assert_eq!(rig.settle(), [written("50000", "-1")]);
    assert!(rig.arbiter.is_clean());
    assert_eq!(rig.fake.to_fixture(), before);
}

#[test]
fn a_wish_that_lapses_is_taken_back() {
    let mut rig = Rig::new(V1);
    let until = Some(Duration::from_secs(3));
    rig.arbiter.post("fast", vec![quota(TIER, 50_000)], until);
    rig.settle();
    assert_eq!(rig.text(TIER_QUOTA), "50000");
    rig.settle();
    rig.settle();
    assert_eq!(rig.text(TIER_QUOTA), "-1");
}

#[test]
fn parents_and_children_are_written_in_an_order_the_kernel_takes() {
    let mut rig = Rig::new(V1);
    for (tier, pod) in [(50_000, 20_000), (10_000, 5_000), (90_000, 80_000)] {
        let wishes = vec![quota(TIER, tier), quota(POD, pod)];
        rig.arbiter.post("suppress", wishes, None);
        let outcomes = rig.settle();
        let is_written = |outcome: &Outcome| matches!(outcome, Outcome::Written { .. });
        assert!(outcomes.len() == 2 && outcomes.iter().all(is_written), "{outcomes:?}");
        assert_eq!(rig.text(TIER_QUOTA), tier.to_string());
    }
}

#[test]
fn a_hand_that_changes_a_file_keeps_it() {
    let mut rig = Rig::new(V1);
    rig.arbiter.post("suppress", vec![quota(TIER, 50_000)], None);
    rig.settle();
    rig.fake.set(format!("sys/fs/cgroup/{TIER_QUOTA}"), "77000\n");
    rig.now += TRUST.as_secs();
    let taken = Outcome::TakenOver { ours: "50000".to_owned(), theirs: "77000".to_owned() };
    assert_eq!(rig.settle(), [taken]);
    rig.arbiter.post("suppress", vec![quota(TIER, 10_000)], None);
    assert_eq!(rig.settle(), []);
    rig.arbiter.withdraw_all();
    rig.settle();
    assert_eq!(rig.text(TIER_QUOTA), "77000");
}

#[test]
fn a_reset_is_written_again() {
    let mut rig = Rig::new(V1);
    rig.arbiter.post("suppress", vec![quota(TIER, 50_000)], None);
    rig.settle();
    rig.fake.set(format!("sys/fs/cgroup/{TIER_QUOTA}"), "-1\n");
    rig.now += TRUST.as_secs();
    assert_eq!(rig.settle(), [written("-1", "50000")]);
}

#[test]
fn a_missing_file_is_asked_for_once() {
    let mut rig = Rig::new(V1);
    let bound = Bound::Set(Value::Number(Some(-1)));
    rig.arbiter.post("identity", vec![wish(TIER, Knob::BvtWarp, Rank::POD, bound)], None);
    assert_eq!(rig.settle(), [Outcome::Unsupported]);
    rig.reads();
    rig.now += 3_600;
    assert_eq!((rig.settle(), rig.reads()), (vec![], 0));
}

#[test]
fn a_refusal_is_tried_again_less_and_less_often() {
    let mut rig = Rig::new(V1);
    let path = format!("sys/fs/cgroup/{TIER_QUOTA}");
    rig.kernel.writes_left.store(0, Ordering::Relaxed);
    rig.arbiter.post("suppress", vec![quota(TIER, 50_000)], None);
    let refusals = (0..1_000).filter(|_| !rig.settle().is_empty()).count();
    assert!((5..=20).contains(&refusals), "{refusals} refusals in 1,000 rounds");
    rig.kernel.writes_left.store(usize::MAX, Ordering::Relaxed);
    rig.now += LONGEST_PAUSE.as_secs();
    rig.settle();
    assert_eq!(rig.fake.text(path).unwrap(), "50000");
}

#[test]
fn what_is_gone_is_forgotten() {
    let mut rig = Rig::new(V2);
    rig.arbiter.post("suppress", vec![quota(POD, 50_000)], None);
    rig.settle();
    rig.fake.remove(format!("sys/fs/cgroup/{POD}"));
    rig.arbiter.withdraw_all();
    assert_eq!(rig.settle(), []);
    assert!(rig.arbiter.is_clean());
}

#[test]
fn an_unknown_kind_of_value_is_refused_and_harms_nobody() {
    let mut rig = Rig::new(V2);
    let cpus = Bound::Set(Value::Cpus("0-1".parse().unwrap()));
    let confused = wish(TIER, Knob::CfsQuota, Rank::POD, cpus);
    rig.arbiter.post("confused", vec![confused, quota(POD, 50_000)], None);
    assert_eq!(rig.settle().len(), 1);
}

#[derive(Debug, Clone)]
enum Step {
    Post(&'static str, Vec<Wish>),
    Settle,
    /// The kernel takes this many more writes, then refuses, and the process dies later.
    Die(usize),
    /// The process dies right before the next write after this many, or when there are none.
    Killed(usize),
}

fn some_wish() -> impl Strategy<Value = Wish> {
    let group = prop_oneof![Just("kubepods"), Just(TIER), Just(POD)];
    let rank = prop_oneof![Just(Rank::POD), Just(Rank::SUPPRESSION), Just(Rank::CRITICAL)];
    let number = prop_oneof![
        (1_000..100_000i64).prop_map(|quota| (Knob::CfsQuota, Value::Number(Some(quota)))),
        (2..10_000i64).prop_map(|shares| (Knob::CpuShares, Value::Number(Some(shares)))),
        (0..1_000_000i64).prop_map(|bytes| (Knob::MemoryHigh, Value::Number(Some(bytes)))),
        proptest::collection::vec(0..8u16, 1..8)
            .prop_map(|cpus| (Knob::CpusetCpus, Value::Cpus(cpus.into_iter().collect()))),
    ];
    let bound = prop_oneof![Just(0), Just(1), Just(2)];
    (group, rank, number, bound).prop_map(|(group, rank, (knob, value), bound)| {
        let bound = match bound {
            0 => Bound::Set(value),
            1 => Bound::Min(value),
            _ => Bound::Max(value),
        };
        wish(group, knob, rank, bound)
    })
}

fn some_step() -> impl Strategy<Value = Step> {
    let owner = prop_oneof![Just("a"), Just("b")];
    prop_oneof![
        3 => (owner, proptest::collection::vec(some_wish(), 0..6))
            .prop_map(|(owner, wishes)| Step::Post(owner, wishes)),
        3 => Just(Step::Settle),
        1 => (0..4usize).prop_map(Step::Die),
        2 => (0..6usize).prop_map(Step::Killed),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever was wished for, whenever the process died: off is off, to the byte.
    #[test]
    fn everything_goes_back(is_v2: bool, steps in proptest::collection::vec(some_step(), 1..12)) {
        let mut rig = Rig::new(if is_v2 { V2 } else { V1 });
        let before = rig.fake.to_fixture();
        for step in steps {
            match step {
                Step::Post(owner, wishes) => rig.arbiter.post(owner, wishes, None),
                Step::Settle => drop(rig.settle()),
                Step::Die(writes) => {
                    rig.kernel.writes_left.store(writes, Ordering::Relaxed);
                    rig.settle();
                    rig.restart();
                }
                Step::Killed(writes) => {
                    rig.kernel.writes_left.store(writes, Ordering::Relaxed);
                    rig.kernel.is_deadly.store(true, Ordering::Relaxed);
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
        prop_assert_eq!(rig.fake.to_fixture(), before);
        prop_assert!(rig.arbiter.is_clean());
    }
}
