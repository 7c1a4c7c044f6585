//! Does a pod that fits ever wait in vain?
//!
//! A random cluster lives: nodes come, go, are relabelled, tainted, cordoned and resized; pods with
//! all sorts of wishes come, finish, are evicted, fail to bind. After every event the scheduler is
//! driven until it has nothing to do. A pod that would be placed if only it were tried must then be
//! tried within one back-off. Now and then a scheduler that has just read everything is asked, too.

#![expect(clippy::disallowed_methods, reason = "tests read files and settings")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

mod random;
mod world;

use std::time::Duration;

use sched::Time;
use sched::explain::State;
use sched::profile::Profile;
use sched::scheduler::{
    Attempt, BindFailure, Change, Nominate, Options, Outcome, Scheduler, Update,
};

use random::Random;
use world::World;

const EVENTS: u64 = 500;

struct Cluster {
    world: World,
    scheduler: Scheduler,
    random: Random,
    now: Time,
    /// Placed pods the API server has not confirmed yet, with their nodes.
    unconfirmed: Vec<(String, String)>,
    may_fail: bool,
    attempts: u64,
    /// The changes of the latest event.
    latest: Vec<String>,
}

fn scheduler() -> Scheduler {
    let profile = Profile::of_defaults("default-scheduler");
    Scheduler::new(vec![profile], Options::default()).unwrap()
}

impl Cluster {
    fn new(seed: u64) -> Self {
        Self {
            world: World::default(),
            scheduler: scheduler(),
            random: Random(seed),
            now: Time::from_secs(1_000_000),
            unconfirmed: Vec::new(),
            may_fail: true,
            attempts: 0,
            latest: Vec::new(),
        }
    }

    fn apply(&mut self, change: Change) {
        self.latest.push(world::brief(&change));
        self.scheduler.apply(change, self.now);
    }

    fn show_pod(&mut self, uid: &str) {
        if let Some(pod) = self.world.pods.get(uid) {
            let change = Change::Pod(Update::Upsert(pod.clone()));
            self.apply(change);
        }
    }

    /// One thing happens.
    fn event(&mut self) {
        self.now = self.now + Duration::from_millis(self.random.below(1_500));
        self.scheduler.tick(self.now);
        self.latest.clear();
        if self.random.one_in(3) && !self.unconfirmed.is_empty() {
            self.confirm();
        }
        for change in self.world.step(&mut self.random) {
            self.apply(change);
        }
    }

    fn confirm(&mut self) {
        let at = self.random.index(self.unconfirmed.len());
        let (uid, node) = self.unconfirmed.swap_remove(at);
        if self.world.bind(&uid, &node) {
            self.show_pod(&uid);
            self.scheduler.bound(&uid, self.now);
        } else {
            self.scheduler.bind_failed(&uid, BindFailure::Gone, self.now);
        }
    }

    /// Carries out attempts until there are none.
    fn drain(&mut self, seed: u64) {
        for turn in 0.. {
            assert!(turn < 2_000, "seed {seed}: the scheduler does not come to rest");
            let Some(attempt) = self.scheduler.next(self.now) else { return };
            self.attempts += 1;
            self.carry_out(attempt);
        }
    }

    fn carry_out(&mut self, attempt: Attempt) {
        let uid = attempt.pod.uid.to_string();
        match attempt.outcome {
            Outcome::Skip { .. } => {}
            Outcome::Ask(_) | Outcome::AskRoom(_) => panic!("nobody is asked"),
            Outcome::Place(place) => {
                self.unconfirmed.push((uid.clone(), place.node));
                if self.may_fail && self.random.one_in(12) {
                    self.unconfirmed.pop();
                    let failure = BindFailure::Error("injected".to_owned());
                    self.scheduler.bind_failed(&uid, failure, self.now);
                    // A process says with the failure that nothing is promised any more.
                    self.nominate(&uid, None);
                } else if self.random.one_in(2) {
                    let last = self.unconfirmed.len() - 1;
                    self.unconfirmed.swap(0, last);
                    self.confirm();
                }
            }
            Outcome::Reject(reject) => {
                match reject.nominate {
                    Nominate::Leave => {}
                    Nominate::Clear => self.nominate(&uid, None),
                    Nominate::Set(node) => self.nominate(&uid, Some(node)),
                }
                for pod in reject.unnominated {
                    self.nominate(&pod.uid, None);
                }
                for victim in reject.victims.iter().filter(|victim| !victim.is_terminating) {
                    if self.world.evict(&victim.pod.uid) {
                        self.show_pod(&victim.pod.uid);
                    }
                }
                self.scheduler.preempted(&uid, self.now);
            }
        }
    }

    fn nominate(&mut self, uid: &str, node: Option<String>) {
        if self.world.nominate(uid, node) {
            self.show_pod(uid);
        }
    }

    /// A placed pod is company for others once the API server shows it on its node.
    fn confirm_all(&mut self, seed: u64) {
        while !self.unconfirmed.is_empty() {
            self.confirm();
            self.drain(seed);
        }
    }

    /// Waiting pods that would be placed if it were their turn.
    fn ready(&mut self) -> Vec<String> {
        let waiting = self.world.waiting();
        let assumed = |uid: &str| self.unconfirmed.iter().any(|(one, _)| one == uid);
        let waiting: Vec<_> = waiting.into_iter().filter(|(uid, ..)| !assumed(uid)).collect();
        let mut ready = Vec::new();
        for (uid, namespace, name) in waiting {
            let explanation = self.scheduler.explain(&namespace, &name);
            if matches!(explanation.map(|one| one.state), Some(State::Ready(_))) {
                ready.push(uid);
            }
        }
        ready
    }

    /// Whoever is ready and was not tried must be tried within a back-off.
    fn nobody_waits_in_vain(&mut self, seed: u64, event: u64) {
        if self.ready().is_empty() {
            return;
        }
        self.may_fail = false;
        self.confirm_all(seed);
        let ready = self.ready();
        let limit = self.now + Duration::from_secs(12);
        while let Some(wake) = self.scheduler.wake_at(self.now).filter(|at| *at <= limit) {
            self.now = wake.max(self.now + Duration::from_nanos(1));
            self.scheduler.tick(self.now);
            self.drain(seed);
        }
        self.may_fail = true;
        let still = self.ready();
        let forgotten: Vec<_> = ready.iter().filter(|uid| still.contains(uid)).collect();
        assert!(
            forgotten.is_empty(),
            "seed {seed}, event {event}: {forgotten:?} fit and are not tried\n{}\nafter {:#?}",
            forgotten.iter().map(|uid| self.world.tell(uid)).collect::<Vec<_>>().join("\n"),
            self.latest,
        );
    }

    /// A scheduler that reads everything anew agrees on who waits and who fits.
    fn agrees_with_a_fresh_look(&mut self, seed: u64, event: u64) {
        self.confirm_all(seed);
        let mut fresh = scheduler();
        for change in self.world.everything() {
            fresh.apply(change, self.now);
        }
        for (uid, namespace, name) in self.world.waiting() {
            let lived = self.scheduler.explain(&namespace, &name).map(|one| one.state);
            let anew = fresh.explain(&namespace, &name).map(|one| one.state);
            let text = || format!("{lived:?}\n{anew:?}\n{}", self.world.tell(&uid));
            assert_eq!(
                kind(lived.as_ref()),
                kind(anew.as_ref()),
                "seed {seed}, event {event}\n{}",
                text()
            );
        }
        assert_eq!(fresh.check(), [""; 0], "seed {seed}, event {event}, fresh");
    }
}

fn kind(state: Option<&State>) -> &'static str {
    match state {
        Some(State::Gated { .. }) => "gated",
        Some(State::Waiting(_)) => "waiting",
        Some(State::Ready(_)) => "ready",
        Some(State::Placed { .. }) => "placed",
        None => "unknown",
    }
}

/// Lives one cluster; returns how many attempts it took.
fn live(seed: u64, look_every: u64) -> u64 {
    let mut cluster = Cluster::new(seed);
    for event in 0..EVENTS {
        cluster.event();
        cluster.drain(seed);
        if event % look_every == 0 {
            cluster.nobody_waits_in_vain(seed, event);
        }
        if event % 16 == 0 {
            assert_eq!(cluster.scheduler.check(), [""; 0], "seed {seed}, event {event}");
        }
        if event % 100 == 99 {
            cluster.agrees_with_a_fresh_look(seed, event);
        }
    }
    cluster.attempts
}

/// `cargo xtask test` asks for a million events and looks at every fifth: a pod that was forgotten
/// stays so until something else wakes it. A failure names its seed; `live(SEED, 5)` repeats it.
#[test]
fn no_pod_that_fits_waits_in_vain() {
    let is_whole = std::env::var_os("TIDEPOOL_TEST_LENGTH").is_some_and(|length| length == "whole");
    let (events, look_every): (u64, u64) = if is_whole { (1_000_000, 5) } else { (4_000, 1) };
    let attempts: u64 = std::thread::scope(|scope| {
        let threads = 2;
        let lives: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    let seeds = (0..events / EVENTS).filter(|seed| seed % threads == thread);
                    seeds.map(|seed| live(seed, look_every)).sum::<u64>()
                })
            })
            .collect();
        lives.into_iter().map(|one| one.join().unwrap()).sum()
    });
    assert!(attempts > events / 4, "only {attempts} attempts: the clusters are too quiet");
}
