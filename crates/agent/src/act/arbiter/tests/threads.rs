//! What is slow keeps nobody waiting, ends in time, and ends with its owner.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use groups::Version;
use host::cookies::FakeCookies;
use host::qdisc::{FakeQdiscs, QdiscError, Qdiscs};

use super::super::super::backend::Limit as TimeLimit;
use super::*;

/// The longest that anything here may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Queueing disciplines that wait for a word before each change.
struct WaitingQdiscs {
    fake: FakeQdiscs,
    begun: Sender<()>,
    goes_on: Receiver<()>,
}

impl fmt::Debug for WaitingQdiscs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WaitingQdiscs")
    }
}

impl Qdiscs for WaitingQdiscs {
    fn root(&self, device: &str) -> Result<Option<String>, QdiscError> {
        self.fake.root(device)
    }

    fn batch(&self, commands: &str) -> Result<(), QdiscError> {
        self.begun.send(()).unwrap();
        let word = self.goes_on.recv_timeout(PATIENCE);
        word.map_err(|error| QdiscError::Refused(error.to_string()))?;
        self.fake.batch(commands)
    }

    fn remove_root(&self, device: &str) -> Result<(), QdiscError> {
        self.fake.remove_root(device)
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_slow_target_keeps_nobody_waiting_and_its_outcome_comes_later() {
    let mut rig = Machine::new(Version::V2);
    let before = rig.show();
    let (begun, has_begun) = channel();
    let (go_on, goes_on) = channel();
    let qdiscs = WaitingQdiscs { fake: rig.qdiscs.clone(), begun, goes_on };
    let devices = Devices { cookies: Box::new(rig.cookies.clone()), qdiscs: Box::new(qdiscs) };
    let end = rig.arbiter.start_thread(devices).unwrap().unwrap();
    rig.arbiter.post("network", vec![targets::classes("eth0", 600_000_000, 2)], None);
    assert_eq!(rig.settle(), []);
    has_begun.recv_timeout(PATIENCE).unwrap();
    // While that one hangs, everything else goes on.
    rig.arbiter.post("suppress", vec![quota(TIER, 50_000)], None);
    assert_eq!(rig.settle(), [written("max 100000", "50000 100000")]);
    assert!(rig.arbiter.is_busy() && !rig.arbiter.is_clean());
    go_on.send(()).unwrap();
    let mut outcomes = Vec::new();
    until("the outcome comes", || {
        outcomes.extend(rig.settle());
        !rig.arbiter.is_busy()
    });
    assert_eq!(outcomes, [written("default", "htb")]);
    assert!(!rig.arbiter.is_busy());

    rig.arbiter.withdraw_all();
    until("everything is restored", || {
        rig.settle();
        rig.arbiter.is_clean()
    });
    assert_eq!(rig.differs(&before), [""; 0]);
    drop(rig);
    assert!(end.blocking_recv().is_err(), "it was told to end");
}

#[test]
fn wishes_that_change_while_one_is_carried_out_are_carried_out_next() {
    let mut rig = Machine::new(Version::V2);
    let (begun, has_begun) = channel();
    let (go_on, goes_on) = channel();
    let qdiscs = WaitingQdiscs { fake: rig.qdiscs.clone(), begun, goes_on };
    let devices = Devices { cookies: Box::new(rig.cookies.clone()), qdiscs: Box::new(qdiscs) };
    rig.arbiter.start_thread(devices).unwrap();
    for pods in [1, 2, 3] {
        rig.arbiter.post("network", vec![targets::classes("eth0", 600_000_000, pods)], None);
        rig.settle();
    }
    // Two are carried out: the one that was begun, and what is wanted then.
    for _ in 0..2 {
        until("one is begun", || {
            rig.settle();
            has_begun.try_recv().is_ok()
        });
        go_on.send(()).unwrap();
    }
    until("all are done", || {
        rig.settle();
        !rig.arbiter.is_busy()
    });
    let filters = rig.qdiscs.show().matches("flowid").count();
    assert_eq!(filters, 3, "{}", rig.qdiscs.show());
}

#[test]
fn a_thread_that_panics_says_so() {
    #[derive(Debug)]
    struct Panicking;
    impl Qdiscs for Panicking {
        fn root(&self, _device: &str) -> Result<Option<String>, QdiscError> {
            std::panic::resume_unwind(Box::new("no such luck"))
        }
        fn batch(&self, _commands: &str) -> Result<(), QdiscError> {
            Ok(())
        }
        fn remove_root(&self, _device: &str) -> Result<(), QdiscError> {
            Ok(())
        }
    }
    let mut rig = Machine::new(Version::V2);
    let devices =
        Devices { cookies: Box::new(FakeCookies::default()), qdiscs: Box::new(Panicking) };
    let end = rig.arbiter.start_thread(devices).unwrap().unwrap();
    rig.arbiter.post("network", vec![targets::classes("eth0", 600_000_000, 2)], None);
    rig.settle();
    let end = end.blocking_recv().unwrap();
    assert_eq!(end.to_string(), "thread slow-writes panicked: no such luck");
    assert_eq!(rig.settle(), [], "nobody else is taken along");
}

/// Cookies that take their time.
#[derive(Debug)]
struct SlowCookies(FakeCookies, Arc<AtomicUsize>);

const STEP: Duration = Duration::from_millis(5);

impl host::cookies::Cookies for SlowCookies {
    fn probe(&self) -> io::Result<()> {
        self.0.probe()
    }

    fn get(&self, process: u32) -> io::Result<host::cookies::Cookie> {
        self.0.get(process)
    }

    fn create(&self, process: u32) -> io::Result<()> {
        self.0.create(process)
    }

    fn share(&self, from: u32, to: &[u32]) -> io::Result<Vec<(u32, io::Error)>> {
        for to in to {
            std::thread::sleep(STEP);
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.share(from, &[*to])?;
        }
        Ok(Vec::new())
    }

    fn clear(&self, processes: &[u32]) -> io::Result<Vec<(u32, io::Error)>> {
        self.0.clear(processes)
    }
}

/// A machine whose pod has many processes, each of which takes a while.
fn crowded() -> (Machine, Arc<AtomicUsize>, Devices) {
    let rig = Machine::new(Version::V2);
    let many: Vec<u32> = (1_000..2_000).collect();
    let list: String = many.iter().map(|id| format!("{id}\n")).collect();
    for id in &many {
        rig.cookies.start(*id, 0);
    }
    rig.fake.set(format!("sys/fs/cgroup/{POD}/main/cgroup.procs"), list.clone());
    rig.fake.set(format!("sys/fs/cgroup/{POD}/main/cgroup.threads"), list);
    let count = Arc::new(AtomicUsize::new(0));
    let cookies = SlowCookies(rig.cookies.clone(), count.clone());
    let devices =
        Devices { cookies: Box::new(cookies), qdiscs: Box::new(FakeQdiscs::of(&["eth0"])) };
    (rig, count, devices)
}

#[test]
fn an_order_that_takes_too_long_goes_on_later() {
    let (mut rig, count, devices) = crowded();
    let mut writer = Writer::slow(&rig.arbiter.tree, devices, &rig.arbiter.ledger);
    let wish = targets::cookie("", &[POD]);
    let claims = vec![Claim { owner: "a", rank: wish.rank, bound: wish.bound.clone() }];
    let order = Order { target: wish.target.clone(), claims, is_theirs: false };
    let limit = TimeLimit::new(STEP * 100, &Arc::default());
    let report = writer.settle(vec![order.clone()], &limit).remove(0);
    assert!(
        matches!(report.result, WriteOutcome::Refused { is_unfinished: true, .. }),
        "{report:?}"
    );
    let first = count.load(Ordering::Relaxed);
    assert!((1..999).contains(&first), "{first} of 999");
    let report = writer.settle(vec![order], &TimeLimit::default()).remove(0);
    assert!(matches!(report.result, WriteOutcome::Done { wrote: Some(_), .. }), "{report:?}");
    assert_eq!(count.load(Ordering::Relaxed), 999, "nobody twice");
    let shared = rig.cookies.all().into_iter().filter(|(id, _)| *id >= 1_000);
    assert_eq!(
        shared.map(|(_, cookie)| cookie).collect::<std::collections::BTreeSet<_>>().len(),
        1
    );
    rig.settle();
}

#[test]
fn nobody_writes_once_the_arbiter_is_gone() {
    let (mut rig, count, devices) = crowded();
    rig.arbiter.start_thread(devices).unwrap();
    let wishes = vec![targets::cookie("", &[POD]), targets::cache("BE", "L3:0=f;1=f\n", &[POD])];
    rig.arbiter.post("all", wishes, None);
    rig.settle();
    until("it has begun", || count.load(Ordering::Relaxed) > 0);
    let start = Instant::now();
    drop(rig);
    let after = count.load(Ordering::Relaxed);
    assert!(start.elapsed() < STEP * 999, "the order is not waited for to its end");
    std::thread::sleep(STEP * 10);
    assert_eq!(count.load(Ordering::Relaxed), after);
    assert!(after < 999, "{after}");
}
