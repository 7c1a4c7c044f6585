//! The scheduler as one value: changes go in, attempts come out.
//!
//! One task owns it. It never waits, never asks a clock and never talks to anybody: the process
//! around it applies what the API server reports, asks for the next attempt, carries it out and
//! reports back how that went.
//!
//! ```text
//! apply(change) ------> snapshot, queue
//! next() -> Attempt --> Place:  patch, bind, then bound() or bind_failed()
//!                       Reject: events, status; evict victims, then preempted()
//! tick(), wake_at() --> back-offs and long waits
//! ```

mod apply;
mod attempt;
mod change;
mod consult;
mod facts;
mod policy;
mod turn;
mod why;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

pub use attempt::{
    Answer, Ask, AskRoom, Attempt, BindFailure, Nominate, Outcome, Place, Placement, PodClaim,
    PodRef, Ranked, Reject, RoomOffer, Victim, VictimRef, VolumeWork,
};
pub use change::{Change, Key, Update};
pub use consult::{Consult, EXTENDER};

use crate::cycle::Choice;
use crate::framework::{BuildError, Framework};
use crate::lap::{Clock, Lap};
use crate::model::{Class, Symbol};
use crate::plugin::{Event, Subject};
use crate::plugins::TABLE;
use crate::preempt::{Budgets, Ledgers};
use crate::profile::{Point, Profile};
use crate::queue::{self, Actions, Backoff, Interests, Nominator, Queue, Resource, Uid};
use crate::snapshot::{NodeIx, Phase, PodIx, Snapshot};
use crate::standing::cache::Standings;
use crate::standing::pass::Pass;
use crate::time::Time;
use policy::Policy;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Decides between equal nodes.
    pub seed: u64,
    pub initial_backoff: Duration,
    pub max_backoff: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 0,
            initial_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(10),
        }
    }
}

/// Why profiles cannot be scheduled with.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    #[error("no profile is given")]
    Empty,
    #[error("profile {name} is given twice")]
    Twice { name: String },
    #[error("profile {profile} cannot be used")]
    Build { profile: String, source: BuildError },
}

/// A decision that is remembered for explanations.
#[derive(Debug, Clone)]
struct Kept {
    choice: Choice,
}

/// The latest placements, a bounded number of them.
#[derive(Debug, Default)]
struct Placements {
    by_uid: HashMap<Uid, Kept>,
    order: VecDeque<Uid>,
}

impl Placements {
    const MOST: usize = 4096;

    fn insert(&mut self, uid: &Uid, kept: Kept) {
        if self.by_uid.insert(Arc::clone(uid), kept).is_none() {
            self.order.push_back(Arc::clone(uid));
        }
        while self.order.len() > Self::MOST {
            if let Some(oldest) = self.order.pop_front() {
                self.by_uid.remove(&oldest);
            }
        }
    }

    /// Its place in the order stays until it is the oldest.
    fn remove(&mut self, uid: &Uid) {
        self.by_uid.remove(uid);
    }
}

#[derive(Debug)]
pub struct Scheduler {
    options: Options,
    snapshot: Snapshot,
    frameworks: Vec<Framework>,
    /// Profiles by scheduler name.
    profiles: HashMap<Symbol, usize>,
    queue: Queue<Subject>,
    nominator: Nominator<Symbol>,
    standings: Standings,
    pass: Pass,
    budgets: Budgets,
    ledgers: Ledgers,
    /// Pods whose victims are being told to go.
    preempting: HashSet<Uid>,
    placements: Placements,
    touched: Vec<NodeIx>,
    /// Pods that gave up a promise: the room kept for them is there for others, who must be told.
    released: Vec<Arc<Class>>,
    /// Whom others have a say about; `None` when nobody is asked.
    consulted: Option<consult::Consulted>,
}

impl Scheduler {
    pub fn new(profiles: Vec<Profile>, options: Options) -> Result<Self, ProfileError> {
        if profiles.is_empty() {
            return Err(ProfileError::Empty);
        }
        let mut snapshot = Snapshot::default();
        let mut frameworks = Vec::new();
        let mut by_name = HashMap::new();
        for profile in profiles {
            let name = profile.scheduler_name.clone();
            let framework = Framework::new(&profile, &mut snapshot)
                .map_err(|source| ProfileError::Build { profile: name.clone(), source })?;
            if by_name.insert(snapshot.names.intern(&name), frameworks.len()).is_some() {
                return Err(ProfileError::Twice { name });
            }
            frameworks.push(framework);
        }
        let backoff = Backoff { initial: options.initial_backoff, max: options.max_backoff };
        let interests = Interests::new(TABLE.iter().map(|row| row.wakes));
        Ok(Self {
            options,
            snapshot,
            frameworks,
            profiles: by_name,
            queue: Queue::new(interests, backoff),
            nominator: Nominator::default(),
            standings: Standings::new(options.seed),
            pass: Pass::default(),
            budgets: Budgets::default(),
            ledgers: Ledgers::default(),
            preempting: HashSet::new(),
            placements: Placements::default(),
            touched: Vec::new(),
            released: Vec::new(),
            consulted: None,
        })
    }

    /// When [`tick`](Self::tick) has something to do next.
    pub fn wake_at(&self, now: Time) -> Option<Time> {
        let facts = self.snapshot.extras.wake_at();
        self.queue.wake_at(now).into_iter().chain(facts).min()
    }

    /// Ends back-offs and long waits that are over.
    pub fn tick(&mut self, now: Time) {
        self.expire(now);
        let (queue, policy) = self.queue_and_policy();
        queue.tick(&policy, now);
    }

    /// Times what plugins do from now on, until [`take_laps`](Self::take_laps).
    pub fn lend_clock(&self, clock: Clock) {
        self.frameworks.iter().for_each(|framework| framework.laps.lend(clock));
    }

    /// What was timed, by profile; nothing is timed any more.
    pub fn take_laps(&self, mut each: impl FnMut(&str, Lap)) {
        for framework in &self.frameworks {
            framework.laps.take().into_iter().for_each(|lap| each(&framework.scheduler_name, lap));
        }
    }

    /// How many pods each plugin had a say about so far: profile, plugin, point.
    pub fn evaluations(&mut self) -> Vec<(String, &'static str, Point, u64)> {
        let Self { standings, snapshot, .. } = self;
        let all = standings.evaluations().iter();
        all.map(|((scheduler, plugin, point), count)| {
            (snapshot.names.text(*scheduler).to_owned(), *plugin, *point, *count)
        })
        .collect()
    }

    /// How many pods came into each part of the queue, and what brought them.
    pub fn incoming(&self) -> impl Iterator<Item = (queue::Room, queue::Cause, u64)> {
        self.queue.incoming()
    }

    /// The kinds of events held for pods that are being decided.
    pub fn held_kinds(&self) -> impl Iterator<Item = (Resource, Actions)> {
        self.queue.held_kinds()
    }

    /// How many pods wait where.
    pub fn depth(&self) -> queue::Depth {
        self.queue.depth()
    }

    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Violations of the conservation laws; none in a sane scheduler.
    pub fn check(&self) -> Vec<String> {
        let mut broken = self.snapshot.check();
        for (_, pod) in self.snapshot.pods.iter() {
            let place = self.queue.get(&pod.uid).map(|record| record.place);
            let is_queued = place.is_some();
            let is_right = match pod.phase {
                Phase::Pending => is_queued,
                Phase::Assumed => place.is_none_or(|place| place == queue::Place::Binding),
                Phase::Bound => !is_queued,
            };
            if !is_right {
                broken.push(format!(
                    "pod {} is {:?} and in the queue at {place:?}",
                    pod.name, pod.phase
                ));
            }
            let promised = self.nominator.node_of(&pod.uid).copied();
            if promised != pod.nominated {
                broken.push(format!(
                    "pod {} is promised {promised:?}, not {:?}",
                    pod.name, pod.nominated
                ));
            }
        }
        broken
    }

    /// Lets time pass for plugins whose facts grow old.
    fn expire(&mut self, now: Time) {
        self.touched.clear();
        self.snapshot.extras.expire(now, &mut self.touched);
        for node in std::mem::take(&mut self.touched) {
            self.snapshot.touch(node);
            for resource in [Resource::NodeMetric, Resource::NodeResourceTopology] {
                self.fire(Event::new(resource, Actions::OTHER, Subject::Report(node)), now);
            }
        }
    }

    fn queue_and_policy(&mut self) -> (&mut Queue<Subject>, Policy<'_>) {
        let Self { queue, snapshot, frameworks, profiles, preempting, .. } = self;
        (queue, Policy { snapshot, frameworks, profiles, preempting })
    }

    fn profile_of(&self, pod: PodIx) -> usize {
        let scheduler = self.snapshot.pods.get(pod).map(|pod| pod.class.scheduler);
        scheduler.and_then(|name| self.profiles.get(&name)).copied().unwrap_or(0)
    }

    fn is_gated(&self, uid: &Uid) -> bool {
        self.queue.get(uid).is_some_and(|one| matches!(one.place, queue::Place::Gated(_)))
    }

    /// Promises a pod room on a node.
    fn promise(&mut self, pod: PodIx, node: Symbol) {
        let promised = self.snapshot.pods.get(pod).and_then(|found| found.nominated);
        if promised == Some(node) {
            self.withdraw(pod);
        } else {
            self.release(pod);
        }
        if let Some(found) = self.snapshot.pods.get_mut(pod) {
            found.nominated = Some(node);
            self.nominator.nominate(&found.uid, found.class.priority, node);
            let class = Arc::clone(&found.class);
            self.snapshot.extras.company.expect(pod, &class);
        }
        self.touch_named(node);
    }

    /// Takes a promise back, to the benefit of others; says whether there was one.
    fn release(&mut self, pod: PodIx) -> bool {
        let was_promised = self.withdraw(pod);
        if let Some(found) = self.snapshot.pods.get(pod).filter(|_| was_promised) {
            self.released.push(Arc::clone(&found.class));
        }
        was_promised
    }

    /// Tells waiting pods of room that was kept for others.
    fn tell_released(&mut self, now: Time) {
        for class in std::mem::take(&mut self.released) {
            self.pod_event(Actions::DELETE, Some(class), None, now);
        }
    }

    /// Takes a promise back; says whether there was one.
    fn withdraw(&mut self, pod: PodIx) -> bool {
        let Some(found) = self.snapshot.pods.get_mut(pod) else { return false };
        found.nominated = None;
        let node = self.nominator.withdraw(&found.uid);
        if let Some(node) = node {
            self.snapshot.extras.company.unexpect(pod);
            self.touch_named(node);
        }
        node.is_some()
    }

    /// What is promised on a node counts when its pods are weighed.
    fn touch_named(&mut self, node: Symbol) {
        if let Some(node) = self.snapshot.node_by_name(node) {
            self.snapshot.touch(node);
        }
    }
}
