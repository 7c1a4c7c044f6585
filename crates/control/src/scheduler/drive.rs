//! One task owns the engine.
//!
//! ```text
//!  watches ──changes──> ┌────────┐ ──attempt──> bind, tell, evict: tasks, bounded
//!  questions ─────────> │ engine │ <──outcome──────────┘
//!  time ──────────────> └────────┘
//! ```
//!
//! Nothing is decided before the first lists of all kinds have been worked through, nor where the
//! lease is not held. Outcomes come before news, and news before decisions: a decision is made on
//! everything that has arrived. When as many pods are on their way to a node as may be at once,
//! deciding waits.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::protocol::event::action;
use api::protocol::event::{FAILED_SCHEDULING, PREEMPTED, SCHEDULED};
use reconcile::elect::Leadership;
use reconcile::record::Recorder;
use sched::Time;
use sched::scheduler::{
    Answer, AskRoom, Attempt, BindFailure, Change, Nominate, Outcome, Place, PodRef, Reject,
    RoomOffer, Scheduler,
};
use sched::verdict::Rejection;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::act::{Hands, Task};
use super::barrier::{self, Barrier};
use super::debug::Question;
use super::extender::{Extenders, Objects};
use super::feed::{self, Item, KINDS};
use super::instruments::Instruments;
use super::monitor::Monitor;
use super::notes::note;
use super::pending::Pending;
use super::sample::{self, Sample};
use super::versions::Versions;
use crate::Clock;

/// Decisions in one go, before news are looked at again.
const DECISIONS: usize = 64;
/// The longest time for them.
const SPELL: Duration = Duration::from_millis(5);
/// News in one go.
const NEWS: usize = 1_024;
/// Status writes at once.
const TELLS: usize = 32;
/// How often sizes and late pods are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long work under way may take once we are told to stop.
const GRACE: Duration = Duration::from_secs(5);
const SCHEDULING: &str = "Scheduling";
const PREEMPTING: &str = "Preempting";

/// What was carried out.
#[derive(Debug)]
enum Done {
    Bound {
        attempt: Box<Attempt>,
        result: Result<(), BindFailure>,
    },
    /// Extenders have spoken about nodes.
    Judged {
        uid: Arc<str>,
        answer: Answer,
    },
    /// Extenders have spoken about nodes to be cleared.
    Agreed {
        uid: Arc<str>,
        why: Box<Rejection>,
        kept: Result<Vec<RoomOffer>, String>,
    },
    /// The sync barrier is written; `None` when it could not be.
    Barrier {
        version: Option<String>,
    },
    Told {
        uid: Arc<str>,
        arrived: bool,
    },
    Preempted {
        uid: Arc<str>,
        /// Victims whose deletion was taken.
        leaving: Vec<Arc<str>>,
        is_done: bool,
        took: Duration,
    },
}

/// What a driver is made of.
pub(super) struct Parts {
    pub(super) engine: Scheduler,
    pub(super) hands: Hands,
    pub(super) notes: Recorder,
    pub(super) instruments: Instruments,
    pub(super) clock: Clock,
    pub(super) leadership: Leadership,
    pub(super) monitor: Monitor,
    /// Pods on their way at once.
    pub(super) bindings: usize,
    pub(super) is_synced: watch::Sender<bool>,
    pub(super) extenders: Arc<Extenders>,
    pub(super) barrier: Barrier,
    /// The lease this process leads by.
    pub(super) lease: String,
}

pub(super) struct Driver {
    parts: Parts,
    pending: Pending,
    work: JoinSet<Done>,
    /// Kinds whose first list has been worked through.
    listed: usize,
    /// Pods on their way.
    binding: usize,
    telling: HashSet<Arc<str>>,
    /// What to tell pods that are being told something else, or wait for their turn.
    untold: HashMap<Arc<str>, (PodRef, Value)>,
    /// The engine had nothing to decide when it was last asked.
    is_idle: bool,
    /// When sizes and late pods are looked at next.
    look_again: Time,
    /// What extenders want to see.
    objects: Objects,
    versions: Versions,
    /// Which attempts and which changes are timed.
    attempts: Sample,
    changes: Sample,
}

/// Lets others run at least once.
async fn pause(rest: Duration) {
    match rest.is_zero() {
        true => tokio::task::yield_now().await,
        false => tokio::time::sleep(rest).await,
    }
}

impl Driver {
    pub(super) fn new(parts: Parts) -> Self {
        Self {
            objects: Objects::new(&parts.extenders),
            versions: Versions::default(),
            attempts: Sample::default(),
            changes: Sample::default(),
            parts,
            pending: Pending::default(),
            work: JoinSet::new(),
            listed: 0,
            binding: 0,
            telling: HashSet::new(),
            untold: HashMap::new(),
            is_idle: true,
            look_again: Time::ZERO,
        }
    }

    fn now(&self) -> Time {
        Time(i64::try_from(self.parts.clock.now().as_nanosecond()).unwrap_or(i64::MAX))
    }

    /// Runs until told to stop, then finishes what is under way.
    pub(super) async fn run(
        mut self,
        mut items: mpsc::Receiver<Item>,
        mut questions: mpsc::Receiver<Question>,
        stop: CancellationToken,
    ) {
        loop {
            self.keep_time();
            let may_decide = self.may_decide();
            if may_decide {
                self.decide();
            }
            let rest = if may_decide { self.rest() } else { LOOK };
            let mut leadership = self.parts.leadership.clone();
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(done) = self.work.join_next() => {
                    if let Ok(done) = done {
                        self.finish(done);
                    }
                }
                Some(question) = questions.recv() => question.answer(&mut self.parts.engine),
                Some(item) = items.recv() => self.hear(item, &mut items),
                () = leadership.until_held(), if !self.parts.leadership.is_held() => {}
                () = pause(rest) => {}
            }
        }
        let finishing = async {
            while let Some(done) = self.work.join_next().await {
                if let Ok(done) = done {
                    self.finish(done);
                }
            }
        };
        if timeout(GRACE, finishing).await.is_err() {
            warn!("work under way takes too long and is left behind");
        }
    }

    /// Is everything known that must be, and is it ours to decide?
    fn may_decide(&mut self) -> bool {
        if self.listed < KINDS || !self.parts.leadership.is_held() {
            return false;
        }
        if self.parts.barrier.begin(self.now()) {
            let (client, lease) =
                (self.parts.hands.writer.client.clone(), self.parts.lease.clone());
            let (settings, now) = (self.parts.barrier.settings(), self.parts.clock.now());
            self.work.spawn(async move {
                Done::Barrier { version: barrier::write(client, settings, lease, now).await }
            });
        }
        self.parts.barrier.is_passed()
    }

    /// How long nothing is due.
    fn rest(&self) -> Duration {
        if !self.is_idle && self.binding < self.parts.bindings {
            return Duration::ZERO;
        }
        let now = self.now();
        let due = self.parts.engine.wake_at(now);
        due.map_or(LOOK, |at| at.since(now).clamp(Duration::from_millis(1), LOOK))
    }

    /// Ends what is over, and looks around once a second.
    fn keep_time(&mut self) {
        let now = self.now();
        if self.parts.engine.wake_at(now).is_some_and(|at| at <= now) {
            self.parts.engine.tick(now);
            self.is_idle = false;
        }
        if now < self.look_again {
            return;
        }
        self.look_again = now + LOOK;
        self.parts.barrier.tick(now);
        for profile in self.parts.monitor.look(now) {
            self.parts.instruments.timeouts.with_label_values(&[profile.as_str()]).inc();
        }
        self.measure();
    }

    fn measure(&mut self) {
        self.parts.instruments.fetch(&mut self.parts.engine);
        let (snapshot, depth) = (self.parts.engine.snapshot(), self.parts.engine.depth());
        let nodes = usize::try_from(snapshot.live()).unwrap_or(usize::MAX);
        self.parts.instruments.sizes(
            &[
                ("active", depth.active),
                ("backoff", depth.backoff),
                ("unschedulable", depth.unschedulable),
                ("gated", depth.gated),
            ],
            &[("pods", snapshot.pods.len()), ("nodes", nodes), ("assumed_pods", self.binding)],
        );
        let running = i64::try_from(self.work.len()).unwrap_or(i64::MAX);
        self.parts.instruments.tasks.with_label_values(&["binding"]).set(running);
    }

    /// One piece of news, and those that have arrived behind it.
    fn hear(&mut self, first: Item, items: &mut mpsc::Receiver<Item>) {
        let now = self.now();
        let mut next = Some(first);
        let mut count = 0;
        while let Some(item) = next {
            match item {
                Item::Change(change) => self.apply(change, now),
                Item::Listed => {
                    self.listed += 1;
                    if self.listed == KINDS {
                        info!("everything that exists is known");
                        self.parts.is_synced.send_replace(true);
                    }
                }
            }
            count += 1;
            next = if count < NEWS { items.try_recv().ok() } else { None };
        }
        self.is_idle = false;
    }

    fn apply(&mut self, change: Change, now: Time) {
        if let Change::Pod(update) = &change
            && let Some((profile, plugins)) = self.pending.see(update, now)
        {
            self.parts.instruments.held_back(plugins, &profile, -1);
        }
        self.objects.see(&change);
        self.versions.see(&change);
        self.parts.barrier.see(&change);
        let is_timed = self.changes.is_due();
        self.changes.count();
        if !is_timed {
            self.parts.engine.apply(change, now);
            return;
        }
        let (event, start) = (feed::label(&change), Instant::now());
        self.parts.engine.lend_clock(sample::clock);
        self.parts.engine.apply(change, now);
        self.parts.instruments.heard(event, start.elapsed());
        self.take_laps();
    }

    fn take_laps(&self) {
        let Parts { engine, instruments, .. } = &self.parts;
        engine.take_laps(|profile, lap| instruments.timed(profile, &lap));
    }

    /// Decides for a while.
    fn decide(&mut self) {
        let begin = Instant::now();
        for _ in 0..DECISIONS {
            if self.binding >= self.parts.bindings || begin.elapsed() > SPELL {
                return;
            }
            let is_timed = self.attempts.is_due();
            if is_timed {
                self.parts.engine.lend_clock(sample::clock);
            }
            let (now, start) = (self.now(), Instant::now());
            let attempt = self.parts.engine.next(now);
            let took = start.elapsed();
            if is_timed {
                self.take_laps();
            }
            let Some(attempt) = attempt else {
                self.is_idle = true;
                return;
            };
            self.attempts.count();
            self.parts.instruments.attempted(&attempt, took);
            self.carry_out(attempt, now);
        }
    }

    fn carry_out(&mut self, attempt: Attempt, now: Time) {
        match &attempt.outcome {
            Outcome::Skip { reason } => debug!(pod = attempt.pod.name, reason, "skipped a pod"),
            Outcome::Place(_) => self.place(attempt, now),
            Outcome::Reject(_) => self.reject(attempt),
            Outcome::Ask(_) | Outcome::AskRoom(_) => self.consult(attempt),
        }
    }

    /// Asks extenders; the pod waits for their answer, others do not.
    fn consult(&mut self, attempt: Attempt) {
        let uid = attempt.pod.uid;
        let (pod, extenders) = (self.objects.pod(&uid), self.parts.extenders.clone());
        let unknown = "the pod is not known in full yet";
        self.binding += 1;
        match attempt.outcome {
            Outcome::Ask(ask) => {
                let nodes = self.objects.nodes(&ask.nodes);
                self.work.spawn(async move {
                    let answer = match pod {
                        Some(pod) => extenders.judge(&pod, ask.nodes, nodes).await,
                        None => Answer::Failed(unknown.to_owned()),
                    };
                    Done::Judged { uid, answer }
                });
            }
            Outcome::AskRoom(ask) => {
                let AskRoom { why, rooms } = *ask;
                let victims = self.objects.victims(&rooms);
                self.work.spawn(async move {
                    let kept = match pod {
                        Some(pod) => extenders.agree(&pod, rooms, &victims).await,
                        None => Err(unknown.to_owned()),
                    };
                    Done::Agreed { uid, why: Box::new(why), kept }
                });
            }
            Outcome::Place(_) | Outcome::Reject(_) | Outcome::Skip { .. } => self.binding -= 1,
        }
    }

    /// Goes on with a pod extenders were asked about.
    fn resume(&mut self, now: Time, go_on: impl FnOnce(&mut Scheduler) -> Option<Attempt>) {
        self.binding = self.binding.saturating_sub(1);
        self.parts.notes.set_busy(self.binding > 0);
        let start = Instant::now();
        if let Some(attempt) = go_on(&mut self.parts.engine) {
            self.parts.instruments.attempted(&attempt, start.elapsed());
            self.carry_out(attempt, now);
        }
    }

    fn place(&mut self, attempt: Attempt, now: Time) {
        self.parts.monitor.begin(&attempt, now);
        self.binding += 1;
        self.parts.notes.set_busy(true);
        let hands = self.parts.hands.clone();
        let object = self.objects.pod(&attempt.pod.uid);
        let binder = object.and_then(|pod| self.parts.extenders.binder(&pod));
        let seen = self.versions.of(&attempt.pod.uid, &attempt.scheduler_name);
        self.work.spawn(async move {
            let result = match &attempt.outcome {
                Outcome::Place(place) => {
                    let Place { node, patch, volumes, .. } = &**place;
                    let (pod, profile) = (&attempt.pod, attempt.scheduler_name.as_str());
                    let seen = seen.as_deref();
                    hands.place(&Task { pod, seen, profile, node, patch, volumes, binder }).await
                }
                _ => Ok(()),
            };
            Done::Bound { attempt: Box::new(attempt), result }
        });
    }

    fn reject(&mut self, attempt: Attempt) {
        let Attempt { pod, scheduler_name, outcome, .. } = attempt;
        let Outcome::Reject(reject) = outcome else { return };
        let Reject { why, nominate, victims, unnominated } = *reject;
        let before = self.pending.hold(&pod.uid, &scheduler_name, &why.plugins);
        if let Some((profile, plugins)) = before {
            self.parts.instruments.held_back(plugins, &profile, -1);
        }
        self.parts.instruments.held_back(why.plugins.iter().copied(), &scheduler_name, 1);
        // A cluster without nodes is no fault of the scheduler.
        let is_fault = why.is_error && why.nodes > 0;
        let reason = if is_fault { "SchedulerError" } else { "Unschedulable" };
        self.complain(&pod, &scheduler_name, reason, &why.message(), &nominate);
        for other in unnominated {
            if let Some(status) = self.pending.unnominate(&other.uid) {
                self.tell(other, status);
            }
        }
        if victims.is_empty() {
            return;
        }
        let node = match nominate {
            Nominate::Set(node) => node,
            Nominate::Leave | Nominate::Clear => String::new(),
        };
        let (hands, notes, clock) =
            (self.parts.hands.clone(), self.parts.notes.clone(), self.parts.clock.clone());
        self.work.spawn(async move {
            let (start, mut is_done, mut leaving) = (Instant::now(), true, Vec::new());
            for victim in victims.iter().filter(|victim| !victim.is_terminating) {
                if hands.evict(victim, &scheduler_name, clock.now()).await {
                    info!(pod = victim.pod.name, node, preemptor = pod.name, "preempted a pod");
                    leaving.push(victim.pod.uid.clone());
                    let text = format!("Preempted by pod {} on node {node}", pod.uid);
                    let profile = scheduler_name.clone();
                    notes.send(note(&victim.pod, profile, false, PREEMPTED, PREEMPTING, text));
                } else {
                    is_done = false;
                }
            }
            Done::Preempted { uid: pod.uid, leaving, is_done, took: start.elapsed() }
        });
    }

    /// Says in status and event why a pod waits.
    fn complain(
        &mut self,
        pod: &PodRef,
        profile: &str,
        reason: &str,
        message: &str,
        nominate: &Nominate,
    ) {
        let (own, text) = (profile.to_owned(), message.to_owned());
        self.parts.notes.send(note(pod, own, true, FAILED_SCHEDULING, SCHEDULING, text));
        let now = self.parts.clock.now();
        if let Some(status) = self.pending.news(&pod.uid, reason, message, nominate, now) {
            self.tell(pod.clone(), status);
        }
    }

    /// Writes a status, or keeps it until the one before is written.
    fn tell(&mut self, pod: PodRef, status: Value) {
        if self.telling.len() >= TELLS || self.telling.contains(&pod.uid) {
            let (_, kept) = self.untold.entry(pod.uid.clone()).or_insert((pod, Value::Null));
            match (kept, status) {
                (Value::Object(kept), Value::Object(more)) => kept.extend(more),
                (kept, status) => *kept = status,
            }
            return;
        }
        self.telling.insert(pod.uid.clone());
        let hands = self.parts.hands.clone();
        self.work.spawn(async move {
            let arrived = hands.tell(&pod, &status).await;
            Done::Told { uid: pod.uid, arrived }
        });
    }

    fn finish(&mut self, done: Done) {
        let now = self.now();
        self.is_idle = false;
        match done {
            Done::Told { uid, arrived } => {
                self.telling.remove(&uid);
                if !arrived {
                    self.pending.forget(&uid);
                }
                let next = match self.untold.contains_key(&uid) {
                    true => Some(uid),
                    false => self.untold.keys().find(|uid| !self.telling.contains(*uid)).cloned(),
                };
                if let Some((pod, status)) = next.and_then(|uid| self.untold.remove(&uid)) {
                    self.tell(pod, status);
                }
            }
            Done::Preempted { uid, leaving, is_done, took } => {
                self.parts.instruments.preempted(is_done, took);
                for victim in leaving {
                    self.parts.engine.leaving(&victim, now);
                }
                self.parts.engine.preempted(&uid, now);
            }
            Done::Judged { uid, answer } => {
                self.resume(now, |engine| engine.answer(&uid, answer, now));
            }
            Done::Agreed { uid, why, kept } => {
                self.resume(now, |engine| engine.answer_room(&uid, *why, kept, now));
            }
            Done::Barrier { version } => {
                if let Some(version) = version {
                    self.parts.barrier.written(version);
                }
            }
            Done::Bound { attempt, result } => self.settle(*attempt, result, now),
        }
    }

    fn settle(&mut self, attempt: Attempt, result: Result<(), BindFailure>, now: Time) {
        self.binding = self.binding.saturating_sub(1);
        self.parts.notes.set_busy(self.binding > 0);
        let Attempt { pod, scheduler_name, attempts, outcome } = attempt;
        self.parts.monitor.end(&pod.uid, now);
        let Outcome::Place(place) = outcome else { return };
        let word = match &result {
            Ok(()) => "bound",
            Err(BindFailure::Error(_)) => "error",
            Err(BindFailure::Rejected { .. }) => "rejected",
            Err(BindFailure::Gone) => "gone",
        };
        self.parts.instruments.bindings.with_label_values(&[word]).inc();
        let name = format!("{}/{}", pod.namespace, pod.name);
        match result {
            Ok(()) => {
                let waited = self.pending.waited(&pod.uid, now).unwrap_or_default();
                self.parts.instruments.placed(attempts, waited);
                self.parts.engine.bound(&pod.uid, now);
                debug!(pod = name, node = place.node, "bound a pod");
                let text = format!("Successfully assigned {name} to {}", place.node);
                let binding = action::BINDING;
                self.parts.notes.send(note(&pod, scheduler_name, false, SCHEDULED, binding, text));
            }
            Err(failure) => {
                warn!(pod = name, node = place.node, ?failure, "cannot bind a pod");
                let reason = match &failure {
                    BindFailure::Error(text) => Some(("SchedulerError", text.clone())),
                    BindFailure::Rejected { reason, .. } => Some(("Unschedulable", reason.clone())),
                    BindFailure::Gone => None,
                };
                self.parts.engine.bind_failed(&pod.uid, failure, now);
                if let Some((reason, text)) = reason {
                    self.complain(&pod, &scheduler_name, reason, &text, &Nominate::Clear);
                }
            }
        }
    }
}
